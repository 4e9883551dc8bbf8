"""Which expressions surely are whole numbers, and how great these may be."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from autoaccel.analysis.script import Script
from autoaccel.dataflow.abstract_values import Kind
from autoaccel.dataflow.bounds import OPERANDS
from autoaccel.dataflow.call_arguments import bind_argument, unpacks
from autoaccel.dataflow.definitions import Definition
from autoaccel.library_models.python_names import CONTAINER_CHANGES


@dataclass(frozen=True, slots=True, eq=False)
class Frame:
    """A constructor that a call enters; what the call passes is read where it stands, in `outer` if in one as well."""

    function: ast.FunctionDef | None
    script: Script
    call: ast.Call
    outer: Frame | None = None


def integral(script: Script, expression: ast.expr, depth: int = 0) -> bool:
    """Whether an expression surely is an int: literals, lengths, sizes, and sums and products of them.

    False also where it is not known. Annotations of single parameters and of names are believed.
    """
    if depth > OPERANDS:
        return False
    match expression:
        case ast.Constant(value=int() as value):
            return not isinstance(value, bool)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return integral(script, operand, depth + 1)
        case ast.BinOp(op=ast.Add() | ast.Sub() | ast.Mult() | ast.FloorDiv() | ast.Mod(), left=left, right=right):
            return integral(script, left, depth + 1) and integral(script, right, depth + 1)
        case ast.Call(func=ast.Name(id="len" | "int" | "ord") as function):
            return not script.definitions(function)
        case (
            ast.Call(func=ast.Attribute(attr="size"), args=[_])
            | ast.Call(func=ast.Attribute(attr="numel" | "dim"), args=[])
        ):
            return True
        case ast.Subscript(value=sizes, slice=index) if is_shape(sizes):
            return not isinstance(index, ast.Slice)
        case ast.Attribute(value=owner, attr="batch_size"):  # or None, with which nothing is computed
            return script.kind(owner) is Kind.LOADER
        case ast.Name():
            definitions = script.definitions(expression)
            return bool(definitions) and all(_integral_binding(script, each, depth) for each in definitions)
        case _:
            return False


def is_shape(expression: ast.expr) -> bool:
    """Whether an expression gives all sizes of a tensor: `x.shape`, `x.size()`."""
    match expression:
        case ast.Attribute(attr="shape") | ast.Call(func=ast.Attribute(attr="size"), args=[], keywords=[]):
            return True
        case _:
            return False


def _integral_binding(script: Script, definition: Definition, depth: int) -> bool:
    annotation = getattr(definition.node, "annotation", None)
    if isinstance(annotation, ast.Name) and annotation.id == "int":
        parameters = script.parent(definition.node)  # those of `*n: int` and `**n: int` say what is in them
        return not isinstance(parameters, ast.arguments) or definition.node not in (parameters.vararg, parameters.kwarg)
    value = definition.value
    match definition.how:
        case "assign" if value is not None and not definition.path:
            return integral(script, value, depth + 1)
        case "assign" if value is not None and len(definition.path) == 1:  # n, c = x.shape
            index = definition.path[0]
            if isinstance(value, ast.Tuple) and isinstance(index, int):
                shifted = any(isinstance(each, ast.Starred) for each in value.elts)
                within = -len(value.elts) <= index < len(value.elts)
                return within and not shifted and integral(script, value.elts[index], depth + 1)
            return is_shape(value) and index != "*"
        case "for" if isinstance(value, ast.Call) and isinstance(value.func, ast.Name):
            plain = not script.definitions(value.func)
            return plain and (
                (value.func.id == "range" and not definition.path)
                or (value.func.id, definition.path) == ("enumerate", (0,))
            )
        case _:
            return False


def at_most(script: Script, expression: ast.expr, frame: Frame | None = None, depth: int = 0) -> int | None:
    """The greatest whole number that an expression of literals may be; None where it is not known.

    Sums and products of natural numbers, lengths of what is made of literals and, in a constructor, what its call
    passes.
    """
    if depth > OPERANDS:
        return None
    match expression:
        case ast.Constant(value=int() as value):
            return value if value >= 0 and not isinstance(value, bool) else None
        case ast.BinOp(op=ast.Add() | ast.Mult() as operator, left=left, right=right):
            first, second = (at_most(script, each, frame, depth) for each in (left, right))
            if first is None or second is None:
                return None
            return first + second if isinstance(operator, ast.Add) else first * second
        case ast.BinOp(op=ast.Sub() | ast.FloorDiv() | ast.Mod(), left=left, right=right):  # by a natural number
            return at_most(script, left, frame, depth) if at_most(script, right, frame, depth) else None
        case ast.Call(func=ast.Name(id="len") as function, args=[counted]) if not script.definitions(function):
            return _length(script, counted, depth)
        case ast.Name():
            bound = _bound(script, expression, frame)
            return None if bound is None else at_most(*bound, depth + 1)
        case _:
            return None


def _bound(script: Script, name: ast.Name, frame: Frame | None) -> tuple[Script, ast.expr, Frame | None] | None:
    """The one expression that a name stands for, and where it is to be read."""
    definitions = script.definitions(name)
    if len(definitions) != 1:
        return None
    definition = definitions[0]
    value = definition.value
    if definition.how == "param" and frame is not None and frame.function is definition.scope.node:
        argument = bind_argument(frame.function, frame.call, name.id, bound=True)
        if argument is not None:
            return frame.script, argument, frame.outer
        return (script, value, None) if value is not None and not unpacks(frame.call) else None
    if definition.how != "assign" or value is None:
        return None
    match value, definition.path:
        case _, ():
            return script, value, frame
        case ast.Tuple(elts=elements), (int() as index,) if not any(isinstance(each, ast.Starred) for each in elements):
            return (script, elements[index], frame) if 0 <= index < len(elements) else None
        case _:
            return None


_OF_THE_SAME_LENGTH = frozenset("list tuple sorted reversed enumerate set frozenset dict".split())


def _length(script: Script, container: ast.expr, depth: int) -> int | None:
    """The greatest length that what is made of literals may have."""
    if depth > OPERANDS:
        return None
    match container:
        case ast.List(elts=elements) | ast.Tuple(elts=elements) | ast.Set(elts=elements):
            return None if any(isinstance(each, ast.Starred) for each in elements) else len(elements)
        case ast.Dict(keys=keys):
            return None if None in keys else len(keys)
        case ast.Name():
            bound = _bound(script, container, None)
            return None if bound is None or _grows(script, container) else _length(bound[0], bound[1], depth + 1)
        case (
            ast.ListComp(generators=[ast.comprehension(iter=inner)])
            | ast.SetComp(generators=[ast.comprehension(iter=inner)])
            | ast.DictComp(generators=[ast.comprehension(iter=inner)])
        ):
            return _length(script, inner, depth)
        case ast.Call(func=ast.Name(id=name) as function, args=[inner]) if not script.definitions(function):
            if name == "range":
                return at_most(script, inner, None, depth)
            return _length(script, inner, depth) if name in _OF_THE_SAME_LENGTH else None
        case ast.Call(func=ast.Attribute(value=text, attr="split"), args=[], keywords=[]):
            found = _text(script, text, depth)
            return None if found is None else len(found.split())
        case _:
            text_itself = _text(script, container, depth)
            return None if text_itself is None else len(text_itself)


def _grows(script: Script, name: ast.Name) -> bool:
    """Whether anything is done to a container under its name but to read it."""
    for definition in script.definitions(name):
        for use in script.uses(definition):
            match script.parent(use):
                case ast.Attribute(attr=attr) if attr in CONTAINER_CHANGES:
                    return True
                case ast.Subscript(ctx=ast.Store()):
                    return True
                case _:
                    pass
    return False


def _text(script: Script, expression: ast.expr, depth: int) -> str | None:
    """A text that literals spell."""
    if depth > OPERANDS:
        return None
    match expression:
        case ast.Constant(value=str() as text):
            return text
        case ast.Name():
            bound = _bound(script, expression, None)
            return None if bound is None or bound[2] is not None else _text(bound[0], bound[1], depth + 1)
        case ast.Call(func=ast.Attribute(value=ast.Constant(value=str() as between), attr="join"), args=[joined]):
            if isinstance(joined, ast.Name):
                bound = None if _grows(script, joined) else _bound(script, joined, None)
                joined = joined if bound is None else bound[1]
            if not isinstance(joined, ast.List | ast.Tuple):
                return None
            parts = [_text(script, each, depth) for each in joined.elts]
            return None if None in parts else between.join(map(str, parts))
        case _:
            return None
