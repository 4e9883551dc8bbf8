"""The conversions that a `__getitem__` may call: of the dtype, of the kind of number or array, of the shape."""

from __future__ import annotations

import builtins
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import torch

from .mutation_guard import Unsupported
from .row_indices import Unfit
from .sample_structure import TensorStep
from .symbolic_rows import SymbolicRow


def is_module(thing: Any) -> bool:
    """Whether this is torch or numpy."""
    return thing is torch or (thing is not None and thing is sys.modules.get("numpy"))


def is_known(thing: Any) -> bool:
    """Whether this is something that may stand in a `__getitem__` here."""
    if is_module(thing) or isinstance(thing, torch.dtype) or thing is torch.Tensor:
        return True
    return any(thing is each for each in (builtins.int, builtins.float, isinstance, torch.is_tensor)) or (
        _made_by(thing) is not None or _numpy_dtype(thing) is not None
    )


def _made_by(function: Any) -> str | None:
    """The name of a function that makes tensors or arrays of what is there."""
    for name in _MAKERS:
        module, _, own = name.partition(".")
        if function is not None and function is getattr(sys.modules.get(module), own, None):
            return name
    return None


_MAKERS: Final = (
    *("torch.tensor", "torch.as_tensor", "torch.from_numpy", "torch.Tensor", "torch.FloatTensor", "torch.LongTensor"),
    *("numpy.array", "numpy.asarray"),
)
_LEGACY: Final = {"torch.Tensor": torch.float32, "torch.FloatTensor": torch.float32, "torch.LongTensor": torch.int64}
_FLOATING: Final = {"float": torch.float32, "double": torch.float64, "half": torch.float16, "bfloat16": torch.bfloat16}
_WHOLE: Final = {"long": torch.int64, "int": torch.int32, "short": torch.int16, "bool": torch.bool}
_CONVERSIONS: Final = {**_FLOATING, **_WHOLE}
_UNCHANGED: Final = ("clone", "copy", "contiguous", "detach", "cpu")


def _numpy_dtype(thing: Any) -> torch.dtype | None:
    """The dtype that numpy's class of numbers (`np.float32`) or a name ("float32") stands for."""
    numpy = sys.modules.get("numpy")
    if numpy is None:
        return None
    for name in ("float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8"):
        if thing is getattr(numpy, name) or (type(thing) is str and thing == name):
            found: torch.dtype = getattr(torch, name)
            return found
    return None


def _dtype(given: Any) -> torch.dtype:
    found = given if isinstance(given, torch.dtype) else _numpy_dtype(given)
    if found is None:
        raise Unsupported("its __getitem__ converts to something else")
    return found


def _to(dtype: torch.dtype) -> TensorStep:
    return lambda values: values.to(dtype)


def made(function: Any, arguments: Sequence[Any], options: dict[str, Any]) -> Any:
    """A call of `int`, `float`, or of what makes a tensor or an array from a row."""
    name = _made_by(function)
    dtype = options.pop("dtype", None)
    row = arguments[0] if arguments else None
    if isinstance(row, list) and len(row) == 1 and name in ("torch.tensor", "numpy.array", *_LEGACY):
        (row,) = row
        row = _in_a_list(row) if isinstance(row, SymbolicRow) and row.dims == 0 else None
    if not isinstance(row, SymbolicRow) or len(arguments) != 1 or options:
        raise Unsupported("its __getitem__ makes something out of other things than a sample's values")
    if function in (int, float) and row.dims == 0:
        return _number(row, function)
    if name is None and _numpy_dtype(function) is not None and row.kind == "array":
        return row.then(_to(_dtype(function)))
    if name in _LEGACY and row.dims and dtype is None:
        return row.then(_to(_LEGACY[name]), kind="tensor", scalar=False)
    if name is None or name in _LEGACY or (name == "torch.from_numpy" and row.kind != "array"):
        raise Unsupported("its __getitem__ makes a tensor in another way")
    if name.startswith("numpy") and row.kind != "array":
        raise Unsupported("its __getitem__ makes arrays of something else")
    kind = name.split(".")[0].replace("numpy", "array").replace("torch", "tensor")
    if dtype is not None:
        return row.then(_to(_dtype(dtype)), kind=kind, scalar=False)
    if kind == "tensor" and row.kind == "number":
        return row.then(_as_torch_takes_numbers, kind=kind, scalar=False)
    return replace(row, kind=kind, scalar=row.scalar or (kind == "tensor" and row.kind != "tensor" and row.dims == 0))


def _as_torch_takes_numbers(values: torch.Tensor) -> torch.Tensor:
    """Python's numbers become of the default dtype before anything is computed with them."""
    return values.to(torch.get_default_dtype()) if values.is_floating_point() else values


def _in_a_list(row: SymbolicRow) -> SymbolicRow:
    if row.kind == "number":
        row = row.then(_as_torch_takes_numbers)
    return row.then(lambda values: values.unsqueeze(1), dims=1, scalar=True)


def _number(row: SymbolicRow, kind: type) -> SymbolicRow:
    """A sample's single number as Python's; only whole numbers become whole ones."""
    dtype = torch.int64 if kind is int else torch.float64

    def converted(values: torch.Tensor) -> torch.Tensor:
        if kind is int and (values.is_floating_point() or values.is_complex()):
            raise Unfit
        return values.to(dtype)

    return row.then(converted, kind="number", scalar=False)


def method(row: SymbolicRow, name: str, arguments: Sequence[Any], options: dict[str, Any]) -> SymbolicRow:
    """A call of a row's method."""
    if options or row.kind == "number":
        raise Unsupported(f"its __getitem__ calls .{name} with options")
    whole = all(type(each) is int for each in arguments)
    match name, tuple(arguments):
        case _, () if name in _UNCHANGED:
            return row
        case _, () if name in _CONVERSIONS and row.kind == "tensor":
            return row.then(_to(_CONVERSIONS[name]), scalar=False)
        case (("to" | "type" | "astype"), (given,)) if (name == "astype") is (row.kind == "array"):
            return row.then(_to(_dtype(given)), scalar=False)
        case "numpy", () if row.kind == "tensor" and row.dims:
            return replace(row, kind="array")
        case "item", () if row.dims == 0:
            return row.then(_item, kind="number", scalar=False)
        case "unsqueeze", (int() as at,) if row.kind == "tensor":
            return row.then(lambda values: values.unsqueeze(at + 1 if at >= 0 else at), dims=row.dims + 1)
        case (("view" | "reshape"), (int(), *_)) if whole:
            shape = tuple(arguments)
            return row.then(lambda values: values.reshape(values.shape[0], *shape), dims=len(shape))
        case "flatten", () if row.dims:
            return row.then(lambda values: values.reshape(values.shape[0], -1), dims=1)
        case "permute", (int(), *_) if row.kind == "tensor" and sorted(arguments) == [*range(row.dims)]:
            order = (0, *(each + 1 for each in arguments))
            return row.then(lambda values: values.permute(order))
    raise Unsupported(f"its __getitem__ calls .{name}")


def _item(values: torch.Tensor) -> torch.Tensor:
    if values.dtype == torch.bool or values.is_complex():
        raise Unfit
    return values.to(torch.float64 if values.is_floating_point() else torch.int64)
