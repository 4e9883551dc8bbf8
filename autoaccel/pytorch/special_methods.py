"""Where an operator, an assignment or a look-up runs code of a class of the project, which may keep what it gets."""

from __future__ import annotations

import ast

from autoaccel.analysis.classes import instance_kind
from autoaccel.analysis.script import Script
from autoaccel.dataflow.abstract_values import Kind
from autoaccel.dataflow.query import once
from autoaccel.pytorch.object_references import connected_files, possible_classes

_OPERATORS: dict[type[ast.AST], str] = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "truediv", ast.FloorDiv: "floordiv", ast.Mod: "mod",
    ast.Pow: "pow", ast.MatMult: "matmul", ast.LShift: "lshift", ast.RShift: "rshift", ast.BitOr: "or",
    ast.BitAnd: "and", ast.BitXor: "xor",
}  # fmt: skip
_COMPARISONS = ("__contains__", "__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__")
_LOOK_UPS = ("__getitem__", "__missing__", "__setitem__", "__delitem__", "__class_getitem__")


def overloads(script: Script, operation: ast.AST, operand: ast.AST) -> bool:
    """Whether an operation with this operand may run a method of the project, of what the other operand is; True where
    that may be anything, and some class has such a method."""
    match operation:
        case ast.BinOp(left=left, right=right, op=operator):
            name = _OPERATORS[type(operator)]
            return _may_define(script, right if operand is left else left, (f"__{name}__", f"__r{name}__"))
        case ast.AugAssign(target=target, op=operator):
            name = _OPERATORS[type(operator)]
            return _may_define(script, target, (f"__i{name}__", f"__{name}__"))
        case ast.Compare(left=left, comparators=others):
            return any(_may_define(script, each, _COMPARISONS) for each in (left, *others) if each is not operand)
        case ast.Subscript(value=owner):
            return owner is not operand and _may_define(script, owner, _LOOK_UPS)
        case _:
            return False


def sets_by_method(script: Script, target: ast.Attribute) -> bool:
    """Whether an assignment to an attribute may run a setter of the project."""
    if _may_define(script, target.value, ("__setattr__",)):
        return True
    for other in connected_files(script):
        for mention in other.syntax_index.mentions("setter"):
            function = other.parent(mention)
            if isinstance(function, ast.FunctionDef) and function.name == target.attr:
                return True
        for call in other.syntax_index.calls_named("property"):
            if len(call.args) > 1 or any(each.arg != "fget" for each in call.keywords):
                statement = other.statement(call)
                if any(each.id == target.attr for each in other.within(statement, ast.Name)):
                    return True
    return _may_define(script, None, ("__set__",))


def _may_define(script: Script, owner: ast.expr | None, names: tuple[str, ...]) -> bool:
    """Whether what the owner may be, or anything where there is none, has one of these methods; what is not known is
    taken for no model and no data set, which are indexed and added everywhere."""
    classes = None if owner is None else possible_classes(script, owner)
    for other in connected_files(script):
        for cls in _classes_with(other, names):
            if cls in classes if classes is not None else not _is_model(other, cls) or "__setattr__" in names:
                return True
    return False


def _is_model(script: Script, cls: ast.ClassDef) -> bool:
    return instance_kind(script.class_ref(cls)) in (Kind.MODULE, Kind.DATASET)


@once
def _classes_with(script: Script, names: tuple[str, ...]) -> tuple[ast.ClassDef, ...]:
    """The classes of a file that define one of these methods."""
    functions = [each for each in script.find(ast.FunctionDef) if each.name in names]
    return tuple(each for each in map(script.parent, functions) if isinstance(each, ast.ClassDef))
