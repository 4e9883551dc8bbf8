"""`autoaccel verify` on one case, as a command of its own, and what it said."""

from __future__ import annotations

import json
import os
import sys
import time
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.public_scripts.running import PROJECT, limited
from benchmarks.right_rewrites.cases import SELECTIONS, Case, UnpreparedError

_TIMEOUT = 300.0


@dataclass(frozen=True, slots=True)
class Verdict:
    """One verification of a right rewrite."""

    key: str
    status: str
    """same, different, unknown, nothing (nothing would be rewritten), unprepared, or crashed."""
    seconds: float
    said: str = ""
    """What differs, or why nothing is known."""
    counts: tuple[tuple[str, int], ...] = ()
    """How many changes have which verdict."""
    steps: int = 0
    repeats: bool = True
    runs: int = 0
    reasons: tuple[str, ...] = ()
    """What was said of changes that passed."""

    @property
    def counted(self) -> bool:
        """Whether there was something to verify and it was verified."""
        return (self.status in ("same", "different") and dict(self.counts).get("passed", 0) > 0) or self.false_alarm

    @property
    def false_alarm(self) -> bool:
        return self.status == "different"


def verified(case: Case, corpus: Path | None) -> Verdict:
    """Run the command in a copy of the script's folder."""
    try:
        with case.prepared(corpus) as prepared:
            report = prepared.folder / ".verify.json"
            command = [sys.executable, "-m", "autoaccel", "verify", "--isolated", "--json", str(report)]
            command += [*SELECTIONS[case.selection], prepared.script, "--", *prepared.arguments]
            path = os.pathsep.join([prepared.environment["PYTHONPATH"], str(PROJECT / "codemods")])
            began = time.monotonic()
            status, out, err = limited(command, prepared.folder, {**prepared.environment, "PYTHONPATH": path}, _TIMEOUT)
            seconds = round(time.monotonic() - began, 1)
            content = json.loads(report.read_text(encoding="utf-8")) if report.exists() else None
    except UnpreparedError as error:
        return Verdict(case.key, "unprepared", 0.0, str(error))
    if status is None:
        return Verdict(case.key, "crashed", seconds, f"still running after {_TIMEOUT:.0f} s")
    if content is None:
        return Verdict(case.key, "crashed", seconds, (err.strip().splitlines() or out.splitlines() or [""])[-1])
    if content["status"] == "unknown":
        return Verdict(case.key, "unknown", seconds, content["reason"])
    outcomes = content["outcomes"]
    failed = [
        f"{each['code']} line {each['where']['line']}: {each['reason']}"
        for each in outcomes
        if each["verdict"] == "failed"
    ]
    return Verdict(
        case.key,
        content["status"] if outcomes else "nothing",
        seconds,
        "; ".join(failed),
        tuple(sorted(Counter(each["verdict"] for each in outcomes).items())),
        content["steps"],
        content["repeats"],
        len(content["trials"]),
        tuple(sorted({each["reason"] for each in outcomes if each["verdict"] == "passed"})),
    )


def keep(verdict: Verdict, state: Path) -> None:
    with state.open("a", encoding="utf-8") as file:
        file.write(json.dumps(asdict(verdict)) + "\n")


def known(state: Path) -> dict[str, Verdict]:
    """Verdicts of earlier runs, the last one of each case."""
    if not state.exists():
        return {}
    lines = [json.loads(line) for line in state.read_text(encoding="utf-8").splitlines()]
    return {
        each["key"]: Verdict(**{**each, "counts": tuple(map(tuple, each["counts"])), "reasons": tuple(each["reasons"])})
        for each in lines
    }
