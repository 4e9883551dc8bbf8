"""Fuse activations.

An activation that is written out, `x * torch.sigmoid(x)`, goes through memory once for each of its operations, forward
and backward, and keeps most of what lies between. torch has GELU, SiLU (swish), hard swish and hard sigmoid in one
kernel each: up to four times as fast on a CPU, with less memory. What a formula computes is told by its values at many
places, however it is spelled. Results differ by rounding.

Left alone:
- formulas of more than one operand, or of one that has no name, and those that torch has no kernel for:
  `x * torch.sigmoid(1.702 * x)`; Mish, whose kernel takes longer on a CPU where there is much to compute;
- hard swish by `clamp`, which has other gradients at -3 and 3; formulas by layers, which may be watched or exchanged;
- formulas outside of functions, and functions that are given whole numbers, for which torch's kernels are not made;
- programs with complex numbers, and with classes that have a `sigmoid` of their own;
- formulas whose parts have names of their own: `gate = torch.sigmoid(x)`;
- `torch.exp` and `torch.log`, which are infinite where torch's kernels are not.

Before:
    return 0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * torch.pow(x, 3.0))))

After:
    return F.gelu(x, approximate="tanh")
"""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from autoaccel.analysis import Script
from autoaccel.dataflow.completeness import Incomplete
from autoaccel.dataflow.syntax_index import last_name
from autoaccel.edits import Code, Finding, Replace, Skipped, Tier
from autoaccel.pytorch import backend_settings
from autoaccel.pytorch.monkeypatching import monkeypatched_in_text
from autoaccel.rewriting.rule import Rule, UnderDeterminism

RULE = Rule(
    code="AA307",
    name="fused-activation",
    tier=Tier.EQUIVALENT,
    needles=(b"tanh", b"erf", b"igmoid", b"relu6"),
    pattern="torch",
    references=("https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.gelu.html",),
    addresses=("compute", "launch"),
    under_determinism=UnderDeterminism.REPEATED,
    order=63,
)

_Function = Callable[[float], float]
_MISH: Final = "Mish"


def _sigmoid(x: float) -> float:
    return 1.0 / (1.0 + math.exp(-x))


def _gelu(x: float) -> float:
    return 0.5 * x * (1.0 + math.erf(x / math.sqrt(2.0)))


def _gelu_by_tanh(x: float) -> float:
    return 0.5 * x * (1.0 + math.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x**3)))


def _relu6(x: float) -> float:
    return min(max(x, 0.0), 6.0)


def _softplus(x: float) -> float:
    return math.log1p(math.exp(x))


_KERNELS: Final[tuple[tuple[str, str, str, _Function], ...]] = (
    ("GELU", "gelu", "{0}", _gelu),
    ("GELU", "gelu", '{0}, approximate="tanh"', _gelu_by_tanh),
    ("SiLU", "silu", "{0}", lambda x: x * _sigmoid(x)),
    ("hard swish", "hardswish", "{0}", lambda x: x * _relu6(x + 3.0) / 6.0),
    ("hard sigmoid", "hardsigmoid", "{0}", lambda x: _relu6(x + 3.0) / 6.0),
    (_MISH, "mish", "{0}", lambda x: x * math.tanh(_softplus(x))),
)
"""What it is called, torch's name, its arguments, and its values."""

_PLACES: Final = tuple(each / 7.0 for each in range(-77, 78))
_OTHERS: Final = re.compile(
    r"complex|create_graph|torch\.func\b|functorch|import func\b|autograd(?:\.| import )functional|forward_ad"
    r"|torch\.fx\b|symbolic_trace"
    r"|def (?:sigmoid|tanh|erf|pow|__mul__)\("
)
_WHOLE: Final = frozenset(
    """arange tensor randint randperm as_tensor from_numpy LongTensor IntTensor long int bool argmax argmin argsort
    ones_like zeros_like ones zeros full one_hot""".split()
)
_TOLERANCE: Final = 1e-8
"""Constants have eight digits or more."""

_OF_TENSORS: Final[dict[str, _Function]] = {"tanh": math.tanh, "erf": math.erf, "sigmoid": _sigmoid}
_FUNCTIONS: Final[dict[str, _Function]] = {
    **{f"torch.{name}": function for name, function in _OF_TENSORS.items()},
    "torch.special.erf": math.erf,
    "torch.special.expit": _sigmoid,
    "torch.nn.functional.relu6": _relu6,
    "torch.nn.functional.softplus": _softplus,
}
_NUMBERS: Final = {"math.pi": math.pi, "numpy.pi": math.pi, "torch.pi": math.pi}
_OPERATORS: Final[dict[type[ast.operator], Callable[[float, float], float]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
}


class _NoFormulaError(Exception):
    """Something that is no formula of one operand."""


@RULE.check
def check(script: Script) -> Iterator[Finding | Skipped]:
    seen: set[ast.AST] = set()
    for product in script.find(ast.BinOp):
        function = script.function(product)
        if product in seen or not isinstance(product.op, ast.Mult | ast.Div) or function is None:
            continue
        found = _kernel(script, product)
        if found is None:
            continue
        seen.update(ast.walk(product))
        title, name, arguments, operand = found
        if title == _MISH:
            yield RULE.skip(product, "it is Mish, for which torch's kernel takes longer on a CPU")
            continue
        qualified = f"torch.nn.functional.{name}"
        if (reason := _problem(script, function, product, qualified)) is not None:
            yield RULE.skip(product, reason)
            continue
        spelled, imports = script.spell(qualified)
        if _is_bound_in(function, spelled.partition(".")[0]):
            continue
        edit = Replace(product, Code(f"{spelled}({arguments})", (operand,)))
        yield RULE.finding(product, f"{title} by several kernels, each of which goes through memory", edit, *imports)


def _problem(script: Script, function: ast.AST, formula: ast.expr, kernel: str) -> str | None:
    """Why a kernel of torch may not compute what a formula of a function does."""
    parts = [script.qualname(call.func) for call in script.within(formula, ast.Call)]
    try:
        if (mention := backend_settings.mention(script, _OTHERS)) is not None:
            return f"`{mention}`: its operand may be no tensor of real numbers, or the formula itself may matter"
        if any(_gives_whole_numbers(script, call) for call in _calls_of(script, function)):
            return "it is given whole numbers, for which torch's kernel is not made"
        return monkeypatched_in_text(script, sorted({kernel, *(each for each in parts if each and "." in each)}))
    except Incomplete as incomplete:
        return str(incomplete)


def _is_bound_in(function: ast.AST, name: str) -> bool:
    """Whether a function, or one within it, has a name of its own: `def swish(x, F=1.0)`."""
    return any(
        (isinstance(each, ast.arg) and each.arg == name)
        or (isinstance(each, ast.Name) and each.id == name and not isinstance(each.ctx, ast.Load))
        for each in ast.walk(function)
    )


def _calls_of(script: Script, function: ast.AST) -> Iterator[ast.Call]:
    """The calls of a function by its name, or of objects of the class that it is the `forward` of."""
    around = script.parent(function)
    owner = around if isinstance(around, ast.ClassDef) else None
    name = getattr(function, "name", None)
    for call in script.find(ast.Call):
        if owner is None:
            if name is not None and last_name(call.func) == name:
                yield call
        elif any(value.cls is not None and value.cls.node is owner for value in script.values(call.func)):
            yield call


def _gives_whole_numbers(script: Script, call: ast.Call) -> bool:
    """`swish(torch.arange(-5, 6))`, or by a name, whichever its dtype turns out to be."""
    made = [*call.args]
    for name in (each for each in call.args if isinstance(each, ast.Name)):
        made += [each.value for each in script.definitions(name) if each.value is not None]
    return any(
        isinstance(part, ast.Compare)
        or (isinstance(part, ast.Call) and last_name(part.func) in _WHOLE and not _has_fraction(part))
        for each in made
        for part in ast.walk(each)
    )


def _has_fraction(call: ast.Call) -> bool:
    """`torch.tensor([0.5, 1.0])`"""
    return any(isinstance(part, ast.Constant) and isinstance(part.value, float) for part in ast.walk(call))


def _kernel(script: Script, formula: ast.BinOp) -> tuple[str, str, str, ast.expr] | None:
    """What torch has for a formula of one tensor, and the tensor."""
    calls = [each for each in ast.walk(formula) if isinstance(each, ast.Call)]
    if not any(_function(script, call) for call in calls):
        return None
    operands: list[ast.expr] = []
    try:
        values = [_value(script, formula, place, operands) for place in _PLACES]
    except (_NoFormulaError, ArithmeticError, ValueError):
        return None
    for title, name, arguments, function in _KERNELS:
        if _same(values, [function(place) for place in _PLACES]):
            return title, name, arguments, operands[0]
    return None


def _same(values: Sequence[float], expected: Sequence[float]) -> bool:
    return all(
        isinstance(value, float) and math.isclose(value, wanted, rel_tol=_TOLERANCE, abs_tol=_TOLERANCE)
        for value, wanted in zip(values, expected, strict=True)
    )


def _value(script: Script, node: ast.expr, place: float, operands: list[ast.expr]) -> float:
    """The value of a formula where its operand is `place`. The first operand is noted; others have to be the same."""
    match node:
        case ast.Constant(value=bool()):
            raise _NoFormulaError
        case ast.Constant(value=int() | float() as number):
            return float(number)
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            return -_value(script, inner, place, operands)
        case ast.BinOp(left=left, op=operation, right=right) if type(operation) in _OPERATORS:
            first, second = (_value(script, each, place, operands) for each in (left, right))
            result = _OPERATORS[type(operation)](first, second)
            if not isinstance(result, float):  # a complex number
                raise _NoFormulaError
            return result
        case ast.Call():
            return _called(script, node, place, operands)
        case ast.Attribute() | ast.Name() if (name := script.qualname(node)) in _NUMBERS:
            return _NUMBERS[name]
        case ast.Name():
            if not operands:
                operands.append(node)
            if ast.dump(operands[0]) != ast.dump(node):
                raise _NoFormulaError
            return place
        case _:
            raise _NoFormulaError


def _called(script: Script, call: ast.Call, place: float, operands: list[ast.expr]) -> float:
    """The value of a call within a formula: of a function of one tensor, a root of numbers, or a power."""
    if (function := _function(script, call)) is not None:
        argument = call.args[0] if call.args else call.func.value  # type: ignore[attr-defined]
        return function(_value(script, argument, place, operands))
    if call.keywords:
        raise _NoFormulaError
    match script.qualname(call.func), call.func, call.args:
        case "math.sqrt" | "numpy.sqrt", _, [of]:
            return math.sqrt(_number(script, of))
        case "torch.sqrt", _, [ast.Call(args=[of], keywords=[]) as scalar] if (
            script.qualname(scalar.func) == "torch.tensor"
        ):
            return math.sqrt(_number(script, of))
        case ("torch.pow", _, [base, exponent]) | (None, ast.Attribute(value=base, attr="pow"), [exponent]):
            power = _value(script, base, place, operands) ** _number(script, exponent)
            if isinstance(power, float):  # and not a complex number
                return power
    raise _NoFormulaError


def _number(script: Script, node: ast.expr) -> float:
    """The value of an expression without an operand."""
    operands: list[ast.expr] = []
    value = _value(script, node, 0.0, operands)
    if operands:
        raise _NoFormulaError
    return value


def _function(script: Script, call: ast.Call) -> _Function | None:
    """The function of one tensor that is called: `torch.tanh(x)`, `x.tanh()`, `F.relu6(x + 3, inplace=True)`."""
    name = script.qualname(call.func)
    of_sum = name == "torch.nn.functional.relu6" and isinstance(call.args[0] if call.args else None, ast.BinOp)
    if any(not of_sum or each.arg != "inplace" for each in call.keywords):
        return None
    if name in _FUNCTIONS and len(call.args) == 1 and not isinstance(call.args[0], ast.Starred):
        return _FUNCTIONS[name]
    if name is None and isinstance(call.func, ast.Attribute) and not call.args:
        return _OF_TENSORS.get(call.func.attr)
    return None
