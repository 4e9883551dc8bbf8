"""Which regions are in low precision while it is tried: whole steps, whatever they are made of, and nothing breaks."""

from __future__ import annotations

import contextlib
import itertools
import sys
import threading
import time
import types
import warnings
from collections.abc import Callable, Hashable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from autoaccel import runtime as accel
from autoaccel.runtime import devices
from autoaccel.runtime.amp import autocast, autocast_controller, precision, program_state
from autoaccel.runtime.amp.autocast import LiftToFloat32
from autoaccel.runtime.trial import decision_cache
from autoaccel.runtime.trial.ab_trial import ABTrial, TrialPolicy, TrialState


class Scripted:
    """A trial whose laps go as they are told, and that ends after the last."""

    def __init__(self, ways: list[bool], end: TrialState = TrialState.REJECTED) -> None:
        self.ways = ways
        self.end = end
        self.state = TrialState.UNDECIDED
        self.begun = 0
        self.contained: list[list[Hashable]] = []
        self.ratio: float | None = 2.0 if end is TrialState.ADOPTED else 0.5
        self.measured = 0
        self.why = "scripted"
        self.has_evidence = True
        self.is_clear_loss = False

    @property
    def decided(self) -> bool:
        return self.state is not TrialState.UNDECIDED

    def next_iteration(self) -> bool:
        self.begun += 1
        self.contained.append([])
        if self.begun > len(self.ways):
            self.state = self.end
            return self.end is TrialState.ADOPTED
        return self.ways[self.begun - 1]

    def note_event(self, what: Hashable) -> None:
        self.contained[-1].append(what)


compiles = program_state.is_anything_compiled  # before it is made to forget what other tests compiled
Script = Callable[..., list[Scripted]]


@pytest.fixture(autouse=True)
def bfloat16(monkeypatch: pytest.MonkeyPatch) -> None:
    """A CPU that may be faster in bfloat16."""
    monkeypatch.setattr(precision, "_cpu_computes_bfloat16", lambda: True)


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Script:
    """Trials that go as told; a list of those that were made, the last for good."""

    def told(ways: list[bool], end: TrialState = TrialState.REJECTED) -> list[Scripted]:
        made: list[Scripted] = []

        def new(place: torch.device) -> Any:
            made.append(Scripted(list(ways), end))
            return made[-1]

        monkeypatch.setattr(autocast_controller, "new_trial", new)
        return made

    return told


def forget(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in another process."""
    monkeypatch.setattr(autocast_controller, "_controllers", {})
    autocast._candidate.cache_clear()


LOW, USUAL = True, False
FLIPS = [USUAL, LOW, LOW, USUAL, LOW, USUAL]


def state() -> torch.dtype | None:
    return torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else None


class Stepper:
    """A scaler with an optimizer, whose steps tell where laps end."""

    def __init__(self) -> None:
        self.weight = nn.Parameter(torch.ones(1))
        self.optimizer = torch.optim.SGD([self.weight], lr=0.0)
        self.scaler = accel.grad_scaler(self.optimizer)

    def step(self) -> None:
        self.scaler.step(self.optimizer)
        self.scaler.update()


# ---------------------------------------------------------------- laps


def test_a_step_is_in_one_precision(script: Script) -> None:
    """Two networks, each with its region and its optimizer, and an evaluation in between: a GAN."""
    trials = script([USUAL, *FLIPS])
    one, other = Stepper(), Stepper()
    seen = []
    for _ in range(9):
        with accel.autocast("cpu"):
            first = state()
        one.step()
        with accel.autocast("cpu"):
            second = state()
        other.step()
        with torch.no_grad(), accel.autocast("cpu"):
            third = state()
        assert first is second is third
        seen.append(first)
    low, lifted = torch.bfloat16, torch.float32
    assert seen == [None, None, None, low, low, lifted, low, lifted, lifted]
    assert trials[-1].begun == len(FLIPS) + 2
    assert all(len(parts) == 3 for parts in trials[-1].contained[:-1])  # the caller, the second region, the evaluation


def test_adopted_is_low_for_good(script: Script) -> None:
    trials = script([USUAL], TrialState.ADOPTED)
    stepper = Stepper()
    seen = []
    for _ in range(5):
        with accel.autocast("cpu"):
            seen.append(state())
        stepper.step()
    assert seen == [None, None, *[torch.bfloat16] * 3]
    assert trials[-1].begun == 2


def test_steps_that_accumulate_are_one_lap(script: Script) -> None:
    trials = script([USUAL] * 100)
    stepper = Stepper()
    for number in range(1, 41):
        with accel.autocast("cpu"):
            pass
        if number % 4 == 0:
            stepper.step()
    assert trials[-1].begun == 9


def test_a_region_in_a_loop_over_time_is_not_a_lap(script: Script) -> None:
    trials = script([USUAL] * 100)
    stepper = Stepper()
    for _ in range(10):
        for _ in range(35):
            with accel.autocast("cpu"):
                pass
        stepper.step()
    assert trials[-1].begun == 9


def test_one_helper_for_several_steps(script: Script) -> None:
    """Each lap is told apart by who called."""
    trials = script([USUAL] * 100)
    stepper = Stepper()

    def loss() -> None:
        with accel.autocast("cpu"):
            pass

    for _ in range(5):
        loss()
        stepper.step()
        loss()
        stepper.step()
    callers = [parts[0] for parts in trials[-1].contained]
    assert len(set(callers[0::2])) == len(set(callers[1::2])) == 1
    assert callers[0] != callers[1]


def test_without_a_scaler_each_region_is_a_lap(script: Script) -> None:
    trials = script([USUAL] * 100)
    for _ in range(10):
        with accel.autocast("cpu"):
            pass
    assert trials[0].begun == 10


def test_a_program_that_only_evaluates(script: Script) -> None:
    trials = script(FLIPS, TrialState.ADOPTED)
    seen = []
    for _ in range(8):
        with torch.inference_mode(), accel.autocast("cpu"):
            seen.append(state() is torch.bfloat16)
    assert seen == [*FLIPS, True, True]
    assert len(trials) == 1


def test_training_after_an_evaluation_is_tried_by_itself(script: Script) -> None:
    trials = script([USUAL], TrialState.ADOPTED)

    def region() -> torch.dtype | None:
        with accel.autocast("cpu"):
            return state()

    with torch.no_grad():
        assert [region() for _ in range(3)][-1] is torch.bfloat16
    assert region() is torch.float32
    assert len(trials) == 2
    assert not autocast_controller.settled()
    region()
    with torch.no_grad():
        assert region() is torch.bfloat16
    assert autocast_controller.settled()


def test_another_stretch_of_the_script_is_another_trial(script: Script) -> None:
    trials = script([USUAL, USUAL], TrialState.ADOPTED)
    stepper = Stepper()
    seen = []
    for _ in range(20):
        with accel.autocast("cpu"):
            pass
        stepper.step()
    assert autocast_controller.settled()
    for _ in range(20):
        with accel.autocast("cpu"):
            seen.append(state())
        stepper.step()
    assert len(trials) == 4  # each was made anew at its first step
    assert torch.float32 in seen
    assert seen[-1] is torch.bfloat16


# ---------------------------------------------------------------- nothing breaks


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_a_state_is_handed_from_step_to_step(script: Script, kind: type[nn.LSTM]) -> None:
    """torch refuses to multiply a bfloat16 state with float32 weights."""
    script([USUAL, *FLIPS])
    torch.manual_seed(0)
    model = kind(4, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    scaler = accel.grad_scaler(optimizer)
    hidden: Any = None
    for _ in range(12):
        optimizer.zero_grad()
        with accel.autocast("cpu"):
            output, hidden = model(torch.randn(3, 2, 4), hidden)
            loss = output.float().square().mean()
        hidden = tuple(part.detach() for part in hidden) if isinstance(hidden, tuple) else hidden.detach()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    assert (hidden[0] if isinstance(hidden, tuple) else hidden).dtype is torch.float32


@pytest.mark.parametrize("reentrant", [False, True])
@pytest.mark.parametrize("told", [True, False])
def test_a_recomputation_is_as_the_forward_pass_was(script: Script, reentrant: bool, told: bool) -> None:
    script([USUAL, LOW] * 20)
    torch.manual_seed(0)
    layer = nn.Linear(8, 8)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.01)
    scaler = accel.grad_scaler(optimizer)
    dtypes: list[torch.dtype | None] = []

    def block(x: torch.Tensor) -> torch.Tensor:
        with accel.autocast("cpu"):
            dtypes.append(state())
            result: torch.Tensor = layer(x)
        return result.float()

    for _ in range(10):
        x = torch.randn(2, 8, requires_grad=True)
        scaler.scale(checkpoint(block, x, use_reentrant=reentrant).sum()).backward()
        if told:
            scaler.step(optimizer)
        else:
            optimizer.step()
    assert len(dtypes) == 20
    assert dtypes[0::2] == dtypes[1::2]
    assert torch.bfloat16 in dtypes
    assert torch.float32 in dtypes


def test_lifting_changes_no_float32() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(144, 5))
    x = torch.randn(2, 3, 8, 8)
    want = model(x).softmax(1)
    for parameter in model.parameters():
        parameter.grad = None
    with LiftToFloat32("cpu"):
        got = model(x).softmax(1)
        low = torch.ones(2, 2, dtype=torch.bfloat16) @ torch.ones(2, 2)
    assert torch.equal(got, want)
    assert low.dtype is torch.float32
    assert state() is None
    assert torch.get_autocast_dtype("cpu") is torch.bfloat16


@pytest.mark.parametrize("reentrant", [False, True])
def test_a_recomputation_of_a_lifted_region_is_right(reentrant: bool) -> None:
    """Torch says that it is without a region on a CPU; whether that is shown is for the program's filters alone."""
    layer = nn.Linear(8, 8)
    grads: list[torch.Tensor] = []
    for lifted in (contextlib.nullcontext(), LiftToFloat32("cpu")):
        filters = list(warnings.filters)  # after the first pass, in which torch may import what adds some of its own
        x = torch.ones(2, 8, requires_grad=True)
        with lifted:
            y = checkpoint(layer, x, use_reentrant=reentrant)
        told = pytest.warns(UserWarning, match="dtype is not supported") if grads else contextlib.nullcontext()
        with told:
            y.sum().backward()
        assert x.grad is not None
        grads.append(x.grad)
    assert torch.equal(grads[0], grads[1])
    assert list(warnings.filters) == filters


@pytest.mark.filterwarnings("error")
def test_where_warnings_are_errors_a_checkpoint_ends_no_program(
    script: Script, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What torch says of a recomputation in a region that lifts would be one: no low precision is tried."""
    monkeypatch.setenv("AUTOACCEL_LOG", "info")
    trials = script([USUAL, *FLIPS])
    layer, stepper = nn.Linear(8, 8), Stepper()
    for _ in range(9):
        with accel.autocast("cpu"):
            loss = checkpoint(layer, torch.ones(2, 8), use_reentrant=False).sum()
            assert state() is None
        loss.backward()
        stepper.step()
    assert trials[-1].begun == FLIPS.index(True) + 2
    assert "and warnings are errors here" in capsys.readouterr().err


def test_lifting_leaves_an_open_region_alone() -> None:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        with LiftToFloat32("cpu"):
            assert state() is torch.bfloat16
        assert state() is torch.bfloat16
    with LiftToFloat32("cpu"), LiftToFloat32("cpu"):
        assert state() is torch.float32
    assert state() is None


def test_lifting_ends_with_an_exception() -> None:
    with pytest.raises(ValueError, match="own"), LiftToFloat32("cpu"):
        raise ValueError("own")
    assert state() is None


def test_regions_are_plain_again_when_nothing_low_is_left(script: Script, monkeypatch: pytest.MonkeyPatch) -> None:
    script([LOW])
    stepper = Stepper()
    now = itertools.count(0.0, 15.0)
    monkeypatch.setattr(time, "monotonic", lambda: next(now))
    alive = iter([True, False])
    monkeypatch.setattr(program_state, "any_tensor_of", lambda dtype: next(alive))
    seen = []
    for _ in range(12):
        with accel.autocast("cpu"):
            seen.append(state())
        stepper.step()
    assert seen[:4] == [torch.bfloat16, torch.bfloat16, torch.float32, torch.float32]
    assert seen[-1] is None


def test_living_tensors_are_found() -> None:
    assert not program_state.any_tensor_of(torch.float8_e5m2)
    kept = nn.Parameter(torch.zeros(1).to(torch.float8_e5m2), requires_grad=False)
    assert program_state.any_tensor_of(torch.float8_e5m2)
    del kept


def test_other_threads_follow(script: Script) -> None:
    trials = script([USUAL, LOW])
    seen: list[torch.dtype | None] = []

    def elsewhere() -> None:
        with accel.autocast("cpu"):
            seen.append(state())

    for _ in range(2):
        with accel.autocast("cpu"):
            pass
        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
    assert seen == [None, torch.bfloat16]
    assert trials[0].begun == 2


def test_replicas_on_a_device_are_not_tried() -> None:
    """Only threads, no loop of the script's own: as by the hardware."""
    gate = autocast_controller.AutocastController(torch.device("cuda"), precision.by_capability(8, 0))
    seen: list[torch.dtype | None] = []
    thread = threading.Thread(target=lambda: seen.append(gate.dtype(sys._getframe())))
    thread.start()
    thread.join()
    assert seen == [torch.bfloat16]
    assert gate.settled()


# ---------------------------------------------------------------- where there is no choice


@pytest.mark.parametrize("name", ["AUTOACCEL_COMPILE_MODE", "AUTOACCEL_AMP_DTYPE"])
def test_at_once(script: Script, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    script([USUAL] * 10)
    value = {"AUTOACCEL_COMPILE_MODE": "eager", "AUTOACCEL_AMP_DTYPE": "bfloat16"}[name]
    if name == "AUTOACCEL_COMPILE_MODE":
        monkeypatch.setattr(program_state, "is_anything_compiled", compiles)
    monkeypatch.setenv(name, value)
    with accel.autocast("cpu"):
        assert state() is torch.bfloat16
    assert autocast_controller.settled()


def agree(monkeypatch: pytest.MonkeyPatch, why: str) -> None:
    """Several runs have to do the same."""
    if why == "ranks":
        monkeypatch.setenv("WORLD_SIZE", "2")
    elif why == "cudnn":
        monkeypatch.setattr(torch.backends.cudnn, "deterministic", True)
    else:
        monkeypatch.setattr(torch, "are_deterministic_algorithms_enabled", lambda: True)


AGREEING = pytest.mark.parametrize("why", ["ranks", "cudnn", "algorithms"])


@AGREEING
def test_on_a_device_runs_that_agree_take_what_it_has_untried(monkeypatch: pytest.MonkeyPatch, why: str) -> None:
    agree(monkeypatch, why)
    monkeypatch.setattr(program_state, "float16_in_any_region", lambda kind: "")
    monkeypatch.setattr(devices, "hardware_name", lambda place: "some device")
    trial: Any = Scripted([USUAL, LOW, USUAL, LOW], TrialState.REJECTED)
    gate = autocast_controller.AutocastController(
        torch.device("cuda"), precision.by_capability(8, 0), lambda place: trial
    )
    assert [gate.dtype(sys._getframe()) for _ in range(6)] == [torch.bfloat16] * 6
    assert gate.settled()


@pytest.mark.parametrize(("why", "dtype"), [("ranks", torch.float16), ("cudnn", None), ("algorithms", None)])
def test_float16_is_not_taken_untried_by_runs_that_are_to_repeat_themselves(
    monkeypatch: pytest.MonkeyPatch, why: str, dtype: torch.dtype | None
) -> None:
    agree(monkeypatch, why)
    monkeypatch.setattr(program_state, "float16_in_any_region", lambda kind: "")
    monkeypatch.setattr(devices, "hardware_name", lambda place: "some device")
    trial: Any = Scripted([USUAL, LOW, USUAL], TrialState.REJECTED)
    gate = autocast_controller.AutocastController(
        torch.device("cuda"), precision.by_capability(7, 5), lambda place: trial
    )
    assert [gate.dtype(sys._getframe()) for _ in range(3)] == [dtype] * 3
    assert gate.settled()


@AGREEING
def test_runs_that_agree_on_cpus_stay_in_float32_for_they_cannot_try(
    script: Script, monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    script([USUAL] * 10)
    agree(monkeypatch, why)
    for _ in range(3):
        with accel.autocast("cpu"):
            assert state() is None
    assert autocast_controller.settled()


@pytest.mark.parametrize("ranks", ["1", "2"])
@pytest.mark.parametrize("recurrent", [True, False])
def test_recurrent_networks_of_cudnn_stay_in_float32(
    monkeypatch: pytest.MonkeyPatch, ranks: str, recurrent: bool
) -> None:
    """There they are in float16 in any region, whatever its precision."""
    monkeypatch.setenv("WORLD_SIZE", ranks)
    monkeypatch.setattr(
        program_state, "float16_in_any_region", lambda kind: "cuDNN" if recurrent and kind == "cuda" else ""
    )
    monkeypatch.setattr(devices, "hardware_name", lambda place: "some device")
    trial: Any = Scripted([USUAL, LOW, USUAL, LOW], TrialState.ADOPTED)
    gate = autocast_controller.AutocastController(
        torch.device("cuda"), precision.by_capability(8, 0), lambda place: trial
    )
    seen = [gate.dtype(sys._getframe()) for _ in range(6)]
    assert (torch.bfloat16 in seen) is not recurrent
    assert recurrent is (seen == [None] * 6)
    assert gate.settled()


def test_recurrent_networks_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    layer = nn.Sequential(nn.GRU(1, 1))
    assert not program_state.float16_in_any_region("cuda")
    monkeypatch.setattr(
        nn.Module, "parameters", lambda module: iter([types.SimpleNamespace(device=torch.device("cuda"))])
    )
    assert "cuDNN's recurrent networks" in program_state.float16_in_any_region("cuda")
    assert not program_state.float16_in_any_region("xpu")
    del layer


def test_a_compiling_script_is_known_by_its_backends(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.compile(nn.Linear(1, 1), backend="eager")
    assert compiles()


def test_what_was_compiled_meanwhile_stays_as_it_was_tried(script: Script, monkeypatch: pytest.MonkeyPatch) -> None:
    script([USUAL], TrialState.REJECTED)
    stepper = Stepper()
    for _ in range(20):
        with accel.autocast("cpu"):
            pass
        stepper.step()
    monkeypatch.setattr(program_state, "is_anything_compiled", lambda: True)
    for _ in range(20):
        with accel.autocast("cpu"):
            assert state() is None
        stepper.step()
    assert len(autocast_controller._controllers["cpu"]._phases) == 2
    assert autocast_controller.settled()


def test_a_region_in_compiled_code_is_not_tried(script: Script, fresh_graphs: None) -> None:
    trials = script([USUAL] * 10)

    def step(x: torch.Tensor) -> torch.Tensor:
        with accel.autocast("cpu"):
            return x @ x

    compiled = torch.compile(step, backend="eager", fullgraph=True)
    assert compiled(torch.ones(2, 2)).dtype is torch.bfloat16
    assert not trials


# ---------------------------------------------------------------- decisions


@pytest.fixture
def memory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    program = tmp_path / "train.py"
    program.write_text("")
    monkeypatch.setattr(sys, "argv", [str(program)])
    monkeypatch.setenv("AUTOACCEL_REMEMBER", "on")
    monkeypatch.setenv("AUTOACCEL_CACHE_DIR", str(tmp_path / "cache"))
    yield
    decision_cache._digest.cache_clear()


@pytest.mark.parametrize("end", [TrialState.ADOPTED, TrialState.REJECTED])
def test_the_second_run_starts_as_the_first_one_ended(
    script: Script, memory: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], end: TrialState
) -> None:
    monkeypatch.setenv("AUTOACCEL_LOG", "info")
    trials = script([USUAL], end)

    def train() -> list[torch.dtype | None]:
        forget(monkeypatch)
        stepper, seen = Stepper(), []
        for _ in range(4):
            with accel.autocast("cpu"):
                seen.append(state())
            stepper.step()
        return seen

    first, second = train(), train()
    assert first[0] is None
    assert second == [first[-1]] * 4
    assert trials[-1].begun == 0
    lines = [line for line in capsys.readouterr().err.splitlines() if "autocast" in line]
    assert "trying (bfloat16 against float32: this CPU has AVX512-BF16 or AMX)" in lines[0]
    said, ratio = {TrialState.ADOPTED: ("bfloat16", "2.00x"), TrialState.REJECTED: ("off", "0.50x")}[end]
    assert lines[1].endswith(f": {said} (bfloat16 {ratio} as fast as float32 over 0 steps)")
    assert lines[2].endswith(f": {said} (bfloat16 {ratio} as fast as float32 over 0 steps, in an earlier run)")
    assert "test_autocast_controller.py:" in lines[0]
    assert len(lines) == 3


def test_what_was_decided_on_little_is_asked_again(
    script: Script, memory: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    trials = script([USUAL], TrialState.REJECTED)

    def train() -> int:
        forget(monkeypatch)
        stepper = Stepper()
        for _ in range(6):
            with accel.autocast("cpu"):
                trials[-1].has_evidence = False
            stepper.step()
        return trials[-1].begun

    assert train() > 0
    assert train() > 0


def test_a_clear_loss_is_remembered(script: Script, memory: None, monkeypatch: pytest.MonkeyPatch) -> None:
    trials = script([USUAL], TrialState.REJECTED)
    for _ in range(2):
        forget(monkeypatch)
        stepper = Stepper()
        for _ in range(6):
            with accel.autocast("cpu"):
                trials[-1].has_evidence, trials[-1].is_clear_loss = False, True
            stepper.step()
    assert trials[-1].begun == 0


@AGREEING
def test_runs_that_agree_do_not_ask_their_memories(
    script: Script, memory: None, monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    script([], TrialState.ADOPTED)

    def region() -> torch.dtype | None:
        with accel.autocast("cpu"):
            return state()

    region()
    forget(monkeypatch)
    agree(monkeypatch, why)
    assert region() is None


def test_nobody_waits_for_steps_that_do_not_come(script: Script, monkeypatch: pytest.MonkeyPatch) -> None:
    script([USUAL] * 100)
    now = 0.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    assert autocast_controller.settled()  # no region was opened
    for _ in range(2):
        with accel.autocast("cpu"):
            pass
        assert not autocast_controller.settled()
        now += 30.0
    assert not autocast_controller.settled()
    now += 100.0
    assert autocast_controller.settled()
    with accel.autocast("cpu"):
        assert state() is None
    assert autocast_controller.settled()


# ---------------------------------------------------------------- whole loops


class Worked:
    """A clock that goes by the precision of the last region: half the time, or twice, in bfloat16."""

    def __init__(self, low: float) -> None:
        self.now, self.low = 0.0, low

    def work(self) -> None:
        self.now += self.low if state() is torch.bfloat16 else 0.1

    def mark(self) -> float:
        return self.now

    def seconds(self, start: float, end: float) -> float:
        return end - start


def gan(clock: Worked | None, accumulate: int = 1, steps: int = 90) -> list[float]:
    torch.manual_seed(0)
    generator, critic = nn.Linear(4, 8), nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 1))
    g = torch.optim.SGD(generator.parameters(), lr=0.01)
    d = torch.optim.SGD(critic.parameters(), lr=0.01)
    scale_g, scale_d = accel.grad_scaler(g), accel.grad_scaler(d)
    losses = []
    for number in range(1, steps + 1):
        real, noise = torch.randn(16, 8), torch.randn(16, 4)
        with accel.autocast("cpu"):
            if clock is not None:
                clock.work()
            loss_d = (critic(generator(noise).detach()).mean() - critic(real).mean()) / accumulate
        scale_d.scale(loss_d).backward()
        if number % accumulate == 0:
            scale_d.step(d)
            scale_d.update()
            d.zero_grad()
            g.zero_grad()
            with accel.autocast("cpu"):
                loss_g = -critic(generator(noise)).mean()
            scale_g.scale(loss_g).backward()
            scale_g.step(g)
            scale_g.update()
            d.zero_grad()
        losses.append(loss_d.item())
    return losses


@pytest.mark.parametrize("accumulate", [1, 2])
@pytest.mark.parametrize(("low", "end"), [(0.05, TrialState.ADOPTED), (0.11, TrialState.REJECTED)])
def test_losses_stay_close_while_precision_changes(
    monkeypatch: pytest.MonkeyPatch, accumulate: int, low: float, end: TrialState
) -> None:
    monkeypatch.setenv("AUTOACCEL_DISABLE", "amp")
    want = gan(None, accumulate, 90 * accumulate)
    monkeypatch.delenv("AUTOACCEL_DISABLE")
    clock, made = Worked(low), []

    def new(place: torch.device) -> ABTrial:
        made.append(ABTrial(clock, TrialPolicy()))
        return made[-1]

    monkeypatch.setattr(autocast_controller, "new_trial", new)
    got = gan(clock, accumulate, 90 * accumulate)
    assert made[-1].state is end
    assert autocast_controller.settled()
    assert got != want
    assert got[: 25 * accumulate] == want[: 25 * accumulate]
    assert got == pytest.approx(want, abs=0.02)


def test_disabled_is_the_original_bit_for_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTOACCEL_DISABLE", "amp")
    disabled = gan(None)
    monkeypatch.setattr(accel, "autocast", lambda device: torch.autocast("cpu", enabled=False))
    assert disabled == gan(None)
