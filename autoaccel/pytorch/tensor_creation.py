"""Tensors that a factory makes on the host, and the operations that every device performs bit for bit alike."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass, field

from autoaccel.analysis.script import Script
from autoaccel.dataflow.abstract_values import Kind
from autoaccel.dataflow.call_arguments import given_as
from autoaccel.dataflow.syntax_index import is_constant
from autoaccel.edits import AddImport, Code, Tier
from autoaccel.library_models.tensor_operations import DRAWING, DRAWING_IN_PLACE, FILLING, ROUNDED
from autoaccel.library_models.tensor_views import RESHAPING
from autoaccel.pytorch.integers import integral
from autoaccel.pytorch.tensor_kinds import is_tensor
from autoaccel.pytorch.tensor_type_aliases import tensor_type

_FACTORIES = FILLING | ROUNDED | DRAWING
FOLDING = frozenset({"torch.zeros", "torch.ones", "torch.empty", "torch.eye"})
"""Factories whose values are the same in every type, so that a cast may become their `dtype=`."""

_SHAPED = RESHAPING | frozenset("repeat contiguous tril triu clone detach tile".split())
FILLING_IN_PLACE = DRAWING_IN_PLACE | {"fill_", "zero_", "fill_diagonal_"}
_CASTS = frozenset({"float", "double", "half", "bfloat16", "long", "int", "short", "byte", "bool"})
_FUNCTIONS = frozenset(f"torch.{name}" for name in ("tril", "triu", *(RESHAPING - {"view", "t"})))
_NO_LEAF = "the moved tensor is not the leaf that requires_grad makes"
REBOUND = 4  # how often a name is bound anew on the way
_INTEGERS = frozenset(f"torch.{name}" for name in ("long", "int", "int64", "int32", "short", "int16", "uint8", "int8"))


Bound = Callable[[ast.Name], tuple[ast.expr, list[ast.Call]] | None]
"""What a name stands for, and the calls that fill it before it is read, the last one first."""


@dataclass(frozen=True, slots=True, eq=False)
class Cast:
    """`.long()`, `.to(torch.long)` or `.type(torch.long)`."""

    call: ast.Call

    def dtype(self, script: Script, factory: ast.expr) -> tuple[Code, tuple[AddImport, ...]]:
        """The type, as `dtype=` of this factory takes it."""
        if self.call.args:
            return Code("{0}", (self.call.args[0],)), ()
        assert isinstance(self.call.func, ast.Attribute)
        name = {"byte": "uint8"}.get(self.call.func.attr, self.call.func.attr)
        text, imports = script.spell(f"torch.{name}", factory)
        return Code(text), imports


@dataclass(slots=True, eq=False)
class Creation:
    """A factory call and what happens to its result before the place that was asked about.

    `casts` outermost first; `fills` are the calls that fill values in or draw them after the creation; `variables`
    are `Variable(…)` wrappers on the way; `problem` says why the tensor cannot be created elsewhere.
    """

    call: ast.Call
    name: str
    tier: Tier
    casts: list[Cast] = field(default_factory=list)
    fills: list[ast.Call] = field(default_factory=list)
    variables: list[ast.Call] = field(default_factory=list)
    problem: str | None = None

    def has(self, keyword: str) -> bool:
        return any(each.arg == keyword for each in self.call.keywords)

    def cast_of_factory(self) -> Cast | None:
        """The only cast, when it is applied to the factory's own result."""
        if len(self.casts) != 1:
            return None
        cast = self.casts[0]
        return cast if isinstance(cast.call.func, ast.Attribute) and cast.call.func.value is self.call else None


def comes_from_factory(script: Script, expression: ast.expr, depth: int = 0) -> bool:
    """Whether there may be a `creation`: told by names alone, without asking what values there are. Names are followed
    as often as `depth` says."""
    node = expression
    while True:
        match node:
            case ast.Call(func=function, args=arguments):
                name = script.qualname(function)
                if name is None:
                    if not isinstance(function, ast.Attribute):
                        return False
                    node = function.value
                elif name.removeprefix("torch.") in _FACTORIES or tensor_type(script, function) is not None:
                    return True
                elif arguments:
                    node = arguments[0]
                else:
                    return False
            case ast.Subscript(value=inner):
                node = inner
            case ast.BinOp(left=left, right=right):
                node = right if isinstance(left, ast.Constant) else left
            case ast.Name() if depth:
                bound = (each.value for each in script.definitions(node))
                return any(each is not None and comes_from_factory(script, each, depth - 1) for each in bound)
            case _:
                return False


def creation(script: Script, expression: ast.expr, bound: Bound | None = None) -> Creation | None:
    """The factory that an expression's value comes from; None when none is in sight. `bound` tells what a name stands
    for; without it names are not followed."""
    if not comes_from_factory(script, expression, 0 if bound is None else REBOUND):
        return None
    casts: list[Cast] = []
    variables: list[ast.Call] = []
    fills: list[ast.Call] = []
    problem: str | None = None
    node = expression
    while True:
        match node:
            case ast.Call(func=function) if (made := _factory(script, node)) is not None:
                made.casts, made.variables, made.fills = casts, variables, fills
                made.problem = made.problem or problem
                filled = {each.func.attr for each in fills if isinstance(each.func, ast.Attribute)}
                if not filled.isdisjoint(DRAWING_IN_PLACE):
                    made.tier = max(made.tier, Tier.EQUIVALENT)
                    if any(keyword.arg == "generator" for each in fills for keyword in each.keywords):
                        made.problem = made.problem or "a generator of the host is given"
                    if any(_may_draw_by_tensor(each) for each in fills):
                        made.problem = made.problem or "it is drawn by what may be a tensor on the host"
                if is_of_sizes(script, made.call):
                    if not filled - {"fill_diagonal_"}:
                        return None
                    if casts:
                        made.problem = made.problem or "it is cast to another type on the host"
                return made
            case ast.Call(func=function, args=[inner, *_]) if (name := script.qualname(function)) is not None:
                if name == "torch.autograd.Variable":
                    problem = problem or (None if is_plain_variable(script, node) else _NO_LEAF)
                    variables.append(node)
                elif name not in _FUNCTIONS:
                    if script.kind(node) not in (Kind.TENSOR, Kind.PARAMETER):
                        return None
                    runs = f"`{script.source(function)}` in between would run on the device and may round differently"
                    problem = problem or (_NO_LEAF if name == "torch.nn.Parameter" else runs)
                node = inner
            case ast.Call(func=ast.Attribute(value=inner, attr=attribute)):
                if _is_cast(script, node):
                    casts.append(Cast(node))
                elif attribute in FILLING_IN_PLACE:
                    fills.append(node)
                elif attribute in ("to", "cuda", "cpu", "numpy", "type_as", "type", "item", "tolist"):
                    return None
                elif attribute not in _SHAPED:
                    problem = problem or _between(attribute)
                node = inner
            case ast.Subscript(value=inner, slice=index):
                if not _adds_axes(index):
                    problem = problem or "a part of it is taken on the host before the move"
                node = inner
            case ast.Name() if bound is not None and (binding := bound(node)) is not None:
                node = binding[0]
                fills += binding[1]
            case ast.BinOp(left=left, right=right):
                problem = problem or "arithmetic in between would run on the device and may round differently"
                node = right if isinstance(left, ast.Constant) else left
            case _:
                return None


def is_plain_variable(script: Script, call: ast.Call) -> bool:
    """`Variable(x)` and `Variable(x, requires_grad=False)`: the tensor itself since 0.4."""
    return (
        script.qualname(call.func) == "torch.autograd.Variable"
        and len(call.args) == 1
        and all(each.arg == "requires_grad" and is_constant(each.value, False) for each in call.keywords)
    )


def _may_draw_by_tensor(fill: ast.Call) -> bool:
    """`h.bernoulli_(shares)`, which has to be where `h` is."""
    given = [*fill.args, *(each.value for each in fill.keywords)]
    return getattr(fill.func, "attr", "") == "bernoulli_" and any(number(each) is None for each in given)


def _between(attribute: str) -> str:
    if attribute.startswith("requires_grad"):
        return _NO_LEAF
    if attribute.startswith("expand"):
        return "an expanded tensor shares memory between its elements, a moved copy does not"
    if attribute in ("pin_memory", "share_memory_"):
        return f"`.{attribute}()` makes it a buffer on the host"
    return f"`.{attribute}()` in between would run on the device and may round differently"


def _is_cast(script: Script, call: ast.Call) -> bool:
    assert isinstance(call.func, ast.Attribute)
    if call.func.attr in _CASTS:
        return not call.args and not call.keywords
    return (
        call.func.attr in ("to", "type")
        and len(call.args) == 1
        and not call.keywords
        and script.kind(call.args[0]) is Kind.DTYPE
    )


def _adds_axes(index: ast.expr) -> bool:
    """`[None]`, `[..., None]`, `[:, None]`: the same elements under one more axis."""
    parts = index.elts if isinstance(index, ast.Tuple) else [index]
    return all(
        (isinstance(part, ast.Constant) and part.value in (None, ...))
        or (isinstance(part, ast.Slice) and part.lower is part.upper is part.step is None)
        for part in parts
    )


def _factory(script: Script, call: ast.Call) -> Creation | None:
    """A factory call, with what forbids to add `device=` to it."""
    name = script.qualname(call.func)
    if name is None:
        return None
    short = name.removeprefix("torch.") if name.count(".") == 1 else ""
    legacy = tensor_type(script, call.func)
    if legacy is not None:
        if is_of_sizes(script, call):
            return None if legacy.cuda else Creation(call, "torch.empty", Tier.EXACT)
        literal = len(call.args) == 1 and isinstance(call.args[0], ast.List) and not call.keywords
        return Creation(call, "torch.tensor", Tier.EXACT) if literal and not legacy.cuda else None
    if short in DRAWING:
        tier = Tier.EQUIVALENT
    elif short in ROUNDED or (short == "arange" and not integral_range(script, call)):
        tier = Tier.NUMERICS
    elif short in FILLING:
        tier = Tier.EXACT
    else:
        return None
    problem = _refusal(call, short)
    if problem is None and tier is Tier.NUMERICS and _is_integral(script, call):
        problem = "whole numbers are cut off where the device may round differently"
    return Creation(call, name, tier, problem=problem)


def is_of_sizes(script: Script, call: ast.Call) -> bool:
    """`torch.FloatTensor(8, 3)`, `torch.FloatTensor(x.shape)`: of memory whose numbers come later."""
    if tensor_type(script, call.func) is None or call.keywords or not call.args:
        return False
    match call.args:
        case [
            ast.Attribute(value=tensor, attr="shape") | ast.Call(func=ast.Attribute(value=tensor, attr="size"), args=[])
        ]:
            return is_tensor(script, tensor)
        case sizes:
            return all(isinstance(each, ast.Starred) or integral(script, each) for each in sizes)


def _is_integral(script: Script, call: ast.Call) -> bool:
    dtype = given_as(call, "dtype")
    return dtype is not None and script.qualname(dtype) in _INTEGERS


def _refusal(call: ast.Call, short: str) -> str | None:
    if any(each.arg is None for each in call.keywords):
        return "a device may be among its **kwargs"
    for keyword in call.keywords:
        match keyword.arg:
            case "requires_grad" if not is_constant(keyword.value, False):
                return _NO_LEAF
            case "generator":
                return "a generator of the host is given"
            case "pin_memory" if not is_constant(keyword.value, False):
                return "pin_memory makes it a staging buffer on the host"
            case "out" | "names" | "layout":
                return f"`{keyword.arg}=` is given"
            case "device":
                return "a device is given already"
    if short == "normal" and len(call.args) != 3 and not any(each.arg == "size" for each in call.keywords):
        return "without a size, its tensors decide where it is made"
    return None


def integral_range(script: Script, call: ast.Call) -> bool:
    """Whether `arange` counts in whole numbers, which every device does alike."""
    return _is_integral(script, call) or all(integral(script, each) for each in bounds(call))


def bounds(call: ast.Call) -> list[ast.expr]:
    """What `arange` is given: start, end and step, as far as they are."""
    return [*call.args, *(each.value for each in call.keywords if each.arg in ("start", "end", "step"))]


def number(expression: ast.expr) -> float | None:
    """The number that an expression of literals spells; None where it is none, or not known."""
    match expression:
        case ast.Constant(value=int() | float() as value):
            return value
        case ast.UnaryOp(op=ast.USub(), operand=operand) if (positive := number(operand)) is not None:
            return -positive
        case ast.BinOp(op=ast.Div(), left=left, right=right):
            above, below = number(left), number(right)
            return above / below if above is not None and below else None
        case _:
            return None
