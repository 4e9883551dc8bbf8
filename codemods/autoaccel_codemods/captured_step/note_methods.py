"""Methods that keep numbers for later and do nothing else: `update` of a meter that averages losses."""

from __future__ import annotations

import ast

from autoaccel.analysis.classes import instance_kind, lineage
from autoaccel.analysis.script import Script
from autoaccel.dataflow.abstract_values import ClassRef, Kind
from autoaccel.library_models.python_names import BUILTINS

_PLAIN = (
    ast.Assign | ast.AugAssign | ast.Expr | ast.If | ast.Return | ast.Pass
    | ast.Name | ast.Attribute | ast.Constant | ast.BinOp | ast.UnaryOp | ast.BoolOp | ast.Compare | ast.IfExp
    | ast.expr_context | ast.operator | ast.unaryop | ast.boolop | ast.cmpop | ast.arguments | ast.arg
)  # fmt: skip
_ACCESS = frozenset({"__setattr__", "__getattr__", "__getattribute__"})
_NUMBERS = frozenset("len sum min max abs float int round".split())


def only_notes(script: Script, call: ast.Call) -> bool:
    """Whether a call is of a method that changes nothing but its own object, which is no module."""
    callees = script.callees(call)
    owners = script.values(call.func.value) if isinstance(call.func, ast.Attribute) else ()
    if not callees or not owners or any(each.kind is not Kind.OBJECT or each.cls is None for each in owners):
        return False
    bodies = [each for _, each in callees if isinstance(each, ast.FunctionDef)]
    touched = {part.attr for each in bodies for part in ast.walk(each) if isinstance(part, ast.Attribute)}
    if any(each.cls is not None and not _is_plain_class(each.cls, touched, bodies) for each in owners):
        return False
    return all(isinstance(each, ast.FunctionDef) and _is_plain(other, each) for other, each in callees)


def _is_plain_class(cls: ClassRef, touched: set[str], bodies: list[ast.FunctionDef]) -> bool:
    """Whether reading and binding these attributes of an instance runs no code, and gives nothing but what these
    functions have kept: other methods bind them to numbers and new lists alone."""
    if instance_kind(cls) is not Kind.OBJECT:
        return False
    for ref in lineage(cls):
        methods = [each for each in ref.node.body if isinstance(each, ast.FunctionDef)]
        if ref.node.decorator_list or ref.node.keywords:
            return False
        if any(each.name in _ACCESS or (each.decorator_list and each.name in touched) for each in methods):
            return False
        stores = (part for each in methods if each not in bodies for part in ast.walk(each))
        if any(not _binds_new(each, touched) for each in stores if isinstance(each, ast.stmt)):
            return False
    return True


def _binds_new(statement: ast.stmt, names: set[str]) -> bool:
    """Whether a statement binds none of these attributes, or binds them to numbers or a new list, also to numbers that
    a tensor gives, or that are computed of what the attributes hold: `self.avg = self.sum / self.count`."""
    match statement:
        case ast.Assign(targets=targets, value=value):
            bound = [part for each in targets for part in ast.walk(each)]
        case ast.AnnAssign(target=target, value=value) | ast.AugAssign(target=target, value=value):
            bound = list(ast.walk(target))
        case _:
            return True
    if not any(isinstance(each, ast.Attribute) and each.attr in names for each in bound):
        return True
    return value is None or _is_new(value, names)


def _is_new(value: ast.expr, names: set[str]) -> bool:
    match value:
        case ast.Constant():
            return True
        case ast.Tuple() | ast.List() | ast.Dict() | ast.BinOp():
            parts = (each for each in ast.iter_child_nodes(value) if isinstance(each, ast.expr))
            return all(_is_new(each, names) for each in parts)
        case ast.Call(func=ast.Attribute(attr="item" | "tolist"), args=[], keywords=[]):
            return True
        case ast.Attribute(value=ast.Name(id="self"), attr=name):
            return name in names
        case _:
            return False


def _is_plain(script: Script, function: ast.FunctionDef) -> bool:
    if function.decorator_list or not function.args.args:
        return False
    own = function.args.args[0].arg
    parts = [part for statement in function.body for part in ast.walk(statement)]
    known = {each.arg for each in (*function.args.args, *function.args.kwonlyargs)}
    known |= {each.id for each in parts if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)}
    return all(_is_allowed(script, part, own, known) for part in parts)


def _is_allowed(script: Script, part: ast.AST, own: str, known: set[str]) -> bool:
    match part:
        case ast.Name(id=name, ctx=ast.Load()):
            return name in known or (name in _NUMBERS and isinstance(script.parent(part), ast.Call))
        case ast.Call(func=ast.Name(id=name) as function, keywords=[]):
            return name in _NUMBERS and name in BUILTINS and not script.definitions(function)
        case ast.Call(func=ast.Attribute(value=ast.Attribute(value=ast.Name(id=owner)), attr="append"), keywords=[]):
            return owner == own
        case ast.Attribute(value=ast.Name(id=owner), ctx=ast.Store()):
            return owner == own
        case ast.Attribute(value=ast.Name(id=owner), ctx=ast.Load()):
            return owner == own
        case ast.Attribute():
            return isinstance(part.ctx, ast.Load) and part.attr == "append"
        case _:
            return isinstance(part, _PLAIN)
