"""Records made by hand: what a run of a small script might have left."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from autoaccel.measure.observing.run_record import FINISHED, Entry, Loss, Pass, RunRecord


def losses(values: Sequence[float], per_step: int = 1) -> tuple[Loss, ...]:
    return tuple(Loss(float(value).hex(), float(value), at // per_step) for at, value in enumerate(values))


def entry(name: str, kind: str = "parameter", value: float = 1.0, **other: Any) -> Entry:
    """A tensor of which `value` is all that matters."""
    digest = hashlib.sha256(repr(value).encode()).hexdigest()
    made = Entry(name, kind, "torch.float32", (2, 3), digest, abs(value), (value, value))
    return replace(made, **other)


def batches(names: str) -> tuple[str, ...]:
    """`"a b c"`: three batches."""
    return tuple(names.split())


def one_pass(names: str, loader: int = 0, *, complete: bool = True, length: int | None = 3, **other: Any) -> Pass:
    return Pass(loader, length, batches(names), complete, **other)


RECORD = RunRecord(
    ending=FINISHED,
    losses=losses([0.9, 0.8, 0.7, 0.6]),
    steps=4,
    backwards=4,
    optimizers=1,
    state=(
        entry("model.fc.weight"),
        entry("model.bn.running_mean", "buffer", 0.5),
        entry("optimizer: model.fc.weight momentum_buffer", "optimizer", 0.1),
    ),
    settings={
        "optimizer group 1.lr": "0.1",
        "optimizer group 1.weight_decay": "0.01",
        "model.training": "True",
        "model.bn.training": "True",
    },
    random={"python": "p", "torch": "t"},
    passes=(one_pass("a b c"), one_pass("b c a")),
    printed=("epoch 1: acc 0.50", "epoch 2: acc 0.75, 1.2 s"),
    device="cpu",
    torch="2.13.0",
    python="3.11.7",
)
