"""What fails because of a region says so, and is not met again in the next run."""

from __future__ import annotations

import sys
from typing import Any

import pytest
import torch
from torch import nn

from autoaccel import runtime as accel
from autoaccel.runtime import devices
from autoaccel.runtime.amp import autocast, autocast_controller, precision, program_state
from autoaccel.runtime.trial.ab_trial import TrialState
from tests.runtime.amp.test_autocast_controller import LOW, USUAL, Stepper, forget, state
from tests.runtime.amp.test_float16 import memory, told

__all__ = ["memory"]
NOTE = "AUTOACCEL_DISABLE=amp runs the script without"


@pytest.fixture(autouse=True)
def bfloat16(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(precision, "_cpu_computes_bfloat16", lambda: True)


def refuses(what: type[BaseException] = RuntimeError, low_only: bool = True) -> None:
    """As CUDA's binary cross-entropy in any region."""
    if state() is torch.bfloat16 or (not low_only and state() is not None):
        raise what("unsafe to autocast")


def train(steps: int, inner: Any = refuses, catches: bool = False) -> list[torch.dtype | None]:
    """Two regions a step, of which the second refuses low precision."""
    stepper, seen = Stepper(), []
    for _ in range(steps):
        with accel.autocast("cpu"):
            seen.append(state())
        try:
            with accel.autocast("cpu"):
                inner()
        except RuntimeError:
            if not catches:
                raise
        stepper.step()
    return seen


def test_the_first_low_step_that_fails_is_the_last(monkeypatch: pytest.MonkeyPatch, memory: None) -> None:
    told(monkeypatch, [USUAL, USUAL, LOW], TrialState.ADOPTED)
    with pytest.raises(RuntimeError, match="unsafe to autocast") as caught:
        train(9)
    assert sum(NOTE in note for note in caught.value.__notes__) == 1
    forget(monkeypatch)
    assert train(9) == [None] * 9  # the next run of the same command


def test_what_fails_before_anything_has_worked_is_not_remembered(monkeypatch: pytest.MonkeyPatch, memory: None) -> None:
    """Where nothing is tried it may be a fault of the script, which is mended by the next run."""
    told(monkeypatch, [], TrialState.ADOPTED)
    monkeypatch.setattr(program_state, "is_anything_compiled", lambda: True)
    with pytest.raises(RuntimeError, match="unsafe to autocast") as caught:
        train(9)
    assert NOTE in caught.value.__notes__[0]
    forget(monkeypatch)
    assert train(3, lambda: None) == [torch.bfloat16] * 3


def test_what_failed_is_known_where_nothing_is_tried(monkeypatch: pytest.MonkeyPatch, memory: None) -> None:
    told(monkeypatch, [USUAL, USUAL, LOW], TrialState.ADOPTED)
    with pytest.raises(RuntimeError, match="unsafe to autocast"):
        train(9)
    forget(monkeypatch)
    monkeypatch.setattr(program_state, "is_anything_compiled", lambda: True)
    assert train(9) == [None] * 9


def test_a_script_that_goes_on_after_it_does_so_in_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    told(monkeypatch, [USUAL, USUAL, LOW], TrialState.ADOPTED)
    seen = train(9, lambda: refuses(low_only=False), catches=True)
    assert seen == [None, None, None, torch.bfloat16, *[None] * 5]


def test_a_lifted_region_that_fails_is_not_met_again(monkeypatch: pytest.MonkeyPatch, memory: None) -> None:
    told(monkeypatch, [USUAL, LOW, USUAL, LOW], TrialState.ADOPTED)

    def refuses_lifting() -> None:
        if state() is torch.float32:
            raise ValueError("no autocast here")

    with pytest.raises(ValueError, match="no autocast here") as caught:
        train(9, refuses_lifting)
    assert NOTE in caught.value.__notes__[0]
    forget(monkeypatch)
    assert train(5, refuses_lifting) == [None] * 5


def test_what_has_worked_before_is_kept(monkeypatch: pytest.MonkeyPatch, memory: None) -> None:
    """A fault of the data, a hundred steps later."""
    told(monkeypatch, [], TrialState.ADOPTED)
    steps = iter(range(100))

    def fails_late() -> None:
        if next(steps) == 20:
            raise RuntimeError("a broken batch")

    with pytest.raises(RuntimeError, match="a broken batch") as caught:
        train(30, fails_late)
    assert NOTE in caught.value.__notes__[0]
    forget(monkeypatch)
    assert train(3, fails_late)[-1] is torch.bfloat16


@pytest.mark.parametrize("kind", [KeyboardInterrupt, StopIteration, torch.OutOfMemoryError, LookupError])
def test_other_exceptions_are_the_scripts_own(monkeypatch: pytest.MonkeyPatch, kind: type[BaseException]) -> None:
    told(monkeypatch, [], TrialState.ADOPTED)
    with pytest.raises(kind) as caught:
        train(3, lambda: refuses(kind))
    assert not hasattr(caught.value, "__notes__")
    assert autocast_controller._controllers["cpu"].is_low()


def test_where_exceptions_bear_no_notes_it_is_a_warning() -> None:
    class OldError(RuntimeError):
        add_note = property(lambda self: self.missing)

    with pytest.warns(RuntimeWarning, match="AUTOACCEL_DISABLE=amp"):
        autocast.explain(OldError("of Python 3.10"), torch.bfloat16, None)


@pytest.mark.parametrize("several", [0, 1, 2])
@pytest.mark.parametrize("untried", [False, True])
def test_replicas_stay_in_float32(monkeypatch: pytest.MonkeyPatch, several: int, untried: bool) -> None:
    """In their threads DataParallel opens any region again without its precision: in float16, and unscaled."""
    told(monkeypatch, [USUAL, LOW], TrialState.ADOPTED)
    if untried:
        monkeypatch.setattr(program_state, "is_anything_compiled", lambda: True)
    model = nn.DataParallel(nn.Linear(1, 1))
    model.device_ids = list(range(several))
    monkeypatch.setattr(devices, "hardware_name", lambda place: "two cards")
    controller = autocast_controller.AutocastController(torch.device("cuda"), precision.by_capability(8, 0))
    seen = [controller.dtype(sys._getframe()) for _ in range(5)]
    assert (torch.bfloat16 in seen) is (several < 2)
    assert several < 2 or seen == [None] * 5
    assert controller.settled()


@pytest.mark.parametrize("several", [1, 2])
def test_modules_that_may_call_data_parallel_stay_in_float32(monkeypatch: pytest.MonkeyPatch, several: int) -> None:
    class Net(nn.Linear):
        def forward(self, x: torch.Tensor) -> Any:
            return nn.parallel.data_parallel(nn.Identity(), x) if several > 1 else super().forward(x)

    monkeypatch.setattr(torch.cuda, "device_count", lambda: several)
    model = Net(1, 1)
    assert bool(program_state.float16_in_any_region("cuda")) is (several > 1)
    del model


def test_replicas_stay_in_float32_where_low_precision_was_faster_without(monkeypatch: pytest.MonkeyPatch) -> None:
    """In an earlier run on a single device, or in another part of this one."""
    told(monkeypatch, [USUAL, LOW], TrialState.ADOPTED)
    monkeypatch.setattr(devices, "hardware_name", lambda place: "a card")
    controller = autocast_controller.AutocastController(torch.device("cuda"), precision.by_capability(8, 0))

    def steps(count: int) -> list[torch.dtype | None]:
        return [controller.dtype(sys._getframe()) for _ in range(count)]

    assert torch.bfloat16 in steps(5)
    model = nn.DataParallel(nn.Linear(1, 1))
    model.device_ids = [0, 1]
    monkeypatch.setattr(controller, "_phase", None)  # the next region begins anew, with the verdict known
    assert torch.bfloat16 not in steps(5)
