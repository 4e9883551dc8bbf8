"""What the suite is to show, and whether a run shows it."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks.suite.catalogue import AGAIN, DEFAULT, EXACT, EXPERT, LIMIT, ORIGINAL
from benchmarks.suite.estimates import geometric_mean
from benchmarks.suite.results import Result, Run

NEVER_SLOWER = 0.97
_FOURFOLD = ("tabular", "mnist")
_GEOMEAN = {"cpu": 1.5, "cuda": 3.3}
_DEVICE_MEMORY = 1.05
_LATE = 1.1  # of the original's time to 100 steps
_SHARE_OF_EXPERT = 0.7


@dataclass(frozen=True, slots=True)
class Verdict:
    """One promise."""

    promise: str
    kept: bool | None
    """None: nothing was measured that says so."""
    said: str


def verdicts(run: Run) -> list[Verdict]:
    return [
        _none_slower(run),
        _fourfold(run),
        _geomean(run),
        _gates(run, DEFAULT, "losses as the original's within the spread of seeds"),
        _gates(run, EXACT, "exact tier: losses bit for bit"),
        *_memory(run),
        _early(run),
        *_shares(run),
        _noise(run),
    ]


def _none_slower(run: Run) -> Verdict:
    found = _medians(run.results, DEFAULT)
    slower = [f"{name} {ratio:.3f}" for name, ratio in found.items() if ratio < NEVER_SLOWER]
    doubtful = [
        f"{each.id} {column.ratio.low:.2f}"
        for each in run.results
        if (column := each.column(DEFAULT)) is not None and column.ratio is not None and column.ratio.low < NEVER_SLOWER
    ]
    lost = [each.id for each in run.results if each.speedup(DEFAULT) is None]
    said = f"slower: {', '.join(slower)}" if slower else f"{len(found)} of {len(run.results)}"
    if not slower and found:
        name = min(found, key=lambda each: found[each])
        said += f", the least is {name} with {found[name]:.2f}"
    said += f"; not measured: {', '.join(lost)}" if lost else ""
    said += f"; intervals that begin below: {', '.join(doubtful)}" if doubtful else ""
    return Verdict(f"nothing below {NEVER_SLOWER}x", not slower and not lost if found else None, said)


def _fourfold(run: Run) -> Verdict:
    found = {name: ratio for name, ratio in _medians(run.results, DEFAULT).items() if name in _FOURFOLD}
    said = ", ".join(f"{name} {ratio:.2f}x" for name, ratio in found.items()) or "not measured"
    kept = all(ratio >= 4 for ratio in found.values()) if len(found) == len(_FOURFOLD) else None
    return Verdict(f"{' and '.join(_FOURFOLD)} at least 4x", kept, said)


def _geomean(run: Run) -> Verdict:
    found = _medians(run.scripts, DEFAULT)
    wanted = _GEOMEAN[run.device]
    if not found:
        return Verdict(f"geometric mean at least {wanted}x", None, "not measured")
    mean = geometric_mean(list(found.values()))
    return Verdict(f"geometric mean at least {wanted}x", mean >= wanted, f"{mean:.2f}x over {len(found)} scripts")


def _gates(run: Run, column: str, promise: str) -> Verdict:
    found = {each.id: gate for each in run.scripts for gate in each.gates if gate.column == column}
    failed = [name for name, gate in found.items() if not gate.passed]
    said = f"{len(found) - len(failed)} of {len(run.scripts)}"
    if failed:
        said += f"; not: {', '.join(failed)}"
    controls = {each.id: gate for each in run.controls for gate in each.gates if gate.column == column}
    if astray := [name for name, gate in controls.items() if not gate.passed]:
        said += f"; of the controls not: {', '.join(astray)}"
    kept = None if not found else len(found) - len(failed) == len(run.scripts) and not astray
    return Verdict(promise, kept, said)


def _memory(run: Run) -> Iterator[Verdict]:
    found = {}
    for each in run.results:
        original, default = each.column(ORIGINAL), each.column(DEFAULT)
        if original is not None and default is not None and original.device_memory:
            found[each.id] = default.device_memory / original.device_memory
    if found:
        above = [f"{name} {ratio:.2f}x" for name, ratio in found.items() if ratio > _DEVICE_MEMORY]
        said = f"more: {', '.join(above)}" if above else f"at most {max(found.values()):.2f}x"
        yield Verdict(f"peak of device memory at most {_DEVICE_MEMORY}x", not above, said)


def _early(run: Run) -> Verdict:
    found = {}
    for each in run.results:
        original, default = each.column(ORIGINAL), each.column(DEFAULT)
        if original and default and original.to_100 and default.to_100:
            found[each.id] = default.to_100.seconds / original.to_100.seconds
    if not found:
        return Verdict(f"time to 100 steps at most {_LATE}x", None, "not measured")
    late = [f"{name} {ratio:.2f}x" for name, ratio in found.items() if ratio > _LATE]
    said = f"longer: {', '.join(late)}" if late else f"at most {max(found.values()):.2f}x"
    return Verdict(f"time to 100 steps at most {_LATE}x", not late, said)


def _shares(run: Run) -> Iterator[Verdict]:
    """Goals, not promises: of the hand-written scripts, and of the limit."""
    found = {each.id: share for each in run.scripts if (share := each.share(DEFAULT, EXPERT)) is not None}
    if found:
        below = [f"{name} {share:.0%}" for name, share in found.items() if share < _SHARE_OF_EXPERT]
        said = f"geometric mean {geometric_mean(list(found.values())):.0%}" + (
            f"; below: {', '.join(below)}" if below else ""
        )
        yield Verdict(f"at least {_SHARE_OF_EXPERT:.0%} of the expert's speed", not below, said)
    shares = [share for each in run.scripts if (share := each.share(DEFAULT, LIMIT)) is not None]
    if shares:
        yield Verdict("share of the limit", None, f"geometric mean {geometric_mean(shares):.0%}")


def _noise(run: Run) -> Verdict:
    """The original against itself."""
    found = {each.id: column.ratio for each in run.results if (column := each.column(AGAIN)) and column.ratio}
    if not found:
        return Verdict("the original against itself is 1.00", None, "not measured")
    right = sum(ratio.contains(1.0) for ratio in found.values())
    off = [max(ratio.median, 1 / ratio.median) - 1 for ratio in found.values()]
    worst = max(found, key=lambda name: max(found[name].median, 1 / found[name].median))
    said = (
        f"{right} of {len(found)} intervals contain 1.00; half of the medians are within {statistics.median(off):.1%}, "
        f"the furthest is {worst} with {found[worst].median:.3f}"
    )
    return Verdict("the original against itself is 1.00", right >= len(found) - 1, said)


def _medians(results: tuple[Result, ...], column: str) -> dict[str, float]:
    return {each.id: ratio for each in results if (ratio := each.speedup(column)) is not None}
