"""A whole benchmark of runs that are played: what is asked of whom, what the report says, and how it fails."""

from __future__ import annotations

import contextlib
import dataclasses
import shutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from autoaccel.config import configure
from autoaccel.measure import changes
from autoaccel.measure.benching import procedure
from autoaccel.measure.benching.procedure import BenchError, Task, bench
from autoaccel.measure.benching.report import BenchReport
from autoaccel.measure.changes import Changes
from autoaccel.measure.observing.request import Request
from autoaccel.measure.observing.run_record import FAILED, Pass, RunFailure, RunRecord
from tests.measure.benching.scripts import Played, steady

SCRIPT = Path(__file__).resolve().parents[3] / "fixtures" / "scripts" / "mnist.py"
CRASH = RunFailure("RuntimeError", "no luck", "mnist.py:3", "Traceback (most recent call last):\n")


@pytest.fixture(autouse=True)
def _idle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(procedure, "load", lambda: 0.1)


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Changes:
    """What rules find in the script; in no repository, whose files would be searched for each subset of it."""
    script = Path(shutil.copy(SCRIPT, tmp_path_factory.mktemp("alone")))
    settings = configure(script.parent, config=None, isolated=True, inline=[], overrides={})
    return changes.find([script], settings)


@dataclass
class Stage:
    """Plays all runs. A step of the original takes 0.1 s; each file that is rewritten makes it twice as fast."""

    first: RunRecord = field(default_factory=lambda: RunRecord("stopped", steps=2, backwards=2, files=(str(SCRIPT),)))
    profile: RunRecord = field(default_factory=lambda: RunRecord("stopped", steps=5))
    asked: list[Request] = field(default_factory=list)
    players: list[Played] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    direct: Callable[[Played], None] = lambda player: None
    """Gives a player other parts."""

    def observe(self, request: Request) -> RunRecord:
        self.asked.append(request)
        return self.profile if request.mode == "profile" else self.first

    @contextlib.contextmanager
    def contender(self, name: str, request: Request) -> Iterator[Played]:
        self.asked.append(request)
        player = Played(name, steady(0.1 / 2 ** len(request.texts), start=2.0))
        self.players.append(player)
        self.direct(player)
        try:
            yield player
        finally:
            self.left.append(name)

    def bench(self, found: Changes, *, ablate: bool = False, steps: int | None = None) -> BenchReport:
        def find(paths: Iterable[Path]) -> Changes:
            assert list(paths) == [SCRIPT]
            return found

        task = Task(Request("mnist.py"), "autoaccel bench mnist.py", "python", seconds=5, steps=steps, ablate=ablate)
        return bench(task, self, find, (), lambda text, share: None)


def test_report(found: Changes) -> None:
    stage = Stage()
    report = stage.bench(found)
    assert [each.name for each in report.columns] == ["original", "again", "rewritten"]
    _, again, rewritten = report.columns
    assert again.speedup.median == pytest.approx(1)
    assert rewritten.speedup.median == pytest.approx(2)
    assert (again.changes, rewritten.changes) == (0, len(found))
    assert rewritten.decisions[0].topic == "amp"
    assert report.break_even.steps == 0
    assert (report.script, report.command) == ("mnist.py", "autoaccel bench mnist.py")
    assert report.contributions == ()
    assert report.notes == ()


def test_who_runs_what(found: Changes) -> None:
    stage = Stage()
    stage.bench(found)
    first, profile, original, again, rewritten = stage.asked
    assert (first.mode, first.steps, first.texts) == ("record", 2, {})
    assert (profile.mode, profile.texts) == ("profile", {})
    assert original.texts == again.texts == {}
    assert rewritten.texts == found.texts()
    assert {each.seed for each in stage.asked} == {0}


def test_all_are_left_behind_in_order(found: Changes) -> None:
    stage = Stage()
    stage.bench(found)
    assert sorted(stage.left) == ["again", "original", "rewritten"]


def test_a_script_that_only_evaluates_is_measured_by_its_batches(found: Changes) -> None:
    passed = Pass(loader=0, length=10, batches=("a", "b", "c", "d"), complete=True)
    stage = Stage(first=RunRecord("finished", passes=(passed,), files=(str(SCRIPT),)))
    report = stage.bench(found)
    assert [(each.mode, each.batches) for each in stage.asked] == [("record", False), *[("record", True)] * 3]
    assert report.diagnosis is None
    assert "nothing is trained: a step is what the script does with one batch" in report.notes


def test_nothing_to_rewrite() -> None:
    report = Stage().bench(Changes())
    assert [each.name for each in report.columns] == ["original", "again"]
    assert report.break_even.steps is None
    assert any("no rule changes anything here" in note for note in report.notes)


def test_ablation(found: Changes) -> None:
    report = Stage().bench(found, ablate=True)
    codes = {each.record.code for each in found}
    assert {each.code for each in report.contributions} == codes
    names = [each.name for each in report.columns]
    assert names[:3] == ["original", "again", "rewritten"]
    assert names[3:] == sorted(names[3:])
    for each in report.contributions:
        for interval in (each.alone, each.without):
            assert interval is None or interval.median == pytest.approx(2)
    assert all(each.alone or each.without for each in report.contributions)


def test_an_ablation_that_fails_is_a_note(found: Changes) -> None:
    code = found.all[0].record.code

    def direct(player: Played) -> None:
        player.fails_after = 3 if player.name == f"without {code}" else None

    report = Stage(direct=direct).bench(found, ablate=True)
    assert report.column(f"without {code}") is None
    assert f"without {code} failed after 3 steps and is not shown: mnist.py: RuntimeError: no luck" in report.notes


def test_an_ablation_without_an_original_is_a_note(found: Changes) -> None:
    stage = Stage()

    def direct(player: Played) -> None:
        player.fails_after = 3 if player.name == "original" and len(stage.players) > 3 else None

    stage.direct = direct
    report = stage.bench(found, ablate=True)
    assert [each.name for each in report.columns] == ["original", "again", "rewritten"]
    assert all(": not measured: mnist.py: RuntimeError: no luck" in note for note in report.notes)


def test_noise_of_the_original_widens_the_others(found: Changes) -> None:
    def direct(player: Played) -> None:
        player.seconds = {"again": steady(0.11)}.get(player.name, player.seconds)

    report = Stage(direct=direct).bench(found)
    rewritten = report.columns[2].speedup
    assert (rewritten.low, rewritten.high) == pytest.approx((2 / 1.1, 2 * 1.1))


def test_a_slow_start_is_made_up_for(found: Changes) -> None:
    def direct(player: Played) -> None:
        if player.name == "rewritten":
            player.seconds = steady(0.05, start=30.0)

    even = Stage(direct=direct).bench(found).break_even
    assert (even.steps, even.measured) == (561, False)


def test_time_to_many_steps_that_differ(found: Changes) -> None:
    def direct(player: Played) -> None:
        """Every eighth block evaluates, which rewriting makes ten times slower."""
        slow = 0.6 if player.name == "rewritten" else 0.1
        usual = player.seconds
        player.seconds = lambda step: slow if step % 24 == 0 else usual(step)

    (note,) = Stage(direct=direct).bench(found).notes
    assert "timed steps together" in note


@pytest.mark.parametrize(
    ("record", "message"),
    [
        pytest.param(RunRecord(FAILED, failure=CRASH), "mnist.py:3: RuntimeError: no luck", id="crash"),
        pytest.param(
            RunRecord("finished", seconds=1.5),
            "mnist.py: ended after 1.5 s without a backward or an optimizer step",
            id="no training",
        ),
    ],
)
def test_a_first_look_that_ends_it(found: Changes, record: RunRecord, message: str) -> None:
    stage = Stage(first=record)
    with pytest.raises(BenchError) as error:
        stage.bench(found)
    assert str(error.value) == message
    assert error.value.failure is record.failure
    assert len(stage.asked) == 1


@pytest.mark.parametrize(("name", "prefix"), [("original", ""), ("rewritten", "rewritten: ")])
def test_a_contender_that_fails(found: Changes, name: str, prefix: str) -> None:
    def direct(player: Played) -> None:
        player.fails_after = 7 if player.name == name else None

    stage = Stage(direct=direct)
    with pytest.raises(BenchError) as error:
        stage.bench(found)
    assert str(error.value) == f"{prefix}mnist.py: RuntimeError: no luck"
    assert max(each.made for each in stage.players) < 20, "the others go on for nothing"
    assert sorted(stage.left) == ["again", "original", "rewritten"]


def test_without_a_diagnosis(found: Changes) -> None:
    report = Stage(profile=RunRecord(FAILED, failure=CRASH)).bench(found)
    assert report.diagnosis is None
    assert report.notes == ("what binds the script could not be found out",)


def test_too_short(found: Changes) -> None:
    def direct(player: Played) -> None:
        player.steps = 3

    with pytest.raises(BenchError, match=r"mnist\.py: original made 3 steps: too few to time anything"):
        Stage(direct=direct).bench(found)


def test_a_short_script(found: Changes) -> None:
    def direct(player: Played) -> None:
        player.steps = 10

    report = Stage(direct=direct).bench(found)
    assert report.columns[2].speedup.median == pytest.approx(2)
    assert "the original ended by itself after 10 steps" in report.notes
    assert any("blocks of steps were timed" in note for note in report.notes)


def test_a_rewritten_script_that_ends_early(found: Changes) -> None:
    def direct(player: Played) -> None:
        player.steps = 30 if player.name == "rewritten" else None

    notes = Stage(direct=direct).bench(found).notes
    assert "rewritten ended by itself after 30 steps, the original did not" in notes


def test_a_busy_machine(found: Changes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(procedure, "load", lambda: 0.9)
    monkeypatch.setattr("os.cpu_count", lambda: 4)
    assert "the machine was not idle: a load of 3.6 on 4 cores at the start" in Stage().bench(found).notes


def test_how_busy_the_device_is(found: Changes) -> None:
    def direct(player: Played) -> None:
        player.device = "cuda"

    report = Stage(direct=direct).bench(found)
    assert [each.device_busy for each in report.columns] == [0.5, 0.5, 0.5]


def test_a_file_of_the_user_is_never_overwritten(found: Changes) -> None:
    def direct(player: Played) -> None:
        player.fails_after = 9
        player.failure = RunFailure("overwrites", "would overwrite /model.pt, which lies outside", "mnist.py:3")

    stage = Stage(direct=direct)
    with pytest.raises(BenchError, match=r"^mnist\.py:3: would overwrite /model\.pt, which lies outside$"):
        stage.bench(found)


def test_memory_that_does_not_suffice_for_three(found: Changes) -> None:
    stage = Stage()

    def direct(player: Played) -> None:
        if player.name == "rewritten" and any(each.name == "again" for each in stage.players[-3:]):
            player.fails_after = 0
            player.failure = RunFailure("OutOfMemoryError", "CUDA out of memory")

    stage.direct = direct
    report = stage.bench(found)
    assert [each.name for each in report.columns] == ["original", "rewritten"]
    assert report.notes == ("memory did not suffice for all at once: the noise of the original was not measured",)


def test_a_loss_that_is_no_number(found: Changes) -> None:
    def direct(player: Played) -> None:
        player.diverges_after = 12 if player.name == "rewritten" else None

    (note,) = Stage(direct=direct).bench(found).notes
    assert "from step 13 on" in note


def test_files_that_are_left_alone_are_told(found: Changes) -> None:
    broken = dataclasses.replace(found, problems=("loader.py:3: cannot parse: invalid syntax",))
    assert Stage().bench(broken).notes == broken.problems
