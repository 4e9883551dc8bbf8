"""`torch.compile` that a script can rely on: in place, decided at the first call, eager whenever compiling fails.

A compiled module stays the very same object: type, `state_dict` keys, parameters and attributes are unchanged, and
copies and pickles of it are plain modules. `torch.compile(module)` wraps instead, which prefixes every key with
`_orig_mod.`, and `module.compile()` does nothing for containers such as `nn.Sequential` before torch 2.15 and lets
instances of one class share a code object, whose graphs ignore the hooks of the second instance.

What cannot be caught: a backward pass is compiled when it first runs, so a second derivative through a compiled
module fails in `backward` ("does not currently support double backward"). Scripts that need one must not compile the
module.
"""

from __future__ import annotations

import functools
import importlib.util
import inspect
import re
import types
from collections.abc import Callable
from typing import Any, Final, TypeVar

import torch
from torch import nn

from . import devices
from .environment import Decision, disabled, note, setting, warn_once

_Target = TypeVar("_Target", bound=Callable[..., Any])

# Names that AUTOACCEL_COMPILE_MODE accepts besides torch's modes: backends that find errors, and make tests quick.
_BACKENDS: Final = ("eager", "aot_eager", "inductor")
_OFF: Final = ("off", "none")


def compile(target: _Target, steps: Any = None) -> _Target:  # noqa: A001, ARG001 - scripts say accel.compile
    """Compile a module in place, or return a compiled version of a function; also usable as a decorator.

    Nothing happens until the first call, which decides by where the parameters (or the arguments) are. Where
    compiling is impossible or fails, the target runs eagerly from then on, with one warning. What is already compiled
    is left alone.
    """
    if disabled("compile"):
        note("compile", Decision(False, "AUTOACCEL_DISABLE"))
        return target
    if isinstance(target, nn.parallel.DistributedDataParallel):
        compile(target.module)  # the wrapper's own work, overlapping communication, is better left outside
        return target
    if isinstance(target, nn.Module):
        if _compilable(target):
            target._compiled_call_impl = _InPlace(target)  # noqa: SLF001
        return target
    return _compiled_function(target)


def _compilable(module: nn.Module) -> bool:
    wraps = hasattr(module, "_orig_mod")  # the result of torch.compile(module)
    unfit = (
        torch.jit.ScriptModule,
        nn.DataParallel,
    )  # replicas share the attribute, and with it the first replica's parameters
    return not wraps and module._compiled_call_impl is None and not isinstance(module, unfit)  # noqa: SLF001


def verdict(place: torch.device | None) -> Decision:
    """Whether compiling is possible and pays for work on a device: True, False, or None (not now, ask again)."""
    mode = setting("COMPILE_MODE").lower()
    if mode in _OFF:
        return Decision(False, "AUTOACCEL_COMPILE_MODE")
    if place is not None and place.type == "meta":
        return Decision(None, "no data yet")
    if mode:
        return Decision(True, "AUTOACCEL_COMPILE_MODE")
    if place is None or place.type not in ("cuda", "xpu"):
        where = "data" if place is None else place.type
        again = None if devices.accelerator() is not None else False  # it may move to the accelerator later
        return Decision(again, f"compiling does not pay for work on {where}" if place else "no tensor to judge by")
    if importlib.util.find_spec("triton") is None:
        warn_once(f"triton is not installed: nothing is compiled on {place.type}")
        return Decision(False, "triton is not installed")
    if place.type == "cuda" and torch.version.hip is None and devices.capability(place) < (7, 0):
        warn_once("compiling needs CUDA compute capability 7.0: nothing is compiled")
        return Decision(False, "compute capability below 7.0")
    return Decision(True, f"work on {place.type} profits")


def _torch_compile(function: Callable[..., Any]) -> Callable[..., Any]:
    if _torch_version() < (2, 13):
        # backward(retain_graph=True) needs what a compiled backward would otherwise overwrite
        functorch: Any = importlib.import_module("torch._functorch.config")
        functorch.donated_buffer = False
    # else NumPy's functions are traced as torch's, which draw from torch's random numbers and round otherwise
    dynamo: Any = importlib.import_module("torch._dynamo.config")
    dynamo.trace_numpy = False
    mode = setting("COMPILE_MODE").lower()
    if mode in _BACKENDS:
        return torch.compile(function, backend=_backend(mode))
    return torch.compile(function, mode=mode if mode not in ("", "default") else None)


def _backend(name: str) -> Any:
    return name


def _torch_version() -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", torch.__version__)[:2])


def _elsewhere_traced() -> bool:
    """Whether this call is traced or transformed: by a compiled caller, export, jit.trace, torch.func, anomaly mode."""
    if torch.compiler.is_compiling():
        return True
    return (
        torch._C._get_tracing_state() is not None  # noqa: SLF001
        or torch._C._functorch.peek_interpreter_stack() is not None  # noqa: SLF001
        or torch.is_anomaly_enabled()
    )


class _Attempt:
    """A callable that is compiled at its first fitting call, and falls back to eager for good when compiling fails."""

    def __init__(self, name: str, eager: Callable[..., Any], source: Callable[..., Any]) -> None:
        self.given_up = False
        self._name = name
        self._eager = eager
        self._source = source
        self._compiled: Callable[..., Any] | None = None
        self._proven = False

    def call(self, place: Callable[[], torch.device | None], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run the target; `place` tells where it works and is asked until a decision has been made."""
        if self._compiled is None and not self.given_up:
            self._decide(place())
        if self._compiled is None:
            return self._eager(*args, **kwargs)
        if not self._proven:
            return self._first(self._compiled, args, kwargs)
        try:
            return self._compiled(*args, **kwargs)
        except torch._dynamo.exc.TorchDynamoException as failure:  # noqa: SLF001 - compiling for another shape failed
            return self._give_up(failure, args, kwargs)

    def _decide(self, place: torch.device | None) -> None:
        decision = verdict(place)
        note(f"compile {self._name}", decision)
        self.given_up = decision.value is False
        if decision.value:
            try:
                self._compiled = _torch_compile(self._source)
            except (
                RuntimeError,
                ImportError,
            ) as failure:  # this Python is too new for this torch, or the mode is unknown
                self._warn(failure)

    def _first(self, compiled: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The first compiled call, where most of what can go wrong goes wrong: compilers, drivers, caches, the code.

        The errors have no common class. Whatever it is, eager execution starts from the same random state, and if the
        fault is the script's own it is raised again, without the compiler's frames around it.
        """
        random = _RandomState()
        try:
            result = compiled(*args, **kwargs)
        except Exception as failure:
            random.restore()
            return self._give_up(failure, args, kwargs)
        self._proven = True
        return result

    def _give_up(self, failure: Exception, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        self._compiled = None
        try:
            result = self._eager(*args, **kwargs)
        except Exception as own:
            raise own from None
        self._warn(failure)
        return result

    def _warn(self, failure: Exception) -> None:
        self.given_up = True
        lines = str(failure).strip().splitlines()
        reason = f"{type(failure).__name__}: {lines[0] if lines else ''}"
        note(f"compile {self._name}", Decision(False, reason))
        warn_once(f"{self._name} is not compiled and runs eagerly: {reason}")


class _RandomState:
    """The states of the default generators, as they were when this was made."""

    def __init__(self) -> None:
        self._cpu = torch.get_rng_state()
        # the fork-safe way to ask whether CUDA is in use: this must not initialise it
        self._cuda = torch.cuda.get_rng_state() if torch.cuda.is_initialized() else None  # type: ignore[no-untyped-call]

    def restore(self) -> None:
        torch.set_rng_state(self._cpu)
        if self._cuda is not None:
            torch.cuda.set_rng_state(self._cuda)


class _InPlace:
    """What a module compiled in place keeps in its `_compiled_call_impl`; copies and pickles turn it into None."""

    def __init__(self, module: nn.Module) -> None:
        self._module = module
        self._eager: Callable[..., Any] = module._call_impl  # noqa: SLF001
        self._attempt = _Attempt(type(module).__name__, self._eager, _own_call(module))
        self._hooks_known = -1
        self._hooked = False

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if _elsewhere_traced() or self._has_hooks():
            return self._eager(*args, **kwargs)
        result = self._attempt.call(lambda: _ready_home(self._module), args, kwargs)
        if self._attempt.given_up:
            self._module._compiled_call_impl = None  # noqa: SLF001 - from now on nothing of this is left
        return result

    def _has_hooks(self) -> bool:
        """Whether hooks stand in the way at this moment: graphs do not look for hooks again.

        Looking at all submodules at every call would cost; torch numbers the hooks that were ever registered, which
        tells cheaply whether there is anything new.
        """
        registered = torch.utils.hooks.RemovableHandle.next_id
        if self._hooked or registered != self._hooks_known:
            self._hooks_known = registered
            self._hooked = hooked(self._module)
            if self._hooked:
                note(f"compile {type(self._module).__name__}", Decision(False, "modules inside it have hooks"))
        return self._hooked

    def __reduce__(self) -> tuple[type[None], tuple[()]]:
        return type(None), ()


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
    return devices.home(module)


def _own_call(module: nn.Module) -> Callable[..., Any]:
    """A call of the module with its own code object: dynamo keeps graphs per code object, not to be shared."""

    def call(*args: Any, **kwargs: Any) -> Any:
        return module._call_impl(*args, **kwargs)  # type: ignore[no-untyped-call]  # noqa: SLF001

    code = call.__code__.replace(co_name=f"call_{type(module).__name__}_{id(module)}")
    return types.FunctionType(code, call.__globals__, "call", None, call.__closure__)


def _compiled_function(function: _Target) -> _Target:
    already = hasattr(function, "_torchdynamo_orig_callable") or hasattr(function, "_autoaccel_attempt")
    lazy = inspect.isgeneratorfunction(function) or inspect.iscoroutinefunction(function)
    if already or lazy or inspect.isclass(function) or isinstance(function, torch.jit.ScriptFunction):
        return function
    attempt = _Attempt(getattr(function, "__name__", type(function).__name__), function, function)

    @functools.wraps(function)
    def compiled(*args: Any, **kwargs: Any) -> Any:
        if attempt.given_up or _elsewhere_traced():
            return function(*args, **kwargs)
        return attempt.call(lambda: devices.device_of([args, kwargs]), args, kwargs)

    compiled._autoaccel_attempt = attempt  # type: ignore[attr-defined]  # noqa: SLF001
    return compiled  # type: ignore[return-value]
