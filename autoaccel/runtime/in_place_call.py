"""Calls that stand in for a module's own, in its `_compiled_call_impl`: torch runs that where the module is called.

The module stays the very same object: its type, `state_dict` keys, parameters, attributes and hooks are unchanged, and
copies and pickles of it are plain modules. One stands on the other: what runs a module compiled or eagerly may find
another way to run it eagerly already there.
"""

from __future__ import annotations

import threading
import types
from collections.abc import Callable
from typing import Any, Final

import torch
from torch import nn

from . import devices

TRAINING: Final = 2


def rank_of(training: bool) -> int:
    """How much a call made now matters: `TRAINING` in training, 1 with gradients alone, 0 in evaluation."""
    if not torch.is_grad_enabled():
        return 0
    return TRAINING if training else 1


class InPlaceCall:
    """Stands in for a module's call; copies and pickles of it are None."""

    def __init__(self, module: nn.Module) -> None:
        self.module = module
        self.before: Any = module._compiled_call_impl  # noqa: SLF001
        self.eager: Callable[..., Any] = self.before or module._call_impl  # noqa: SLF001
        self._thread = threading.get_ident()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the module."""
        raise NotImplementedError

    def install(self) -> None:
        """From now on the module is called by this, which runs eagerly what stood in before."""
        self.module._compiled_call_impl = self  # noqa: SLF001

    def install_beneath(self) -> None:
        """From now on the module's own call is made by this, which what stands in already runs eagerly."""
        above = self._above()
        if above is None:
            self.install()
        else:
            self.before, self.eager = None, self.module._call_impl  # noqa: SLF001
            above.before = above.eager = self

    def withdraw(self) -> None:
        """The module is called as if this had never been; who runs it eagerly already goes on asking it."""
        installed: Any = self.module._compiled_call_impl  # noqa: SLF001
        if installed is self:
            self.module._compiled_call_impl = self.before  # noqa: SLF001
        elif (above := self._above()) is not None and above.before is self:
            above.before, above.eager = self.before, self.eager

    def _above(self) -> InPlaceCall | None:
        """What stands in for the module's call right above this, or above the module's own."""
        call: Any = self.module._compiled_call_impl  # noqa: SLF001
        above = None
        while isinstance(call, InPlaceCall) and call is not self:
            above, call = call, call.before
        return above

    def is_elsewhere(self) -> bool:
        """Whether this is another thread than the one that the module was made in."""
        return threading.get_ident() != self._thread

    def replica(self, caller: types.FrameType) -> nn.Module | None:
        """The copy of the module that is called, if it is one: with all attributes `DataParallel` copies this one too,
        and calls each copy in a thread of its own, with weights of its own.
        """
        called: Any = caller.f_locals.get("self")  # of `nn.Module._wrapped_call_impl`
        own = called is self.module or not isinstance(called, nn.Module) or called._compiled_call_impl is not self  # noqa: SLF001
        return None if own else called

    def facts(self, rank: int, place: torch.device) -> tuple[object, ...]:
        """By which the module's calls of a rank, on a device, are known again in a later run."""
        name = f"{type(self.module).__module__}.{type(self.module).__qualname__}"
        return name, rank, devices.hardware_name(place), [tuple(each.shape) for each in self.module.parameters()]

    def __reduce__(self) -> tuple[type[None], tuple[()]]:
        return type(None), ()


def is_plain(module: nn.Module) -> bool:
    """Whether a module is called as torch calls modules, but for what this runtime has put there."""
    return module._compiled_call_impl is None or isinstance(module._compiled_call_impl, InPlaceCall)  # noqa: SLF001


class FunctionCall(InPlaceCall):
    """Calls a function of the runtime in place of a layer's forward pass, but where a hook waits for the latter."""

    def __init__(self, module: nn.Module, function: Callable[..., Any]) -> None:
        super().__init__(module)
        self._function = function
        self.install()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the layer."""
        module = self.module
        hooks = module._forward_hooks or module._forward_pre_hooks  # noqa: SLF001
        hooks = hooks or module._backward_hooks or module._backward_pre_hooks  # noqa: SLF001
        if hooks or torch.nn.modules.module._has_any_global_hook():  # type: ignore[no-untyped-call]  # noqa: SLF001
            return self.eager(*args, **kwargs)
        return self._function(module, *args, **kwargs)


def stands_in(module: nn.Module, kind: type[InPlaceCall]) -> bool:
    """Whether calls of this kind stand in for the module's own already."""
    call: Any = module._compiled_call_impl  # noqa: SLF001
    while isinstance(call, InPlaceCall):
        if isinstance(call, kind):
            return True
        call = call.before
    return False
