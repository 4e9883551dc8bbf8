"""`python -m benchmarks.distributed.gathering`: what it costs that every rank has the outputs of all, by their size.

A hidden layer and an output layer are trained by two ranks on the CPU, over gloo, with a mean over samples: with
`accel.distribute`, where each rank gets all outputs and computes the whole loss, or from 1 MiB on computes that of its
rows (`deferred_outputs.py`), and as each rank would keep to its own rows, which torch's `DistributedDataParallel` does
with a loss of these rows alone. Both make the same steps. They take turns, so that what else the machine does falls on
both; the median of the steps counts.
"""

from __future__ import annotations

import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from autoaccel import runtime as accel
from benchmarks.distributed.launching import launch

RESULT = Path(__file__).parents[1] / "results" / "distributed_gathering.md"
ROWS, INPUTS, RANKS = 256, 256, 2
WIDTHS = (10, 100, 1_000, 4_000, 16_000, 50_000)
REPEATS = 15


def main() -> None:
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        ended = launch(RANKS, lambda rank: measured(rank, place), place, limit=600.0)
        if ended.problem:
            raise SystemExit(f"{ended.problem}: {(place / 'err.0').read_text()}")
        rows = json.loads((place / "found").read_text())
    RESULT.write_text(page(rows), encoding="utf-8")
    print(page(rows))


def measured(rank: int, place: Path) -> None:
    """In a rank: medians in milliseconds, by width."""
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    accel.device("cpu")
    found = []
    for width in WIDTHS:
        torch.manual_seed(0)
        x, y = torch.randn(ROWS, INPUTS), torch.randint(0, width, (ROWS,))
        mine = slice(rank * ROWS // RANKS, (rank + 1) * ROWS // RANKS)
        both = accel.distribute(_model(width))
        own = nn.parallel.DistributedDataParallel(_model(width))
        steps = _step(both, x, y), _step(own, x[mine], y[mine])
        for _ in range(3):  # the runtime wants the losses of the first backward passes to be the same on all ranks
            steps[0]()
        times: tuple[list[float], ...] = [], []
        for repeat in range(REPEATS + 2):
            for step, kept in zip(steps, times, strict=True):
                torch.distributed.barrier()
                began = time.perf_counter()
                step()
                if repeat >= 2:  # the first ones are others: buckets are made
                    kept.append((time.perf_counter() - began) * 1e3)
        found.append([width, *map(statistics.median, times)])
    if rank == 0:
        (place / "found").write_text(json.dumps(found))


def _model(width: int) -> nn.Module:
    return nn.Sequential(nn.Linear(INPUTS, INPUTS), nn.Tanh(), nn.Linear(INPUTS, width))


def _step(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> Callable[[], None]:
    optimizer = torch.optim.SGD(model.parameters(), 1e-3)

    def step() -> None:
        optimizer.zero_grad()
        loss: Any = functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()

    return step


def page(rows: list[list[float]]) -> str:
    lines = [
        "# What the outputs of all ranks cost",
        "",
        "`python -m benchmarks.distributed.gathering`, which says what is done; two CPU cores, in use by others,",
        f"a thread for each rank, torch {torch.__version__}. Batches of {ROWS} rows, float32; milliseconds of a step.",
        "",
        "| outputs of a row | outputs of a batch, MB | `accel.distribute` | each rank its own | times |",
        "|---:|---:|---:|---:|---:|",
    ]
    for width, both, own in rows:
        size = width * ROWS * 4 / 1e6
        lines.append(f"| {width:,.0f} | {size:.2f} | {both:.1f} | {own:.1f} | {both / own:.2f} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
