"""What larger batches would bring, as a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from autoaccel.reports.benchmark.quantities import digits, duration, memory, number, throughput
from autoaccel.reports.context import shown

if TYPE_CHECKING:
    from autoaccel.measure.tuning.batch_sizes import Sweep


def table(script: str, sweep: Sweep) -> str:
    """With colours. Raises `ValueError` where there is no run."""
    from autoaccel.measure.tuning.batch_sizes import compared

    found = list(compared(sweep.trials))
    if not found:
        raise ValueError("no batch size was tried")
    head = (
        "batch",
        "samples/s",
        "interval",
        "step",
        "memory",
        "device memory",
        f"loss after {number(found[0][1])} samples",
    )
    rows = [head]
    for trial, _, loss in found:
        rate = trial.samples_per_second
        rows.append(
            (
                f"{number(trial.batch)}{' (now)' if trial.scale == 1 else ''}",
                throughput(rate.median) if rate else throughput(trial.batch / trial.step_seconds),
                f"{throughput(rate.low)} to {throughput(rate.high)}" if rate else "–",
                duration(trial.step_seconds),
                memory(trial.host_memory),
                memory(trial.device_memory),
                "–" if loss is None else digits(loss, 4),
            )
        )
    widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
    lines = [click.style(f"{shown(script)}: batch sizes; nothing was changed.", bold=True), ""]
    for at, row in enumerate(rows):
        line = "   ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        lines.append(click.style(line, dim=at == 0))
    lines += [
        "",
        f"Not further: {shown(sweep.ending)}.",
        "Another batch size is another training, and the learning rate that fits is another one: you decide.",
    ]
    return "".join(f"{line}\n" for line in lines)
