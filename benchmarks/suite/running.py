"""A run of the suite: units of work one after the other, and what they found."""

from __future__ import annotations

import dataclasses
import statistics
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

from autoaccel.measure import launching
from autoaccel.measure.benching import machine
from autoaccel.measure.benching.contenders import Observed
from autoaccel.measure.benching.report import Interval
from autoaccel.measure.fork_server import ForkServer
from autoaccel.measure.observing.run_record import RunRecord
from benchmarks.suite import estimates, gate, measuring, schedule
from benchmarks.suite.candidates import Candidate, Setting, candidates
from benchmarks.suite.catalogue import ACCELERATE, AGAIN, DEFAULT, EXACT, FABRIC, ORIGINAL, PAIRED, Script
from benchmarks.suite.measuring import Pace, Series
from benchmarks.suite.results import FAILED, MEASURED, SKIPPED, Column, Gate, Result, Run, Until
from benchmarks.suite.schedule import Unit

_SEEDS = 3  # for which losses are compared
_TIMEOUT = 240.0  # s without a step: compiling takes long
_REMEMBERED = 64  # losses of a column that are kept in the result

Say = Callable[[str], None]
Keep = Callable[[Run], None]
"""Gets what is known so far, after every script."""


@dataclasses.dataclass(frozen=True, slots=True)
class Wanted:
    """What to measure, and for how long."""

    scripts: tuple[Script, ...]
    columns: Collection[str]
    setting: Setting
    pace: Pace
    seconds: float
    replicates: int = 2
    """Processes of each column that something is promised of, at least."""
    most: int = 5
    """Processes, where there is time and the gain is in doubt."""
    forks: bool = True
    """Whether runs are forked from a process that has torch, or start as any program does."""


def run(wanted: Wanted, environment: Mapping[str, str], say: Say, keep: Keep | None = None) -> Run:
    """Measure. Whatever fails is in the result as failed."""
    return _Suite(wanted, environment, say, keep).run()


class _Suite:
    def __init__(self, wanted: Wanted, environment: Mapping[str, str], say: Say, keep: Keep | None) -> None:
        self.wanted, self.environment, self.say, self.keep = wanted, environment, say, keep
        self.began = time.monotonic()
        self.scripts = {each.id: each for each in wanted.scripts}
        self.found: dict[str, list[list[Series]]] = {each.id: [] for each in wanted.scripts}
        self.lowered: dict[str, dict[int, list[float]]] = {each.id: {} for each in wanted.scripts}
        """Losses by seed of runs in the precision that was adopted, where one was."""
        self.problems: dict[str, str] = {}
        self.spent: dict[str, list[float]] = {each.id: [] for each in wanted.scripts}
        """Seconds by column, process after process."""
        self.servers: list[ForkServer] = []
        """A fork has its memory where its server has it, so all forks of one are alike, and those of another one are
        laid out differently: what lasts for the life of a process shows between servers, not between columns."""
        self.record: RunRecord | None = None

    @property
    def left(self) -> float:
        return self.wanted.seconds - (time.monotonic() - self.began)

    @property
    def start(self) -> float:
        """Seconds that every process spends before it is forked."""
        ready = [server.ready for server in self.servers if server.ready is not None]
        return statistics.median(ready) if ready else 0.0

    def run(self) -> Run:
        setting = self.wanted.setting
        columns = {each.id: setting.columns(each, self.wanted.columns) for each in self.wanted.scripts}
        units = schedule.planned(columns, PAIRED, self.wanted.replicates)
        with ExitStack() as stack:
            if self.wanted.forks:
                everything = launching.run_environment(self.environment)
                for _ in range(self.wanted.replicates):
                    self.servers.append(ForkServer(sys.executable, everything, self.wanted.setting.data))
                    stack.callback(self.servers[-1].close)
            for server in self.servers:
                server.wait()
            while units:
                self._unit(units[0], schedule.allowance(units, self.left))
                units = units[1:]
            self._again(columns)
        return self._run()

    def _again(self, columns: Mapping[str, tuple[str, ...]]) -> None:
        """More processes of what is in doubt, while there is time."""
        while True:
            ratios = {script: ratio for script in self.scripts if (ratio := self._ratio(script)) is not None}
            counts = {script: len(found) for script, found in self.found.items()}
            needy = schedule.needy(ratios, counts, self.wanted.most)
            units = [
                Unit(
                    script,
                    tuple(each for each in columns[script] if each in (ORIGINAL, AGAIN, DEFAULT)),
                    counts[script],
                )
                for script in needy
            ]
            affordable = [unit for unit in units if self._expected(unit) < self.left]
            if not affordable:
                return
            self._unit(affordable[0], self._expected(affordable[0]))

    def _expected(self, unit: Unit) -> float:
        """Seconds, by what the last processes of the script took; none are known of the first."""
        return self.spent[unit.script][-1] * len(unit.columns) if self.spent[unit.script] else 0.0

    def _ratio(self, script: str) -> Interval | None:
        pairs = self._pairs(script, DEFAULT)
        return estimates.estimate(pairs) if any(pairs) else None

    def _unit(self, unit: Unit, seconds: float) -> None:
        script = self.scripts[unit.script]
        name = f"{script.id}, process {len(self.found[script.id]) + 1}"
        if script.id not in self.problems and self._expected(unit) >= self.left:
            if not self.found[script.id]:
                self.problems[script.id] = "no time was left"
            self.say(f"{name}: left out, no time is left")
            return
        if script.id in self.problems:
            return
        began = time.monotonic()
        try:
            found = self._measured(script, unit, seconds)
        except (ValueError, OSError) as error:
            self.problems[script.id] = str(error)
            self.say(f"{name}: {error}")
            return
        self.found[script.id].append(found)
        took = time.monotonic() - began
        self.spent[script.id].append(took / len(unit.columns))
        self.say(f"{name}: {self._line(found)}; {took:.0f} of {seconds:.0f} s")
        if self.keep is not None:
            self.keep(self._run())

    def _measured(self, script: Script, unit: Unit, seconds: float) -> list[Series]:
        """Raises `ValueError` for a script that does not keep to what the suite asks of it."""
        ready = candidates(script, unit.columns, self.wanted.setting, seed=unit.seed)
        order = measuring.sequence([each.column for each in ready])
        ready.sort(key=lambda each: order.index(each.column))
        opener, pace = self._opener(unit.seed), self.wanted.pace
        if script.whole is not None:
            return measuring.whole_runs(ready, opener, pace=pace)
        latest = self.began + self.wanted.seconds
        found = measuring.side_by_side(ready, opener, pace=pace, seconds=seconds, latest=latest, aligned=script.varied)
        default = next((each for each in found if each.column == DEFAULT and each.failure is None), None)
        lower = None if default is None else measuring.lowered(default)
        if lower is not None and unit.seed < _SEEDS:
            # What was tried began when the original had long made its steps: losses are compared of a run without.
            self.lowered[script.id][unit.seed] = measuring.losses(lower, opener, found[0].steps)
        return found

    def _opener(self, seed: int) -> measuring.Open:
        server = self.servers[seed % len(self.servers)] if self.servers else None

        @contextmanager
        def opened(candidate: Candidate) -> Iterator[measuring.Contender]:
            begin = partial(
                launching.Started,
                python=sys.executable,
                environment={**self.environment, **candidate.environment},
                folder=self.wanted.setting.data,
                server=server,
            )
            with Observed(candidate.column, candidate.request, begin, timeout=_TIMEOUT) as observed:
                yield _Remembering(observed, self)

        return opened

    def _line(self, found: Sequence[Series]) -> str:
        said = []
        for series in found:
            if series.failure is not None:
                said.append(f"{series.column} failed ({series.failure.kind})")
            elif ratios := measuring.ratios(found[0], series):
                said.append(f"{series.column} {statistics.median(ratios):.2f}")
        return " · ".join(said) or "nothing was measured"

    # -- afterwards

    def _run(self) -> Run:
        results = tuple(self._result(each, self.start) for each in self.wanted.scripts)
        name = next(
            (s.device_name for found in self.found.values() for each in found for s in each if s.device_name), ""
        )
        return Run(
            device=self.wanted.setting.device,
            size=self.wanted.setting.size,
            machine=machine.facts(self.record, name) if self.record is not None else {},
            results=results,
            planned_seconds=self.wanted.seconds,
            used_seconds=time.monotonic() - self.began,
            start_seconds=self.start,
        )

    def _result(self, script: Script, start: float) -> Result:
        found = self.found[script.id]
        names = self.wanted.setting.columns(script, self.wanted.columns)
        problem = self.problems.get(script.id, "")
        columns = tuple(self._column(script, name, start, problem) for name in names)
        return Result(
            script.id,
            script.title,
            script.control,
            columns,
            gates=tuple(self._gates(script, {each.name for each in columns if each.is_measured})),
            goals=script.goals,
            processes=len(found),
            seconds=sum(by_column * len(each) for by_column, each in zip(self.spent[script.id], found, strict=True)),
        )

    def _of(self, script: str, column: str) -> list[Series]:
        """By process; those that failed are not among them."""
        return [
            each for found in self.found[script] for each in found if each.column == column and each.failure is None
        ]

    def _pairs(self, script: str, column: str) -> list[tuple[float, ...]]:
        """Ratios to the original, by pair of processes."""
        start = 0.0 if self.scripts[script].whole is None else self.start
        pairs = []
        for found in self.found[script]:
            for series in found:
                if series.column == column and series.failure is None:
                    pairs.append(measuring.ratios(_later(found[0], start), _later(series, start)))
        return [each for each in pairs if each]

    def _column(self, script: Script, name: str, start: float, problem: str) -> Column:
        series = self._of(script.id, name)
        pairs = self._pairs(script.id, name)
        failed = [each for found in self.found[script.id] for each in found if each.column == name and each.failure]
        if not pairs or failed:
            return self._lost(name, failed, problem)
        seconds = measuring.steady(series)
        if script.whole is not None:
            seconds = (seconds + start) / script.whole
        return Column(
            name,
            MEASURED,
            ratio=Interval(1.0, 1.0, 1.0) if name == ORIGINAL else estimates.estimate(pairs),
            pairs=tuple(pairs),
            step_seconds=seconds,
            samples_per_second=self._samples(script) / seconds if self._samples(script) else None,
            first_step_seconds=start + statistics.median(each.first for each in series),
            to_100=_until(series, 100, start, seconds, script),
            to_1000=_until(series, 1000, start, seconds, script),
            host_memory=int(statistics.median(each.host_memory for each in series)),
            device_memory=int(statistics.median(each.device_memory for each in series)),
            changes=series[0].candidate.changes,
            decisions=series[0].decisions,
            settled=all(each.settled for each in series),
            losses=tuple(series[0].losses[:_REMEMBERED]),
        )

    def _lost(self, name: str, failed: Sequence[Series], problem: str) -> Column:
        failure = failed[0].failure if failed else None
        if failure is None:
            return Column(name, FAILED, problem or "the original failed")
        missing = failure.kind == "ModuleNotFoundError" and name in (FABRIC, ACCELERATE)
        if missing or failure.kind == measuring.LATE:
            return Column(name, SKIPPED, failure.message)
        return Column(name, FAILED, f"{failure.kind}: {failure.message}")

    def _samples(self, script: Script) -> float:
        """Of a step."""
        original = self._of(script.id, ORIGINAL)
        counted = sum(each.counted for each in original)
        handed_out = sum(each.samples for each in original)
        if counted and handed_out:
            return handed_out / counted
        return float(script.batch[self.wanted.setting.size == "full"]) if script.batch else 0.0

    def _gates(self, script: Script, measured: Collection[str]) -> Iterator[Gate]:
        losses = {
            name: {
                seed: s.losses for seed, found in enumerate(self.found[script.id]) for s in found if s.column == name
            }
            for name in (ORIGINAL, AGAIN, EXACT, DEFAULT)
        }
        if EXACT in measured:
            yield gate.exact(EXACT, losses[ORIGINAL], losses[AGAIN], losses[EXACT])
        if DEFAULT in measured:
            lower = self.lowered[script.id]
            said = " (low precision from the first step on)" if lower else ""
            found = gate.close(DEFAULT, losses[ORIGINAL], lower or losses[DEFAULT])
            yield dataclasses.replace(found, said=found.said + said)


class _Remembering:
    """A contender whose record says what the suite runs with."""

    def __init__(self, observed: Observed, suite: _Suite) -> None:
        self._observed, self._suite = observed, suite
        self.start, self.run = observed.start, observed.run

    def end(self) -> RunRecord | None:
        record = self._observed.end()
        self._suite.record = record or self._suite.record
        return record


def _later(series: Series, seconds: float) -> Series:
    """With blocks that take so much longer: what every run begins with."""
    return dataclasses.replace(series, blocks=[block + seconds for block in series.blocks]) if seconds else series


def _until(series: Sequence[Series], steps: int, start: float, step: float, script: Script) -> Until | None:
    """The median over processes of the time to a step."""
    if script.whole is not None and script.whole < steps:
        return None
    measured = all(1 + len(each.times) >= steps for each in series)
    found = []
    for each in series:
        rest = each.times[: steps - 1]
        found.append(start + each.first + sum(rest) + (steps - 1 - len(rest)) * step)
    return Until(statistics.median(found), measured)


def data_folder(size: str) -> Path:
    """Where generated files lie: in memory where that is possible."""
    memory = Path("/dev/shm")
    name = f"autoaccel-suite-{size}"
    return memory / name if memory.is_dir() else Path.home() / ".cache" / name
