"""What `tune` decided, and what larger batches would bring, as tables with colours."""

from __future__ import annotations

from collections.abc import Sequence

import click

from autoaccel.measure.benching.report import Interval
from autoaccel.measure.tuning.batch_sizes import Sweep, compared
from autoaccel.measure.tuning.deciding import RuleWorth
from autoaccel.reports.aligned_columns import aligned
from autoaccel.reports.benchmark.quantities import digits, duration, memory, number, ratio, ratios, throughput
from autoaccel.reports.context import shown
from autoaccel.reports.counting import counted

_HEAD = ("", "changes", "gain", "interval", "alone", "interval", "")


def table(script: str, rules: Sequence[RuleWorth], speedup: Interval | None, notes: Sequence[str]) -> str:
    """`speedup` is that of what is kept."""
    rows = aligned([_HEAD, *map(_row, rules)], "<>>>>><")
    lines = [click.style(verdict(script, rules, speedup), bold=True, fg="green" if speedup else None), ""]
    for rule, row in zip((None, *rules), rows, strict=True):
        lines.append(click.style(row, dim=rule is None, fg="green" if rule is not None and rule.kept else None))
    if notes:
        lines += ["", *(f"Note: {shown(note)}." for note in notes)]
    return "".join(f"{line}\n" for line in lines)


def verdict(script: str, rules: Sequence[RuleWorth], speedup: Interval | None) -> str:
    """In one sentence."""
    if not rules:
        return f"{shown(script)}: nothing would be rewritten, so there is nothing to tune."
    if speedup is None:
        return f"{shown(script)}: nothing is measured to pay on this machine."
    kept = sum(each.kept for each in rules)
    verb = "pays" if kept == 1 else "pay"
    return (
        f"{shown(script)}: {kept} of {counted(len(rules), 'rule')} {verb} on this machine: "
        f"{ratio(speedup.median)} times as fast ({ratios(speedup)})."
    )


def _row(rule: RuleWorth) -> tuple[str, ...]:
    figures = [text for found in (rule.gain, rule.alone) for text in _figures(found)]
    said = ("kept" if rule.kept else "left out") + (f": {shown(rule.reason)}" if rule.reason else "")
    return f"{rule.code} {rule.name}", str(rule.changes), *figures, said


def _figures(found: Interval | None) -> tuple[str, str]:
    return ("–", "") if found is None else (ratio(found.median), ratios(found))


def batches(script: str, sweep: Sweep) -> str:
    """What larger batches would bring. Raises `ValueError` where there is no run."""
    found = list(compared(sweep.trials))
    if not found:
        raise ValueError("no batch size was tried")
    after = f"loss after {number(found[0][1])} samples"
    rows: list[tuple[str, ...]] = [("batch", "samples/s", "interval", "step", "memory", "device memory", after)]
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
    lines = [
        click.style(f"{shown(script)}: batch sizes; nothing was changed.", bold=True),
        "",
        *(click.style(line, dim=at == 0) for at, line in enumerate(aligned(rows, ">>>>>>>"))),
        "",
        f"Not further: {shown(sweep.ending)}.",
        "Another batch size is another training, and the learning rate that fits is another one: you decide.",
    ]
    return "".join(f"{line}\n" for line in lines)
