"""Mixed precision: which low precision a device profits from, the autocast region, and the gradient scaler.

bfloat16 where the hardware computes in it (CUDA compute capability 8.0 and up, XPU, CPUs with AVX512-BF16 or AMX),
float16 with a scaler on CUDA 7.x, nothing elsewhere: older CUDA devices have no units for either and emulate bfloat16
slowly, although `torch.cuda.is_bf16_supported()` says yes there. bfloat16 is only a candidate, tried against float32
over the script's own steps (`gating`); float16, with its scaler, is not tried, and a precision that
`AUTOACCEL_AMP_DTYPE` asks for is taken at once.

`AUTOACCEL_GRAD_SCALER=on` makes the scaler scale whatever the precision is. Its factors are powers of two, so float32
gradients come out bit-equal: with `AUTOACCEL_AMP_DTYPE=float32` a script shows on any machine whether it scales,
unscales and steps rightly.
"""

from __future__ import annotations

import contextlib
import functools
import sys
import warnings
import weakref
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import torch
from torch.amp.grad_scaler import OptState

from .. import devices
from ..environment import Decision, disabled, note, setting, warn_once
from ..loading import glibc_malloc
from . import lstm_fallback
from .autocast_controller import Gate

_DTYPES: Final[Mapping[str, torch.dtype | None]] = {
    "bf16": torch.bfloat16,
    "bfloat16": torch.bfloat16,
    "fp16": torch.float16,
    "float16": torch.float16,
    "half": torch.float16,
    "off": None,
    "none": None,
    "fp32": None,
    "float32": None,
}


def autocast(device: devices.Device = None, *, fp16: bool = True) -> contextlib.AbstractContextManager[object]:
    """A region in which forward passes compute in the low precision that suits `device`.

    With `fp16=False` that is never float16, whose range ends at 65504: for masks of -1e9 and sums of many squares.
    Where mixed precision is off the result is an empty context manager, not a disabled autocast, so a region that the
    script opened itself stays in force.
    """
    place = devices.resolve(device)
    if torch.compiler.is_compiling():
        dtype = _dtype(place)
    else:
        candidate, gate = _candidate(place, setting("DISABLE"), setting("AMP_DTYPE"))
        dtype = _noted(place, candidate) if gate is None else gate.dtype(sys._getframe(1))  # noqa: SLF001
    if dtype is None or (dtype is torch.float16 and not fp16):
        return contextlib.nullcontext()
    if dtype is torch.float32:
        return _Lifted(place.type)
    return torch.autocast(place.type, dtype=dtype)  # the type alone: with an index torch skips its own checks


@functools.lru_cache(maxsize=64)
def _candidate(place: torch.device, disable: str, wish: str) -> tuple[Decision, Gate | None]:  # noqa: ARG001 - a key
    """The precision for a device under these settings, and who tries it if it is to be tried."""
    glibc_malloc.keep(place.type)
    decision = _prepared(place)
    tried = decision.value is torch.bfloat16 and wish.lower() not in (*_DTYPES, "hardware")
    return decision, _gate(place, decision) if tried else None


def settled() -> bool:
    """Whether no low precision is being tried: regions stay as they are, as far as can be told now."""
    return all(gate.settled() for gate in _gates.values())


def _noted(device: torch.device, decision: Decision) -> torch.dtype | None:
    note(f"amp on {device.type}", decision)
    dtype: torch.dtype | None = decision.value
    return dtype


def _dtype(device: torch.device) -> torch.dtype | None:
    return _noted(device, _prepared(device))


def _prepared(device: torch.device) -> Decision:
    """The precision for a device, once it is made sure that regions can be in it."""
    decision = precision(device)
    if device.type == "cpu" and decision.value is not None:
        lstm_fallback.prepare(decision.value)
    return decision


# torch.compile evaluates a function marked so while it traces and keeps the result: an autocast region inside
# compiled code then costs no graph break, and is not tried. (torch.compiler.assume_constant_result sets the same mark,
# but importing it takes seconds.)
_dtype._dynamo_marked_constant = True  # type: ignore[attr-defined]  # noqa: SLF001


_gates: Final[dict[str, Gate]] = {}


def _gate(device: torch.device, candidate: Decision) -> Gate:
    gate = _gates.get(device.type)
    if gate is None:
        gate = _gates[device.type] = Gate(device, candidate)
    return gate


@functools.cache
def _expect_checkpoints() -> None:
    """What is computed again in the backward pass is so without a region on a CPU: right, with a warning too many."""
    warnings.filterwarnings("ignore", "In [A-Z]+ autocast, but the target dtype is not supported", UserWarning)


class _Lifted:
    """A region that lifts what is low to float32: autocast with float32 as its low precision.

    `torch.autocast` itself refuses this precision on a CPU. A region that is open already stays in force.
    """

    def __init__(self, kind: str) -> None:
        _expect_checkpoints()
        self._kind = kind
        self._before: torch.dtype | None = None

    def __enter__(self) -> None:
        if torch.is_autocast_enabled(self._kind):
            return
        self._before = torch.get_autocast_dtype(self._kind)
        torch.set_autocast_enabled(self._kind, True)
        torch.set_autocast_dtype(self._kind, torch.float32)
        torch.autocast_increment_nesting()

    def __exit__(self, *exception: object) -> None:
        if self._before is None:
            return
        if torch.autocast_decrement_nesting() == 0:
            torch.clear_autocast_cache()
        torch.set_autocast_enabled(self._kind, False)
        torch.set_autocast_dtype(self._kind, self._before)
        self._before = None


def precision(device: torch.device) -> Decision:
    """The low precision that may be worth it on a device: a `torch.dtype`, or None for float32.

    bfloat16 is tried against float32 when a script trains (`gating`), unless AUTOACCEL_AMP_DTYPE asks for it, or for
    "hardware": what the device has, untried.
    """
    if disabled("amp"):
        return Decision(None, "AUTOACCEL_DISABLE")
    wish = setting("AMP_DTYPE").lower()
    if wish in _DTYPES and devices.available(device):
        return Decision(_DTYPES[wish], "AUTOACCEL_AMP_DTYPE")
    if wish and wish not in (*_DTYPES, "hardware"):
        warn_once(f"AUTOACCEL_AMP_DTYPE={wish!r} is not one of {', '.join(_DTYPES)}: ignored")
    return _by_hardware(device)


def _by_hardware(device: torch.device) -> Decision:
    match device.type:
        case "cuda" if not devices.available(device):
            return Decision(None, "CUDA is not available")
        case "cuda":
            return by_capability(*devices.capability(device))
        case "xpu" if devices.available(device):
            return Decision(torch.bfloat16, "XPU computes in bfloat16")
        case "cpu" if _cpu_computes_bfloat16():
            return Decision(torch.bfloat16, "this CPU has AVX512-BF16 or AMX")
        case "cpu":
            return Decision(None, "this CPU has neither AVX512-BF16 nor AMX")
        case _:
            return Decision(None, f"mixed precision does not pay on {device.type}")


def scaling(device: torch.device) -> Decision:
    """Whether gradients of parameters on a device are scaled."""
    wish = setting("GRAD_SCALER").lower()
    if wish == "on" and not disabled("amp"):
        return Decision(True, "AUTOACCEL_GRAD_SCALER")
    if wish not in ("", "on"):
        warn_once(f"AUTOACCEL_GRAD_SCALER={wish!r} is not 'on': ignored")
    scaled = precision(device).value is torch.float16
    return Decision(scaled, "gradients are float16" if scaled else "needed for float16 only")


def by_capability(major: int, minor: int) -> Decision:
    """The low precision of a CUDA device of this compute capability."""
    if major >= 8:
        return Decision(torch.bfloat16, f"compute capability {major}.{minor} has bfloat16")
    if major == 7:
        return Decision(torch.float16, f"compute capability {major}.{minor} has float16 units and no bfloat16")
    return Decision(None, f"compute capability {major}.{minor} is not faster in low precision")


@functools.cache
def _cpu_computes_bfloat16() -> bool:
    # underscored in torch 2.6 to 2.15, public in none; a torch without them is treated as a CPU without the units
    probes = (getattr(torch.cpu, name, None) for name in ("_is_avx512_bf16_supported", "_is_amx_tile_supported"))
    return any(probe is not None and probe() for probe in probes)


class Scaler(torch.amp.GradScaler):
    """A `torch.amp.GradScaler` that is active where gradients are float16, and that never breaks a plain loop.

    Differences to torch's: whether it is enabled is settled at the first `scale`, by where the optimizers' parameters
    are then; optimizers without a gradient, and steps before anything was scaled, pass through instead of failing an
    assertion; a step may be left out after its gradients were unscaled and looked at; `load_state_dict({})`, the state
    of an inactive scaler, is accepted.
    """

    def __init__(self, optimizers: Iterable[torch.optim.Optimizer] = ()) -> None:
        super().__init__("cpu", enabled=True)  # always complete; "cpu" keeps torch from probing CUDA
        self._optimizers = tuple(weakref.ref(optimizer) for optimizer in optimizers)
        self._scaled = 0  # losses so far
        self._left_out: dict[int, dict[str, Any]] = {}  # of steps that were not made, whose overflow is to count yet
        self._settled: torch.device | None = None  # where the first parameter was when this was settled by a loss
        self._settle()

    def _settle(self) -> None:
        place = _home(self.optimizers())
        self._device = place.type
        self._enabled = scaling(place).value

    def _settle_by_loss(self) -> None:
        first = next(iter(self.optimizers()), None)
        some = next(_parameters(first), None) if first is not None else None
        place = None if some is None else some.device
        if place is None or place != self._settled:
            self._settle()
            self._settled = place

    def optimizers(self) -> Iterator[torch.optim.Optimizer]:
        """The optimizers it was made for that are still alive."""
        return (optimizer for ref in self._optimizers if (optimizer := ref()) is not None)

    def scale(self, outputs: Any) -> Any:
        """Scale a loss, or losses in any nesting of iterables; returns its argument where the scaler is inactive."""
        if self._scale is None:
            self._settle_by_loss()
        if not self._enabled:
            return outputs
        self._catch_up()
        self._scaled += 1
        return super().scale(outputs)

    def unscale_(self, optimizer: torch.optim.Optimizer) -> None:
        """Divide the optimizer's gradients by the scale, once per step, before they are clipped or looked at."""
        if self._scale is None:
            return
        states, known = self._per_optimizer_states, id(optimizer)
        state = states[known]
        left_out = state["stage"] is OptState.UNSCALED and state["scaled"] != self._scaled
        if left_out:
            del states[known]
        super().unscale_(optimizer)  # by the scale that these gradients have
        states[known]["scaled"] = self._scaled
        if left_out:  # the script looked at its last gradients and did not step
            self._left_out[known] = state

    def step(self, optimizer: torch.optim.Optimizer, *args: Any, **kwargs: Any) -> float | None:
        """Step the optimizer, unless its gradients overflowed."""
        if not torch.compiler.is_compiling():
            for gate in _gates.values():
                gate.stepped()
        if not self._enabled or self._scale is None or not _has_gradients(optimizer):
            result: float | None = optimizer.step(*args, **kwargs)
            return result
        if args:  # torch checks the keyword only, and would run the closure's backward on scaled gradients
            raise RuntimeError("a closure cannot be combined with gradient scaling; set AUTOACCEL_DISABLE=amp")
        return super().step(optimizer, **kwargs)

    def update(self, new_scale: float | torch.Tensor | None = None) -> None:
        """Adapt the scale after the optimizers stepped."""
        if not self._enabled or self._scale is None:
            return
        self._catch_up()
        if new_scale is None and not any(
            state["found_inf_per_device"] for state in self._per_optimizer_states.values()
        ):
            self._per_optimizer_states.clear()
            return
        super().update(new_scale)

    def _catch_up(self) -> None:
        """Adapt the scale to steps that were left out, now that no gradients are left that were scaled by it."""
        if not self._left_out:
            return
        states = self._per_optimizer_states
        self._per_optimizer_states = states.copy()
        self._per_optimizer_states.clear()
        self._per_optimizer_states.update(self._left_out)
        self._left_out.clear()
        self.update()
        self._per_optimizer_states = states

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore a saved scale; the empty state of an inactive scaler leaves this one as it is."""
        if state_dict:
            super().load_state_dict(state_dict)

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_optimizers": ()}  # weak references cannot be pickled


# Keyed weakly by one optimizer of each set: neither the scaler nor its optimizers are kept alive.
_scalers: Final[weakref.WeakKeyDictionary[torch.optim.Optimizer, list[Scaler]]] = weakref.WeakKeyDictionary()


def grad_scaler(*optimizers: Any) -> Scaler:
    """The gradient scaler of these optimizers: always the same one for the same optimizers, in any order.

    Optimizers may come in lists, tuples, sets and mappings. The scaler scales only where mixed precision means
    float16 and is transparent elsewhere, so `scaler.scale(loss).backward(); scaler.step(optimizer); scaler.update()`
    is right everywhere.
    """
    wanted = {id(optimizer): optimizer for optimizer in _flat(optimizers)}
    if not wanted:
        return Scaler()
    for optimizer in wanted.values():
        for scaler in _scalers.get(optimizer, ()):
            if {id(known) for known in scaler.optimizers()} == wanted.keys():
                return scaler
    scaler = Scaler(wanted.values())
    _scalers.setdefault(next(iter(wanted.values())), []).append(scaler)
    note("gradient scaling", scaling(_home(scaler.optimizers())))
    return scaler


def _flat(values: Any) -> Iterator[torch.optim.Optimizer]:
    match values:
        case None:  # an optimizer that this run does without
            return
        case Mapping():
            yield from _flat(values.values())
        case _ if isinstance(values, Iterable):
            for value in values:
                yield from _flat(value)
        case _:
            yield values


def _home(optimizers: Iterable[torch.optim.Optimizer]) -> torch.device:
    """Where the optimizers' parameters are: an accelerator if any parameter is on one."""
    places = {parameter.device for optimizer in optimizers for parameter in _parameters(optimizer)}
    return min(places, key=lambda place: place.type == "cpu", default=torch.device("cpu"))


def _parameters(optimizer: torch.optim.Optimizer) -> Iterator[torch.Tensor]:
    return (parameter for group in optimizer.param_groups for parameter in group["params"])


def _has_gradients(optimizer: torch.optim.Optimizer) -> bool:
    return any(parameter.grad is not None for parameter in _parameters(optimizer))
