"""All verdicts on right rewrites, as Markdown."""

from __future__ import annotations

import statistics
from collections.abc import Collection, Mapping

from benchmarks.right_rewrites.verifying import Verdict

_LONG = 120.0  # s


def page(verdicts: Collection[Verdict], commands: Mapping[str, Verdict]) -> str:
    """`commands` are verdicts of the command itself, by key; others had their runs forked."""
    counted = [each for each in verdicts if each.counted]
    alarms = [each for each in counted if each.false_alarm]
    times = sorted(each.seconds for each in commands.values() if each.counted) or [0.0]
    scripts = {each.key.split(" | ")[0] for each in counted}
    others = [each for each in verdicts if not each.counted]
    lines = [
        "# Right rewrites",
        "",
        "`python -m benchmarks.right_rewrites`; what is done is in [its README](../right_rewrites/README.md).",
        "",
        f"**{len(counted)} verifications of {len(scripts)} scripts: {len(alarms)} false alarms.**",
        f"{sum(each.forked for each in counted)} had their runs forked from a process that has torch (`--forks`).",
        _times(times),
        _longest([*counted, *commands.values()]),
        "",
        "| script | rules | verdict | same | not reached | steps | runs | s, forks | s, command | said of the same |",
        "|---|---|---|---:|---:|---:|---:|---:|---:|---|",
        *(_row(each, commands.get(each.key)) for each in counted),
    ]
    if others:
        lines += ["", "Not counted, for there was nothing to verify:", ""]
        lines += [f"- {each.key.replace(' | ', ', ')}: {_why(each)}" for each in others]
    return "\n".join(lines) + "\n"


def _times(times: list[float]) -> str:
    middle, longest = statistics.median(times), times[-1]
    return (
        f"{len(times)} were made by the command, too: median {middle:.0f} s, longest {longest:.0f} s on one CPU thread."
    )


def _longest(verdicts: Collection[Verdict]) -> str:
    found = sorted({each.key.split(" | ")[0] for each in verdicts if each.counted and each.seconds > _LONG})
    return f"Longer than {_LONG:.0f} s: {', '.join(found) or 'none'}."


def _row(each: Verdict, command: Verdict | None) -> str:
    script, rules = each.key.split(" | ")
    counts = dict(each.counts)
    verdict = "**differs**: " + each.said if each.false_alarm else "same"
    numbers = (counts.get("passed", 0), counts.get("not reached", 0), each.steps, each.runs)
    forked = f"{each.seconds:.0f}" if each.forked else ""
    alone = "" if command is None else f"{command.seconds:.0f}"
    cells = (script, rules, verdict, *map(str, numbers), forked, alone, "; ".join(each.reasons))
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _why(each: Verdict) -> str:
    if each.status == "nothing":
        return "no rule has anything to change"
    if each.status == "same":
        return "no change was reached"
    return f"{each.status}: {each.said}"
