"""`torch.compile` that a script can rely on: in place, where it pays, eager whenever compiling fails.

Whether it is possible is decided at the first call, by where the work is done; whether and when it pays, while it
runs (`compile_controller`). With `AUTOACCEL_COMPILE_MODE` the first call compiles at once.

A compiled module stays the very same object: type, `state_dict` keys, parameters and attributes are unchanged, and
copies and pickles of it are plain modules. `torch.compile(module)` wraps instead, which prefixes every key with
`_orig_mod.`, and `module.compile()` does nothing for containers such as `nn.Sequential` before torch 2.15 and lets
instances of one class share a code object, whose graphs ignore the hooks of the second instance.

A backward pass is compiled together with its forward pass (torch itself waits until it runs, where nobody could fall
back to eager any more); older torch cannot. What cannot be caught: a second derivative through a compiled module fails
in `backward` ("does not currently support double backward"). Scripts that need one must not compile the module.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import operator
import sys
import types
from collections.abc import Callable
from typing import Any, Final, TypeVar

import torch
from torch import nn

from .. import devices
from ..distributed.global_view import is_shared
from ..environment import Decision, disabled, note, setting
from ..execution_mode import is_distributed, is_traced
from ..in_place_call import TRAINING, InPlaceCall, is_plain, rank_of, stands_in
from ..replicas import is_replicated
from ..trial.on_or_off import untriable
from . import inductor_cache
from .compile_controller import CompileController
from .compile_support import verdict
from .compile_target import CompileTarget
from .eager_fallback import EagerFallback
from .step_timer import sample_parameters

_Target = TypeVar("_Target", bound=Callable[..., Any])

# Names that AUTOACCEL_COMPILE_MODE accepts besides torch's modes: backends that find errors, and make tests quick.
BACKENDS: Final[dict[str, Any]] = {"eager": "eager", "aot_eager": "aot_eager"}
_AT_ONCE: Final = "force_non_lazy_backward_lowering"  # torch's name for compiling the backward pass with the forward


def compile(target: _Target, *, steps: Any = None) -> _Target:  # noqa: A001 - scripts say accel.compile
    """Compile a module in place, or return a compiled version of a function; also usable as a decorator.

    Nothing happens until the first call; from then on the target is watched, and compiled when that pays. Where
    compiling is impossible or fails, the target runs eagerly from then on, with one warning.

    Args:
        target: A module, or a function. What is already compiled is left alone.
        steps: The number of optimizer steps of the whole run, if the script knows it: a hint, which may be wrong.

    Returns:
        The module itself, or a function in the place of `target`.
    """
    if disabled("compile"):
        note("compile", Decision(False, "AUTOACCEL_DISABLE"))
        return target
    if isinstance(target, nn.parallel.DistributedDataParallel):
        compile(target.module, steps=steps)  # the wrapper's own work, overlapping communication, is better left outside
        return target
    if isinstance(target, nn.Module):
        module = target.module if isinstance(target, nn.DataParallel) else target  # of which several devices get copies
        if is_shared(target):
            note(f"compile {type(module).__name__}", Decision(False, "ranks share its batches"))
        elif _compilable(module):
            _InPlace(module, _planned(steps)).install()
        return target
    return _compiled_function(target)


def _planned(steps: Any) -> int | None:
    """A number of steps as scripts give it; None for what is no positive number."""
    try:
        number = operator.index(steps)
    except (TypeError, ValueError, RuntimeError):
        return None
    return number if number > 0 else None


def _compilable(module: nn.Module) -> bool:
    wraps = hasattr(module, "_orig_mod")  # the result of torch.compile(module)
    scripted = isinstance(module, torch.jit.ScriptModule)
    return not wraps and not scripted and is_plain(module) and not stands_in(module, _InPlace)


def _torch_compile(function: Callable[..., Any]) -> Callable[..., Any]:
    """What `torch.compile` makes of a function, which keeps to what Python would have computed.

    NumPy's functions are not traced while it is called, for it compiles then; the program's own compiled code finds the
    setting as the program has set it.
    """
    # else NumPy's functions are traced as torch's, which draw from torch's random numbers and round otherwise
    dynamo: Any = importlib.import_module("torch._dynamo.config")
    # backward(retain_graph=True) needs what a compiled backward would otherwise overwrite, and torch refuses it where
    # one without came first. Once and for all: torch reads the setting again when backward runs.
    functorch: Any = importlib.import_module("torch._functorch.config")
    functorch.donated_buffer = False
    if hasattr(functorch, _AT_ONCE):  # once and for all too: around each call it takes longer than the rest of it
        setattr(functorch, _AT_ONCE, True)
    mode = setting("COMPILE_MODE").lower()
    if mode in BACKENDS:
        compiled = torch.compile(function, backend=BACKENDS[mode])
    else:
        inductor_cache.choose_folder()
        compiled = torch.compile(function, mode=None if mode in ("", "default", "inductor") else mode)

    def call(*args: Any, **kwargs: Any) -> Any:
        before, dynamo.trace_numpy = dynamo.trace_numpy, False
        try:
            return compiled(*args, **kwargs)
        finally:
            dynamo.trace_numpy = before

    return call


class _CallPolicy:
    """Calls a target compiled at once, where the user wants it so, or on its controller."""

    def __init__(
        self,
        attempt: Callable[[], EagerFallback],
        target: Callable[[torch.device, int], CompileTarget],
        place: Callable[..., torch.device | None],
    ) -> None:
        self.given_up = False
        self._attempt = attempt
        self._target = target
        self._place = place
        self._forced: EagerFallback | None = None
        self._home: torch.device | None = None  # known as soon as compiling is known to be possible
        self._controller: CompileController | None = None
        self._rank = -1
        self._asked = 0  # calls so far at which nothing could be said

    def call(self, rank: int, eager: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run the target; of the calls those of the highest rank that was ever seen may go compiled: evaluation and
        sampling run eagerly, unless the program does nothing else."""
        if self._home is None and self._asks():
            self._decide(args, kwargs)
        if self._forced is not None:
            result = self._forced.run(args, kwargs)
            self.given_up = self._forced.given_up
            return result
        if self._home is None or rank < self._rank:
            if self._controller is not None:
                self._controller.note_event(rank)
            return eager(*args, **kwargs)
        if rank > self._rank:
            self._rise(self._home, rank)
        assert self._controller is not None
        result = self._controller.call(args, kwargs)
        self.given_up = self._controller.over and rank == TRAINING
        return result

    def skip_measurement(self) -> bool:
        """Whether this call runs eagerly without further ado."""
        return self._controller is not None and self._controller.skip_measurement()

    def note_eager_call(self) -> None:
        """A call is made eagerly without asking."""
        if self._controller is not None:
            self._controller.note_eager_call()

    def _asks(self) -> bool:
        """Whether to look where the work is done now: at every call that would cost a model which stays on the CPU."""
        self._asked += 1
        return self._asked <= _ASKED or self._asked % _ASKED == 0

    def _decide(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        place = self._place(args, kwargs)
        decision = verdict(place)
        attempt = self._attempt()
        forced = bool(setting("COMPILE_MODE"))
        if decision.value and not forced and is_distributed():  # nothing is timed, for each would find another time
            forced = place is not None and place.type != "cpu"
            decision = Decision(forced, "all processes of a distributed run do the same")
        elif decision.value and not forced and (problem := untriable()):
            decision = Decision(False, problem)
        if not decision.value or forced:
            note(f"compile {attempt.name}", decision)
        self.given_up = decision.value is False
        if decision.value and forced:
            self.given_up = not attempt.prepare()
            self._forced = attempt
        if decision.value:
            self._home = place if place is not None else torch.device("cpu")

    def _rise(self, place: torch.device, rank: int) -> None:
        if self._controller is not None:
            self._controller.give_up()
        self._rank = rank
        self._controller = CompileController(self._target(place, rank), self._attempt())


_ASKED: Final = 64


class _InPlace(InPlaceCall):
    """What a module compiled in place keeps in its `_compiled_call_impl`."""

    def __init__(self, module: nn.Module, planned: int | None = None) -> None:
        super().__init__(module)
        self._planned = planned
        self._policy = _CallPolicy(self._attempt, self._target, self._place)
        self._hooks_known = -1
        self._hooked = False

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if torch.compiler.is_compiling():
            return self.eager(*args, **kwargs)
        if self.is_elsewhere() and (replica := self.replica(sys._getframe(1))) is not None:  # noqa: SLF001
            return replica._call_impl(*args, **kwargs)  # type: ignore[no-untyped-call]  # noqa: SLF001
        if self._policy.skip_measurement():
            return self.eager(*args, **kwargs)
        if is_traced() or self._has_hooks():
            self._policy.note_eager_call()
            return self.eager(*args, **kwargs)
        result = self._policy.call(rank_of(self.module.training), self.eager, args, kwargs)
        if self._policy.given_up:
            self.withdraw()
        return result

    def _place(self, *arguments: object) -> torch.device | None:  # noqa: ARG002 - of a function these would tell
        return _ready_home(self.module)

    def _attempt(self) -> EagerFallback:
        module = self.module
        return EagerFallback(type(module).__name__, self.eager, lambda: _torch_compile(_own_call(module)))

    def _target(self, place: torch.device, rank: int) -> CompileTarget:
        module = self.module
        trained = rank > 0
        return CompileTarget(
            name=type(module).__name__,
            place=place,
            gradients=trained,
            steps=sample_parameters(module) if trained else (),
            stateful=module.training and next(module.buffers(), None) is not None,
            leaves=sum(1 for inner in module.modules() if next(inner.children(), None) is None),
            planned=self._planned if trained else None,
            facts=self.facts(rank, place),
        )

    def _has_hooks(self) -> bool:
        """Whether hooks, or replicas of a part, stand in the way at this moment: graphs do not look for hooks again.

        Looking at all submodules at every call would cost; torch numbers the hooks that were ever registered, which
        tells cheaply whether there is anything new.
        """
        registered = torch.utils.hooks.RemovableHandle.next_id
        if self._hooked or registered != self._hooks_known:
            self._hooks_known = registered
            reason = "modules inside it have hooks" if hooked(self.module) else _replicating(self.module)
            self._hooked = bool(reason)
            if reason:
                note(f"compile {type(self.module).__name__}", Decision(False, reason))
        return self._hooked


def _replicating(module: nn.Module) -> str:
    """Why a module that may replicate a part of it is not compiled; empty for others."""
    if any(isinstance(inner, nn.DataParallel) or is_replicated(inner) for inner in module.modules()):
        return "DataParallel may replicate a part of it"
    return ""


def hooked(module: nn.Module) -> bool:
    """Whether hooks inside a module would be lost in a compiled graph.

    Hooks of the module itself are traced with it, but a pre-hook of it that replaces weights (the old `spectral_norm`
    and `weight_norm`) is not for a graph either.
    """
    global_hooks: Callable[[], bool] = nn.modules.module._has_any_global_hook  # noqa: SLF001
    if global_hooks():
        return True
    return bool(module._forward_pre_hooks) or any(  # noqa: SLF001
        inner._forward_hooks or inner._forward_pre_hooks or inner._backward_hooks or inner._backward_pre_hooks  # noqa: SLF001
        for inner in module.modules()
        if inner is not module
    )


def _ready_home(module: nn.Module) -> torch.device | None:
    """Where a module works; "meta" as long as lazy parameters wait for their first input."""
    if any(nn.parameter.is_lazy(parameter) for parameter in module.parameters()):
        return torch.device("meta")
    return devices.module_device(module)


def _own_call(module: nn.Module) -> Callable[..., Any]:
    """A call of the module with its own code object: dynamo keeps graphs per code object, not to be shared."""

    def call(*args: Any, **kwargs: Any) -> Any:
        return module._call_impl(*args, **kwargs)  # type: ignore[no-untyped-call]  # noqa: SLF001

    code = call.__code__.replace(co_name=f"call_{type(module).__name__}_{id(module)}")
    return types.FunctionType(code, call.__globals__, "call", None, call.__closure__)


def _compiled_function(function: _Target) -> _Target:
    already = hasattr(function, "_torchdynamo_orig_callable") or hasattr(function, "_autoaccel_policy")
    lazy = inspect.isgeneratorfunction(function) or inspect.iscoroutinefunction(function)
    if already or lazy or inspect.isclass(function) or isinstance(function, torch.jit.ScriptFunction):
        return function
    name = getattr(function, "__name__", type(function).__name__)

    def compile_target(place: torch.device, rank: int) -> CompileTarget:
        known = getattr(function, "__module__", ""), getattr(function, "__qualname__", name)
        facts = (*known, rank, devices.hardware_name(place))
        return CompileTarget(name=name, place=place, gradients=rank > 0, facts=facts)

    policy = _CallPolicy(
        lambda: EagerFallback(name, function, lambda: _torch_compile(function)),
        compile_target,
        lambda *arguments: devices.device_of(arguments),
    )

    @functools.wraps(function)
    def compiled(*args: Any, **kwargs: Any) -> Any:
        if torch.compiler.is_compiling() or policy.given_up or policy.skip_measurement() or is_traced():
            return function(*args, **kwargs)
        return policy.call(rank_of(training=True), function, args, kwargs)

    compiled._autoaccel_policy = policy  # type: ignore[attr-defined]  # noqa: SLF001
    return compiled  # type: ignore[return-value]
