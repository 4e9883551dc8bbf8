"""`autoaccel verify` on one case, as a command of its own, and what it said."""

from __future__ import annotations

import functools
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from autoaccel.config import Configuration
from autoaccel.measure import changes
from autoaccel.measure.observing.request import Request
from autoaccel.measure.observing.run_record import RunRecord
from autoaccel.measure.rewriter import project_root
from autoaccel.measure.verifying.procedure import verify
from autoaccel.measure.verifying.trials import CannotVerifyError
from autoaccel.reports import verification
from benchmarks.public_scripts.running import PROJECT, limited
from benchmarks.right_rewrites.cases import PARTS, Case, Prepared, UnpreparedError

_TIMEOUT = 300.0

Runner = Callable[[Request, Mapping[str, str], Path], RunRecord]
"""Makes one run in a folder; the mapping is put on top of the environment."""


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
    forked: bool = False
    """Whether runs were forks of a process that has torch, and not commands of their own."""

    @property
    def counted(self) -> bool:
        """Whether there was something to verify and it was verified."""
        return (self.status in ("same", "different") and dict(self.counts).get("passed", 0) > 0) or self.false_alarm

    @property
    def false_alarm(self) -> bool:
        return self.status == "different"


def verified(case: Case, corpus: Path | None, runner: Runner | None = None) -> Verdict:
    """Verify a copy of the script: by the command or, with a runner, by what the command calls."""
    try:
        with case.prepared(corpus) as prepared:
            # A search path of its own takes a process of its own.
            if runner is None or (case.public is not None and "PYTHONPATH" in case.public.environment):
                return _by_command(case, prepared)
            return _by(runner, case, prepared)
    except UnpreparedError as error:
        return Verdict(case.key, "unprepared", 0.0, str(error))


def _by_command(case: Case, prepared: Prepared) -> Verdict:
    report = prepared.folder / ".verify.json"
    command = [sys.executable, "-m", "autoaccel", "verify", "--isolated", "--json", str(report)]
    command += [*PARTS[case.part].options, prepared.script, "--", *prepared.arguments]
    path = os.pathsep.join([prepared.environment["PYTHONPATH"], str(PROJECT / "codemods")])
    began = time.monotonic()
    status, out, err = limited(command, prepared.folder, {**prepared.environment, "PYTHONPATH": path}, _TIMEOUT)
    seconds = round(time.monotonic() - began, 1)
    if status is None:
        return Verdict(case.key, "crashed", seconds, f"still running after {_TIMEOUT:.0f} s")
    if not report.exists():
        return Verdict(case.key, "crashed", seconds, (err.strip().splitlines() or out.splitlines() or [""])[-1])
    return _verdict(case, json.loads(report.read_text(encoding="utf-8")), seconds)


def _by(runner: Runner, case: Case, prepared: Prepared) -> Verdict:
    folder = prepared.folder.resolve()
    root = project_root((folder / prepared.script).parent)
    request = Request(prepared.script, prepared.arguments, root=str(root))
    configuration = Configuration(PARTS[case.part].settings)
    untouched = set(folder.rglob("*"))

    def run(asked: Request, environment: Mapping[str, str]) -> RunRecord:
        record = runner(asked, {**prepared.environment, **environment}, folder)
        for path in set(folder.rglob("*")) - untouched:
            if path.is_file():
                path.unlink()
        return record

    began = time.monotonic()
    try:
        found, _ = verify(request, functools.partial(changes.find, configuration=configuration), run)
        content = json.loads(verification.to_json(found))
    except (CannotVerifyError, AssertionError) as error:  # the latter: a run ended without a record
        content = json.loads(verification.failure_to_json(prepared.script, str(error)))
    return replace(_verdict(case, content, round(time.monotonic() - began, 1)), forked=True)


def _verdict(case: Case, content: Mapping[str, Any], seconds: float) -> Verdict:
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


def known(state: Path, *, forked: bool) -> dict[str, Verdict]:
    """Verdicts of earlier runs of one way or the other, the last one of each case."""
    if not state.exists():
        return {}
    lines = [json.loads(line) for line in state.read_text(encoding="utf-8").splitlines()]
    return {
        each["key"]: Verdict(**{**each, "counts": tuple(map(tuple, each["counts"])), "reasons": tuple(each["reasons"])})
        for each in lines
        if each["forked"] is forked
    }
