"""One verification of a script with a fault in it, as `autoaccel verify` makes it."""

from __future__ import annotations

import contextlib
import functools
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from autoaccel.config import Configuration, configure
from autoaccel.config.settings import Settings
from autoaccel.edits import Finding
from autoaccel.measure import changes, distributed_changes, scratch, versions
from autoaccel.measure.observing.request import Request
from autoaccel.measure.observing.run_record import RunRecord
from autoaccel.measure.verifying import several_ranks
from autoaccel.measure.verifying.originals import Limits
from autoaccel.measure.verifying.procedure import verify
from autoaccel.measure.verifying.report import Outcome, Verdict, Verification
from autoaccel.measure.verifying.trials import CannotVerifyError
from autoaccel.rewriting import registry
from autoaccel.rewriting.engine import Analysis
from benchmarks.planted_faults import judging
from benchmarks.planted_faults.catalogue import FIXTURES, Fault
from benchmarks.planted_faults.planting import UnplantableError, plant

Runner = Callable[[Request, Mapping[str, str], Path], RunRecord]
"""Makes one run in a folder; the mapping is put on top of the environment."""


_COPY = re.compile(r"[^\s(]*/planted-[^/\s]+/")
"""The temporary folder in a message."""


@dataclass(slots=True)
class _Plantation:
    """Plants a fault when the file that it is for is analysed."""

    fault: Fault
    wrong: Finding | None = None
    problems: list[str] = field(default_factory=list)

    def __call__(self, analysis: Analysis) -> Analysis:
        if analysis.path is None or analysis.path.name != self.fault.planted_in.name:
            return analysis
        try:
            altered, self.wrong = plant(analysis, self.fault.plant)
        except UnplantableError as error:
            self.problems.append(str(error))
            return analysis
        return altered


RanksRunner = Callable[[Request, Mapping[str, str], Path, int], tuple[RunRecord, ...]]
"""The same by so many processes that train together."""


def judged(
    fault: Fault, runner: Runner, limits: Limits | None = None, launcher: RanksRunner | None = None
) -> judging.Verdict:
    """Verify a copy of the fault's script with the fault in it. `launcher` is for faults of several ranks."""
    if fault.by_hand[0]:
        return _judged_by_hand(fault, runner, limits)
    plantation = _Plantation(fault)
    began = time.monotonic()
    with copied(fault.path) as script:
        try:
            answer: Verification | str
            if fault.ranks:
                assert launcher is not None, fault.name
                answer = _distributed(script, fault.ranks, plantation, runner, launcher, limits)
            else:
                answer = _verified(script, fault.arguments, plantation, runner, limits)
        except (CannotVerifyError, AssertionError) as error:  # the latter: a run ended without a record
            answer = f"no answer: {error}"
    seconds = round(time.monotonic() - began, 1)
    if plantation.wrong is None:
        status = f"not planted: {'; '.join(plantation.problems) or 'its file was not imported'}"
        return judging.Verdict(fault.name, fault.planted_in.name, fault.wrong, "", status, seconds=seconds)
    return _verdict(fault, plantation.wrong, answer, seconds)


def _judged_by_hand(fault: Fault, runner: Runner, limits: Limits | None) -> judging.Verdict:
    """Hold a version by hand against a copy of the fault's script: `autoaccel verify --against`."""
    before = fault.path.read_text(encoding="utf-8").partition(fault.by_hand[0])[0]
    began = time.monotonic()
    with copied(fault.path) as script:
        folder = script.parent.resolve()
        other = folder / "other.py"
        other.write_text(fault.other_version, encoding="utf-8")
        with scratch.copy(folder, folder) as copy:

            def run(asked: Request, environment: Mapping[str, str]) -> RunRecord:
                copy.restore()
                return copy.record(runner(copy.request(asked), environment, copy.folder))

            between = functools.partial(versions.between, text_of=versions.in_file(script, other), name=other.name)
            request = Request(
                script.name, fault.arguments, root=str(folder), by_kind=True, samples=True, protected=(str(folder),)
            )
            answer: Verification | str
            try:
                answer, found = verify(request, between, run, limits=limits, against=other.name)
                hunks = [each for each in found if isinstance(each, versions.Hunk)]
            except (CannotVerifyError, AssertionError) as error:
                answer, hunks = f"no answer: {error}", []
    first = before.count("\n")
    last = first + fault.by_hand[0].count("\n")
    overlapping = (each for each in hunks if any(piece.start <= last and first < piece.end for piece in each.pieces))
    line = next((each.record.line for each in overlapping), first + 1)
    planted = f"hunk {script.name}:{line}"
    return _said(fault, planted, "by hand", answer, round(time.monotonic() - began, 1))


def _verdict(fault: Fault, wrong: Finding, answer: Verification | str, seconds: float) -> judging.Verdict:
    planted = f"{wrong.rule.code} {fault.planted_in.name}:{getattr(wrong.node, 'lineno', 1)}"
    return _said(fault, planted, wrong.tier.label, answer, seconds)


def _said(fault: Fault, planted: str, tier: str, answer: Verification | str, seconds: float) -> judging.Verdict:
    said = judging.Verdict(fault.name, planted, fault.wrong, tier, str(answer), seconds=seconds, unseen=fault.unseen)
    if isinstance(answer, str):
        return said
    failed = answer.of(Verdict.FAILED)
    if not failed and answer.differences:
        return replace(said, status="difference", first=_COPY.sub("", answer.differences[0]))
    if failed:
        return replace(
            said, status="difference", named=tuple(map(_place, failed)), first=_COPY.sub("", failed[0].reason)
        )
    here = next((each for each in answer.outcomes if _place(each) == planted), None)
    return replace(said, status="same" if here is None else f"{here.verdict.value}: {here.reason}")


def _place(outcome: Outcome) -> str:
    return f"{outcome.code} {Path(outcome.path).name}:{outcome.line}"


@contextlib.contextmanager
def copied(script: Path) -> Iterator[Path]:
    """A copy of a script in a folder of its own, with the other files of its project."""
    alone = script.parent == FIXTURES or script.parent.name == "scripts"
    with tempfile.TemporaryDirectory(prefix="planted-", ignore_cleanup_errors=True) as folder:
        for path in [script] if alone else sorted(script.parent.glob("*.py")):
            shutil.copy(path, folder)
        Path(folder, "setup.cfg").touch()  # a project of its own: what lies beside it is none of it
        yield Path(folder) / script.name


def _verified(
    script: Path,
    arguments: tuple[str, ...],
    alter: Callable[[Analysis], Analysis],
    runner: Runner,
    limits: Limits | None,
) -> Verification:
    """`autoaccel verify` in the script's folder. Raises `CannotVerifyError`."""
    folder = script.parent.resolve()
    request = Request(script.name, arguments, root=str(folder))
    find = functools.partial(changes.find, configuration=Configuration(Settings()), alter=alter)
    report, _ = verify(request, find, lambda asked, environment: runner(asked, environment, folder), limits=limits)
    return report


def _distributed(
    script: Path,
    ranks: int,
    alter: Callable[[Analysis], Analysis],
    runner: Runner,
    launcher: RanksRunner,
    limits: Limits | None,
) -> Verification:
    """`autoaccel verify --ranks` in the script's folder. Raises `CannotVerifyError`."""
    folder = script.parent.resolve()
    changes = distributed_changes.find([script.resolve()], distributing(folder), alter)
    if len(changes) < 2:  # the fault alone: ranks that do not know of one another write the same files at once
        raise CannotVerifyError(f"it is not distributed: {'; '.join(each.message for _, each in changes.skipped)}")
    with scratch.copy(folder, folder) as copy:

        def alone(asked: Request, environment: Mapping[str, str]) -> RunRecord:
            copy.restore()
            return copy.record(runner(copy.request(asked), environment, copy.folder))

        def together(asked: Request, environment: Mapping[str, str], count: int) -> tuple[RunRecord, ...]:
            copy.restore()
            return tuple(map(copy.record, launcher(copy.request(asked), environment, copy.folder, count)))

        request = Request(script.name, root=str(folder), protected=(str(folder),))
        return several_ranks.verify(request, changes, alone, together, (ranks,), limits=limits)


def distributing(folder: Path) -> Configuration:
    """The rules of `distribute`, and no others."""
    rules = tuple(rule.code for rule in registry.rules() if rule.command)
    return configure(folder, isolated=True, overrides={"select": rules, "tier": "numerics"})
