"""Running totals that stay on the device until somebody reads them.

`total += loss.item()` lets the host wait for the device at each step. Here the addend goes to a sum on the device, in
float64 (of whole numbers in int64), which is what Python adds in: every value of a narrower type is exact there, and
the order of the sum stays, so that the number is the same bit for bit. It is read where it is used as a number.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any, Final

import torch

from . import devices
from .environment import Decision, disabled, note
from .execution_mode import is_traced

# Where sums are kept. A host has nothing to wait for; MPS has no float64, and not every XPU.
ACCUMULATING: Final = frozenset({"cuda"})
_FLOATS: Final = frozenset({torch.float16, torch.bfloat16, torch.float32, torch.float64})
_INTEGERS: Final = frozenset({torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64})


def total(start: float = 0) -> Any:
    """A number to which values on the device are added, as `total += loss.item()` would, but without waiting for them.

    Args:
        start: What it begins with. As with Python's numbers an int to which nothing but whole numbers is added stays
            an int.

    Returns:
        What gives Python's plain number wherever it is read: `total.item()`, arithmetic, comparing, formatting. Like a
        number it never changes: `total += loss` binds the name to another one.
    """
    return Total(start)


def item(tensor: Any) -> Any:
    """What `tensor.item()` gives, to be added to a total: `total += accel.item(loss) * len(batch)`.

    Returns:
        Python's number, or on a device where totals are kept a scalar tensor of float64 (of whole numbers int64) that
        has no graph. Its sums, differences and products with an int are the same bit for bit; quotients are not.
    """
    return _widened(tensor) if _is_kept(tensor) else tensor.item()


class Total:
    """A number that may not have been computed yet.

    Additions of one-element tensors stay on their device; they are detached, so that no graph is kept.
    """

    __slots__ = ("_number", "_pending", "_stream")

    def __init__(self, number: Any, pending: torch.Tensor | None = None, stream: Any = None) -> None:
        self._number = number
        self._pending = pending  # a scalar on the device: it has what `_number` will be
        self._stream = stream  # on which it is computed

    def item(self) -> Any:
        """Python's number; waits for the device where that has not computed it yet."""
        if self._pending is not None:
            _current_stream(self._pending.device).wait_stream(self._stream)  # the script may be on another one by now
            self._number = self._pending.item()
            self._pending = self._stream = None
        return self._number

    def __iadd__(self, addend: Any) -> Total:
        if _is_kept(addend):
            return self._with_scalar(addend.detach())
        number = addend.item() if hasattr(addend, "item") else addend
        if self._pending is None or (type(number) is not float and not _fits(number)):
            return Total(self.item() + number)
        if type(number) is float or self._pending.dtype is torch.float64:
            return Total(None, self._pending.double() + float(number), self._stream)
        return Total(None, self._pending + number, self._stream)

    def _with_scalar(self, addend: torch.Tensor) -> Total:
        """The sum with a tensor of one element on the device."""
        stream = _current_stream(addend.device)
        if self._pending is not None and self._pending.device == addend.device and self._stream == stream:
            if self._pending.dtype is not torch.float64:
                addend = _widened(addend)  # of a whole number and a float32 torch makes float32
            return Total(None, self._pending + (addend.reshape(()) if addend.dim() else addend), stream)
        addend = _widened(addend)
        number = self.item()
        if type(number) is not float and not _fits(number):
            return Total(number + addend.item())
        note("total", Decision(str(addend.device), "added up on the device, read where it is used"))
        if type(number) is float or addend.dtype is torch.float64:
            return Total(None, addend.double() + float(number), stream)
        return Total(None, addend + number, stream)

    # -- the number, wherever it is read

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # what numbers lack, `copy` and others ask for
            raise AttributeError(name)
        return getattr(self.item(), name)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        import numpy  # it is NumPy that asks

        return numpy.asarray(self.item(), dtype)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        numbers = (each.item() if isinstance(each, Total) else each for each in inputs)
        return getattr(ufunc, method)(*numbers, **options)

    def __reduce__(self) -> tuple[Any, ...]:
        number = self.item()
        return type(number), (number,)


def _is_kept(addend: Any) -> bool:
    """Whether an addend may go to a sum on its device; else it is read, as the script did."""
    return (
        type(addend) in (torch.Tensor, torch.nn.Parameter)
        and addend.device.type in ACCUMULATING
        and addend.numel() == 1
        and addend.layout is torch.strided
        and (addend.dtype in _FLOATS or addend.dtype in _INTEGERS)
        and not is_traced()
        and not disabled("total")
    )


def _current_stream(device: torch.device) -> Any:
    return devices.module_of(device.type).current_stream(device)


def _fits(number: Any) -> bool:
    """Whether a number is whole, and one of int64."""
    return isinstance(number, int) and -(2**63) <= number < 2**63


def _widened(addend: torch.Tensor) -> torch.Tensor:
    """A scalar of the type that Python's numbers have, with the same value and no graph."""
    scalar = addend.detach().reshape(())
    return scalar.to(torch.float64 if addend.dtype in _FLOATS else torch.int64, copy=True)


def _forward(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda self, *others: function(self.item(), *others)


def _reflect(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda self, other: function(other, self.item())


for _function in (repr, str, format, hash, bool, int, float, complex, round):
    setattr(Total, f"__{_function.__name__}__", _forward(_function))
for _name in "index lt le eq ne gt ge neg pos abs invert".split():
    setattr(Total, f"__{_name}__", _forward(getattr(operator, _name)))
for _name in "trunc floor ceil".split():
    setattr(Total, f"__{_name}__", _forward(getattr(math, _name)))
for _name in "add sub mul truediv floordiv mod and_ or_ xor lshift rshift".split():
    setattr(Total, f"__{_name.rstrip('_')}__", _forward(getattr(operator, _name)))
    setattr(Total, f"__r{_name.rstrip('_')}__", _reflect(getattr(operator, _name)))
for _binary in (pow, divmod):
    setattr(Total, f"__{_binary.__name__}__", _forward(_binary))
    setattr(Total, f"__r{_binary.__name__}__", _reflect(_binary))
