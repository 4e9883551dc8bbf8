"""Telling steps apart, and what eager ones tell."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from autoaccel.runtime.compile.call_signature import signature
from autoaccel.runtime.compile.step_timer import StepDetector, StepTimer, sample_parameters


def beginnings(train: Callable[[nn.Module, Callable[[], None]], None], steps: int = 6) -> list[list[bool]]:
    """For each step of a script, whether each of its calls was taken for the first one of a step."""
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1))
    watched, found = StepDetector(sample_parameters(module)), list[list[bool]]()

    def call() -> None:
        found[-1].append(watched.is_new_step())

    for _ in range(steps):
        found.append([])
        train(module, call)
    return found


def forward(module: nn.Module, call: Callable[[], None]) -> Any:
    call()
    return module(torch.ones(2, 3)).square().sum()


OPTIMIZERS: dict[str, Callable[..., Any]] = {
    "sgd": lambda parameters: torch.optim.SGD(parameters, lr=0.01, foreach=False),
    "foreach": lambda parameters: torch.optim.AdamW(parameters, lr=0.01, foreach=True),
    "fused": lambda parameters: torch.optim.AdamW(parameters, lr=0.01, fused=True),
}


@pytest.mark.parametrize("make", OPTIMIZERS.values(), ids=OPTIMIZERS.keys())
@pytest.mark.parametrize("first", ["zero", "step"])
def test_each_step_begins_once(make: Callable[..., Any], first: str) -> None:
    optimizers: list[Any] = []

    def train(module: nn.Module, call: Callable[[], None]) -> None:
        if not optimizers:
            optimizers.append(make(module.parameters()))
        if first == "zero":
            optimizers[0].zero_grad()
        for _ in range(3):  # accumulated
            forward(module, call).backward()
        optimizers[0].step()
        if first == "step":
            optimizers[0].zero_grad()

    assert all(step == [True, False, False] for step in beginnings(train)[1:])


def test_an_update_by_hand() -> None:
    def train(module: nn.Module, call: Callable[[], None]) -> None:
        forward(module, call).backward()
        forward(module, call).backward()
        with torch.no_grad():
            for parameter in module.parameters():
                assert parameter.grad is not None
                parameter.sub_(0.1 * parameter.grad)
                parameter.grad.zero_()

    assert beginnings(train) == [[True, False]] * 6


def test_what_never_changes_cannot_be_told_apart() -> None:
    steps = StepDetector((torch.zeros(1, requires_grad=True),))
    found = [steps.is_new_step() for _ in range(400)]
    assert found[0] is True
    assert not any(found[1:200])
    assert not steps.distinguishable
    assert all(found[201:])
    assert all(StepDetector(()).is_new_step() for _ in range(3))
    with torch.inference_mode():
        inference = StepDetector((torch.zeros(1),))
    assert [inference.is_new_step() for _ in range(3)] == [True, False, False]


def test_a_few_parameters_are_enough() -> None:
    module = nn.Sequential(*(nn.Linear(2, 2) for _ in range(10)))
    assert len(sample_parameters(module)) == 3
    assert sample_parameters(nn.ReLU()) == ()
    assert sample_parameters(nn.Linear(1, 1).requires_grad_(False)) == ()


class Ticking:
    """A clock that is set by hand; what it is asked for may be unknown yet."""

    def __init__(self) -> None:
        self.now = 0.0
        self.late = False

    def mark(self) -> float:
        return self.now

    def seconds(self, start: float, end: float) -> float | None:
        return None if self.late else end - start


def watched(
    clock: Ticking, laps: int, inside: float, kinds: Callable[[int], list[str]] = lambda lap: ["x"]
) -> StepTimer:
    watch = StepTimer(clock)

    def work() -> None:
        clock.now += inside

    for lap in range(laps):
        start = clock.now
        for kind in kinds(lap):
            watch.call(kind, work)
        clock.now += 1.0 - inside * len(kinds(lap))
        watch.end_iteration(clock.now - start)
    return watch


def test_the_share_of_a_step() -> None:
    watch = watched(Ticking(), 40, 0.1, lambda lap: ["x", "x"])
    assert watch.step == pytest.approx(1.0)
    assert watch.share(0.0) == pytest.approx(0.2)
    assert watch.share(2.0) == pytest.approx(0.6)
    assert watched(Ticking(), 40, 0.5).share(2.0) == 1.0
    clock = Ticking()
    clock.late = True
    assert watched(clock, 40, 0.1).share(2.0) == 1.0  # nothing known speaks against it


def test_usual_kinds_of_arguments() -> None:
    last = watched(Ticking(), 60, 0.1, lambda lap: ["last"] if lap % 10 == 9 else ["full"])
    kinds, usual = last.usual_kinds()
    assert kinds == {"full"}
    assert usual == pytest.approx(0.9, abs=0.02)
    both = watched(Ticking(), 60, 0.1, lambda lap: ["source", "target"])
    assert both.usual_kinds() == (frozenset({"source", "target"}), 1.0)
    none = watched(Ticking(), 60, 0.1, lambda lap: [str(lap % 5)])
    assert none.usual_kinds() == (frozenset(), 0.0)


def test_signatures() -> None:
    x = torch.zeros(2, 3)
    same = [(x,), (torch.ones(2, 3),)]
    assert len({signature(args, {}) for args in same}) == 1
    other = [
        (x,),
        (torch.zeros(2, 4),),
        (x.double(),),
        (torch.zeros(2, 3, requires_grad=True),),
        ([x, x],),
        ({"a": x},),
        ({"b": x},),
        (x, None),
        (x, True),
        (x, False),
        (x, "mean"),
        (x, "sum"),
        (x, 3),
    ]
    assert len({signature(args, {}) for args in other}) == len(other)
    assert signature((x, 3), {}) == signature((x, 4), {})  # numbers become variables of the graph
    assert signature((x,), {"mask": x}) != signature((x,), {"shift": x})


def test_signatures_of_strange_things_end() -> None:
    loop: list[Any] = []
    loop.append(loop)
    assert signature((loop, object(), range(3)), {}) == signature((loop, object(), range(4)), {})
