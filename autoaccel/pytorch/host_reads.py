"""Where the host reads what is in a tensor, without a method that says so: tests, conversions, texts, sizes, masks,
and operations of torch that have to."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from autoaccel.dataflow.abstract_values import Kind, Value
from autoaccel.dataflow.call_arguments import given_as, given_values, unpacks
from autoaccel.dataflow.query import fixpoint
from autoaccel.dataflow.syntax_index import is_constant, last_name
from autoaccel.library_models.tensor_operations import NO_TENSOR
from autoaccel.library_models.tensor_views import VIEW_METHODS
from autoaccel.library_models.waiting_operations import (
    CHECKED_ON_THE_HOST,
    CHECKED_ON_THE_HOST_METHODS,
    NO_SIZES,
    SHAPED_BY_VALUES,
    SHAPED_BY_VALUES_METHODS,
    SIZED,
    SIZED_BY_OTHERS,
    SIZED_METHODS,
)
from autoaccel.pytorch.integers import integral

if TYPE_CHECKING:
    from autoaccel.analysis.script import Script

_CONVERTING = frozenset({"int", "float", "bool", "complex", "str", "repr", "format"})
_COMPARING = frozenset({"min", "max", "any", "all", "sorted"})
_REDUCTIONS = frozenset("any all sum mean max min amax amin prod norm".split())
_PLAIN = (NO_TENSOR | {"type", "get_device"}) - {"any", "all", "equal", "allclose", "is_nonzero"}
_MASKS = frozenset(
    """eq ne gt lt ge le isnan isinf isfinite isclose isin logical_and logical_or logical_not logical_xor bool signbit
    BoolTensor any all""".split()
)
_PASSING_ON = VIEW_METHODS | frozenset("to cuda cpu contiguous clone detach".split())
_OF_ARRAYS = frozenset(f"torch.{name}" for name in ("tensor", "as_tensor", "from_numpy"))
_MEMBERSHIP = ast.In | ast.NotIn
_IDENTITY = ast.Is | ast.IsNot | ast.In | ast.NotIn
_NAMED_MASK = "mask"

READING = (
    *(ast.If, ast.IfExp, ast.While, ast.Assert, ast.BoolOp, ast.UnaryOp, ast.comprehension, ast.Call),
    *(ast.Compare, ast.BinOp, ast.FormattedValue, ast.Slice, ast.Subscript),
)
"""What `read_by` finds something for."""


def read_by(script: Script, node: ast.AST) -> ast.expr | None:
    """The tensor whose value is asked for by a test, a conversion, a text or a size: `if x.any()`, `int(x.sum())`,
    `f"{x}"`, `y[:n]`; None where none surely is one, or is reduced like one."""
    asked = _asked(script, node)
    told = gives_tensor, _is_reduced, _is_of_buffer
    return next((each for each in asked if any(is_one(script, each) for is_one in told)), None)


def _is_of_buffer(script: Script, expression: ast.expr) -> bool:
    """`self.pointer`, or an element of it, after `self.register_buffer("pointer", torch.zeros(1))`."""
    owner = expression
    while isinstance(owner, ast.Subscript):
        owner = owner.value
    if not isinstance(owner, ast.Attribute) or script.enclosing_class(owner) is None:
        return False
    given = (call.args[0] for call in script.syntax_index.calls_named("register_buffer") if call.args)
    return any(isinstance(each, ast.Constant) and each.value == owner.attr for each in given)


def _is_reduced(script: Script, expression: ast.expr) -> bool:
    """`x.any()`, `x.max() + 1`, and a name for one, of what is not known: few objects but tensors have such methods."""
    pending = [expression]
    for each in pending:
        match each:
            case ast.Call(func=ast.Attribute(value=owner, attr=method)) if method in _REDUCTIONS:
                unknown = Kind.UNKNOWN in script.values(owner).kinds
                if unknown and script.qualname(each.func) is None and not script.callees(each):
                    return True
            case ast.BinOp(left=left, right=right):
                pending += [left, right]
            case ast.Name():
                bound = (definition.value for definition in script.definitions(each))
                pending += [value for value in bound if value is not None and value not in pending]
    return False


def _asked(script: Script, node: ast.AST) -> Iterator[ast.expr]:
    match node:
        case ast.If(test=test) | ast.IfExp(test=test) | ast.While(test=test) | ast.Assert(test=test):
            yield from test.values if isinstance(test, ast.BoolOp) else [test]
        case ast.BoolOp(values=[*tests, _]):
            yield from tests
        case ast.UnaryOp(op=ast.Not(), operand=test):
            yield test
        case ast.comprehension(ifs=tests):
            yield from tests
        case ast.Compare(left=left, ops=[operator], comparators=[right]) if isinstance(operator, _MEMBERSHIP):
            yield from (left, *right.elts) if isinstance(right, ast.List | ast.Tuple) else (right,)
        case ast.Compare(left=left, ops=[_, _, *_], comparators=[right, *_]):  # the first asks for its truth
            yield from (left, right)
        case ast.FormattedValue(value=shown) if not is_of_an_error(script, node):
            yield shown
        case ast.BinOp(left=ast.Constant(value=str()), op=ast.Mod(), right=shown) if not is_of_an_error(script, node):
            yield from shown.elts if isinstance(shown, ast.Tuple) else (shown,)
        case ast.Slice(lower=lower, upper=upper, step=step):
            yield from (each for each in (lower, upper, step) if each is not None)
        case ast.Subscript(value=sequence, slice=index) if script.values(sequence).kinds == {Kind.SEQUENCE}:
            yield index
        case ast.Call():
            yield from _asked_by_call(script, node)


def is_of_an_error(script: Script, text: ast.AST) -> bool:
    """Whether a text is made only where the program ends: `raise ValueError(f"{x}")`."""
    child = text
    for each in script.ancestors(text):
        if isinstance(each, ast.Raise) or (isinstance(each, ast.Assert) and child is each.msg):
            return True
        child = each
    return False


def _asked_by_call(script: Script, call: ast.Call) -> Iterator[ast.expr]:
    name = script.qualname(call.func) or ""
    match call.func:
        case ast.Name(id="range") as function if not script.definitions(function):
            yield from call.args
        case ast.Name(id=builtin) as function if builtin in _CONVERTING | _COMPARING and len(call.args) == 1:
            if not script.definitions(function):
                yield from call.args
        case ast.Name(id="min" | "max") as function if not script.definitions(function):
            yield from call.args
        case ast.Attribute(value=ast.Constant(value=str()), attr="format") if not is_of_an_error(script, call):
            yield from given_values(call)
        case ast.Attribute(attr=method) if method in SIZED_METHODS and not name and not script.callees(call):
            yield from _sizes(call, call.args)
        case _ if name.startswith("math."):
            yield from call.args
        case _ if name in SIZED:
            yield from _sizes(call, call.args)
        case _ if name in SIZED_BY_OTHERS:
            yield from _sizes(call, call.args[1:])


def _sizes(call: ast.Call, positional: Sequence[ast.expr]) -> Iterator[ast.expr]:
    """What stands where an operation takes numbers and shapes."""
    named = [each.value for each in call.keywords if each.arg not in NO_SIZES | {"input"}]
    for each in (*positional, *named):
        yield from each.elts if isinstance(each, ast.Tuple | ast.List) else (each,)


def is_shaped_by_values(script: Script, call: ast.Call) -> bool:
    """Whether the shape of what an operation makes depends on values, which the host has to read: `x.nonzero()`,
    `torch.where(x > 0)`, `F.one_hot(labels)`."""
    name = script.qualname(call.func)
    if name is not None:
        return name in SHAPED_BY_VALUES or _is_shaped_by_what_it_is_given(script, call, name)
    if not isinstance(call.func, ast.Attribute) or script.callees(call):
        return False
    method = call.func.attr
    return method in SHAPED_BY_VALUES_METHODS or (
        method == "repeat_interleave" and _is_repeated_by_values(script, call, call.args)
    )


def _is_shaped_by_what_it_is_given(script: Script, call: ast.Call, name: str) -> bool:
    match name:
        case "torch.nn.functional.one_hot":
            classes = call.args[1] if len(call.args) > 1 else given_as(call, "num_classes")
            return classes is None or ast.unparse(classes) == "-1"
        case "torch.where":
            return unpacks(call) or len(given_values(call)) == 1
        case "torch.repeat_interleave":
            return _is_repeated_by_values(script, call, call.args[1:])
        case _:
            return False


def _is_repeated_by_values(script: Script, call: ast.Call, rest: Sequence[ast.expr]) -> bool:
    """Whether it is a tensor that tells how often, and not what comes of it."""
    repeats = rest[0] if rest else given_as(call, "repeats")
    if given_as(call, "output_size") is not None:
        return False
    return repeats is None or not (script.kind(repeats) is Kind.NUMBER or integral(script, repeats))


def is_checked_on_the_host(script: Script, call: ast.Call) -> bool:
    """Whether the host waits to learn how an operation went, or what it found: `torch.linalg.inv(x)`,
    `torch.equal(x, y)`, `torch.histc(x)` without a range, distributions that check what they are given."""
    name = script.qualname(call.func)
    method = call.func.attr if name is None and isinstance(call.func, ast.Attribute) else None
    match name or method:
        case "torch.histc":
            return len(call.args) < 3 and given_as(call, "min") is None and given_as(call, "max") is None
        case "histc":
            return len(call.args) < 2 and given_as(call, "min") is None and given_as(call, "max") is None
        case "torch.norm" | "torch.linalg.norm" | "torch.linalg.matrix_norm" | "norm":
            return any(_is_of_singular_values(each, name) for each in given_values(call))
        case "log_prob":
            return not script.callees(call)
    if name is None:
        return method in CHECKED_ON_THE_HOST_METHODS and not script.callees(call)
    if name.startswith("torch.distributions.") and name.rpartition(".")[2][:1].isupper():
        checks = given_as(call, "validate_args")
        return checks is None or not is_constant(checks, False)
    return name in CHECKED_ON_THE_HOST


def _is_of_singular_values(order: ast.expr, name: str | None) -> bool:
    of_matrices = ("'nuc'", "2", "-2") if name == "torch.linalg.matrix_norm" else ("'nuc'",)
    return ast.unparse(order) in of_matrices


def gives_tensor(script: Script, expression: ast.expr) -> bool:
    """Whether an expression surely gives a tensor, rather than what Python knows of one: `x.dim() > 2`, `x is None`."""
    values = script.values(expression)
    return bool(values) and all(_has_elements(value) for value in values.unordered())


def _has_elements(value: Value) -> bool:
    if value.kind is not Kind.TENSOR:
        return value.kind is Kind.PARAMETER
    match value.node:
        case ast.Compare(left=left, ops=[operator], comparators=[right]):
            told = isinstance(operator, _IDENTITY) or is_constant(right, None)
            sides = [side for each in (left, right) if value.script for side in value.script.values(each).unordered()]
            return not told and all(_has_elements(side) for side in sides if side.kind is Kind.TENSOR)
        case ast.Call(func=function):
            return last_name(function) not in _PLAIN
        case _:
            return True


@fixpoint(nothing=False, anything=True)
def is_mask(script: Script, index: ast.expr) -> bool:
    """Whether an index may be a tensor of booleans, by which as many elements are chosen as are true in it; of what is
    not known, a comparison is taken for one, and what is called a mask."""
    values = script.values(index)
    if any(_has_elements(value) and _has_booleans(value) for value in values.unordered()):
        return True
    if values.kinds.isdisjoint({Kind.UNKNOWN, Kind.BATCH}):
        return False
    given = [each.value for each in script.definitions(index)] if isinstance(index, ast.Name) else [index]
    compared = any(isinstance(each, ast.Compare) and not isinstance(each.ops[0], _IDENTITY) for each in given)
    return compared or _is_named_mask(index)


def _is_named_mask(index: ast.expr) -> bool:
    while isinstance(index, ast.UnaryOp) and isinstance(index.op, ast.Invert):
        index = index.operand
    return isinstance(index, ast.Name | ast.Attribute) and _NAMED_MASK in last_name(index).lower()


def _has_booleans(value: Value) -> bool:
    script = value.script
    match value.node:
        case ast.Compare():
            return True
        case ast.BinOp(left=left, op=ast.BitAnd() | ast.BitOr()) | ast.UnaryOp(op=ast.Invert(), operand=left):
            return script is not None and is_mask(script, left)
        case ast.Call(func=function, args=args, keywords=keywords):
            if any(each.arg == "dtype" for each in keywords):
                return any(each.arg == "dtype" and last_name(each.value) == "bool" for each in keywords)
            if last_name(function) in _MASKS:
                return True
            if script is None:
                return False
            if args and script.qualname(function) in _OF_ARRAYS:
                return is_mask(script, args[0])
            if any(script.kind(each) is Kind.DTYPE for each in args):
                return any(last_name(each) == "bool" for each in args)
            if isinstance(function, ast.Attribute) and function.attr in _PASSING_ON:
                return is_mask(script, function.value)
            return False
        case _:
            return False


def masks(script: Script, subscript: ast.Subscript) -> bool:
    """Whether a mask is among the indices: `x[y > 0]`, `x[0, mask]`."""
    indices = subscript.slice.elts if isinstance(subscript.slice, ast.Tuple) else [subscript.slice]
    kinds = script.values(subscript.value).kinds
    may_be_tensor = gives_tensor(script, subscript.value) or not kinds.isdisjoint({Kind.UNKNOWN, Kind.BATCH})
    return may_be_tensor and any(is_mask(script, each) for each in indices)
