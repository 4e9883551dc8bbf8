"""Finds as folders, and the table at the end."""

from __future__ import annotations

import difflib
import hashlib
from pathlib import Path

from benchmarks.wrong_rewrites.hunting import Caught, Tally, form
from benchmarks.wrong_rewrites.running import CONDITIONS


def keep(caught: Caught, folder: Path) -> Path:
    """Write one find: the program, its rewritten form, and what differs."""
    case, find = caught.case, caught.find
    features = "".join(f"- {name}: {option}\n" for name, option in sorted(case.special.items()))
    mark = hashlib.sha256(f"{features}{find.check}{caught.blamed}".encode()).hexdigest()[:8]
    home = folder / f"{caught.blamed.replace('+', '-')}-{find.check}-{mark}"
    changed = form(case.forms, CONDITIONS[find.check]) if find.check in CONDITIONS else case.forms.default
    for name, texts in (("program", case.texts), ("rewritten", changed)):
        for path, text in texts.items():
            target = home / name / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8")
    diff = "".join(
        "".join(difflib.unified_diff(text.splitlines(True), changed[path].splitlines(True), path, path, n=2))
        for path, text in case.texts.items()
    )
    text = (
        f"# {caught.blamed}, {find.check}: {find.what}\n\nSeed {case.seed}, made small. What is not plain about it:\n\n"
        f"{features}\n```diff\n{diff}```\n"
    )
    (home / "find.md").write_text(text, encoding="utf-8")
    return home


def table(tally: Tally, seconds: float) -> str:
    """What was looked at and what was found."""
    rate = tally.programs / max(seconds, 1e-9)
    lines = [
        f"{tally.programs} programs in {seconds / 60:.1f} min ({rate:.1f} a second), {tally.runs} runs.",
        f"{tally.unchanged} were left alone, {tally.unfit} fail by themselves, {tally.unsteady} did not recur.",
        "",
        "| rule | programs it changes | programs where it declines something |",
        "|---|---:|---:|",
        *(
            f"| {code} | {tally.fired[code]} | {tally.declined[code]} |"
            for code in sorted({*tally.fired, *tally.declined})
        ),
        "",
    ]
    if not tally.kinds:
        return "\n".join([*lines, "nothing was found"])
    lines += ["| found | programs |", "|---|---:|"]
    lines += [f"| {kind.replace('|', '')} | {number} |" for kind, number in tally.kinds.most_common()]
    return "\n".join(
        [*lines, "", f"{sum(tally.kinds.values())} programs with something wrong, {len(tally.caught)} written"]
    )
