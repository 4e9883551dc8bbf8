"""Compiling in place, lazily, and never at the price of a running script."""

from __future__ import annotations

import copy
import dataclasses
import importlib.util
import io
import pickle
import re
import subprocess
import sysconfig
import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from autoaccel import runtime as accel
from autoaccel.runtime import devices
from autoaccel.runtime.compile import (
    compile_controller,
    compile_cost,
    compile_support,
    compile_target,
    in_place_compile,
)
from autoaccel.runtime.environment import Decision
from autoaccel.runtime.trial.ab_trial import TrialState

pytestmark = pytest.mark.usefixtures("fresh_graphs")


class Graphs:
    """A backend that counts the graphs it is given and runs them as they are."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, graph: torch.fx.GraphModule, inputs: Any) -> Callable[..., Any]:
        self.count += 1
        return graph.forward


@pytest.fixture
def graphs(monkeypatch: pytest.MonkeyPatch) -> Graphs:
    counting = Graphs()
    monkeypatch.setenv("AUTOACCEL_COMPILE_MODE", "eager")
    monkeypatch.setattr(in_place_compile, "_torch_compile", lambda function: torch.compile(function, backend=counting))
    return counting


class Net(nn.Module):
    calls: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(4, 3)
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x: torch.Tensor, *, shift: float = 0.0) -> torch.Tensor:
        self.calls += 1
        return torch.relu(self.body(x)) + shift


MODULES: dict[str, Callable[[], nn.Module]] = {
    "own class": Net,
    "sequential": lambda: nn.Sequential(nn.Linear(4, 4), nn.ReLU()),
    "layer": lambda: nn.Linear(4, 4),
}


@pytest.mark.parametrize("make", MODULES.values(), ids=MODULES.keys())
def test_in_place(graphs: Graphs, make: Callable[[], nn.Module]) -> None:
    module = make()
    kind, keys, x = type(module), list(module.state_dict()), torch.randn(2, 4)
    want = module(x)
    assert accel.compile(module) is module
    assert torch.equal(module(x), want)
    assert graphs.count == 1
    assert type(module) is kind
    assert list(module.state_dict()) == keys
    module(x)
    assert graphs.count == 1


@pytest.mark.parametrize(
    "clone",
    [copy.deepcopy, lambda module: pickle.loads(pickle.dumps(module))],
    ids=["deepcopy", "pickle"],
)
@pytest.mark.parametrize("called", [False, True])
def test_copies_are_plain_and_have_their_own_parameters(
    graphs: Graphs, clone: Callable[[Any], Any], called: bool
) -> None:
    module = accel.compile(Net())
    if called:
        module(torch.ones(1, 4))
    twin = clone(module)
    assert twin._compiled_call_impl is None
    assert copy.copy(module)._compiled_call_impl is None
    before = module(torch.ones(1, 4))
    with torch.no_grad():
        twin.body = nn.Linear(4, 3)
    assert torch.equal(module(torch.ones(1, 4)), before)
    twin(torch.ones(1, 4))


def test_replicas_of_data_parallel_have_their_own_parameters(graphs: Graphs) -> None:
    """It copies all attributes of a module, and calls each copy in a thread."""
    module = accel.compile(Net())
    x = torch.randn(2, 4)
    want = module(x)
    replicate: Any = module._replicate_for_data_parallel
    replica = replicate()
    replica.body = nn.Linear(4, 3)
    found: list[torch.Tensor] = []
    threads = [threading.Thread(target=lambda m=m: found.append(m(x))) for m in (replica, module)]
    for thread in threads:
        thread.start()
        thread.join()
    assert torch.equal(found[0], torch.relu(replica.body(x)))
    assert torch.equal(found[1], want)


def test_what_data_parallel_wraps_is_compiled(graphs: Graphs) -> None:
    """Without several devices it calls the module itself."""
    wrapped = nn.DataParallel(Net())
    keys, x = list(wrapped.state_dict()), torch.randn(2, 4)
    want = wrapped(x)
    assert accel.compile(wrapped) is wrapped
    assert torch.equal(wrapped(x), want)
    assert graphs.count == 1
    assert list(wrapped.state_dict()) == keys


def test_models_that_data_parallel_is_a_part_of_are_not_compiled(graphs: Graphs) -> None:
    model: Any = accel.compile(nn.Sequential(Net(), nn.ReLU()))
    model[0] = nn.DataParallel(model[0])  # after it was handed over
    model(torch.randn(2, 4))
    assert not graphs.count


class Branching(nn.Module):
    several = False

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(4, 3)

    def forward(self, x: torch.Tensor) -> Any:
        if self.several:
            return nn.parallel.data_parallel(self.body, x, [0, 1])
        return self.body(x)


@pytest.mark.parametrize("devices_here", [1, 2])
def test_models_that_may_replicate_themselves_are_compiled_on_one_device_alone(
    graphs: Graphs, monkeypatch: pytest.MonkeyPatch, devices_here: int
) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: devices_here)
    model = accel.compile(Branching())
    model(torch.randn(2, 4))
    assert graphs.count == (devices_here == 1)


def test_a_backward_pass_that_cannot_be_compiled_is_eager(monkeypatch: pytest.MonkeyPatch, fresh_graphs: None) -> None:
    """As where a card has too little shared memory for a kernel of it: by then the forward pass is over."""
    if not hasattr(importlib.import_module("torch._functorch.config"), "force_non_lazy_backward_lowering"):
        pytest.skip("this torch compiles backward passes when they run")
    aot = importlib.import_module("torch._dynamo.backends.common").aot_autograd

    def refused(graph: Any, inputs: Any) -> Any:
        raise RuntimeError("out of resource: shared memory")

    backend = aot(fw_compiler=lambda graph, inputs: graph.forward, bw_compiler=refused)
    monkeypatch.setenv("AUTOACCEL_COMPILE_MODE", "aot_eager")
    monkeypatch.setitem(in_place_compile.BACKENDS, "aot_eager", backend)
    module = accel.compile(Net())
    with pytest.warns(RuntimeWarning, match="out of resource"):
        loss = module(torch.randn(2, 4)).sum()
    loss.backward()
    assert module.body.weight.grad is not None
    assert module._compiled_call_impl is None


class KeepsEverything(Net):
    """A module that pickles its whole dictionary, as some do."""

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__.copy()


def test_copies_of_modules_with_their_own_state(graphs: Graphs) -> None:
    module = accel.compile(KeepsEverything())
    module(torch.ones(1, 4))
    assert copy.deepcopy(module)._compiled_call_impl is None
    assert pickle.loads(pickle.dumps(module))._compiled_call_impl is None


def test_saving_and_loading(graphs: Graphs) -> None:
    module = accel.compile(Net())
    module(torch.ones(1, 4))
    file = io.BytesIO()
    torch.save(module.state_dict(), file)
    file.seek(0)
    plain = Net()
    plain.load_state_dict(torch.load(file))
    module.load_state_dict(plain.state_dict())
    assert torch.equal(module(torch.ones(1, 4)), plain(torch.ones(1, 4)))


def test_training_through_it(graphs: Graphs) -> None:
    def train(compiled: bool) -> list[float]:
        torch.manual_seed(0)
        module = Net()
        optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
        if compiled:
            accel.compile(module)
        losses = []
        for _ in range(4):
            loss = module(torch.ones(2, 4), shift=1.0).square().sum()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return [*losses, float(module.calls)]

    assert train(True) == train(False)
    assert graphs.count == 1


def test_every_instance_has_its_own_graphs_and_hooks(graphs: Graphs) -> None:
    first, second = accel.compile(Net()), accel.compile(Net())
    seen: list[str] = []
    second.register_forward_hook(lambda *_: seen.append("top"))
    first(torch.ones(1, 4))
    second(torch.ones(1, 4))
    assert seen == ["top"]
    assert graphs.count == 2


@pytest.mark.parametrize("when", ["before", "after"])
def test_hooks_inside_always_fire(graphs: Graphs, when: str) -> None:
    module = accel.compile(Net())
    if when == "after":
        module(torch.ones(1, 4))
    seen: list[str] = []
    handle = module.body.register_forward_hook(lambda *_: seen.append("inner"))
    module(torch.ones(1, 4))
    module(torch.ones(1, 4))
    assert seen == ["inner", "inner"]
    handle.remove()
    module(torch.ones(1, 4))
    assert len(seen) == 2
    assert graphs.count == 1


@pytest.mark.filterwarnings("ignore:.*spectral_norm.*:FutureWarning")
def test_old_spectral_norm_runs_eagerly(graphs: Graphs) -> None:
    inner = accel.compile(nn.Sequential(nn.utils.spectral_norm(nn.Linear(4, 4))))
    whole = accel.compile(nn.utils.spectral_norm(nn.Linear(4, 4)))
    inner(torch.ones(1, 4))
    whole(torch.ones(1, 4))
    assert graphs.count == 0


def test_inside_a_compiled_module_there_is_one_graph(graphs: Graphs) -> None:
    outer = accel.compile(nn.Sequential(accel.compile(Net()), nn.ReLU()))
    outer(torch.ones(1, 4))
    assert graphs.count == 1


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore:Anomaly Detection")
def test_others_who_trace_see_the_plain_module(graphs: Graphs) -> None:
    module = accel.compile(nn.Sequential(nn.Linear(4, 4)))
    torch.jit.trace(module, torch.ones(1, 4), check_trace=False)  # type: ignore[no-untyped-call]
    torch.export.export(module, (torch.ones(1, 4),))
    torch.func.vmap(module)(torch.ones(3, 4))
    with torch.autograd.detect_anomaly(check_nan=False):
        module(torch.ones(1, 4))
    assert graphs.count == 0


def test_lazy_modules_wait_for_their_first_input(graphs: Graphs) -> None:
    module = accel.compile(nn.Sequential(nn.LazyLinear(3)))
    module(torch.ones(1, 4))
    assert graphs.count == 0
    module(torch.ones(1, 4))
    assert graphs.count == 1


# ---------------------------------------------------------------- deciding


def test_without_a_cpp_compiler_nothing_is_left_behind_on_a_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    if torch.accelerator.is_available():
        pytest.skip("needs a machine without accelerator")
    monkeypatch.setenv("CXX", "no-such-compiler")
    module = accel.compile(Net())
    module(torch.ones(1, 4))
    assert module._compiled_call_impl is None
    assert float(accel.compile(torch.neg)(torch.ones(()))) == -1.0


def test_possible_is_not_now(on_this_cpu: list[str]) -> None:
    """Where compiling is possible the first calls are eager all the same: steps are timed."""
    module, x = Net(), torch.ones(2, 4)
    want = module(x)
    accel.compile(module, steps=10**6)
    assert torch.equal(module(x), want)
    assert module._compiled_call_impl is not None
    assert on_this_cpu == []
    assert pickle.loads(pickle.dumps(module))._compiled_call_impl is None


@pytest.fixture
def on_this_cpu(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A CPU that can be compiled for, by a compiler that only tells of it; what was compiled is returned."""
    compiled: list[str] = []

    def fake(function: Callable[..., Any]) -> Callable[..., Any]:
        compiled.append(function.__code__.co_name.partition("_")[0])
        return function

    monkeypatch.setattr(in_place_compile, "verdict", lambda place: Decision(True, "as soon as it pays"))
    monkeypatch.setattr(in_place_compile, "_torch_compile", fake)
    monkeypatch.setattr(compile_controller, "graphs_captured", lambda: None)
    monkeypatch.setattr(
        compile_controller, "_budget", compile_target.SharedBudget()
    )  # whose turn it is, after other tests
    return compiled


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compiling costs nothing and pays at once."""
    monkeypatch.setattr(compile_controller, "_SOONEST", 0.0)
    monkeypatch.setattr(compile_cost, "worth", lambda run, cost, prior: compile_cost.CostDecision(True, "it pays"))


def trained(module: nn.Module, steps: int) -> nn.Module:
    optimizer = torch.optim.SGD(module.parameters(), lr=0.01)
    for _ in range(steps):
        optimizer.zero_grad()
        module(torch.ones(2, 4)).square().sum().backward()
        optimizer.step()
    return module


def test_what_pays_is_compiled_in_the_midst_of_training(
    on_this_cpu: list[str], soon: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    monkeypatch.setattr(compile_controller, "note", lambda topic, decision: told.append(decision.reason))
    torch.manual_seed(0)
    plain = Net()
    module = accel.compile(copy.deepcopy(plain))
    trained(module, 60)
    assert on_this_cpu == ["call"]
    assert module._compiled_call_impl is not None or "reverted" in told[-1]
    trained(plain, 60)
    assert all(
        torch.equal(a, b) for a, b in zip(module.state_dict().values(), plain.state_dict().values(), strict=True)
    )


@pytest.mark.parametrize(("place", "compiled"), [("cuda", ["call"]), ("cpu", [])])
def test_processes_that_train_together_do_the_same(
    on_this_cpu: list[str], monkeypatch: pytest.MonkeyPatch, place: str, compiled: list[str]
) -> None:
    """While one of them compiles the others wait: all at the first call, or none."""
    monkeypatch.setenv("WORLD_SIZE", "4")
    monkeypatch.setattr(in_place_compile, "_ready_home", lambda module: torch.device(place))
    module = accel.compile(Net())
    module(torch.ones(2, 4))
    assert on_this_cpu == compiled
    assert (module._compiled_call_impl is not None) is bool(compiled)


def test_where_cudnn_has_to_repeat_itself_nothing_is_timed(
    on_this_cpu: list[str], soon: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.backends.cudnn, "deterministic", True)
    module = accel.compile(Net())
    trained(module, 60)
    assert on_this_cpu == []
    assert module._compiled_call_impl is None


def test_evaluation_is_not_compiled_unless_there_is_nothing_else(on_this_cpu: list[str], soon: None) -> None:
    module = accel.compile(Net())
    trained(module, 1)
    with torch.no_grad():
        for _ in range(100):
            module(torch.ones(2, 4))
    module.eval()
    for _ in range(100):
        module(torch.ones(2, 4))
    assert on_this_cpu == []
    only = accel.compile(Net())
    with torch.no_grad():
        for _ in range(100):
            only(torch.ones(2, 4))
    assert on_this_cpu == ["call"]


def test_graphs_of_others_do_not_depend_on_the_course_of_a_run(on_this_cpu: list[str]) -> None:
    counting = Graphs()
    inner, function = accel.compile(Net()), accel.compile(torch.neg)
    outer = nn.Sequential(inner, nn.ReLU())
    whole = torch.compile(lambda x: function(outer(x)), backend=counting)
    for _ in range(60):  # some are watched, some are not
        inner(torch.ones(2, 4))
        function(torch.ones(2, 4))
        whole(torch.ones(2, 4))
    assert counting.count == 1


class Turns:
    """A trial without a clock: both ways by turns, and then what was agreed on."""

    def __init__(self, outcome: TrialState) -> None:
        self.state, self.outcome = TrialState.UNDECIDED, outcome
        self.ratio, self.measured, self.why, self._laps = 1.5, 10, "agreed", 0

    @property
    def decided(self) -> bool:
        return self.state is not TrialState.UNDECIDED

    def next_iteration(self) -> bool:
        self._laps += 1
        if self._laps > 14:
            self.state = self.outcome
            return self.state is TrialState.ADOPTED
        return self._laps % 3 == 0

    def discard_iteration(self) -> None: ...

    def note_event(self, what: object) -> None: ...


@pytest.mark.parametrize("outcome", [TrialState.ADOPTED, TrialState.REJECTED])
def test_a_gan_trains_the_same_through_every_stage(
    soon: None, monkeypatch: pytest.MonkeyPatch, outcome: TrialState
) -> None:
    """Traced for real, with statistics that compiled code writes; joint backward passes, short batches, evaluations."""
    told: list[str] = []
    monkeypatch.setattr(compile_controller, "note", lambda topic, decision: told.append(f"{topic}: {decision.value}"))
    monkeypatch.setattr(compile_controller, "ABTrial", lambda clock, terms: Turns(outcome))
    monkeypatch.setattr(compile_controller, "_FEWEST", 6)
    monkeypatch.setattr(compile_controller, "_budget", compile_target.SharedBudget())
    monkeypatch.setattr(in_place_compile, "verdict", lambda place: Decision(True, "as soon as it pays"))
    monkeypatch.setattr(
        in_place_compile, "_torch_compile", lambda function: torch.compile(function, backend="aot_eager")
    )

    def train(prepare: Callable[[nn.Module], nn.Module]) -> list[float]:
        torch.manual_seed(0)
        generator = prepare(nn.Sequential(nn.Linear(2, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 3)))
        critic = prepare(nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 1)))
        g_steps = torch.optim.SGD(generator.parameters(), lr=0.05)
        d_steps = torch.optim.AdamW(critic.parameters(), lr=0.01, fused=True)
        losses = []
        for step in range(90):
            size = 3 if step % 9 == 8 else 5
            real, noise = torch.randn(size, 3), torch.randn(size, 2)
            g_steps.zero_grad()
            fake = generator(noise)
            (-critic(fake).mean()).backward()
            g_steps.step()
            d_steps.zero_grad()
            loss = critic(fake.detach()).mean() - critic(real).mean()  # one backward pass for both
            loss.backward()
            d_steps.step()
            losses.append(loss.item())
            if step % 10 == 0:
                critic.eval()
                with torch.no_grad():
                    losses.append(critic(generator(noise)).mean().item())
                critic.train()
        return losses

    assert train(accel.compile) == pytest.approx(train(lambda module: module), rel=1e-4, abs=1e-6)
    assert told.count("compile Sequential: trying") == 2
    assert told.count(f"compile Sequential: {outcome is TrialState.ADOPTED}") == 2


def test_training_in_evaluation_mode_counts(on_this_cpu: list[str], soon: None) -> None:
    """As scripts do that tune a pretrained model with its statistics frozen."""
    trained(accel.compile(Net().eval()), 30)
    assert on_this_cpu == ["call"]


def test_a_check_before_training_does_not_count_for_it(on_this_cpu: list[str], soon: None) -> None:
    module = accel.compile(Net())
    with torch.no_grad():
        for _ in range(10):
            module(torch.ones(2, 4))
    trained(module, 30)
    assert on_this_cpu == ["call"]


def test_a_reverted_module_has_nothing_left_of_it(
    on_this_cpu: list[str], soon: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compile_controller, "POLICY", dataclasses.replace(compile_controller.POLICY, gain=1e6))
    module = Net()
    before = set(vars(module))
    accel.compile(module)
    trained(module, 200)
    assert on_this_cpu == ["call"]
    assert module._compiled_call_impl is None
    assert set(vars(module)) - {"_compiled_call_impl"} == before - {"_compiled_call_impl"}


def test_a_function_is_compiled_when_it_pays(on_this_cpu: list[str], soon: None) -> None:
    @accel.compile
    def twice(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    for _ in range(30):
        assert torch.equal(twice(torch.ones(2)), torch.full((2,), 2.0))
    assert on_this_cpu == ["twice"]


@pytest.mark.parametrize("steps", [None, 0, -3, "many", 2.5, torch.tensor([1, 2]), float("nan")])
def test_any_number_of_steps_is_harmless(on_this_cpu: list[str], steps: Any) -> None:
    module = accel.compile(Net(), steps=steps)
    trained(module, 3)
    assert on_this_cpu == []


def test_the_cpp_compiler_is_looked_for_and_not_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(subprocess, "Popen", None)
    compiler = tmp_path / "my-c++"
    compiler.write_text("")
    compiler.chmod(0o755)
    monkeypatch.setattr(devices, "accelerator", lambda: None)
    monkeypatch.setenv("CXX", str(compiler))
    headers = {"include": str(tmp_path)}
    monkeypatch.setattr(sysconfig, "get_paths", lambda: headers)
    assert compile_support.verdict(torch.device("cpu")) == Decision(False, "no C++ compiler")
    (tmp_path / "Python.h").write_text("")
    assert compile_support.verdict(torch.device("cpu")).value is True
    compiler.unlink()
    assert compile_support.verdict(torch.device("cpu")).value is False


def test_beside_an_accelerator_the_cpu_is_not_compiled_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "accelerator", lambda: torch.device("cuda"))
    assert compile_support.verdict(torch.device("cpu")).value is None


def test_a_module_that_may_still_move_is_asked_again(graphs: Graphs, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = [Decision(None, "on the CPU, beside an accelerator"), Decision(True, "moved")]
    monkeypatch.setattr(in_place_compile, "verdict", lambda place: answers.pop(0))
    module = accel.compile(Net())
    module(torch.ones(1, 4))
    assert graphs.count == 0
    module(torch.ones(1, 4))
    assert graphs.count == 1


def test_a_module_that_does_not_move_is_asked_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[torch.device | None] = []

    def verdict(place: torch.device | None) -> Decision:
        asked.append(place)
        return Decision(None, "on the CPU, beside an accelerator")

    monkeypatch.setattr(in_place_compile, "verdict", verdict)
    module = accel.compile(Net())
    for _ in range(64 * 10):
        module(torch.ones(1, 4))
    assert len(asked) == 64 + 9


@pytest.mark.parametrize(
    ("triton", "capability", "expected"), [(False, (9, 0), False), (True, (6, 1), False), (True, (7, 0), True)]
)
def test_what_cuda_needs(
    monkeypatch: pytest.MonkeyPatch, triton: bool, capability: tuple[int, int], expected: bool
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object() if triton else None)
    monkeypatch.setattr(devices, "capability", lambda place: capability)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(3):
            assert compile_support.verdict(torch.device("cuda")).value is expected
    assert len(caught) == (0 if expected else 1)


@pytest.mark.parametrize("mode", ["off", "none"])
def test_the_mode_can_forbid_it(monkeypatch: pytest.MonkeyPatch, mode: str) -> None:
    monkeypatch.setenv("AUTOACCEL_COMPILE_MODE", mode)
    assert compile_support.verdict(torch.device("cuda")).value is False


@pytest.mark.parametrize("value", ["compile", "all"])
def test_disabled(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("AUTOACCEL_COMPILE_MODE", "eager")
    monkeypatch.setenv("AUTOACCEL_DISABLE", value)
    module = accel.compile(Net())
    assert "_compiled_call_impl" not in vars(module)
    assert accel.compile(len) is len


def test_what_is_compiled_already_is_left_alone(graphs: Graphs) -> None:
    wrapped = torch.compile(Net(), backend="eager")
    assert accel.compile(wrapped) is wrapped
    assert wrapped._orig_mod._compiled_call_impl is None  # type: ignore[attr-defined]
    native = Net()
    native.compile(backend="eager")
    kept = native._compiled_call_impl
    assert accel.compile(native)._compiled_call_impl is kept
    twice = accel.compile(Net())
    kept = twice._compiled_call_impl
    assert accel.compile(twice)._compiled_call_impl is kept
    function = torch.compile(torch.sin, backend="eager")
    assert accel.compile(function) is function
    own = accel.compile(lambda x: x)
    assert accel.compile(own) is own


# ---------------------------------------------------------------- falling back


def failing(graph: torch.fx.GraphModule, inputs: Any) -> Callable[..., Any]:
    raise RuntimeError("no C++ compiler here")


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTOACCEL_COMPILE_MODE", "eager")
    monkeypatch.setattr(in_place_compile, "_torch_compile", lambda function: torch.compile(function, backend=failing))


class Drops(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.dropout(x)


def test_a_failing_compiler_means_eager_with_one_warning(broken: None) -> None:
    torch.manual_seed(0)
    want = [Drops()(torch.ones(8)) for _ in range(2)]
    torch.manual_seed(0)
    module = accel.compile(Drops())
    with pytest.warns(RuntimeWarning, match="runs eagerly.*no C\\+\\+ compiler|Drops is not compiled") as caught:
        got = [module(torch.ones(8)) for _ in range(2)]
    assert len(caught) == 1
    assert all(torch.equal(a, b) for a, b in zip(got, want, strict=True))  # the random stream too
    assert module._compiled_call_impl is None


def test_a_failure_is_a_decision(
    broken: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("AUTOACCEL_LOG", "info")
    with pytest.warns(RuntimeWarning, match="runs eagerly"):
        accel.compile(Drops())(torch.ones(8))
    first, second = capsys.readouterr().err.splitlines()
    assert first == "autoaccel: compile Drops: on (AUTOACCEL_COMPILE_MODE)"
    assert re.fullmatch(r"autoaccel: compile Drops: off \(\w+: .*\)", second)


class Noisy(nn.Module):
    """Dynamo would draw from torch's random numbers instead, and take the mean as torch does."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scale = float(x.numpy().mean())
        return x * torch.from_numpy(np.random.rand(len(x))).float() * scale


def test_numpy_stays_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTOACCEL_COMPILE_MODE", "eager")

    def run(module: nn.Module) -> tuple[list[float], float]:
        np.random.seed(0)
        torch.manual_seed(0)
        return [module(torch.rand(1000)).sum().item() for _ in range(2)], np.random.rand() + torch.rand(()).item()

    want, module = run(Noisy()), accel.compile(Noisy())
    assert run(module) == want
    assert module._compiled_call_impl is not None


def test_settings_of_the_program_stay_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether it is called, compiled or fails; and what is compiled is not compiled again because of them."""
    monkeypatch.setenv("AUTOACCEL_COMPILE_MODE", "eager")
    config: Any = importlib.import_module("torch._dynamo.config")
    seen: list[bool] = []

    def backend(graph: torch.fx.GraphModule, inputs: Any) -> Callable[..., Any]:
        seen.append(config.trace_numpy)
        return graph.forward

    monkeypatch.setitem(in_place_compile.BACKENDS, "eager", backend)
    module = accel.compile(nn.Linear(2, 2))
    for value in (True, False, True):
        with config.patch(trace_numpy=value):
            module(torch.ones(1, 2))
            assert config.trace_numpy is value
            with pytest.raises(RuntimeError):
                module(torch.ones(1, 3))
            assert config.trace_numpy is value
    assert seen == [False]


def test_a_later_failure_falls_back_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def once(graph: torch.fx.GraphModule, inputs: Any) -> Callable[..., Any]:
        calls.append(1)
        if len(calls) > 1:
            raise RuntimeError("the second graph fails")
        return graph.forward

    monkeypatch.setenv("AUTOACCEL_COMPILE_MODE", "eager")
    monkeypatch.setattr(in_place_compile, "_torch_compile", lambda function: torch.compile(function, backend=once))
    module = accel.compile(Net())
    module(torch.ones(2, 4))
    with pytest.warns(RuntimeWarning, match="not compiled"):
        module(torch.ones(2, 4, dtype=torch.float32).expand(3, 2, 4))
    module(torch.ones(2, 4))
    assert module._compiled_call_impl is None


def test_an_unknown_mode_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTOACCEL_COMPILE_MODE", "warp-speed")
    module = accel.compile(Net())
    with pytest.warns(RuntimeWarning, match="warp-speed"):
        module(torch.ones(1, 4))


def test_the_scripts_own_error_comes_through_as_it_is(graphs: Graphs) -> None:
    class OwnError(Exception):
        pass

    class Raises(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            raise OwnError("mine")

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(OwnError, match="mine"):
            accel.compile(Raises())(torch.ones(1))
        with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
            accel.compile(Net())(torch.ones(1, 5))


# ---------------------------------------------------------------- functions


def test_a_function_and_a_decorated_method(graphs: Graphs) -> None:
    @accel.compile
    def twice(x: torch.Tensor) -> torch.Tensor:
        """Doubles."""
        return x * 2

    class Agent:
        @accel.compile
        def act(self, x: torch.Tensor) -> torch.Tensor:
            return x + 1

    assert torch.equal(twice(torch.ones(2)), torch.full((2,), 2.0))
    assert torch.equal(Agent().act(torch.ones(2)), torch.full((2,), 2.0))
    assert graphs.count == 2
    assert twice.__name__ == "twice"
    assert twice.__doc__ == "Doubles."


def test_a_function_falls_back(broken: None) -> None:
    def double(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    function = accel.compile(double)
    with pytest.warns(RuntimeWarning, match="not compiled"):
        assert float(function(torch.ones(()))) == 2.0
    assert float(function(torch.ones(()))) == 2.0


def test_a_function_on_the_cpu_runs_as_it_is() -> None:
    calls = []

    @accel.compile
    def function(x: torch.Tensor) -> torch.Tensor:
        calls.append(x)
        return x

    x = torch.ones(2)
    assert function(x) is x
    assert calls[0] is x


def test_generators_and_classes_stay_what_they_are(graphs: Graphs) -> None:
    def generate() -> Iterator[int]:
        yield 1

    assert accel.compile(generate) is generate
    assert accel.compile(Net) is Net


@pytest.mark.slow
def test_the_real_compiler_on_a_cpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("AUTOACCEL_COMPILE_MODE", "default")
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    # Which vector instructions there are is found out by compiling a program for each.
    monkeypatch.setattr(importlib.import_module("torch._inductor.config").cpp, "vec_isa_ok", False)
    x = torch.randn(2, 4)
    plain = Net()
    module = accel.compile(copy.deepcopy(plain))
    assert torch.allclose(module(x), plain(x), atol=1e-6)
    module(x).sum().backward()
    assert module.body.weight.grad is not None


def test_a_graph_can_go_backward_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTOACCEL_COMPILE_MODE", "aot_eager")
    monkeypatch.setattr(importlib.import_module("torch._functorch.config"), "donated_buffer", True)
    x = torch.randn(2, 4)
    plain = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    module = accel.compile(copy.deepcopy(plain))
    module.eval()
    module(x)
    for each in (module, plain):
        each.train()
        out = each(x)
        out.sum().backward(retain_graph=True)
        out.pow(2).sum().backward()
    ours, theirs = ([each.grad for each in net.parameters()] for net in (module, plain))
    torch.testing.assert_close(ours, theirs, rtol=0, atol=0)
