"""What is added to attention scores: masks of a great number, and biases that are learned.

torch's kernel adds a mask of decimals to the scaled scores, as scripts do; a bias gets its gradients. It refuses
numbers, whole numbers and masks of one axis, and masks that make the scores larger. Where autocast is on it casts the
mask with its operands, while scripts add it to scores in float32: a number that float16 cannot hold would be infinite,
and a row that is masked as a whole would give zeros in place of the mean of all values.

A mask of four axes, one for each sample, is taken to be of as many samples as the scores.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from autoaccel.dataflow.abstract_values import Kind, Value
from autoaccel.dataflow.completeness import Incomplete
from autoaccel.dataflow.syntax_index import is_constant
from autoaccel.library_models.tensor_views import RESHAPING
from autoaccel.pytorch import backend_settings
from autoaccel.pytorch.forward_calls import forward_calls, passed_by
from autoaccel.pytorch.tensor_creation import number
from autoaccel_codemods.attention.dimensions import are_same, made_as, sizes

if TYPE_CHECKING:
    from autoaccel.analysis import Script
    from autoaccel.dataflow.definitions import Definition
    from autoaccel_codemods.attention.written_out import Attention

_UNKNOWN = "nothing shows that what is added to its scores is a mask of decimals, or a bias that is learned"
_LARGER = "nothing shows that what is added to its scores makes them no larger"
_VECTOR = "what is added to its scores may have a single axis, which torch's kernel refuses"
_SCALED = "what is added to its scores is scaled with them"
_TWICE = "its scores are masked, and something is added to them"
_LEAST, _GREATEST = 1000.0, 60000.0
"""Of a mask: less may be a bias that is computed, which low precision would round; more, with scores, may be infinite
in float16, whose greatest number is 65504."""
_OF_SIZES = frozenset(f"torch.{name}" for name in "zeros ones empty rand randn".split())
_TRIANGLES = frozenset({"torch.tril", "torch.triu"})
_LOW = re.compile(r"\b(half|float16|bfloat16|HalfTensor|BFloat16Tensor)\b")
_HIGH = re.compile(r"\b(double|float64|DoubleTensor)\b")
_MOVES = frozenset("cuda cpu contiguous clone detach long int bool".split())
_LAYOUTS = RESHAPING - {"flatten"}
_Seen = frozenset["Definition"]


def problem(script: Script, attention: Attention) -> str | None:
    """Why torch's kernel may refuse what is added, or do something else with it."""
    if attention.added is None:
        return None
    if attention.mask is not None:
        return _TWICE
    if attention.added_before_scale:
        return _SCALED
    try:
        found = _mask(script, attention.added, frozenset())
        for others in (_LOW, _HIGH) if attention.added_in_place else (_LOW,):
            if not found.is_cast and (mention := backend_settings.mention(script, others)) is not None:
                return f"what is added to its scores may be of another precision: `{mention}`"
    except Incomplete as incomplete:
        return str(incomplete)
    if not found.is_matrix:
        return _VECTOR
    fits = attention.added_in_place or _is_laid_out(script, attention)  # else torch would refuse it
    return None if fits or (found.is_per_sample and _axes(script, attention.result) == 4) else _LARGER


def has_two_axes(script: Script, mask: ast.expr, seen: _Seen = frozenset()) -> bool:
    """Whether a tensor that tells which scores are masked surely has two axes or more."""
    match mask:
        case ast.Name():
            try:
                return all(has_two_axes(file, value, known) for file, value, known in _bound(script, mask, seen))
            except Incomplete:
                return False
        case ast.IfExp(body=one, orelse=other):
            return all(is_constant(each, None) or has_two_axes(script, each, seen) for each in (one, other))
        case ast.UnaryOp(op=ast.Invert(), operand=inner) | ast.Compare(left=inner, comparators=[ast.Constant()]):
            return has_two_axes(script, inner, seen)
        case ast.Subscript(slice=index):
            return _keeps_two(index)
        case ast.Call(args=[_, _, *_]) if script.qualname(mask.func) in _OF_SIZES:
            return not any(isinstance(each, ast.Starred) for each in mask.args)
        case ast.Call(args=[_, *_]) if script.qualname(mask.func) in _TRIANGLES:
            return True
        case ast.Call(func=ast.Attribute(value=inner, attr=method)) if script.qualname(mask.func) is None:
            if method in _MOVES | {"to", "eq", "ne", "logical_not"}:
                return has_two_axes(script, inner, seen)
            if method == "unsqueeze":
                is_inner = len(mask.args) == 1 and number(mask.args[0]) not in (0, -1, None)
                return is_inner or has_two_axes(script, inner, seen)
            return method in ("tril", "triu") or (method in ("view", "reshape") and len(mask.args) > 1)
        case _:
            return False


class _Added(NamedTuple):
    """What is known of a tensor of decimals that is added to scores.

    Attributes:
        is_tensor: Whether it surely is one, and no array.
        is_cast: Whether it surely has the precision of float32, or of the model.
        is_matrix: Whether it surely has two axes or more.
        is_per_sample: Whether it is one mask for each sample: the second and third of four axes are of size one.
    """

    is_tensor: bool = True
    is_cast: bool = False
    is_matrix: bool = False
    is_per_sample: bool = False


def _all(found: Iterable[_Added]) -> _Added:
    """What is known of each of several."""
    return _Added(*map(all, zip(*found, strict=True)))


def _mask(script: Script, expression: ast.expr, seen: _Seen) -> _Added:
    """A mask of a great number, or a bias. Raises `Incomplete` where it may be something else."""
    match expression:
        case ast.Name():
            return _all(_mask(file, value, known) for file, value, known in _bound(script, expression, seen))
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            great, masked = (left, right) if number(left) is not None else (right, left)
            return _product(script, great, masked, seen)
        case ast.Call(func=ast.Attribute(value=inner, attr="to" | "float")) if _casts(script, expression):
            return _mask(script, inner, seen)._replace(is_cast=True)
        case ast.Call(func=ast.Attribute(value=inner, attr="unsqueeze"), args=[axis]):
            before = _mask(script, inner, seen)
            is_matrix = before.is_matrix or number(axis) not in (0, -1, None)
            return before._replace(is_matrix=is_matrix, is_per_sample=False)
        case ast.Call(func=ast.Attribute(value=inner, attr="contiguous"), args=[]):
            return _mask(script, inner, seen)
        case ast.Call(func=ast.Attribute(value=inner, attr=method), args=[_, _, *_]) if method in _LAYOUTS:
            return _mask(script, inner, seen)._replace(is_matrix=True, is_per_sample=False)
        case ast.Subscript(value=inner, slice=index):
            return _mask(script, inner, seen)._replace(is_matrix=_keeps_two(index), is_per_sample=False)
        case ast.Call(func=layer, args=[_]) if made_as(script, layer, {"torch.nn.Embedding"}):
            return _Added(is_cast=True)
        case _ if script.kind(expression) is Kind.PARAMETER:
            return _Added(is_cast=True, is_matrix=_has_sizes(script, expression))
        case _:
            raise Incomplete(_UNKNOWN)


def _product(script: Script, great: ast.expr, masked: ast.expr, seen: _Seen) -> _Added:
    """`(1.0 - mask) * -10000.0`, `padding * -10000.0`."""
    value = number(great)
    if value is None or abs(value) < _LEAST:
        raise Incomplete(_UNKNOWN)
    if abs(value) > _GREATEST:
        raise Incomplete(f"`{script.source(great)}` may be infinite in float16, to which autocast casts masks")
    is_decimal = isinstance(value, float)
    match masked:
        case ast.BinOp(left=one, op=ast.Sub(), right=inner) if number(one) == 1:
            masked, is_decimal = inner, is_decimal or isinstance(number(one), float)
    marks = _marks(script, masked, seen)
    if not marks.is_tensor or not (is_decimal or marks.is_cast):
        raise Incomplete(_UNKNOWN)
    return marks


def _marks(script: Script, marks: ast.expr, seen: _Seen) -> _Added:
    """The tensor that tells which places are masked."""
    match marks:
        case ast.Name():
            return _all(_marks(file, value, known) for file, value, known in _bound(script, marks, seen))
        case ast.Call(func=ast.Attribute(value=inner, attr="to" | "float")):
            is_cast, before = _casts(script, marks), _marks(script, inner, seen)
            is_cast = is_cast or (before.is_cast and _moves(script, marks))
            return before._replace(is_tensor=True, is_cast=is_cast)
        case ast.Call(func=ast.Attribute(value=inner, attr=method)) if method in _MOVES:
            return _marks(script, inner, seen)._replace(is_tensor=True)
        case ast.Call(func=ast.Attribute(value=inner, attr="unsqueeze"), args=[second]):
            match inner:
                case ast.Call(func=ast.Attribute(attr="unsqueeze"), args=[first]):
                    per_sample = (number(first), number(second)) in ((1, 2), (1, 1))
                    return _Added(is_matrix=True, is_per_sample=per_sample)
            return _Added(is_matrix=number(second) not in (0, -1, None))
        case ast.Subscript(slice=ast.Tuple(elts=index) as slices) if any(is_constant(each, None) for each in index):
            per_sample = ast.unparse(slices) in (":, None, None, :", "(:, None, None, :)")
            is_tensor = script.values(marks).kinds <= {Kind.TENSOR, Kind.BATCH}
            return _Added(is_tensor, is_matrix=_keeps_two(slices), is_per_sample=per_sample)
        case ast.Compare(ops=[ast.Eq() | ast.NotEq()]) | ast.UnaryOp(op=ast.Invert()):
            if script.kind(marks) is Kind.TENSOR:
                return _Added()
    if not script.values(marks).kinds <= {Kind.TENSOR, Kind.BATCH}:
        raise Incomplete(_UNKNOWN)
    return _Added()


def _casts(script: Script, call: ast.Call) -> bool:
    """Whether a method casts to float32, or to the precision of the model: `to(dtype=self.dtype)`."""
    match call:
        case ast.Call(func=ast.Attribute(attr="float"), args=[], keywords=[]):
            return True
        case ast.Call(args=[dtype], keywords=[]) | ast.Call(args=[], keywords=[ast.keyword(arg="dtype", value=dtype)]):
            of_model = isinstance(dtype, ast.Attribute) and dtype.attr == "dtype"
            return of_model or script.qualname(dtype) in ("torch.float32", "torch.float")
        case _:
            return False


def _moves(script: Script, call: ast.Call) -> bool:
    return len(call.args) == 1 and script.kind(call.args[0]) is Kind.DEVICE


def _keeps_two(index: ast.expr) -> bool:
    """Whether what is taken of a tensor surely has two axes or more: `[:, None]`, `[:, :n, :n]`."""
    parts = index.elts if isinstance(index, ast.Tuple) else [index]
    return sum(isinstance(each, ast.Slice) or is_constant(each, None) for each in parts) > 1


def _has_sizes(script: Script, parameter: ast.expr) -> bool:
    """`nn.Parameter(torch.zeros(1, heads, n, n))`"""
    return all(_is_of_sizes(value) for value in script.values(parameter) if value.kind is Kind.PARAMETER)


def _is_of_sizes(parameter: Value) -> bool:
    match parameter.script, parameter.node:
        case file, ast.Call(args=[ast.Call(args=[_, _, *_]) as made, *_]) if file is not None:
            return file.qualname(made.func) in _OF_SIZES
        case _:
            return False


def _bound(script: Script, name: ast.Name, seen: _Seen) -> list[tuple[Script, ast.expr, _Seen]]:
    """What a name stands for, through the parameters of functions and of modules."""
    found: list[tuple[Script, ast.expr, _Seen]] = []
    for each in script.definitions(name):
        known = seen | {each}
        function = each.scope.node
        if each.how == "assign" and each.value is not None and not each.path and each not in seen:
            found.append((script, each.value, known))
        elif each.how == "param" and isinstance(function, ast.FunctionDef) and not each.path and each not in seen:
            for other, call in forward_calls(script, function):
                file, given = passed_by(script, each, other, call)
                found.append((file, given, known))
        else:
            raise Incomplete(_UNKNOWN)
    tensors = [each for each in found if not is_constant(each[1], None)]  # a None is added to nothing
    if not tensors:
        raise Incomplete(_UNKNOWN)
    return tensors


def _is_laid_out(script: Script, attention: Attention) -> bool:
    """Whether the result is laid out by the sizes of the query: of larger scores it would have more elements, which
    torch refuses."""
    given = sizes(script, attention.query)
    laid_out = _layout(script, attention.result)
    if given is None or laid_out is None or len(given) != 4 or len(laid_out) != 3:
        return False
    explicit = all(not isinstance(each, ast.Starred) and number(each) is None for each in laid_out)
    return explicit and are_same(script, given[0], laid_out[0]) and are_same(script, given[2], laid_out[1])


def _use(script: Script, result: ast.expr) -> ast.expr:
    """The one read of the name that a result is given, or the result itself."""
    match script.parent(result):
        case ast.Assign(targets=[ast.Name() as name]):
            uses = [use for each in script.definitions(name) for use in script.uses(each)]
            return uses[0] if len(uses) == 1 else result
        case _:
            return result


def _methods(script: Script, result: ast.expr) -> list[ast.Call]:
    """The calls in `result.transpose(1, 2).contiguous().view(B, T, C)`, the first one first."""
    found: list[ast.Call] = []
    node = _use(script, result)
    while isinstance(method := script.parent(node), ast.Attribute) and (call := script.call_of(method)) is not None:
        found.append(call)
        node = _use(script, call)
    return found


def _layout(script: Script, result: ast.expr) -> list[ast.expr] | None:
    match _methods(script, result):
        case [
            ast.Call(func=ast.Attribute(attr="transpose"), args=[first, second]),
            *between,
            ast.Call(func=ast.Attribute(attr="view" | "reshape"), args=laid_out),
        ] if {number(first), number(second)} == {1, 2}:
            plain = all(isinstance(each.func, ast.Attribute) and each.func.attr == "contiguous" for each in between)
            return laid_out if plain else None
        case _:
            return None


def _axes(script: Script, result: ast.expr) -> int | None:
    """How many axes a result surely has, as its order is spelled out."""
    match _methods(script, result):
        case [ast.Call(func=ast.Attribute(attr="permute"), args=order), *_] if all(
            number(each) is not None for each in order
        ):
            return len(order)
        case _:
            return None
