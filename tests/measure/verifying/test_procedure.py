"""Which runs a verification makes, and what it concludes from them: the runs themselves are made up."""

from __future__ import annotations

import ast
import math
import random
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import pytest

from autoaccel.analysis import Script
from autoaccel.config import configure
from autoaccel.edits import Code, Finding, Replace, Skipped, Tier
from autoaccel.measure import changes
from autoaccel.measure.observing.request import COMPILE, FUSED, WORKERS, Request
from autoaccel.measure.observing.run_record import FAILED, FINISHED, STOPPED, Decision, Pass, RunFailure, RunRecord
from autoaccel.measure.verifying import procedure
from autoaccel.measure.verifying.originals import Limits, steps_per_pass
from autoaccel.measure.verifying.report import Outcome, Verdict, Verification
from autoaccel.measure.verifying.trials import CannotVerifyError
from autoaccel.rewriting import registry
from autoaccel.rewriting.rule import Rule
from tests.measure.verifying.made import RECORD, losses, one_pass

EXACT = Rule("AA190", "fast", Tier.EXACT, (b"slow",))
LOWER = Rule("AA390", "lower", Tier.NUMERICS, (b"train",))
TRIED = ("AUTOACCEL_CHANNELS_LAST", "AUTOACCEL_MATMUL_PRECISION", "AUTOACCEL_CUDNN_BENCHMARK")
DRAWS = Rule("AA290", "workers", Tier.EQUIVALENT, (b"load",))


def _rewriting(rule: Rule, prefix: str, new: str) -> Callable[[Script], Iterator[Finding | Skipped]]:
    def check(script: Script) -> Iterator[Finding | Skipped]:
        for call in script.find(ast.Call):
            if isinstance(call.func, ast.Name) and call.func.id.startswith(prefix):
                number = call.func.id.removeprefix(prefix)
                yield rule.finding(call, f"{prefix} is slow", Replace(call.func, Code(f"{new}{number}")))

    return check


EXACT.check(_rewriting(EXACT, "slow", "fast"))
LOWER.check(_rewriting(LOWER, "train", "lower"))
DRAWS.check(_rewriting(DRAWS, "load", "work"))

SCRIPT = "slow1()\nslow2()\nslow3()\ntrain1()\ntrain2()\nload1()\n"


@dataclass
class World:
    """Makes records instead of runs. Names are those of calls in the rewritten text: `fast2`, `lower1`, `work1`."""

    script: Path
    wrong: frozenset[str] = frozenset()
    """Calls that make another loss."""
    fails: frozenset[str] = frozenset()
    together: frozenset[str] = frozenset()
    """Calls that make another loss only when all are there."""
    as_graph: frozenset[str] = frozenset()
    """Calls that round otherwise where graphs are captured."""
    graph_error: float = 1e-7
    fused_error: float = 0.0
    """How much optimizers are off by a kernel of their own; work1 asks for it."""
    drawing: bool = False
    """Whether the dataset draws random numbers, others in each worker."""
    duplicates: bool = False
    """Whether workers hand out everything twice."""
    overflows: frozenset[str] = frozenset()
    """Calls that need a number which float16 does not have."""
    no_float16: bool = False
    """Whether this machine cannot compute in it."""
    in_low_precision: float = 0.001
    """How much the loss is off in bfloat16."""
    diverges: bool = False
    """Whether it is in bfloat16."""
    noise: float = 0.1
    """Between seeds."""
    unsteady: float = 0.0
    """Between equal runs."""
    steady_runs: int = 0
    """That many runs are equal by chance."""
    marked: str = ""
    unobserved: int = 0
    """That many runs end before anything could be seen of the rewritten script."""
    steps: int = 40
    patience: int = 40
    """How many steps are made before patience is at an end."""
    short: int = 0
    """How many steps there is room for in the time that a run lasts at least."""
    reached: tuple[int, ...] = (1, 2, 3, 4, 5, 6)
    reached_in_short_passes: tuple[int, ...] = (1, 2, 3, 4, 5, 6)
    reached_later: tuple[int, ...] = ()
    plateau: bool = False
    """Whether a scheduler remembers the best loss."""
    frozen_in_low_precision: bool = False
    decisions: tuple[Decision, ...] = ()
    original: Callable[[RunRecord], RunRecord] = lambda record: record
    asked: list[tuple[Request, Mapping[str, str]]] = field(default_factory=list)

    def run(self, request: Request, environment: Mapping[str, str]) -> RunRecord:
        self.asked.append((request, environment))
        text = "".join(request.texts.values())
        calls = frozenset(re.findall(r"\b(?:fast|lower|work)\d", text))
        if calls and self.unobserved:
            self.unobserved -= 1
            return RunRecord(FAILED, RunFailure("died", "ended with exit status 1: TypeError: ours"))
        if calls & self.fails:
            return RunRecord(FAILED, RunFailure("RuntimeError", "no", "train.py:2"))
        if environment.get("AUTOACCEL_AMP_DTYPE") == "float16":
            if calls & self.overflows:
                message = "value cannot be converted to type c10::Half without overflow"
                return RunRecord(FAILED, RunFailure("RuntimeError", message, "train.py:4"))
            if self.no_float16:
                return RunRecord(FAILED, RunFailure("RuntimeError", "not implemented for 'Half'", "train.py:4"))
        low = bool(calls & {"lower1", "lower2"}) and environment.get("AUTOACCEL_AMP_DTYPE") == "bfloat16"
        record = self._trained(request, calls, low=low)
        record = replace(record, passes=self._passes(request, calls), files=(str(self.script),))
        if request.lines:
            lines = self.reached_in_short_passes if request.pass_batches else self.reached
            if (request.steps or 0) > 40:
                lines = (*lines, *self.reached_later)
            record = replace(record, reached={str(self.script): lines})
        if self.marked in calls:
            record = replace(record, marks={"gradients were clipped while they were scaled": 1})
        return record if calls else self.original(record)

    def _trained(self, request: Request, calls: frozenset[str], *, low: bool) -> RunRecord:
        wanted = request.steps or self.steps
        wanted = max(wanted, self.short) if request.at_least else wanted
        steps = min(wanted, self.steps, max(self.patience, self.short) if request.patience else self.steps)
        numbers = random.Random(request.seed)
        again = random.Random(len(self.asked))
        unsteady = self.unsteady if len(self.asked) > self.steady_runs else 0.0
        level = (
            1 + numbers.gauss(0, self.noise) + again.gauss(0, unsteady) + 0.01 * request.perturbation * numbers.random()
        )
        if calls & self.wrong or (self.together and self.together <= calls):
            level += 0.5
        digits = 2.0**-29 if request.double else 1.0  # that float64 has more
        if calls & self.as_graph and COMPILE in request.rehearse:
            level += self.graph_error * digits
        if "work1" in calls and FUSED in request.rehearse:
            level += self.fused_error * digits
        if self._workers(request, calls) and self.drawing:
            level += random.Random(request.seed + 500).gauss(0, self.noise)
        if low:
            level += self.in_low_precision
        settings = dict(RECORD.settings)
        if self.plateau:
            settings["scheduler.best"] = repr(level)
        if low and self.frozen_in_low_precision:
            settings["model.training"] = "False"
        values = [level * (1 + 1 / (1 + step)) for step in range(steps)]
        if low and self.diverges:
            values[-1] = math.nan
        return replace(
            RECORD,
            ending=FINISHED if steps == self.steps else STOPPED,
            losses=losses(values),
            steps=steps,
            backwards=steps,
            state=(),
            printed=(),
            settings=settings,
            decisions=self.decisions if calls else (),
        )

    def _workers(self, request: Request, calls: frozenset[str]) -> bool:
        _, environment = self.asked[-1]
        asked = WORKERS in request.rehearse or "AUTOACCEL_NUM_WORKERS" in environment
        return asked and "work1" in calls

    def _passes(self, request: Request, calls: frozenset[str]) -> tuple:  # type: ignore[type-arg]
        draws = ("torch",) if self.drawing else ()
        names = f"a{request.seed} b{request.seed}"
        if self._workers(request, calls):
            names = f"{names} {names}" if self.duplicates else f"x{request.seed} y" if self.drawing else names
        return (one_pass(names, length=2, draws=draws),)

    def labels(self) -> list[str]:
        """What was asked for, run by run."""
        return [
            ("rewritten" if request.texts else "original")
            + (f" {len(request.rehearse)}" if request.rehearse else "")
            + (f" seed {request.seed}" if request.seed else "")
            + (" short" if request.pass_batches else "")
            for request, _ in self.asked
        ]


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(registry, "rules", lambda: (EXACT, LOWER, DRAWS))
    monkeypatch.chdir(tmp_path)
    path = tmp_path.resolve() / "train.py"
    path.write_text(SCRIPT, encoding="utf-8")
    return path


def verify(world: World, limits: Limits | None = None) -> Verification:
    settled = configure(world.script.parent, isolated=True)
    report, every = procedure.verify(
        Request(str(world.script)), partial(changes.find, configuration=settled), world.run, limits=limits
    )
    assert [each.record.where for each in every] == [each.where for each in report.outcomes]
    return report


def by_line(report: Verification) -> dict[int, Outcome]:
    return {each.line: each for each in report.outcomes}


def failed(report: Verification) -> list[int]:
    return sorted(each.line for each in report.of(Verdict.FAILED))


def test_all_is_well(script: Path) -> None:
    world = World(script)
    report = verify(world)
    assert report.same
    assert {each.verdict for each in report.outcomes} == {Verdict.PASSED}
    assert by_line(report)[1].reason == "bit for bit"
    assert by_line(report)[4].reason == "bit for bit in float32; in low precision within the spread"
    assert by_line(report)[6].reason == "bit for bit"
    assert (report.steps, report.complete, report.repeats) == (40, True, True)
    assert world.labels() == [
        "original", "original", "rewritten 4", "rewritten",
        "original seed 1", "rewritten seed 1", "original seed 2", "rewritten seed 2", "rewritten",
    ]  # fmt: skip
    assert report.numerics is not None
    assert report.numerics.seeds == 3
    assert len(report.trials) == len(world.asked)


FUSED_OPTIMIZER = (Decision("fused optimizer", "off", "AUTOACCEL_FUSED"),)


def test_kernels_that_round_otherwise(script: Path) -> None:
    world = World(script, fused_error=1e-7, decisions=FUSED_OPTIMIZER)
    report = verify(world)
    assert report.same
    assert by_line(report)[6].reason == "the same but for rounding"
    assert by_line(report)[1].reason == "bit for bit"


def test_kernels_that_do_more_than_round_otherwise(script: Path) -> None:
    world = World(script, fused_error=0.1, decisions=FUSED_OPTIMIZER)
    report = verify(world)
    assert failed(report) == [6]


def test_without_changes_one_run_is_enough(script: Path) -> None:
    script.write_text("pass\n", encoding="utf-8")
    world = World(script)
    report = verify(world)
    assert (report.outcomes, world.labels()) == ((), ["original"])


@pytest.mark.parametrize(("wrong", "line"), [("fast1", 1), ("fast2", 2), ("fast3", 3), ("lower1", 4), ("lower2", 5)])
def test_what_is_not_bit_equal_is_named(script: Path, wrong: str, line: int) -> None:
    world = World(script, wrong=frozenset({wrong}))
    report = verify(world)
    assert failed(report) == [line]
    assert by_line(report)[line].reason.startswith("loss of step 1: ")
    assert len(by_line(report)[line].differences) == 1
    assert {each.verdict for each in report.outcomes if each.line != line} == {Verdict.PASSED}
    # The others are verified without it.
    assert all(f"{wrong}(" not in "".join(request.texts.values()) for request, _ in world.asked[-3:])


def test_several_culprits(script: Path) -> None:
    assert failed(verify(World(script, wrong=frozenset({"fast1", "lower2"})))) == [1, 5]


def test_two_that_are_wrong_only_together(script: Path) -> None:
    report = verify(World(script, together=frozenset({"fast1", "lower1"})))
    assert failed(report) == [4]
    assert by_line(report)[4].reason.endswith(", together with AA190 on line 1")


def test_a_rewritten_script_that_fails(script: Path) -> None:
    report = verify(World(script, fails=frozenset({"fast2"})))
    assert failed(report) == [2]
    assert by_line(report)[2].reason == "it fails: RuntimeError: no (train.py:2)"


def test_a_mark_is_a_difference_although_the_numbers_are_the_same(script: Path) -> None:
    report = verify(World(script, marked="lower1"))
    assert failed(report) == [4]
    assert by_line(report)[4].reason == "gradients were clipped while they were scaled"


def test_rounding_in_captured_graphs_is_none(script: Path) -> None:
    report = verify(World(script, as_graph=frozenset({"lower2"})))
    assert report.same
    assert by_line(report)[5].reason == "the same but for rounding"


def test_graphs_that_do_something_else_do_not_round(script: Path) -> None:
    assert failed(verify(World(script, as_graph=frozenset({"lower2"}), graph_error=0.01))) == [5]


def test_what_is_equivalent_has_no_excuse_where_there_is_one_stream_only(script: Path) -> None:
    assert failed(verify(World(script, wrong=frozenset({"work1"})))) == [6]


def test_on_an_accelerator_numbers_may_come_from_its_own_stream(script: Path) -> None:
    world = World(script, wrong=frozenset({"work1"}), noise=0.5)
    world.original = lambda record: replace(record, device="cuda")
    report = verify(world)
    assert report.same
    assert by_line(report)[6].reason.startswith("other random numbers, equally distributed: loss of step 1: ")


def test_but_an_exact_change_has_no_such_excuse(script: Path) -> None:
    assert failed(verify(World(script, as_graph=frozenset({"fast2"})))) == [2]


def test_a_dataset_that_draws_random_numbers_draws_others_in_workers(script: Path) -> None:
    report = verify(World(script, drawing=True))
    assert report.same
    assert report.numerics is not None
    assert report.numerics.what == "in bfloat16"
    assert by_line(report)[6].reason.startswith("other random numbers, equally distributed: pass 1 over loader 1: ")
    assert by_line(report)[1].reason == "bit for bit"


def test_what_stays_in_float32_on_this_cpu_is_said(script: Path) -> None:
    world = World(script, decisions=(Decision("LSTM layers on cpu", "float32", "this CPU has none"),))
    said = "LSTM layers on cpu: float32 (this CPU has none), so their low precision was not verified"
    assert said in verify(world).notes


def test_only_what_may_compute_in_low_precision_does(script: Path) -> None:
    script.write_text("slow1()\nload1()\n", encoding="utf-8")
    world = World(script, drawing=True)
    report = verify(world)
    assert report.same
    assert report.numerics is not None
    assert report.numerics.what == "with other random numbers"
    assert {"AUTOACCEL_FUSED": "on", "AUTOACCEL_NUM_WORKERS": "2"} in [environment for _, environment in world.asked]
    assert not any("AUTOACCEL_AMP_DTYPE" in environment for _, environment in world.asked)


def test_one_that_does_not_has_no_excuse(script: Path) -> None:
    report = verify(World(script, duplicates=True))
    assert failed(report) == [6]
    assert "came again in the same pass" in by_line(report)[6].reason


def test_twice_the_batches_are_no_matter_of_chance(script: Path) -> None:
    report = verify(World(script, drawing=True, duplicates=True))
    assert failed(report) == [6]
    assert "batches of loader 1 came again" in by_line(report)[6].reason


def test_out_of_the_spread_in_low_precision(script: Path) -> None:
    world = World(script, in_low_precision=1.0, noise=0.01)
    report = verify(world)
    # Both are wrong, and each alone is enough.
    assert failed(report) == [4, 5]
    assert "times the spread between runs of the original" in by_line(report)[4].reason


def test_a_number_that_float16_does_not_have(script: Path) -> None:
    report = verify(World(script, overflows=frozenset({"lower2"})))
    assert failed(report) == [5]
    assert by_line(report)[5].reason.startswith("in float16 it fails: RuntimeError: value cannot be converted")


def test_a_machine_that_cannot_compute_in_float16(script: Path) -> None:
    assert verify(World(script, no_float16=True)).same


def test_divergence_ends_at_the_first_seed(script: Path) -> None:
    world = World(script, diverges=True)
    report = verify(world)
    assert failed(report) == [4, 5]
    assert by_line(report)[4].reason == "loss of step 40: nan"
    assert all(request.seed == 0 for request, _ in world.asked)


def test_without_a_spread_the_original_is_disturbed(script: Path) -> None:
    world = World(script, noise=0.0)
    report = verify(world)
    assert report.same
    assert any(request.perturbation for request, _ in world.asked)
    assert not any(request.perturbation for request, _ in world.asked if request.texts)


def test_settings_that_follow_from_numbers_are_no_difference(script: Path) -> None:
    """As `best` of a scheduler that waits for the loss to fall."""
    assert verify(World(script, plateau=True)).same
    assert verify(World(script, plateau=True, noise=0.0)).same


def test_a_module_in_another_mode_is_one_in_low_precision_too(script: Path) -> None:
    report = verify(World(script, frozen_in_low_precision=True))
    assert failed(report) == [4, 5]
    assert by_line(report)[4].reason == "model is in evaluation mode"


def test_what_could_not_be_rehearsed_is_told(script: Path) -> None:
    world = World(script)
    world.decisions = (Decision("compile Net", "off", "TorchRuntimeError: no"), Decision("amp on cpu", "off", "so"))
    assert verify(world).notes == ("compile Net: off (TorchRuntimeError: no), so that was not verified",)


def test_a_rehearsal_that_disturbs_the_original_itself_says_nothing(script: Path) -> None:
    def disturbed(record: RunRecord) -> RunRecord:
        return _fails(record) if world.asked[-1][0].rehearse else record

    world = World(script, original=disturbed, wrong=frozenset({"fast1"}))
    with pytest.raises(CannotVerifyError, match=r"^the rehearsal itself disturbs it: it fails: ValueError: no data"):
        verify(world)


def test_what_is_not_reached_is_not_verified(script: Path) -> None:
    world = World(script, reached=(1, 2, 3, 4, 6), reached_in_short_passes=(1, 2, 3, 4, 6))
    report = verify(world)
    assert report.same
    assert by_line(report)[5].verdict is Verdict.NOT_REACHED
    assert by_line(report)[5].reason == "line 5 was not reached"
    assert world.labels().count("original short") == 1
    assert "rewritten 4 short" not in world.labels()


def test_passes_are_cut_short_to_reach_what_comes_after_them(script: Path) -> None:
    world = World(script, reached=(1, 2, 3, 4, 6))
    report = verify(world)
    assert {each.verdict for each in report.outcomes} == {Verdict.PASSED}
    assert "rewritten 4 short" in world.labels()
    assert [request.pass_batches for request, _ in world.asked].count(3) >= 2


def test_short_scripts_are_run_to_their_end_to_reach_it(script: Path) -> None:
    world = World(
        script, steps=60, patience=1000, reached=(1, 2, 3, 4, 6), reached_in_short_passes=(1, 2), reached_later=(5,)
    )
    report = verify(world)
    assert {each.verdict for each in report.outcomes} == {Verdict.PASSED}
    assert report.steps == 40
    longer = [request for request, _ in world.asked if request.steps == 10_000]
    assert {(bool(request.texts), request.patience) for request in longer[1:]} == {(True, None), (False, None)}
    assert (longer[0].texts, longer[0].patience) == ({}, 10.0)
    # What only this reaches computes in low precision there, too.
    assert any(
        environment.get("AUTOACCEL_AMP_DTYPE") == "bfloat16" for asked, environment in world.asked if asked in longer
    )


def test_but_not_beyond_a_number_of_steps_that_was_asked_for(script: Path) -> None:
    world = World(
        script, steps=60, patience=1000, reached=(1, 2, 3, 4, 6), reached_in_short_passes=(1, 2), reached_later=(5,)
    )
    report = verify(world, Limits(steps=20, patience=None))
    assert by_line(report)[5].verdict is Verdict.NOT_REACHED
    assert not any(request.steps == 10_000 for request, _ in world.asked)


def test_slow_scripts_make_fewer_steps_and_all_runs_as_many(script: Path) -> None:
    world = World(script, patience=17)
    report = verify(world)
    assert (report.steps, report.complete) == (17, False)
    assert report.notes == ("17 steps are as many as are made within 6 s; --steps makes more",)
    in_float16 = world.asked.pop()[0]
    assert in_float16.steps == 2
    assert [request.steps for request, _ in world.asked[1:]] == [17] * (len(world.asked) - 1)
    assert all(request.patience is None for request, _ in world.asked[1:])


def test_short_steps_are_made_more_often_and_in_all_runs_as_many(script: Path) -> None:
    world = World(script, steps=1000, short=300)
    report = verify(world)
    assert (report.steps, report.complete) == (300, False)
    assert {request.steps for request, _ in world.asked[1:-1]} == {300}
    assert {request.at_least for request, _ in world.asked[1:]} == {0.0}


def test_a_step_too_many_after_the_end_of_a_short_script_would_be_seen(script: Path) -> None:
    world = World(script, steps=60, short=300)
    report = verify(world)
    assert (report.steps, report.complete) == (60, True)
    assert all((request.steps or 0) > 60 for request, _ in world.asked[1:-1])


@pytest.mark.parametrize(
    ("steps", "passes", "whole"),
    [
        (40, (one_pass("a b", complete=False, length=938),), 18760),
        (2, (one_pass("a b", complete=False, length=938),), 938),
        (1, (one_pass("a b", complete=False, length=938),), 469),
        (5, (one_pass("a b c"), one_pass("d", loader=1), one_pass("b c", complete=False)), 3),
        (4, (one_pass("a b c", complete=False), one_pass("b", complete=False)), None),  # it is left early
        (3, (one_pass("a b c", complete=False),), None),
        (3, (one_pass("a b c", complete=False, length=None),), None),
        (3, (one_pass("a b c"),), None),
        (3, (), None),
    ],
)
def test_how_many_steps_a_pass_takes(steps: int, passes: tuple[Pass, ...], whole: int | None) -> None:
    stopped = replace(RECORD, ending=STOPPED, steps=steps, passes=passes)
    assert steps_per_pass(stopped) == whole
    assert steps_per_pass(replace(stopped, ending=FINISHED)) is None


def test_a_number_of_steps_that_was_asked_for_is_made(script: Path) -> None:
    world = World(script, patience=1)
    assert verify(world, Limits(steps=12, patience=None)).steps == 12


def test_an_original_that_diverges_is_compared_before_it_does(script: Path) -> None:
    def diverging(record: RunRecord) -> RunRecord:
        values = [each.value or 0 for each in record.losses]
        return replace(record, losses=losses([*values[:20], *([math.nan] * len(values[20:]))]))

    world = World(script, original=diverging)
    report = verify(world)
    assert report.same
    assert report.steps == 19
    assert report.notes == ("the original itself diverges, so only its first 19 steps were compared",)


def test_an_original_that_does_not_repeat_itself(script: Path) -> None:
    report = verify(World(script, unsteady=0.05, noise=0.1))
    assert not report.repeats
    assert report.same
    assert by_line(report)[1].reason == "within the spread of the original's own runs under one seed"


def test_an_original_that_repeats_itself_once_by_chance(script: Path) -> None:
    """It is run again before a change is blamed for what is the original's own."""
    world = World(script, unsteady=0.05, steady_runs=2)
    report = verify(world)
    assert report.same
    assert not report.repeats
    assert "original as a control" in [each.name for each in report.trials]


def test_a_difference_is_found_even_then(script: Path) -> None:
    report = verify(World(script, unsteady=0.01, noise=0.1, wrong=frozenset({"fast2"})))
    assert failed(report) == [2]
    assert "times the spread between runs of the original" in by_line(report)[2].reason


def _fails(record: RunRecord) -> RunRecord:
    return replace(record, ending=FAILED, failure=RunFailure("ValueError", "no data", "train.py:3", "Traceback"))


def _dies(record: RunRecord) -> RunRecord:
    return replace(record, ending=FAILED, failure=RunFailure("died", "ended with exit status 1: TypeError: ours"))


def _trains_nothing(record: RunRecord) -> RunRecord:
    return replace(record, steps=0, backwards=0, losses=())


def _nan(record: RunRecord) -> RunRecord:
    return replace(record, losses=losses([math.nan] * len(record.losses)))


@pytest.mark.parametrize(
    ("original", "message"),
    [
        (_dies, "a run could not be observed: ended with exit status 1: TypeError: ours"),
        (_fails, "it fails: ValueError: no data (train.py:3)"),
        (_trains_nothing, "it trains nothing: there was neither a backward nor an optimizer step in its own process"),
        (_nan, "the loss is NaN from the first step, so there is nothing to compare with"),
    ],
)
def test_nothing_can_be_said(script: Path, original: Callable[[RunRecord], RunRecord], message: str) -> None:
    with pytest.raises(CannotVerifyError) as caught:
        verify(World(script, original=original))
    assert str(caught.value) == message
    assert (caught.value.failure is not None) == (original in (_fails, _dies))


def test_an_original_that_fails_under_another_seed(script: Path) -> None:
    world = World(script)
    world.original = lambda record: _fails(record) if world.asked[-1][0].seed else record
    with pytest.raises(CannotVerifyError, match=r"^under seed 1 it fails: ValueError: no data \(train.py:3\)$"):
        verify(world)


def test_a_run_that_could_not_be_observed_is_made_again(script: Path) -> None:
    world = World(script, unobserved=1)
    assert verify(world).same
    assert world.labels()[2:4] == ["rewritten 4", "rewritten 4"]


def test_what_cannot_be_observed_is_no_difference(script: Path) -> None:
    with pytest.raises(CannotVerifyError, match=r"^a run could not be observed: ended with exit status 1"):
        verify(World(script, unobserved=2))


def test_on_an_accelerator_what_is_exact_runs_for_real_too(script: Path) -> None:
    world = World(script, original=lambda record: replace(record, device="cuda"))
    assert verify(world).same
    real = [request for request, _ in world.asked if request.texts and not request.rehearse and not request.seed]
    assert any("lower" not in "".join(request.texts.values()) for request in real)
    assert not any(environment.get("AUTOACCEL_AMP_DTYPE") == "bfloat16" for _, environment in world.asked)
    at_once = {"AUTOACCEL_AMP_DTYPE": "hardware", "AUTOACCEL_COMPILE_MODE": "default", "AUTOACCEL_FUSED": "on"}
    at_once |= dict.fromkeys(TRIED, "on")
    assert at_once in [environment for _, environment in world.asked]


def test_what_is_told_while_it_runs(script: Path) -> None:
    told: list[str] = []
    settled = configure(script.parent, isolated=True)
    procedure.verify(
        Request(str(script)), partial(changes.find, configuration=settled), World(script).run, tell=told.append
    )
    assert told[:4] == ["original", "original again", "rewritten, rehearsed", "rewritten, seed 0"]
