"""What torch does not ask about its arguments: functions with a backward pass of their own, scripted ones, and hooks.

They are given outputs of all rows. Inside of a model their gradients are the script's own, of which they may take signs
or norms; elsewhere there they are those times the number of ranks (`shares.py`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final

import torch

from . import batch_part
from .deferred_outputs import whole

_LIBRARIES: Final = ("torch.", "autoaccel.")


@functools.cache
def install() -> None:
    """Replace how they are called; at the second call there is nothing to do."""
    function: Any = torch.autograd.Function
    script: Any = torch.jit.ScriptFunction
    tensor: Any = torch.Tensor
    original, scripted, register = function.apply.__func__, script.__call__, tensor.register_hook

    @functools.wraps(original)
    def apply(cls: Any, *args: Any, **kwargs: Any) -> Any:
        rows = batch_part.rows()
        if rows is not None and not cls.__module__.startswith(_LIBRARIES):
            cls = _of_rows(cls, rows.ranks)
        return original(cls, *whole(args), **whole(kwargs))

    @functools.wraps(scripted)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        return scripted(self, *whole(args), **whole(kwargs))

    @functools.wraps(register)
    def register_hook(self: torch.Tensor, hook: Callable[[torch.Tensor], torch.Tensor | None]) -> Any:
        rows = batch_part.rows()
        return register(self, hook if rows is None else functools.partial(_hook_of_rows, hook, rows.ranks))

    function.apply, script.__call__, tensor.register_hook = classmethod(apply), call, register_hook


@functools.cache
def _of_rows(function: Any, ranks: int) -> Any:
    """A function whose backward pass gets the script's own gradients of rows."""
    name = "backward" if function.backward is not torch.autograd.Function.backward else "vjp"  # torch's other name
    original = getattr(function, name)

    def backward(ctx: Any, *gradients: Any) -> Any:
        found = original(ctx, *(each if each is None else each / ranks for each in gradients))
        listed = found if isinstance(found, tuple) else (found,)
        return tuple(each * ranks if isinstance(each, torch.Tensor) else each for each in listed)

    return type(function.__name__, (function,), {name: staticmethod(backward), "__module__": function.__module__})


def _hook_of_rows(
    hook: Callable[[torch.Tensor], torch.Tensor | None], ranks: int, gradient: torch.Tensor
) -> torch.Tensor | None:
    found = hook(gradient / ranks)
    return None if found is None else found * ranks
