"""What of a model's forward pass would notice that its pictures lie otherwise in memory.

The first call with arguments of each kind is made with the pictures as they are, under the eyes of an `Inspection`: if
it asks for strides or storage, makes views that the other layout does not have, or leaves torch, the other layout is
never tried. What it does not foresee meets the `LayoutGuard` that stands around every call with pictures the other way:
an operation that refuses them gets them as the script would have had them, and it was the last such call. So the script
never sees an error that is not its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

import torch
from torch.overrides import TorchFunctionMode

from .memory_format import has_two_layouts

_Function = Callable[..., Any]

# What tells of strides or of memory. Values of attributes are asked for by functions of the same name, `__get__`.
_READING: Final = frozenset(
    """stride is_contiguous data_ptr as_strided as_strided_ untyped_storage storage _typed_storage storage_offset numpy
    __array__ __dlpack__ set_ resize_ resize_as_ __reduce_ex__ share_memory_ new_empty_strided""".split()
)
# What is told of gradients on their way back, when nobody guards.
_FOLLOWING: Final = frozenset({"register_hook", "retain_grad", "register_post_accumulate_grad_hook"})


class Inspection(TorchFunctionMode):
    """Watches a forward pass in the script's own layout, and changes nothing of it."""

    def __init__(self) -> None:
        super().__init__()
        self.problem = ""

    def __torch_function__(
        self, func: _Function, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Run the operation as it is."""
        del types
        kwargs = kwargs or {}
        if not self.problem:
            self.problem = _foreseen(func, args, kwargs)
        return func(*args, **kwargs)


class LayoutGuard(TorchFunctionMode):
    """Stands around a forward pass with pictures channels last; `problem` says what did not bear it."""

    def __init__(self) -> None:
        super().__init__()
        self.problem = ""
        self._kept: list[object] = []  # the memory that somebody was told of

    def __torch_function__(
        self, func: _Function, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Run the operation; with contiguous operands if it refuses others, or would tell of them."""
        del types
        kwargs = kwargs or {}
        if getattr(func, "__name__", "") in _READING and args and not _is_contiguous(args[0]):
            return self._contiguously(func, args, kwargs)
        try:
            return func(*args, **kwargs)
        except RuntimeError:
            if _changes(func, kwargs) or all(map(_is_contiguous, args)):
                raise
            return self._contiguously(func, args, kwargs)

    def _contiguously(self, func: _Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        arguments = [each if _is_contiguous(each) else each.contiguous() for each in args]
        result = func(*arguments, **kwargs)
        self._kept.append(arguments)
        self.problem = self.problem or _asks(func)
        return result


def _is_contiguous(value: object) -> bool:
    return not isinstance(value, torch.Tensor) or value.is_contiguous()


def _asks(func: _Function) -> str:
    return f"its forward pass asks for `{getattr(func, '__name__', func)}`"


def _changes(func: _Function, kwargs: dict[str, Any]) -> bool:
    """Whether an operation writes to what it is given."""
    name = getattr(func, "__name__", "")
    in_place = name.endswith("_") and not name.endswith("__")
    return in_place or name in ("__setitem__", "__set__") or name.startswith("__i") or "out" in kwargs


def _foreseen(func: _Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """Why an operation, seen in the script's layout, would do otherwise in the other one; empty if it would not."""
    name, first = getattr(func, "__name__", ""), args[0] if args else None
    if _is_computed_again():
        return "its backward pass computes parts of it again"
    if name in _FOLLOWING:
        return _asks(func)
    if not isinstance(first, torch.Tensor):
        return ""
    if name in _READING:
        return _asks(func) if has_two_layouts(first) else ""
    if name == "view" and has_two_layouts(first):
        return "" if _has_view(first, args[1:], kwargs) else _asks(func)
    # what reshaping gives is the tensor itself, or a copy: by its layout
    if (_changes(func, kwargs) or kwargs.get("inplace")) and first._is_view():  # noqa: SLF001
        base = first._base  # noqa: SLF001
        if base is not None and has_two_layouts(base) and first.dim() != 4:
            return "its forward pass writes to a view of its pictures"
    return ""


def _has_view(tensor: torch.Tensor, arguments: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether pictures of this shape have the view if they lie channels last: asked of one without memory."""
    other = torch.empty(tensor.shape, dtype=tensor.dtype, device="meta", memory_format=torch.channels_last)
    try:
        other.view(*arguments, **kwargs)
    except RuntimeError:
        return False
    return True


def _is_computed_again() -> bool:
    """Whether what is computed here is not kept for the backward pass but packed, or computed there once more."""
    hooks = getattr(torch._C._autograd, "_top_saved_tensors_default_hooks", None)  # noqa: SLF001
    return hooks is not None and hooks(True) is not None


def leaves_torch(outputs: Iterable[torch.Tensor], inputs: Iterable[torch.Tensor]) -> bool:
    """Whether a function of the program itself takes part in the way back from `outputs` to `inputs`."""
    seen: set[Any] = {each.grad_fn for each in inputs if each.grad_fn is not None}
    pending: list[Any] = [each.grad_fn for each in outputs if each.grad_fn is not None]
    while pending:
        node = pending.pop()
        if node in seen:
            continue
        seen.add(node)
        if isinstance(node, torch._C._FunctionBase):  # noqa: SLF001
            return True
        pending.extend(before for before, _ in node.next_functions if before is not None)
    return False
