"""Numbers by which tensors are filled or bounded, and that low precision cannot hold: torch raises on them.

The largest numbers are 3.4028e38 in float32, 3.3895e38 in bfloat16, 65504 in float16. What lies between the first two
is spelled as the limit of float32, `torch.finfo(torch.float32).min`, or written out; so where a number is not known,
that is looked for in the text of the program. Source: `c10::checked_convert`.
"""

from __future__ import annotations

import ast
import math
import re

from autoaccel.analysis.script import Script
from autoaccel.dataflow.abstract_values import Kind
from autoaccel.dataflow.bounds import CASTS
from autoaccel.dataflow.call_arguments import given_as, given_values
from autoaccel.dataflow.completeness import Incomplete
from autoaccel.dataflow.syntax_index import last_name
from autoaccel.pytorch import backend_settings
from autoaccel.pytorch.tensor_creation import number

BFLOAT16_LIMIT = 2.0**128 - 2.0**120
_FLOAT16_LIMIT = 65504.0
_MASKS = frozenset({"masked_fill", "masked_fill_"})
_FILLS = _MASKS | {"full_like", "fill_"}
_BOUNDS = frozenset(f"{name}{end}" for name in ("clamp", "clamp_min", "clamp_max", "clip") for end in ("", "_"))
_FLOAT32_LIMITS = re.compile(
    r"finfo\(\s*(?:\)|[\"']?(?:[\w.]+\.)?(?:float(?:32)?|single|get_default_dtype)\b)|\b3\.(?:39|4)\d*[eE]\+?38\b"
)
_LARGE = re.compile(rf"{_FLOAT32_LIMITS.pattern}|[\d.][eE]\+?(?:[5-9]|[1-9]\d)|\d{{5}}|\*\*|<<")
_OTHER = frozenset({Kind.TENSOR, Kind.BATCH, Kind.PARAMETER, Kind.BOOL, Kind.NONE, Kind.DTYPE, Kind.DEVICE})


def beyond_bfloat16(script: Script, call: ast.Call) -> str | None:
    """What a call fills or bounds a tensor with that bfloat16 cannot hold, or may not hold."""
    if last_name(call.func) not in _FILLS | _BOUNDS or _is_of_arrays(script, call):
        return None
    given = (each for each in _numbers(call) if not _fits(script, each, BFLOAT16_LIMIT))
    return next((script.source(each) for each in given if _may_be_spelled(script, each, _FLOAT32_LIMITS)), None)


def beyond_float16(script: Script, call: ast.Call) -> str | None:
    """What a call fills or bounds a tensor with that float16 cannot hold, or may not: scores are masked by `-1e9`, by
    whatever name, and other numbers are looked for in the text."""
    name = last_name(call.func)
    if name not in _FILLS | _BOUNDS or _is_of_arrays(script, call):
        return None
    given = (each for each in _numbers(call) if not _fits(script, each, _FLOAT16_LIMIT))
    return next(
        (script.source(each) for each in given if name in _MASKS or _may_be_spelled(script, each, _LARGE)), None
    )


def _numbers(call: ast.Call) -> list[ast.expr]:
    """What is or may be the numbers among the arguments."""
    if last_name(call.func) in _BOUNDS:
        return given_values(call)
    named = given_as(call, "value") or given_as(call, "fill_value")
    return [named] if named is not None else call.args[-1:]


def _is_of_arrays(script: Script, call: ast.Call) -> bool:
    qualified = script.qualname(call.func)
    return qualified is not None and not qualified.startswith("torch.")


def _fits(script: Script, expression: ast.expr, limit: float, depth: int = CASTS) -> bool:
    """Whether an argument surely is no number beyond a limit."""
    if (value := number(expression)) is not None:
        return math.isinf(value) or abs(value) <= limit
    match expression:
        case ast.UnaryOp(op=ast.USub() | ast.UAdd(), operand=operand):
            return _fits(script, operand, limit, depth)
        case ast.Compare() | ast.UnaryOp():
            return True  # a mask
        case ast.Call(func=ast.Name(id="float"), args=[ast.Constant(value=str())]):
            return True  # infinite, or not a number
        case ast.Attribute(attr="inf"):
            return True
        case ast.Attribute(value=ast.Call() as asked, attr="min" | "max") if last_name(asked.func) == "finfo":
            return not _FLOAT32_LIMITS.search(script.source(asked))
        case ast.Name() if depth and (definitions := script.definitions(expression)):
            values = [each.whole for each in definitions if each.whole is not None]
            if len(values) == len(definitions):
                return all(_fits(script, each, limit, depth - 1) for each in values)
    kinds = script.values(expression).kinds
    return bool(kinds) and kinds <= _OTHER


def _may_be_spelled(script: Script, expression: ast.expr, limits: re.Pattern[str]) -> bool:
    """Whether a number that does not surely fit may be beyond a limit: it is written so, there or elsewhere."""
    if number(expression) is not None or limits.search(script.source(expression)):
        return True
    try:
        return backend_settings.mention(script, limits) is not None
    except Incomplete:
        return True
