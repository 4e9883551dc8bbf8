"""`accel.matmul_precision` and `accel.cudnn_benchmark`: on trial on CUDA devices, and nothing at all elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

from autoaccel import runtime as accel
from autoaccel.runtime.amp import autocast_controller
from autoaccel.runtime.backends import backend_setting
from autoaccel.runtime.backends.backend_setting import settled
from autoaccel.runtime.trial.ab_trial import TrialPolicy
from tests.runtime.accelerator import MACHINES, install

VERBS: dict[str, Callable[[], None]] = {
    "matmul_precision": accel.matmul_precision,
    "cudnn_benchmark": accel.cudnn_benchmark,
}


class Optimizer:
    """Steps parameters that are said to lie on a CUDA device."""

    def __init__(self, dtype: torch.dtype = torch.float32) -> None:
        weight = SimpleNamespace(device=torch.device("cuda"), dtype=dtype, numel=lambda: 3)
        self.param_groups = [{"params": [weight]}]


@pytest.fixture(autouse=True)
def untouched(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(backend_setting, "_settings", [])
    monkeypatch.setattr(backend_setting, "register_optimizer_step_post_hook", lambda _: None)
    before = torch.get_float32_matmul_precision(), torch.backends.cudnn.benchmark
    yield
    torch.set_float32_matmul_precision(before[0])
    torch.backends.cudnn.benchmark = before[1]


@pytest.fixture
def a100(monkeypatch: pytest.MonkeyPatch) -> Any:
    return install(MACHINES["A100"], monkeypatch)


def is_on(verb: str) -> bool:
    if verb == "matmul_precision":
        return torch.get_float32_matmul_precision() == "high"
    return torch.backends.cudnn.benchmark


def steps(count: int, optimizer: Any = None, between: Callable[[], None] = lambda: None) -> list[tuple[bool, bool]]:
    """Make steps; whether each setting was on in each."""
    optimizer = optimizer or Optimizer()
    found = []
    for _ in range(count):
        found.append((is_on("matmul_precision"), is_on("cudnn_benchmark")))
        between()
        for each in list(backend_setting._settings):
            each.after_step(optimizer, (), {})
    return found


@pytest.mark.parametrize("verb", VERBS)
def test_nothing_happens_without_a_cuda_device(verb: str) -> None:
    VERBS[verb]()
    assert not backend_setting._settings
    assert not is_on(verb)


@pytest.mark.parametrize("verb", VERBS)
def test_it_wakes_no_accelerator(verb: str, a100: Any) -> None:
    VERBS[verb]()
    assert backend_setting._settings
    assert not a100.woken


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("wish", ["on", "off"])
def test_what_the_user_wishes(verb: str, wish: str, a100: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(f"AUTOACCEL_{verb.upper()}", wish)
    VERBS[verb]()
    steps(2)
    assert is_on(verb) is (wish == "on")


@pytest.mark.parametrize("verb", VERBS)
def test_switched_off(verb: str, a100: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTOACCEL_DISABLE", verb)
    VERBS[verb]()
    assert not backend_setting._settings


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_other_types_are_left_alone(verb: str, dtype: torch.dtype, a100: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(f"AUTOACCEL_{verb.upper()}", "on")
    VERBS[verb]()
    steps(3, Optimizer(dtype))
    assert not is_on(verb)


@pytest.mark.parametrize("verb", VERBS)
def test_training_on_the_cpu_is_left_alone(verb: str, a100: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(f"AUTOACCEL_{verb.upper()}", "on")
    VERBS[verb]()
    steps(3, torch.optim.SGD(torch.nn.Linear(2, 2).parameters()))
    assert not is_on(verb)


@pytest.mark.parametrize("verb", VERBS)
def test_several_processes(verb: str, a100: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv(f"AUTOACCEL_{verb.upper()}", "on")
    VERBS[verb]()
    steps(3)
    assert not is_on(verb)


@pytest.mark.parametrize(("name", "expected"), [("V100", False), ("T4", False), ("A100", True), ("H100", True)])
def test_products_are_rounded_where_there_are_units(name: str, expected: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    install(MACHINES[name], monkeypatch)
    monkeypatch.setenv("AUTOACCEL_MATMUL_PRECISION", "on")
    accel.matmul_precision()
    steps(2)
    assert is_on("matmul_precision") is expected


def test_a_precision_that_was_chosen_stays(a100: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTOACCEL_MATMUL_PRECISION", "off")
    torch.set_float32_matmul_precision("medium")
    accel.matmul_precision()
    steps(3)
    assert torch.get_float32_matmul_precision() == "medium"


@pytest.mark.parametrize(("flag", "value"), [("benchmark", True), ("deterministic", True)])
def test_a_choice_of_kernels_stays(flag: str, value: bool, a100: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.cudnn, flag, value)
    monkeypatch.setenv("AUTOACCEL_CUDNN_BENCHMARK", "off" if flag == "benchmark" else "on")
    before = torch.backends.cudnn.benchmark
    accel.cudnn_benchmark()
    steps(3)
    assert torch.backends.cudnn.benchmark is before


# ------------------------------------------------------------ the trial


def on_trial(verb: str, fake: Any, monkeypatch: pytest.MonkeyPatch, with_it: float) -> Callable[[], None]:
    """What lies between two steps: as long as is said with the setting, 20 ms without."""
    monkeypatch.setattr(backend_setting, "POLICY", TrialPolicy(gain=1.03, seconds=0.2, iterations=16, share=0.1))
    VERBS[verb]()

    def between() -> None:
        fake.queued = fake.done = fake.queued + (with_it if is_on(verb) else 0.02)

    return between


@pytest.mark.parametrize("verb", VERBS)
def test_what_is_faster_is_kept(verb: str, a100: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    between = on_trial(verb, a100, monkeypatch, 0.01)
    optimizer = Optimizer()
    steps(3, optimizer, between)
    assert not settled()
    steps(150, optimizer, between)
    assert settled()
    assert is_on(verb)


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("with_it", [0.02, 0.04])
def test_what_is_not_faster_is_not(verb: str, with_it: float, a100: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    between = on_trial(verb, a100, monkeypatch, with_it)
    steps(400, Optimizer(), between)
    assert settled()
    assert not is_on(verb)


@pytest.mark.parametrize("verb", VERBS)
def test_nothing_is_tried_while_precisions_are(verb: str, a100: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    between = on_trial(verb, a100, monkeypatch, 0.01)
    monkeypatch.setattr(autocast_controller, "settled", lambda: False)
    assert not any(map(any, steps(150, Optimizer(), between)))


def test_one_after_the_other(a100: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    between = on_trial("matmul_precision", a100, monkeypatch, 0.01)
    accel.cudnn_benchmark()
    found = steps(400, Optimizer(), between)
    assert is_on("matmul_precision")
    decided = next(number for number, each in enumerate(found) if each[0] and all(one for one, _ in found[number:]))
    assert not any(benchmark for _, benchmark in found[:decided])
    assert any(benchmark for _, benchmark in found[decided:])


def test_timing_all_kernels_waits_until_it_may_be_lost(a100: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first step took 3 s; so will the first one in which kernels are timed."""
    between = on_trial("cudnn_benchmark", a100, monkeypatch, 0.01)
    monkeypatch.setattr(time, "monotonic", lambda: a100.queued)
    optimizer = Optimizer()
    steps(1, optimizer)
    a100.queued = a100.done = a100.queued + 3.0
    found = steps(2500, optimizer, between)
    first = next(number for number, (_, benchmark) in enumerate(found) if benchmark)
    assert 0.02 * first > 25.0


def test_timing_all_kernels_gives_way(a100: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """To what is worth more, such as a graph of the step, as long as that is not decided; and that need not wait."""
    decided = False
    monkeypatch.setattr(backend_setting, "_awaited", [lambda: decided])
    between = on_trial("cudnn_benchmark", a100, monkeypatch, 0.01)
    optimizer = Optimizer()
    found = steps(400, optimizer, between)
    assert not any(benchmark for _, benchmark in found)
    assert not settled()
    assert not backend_setting.is_switching()
    decided = True
    steps(150, optimizer, between)
    assert settled()
    assert is_on("cudnn_benchmark")


def test_what_takes_no_time_to_try_does_not(a100: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend_setting, "_awaited", [lambda: False])
    between = on_trial("matmul_precision", a100, monkeypatch, 0.01)
    optimizer = Optimizer()
    steps(3, optimizer, between)
    assert backend_setting.is_switching()
    steps(150, optimizer, between)
    assert not backend_setting.is_switching()
    assert is_on("matmul_precision")


def test_what_times_kernels_is_waited_for(a100: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    between = on_trial("cudnn_benchmark", a100, monkeypatch, 0.01)
    optimizer = Optimizer()
    while not any(benchmark for _, benchmark in steps(1, optimizer, between)):
        pass
    assert backend_setting.is_switching()


def test_steps_are_those_of_one_optimizer(a100: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    between = on_trial("matmul_precision", a100, monkeypatch, 0.01)
    generator, discriminator = Optimizer(), Optimizer()
    steps(1, generator)
    steps(100, discriminator, between)
    assert not settled()
    assert not is_on("matmul_precision")


def test_what_was_decided_is_remembered(a100: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setenv("AUTOACCEL_REMEMBER", "on")
    monkeypatch.setenv("AUTOACCEL_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr("sys.argv", [__file__])
    between = on_trial("matmul_precision", a100, monkeypatch, 0.01)
    steps(150, Optimizer(), between)
    torch.set_float32_matmul_precision("highest")
    monkeypatch.setattr(backend_setting, "_settings", [])
    accel.matmul_precision()
    steps(1)
    assert is_on("matmul_precision")


def test_optimizers_tell_of_their_steps() -> None:
    """What torch hands to a hook of all optimizers is what is asked for here."""
    seen: list[Any] = []
    handle = register_optimizer_step_post_hook(lambda optimizer, *_: seen.append(optimizer))
    weight = torch.nn.Parameter(torch.ones(1))
    optimizer = torch.optim.SGD([weight])
    weight.grad = torch.ones(1)
    optimizer.step()
    handle.remove()
    assert seen == [optimizer]
