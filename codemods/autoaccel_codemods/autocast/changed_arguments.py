"""Whether a function may change what it is given: on a copy of that nobody would see it."""

from __future__ import annotations

import ast

from autoaccel.analysis.script import Script
from autoaccel.dataflow.definitions import Definition
from autoaccel.dataflow.query import once
from autoaccel.dataflow.syntax_index import last_name
from autoaccel.pytorch.batches import changed_in_place
from autoaccel_codemods.autocast.value_origins import SAME_NUMBERS, operand

_MADE = ast.BinOp | ast.UnaryOp | ast.Constant | ast.Compare | ast.List | ast.Dict | ast.ListComp | ast.JoinedStr


@once
def changes_arguments(script: Script, code: ast.AST) -> bool:
    """Whether a function writes to one of its arguments, or sets attributes of it: `logits.sigmoid_()`."""
    if not isinstance(code, ast.FunctionDef):
        return False
    owners = [owner for owner, node in changed_in_place(script) if script.inside(node, code)]
    set_ = (each for each in script.within(code, ast.Attribute) if isinstance(each.ctx, ast.Store))
    owners += [each.value for each in set_ if not isinstance(each.value, ast.Name) or each.value.id != "self"]
    return any(_may_be_given(script, each, frozenset()) for each in owners)


def _may_be_given(script: Script, expression: ast.expr, seen: frozenset[Definition]) -> bool:
    """Whether an expression may be an argument, a part of one, or another tensor over its memory."""
    match expression:
        case ast.Name():
            bound = script.definitions(expression)
            if not isinstance(expression.ctx, ast.Load):  # `x *= 2`
                bound = script.reaching_definitions.before_addition(expression)
            return expression.id != "self" and any(
                _is_given(script, each, seen | {each}) for each in bound if each not in seen
            )
        case ast.Attribute(value=value) | ast.Subscript(value=value) | ast.Starred(value=value):
            return _may_be_given(script, value, seen)
        case ast.IfExp(body=body, orelse=orelse):
            return _may_be_given(script, body, seen) or _may_be_given(script, orelse, seen)
        case ast.Call() if last_name(expression.func) in SAME_NUMBERS | {"detach", "requires_grad_"}:
            receiver = operand(script, expression)
            return receiver is None or _may_be_given(script, receiver, seen)
        case ast.Call():
            return bool(script.callees(expression))
        case _:
            return not isinstance(expression, _MADE)


def _is_given(script: Script, definition: Definition, seen: frozenset[Definition]) -> bool:
    match definition.how:
        case "param":
            return True
        case "assign" | "walrus" if definition.whole is not None:
            return _may_be_given(script, definition.whole, seen)
        case "aug" if isinstance(definition.node, ast.AugAssign):
            return _may_be_given(script, definition.node.target, seen)
        case _:
            return True
