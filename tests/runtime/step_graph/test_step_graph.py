"""A step that is captured trains bit for bit as the plain one, and whatever cannot be captured stays plain."""

from __future__ import annotations

import collections
import copy
import functools
import itertools
import pickle
import random
import threading
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from autoaccel import runtime as accel
from autoaccel.runtime import devices, replicas
from autoaccel.runtime.amp import autocast_controller, program_state
from autoaccel.runtime.backends import backend_setting
from autoaccel.runtime.compile import compile_controller
from autoaccel.runtime.memory_layout import channels_last_call
from autoaccel.runtime.optim import fused_step
from autoaccel.runtime.step_graph import step_controller
from tests.runtime import accelerator
from tests.runtime.accelerator import Accelerator, Machine, install

compiles = program_state.is_anything_compiled  # before it is made to forget what other tests compiled

Step = Callable[..., Any]


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Accelerator:
    """A CUDA device whose memory is the host's; eager steps take a second, replays a tenth."""
    monkeypatch.setattr(devices, "module_device", lambda module: torch.device("cuda"))
    return install(Machine(), monkeypatch)


def unseen(work: Callable[..., Any]) -> Callable[..., Any]:
    """A function that passes for one of torch."""
    space: dict[str, Any] = {"__name__": "torch.unseen", "work": work}
    exec("def count(*values): return work(*values)", space)
    found: Callable[..., Any] = space["count"]
    return found


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))


class Script:
    """A training script, twice: plain, and with the step decorated. Whatever happens happens to both."""

    def __init__(self, fake: Accelerator, make: Callable[..., Any] = torch.optim.SGD, **settings: Any) -> None:
        self.fake = fake
        settings = settings or {"lr": 0.1, "momentum": 0.9}
        self.models = [network(), network()]
        self.optimizers = [make(model.parameters(), **settings) for model in self.models]
        self.define: Callable[..., Step] = plain_step
        self.number = 0
        self.sizes: tuple[int, ...] = (6,)
        self.replayed: list[bool] = []
        self.kept: list[tuple[Any, Any]] = []
        self.eager_seconds = 1.0  # a replay takes 0.1
        self.ran: list[None] = []
        self.count = unseen(self.ran.append)

    def functions(self) -> list[Step]:
        mine = self.define(self.models[0], self.optimizers[0], self.count)
        return [
            accel.step(self.models[0], self.optimizers[0])(mine),
            self.define(self.models[1], self.optimizers[1], id),
        ]

    def train(self, steps: int, each: Callable[[int, nn.Module, Any], None] | None = None) -> list[bool]:
        """Train both; returns of each step so far whether it was replayed. `each` is called before every step."""
        step, plain = self.functions()
        for _ in range(steps):
            for model, optimizer in zip(self.models, self.optimizers, strict=True):
                if each is not None:
                    each(self.number, model, optimizer)
            generator = torch.Generator().manual_seed(self.number)
            size = self.sizes[self.number % len(self.sizes)]
            batch = torch.randn(size, 4, generator=generator), torch.randint(0, 3, (size,), generator=generator)
            replays, ran = self.fake.replays, len(self.ran)
            got = step(*batch)
            self.replayed.append((self.fake.replays, len(self.ran)) == (replays + 1, ran))
            self.fake.queued += 0.1 if self.replayed[-1] else self.eager_seconds
            self.fake.done = self.fake.queued
            want = plain(*batch)
            self.kept.append((got, want))
            assert same(got, want)
            self.number += 1
            self.compare()
        return self.replayed

    def compare(self) -> None:
        mine, plain = self.models
        for one, other in zip(mine.state_dict().values(), plain.state_dict().values(), strict=True):
            assert torch.equal(one, other)
        for one, other in zip(mine.parameters(), plain.parameters(), strict=True):
            assert (one.grad is None) is (other.grad is None)
            assert one.grad is None or other.grad is None or torch.equal(one.grad, other.grad)
        assert same(*(optimizer.state_dict() for optimizer in self.optimizers))


def same(one: Any, other: Any) -> bool:
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(value, other[key]) for key, value in one.items())
    if isinstance(one, tuple | list):
        return len(one) == len(other) and all(map(same, one, other))
    return torch.equal(one, other) if isinstance(one, torch.Tensor) else bool(one == other)


def plain_step(model: nn.Module, optimizer: torch.optim.Optimizer, count: Callable[[None], Any]) -> Step:
    """`count` is taken for a library's, of which no guard looks at what it does."""

    def train_step(images: torch.Tensor, labels: torch.Tensor) -> Any:
        count(None)
        optimizer.zero_grad()
        output = model(images)
        loss = nn.functional.cross_entropy(output, labels)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        return loss, output

    return train_step


def test_it_trains_the_same_and_comes_to_replay(device: Accelerator) -> None:
    replayed = Script(device).train(80)
    assert not any(replayed[:7])
    assert all(replayed[-20:])


def test_a_result_is_not_overwritten_by_later_replays(device: Accelerator) -> None:
    script = Script(device)
    script.train(60)
    assert all(same(got, want) for got, want in script.kept)


# ---------------------------------------------------------------- where nothing is captured


def test_switched_off_or_elsewhere_the_function_is_returned_as_it_is(
    device: Accelerator, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = network()
    optimizer = torch.optim.SGD(model.parameters())

    def train_step() -> None: ...

    assert accel.step(model, optimizer)(train_step) is not train_step
    assert accel.step(model)(train_step) is train_step
    assert accel.step(optimizer)(train_step) is train_step
    monkeypatch.setenv("AUTOACCEL_DISABLE", "graphs")
    assert accel.step(model, optimizer)(train_step) is train_step
    monkeypatch.delenv("AUTOACCEL_DISABLE")
    for off in ("off", "0", "no", "False"):
        monkeypatch.setenv("AUTOACCEL_CUDA_GRAPHS", off)
        assert accel.step(model, optimizer)(train_step) is train_step
    monkeypatch.delenv("AUTOACCEL_CUDA_GRAPHS")
    assert accel.step(model, optimizer)(train_step) is not train_step
    for kind in ("cpu", "mps", "xpu"):
        monkeypatch.setattr(devices, "module_device", lambda module, kind=kind: torch.device(kind))
        assert accel.step(model, optimizer)(train_step) is train_step


def test_nothing_is_captured_while_something_else_is_tried(
    device: Accelerator, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = Script(device)
    for module in (autocast_controller, compile_controller, fused_step, channels_last_call):
        monkeypatch.setattr(module, "settled", lambda: False)
        script.train(20)
        monkeypatch.setattr(module, "settled", lambda: True)
    monkeypatch.setattr(backend_setting, "is_switching", lambda: True)
    script.train(20)
    monkeypatch.setattr(backend_setting, "is_switching", lambda: False)
    assert device.replays == 0
    assert all(script.train(80)[-20:])


@pytest.mark.parametrize(("variable", "value"), [("WORLD_SIZE", "2"), ("AUTOACCEL_COMPILE_MODE", "eager")])
def test_not_in_this_environment(
    device: Accelerator, monkeypatch: pytest.MonkeyPatch, variable: str, value: str
) -> None:
    monkeypatch.setattr(program_state, "is_anything_compiled", compiles)
    monkeypatch.setenv(variable, value)
    Script(device).train(20)
    assert device.replays == 0


def test_not_where_all_has_to_be_deterministic(device: Accelerator) -> None:
    torch.use_deterministic_algorithms(True)
    try:
        Script(device).train(20)
    finally:
        torch.use_deterministic_algorithms(False)
    assert device.replays == 0


def test_where_cudnn_has_to_repeat_itself(device: Accelerator, monkeypatch: pytest.MonkeyPatch) -> None:
    """A graph computes the same bits: it is the time alone that differs."""
    monkeypatch.setattr(torch.backends.cudnn, "deterministic", True)
    Script(device).train(40)
    assert device.replays


def test_not_beside_replicas_on_several_devices(device: Accelerator, monkeypatch: pytest.MonkeyPatch) -> None:
    wrapped = nn.DataParallel(nn.Linear(1, 1))
    monkeypatch.setattr(replicas, "_gpus", lambda: 2)
    Script(device).train(40)
    assert device.replays
    wrapped.device_ids, replays = [0, 1], device.replays
    Script(device).train(40)
    assert device.replays == replays


def test_not_where_memory_is_short(device: Accelerator) -> None:
    device.peak = device.machine.memory // 4 + 1
    Script(device).train(20)
    assert device.replays == 0


@pytest.mark.parametrize(
    ("make", "settings", "replays"),
    [
        (torch.optim.SGD, {"lr": 0.1}, True),
        (torch.optim.SGD, {"lr": 0.1, "nesterov": True, "momentum": 0.9, "weight_decay": 0.01}, True),
        (torch.optim.Adam, {"lr": 0.01, "fused": True}, True),
        (torch.optim.AdamW, {"lr": 0.01, "fused": True}, True),
        (torch.optim.Adam, {"lr": 0.01}, False),
        (torch.optim.RMSprop, {"lr": 0.01}, False),
    ],
)
def test_optimizers(device: Accelerator, make: Any, settings: Any, replays: bool) -> None:
    assert Script(device, make, **settings).train(60)[-1] is replays


def test_fused_optimizers_are_captured_as_capturable_alone(device: Accelerator) -> None:
    """torch refuses others while a graph is captured, and warns of steps that are not."""
    script = Script(device, torch.optim.Adam, lr=0.01, fused=True)
    seen: set[tuple[bool, bool]] = set()

    def define(model: nn.Module, optimizer: Any, count: Any) -> Step:
        note, capturing = unseen(seen.add), unseen(device.is_current_stream_capturing)
        step = plain_step(model, optimizer, count)

        def train_step(images: torch.Tensor, labels: torch.Tensor) -> Any:
            note((capturing(), optimizer.param_groups[0]["capturable"]))
            return step(images, labels)

        return train_step

    script.define = define
    script.train(60)
    assert seen == {(False, False), (True, True)}


# ---------------------------------------------------------------- steps that are not for a graph


def changed_step(edit: str) -> Callable[..., Step]:
    """A step with one statement more, before the backward pass (or, after `;`, behind the optimizer's step)."""
    inside, _, behind = edit.partition(" ;; ")
    text = f"""
def define(model, optimizer, count):
    average = [torch.zeros(3)]
    settings = types.SimpleNamespace(calls=0)
    weight = torch.ones(3)
    scaler = torch.amp.GradScaler("cpu", enabled=True)
    dropout = nn.Dropout()
    def train_step(images, labels):
        count(None)
        optimizer.zero_grad()
        output = model(images)
        loss = nn.functional.cross_entropy(output, labels)
        {inside}
        loss.backward()
        optimizer.step()
        {behind or "result = loss, output"}
        return result
    return train_step
"""
    known: dict[str, Any] = {"torch": torch, "nn": nn, "types": types, "random": random}
    exec(text, known)
    found: Callable[..., Step] = known["define"]
    return found


@pytest.mark.filterwarnings("ignore:autoaccel. the step train_step is not captured:RuntimeWarning")
@pytest.mark.parametrize(
    "edit",
    [
        pytest.param("loss.item()", id="read"),
        pytest.param("float(loss.detach())", id="converted"),
        pytest.param("loss.detach().cpu().numpy()", id="array"),
        pytest.param("output.tolist()", id="list"),
        pytest.param("print(end='') if loss > 0 else None", id="condition"),
        pytest.param("output[labels == 0]", id="size that depends on values"),
        pytest.param("random.random()", id="python's random numbers"),
        pytest.param("torch.rand(2)", id="torch's random numbers of the host"),
        pytest.param("average[0].mul_(0.9).add_(output.detach().mean(0))", id="writes elsewhere"),
        pytest.param("average[0] = average[0] + 1", id="rebinds an element"),
        pytest.param("settings.calls += 1", id="counts"),
        pytest.param("model.calls = getattr(model, 'calls', 0) + 1", id="counts in the model"),
        pytest.param("pass ;; images.mul_(1.0); result = loss", id="writes to an argument"),
        pytest.param("scaler", id="a scaler that scales"),
        pytest.param("pass ;; result = model[0].weight", id="a parameter as result"),
        pytest.param("pass ;; result = {1, 2}", id="a result of an unknown type"),
        pytest.param("pass ;; result = images", id="an argument as result"),
    ],
)
def test_it_stays_plain(device: Accelerator, edit: str) -> None:
    script = Script(device)
    script.define = changed_step(edit)
    script.train(60)
    assert device.replays == 0
    assert len(script.ran) <= 61  # the plain steps, and one that was to be captured


@pytest.mark.parametrize(
    "edit",
    [
        pytest.param("loss = loss * weight.sum()", id="a tensor of an outer function"),
        pytest.param("torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)", id="clipping of what is there"),
        pytest.param("pass ;; result = {'loss': loss, 'size': images.size(0)}", id="a dictionary"),
        pytest.param("pass ;; result = loss, loss", id="twice the same"),
        pytest.param("pass ;; result = None", id="nothing"),
        pytest.param("pass ;; optimizer.zero_grad(); result = loss", id="cleared behind the step"),
        pytest.param("optimizer.zero_grad(set_to_none=False)", id="gradients are kept"),
    ],
)
def test_it_is_replayed(device: Accelerator, edit: str) -> None:
    script = Script(device)
    script.define = changed_step(edit)
    assert all(script.train(60)[-5:])


def test_a_result_that_does_not_come_back_as_it_was(device: Accelerator) -> None:
    """What torch makes of a shape in its own nesting of values is a tuple."""
    script = Script(device)
    script.define = changed_step("pass ;; result = images.shape")
    script.train(60)
    assert device.replays == 1


def test_results_have_no_graph_before_there_is_one_of_cuda(device: Accelerator) -> None:
    """Whoever keeps one would keep the nodes that accumulate gradients, and with them the stream of plain steps."""
    script = Script(device)
    script.train(40)
    assert script.replayed[-1]
    for got, want in script.kept:
        assert [each.requires_grad for each in want] == [True, True]
        assert [each.requires_grad for each in got] == [False, False]


def test_a_capture_that_fails_loses_nothing(device: Accelerator, monkeypatch: pytest.MonkeyPatch) -> None:
    """The gradients of the step before are there, the stream is the script's, and the step is made."""
    script = Script(device)
    before = device.current_stream()

    def define(model: nn.Module, optimizer: Any, count: Any) -> Step:
        step, capturing = plain_step(model, optimizer, count), unseen(device.is_current_stream_capturing)

        def train_step(images: torch.Tensor, labels: torch.Tensor) -> Any:
            result = step(images, labels)
            if capturing():
                raise MemoryError("none left")
            return result

        return train_step

    script.define = define
    with pytest.warns(RuntimeWarning, match="train_step is not captured and runs eagerly: MemoryError: none left"):
        script.train(20)
    assert device.replays == 0
    assert device.current_stream() is before


@pytest.mark.filterwarnings("ignore:autoaccel. the step train_step is not captured:RuntimeWarning")
def test_a_capture_that_fails_leaves_the_gradients(device: Accelerator) -> None:
    """Those that were there, or none: the plain step adds to them."""
    script = Script(device)

    def define(model: nn.Module, optimizer: Any, count: Any) -> Step:
        capturing = unseen(device.is_current_stream_capturing)

        def train_step(images: torch.Tensor, labels: torch.Tensor) -> Any:
            loss = nn.functional.cross_entropy(model(images), labels)
            loss.backward()  # type: ignore[no-untyped-call]
            if capturing():
                raise MemoryError
            optimizer.step()
            return loss

        return train_step

    script.define = define
    script.train(20, lambda number, model, optimizer: optimizer.zero_grad())
    assert device.replays == 0


def test_a_replay_that_differs_in_one_bit_is_given_up(device: Accelerator, monkeypatch: pytest.MonkeyPatch) -> None:
    script = Script(device)
    replay = accelerator.DeviceGraph.replay

    def differs(graph: accelerator.DeviceGraph) -> None:
        replay(graph)
        weight = next(script.models[0].parameters()).data
        if device.replays == 3:
            weight[0, 0] = torch.nextafter(weight[0, 0], torch.tensor(9.0))

    monkeypatch.setattr(accelerator.DeviceGraph, "replay", differs)
    script.train(60)
    assert device.replays == 3


def test_a_replay_that_is_not_faster_is_given_up(device: Accelerator) -> None:
    script = Script(device)
    script.eager_seconds = 0.1
    assert not any(script.train(200)[-50:])
    assert device.replays > 3


# ---------------------------------------------------------------- what happens between the steps


def halve(model: nn.Module, optimizer: Any) -> None:
    optimizer.param_groups[0]["lr"] /= 2


def load_optimizer(model: nn.Module, optimizer: Any) -> None:
    state = copy.deepcopy(optimizer.state_dict())
    for each in state["state"].values():
        each["momentum_buffer"].zero_()
    optimizer.load_state_dict(state)


def load_model(model: nn.Module, optimizer: Any) -> None:
    model.load_state_dict({name: each + 1 for name, each in model.state_dict().items()})


def move(model: Any, optimizer: Any) -> None:
    model[0].weight.data = model[0].weight.data * 2


def freeze(model: Any, optimizer: Any) -> None:
    model[0].weight.requires_grad_(False)


def evaluate(model: nn.Module, optimizer: Any) -> None:
    model.eval()


def set_momentum(model: Any, optimizer: Any) -> None:
    model[1].momentum = 0.5


def replace_buffer(model: Any, optimizer: Any) -> None:
    model[1].running_mean = model[1].running_mean + 1


def replace_parameter(model: Any, optimizer: Any) -> None:
    model[0].bias = nn.Parameter(model[0].bias.detach() + 1)


def replace_layer(model: Any, optimizer: Any) -> None:
    model[2] = nn.Tanh()


def clear_gradients(model: Any, optimizer: Any) -> None:
    optimizer.zero_grad()


def clear_state(model: Any, optimizer: Any) -> None:
    optimizer.state.clear()


def replace_momentum(model: Any, optimizer: Any) -> None:
    for each in optimizer.state.values():
        each["momentum_buffer"] = each["momentum_buffer"] * 2


def double_gradients(model: Any, optimizer: Any) -> None:
    for each in model.parameters():
        each.grad = each.grad * 2


def hook_module(model: Any, optimizer: Any) -> None:
    model[0].register_forward_hook(lambda module, args, output: output * 2)


def hook_parameter(model: Any, optimizer: Any) -> None:
    model[0].weight.register_hook(lambda gradient: gradient * 2)


def hook_accumulation(model: Any, optimizer: Any) -> None:
    def double(parameter: torch.Tensor) -> None:
        assert parameter.grad is not None
        parameter.grad.mul_(2)

    model[0].weight.register_post_accumulate_grad_hook(double)


def hook_optimizer(model: Any, optimizer: Any) -> None:
    optimizer.register_step_post_hook(lambda *_: model[0].bias.data.zero_())


@pytest.mark.parametrize(
    ("event", "replays_again"),
    [
        (halve, True),
        (load_optimizer, True),
        (load_model, True),
        (move, True),
        (freeze, True),
        (evaluate, True),
        (set_momentum, True),
        (replace_buffer, True),
        (replace_parameter, True),
        (replace_layer, True),
        (clear_gradients, True),
        (clear_state, True),
        (double_gradients, True),
        (replace_momentum, True),
        (hook_module, False),
        (hook_parameter, False),
        (hook_accumulation, False),
        (hook_optimizer, False),
    ],
)
def test_an_event_between_two_replays(device: Accelerator, event: Any, replays_again: bool) -> None:
    script = Script(device)
    assert all(script.train(80)[-20:])

    def each(number: int, model: nn.Module, optimizer: Any) -> None:
        if number == 90:
            event(model, optimizer)

    script.train(40, each)
    assert script.replayed[-1] is replays_again


def test_a_rate_that_changes_at_every_step(device: Accelerator) -> None:
    script = Script(device)

    def each(number: int, model: nn.Module, optimizer: Any) -> None:
        optimizer.param_groups[0]["lr"] *= 0.99

    script.train(60, each)
    assert device.replays <= 1


def test_the_last_batch_of_an_epoch(device: Accelerator) -> None:
    script = Script(device)
    script.sizes = (6, 6, 6, 6, 6, 6, 6, 6, 6, 4)
    script.train(200)
    assert script.replayed[-10:] == [True] * 9 + [False]


@pytest.mark.parametrize(
    "read",
    [
        "value", "settings['value']", "space.value", "values[0]", "VALUE", "of_another()", "nested[0]['values'][0]",
        "Settings.value", "Settings().value", "Derived().of_class()", "Derived.of_static()", "Derived().of_property",
        "module.value", "module.read()", "slots.value", "ordered['value']", "defaults['value']", "queue[0]",
        "partial()", "(2.0 if 2.0 in several else 1.0)", "getattr(own, 'va' + 'lue')", "of_default()",
    ],
)  # fmt: skip
def test_a_number_that_the_step_reads_is_changed(device: Accelerator, read: str) -> None:
    """By the script, between two steps: a graph has it as a constant."""
    script = Script(device)
    made: list[dict[str, Any]] = []

    def define(model: nn.Module, optimizer: Any, count: Any) -> Step:
        text = f"""
class Settings:
    value = 1.0
class Derived(Settings):
    @classmethod
    def of_class(cls):
        return cls.value
    @staticmethod
    def of_static():
        return VALUE
    @property
    def of_property(self):
        return VALUE
class Slots:
    __slots__ = ("value",)
class Own:
    pass
def make(model, optimizer, count):
    value, settings, space, values = 1.0, dict(value=1.0), types.SimpleNamespace(value=1.0), [1.0]
    nested, slots, own, several = [dict(values=[1.0])], Slots(), Own(), set()
    slots.value = own.value = 1.0
    ordered, defaults = collections.OrderedDict(value=1.0), collections.defaultdict(float, value=1.0)
    queue, partial = collections.deque([1.0]), functools.partial(lambda table: table["value"], settings)
    module = types.ModuleType("settings")
    exec("value = 1.0\\ndef read():\\n    return value", vars(module))
    def change():
        nonlocal value
        global VALUE
        value = settings['value'] = space.value = values[0] = VALUE = slots.value = own.value = Settings.value = 2.0
        nested[0]['values'][0] = ordered['value'] = defaults['value'] = queue[0] = module.value = 2.0
        several.add(2.0)
    def of_another():
        return value
    def of_default(table=values):
        return table[0]
    def train_step(images, labels):
        count(None)
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(images), labels) * {read}
        loss.backward()
        optimizer.step()
        return loss
    return train_step, change
"""
        known: dict[str, Any] = {
            "nn": nn, "types": types, "collections": collections, "functools": functools, "VALUE": 1.0,
            "__name__": "script",
        }  # fmt: skip
        exec(text, known)
        step, known["change"] = known["make"](model, optimizer, count)
        made.append(known)
        found: Step = step
        return found

    script.define = define

    def each(number: int, model: nn.Module, optimizer: Any) -> None:
        if number == 70:
            for known in made:
                known["change"]()

    assert all(script.train(110, each)[60:70])
    assert not script.replayed[70]
    assert script.replayed[-1]


@pytest.mark.parametrize(
    "read", ["array[0]", "float(generator.random() < 2)", "next(numbers)", "hidden.detach().sum()"]
)
def test_what_changes_without_a_trace_is_not_captured(device: Accelerator, read: str) -> None:
    """Contents of arrays, of generators and of iterators, and tensors of the graph of another step."""
    script = Script(device)

    def define(model: nn.Module, optimizer: Any, count: Any) -> Step:
        known: dict[str, Any] = {
            "nn": nn, "model": model, "optimizer": optimizer, "count": count, "array": np.ones(1, np.float32),
            "generator": random.Random(0), "numbers": itertools.repeat(1.0),
            "hidden": torch.ones(1, requires_grad=True) * 1, "__name__": "script",
        }  # fmt: skip
        exec(
            f"""
def train_step(images, labels):
    count(None)
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(images), labels) * {read}
    loss.backward()
    optimizer.step()
    return loss
""",
            known,
        )
        found: Step = known["train_step"]
        return found

    script.define = define
    script.train(60)
    assert device.replays == 0


@pytest.mark.parametrize("owner", ["settings", "model"])
@pytest.mark.parametrize("read", ["{owner}.scale", "getattr({owner}, 'scale', 1.0)", "{owner}.scaled()"])
def test_an_attribute_of_its_own_hides_that_of_the_class(device: Accelerator, owner: str, read: str) -> None:
    """`settings.scale = 2` where the class said 1 so far: what is new is not among what was there."""
    script = Script(device)
    made: list[Any] = []

    def define(model: nn.Module, optimizer: Any, count: Any) -> Step:
        text = f"""
class Settings:
    scale = 1.0
    def scaled(self):
        return self.scale
class Model(nn.Sequential):
    scale = 1.0
    def scaled(self):
        return self.scale
settings = Settings()
model.__class__ = Model
def train_step(images, labels):
    count(None)
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(images), labels) * {read.format(owner=owner)}
    loss.backward()
    optimizer.step()
    return loss
"""
        known: dict[str, Any] = {
            "nn": nn, "model": model, "optimizer": optimizer, "count": count, "__name__": "script"
        }  # fmt: skip
        exec(text, known)
        made.append(known[owner])
        found: Step = known["train_step"]
        return found

    script.define = define

    def each(number: int, model: nn.Module, optimizer: Any) -> None:
        if number == 70:
            for known in made:
                known.scale = 2.0

    assert all(script.train(110, each)[60:70])
    assert not script.replayed[70]
    assert script.replayed[-1]


def test_a_function_that_is_defined_again_goes_on_with_its_graph(device: Accelerator) -> None:
    script = Script(device)
    for _ in range(16):
        script.train(5)
    assert all(script.replayed[-20:])


def test_gradients_that_are_cleared_outside(device: Accelerator) -> None:
    """And once are not: then a step adds to them."""
    script = Script(device)

    def define(model: nn.Module, optimizer: Any, count: Any) -> Step:
        def train_step(images: torch.Tensor, labels: torch.Tensor) -> Any:
            count(None)
            loss = nn.functional.cross_entropy(model(images), labels)
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            return loss

        return train_step

    def each(number: int, model: nn.Module, optimizer: Any) -> None:
        if number != 70:
            optimizer.zero_grad()

    script.define = define
    assert all(script.train(69, each)[60:])
    script.train(40, each)
    assert not script.replayed[70]


def test_other_threads_make_plain_steps(device: Accelerator) -> None:
    script = Script(device)
    script.train(80)
    before = device.replays
    thread = threading.Thread(target=script.functions()[0], args=(torch.ones(6, 4), torch.zeros(6, dtype=torch.long)))
    thread.start()
    thread.join()
    assert device.replays == before


def test_whoever_asks_torch_sees_that_parameters_have_changed(device: Accelerator) -> None:
    script = Script(device)
    script.train(80)
    parameter = next(script.models[0].parameters())
    before = parameter._version
    assert script.train(1)[-1]
    assert parameter._version > before


def drive(device: Accelerator, step: Callable[[], Any]) -> None:
    """Call a step until it is replayed: a replay takes a tenth of a step's time."""
    for _ in range(80):
        before = device.replays
        step()
        proves = device.replays <= 3
        device.queued = device.done = device.queued + (1.0 if proves or device.replays == before else 0.1)
    before = device.replays
    step()
    assert device.replays == before + 1


def controller_of(script: Script) -> step_controller.StepController:
    [found] = vars(script.optimizers[0])["_autoaccel_steps"].values()
    assert isinstance(found, step_controller.StepController)
    return found


class Counting(torch.optim.SGD):
    """Counts its steps on the host, where no replay does."""

    calls = 0

    def step(self, closure: Any = None) -> Any:
        self.calls += 1
        return super().step(closure)


def test_an_optimizer_of_the_scripts_own(device: Accelerator) -> None:
    script = Script(device, Counting, lr=0.1)
    script.train(60)
    assert device.replays == 0
    assert [each.calls for each in script.optimizers] == [60, 60]


@pytest.mark.parametrize(
    "argument",
    [
        pytest.param(torch.empty(2, device="meta"), id="on another device"),
        pytest.param(torch.ones(2, requires_grad=True), id="needs a gradient"),
        pytest.param(nn.Parameter(torch.ones(2)), id="a parameter"),
        pytest.param(torch.ones(2).to_sparse(), id="sparse"),
        pytest.param(object(), id="an object"),
    ],
)
def test_arguments_that_are_not_for_a_graph(device: Accelerator, argument: Any) -> None:
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    inner = plain_step(model, optimizer, id)
    step: Step = accel.step(model, optimizer)(lambda images, labels, other: inner(images, labels))
    for _ in range(60):
        step(torch.ones(6, 4), torch.zeros(6, dtype=torch.long), argument)
        device.queued = device.done = device.queued + 1.0
    assert device.replays == 0


def test_numbers_and_strides_of_arguments_have_graphs_of_their_own(device: Accelerator) -> None:
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    inner = plain_step(model, optimizer, id)
    step: Step = accel.step(model, optimizer)(lambda images, labels, scale: (inner(images, labels)[0] * scale, scale))
    images, labels = torch.ones(6, 4), torch.zeros(6, dtype=torch.long)
    drive(device, lambda: step(images, labels, scale=2))
    before = device.replays
    assert step(images, labels, scale=3)[1] == 3
    assert step(images, labels, scale=2.0)[1] == 2.0
    step(torch.ones(4, 6).t(), labels, scale=2)
    assert device.replays == before


def test_what_a_step_has_read_stays_alive(device: Accelerator) -> None:
    """A graph reads from addresses: here of a tensor that nothing else keeps but a cache out of sight."""
    script = Script(device)
    held = torch.ones(3)

    def define(model: nn.Module, optimizer: Any, count: Any) -> Step:
        pick = [held].__getitem__

        def train_step(images: torch.Tensor, labels: torch.Tensor) -> Any:
            count(None)
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(images) * pick(0), labels)
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            return loss

        return train_step

    script.define = define
    assert script.train(80)[-1]
    assert held.data_ptr() in {each.data_ptr() for each in controller_of(script)._held}


def test_streams_wait_for_one_another(device: Accelerator) -> None:
    own = device.current_stream()
    script = Script(device)
    script.train(10)
    side = device.inside[0]
    assert side is not own
    assert side.waited_for == [own] * 3
    assert own.waited_for == [side] * 3
    assert device.current_stream() is own


def test_a_step_that_is_given_up_is_not_looked_at_any_more(device: Accelerator) -> None:
    script = Script(device)
    script.eager_seconds = 0.1
    script.train(200)
    assert controller_of(script).over


def test_nothing_is_captured_in_a_backward_pass_or_under_a_mode(
    device: Accelerator, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("in_backward", "is_traced", "is_intercepted"):
        with monkeypatch.context() as patch:
            patch.setattr(step_controller, name, lambda: True)
            Script(device).train(30)
    assert device.replays == 0


def test_grad_mode_and_autocast_of_the_caller(device: Accelerator) -> None:
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    step: Step = accel.step(model, optimizer)(plain_step(model, optimizer, id))
    batch = torch.ones(6, 4), torch.zeros(6, dtype=torch.long)
    drive(device, lambda: step(*batch))
    before = device.replays
    torch.set_autocast_enabled("cuda", True)
    try:
        step(*batch)
    finally:
        torch.set_autocast_enabled("cuda", False)
    assert device.replays == before


def test_the_generator_of_the_device_is_part_of_the_proof(device: Accelerator) -> None:
    """A replay that draws otherwise than the step differs, and what it drew is put back."""
    script = Script(device)
    states = [0]

    def state() -> torch.Tensor:
        return torch.tensor([states[0]], dtype=torch.uint8)

    def restore(state: torch.Tensor) -> None:
        states[0] = int(state)

    device.get_rng_state, device.set_rng_state = state, restore  # type: ignore[method-assign]
    replay = accelerator.DeviceGraph.replay

    def draws(graph: accelerator.DeviceGraph) -> None:
        states[0] += 1
        replay(graph)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(accelerator.DeviceGraph, "replay", draws)
        script.train(20)
    assert device.replays == 1
    assert states == [0]


def test_with_a_fused_kernel_that_the_runtime_has_chosen(device: Accelerator, monkeypatch: pytest.MonkeyPatch) -> None:
    """The runtime's own hooks on the optimizer are no hooks of the script's."""
    monkeypatch.setenv("AUTOACCEL_FUSED", "on")

    def make(parameters: Any, **settings: Any) -> torch.optim.Optimizer:
        return accel.optimizer(torch.optim.Adam(parameters, **settings))

    assert Script(device, make, lr=0.01).train(60)[-1]


def test_with_a_scheduler(device: Accelerator) -> None:
    """Each of its rates is captured anew."""
    script = Script(device)
    schedulers = [torch.optim.lr_scheduler.StepLR(each, 1, 0.5) for each in script.optimizers]

    def each(number: int, model: nn.Module, optimizer: Any) -> None:
        if number and number % 60 == 0:
            schedulers[script.optimizers.index(optimizer)].step()

    script.train(180, each)
    assert all(all(script.replayed[start + 50 : start + 60]) for start in (0, 60, 120))
    assert not any(script.replayed[60:64])


@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize(("scaled", "replays"), [("", True), ("on", False)])
def test_a_step_in_mixed_precision(
    device: Accelerator, monkeypatch: pytest.MonkeyPatch, scaled: str, replays: bool, inside: bool
) -> None:
    monkeypatch.setenv("AUTOACCEL_AMP_DTYPE", "float32")
    monkeypatch.setenv("AUTOACCEL_GRAD_SCALER", scaled)
    script = Script(device)

    def define(model: nn.Module, optimizer: Any, count: Any) -> Step:
        known = accel.grad_scaler(optimizer)

        def train_step(images: torch.Tensor, labels: torch.Tensor) -> Any:
            count(None)
            optimizer.zero_grad()
            with accel.autocast():
                loss = nn.functional.cross_entropy(model(images), labels)
            known.scale(loss).backward()
            known.step(optimizer)
            known.update()
            return loss

        def train_step_of_its_own(images: torch.Tensor, labels: torch.Tensor) -> Any:
            count(None)
            optimizer.zero_grad()
            with accel.autocast():
                loss = nn.functional.cross_entropy(model(images), labels)
            scaler = accel.grad_scaler(optimizer)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            return loss

        return train_step_of_its_own if inside else train_step

    script.define = define
    assert script.train(60)[-1] is replays


def test_an_optimizer_is_pickled_and_copied_without_graphs(device: Accelerator) -> None:
    script = Script(device)
    script.train(80)
    for other in (copy.deepcopy(script.optimizers[0]), pickle.loads(pickle.dumps(script.optimizers[0]))):
        assert not [name for name in vars(other) if "autoaccel" in name]
