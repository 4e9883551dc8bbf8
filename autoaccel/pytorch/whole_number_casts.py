"""Casts of decimals to whole numbers, which every device does alike only where the number fits.

C++ leaves open what infinity, NaN and numbers beyond a type's range become: x86 gives the smallest number, CUDA the
nearest. And a decimal that a device rounds differently may be cut off to another whole number. Conversions among whole
numbers wrap, and those to decimals end at infinity, on every device.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from autoaccel.analysis.script import Script
from autoaccel.dataflow.call_arguments import given_as
from autoaccel.library_models.tensor_operations import ROUNDED
from autoaccel.pytorch.integers import integral
from autoaccel.pytorch.tensor_creation import Creation, bounds, integral_range, number
from autoaccel.pytorch.tensor_type_aliases import tensor_type

_CUT_OFF = "whole numbers are cut off where the device may round differently"
_MAY_NOT_FIT = "a cast to whole numbers of what may not fit them gives others on the device"

_BITS = {"uint8": 8, "int8": 8, "int16": 16, "short": 16, "int32": 32, "int": 32, "int64": 64, "long": 64}
_WHOLE = _BITS.keys() | {"bool"}
_DECIMALS = frozenset("float32 float float64 double float16 half bfloat16".split())
_OF_INDICES = frozenset("tril_indices triu_indices randint randperm".split())
_FILLED: dict[str, tuple[float, ...]] = {
    "zeros": (0,), "zeros_like": (0,), "ones": (1,), "ones_like": (1,), "eye": (0, 1), "empty": (), "empty_like": (),
    "rand": (0, 1), "rand_like": (0, 1), "zero_": (0,), "bernoulli_": (0, 1),
}  # fmt: skip
_Numbers = tuple[float, ...] | None  # between which all of a tensor's numbers are; None: not known


def undefined_cast(script: Script, made: Creation, *more: ast.expr | None) -> str | None:
    """Why the device may get other whole numbers than the host out of a creation's casts; None where it gets the same.

    `more` are types that it is cast to afterwards, None for one that is not known.
    """
    casts = [each.call for each in reversed(made.casts)]
    steps = [*((_target(script, each), each) for each in casts), *((_type(script, each), None) for each in more)]
    whole = _is_whole(script, made)
    rounded = made.name.removeprefix("torch.") in ROUNDED or (
        made.name == "torch.arange" and not integral_range(script, made.call)
    )
    seen: list[str | None] = []
    for target, cast in steps:
        if target in _DECIMALS:
            whole = False
            continue
        seen.append(target)
        if not whole and rounded:
            return _CUT_OFF
        if not whole and target != "bool":
            numbers = _numbers(script, made, cast)
            if numbers is None or not all(_fits(each, one) for each in numbers for one in seen):
                return _MAY_NOT_FIT
        whole = target is not None
    return None


def _target(script: Script, cast: ast.Call) -> str | None:
    if cast.args:
        return _type(script, cast.args[0])
    assert isinstance(cast.func, ast.Attribute)
    return {"byte": "uint8"}.get(cast.func.attr, cast.func.attr)


def _type(script: Script, dtype: ast.expr | None) -> str | None:
    name = ((script.qualname(dtype) if dtype is not None else None) or "").removeprefix("torch.")
    return name if name in _WHOLE | _DECIMALS else None


def _fits(value: float, target: str | None) -> bool:
    """Whether a type holds a number, in whatever precision it comes; a type that is not known may be any of them."""
    match target:
        case None:
            return 0 <= value <= 127
        case "bool":
            return True
        case "uint8":
            return 0 <= value <= 255
    limit = 1 << (_BITS[target] - 1)
    return -limit <= value <= limit - max(limit // 256, 1)  # bfloat16 has eight bits, and rounds to the next number


def _is_whole(script: Script, made: Creation) -> bool:
    """Whether a factory surely makes whole numbers, before anything is cast."""
    call, legacy = made.call, tensor_type(script, made.call.func)
    dtype = given_as(call, "dtype")
    if legacy is not None or dtype is not None:
        name = legacy.dtype.removeprefix("torch.") if legacy is not None else _type(script, dtype)
        return name in _WHOLE
    match made.name.removeprefix("torch."):
        case "arange":
            return integral_range(script, call)
        case "full":
            value = _fill_value(call)
            return value is not None and (integral(script, value) or isinstance(number(value), int))
        case "tensor":
            written = _written(call.args)
            return written is not None and all(isinstance(each, int) for each in written)
        case name:
            return name in _OF_INDICES


def _numbers(script: Script, made: Creation, cast: ast.Call | None) -> _Numbers:
    """What is known of the numbers in a creation when `cast` is done to it, or at its end."""
    fills = (each for each in made.fills if cast is None or _may_precede(script, each, cast))
    known = [_made(made), *map(_filled, fills)]
    return None if None in known else tuple(one for each in known if each is not None for one in each)


def _may_precede(script: Script, fill: ast.Call, cast: ast.Call) -> bool:
    return script.inside(fill, cast) or script.statement(fill) is not script.statement(cast)


def _made(made: Creation) -> _Numbers:
    match made.name.removeprefix("torch."):
        case "full" | "full_like":
            return _spelled([_fill_value(made.call)])
        case "arange":
            return _spelled(bounds(made.call))
        case "tensor":
            return _written(made.call.args)
        case name:
            return _FILLED.get(name)


def _filled(call: ast.Call) -> _Numbers:
    match call:
        case ast.Call(func=ast.Attribute(attr="fill_" | "fill_diagonal_"), args=[value, *_]):
            return _spelled([value])
        case ast.Call(func=ast.Attribute(attr="uniform_"), args=limits, keywords=[]) if len(limits) in (0, 2):
            return _spelled(limits) if limits else (0, 1)
        case ast.Call(func=ast.Attribute(attr=method)):
            return _FILLED.get(method)
        case _:
            return None


def _fill_value(call: ast.Call) -> ast.expr | None:
    return call.args[1] if len(call.args) > 1 else given_as(call, "fill_value")


def _written(data: list[ast.expr]) -> _Numbers:
    """The numbers of nested lists of literals; none at all where nothing is given by position."""
    return _spelled(list(_leaves(data))) if data else None


def _leaves(data: list[ast.expr]) -> Iterator[ast.expr]:
    for each in data:
        if isinstance(each, ast.List | ast.Tuple):
            yield from _leaves(each.elts)
        else:
            yield each


def _spelled(values: Sequence[ast.expr | None]) -> _Numbers:
    numbers = [None if each is None else number(each) for each in values]
    return None if None in numbers else tuple(each for each in numbers if each is not None)
