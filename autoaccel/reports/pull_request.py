"""A rewrite as the text of a pull request: what was changed, what was proved of it, what it gains."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from autoaccel import __version__
from autoaccel.measure.benching.report import BenchReport, Interval
from autoaccel.measure.verifying.report import Outcome, Verdict, Verification
from autoaccel.reports import verification
from autoaccel.reports.benchmark.quantities import TIMES, known_ratio, percent, ratio, ratios
from autoaccel.reports.benchmark.summary import AGAIN, REWRITTEN, SpeedVerdict, known, verdict
from autoaccel.reports.context import shown
from autoaccel.reports.counting import counted

_ESCAPED = str.maketrans({"|": "\\|", "<": "&lt;", ">": "&gt;", "&": "&amp;"})


def page(
    report: Verification, applied: Sequence[Outcome], gains: BenchReport | None, commands: Sequence[str], undo: str
) -> str:
    """Markdown, whose first line is the title.

    `applied` are the changes that are made, `commands` say how to repeat what was found, `undo` how to take it back.
    """
    parts = [f"# {title(report, applied, gains)}", _table(applied, gains)]
    parts.append("\n".join(f"- {line}" for line in (*_gain(gains), *map(_text, verification.basis(report)))))
    parts.extend(_section("What was not reached, and is left as it was", _left(report, Verdict.NOT_REACHED)))
    parts.extend(_section("What was not verified, and is left as it was", _left(report, Verdict.NOT_VERIFIED)))
    parts.extend(_section("What makes a difference, and is left as it was", _left(report, Verdict.FAILED)))
    known_notes = dict.fromkeys([*report.notes, *(gains.notes if gains else ())])
    parts.extend(_section("Notes", [f"- {_text(note)}" for note in known_notes]))
    parts.extend(_section("To repeat it", ["```sh", *map(shown, commands), "```"]))
    parts.extend(_section("To take it back", [undo]))
    parts.append(f"Made by autoaccel {__version__}.")
    return "\n\n".join(part for part in parts if part) + "\n"


def title(report: Verification, applied: Sequence[Outcome], gains: BenchReport | None) -> str:
    """In a line: the figure with its interval, and that it trains the same."""
    script = _text(report.script)
    if not applied:
        return f"{script}: nothing is changed"
    same = "trains the same"
    if gains is None:
        return f"{script}: {counted(len(applied), 'change')}, {same}"
    found = gains.column(REWRITTEN)
    if found is None or verdict(gains) in (SpeedVerdict.UNKNOWN, SpeedVerdict.SAME, SpeedVerdict.NOISE):
        return f"{script}: no difference in speed measured, {same}"
    return f"{script} {_speed(found.speedup)}, {same}"


def _table(applied: Sequence[Outcome], gains: BenchReport | None) -> str:
    if not applied:
        return ""
    alone = {each.code: each.alone for each in gains.contributions} if gains else {}
    head = ["change", "tier", "proof", *(["alone"] if gains else [])]
    rows = [head, ["---", "---", "---", *(["---:"] if gains else [])]]
    rows.extend([*row, *([_alone(alone, code)] if gains else [])] for code, row in _by_rule(applied))
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _by_rule(applied: Sequence[Outcome]) -> Iterator[tuple[str, list[str]]]:
    for code in sorted({each.code for each in applied}):
        rule, number, tiers, _, reason = verification.summarised([each for each in applied if each.code == code])
        yield code, [f"{rule}, {number}", tiers, _text(reason)]


def _alone(alone: Mapping[str, Interval | None], code: str) -> str:
    """What a rule gains by itself; nothing where it cannot stand alone."""
    found = alone.get(code)
    return _speed(found) if found is not None and known(found) else ""


def _speed(found: Interval) -> str:
    return f"{known_ratio(found)}{TIMES} ({ratio(found.low)}–{ratio(found.high)})"


def _gain(gains: BenchReport | None) -> Iterator[str]:
    if gains is None:
        return
    again = gains.column(AGAIN)
    if again is not None and known(again.speedup):
        yield (
            f"The original measured against itself: {ratio(again.speedup.median)}{TIMES} ({ratios(again.speedup)}); "
            f"intervals of {percent(gains.level)}."
        )
    if gains.diagnosis is not None:
        yield _text(gains.diagnosis.sentence)
    yield _text(", ".join(gains.machine.values())) + "."


def _left(report: Verification, result: Verdict) -> list[str]:
    return [
        f"- {_text(each.path)}:{each.line}: {each.code} {each.name}: {_text(each.reason)}" for each in report.of(result)
    ]


def _section(name: str, lines: Sequence[str]) -> Iterator[str]:
    if lines:
        yield f"## {name}"
        yield "\n".join(lines)


def _text(text: str) -> str:
    """On one line, and nothing but text."""
    return shown(text).translate(_ESCAPED)
