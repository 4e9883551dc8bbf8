"""Masks that let each place see itself and what is before it."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from autoaccel.analysis.classes import lineage
from autoaccel.dataflow.call_arguments import given_as
from autoaccel.dataflow.syntax_index import is_constant, last_name
from autoaccel.pytorch.tensor_creation import number
from autoaccel_codemods.attention.dimensions import are_same, sizes

if TYPE_CHECKING:
    from autoaccel.analysis import Script
    from autoaccel.dataflow.abstract_values import ClassRef
    from autoaccel_codemods.attention.written_out import Attention

_SAME_PLACES = frozenset("to bool contiguous byte type float int long".split())


def is_lower_triangle(script: Script, mask: ast.expr | None) -> bool:
    """Whether a mask is where a square part of a lower triangle of ones is zero: no row is masked as a whole."""
    return mask is not None and _triangle(script, mask) is not None


def is_causal(script: Script, attention: Attention) -> bool:
    """Whether that square surely has the sizes of query and key."""
    length = None if attention.mask is None else _triangle(script, attention.mask)
    axes = [sizes(script, each) for each in (attention.query, attention.key)]
    return length is not None and all(each is not None and are_same(script, each[-2], length) for each in axes)


def unread_buffer(script: Script, attention: Attention) -> ast.stmt | None:
    """The statement that registers such a mask, where nothing but this attention reads it: it is part of the model's
    state all the same."""
    match attention.mask:
        case ast.Compare(left=ast.Subscript(value=ast.Attribute(value=owner) as mask)):
            pass
        case _:
            return None
    named = [each for file in script.project.related(script) for each in file.find(ast.Attribute)]
    if any(each.attr == mask.attr and each is not mask for each in named):
        return None
    refs = {ref for value in script.values(owner) if value.cls is not None for ref in lineage(value.cls)}
    calls = [call for ref in refs if ref.script is script for call in script.within(ref.node, ast.Call)]
    made = [script.parent(call) for call in calls if _registers(call, mask.attr)]
    return made[0] if len(made) == 1 and isinstance(made[0], ast.Expr) else None


def _registers(call: ast.Call, name: str) -> bool:
    match call:
        case ast.Call(
            func=ast.Attribute(value=ast.Name(), attr="register_buffer"), args=[ast.Constant(value=str() as given), *_]
        ):
            return given == name
        case _:
            return False


def _triangle(script: Script, mask: ast.expr) -> ast.expr | None:
    """The number of rows and columns that are taken of `self.tril[:T, :T] == 0`."""
    match mask:
        case ast.Compare(
            left=ast.Subscript(value=ast.Attribute(value=ast.Name() as owner, attr=name), slice=ast.Tuple(elts=index)),
            ops=[ast.Eq()],
            comparators=[ast.Constant(value=0)],
        ):
            pass
        case _:
            return None
    match index:
        case [
            *before,
            ast.Slice(lower=None, upper=ast.Name() as rows, step=None),
            ast.Slice(lower=None, upper=ast.Name() as columns, step=None),
        ] if all(ast.unparse(each) in (":", "...") for each in before):
            pass
        case _:
            return None
    classes = [value.cls for value in script.values(owner)]
    is_made_so = bool(classes) and all(each is not None and _is_made_so(each, name) for each in classes)
    return rows if is_made_so and are_same(script, rows, columns) else None


def _is_made_so(cls: ClassRef, name: str) -> bool:
    """Whether all that a class stores under a name are lower triangles, which it does not change."""
    stored: list[bool] = []
    for ref in lineage(cls):
        for call in ref.script.within(ref.node, ast.Call):
            if _registers(call, name):
                given = call.args[1] if len(call.args) > 1 else given_as(call, "tensor")
                stored.append(_is_tril(ref.script, given))
        for attribute in ref.script.within(ref.node, ast.Attribute):
            if attribute.attr == name and isinstance(attribute.ctx, ast.Load):
                if _may_be_changed(ref.script, attribute):
                    return False
            elif attribute.attr == name:
                statement = ref.script.parent(attribute)
                plain = isinstance(statement, ast.Assign) and statement.targets == [attribute]
                stored.append(plain and _is_tril(ref.script, statement.value))  # type: ignore[union-attr]
    return bool(stored) and all(stored)


def _may_be_changed(script: Script, tensor: ast.expr, *, named: bool = False) -> bool:
    """Whether a tensor is written to where it is read, itself or a view of it: `self.tril[0] = 1`, `t = self.tril`
    and `t.fill_(1)`."""
    match script.parent(tensor):
        case ast.Subscript(value=inner, ctx=context) as part if inner is tensor:
            return not isinstance(context, ast.Load) or _may_be_changed(script, part, named=named)
        case ast.Attribute(attr=name, ctx=context) as part:
            call = script.call_of(part)
            changes = not isinstance(context, ast.Load) or (name.endswith("_") and not name.endswith("__"))
            return changes or name == "data" or (call is not None and _may_be_changed(script, call, named=named))
        case ast.AugAssign(target=target):
            return target is tensor
        case ast.Call(func=function):  # `nn.init.zeros_(self.tril)`
            return last_name(function).endswith("_")
        case ast.Assign(targets=[ast.Name(id=name)]) if not named and (scope := script.function(tensor)) is not None:
            same = [each for each in script.in_scope(scope, ast.Name) if each.id == name and each is not tensor]
            return any(
                isinstance(script.parent(each), ast.AugAssign)
                or (isinstance(each.ctx, ast.Load) and _may_be_changed(script, each, named=True))
                for each in same
            )
        case _:
            return False


def _is_tril(script: Script, expression: ast.expr | None) -> bool:
    """`torch.tril(torch.ones(n, n))`, with more axes of size one before these."""
    match expression:
        case ast.Call(func=ast.Attribute(value=inner, attr=method)) if script.qualname(expression.func) is None:
            if method in _SAME_PLACES:
                return _is_tril(script, inner)
            if method == "unsqueeze":
                return [number(each) for each in expression.args] == [0] and _is_tril(script, inner)
            *before, rows, columns = ("", "", *map(ast.unparse, expression.args))
            ones = _ones(script, inner)
            keeps = ones is not None and [rows, columns] == [*map(ast.unparse, ones.args[-2:])]
            return method in ("view", "reshape") and keeps and {*before} <= {"", "1"}
        case ast.Subscript(value=inner, slice=ast.Tuple(elts=index)):
            whole = (is_constant(each, None) or ast.unparse(each) == ":" for each in index)
            return all(whole) and not is_constant(index[-1], None) and _is_tril(script, inner)
        case _:
            return _ones(script, expression) is not None


def _ones(script: Script, expression: ast.expr | None) -> ast.Call | None:
    """`torch.ones(n, n)`, of which an expression is the lower triangle."""
    match expression:
        case ast.Call(args=[ast.Call() as ones], keywords=[]) if script.qualname(expression.func) == "torch.tril":
            plain = script.qualname(ones.func) == "torch.ones" and len(ones.args) > 1
            return ones if plain and not any(isinstance(each, ast.Starred) for each in ones.args) else None
        case _:
            return None
