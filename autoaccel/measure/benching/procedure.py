"""A benchmark from the first look at the script to the report."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, TypeVar

from autoaccel.measure import failures
from autoaccel.measure.benching import ablation, diagnosis, figures, medians, notes
from autoaccel.measure.benching.ablation import Subset
from autoaccel.measure.benching.figures import NEVER, break_even
from autoaccel.measure.benching.machine import facts, free_memory, load
from autoaccel.measure.benching.report import BenchReport, BreakEven, Column, Diagnosis, Interval
from autoaccel.measure.benching.rounds import Contender, Rounds, Series, take_turns
from autoaccel.measure.changes import Change, Changes
from autoaccel.measure.observing.request import Request
from autoaccel.measure.observing.run_record import FAILED, RunFailure, RunRecord
from autoaccel.rewriting.rule import Rule

ORIGINAL, AGAIN, REWRITTEN = "original", "again", "rewritten"

Named = TypeVar("Named", Series, Column)

_FEWEST_BATCHES = 4  # of a script that only evaluates
_FIRST_LOOK = 2  # steps: enough to see which files are imported, and whether the script trains at all


class BenchError(ValueError):
    """A script that cannot be measured; the message is one line."""

    def __init__(self, message: str, failure: RunFailure | None = None) -> None:
        super().__init__(message)
        self.failure = failure


@dataclass(frozen=True, slots=True)
class Task:
    """What to measure, and for how long."""

    request: Request
    """The original."""
    command: str
    python: str
    """For messages: the interpreter that the script is run with."""
    seconds: float
    """Of each contender's own time, warm-up excluded."""
    steps: int | None = None
    ablate: bool = False


class Runs(Protocol):
    """Starts runs of the script."""

    def observe(self, request: Request) -> RunRecord: ...

    def contender(self, name: str, request: Request) -> AbstractContextManager[Contender]: ...


Tell = Callable[[str, float | None], None]
"""Gets what is going on and, where it is known, how much of it is done."""


def bench(
    task: Task, runs: Runs, find: Callable[[Iterable[Path]], Changes], rules: Collection[Rule], tell: Tell
) -> BenchReport:
    """Measure. `find` says what rules would change in files. Raises `BenchError`, and what `find` raises."""
    return _Bench(task, runs, find, rules, tell).run()


@dataclass(slots=True)
class _Bench:
    task: Task
    runs: Runs
    find: Callable[[Iterable[Path]], Changes]
    rules: Collection[Rule]
    tell: Tell
    changes: Changes = field(default_factory=Changes)
    notes: list[str] = field(default_factory=list)
    noise: float = 1.0
    stage: str = ""

    def run(self) -> BenchReport:
        self.notes += notes.on_machine(load(), os.cpu_count() or 1)
        first = self._first_look()
        self.tell("looking for what can be rewritten", None)
        changes = self.changes = self.find(Path(each) for each in first.files)
        self.notes += changes.problems
        found = self._diagnosis({each.record.code for each in changes})
        rounds = self._side_by_side(self._main())
        columns = self._columns(rounds)
        rewritten = _named(columns, REWRITTEN)
        even = self._break_even(rounds, columns)
        measured = {frozenset(changes.all): rewritten.speedup} if rewritten else {}
        if self.task.ablate:
            columns += self._ablated(columns[0], measured)
        self.notes += notes.on_endings(rounds.series)
        self.notes += notes.on_figures(columns[0], rewritten)
        return BenchReport(
            script=self.task.request.script,
            command=self.task.command,
            machine=facts(first, rounds.series[0].device_name),
            diagnosis=found,
            columns=tuple(columns),
            break_even=even,
            contributions=ablation.contributions(changes, measured) if self.task.ablate else (),
            notes=tuple(self.notes),
            level=medians.LEVEL,
        )

    # -- before

    def _first_look(self) -> RunRecord:
        """The original for a moment: its files, whether it trains at all; and the disk's cache is warm afterwards."""
        self.tell("a first look at the original", None)
        record = self.runs.observe(dataclasses.replace(self.task.request, steps=_FIRST_LOOK))
        if record.failure is not None:
            raise BenchError(self._line(record.failure), record.failure)
        if told := failures.without_training(record, script=self.task.request.script):
            if sum(len(each.batches) for each in record.passes) < _FEWEST_BATCHES:
                raise BenchError(told)
            self.task = dataclasses.replace(self.task, request=dataclasses.replace(self.task.request, batches=True))
            self.notes.append(notes.EVALUATES)
        return record

    def _diagnosis(self, found: Collection[str]) -> Diagnosis | None:
        if self.task.request.batches:
            return None
        self.tell("what binds the original", None)
        record = self.runs.observe(dataclasses.replace(self.task.request, mode="profile"))
        if record.ending == FAILED:
            self.notes.append(notes.NO_DIAGNOSIS)
        return diagnosis.diagnose(record.profile, self.rules, found)

    # -- turns

    def _main(self) -> list[Subset]:
        if not self.changes.all:
            self.notes.append(notes.NOTHING_TO_REWRITE)
            return [Subset(ORIGINAL), Subset(AGAIN)]
        return [Subset(ORIGINAL), Subset(AGAIN), Subset(REWRITTEN, self.changes.all)]

    def _side_by_side(self, candidates: Sequence[Subset]) -> Rounds:
        """Raises `BenchError` where there is nothing to compare."""
        rounds = self._turns(candidates)
        kinds = [each.failure.kind for each in rounds.series if each.failure is not None]
        if any(each.name == AGAIN for each in candidates) and "OutOfMemoryError" in kinds:
            self.notes.append(notes.NO_ROOM)
            rounds = self._turns([each for each in candidates if each.name != AGAIN])
        for series in rounds.series:
            self._judge_ending(series)
        return rounds

    def _turns(self, candidates: Sequence[Subset]) -> Rounds:
        task = self.task
        with contextlib.ExitStack() as stack:
            running = []
            for each in candidates:
                request = dataclasses.replace(task.request, texts=self.changes.texts(each.changes))
                running.append(stack.enter_context(self.runs.contender(each.name, request)))
            rounds = take_turns(running, seconds=task.seconds, steps=task.steps, needed=(REWRITTEN,), tell=self._told)
            for one, series, each in zip(running, rounds.series, candidates, strict=True):
                series.changes = len(each.changes)
                if not series.over and series.device != "cpu":  # one more block of steps, which is not timed
                    series.busy = one.run(rounds.block, busy=True).busy
            self.tell("ending all runs", None)
            for one, series in zip(running, rounds.series, strict=True):
                series.record = one.end()
            return rounds

    def _told(self, name: str, steps: int, share: float) -> None:
        self.tell(f"{self.stage}{name}: {steps} step{'s' * (steps != 1)}", share)

    def _judge_ending(self, series: Series) -> None:
        """Raises `BenchError` where there is nothing to compare."""
        if series.failure is None:
            return
        line = self._line(series.failure)
        if series.name in (ORIGINAL, REWRITTEN):
            raise BenchError(f"{series.name}: {line}" if series.name != ORIGINAL else line, series.failure)
        self.notes.append(f"{series.name} failed after {series.steps} steps and is not shown: {line}")

    def _line(self, failure: RunFailure) -> str:
        return failures.line(failure, script=self.task.request.script, python=self.task.python)

    # -- afterwards

    def _columns(self, rounds: Rounds) -> list[Column]:
        """Of those that did not fail. Raises `BenchError`."""
        columns = []
        for series in rounds.series:
            if series.failure is not None:
                continue
            try:
                column = figures.column(series, rounds, noise=1.0 if series.name in (ORIGINAL, AGAIN) else self.noise)
            except figures.TooShortError as error:
                raise BenchError(f"{Path(self.task.request.script).name}: {series.name} {error}") from error
            if series.name == AGAIN:
                self.noise = column.speedup.median
            columns.append(column)
        return columns

    def _break_even(self, rounds: Rounds, columns: Sequence[Column]) -> BreakEven:
        original, again, rewritten = (_named(rounds.series, name) for name in (ORIGINAL, AGAIN, REWRITTEN))
        column = _named(columns, REWRITTEN)
        if original is None or rewritten is None or column is None:
            return NEVER
        chance = 0.02 * original.first
        if again is not None and again.failure is None:
            chance = max(chance, abs(again.first - original.first))
        step = columns[0].step_seconds.median, column.step_seconds.median
        both = _from_start(original), _from_start(rewritten)
        return break_even(*both, speedup=column.speedup, step=step, start=chance)

    def _ablated(self, original: Column, measured: dict[frozenset[Change], Interval]) -> list[Column]:
        columns: list[Column] = []
        room = ablation.room(free_memory(), original.host_memory)
        subsets = ablation.subsets(self.changes)
        groups = ablation.groups(subsets, room)
        for number, group in enumerate(groups, 1):
            self.stage = f"rule by rule, {number} of {len(groups)}: "
            try:
                found = self._columns(self._side_by_side([Subset(ORIGINAL), *group]))[1:]
            except BenchError as error:
                # The main figures are there: they are worth more than an error.
                self.notes.append(f"{', '.join(each.name for each in group)}: not measured: {error}")
                continue
            columns += found
            of_name = {each.name: frozenset(each.changes) for each in group}
            measured.update({of_name[each.name]: each.speedup for each in found})
        order = [each.name for each in subsets]
        return sorted(columns, key=lambda each: order.index(each.name))


def _named(found: Sequence[Named], name: str) -> Named | None:
    return next((each for each in found if each.name == name), None)


def _from_start(series: Series) -> list[float]:
    return [series.first, *(seconds for turn in series.turns for seconds in turn.times)]
