"""From eager to compiled and back: a made-up machine with its own clock, and real calls, updates and arguments."""

from __future__ import annotations

import gc
import random
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from autoaccel.runtime.amp import autocast_controller
from autoaccel.runtime.compile import compile_controller, compile_cost
from autoaccel.runtime.compile.compile_controller import CompileController
from autoaccel.runtime.compile.compile_target import CompileTarget, SharedBudget
from autoaccel.runtime.compile.eager_fallback import EagerFallback
from autoaccel.runtime.trial import decision_cache

CPU = torch.device("cpu")
FULL, LAST = torch.empty(8, 3), torch.empty(5, 3)


@pytest.fixture(autouse=True, scope="module")
def nothing_else_decides() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(decision_cache, "on", lambda: False)
        patch.setattr(autocast_controller, "settled", lambda: True)
        yield


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was decided, in words."""
    lines: list[str] = []
    monkeypatch.setattr(
        compile_controller,
        "note",
        lambda topic, decision: lines.append(f"{topic}: {decision.value}: {decision.reason}"),
    )
    return lines


@dataclass
class Machine:
    """Where time passes only by work: forward a third, backward the rest of a step, and what else the loop does."""

    now: float = 0.0
    graphs: int = 0
    forward: float = 0.02
    rest: float = 0.0
    faster: float = 1.5
    cost: float = 10.0

    def mark(self) -> float:
        return self.now

    def seconds(self, start: float, end: float) -> float:
        return end - start


@dataclass
class FakeWay(EagerFallback):
    """Eager and compiled calls; a new kind of arguments is a new graph."""

    machine: Machine
    given_up: bool = False
    prepared: int = 0
    compiled: bool = False
    calls: list[str] = field(default_factory=list)
    seen: set[Any] = field(default_factory=set)
    fails: bool = False
    impossible: bool = False
    endless: bool = False
    captures: bool = True
    slower: float = 1.0  # of the call that was made last
    jitter: Callable[[], float] = lambda: 1.0

    def eager(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        return self._call("eager", 1.0)

    def prepare(self) -> bool:
        if self.impossible:
            return False
        self.prepared += 1
        self.compiled = True
        self.seen.clear()
        return True

    def run(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        assert self.compiled
        if self.fails:
            self.given_up = True
            return self.eager(args, kwargs)
        key = args[0].shape
        if (key not in self.seen or self.endless) and self.captures:
            self.seen.add(key)
            self.machine.graphs += 1
            self.machine.now += self.machine.cost
        return self._call("compiled", 1 / self.machine.faster)

    def drop(self) -> None:
        self.compiled = False

    def _call(self, which: str, slower: float) -> str:
        slower *= self.jitter()
        self.slower = slower
        self.machine.now += self.machine.forward * slower
        self.calls.append(which)
        return which


class Script:
    """A training script with one model."""

    def __init__(self, machine: Machine | None = None, account: SharedBudget | None = None, **subject: Any) -> None:
        self.machine = machine or Machine()
        self.way = FakeWay(self.machine)
        self.weight = torch.zeros(1, requires_grad=True)
        self.account = account or SharedBudget()
        given: dict[str, Any] = {"name": "Net", "place": torch.device("cuda"), "steps": (self.weight,), "leaves": 0}
        self.subject = CompileTarget(**{**given, **subject})
        self.begin()

    def begin(self) -> None:
        self.controller = CompileController(
            self.subject,
            self.way,
            clock=self.machine,
            now=lambda: self.machine.now,
            graphs=lambda: self.machine.graphs,
            budget=self.account,
        )

    def step(self, *batches: torch.Tensor) -> list[str]:
        ways = []
        for batch in batches or (FULL,):
            call = self.way.eager if self.controller.skip_measurement() else self.controller.call
            ways.append(call((batch,), {}))
            self.machine.now += 2 * self.machine.forward * self.way.slower
        with torch.no_grad():
            self.weight.add_(1)
        self.machine.now += self.machine.rest
        return ways

    def run(self, steps: int) -> list[str]:
        return [way for _ in range(steps) for way in self.step()]


def test_a_long_run_is_compiled_and_stays_so(told: list[str]) -> None:
    script = Script(planned=20_000)
    ways = script.run(600)
    assert ways[:16] == ["eager"] * 16
    assert ways[-400:] == ["compiled"] * 400
    assert told[0] == "compile Net: watching: steps are timed first"
    assert told[1].startswith("compile Net: trying: ")
    assert told[1].endswith(" left at 60 ms: compiling pays")
    assert told[2] == "compile Net: True: compiled in 9.98 s, 1.50x as fast over 10 steps"


def test_a_short_run_is_left_alone_and_nothing_is_prepared(told: list[str]) -> None:
    script = Script(planned=300)
    assert set(script.run(300)) == {"eager"}
    assert script.way.prepared == 0
    assert script.controller.over  # so the module is plain again
    assert "would save about" in told[-1]


def test_without_a_plan_it_waits_for_what_it_stakes() -> None:
    script = Script()
    ways = script.run(10_000)
    first = ways.index("compiled")
    assert first * 0.06 >= 10 * 15.0  # ten times the expected cost
    assert first * 0.06 < 12 * 15.0
    assert ways[-1] == "compiled"


@pytest.mark.parametrize("renewed", [True, False])
def test_what_steps_took_before_they_became_faster_is_forgotten(renewed: bool) -> None:
    script = Script(planned=3000)
    script.run(85)
    script.machine.forward /= 10
    if renewed:
        script.controller.renew_estimate()
    assert ("compiled" in script.run(300)) is not renewed


def test_most_calls_of_a_long_eager_run_are_not_watched() -> None:
    script = Script(Machine(forward=0.0001))
    rests = 0
    for _ in range(4000):
        rests += script.controller.unmeasured_calls > 0
        script.step()
    assert rests > 3400
    assert script.controller.iterations == pytest.approx(4000, rel=0.03)


def test_a_wrong_plan_is_as_good_as_none() -> None:
    planned, unplanned = Script(planned=60), Script()
    assert planned.run(4000) == unplanned.run(4000)


@pytest.mark.parametrize("faster", [0.7, 1.0, 1.02])
def test_what_is_not_faster_is_reverted_for_good(told: list[str], faster: float) -> None:
    script = Script(Machine(faster=faster), planned=20_000)
    ways = script.run(1000)
    assert set(ways[-800:]) == {"eager"}
    assert ways.count("compiled") < 60
    assert script.controller.over
    assert script.way.prepared == 1
    assert not script.way.compiled
    assert "compile Net: False: reverted: " in told[-1]


def test_a_whole_step_goes_one_way(told: list[str]) -> None:
    script = Script(planned=20_000)
    for _ in range(600):
        assert len(set(script.step(FULL, FULL, FULL))) == 1
    assert "compiled" in script.way.calls


def test_the_last_batch_of_an_epoch_runs_eagerly_and_is_not_compiled_for() -> None:
    script = Script(planned=20_000)
    for _ in range(60):
        script.run(9)
        assert script.step(LAST) == ["eager"]
        assert script.step(LAST, FULL) == ["eager", "eager"]  # the rest of the step as well
    assert script.step() == ["compiled"]
    assert script.step(FULL, LAST, FULL) == ["compiled", "eager", "eager"]
    assert script.machine.graphs == 1


def test_two_kinds_of_arguments_in_every_step_are_both_compiled_for() -> None:
    script = Script(planned=20_000)
    for _ in range(400):
        ways = script.step(FULL, LAST)
    assert ways == ["compiled", "compiled"]
    assert script.machine.graphs == 2


def test_changing_shapes_are_not_compiled(told: list[str]) -> None:
    script = Script(planned=20_000)
    shapes = [torch.empty(8, length) for length in range(1, 30)]
    for step in range(400):
        script.step(shapes[step * 7 % len(shapes)])
    assert script.way.prepared == 0
    assert "False: shapes keep changing: 29 kinds of arguments in 6" in told[-1]


def test_endless_recompiling_is_reverted(told: list[str]) -> None:
    script = Script(Machine(cost=0.1), planned=20_000)
    script.way.endless = True
    script.run(200)
    assert told[-1] == "compile Net: False: reverted: it is compiled again and again"
    assert script.machine.graphs <= 6


def test_recompiling_later_on_is_noticed(told: list[str]) -> None:
    script = Script(planned=20_000)
    assert script.run(300)[-1] == "compiled"
    script.way.endless = True
    assert script.run(10) == ["compiled"] * 4 + ["eager"] * 6
    assert told[-1] == "compile Net: False: reverted: it is compiled again and again"
    assert script.controller.over


def test_what_cannot_be_captured_is_given_up_at_once(told: list[str]) -> None:
    script = Script(planned=20_000)
    script.way.captures = False
    ways = script.run(200)
    assert ways.count("compiled") == 1
    assert told[-1] == "compile Net: False: nothing of it can be compiled"


@pytest.mark.parametrize("defect", ["fails", "impossible"])
def test_a_failing_compiler_leaves_it_eager(defect: str) -> None:
    script = Script(planned=20_000)
    setattr(script.way, defect, True)
    assert set(script.run(200)) == {"eager"}
    assert script.controller.over


def test_a_step_that_waits_for_its_data_is_not_compiled() -> None:
    waiting, computing = Script(Machine(rest=0.54), planned=1500), Script(Machine(forward=0.2), planned=1500)
    assert set(waiting.run(1000)) == {"eager"}
    assert computing.run(400)[-1] == "compiled"


def test_nothing_is_compiled_while_the_precision_is_open(monkeypatch: pytest.MonkeyPatch) -> None:
    open_until = 300
    script = Script(planned=20_000)
    monkeypatch.setattr(autocast_controller, "settled", lambda: script.controller.iterations >= open_until)
    assert set(script.run(open_until)) == {"eager"}
    assert script.run(300)[-1] == "compiled"


def test_recomputation_in_a_backward_pass_is_left_alone(told: list[str]) -> None:
    script = Script(planned=20_000)

    class Recomputes(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            return x * 1

        @staticmethod
        def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
            assert script.controller.call((FULL,), {}) == "eager"
            return gradient

    apply: Any = Recomputes.apply
    apply(torch.ones(1, requires_grad=True)).sum().backward()
    assert told[-1] == "compile Net: False: it is computed again in the backward pass"


def test_a_recomputation_in_a_thread_of_autograds(told: list[str]) -> None:
    """On a device backward passes run in other threads: there, too, it must not be met by compiled code later."""
    script = Script(planned=20_000)
    script.run(3)

    class Recomputes(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            return x.clone()

        @staticmethod
        def backward(ctx: Any, *gradients: torch.Tensor) -> torch.Tensor:
            script.controller.call((FULL,), {})
            return gradients[0]

    def backward() -> None:
        apply: Any = Recomputes.apply
        apply(torch.ones(1, requires_grad=True)).sum().backward()

    thread = threading.Thread(target=backward)
    thread.start()
    thread.join()
    assert told[-1] == "compile Net: False: it is computed again in the backward pass"
    assert set(script.run(800)) == {"eager"}


def test_steps_that_cannot_be_told_apart() -> None:
    """A batch normalisation that ran eagerly must not meet a compiled one before their backward pass."""
    for stateful, way in ((True, "eager"), (False, "compiled")):
        script = Script(planned=20_000, stateful=stateful)
        for _ in range(800):
            last = script.controller.call((FULL,), {})
            script.machine.now += 0.04
        assert last == way


def test_nothing_is_compiled_while_a_graph_is_captured(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then clocks have no moments, and what compiling asks of the device would end the capture."""
    script = Script(planned=20_000)
    monkeypatch.setattr(Machine, "mark", lambda machine: None)
    assert set(script.run(600)) == {"eager"}
    monkeypatch.undo()
    assert script.run(600)[-1] == "compiled"


def test_calls_of_other_threads_are_eager() -> None:
    script = Script(planned=20_000)
    script.run(300)
    found: list[str] = []
    thread = threading.Thread(target=lambda: found.append(script.controller.call((FULL,), {})))
    thread.start()
    thread.join()
    assert found == ["eager"]
    assert script.step() == ["compiled"]


def test_short_steps_on_a_cpu_are_left_alone() -> None:
    assert set(Script(Machine(forward=0.0001), place=CPU, planned=10**7).run(3000)) == {"eager"}


@given(
    forward=st.floats(0.001, 3.0),
    faster=st.floats(0.6, 4.0),
    rest=st.floats(0.0, 3.0),
    noise=st.floats(0.0, 0.3),
    leaves=st.integers(0, 100),
    told=st.sampled_from([None, 1, 2, 100]),
    calls=st.integers(1, 3),
    seed=st.integers(0, 9),
)
@settings(max_examples=60)
def test_whatever_compiling_brings_little_is_lost(
    forward: float, faster: float, rest: float, noise: float, leaves: int, told: int | None, calls: int, seed: int
) -> None:
    """A hundred steps take at most a tenth longer, whatever the script says of its length; and so does the whole run,
    but for what comparing may lose."""
    steps, jitter = 400, random.Random(seed)
    prior = compile_cost.PRIORS["cuda"].cost(leaves, warm=False)
    script = Script(Machine(cost=prior), planned=told and told * steps, leaves=leaves)
    script.way.jitter = lambda: 1 + noise * jitter.random()
    script.machine.forward, script.machine.rest, script.machine.faster = forward, rest * forward, faster
    eager = forward * (3 * calls + rest)
    for step in range(steps):
        ways = script.step(*[FULL] * calls)
        assert len(set(ways)) == 1
        if step + 1 == 100:
            assert script.machine.now <= 100 * eager * (1 + noise) * 1.1
    if told in (None, 1):  # what was staked on steps that never come is lost
        assert script.machine.now <= steps * eager * (1 + noise) * 1.12 + 4 * eager


# ---------------------------------------------------------------- several


def gan(machine: Machine, steps: int) -> tuple[list[tuple[str, str]], list[Script]]:
    account = SharedBudget()
    both = [Script(machine, account, planned=20_000, name=name) for name in "DG"]
    found = []
    for _ in range(steps):
        found.append((both[0].step(FULL, FULL)[0], both[1].step()[0]))
    return found, both


def test_models_are_compiled_one_after_the_other() -> None:
    ways, both = gan(Machine(), 600)
    assert ways[-1] == ("compiled", "compiled")
    first = ways.index(("compiled", "eager"))
    settled = next(index for index, pair in enumerate(ways) if pair[1] == "compiled")
    assert all(way == "compiled" for way, _ in ways[first + 20 + 20 : settled])
    assert both[0].account.spent == pytest.approx(20.0, rel=0.2)


def test_together_they_stay_within_the_stake() -> None:
    """Neither alone would have to wait: what one has spent counts for the other."""
    machine = Machine(forward=0.05, cost=15.0)
    gan(machine, 100)
    assert machine.now <= 1.1 * 100 * 3 * 3 * 0.05


def test_what_the_first_took_is_expected_of_the_next(told: list[str]) -> None:
    """A cache on disk shows in what compiling takes, and in nothing else."""

    def waited(cost: float) -> int:
        account, machine = SharedBudget(), Machine(cost=cost)
        script = Script(machine, account)
        while script.step() == ["eager"]:
            pass
        script.run(200)
        second = Script(machine, account)
        return next(step for step in range(10_000) if second.step() == ["compiled"])

    assert waited(1.5) < waited(15.0) / 3


def test_a_model_that_is_no_longer_used_does_not_hold_up_others(monkeypatch: pytest.MonkeyPatch) -> None:
    machine, account = Machine(), SharedBudget()
    monkeypatch.setattr(compile_controller, "_budget", account)
    first = Script(machine, account, planned=20_000)
    while not first.controller.is_compiling:
        first.run(1)
    assert not compile_controller.settled()
    second = Script(machine, account, planned=20_000, name="Other")
    assert second.run(1200)[-1] == "compiled"


def test_settled_counts_living_courses_only() -> None:
    gc.collect()
    assert compile_controller.settled()
    script = Script(account=compile_controller._budget, planned=20_000)
    while not script.controller.is_compiling:
        script.run(1)
    assert not compile_controller.settled()
    del script
    gc.collect()
    assert compile_controller.settled()


# ---------------------------------------------------------------- memory


@pytest.fixture
def memory(monkeypatch: pytest.MonkeyPatch) -> dict[Any, dict[str, Any]]:
    kept: dict[Any, dict[str, Any]] = {}
    monkeypatch.setattr(decision_cache, "recall", lambda topic, *facts: kept.get((topic, facts)))
    monkeypatch.setattr(decision_cache, "keep", lambda topic, value, *facts: kept.update({(topic, facts): value}))
    return kept


def test_the_second_run_starts_as_the_first_one_ended(memory: dict[Any, Any], told: list[str]) -> None:
    first = Script(Machine(forward=0.2), planned=20_000)
    first.run(500)
    again = Script(Machine(forward=0.2, cost=2.0), planned=20_000)
    assert set(again.run(100)) == {"compiled"}
    assert told[-1] == "compile Net: True: compiled in 1.8 s, 1.50x as fast in an earlier run"
    third = Script(Machine(forward=0.2, cost=2.0), planned=20_000)
    assert set(third.run(100)) == {"compiled"}


def test_what_was_reverted_is_not_tried_again(memory: dict[Any, Any], told: list[str]) -> None:
    Script(Machine(faster=0.9), planned=20_000).run(500)
    again = Script(planned=20_000)
    assert again.controller.over
    assert set(again.run(10)) == {"eager"}
    assert again.way.prepared == 0
    assert told[-1].endswith(", in an earlier run")


def test_the_first_hundred_steps_count_for_remembered_decisions_too(memory: dict[Any, Any]) -> None:
    Script(Machine(forward=0.001), planned=10**6).run(60_000)
    ways = Script(Machine(forward=0.001), planned=10**6).run(2000)
    assert ways.index("compiled") == 100  # always the same step: the numbers are remembered, nothing is timed


@pytest.mark.parametrize("ended", [True, False])
def test_the_length_of_a_run_is_a_hint_for_the_next(memory: dict[Any, Any], ended: bool) -> None:
    first = Script()
    assert first.run(4000)[-1] == "compiled"
    if ended:
        first.controller.remember_length()
    first_compiled = Script().run(1000).index("compiled")
    assert (first_compiled == 100) is ended


@pytest.mark.parametrize(
    "damage", [{}, {"verdict": "adopted"}, {"verdict": 3, "step": "x", "steps": True, "ratio": -1}]
)
def test_a_damaged_memory_is_none(memory: dict[Any, Any], damage: dict[str, Any]) -> None:
    script = Script(planned=20_000)
    memory[("compile", script.subject.facts)] = damage
    assert Script(planned=20_000).run(200) == script.run(200)
