"""`python -m benchmarks.step_overhead`; see the README beside this file."""

from __future__ import annotations

import os
import platform
import statistics
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault("AUTOACCEL_REMEMBER", "off")  # before the runtime is imported: every trial is a new one

import click
import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from autoaccel import runtime as accel
from autoaccel.runtime.amp import autocast_controller
from autoaccel.runtime.compile import compile_controller
from autoaccel.runtime.optim import fused_step

RESULTS = Path(__file__).resolve().parents[1] / "results" / "step_overhead.md"
_ROWS, _BATCH = 3200, 16
_PATIENCE = 60.0  # seconds that trials may take
_LEAST = 400  # steps before anything is timed
_Batch = tuple[torch.Tensor, torch.Tensor]


@dataclass(frozen=True, slots=True)
class Contest:
    """Two loops over the same batches, one of which has the verbs."""

    verbs: str
    plain: Callable[[], None]
    rewritten: Callable[[], None]
    steps: int  # in one pass


def contests() -> Iterator[Contest]:
    """Each verb by itself, all of them in one step, and batches that are looked up whole."""
    batches = [(torch.randn(_BATCH, 8), torch.randn(_BATCH, 1)) for _ in range(_ROWS // _BATCH)]
    single = [(each,) for each in ("autocast", "grad_scaler", "compile", "optimizer")]
    for verbs in (*single, ("autocast", "grad_scaler", "compile")):
        yield Contest(", ".join(verbs), _loop(batches), _loop(batches, *verbs), len(batches))
    x, y = torch.randn(_ROWS, 8), torch.randn(_ROWS, 1)
    loader = DataLoader(TensorDataset(x, y), batch_size=_BATCH, shuffle=True)
    prefetched = accel.prefetch(loader, "cpu")

    def sliced() -> None:
        for rows in torch.split(torch.randperm(_ROWS), _BATCH):
            x.index_select(0, rows), y.index_select(0, rows)

    def looked_up() -> None:
        for _ in prefetched:
            pass

    yield Contest("prefetch of data in memory, against slices of a permutation", sliced, looked_up, len(batches))


def _loop(batches: Iterable[_Batch], *verbs: str) -> Callable[[], None]:
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 1))
    optimizer: Any = torch.optim.Adam(model.parameters(), lr=1e-3)
    if "optimizer" in verbs:
        optimizer = accel.optimizer(optimizer)
    if "compile" in verbs:
        accel.compile(model, steps=_ROWS)
    scaler = accel.grad_scaler(optimizer) if "grad_scaler" in verbs else None

    def loss_of(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return functional.mse_loss(model(x), y)

    def run() -> None:
        for x, y in batches:
            optimizer.zero_grad()
            if "autocast" in verbs:
                with accel.autocast("cpu"):
                    loss = loss_of(x, y)
            else:
                loss = loss_of(x, y)
            if scaler is None:
                loss.backward()  # type: ignore[no-untyped-call]
                optimizer.step()
            else:
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()

    return run


def settle(contest: Contest) -> None:
    """Run both until nothing is tried any more."""
    end = time.monotonic() + _PATIENCE
    done = 0
    while done < _LEAST or (not _settled() and time.monotonic() < end):
        contest.plain()
        contest.rewritten()
        done += contest.steps


def _settled() -> bool:
    return autocast_controller.settled() and compile_controller.settled() and fused_step.settled()


def measure(contest: Contest, turns: int) -> tuple[float, tuple[float, float, float]]:
    """Microseconds of a plain step, and by how many the other is slower: first quartile, median, third quartile."""
    plain, more = [], []
    for _ in range(turns):
        before = _timed(contest.plain, contest.steps)
        middle = _timed(contest.rewritten, contest.steps)
        after = _timed(contest.plain, contest.steps)
        plain += [before, after]
        more.append(middle - (before + after) / 2)
    low, median, high = statistics.quantiles(more, n=4)
    return statistics.median(plain), (low, median, high)


def _timed(run: Callable[[], None], steps: int) -> float:
    start = time.process_time()  # of the only thread: what else the machine does is left out
    run()
    return (time.process_time() - start) / steps * 1e6


@click.command()
@click.option("--turns", type=click.IntRange(min=2), default=60, show_default=True, help="Passes of each kind.")
@click.option("--output", type=click.Path(path_type=Path, dir_okay=False), default=RESULTS, help="For the table.")
def main(turns: int, output: Path) -> None:
    """Measure, with one thread: the work of threads is torch's."""
    torch.set_num_threads(1)
    lines = [
        "# What the runtime costs in each step",
        "",
        f"{platform.processor() or platform.machine()}, torch {torch.__version__}, one thread, {turns} turns each.",
        "",
        "| verbs | a plain step, µs | more with the verbs, µs | half of the turns |",
        "|---|---|---|---|",
    ]
    for contest in contests():
        settle(contest)
        plain, (low, median, high) = measure(contest, turns)
        lines.append(f"| {contest.verbs} | {plain:.0f} | {median:.1f} | {low:.1f} to {high:.1f} |")
        click.echo(lines[-1])
    output.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
