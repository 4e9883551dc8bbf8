"""All verdicts on right rewrites, as Markdown."""

from __future__ import annotations

import statistics
from collections.abc import Collection

from benchmarks.right_rewrites.verifying import Verdict


def page(verdicts: Collection[Verdict]) -> str:
    counted = [each for each in verdicts if each.counted]
    alarms = [each for each in counted if each.false_alarm]
    times = sorted(each.seconds for each in counted) or [0.0]
    scripts = {each.key.split(" | ")[0] for each in counted}
    others = [each for each in verdicts if not each.counted]
    lines = [
        "# Right rewrites",
        "",
        "`python -m benchmarks.right_rewrites`; what is done is in [its README](../right_rewrites/README.md).",
        "",
        f"**{len(counted)} verifications of {len(scripts)} scripts: {len(alarms)} false alarms.**",
        f"Seconds each, on one CPU thread: median {statistics.median(times):.0f}, longest {times[-1]:.0f}.",
        f"{sum(each.forked for each in counted)} of them had their runs forked from a process that has imported torch",
        "(`--forks`), which saves some 2 s a run; the others are the command itself.",
        "",
        "| script | rules | verdict | same | not reached | steps | runs | s | said of what passed |",
        "|---|---|---|---:|---:|---:|---:|---:|---|",
        *(_row(each) for each in counted),
    ]
    if others:
        lines += ["", "Not counted, for there was nothing to verify:", ""]
        lines += [f"- {each.key.replace(' | ', ', ')}: {_why(each)}" for each in others]
    return "\n".join(lines) + "\n"


def _row(each: Verdict) -> str:
    script, rules = each.key.split(" | ")
    counts = dict(each.counts)
    verdict = "**differs**: " + each.said if each.false_alarm else "same"
    said = "; ".join(each.reasons)
    numbers = (counts.get("passed", 0), counts.get("not reached", 0), each.steps, _runs(each), f"{each.seconds:.0f}")
    cells = (script, rules, verdict, *map(str, numbers), said)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _runs(each: Verdict) -> str:
    return f"{each.runs} forked" if each.forked else str(each.runs)


def _why(each: Verdict) -> str:
    if each.status == "nothing":
        return "no rule has anything to change"
    if each.status == "same":
        return "no change was reached"
    return f"{each.status}: {each.said}"
