"""A run of the suite as Markdown: the whole page, and the small table of docs/evidence.md."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.suite.catalogue import AGAIN, COLUMNS, DEFAULT, EXACT, EXPERT, LIMIT, ORIGINAL
from benchmarks.suite.estimates import geometric_mean
from benchmarks.suite.results import FAILED, SKIPPED, Column, Result, Run, Until
from benchmarks.suite.verdicts import verdicts

_DEVICES = {"cpu": "CPU", "cuda": "GPU"}
_WORDS = {True: "yes", False: "**no**", None: "–"}


def page(run: Run, *, picture: str = "") -> str:
    """`suite_cpu.md`."""
    return "\n".join(_page(run, picture)) + "\n"


def table(run: Run) -> str:
    """What docs/evidence.md shows."""
    return "\n".join(_table(run)) + "\n"


def short(run: Run) -> str:
    """What the command prints at its end."""
    names = [name for name in COLUMNS if any(each.column(name) for each in run.results)]
    rows = [["", *names], *([each.id, *(_ratio(each, name) for name in names)] for each in run.results)]
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    judged = [f"{_mark(each.kept)} {each.promise}: {each.said}" for each in verdicts(run)]
    time = f"{run.used_seconds:.0f} s used, {run.planned_seconds:.0f} s planned"
    return "\n".join([*lines, "", *judged, "", time]) + "\n"


def _mark(kept: bool | None) -> str:
    return {True: "PASS", False: "FAIL", None: "    "}[kept]


def _page(run: Run, picture: str) -> Iterator[str]:
    yield f"# The suite on a {_DEVICES[run.device]}"
    yield ""
    yield f"Made by `python -m benchmarks.suite{' --device cuda' if run.device == 'cuda' else ''}`; how it is measured,"
    yield "and how to read it, is in [its README](../suite/README.md)."
    yield ""
    yield f"{', '.join(f'{name} {value}' for name, value in run.machine.items())}."
    yield f"{run.used_seconds:.0f} s used of {run.planned_seconds:.0f} s planned. Intervals of {run.level:.0%}."
    yield ""
    if picture:
        yield f"![speed-ups]({picture})"
        yield ""
    yield "## What it is to show"
    yield ""
    yield "| promise | kept | |"
    yield "|---|---|---|"
    for each in verdicts(run):
        yield f"| {each.promise} | {_WORDS[each.kept]} | {each.said} |"
    yield ""
    yield "## Times faster than the original"
    yield ""
    yield from _ratios(run)
    yield ""
    yield from _notes(run)
    yield "## Steady speed"
    yield ""
    yield from _speeds(run)
    yield ""
    yield f"## Seconds to 100 and to 1,000 steps{_start(run)}"
    yield ""
    yield from _times(run)
    yield ""
    yield "## Peak memory, by the original's"
    yield ""
    yield from _memory(run)
    yield ""
    yield "## Losses"
    yield ""
    yield "| script | column | same | |"
    yield "|---|---|---|---|"
    for result in run.results:
        for gate in result.gates:
            yield f"| {result.id} | {gate.column} | {_WORDS[gate.passed]} | {gate.said} |"
    yield ""
    yield "## What the runtime decided"
    yield ""
    yield from _decisions(run)


def _start(run: Run) -> str:
    return f", {run.start_seconds:.1f} s of Python and torch included" if run.start_seconds else ""


def _names(run: Run, *, without: tuple[str, ...] = ()) -> list[str]:
    seen = {column.name for each in run.results for column in each.columns}
    return [name for name in COLUMNS if name in seen and name not in without]


def _header(first: str, names: list[str]) -> Iterator[str]:
    yield f"| {first} | {' | '.join(names)} |"
    yield f"|---|{'---:|' * len(names)}"


def _ratios(run: Run) -> Iterator[str]:
    names = _names(run, without=(ORIGINAL,))
    yield from _header("script", [*names, "of expert", "of limit", "processes"])
    for group in (run.scripts, run.controls):
        for each in group:
            cells = [_with_interval(each, name) for name in names]
            shares = [_percent(each.share(DEFAULT, EXPERT)), _percent(each.share(DEFAULT, LIMIT))]
            yield f"| {each.id} | {' | '.join([*cells, *shares, str(each.processes)])} |"
        if group and group == run.scripts:
            yield f"| **geometric mean** | {' | '.join(_mean(run, name) for name in names)} | | | |"


def _mean(run: Run, name: str) -> str:
    found = [ratio for each in run.scripts if (ratio := each.speedup(name)) is not None]
    if not found:
        return ""
    return f"**{geometric_mean(found):.2f}**" + ("" if len(found) == len(run.scripts) else f" of {len(found)}")


def _notes(run: Run) -> Iterator[str]:
    notes = list(run.notes)
    for result in run.results:
        notes += [f"{result.id}: {note}" for note in result.notes]
        for column in result.columns:
            if not column.is_measured:
                notes.append(f"{result.id}, {column.name}: {column.status}: {column.reason}")
            elif not column.settled:
                notes.append(f"{result.id}, {column.name}: the runtime was still trying when the measuring began")
    yield from (f"- {note}" for note in notes)
    if notes:
        yield ""


def _speeds(run: Run) -> Iterator[str]:
    names = _names(run, without=(AGAIN,))
    yield from _header("script", [f"{name}, samples/s (ms/step)" for name in names])
    for each in run.results:
        yield f"| {each.id} | {' | '.join(_speed(each.column(name)) for name in names)} |"


def _speed(column: Column | None) -> str:
    if column is None:
        return ""
    rate = f"{column.samples_per_second:,.0f} " if column.samples_per_second else ""
    return f"{rate}({column.step_seconds * 1000:.3g})"


def _times(run: Run) -> Iterator[str]:
    names = _names(run, without=(AGAIN,))
    yield from _header("script", names)
    for each in run.results:
        cells = [_both(column) if (column := each.column(name)) else "" for name in names]
        yield f"| {each.id} | {' | '.join(cells)} |"
    yield ""
    yield "`~`: the last steps are extrapolated from the steady speed."


def _both(column: Column) -> str:
    return " / ".join(_until(each) for each in (column.to_100, column.to_1000) if each is not None)


def _until(until: Until) -> str:
    return f"{'' if until.measured else '~'}{until.seconds:.1f}"


def _memory(run: Run) -> Iterator[str]:
    names = _names(run, without=(AGAIN,))
    device = any(column.device_memory for each in run.results for column in each.columns)
    yield from _header("script", names)
    for each in run.results:
        original = each.column(ORIGINAL)
        yield f"| {each.id} | {' | '.join(_peak(each.column(name), original, device=device) for name in names)} |"
    yield ""
    yield "Host, in MiB for the original" + (", then device." if device else ".")


def _peak(column: Column | None, original: Column | None, *, device: bool) -> str:
    if column is None or original is None:
        return ""
    pairs = [(column.host_memory, original.host_memory)]
    if device:
        pairs.append((column.device_memory, original.device_memory))
    if column is original:
        return ", ".join(f"{peak / 2**20:,.0f}" for peak, _ in pairs)
    return ", ".join(f"{peak / of:.2f}x" if of else "–" for peak, of in pairs)


def _decisions(run: Run) -> Iterator[str]:
    for each in run.results:
        column = each.column(DEFAULT)
        if column is None:
            continue
        yield f"- **{each.id}**, {column.changes} findings applied"
        for topic, value, reason in column.decisions:
            yield f"  - {topic}: {value} ({reason})"


def _table(run: Run) -> Iterator[str]:
    """Few columns: what a reader decides by."""
    names = [name for name in _names(run) if name not in (ORIGINAL, AGAIN, EXACT)]
    yield from _header("script", [*names, "losses"])
    for each in run.results:
        said = {gate.column: gate.passed for gate in each.gates}
        cells = [_cell(each, name) for name in names]
        yield f"| {each.title} | {' | '.join(cells)} | {'same' if said.get(DEFAULT) else _WORDS[said.get(DEFAULT)]} |"
    yield f"| **geometric mean**, controls left out | {' | '.join(_mean(run, name) for name in names)} | |"
    yield ""
    known = (run.machine.get(name, "none") for name in ("processor", "accelerator"))
    machine = ", ".join(name for name in known if not name.startswith("none"))
    cores = f", {run.machine['cores']} cores" if "cores" in run.machine else ""
    torch = run.machine.get("torch", "")
    yield f"Times faster than the plain script in steady samples/s, on {machine}{cores}, torch {torch}."


def _cell(result: Result, name: str) -> str:
    ratio = _ratio(result, name)
    return f"**{ratio}**" if name == DEFAULT and result.column(name) else ratio


def _ratio(result: Result, name: str) -> str:
    median = result.speedup(name)
    if median is not None:
        return f"{median:.2f}" if median < 10 else f"{median:.1f}"
    return next((_state(column) for column in result.columns if column.name == name), "")


def _state(column: Column) -> str:
    return {FAILED: "failed", SKIPPED: "skipped"}.get(column.status, "")


def _with_interval(result: Result, name: str) -> str:
    column = result.column(name)
    if column is None or column.ratio is None:
        return _ratio(result, name)
    ratio = column.ratio
    shown = f"**{_ratio(result, name)}**" if name == DEFAULT else _ratio(result, name)
    return f"{shown} ({ratio.low:.2f}–{ratio.high:.2f})"


def _percent(share: float | None) -> str:
    return "" if share is None else f"{share:.0%}"
