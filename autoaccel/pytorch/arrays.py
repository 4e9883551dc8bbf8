"""NumPy arrays: which expressions make an array of their own, and which lists hold nothing but arrays."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from autoaccel.analysis.script import Script
from autoaccel.dataflow.abstract_values import Kind, Value
from autoaccel.dataflow.bounds import OPERANDS
from autoaccel.dataflow.completeness import Incomplete
from autoaccel.dataflow.query import once
from autoaccel.dataflow.syntax_index import is_constant
from autoaccel.library_models.numpy_functions import (
    ARRAY_METHODS,
    FRESH_METHODS,
    MOST_ARGUMENTS,
    MOST_OPERANDS,
    READ_ONLY,
    REDUCTIONS,
    SAME_MEMORY,
    SHAPED_DRAWS,
)

# By word: what may resize a tensor. An `out=` is looked for where no function of NumPy stands before it on its line.
_RESIZING = {
    **{word: re.compile(rf"\b{word}\b") for word in ("resize_", "resize_as_", "untyped_storage", "storage")},
    "out": re.compile(r"^(?!.*\b(?:np|numpy)\.)(?:.*[(,]\s*out\s*=(?!=)|\s*out=(?![= ]))", re.MULTILINE),
}


def is_fresh(script: Script, expression: ast.expr) -> bool:
    """Whether an expression makes an array that nothing else refers to, so that a tensor may take its memory over."""
    match expression:
        case ast.Call(func=function) if (name := script.qualname(function)) is not None:
            return _is_fresh_result(script, expression, name)
        case ast.Call(func=ast.Attribute(value=receiver, attr=method)):
            return _is_fresh_method(script, expression, receiver, method)
        case ast.Attribute(value=base, attr="T"):
            return is_fresh(script, base)
        case ast.BinOp() | ast.Compare() | ast.UnaryOp(op=ast.USub() | ast.Invert()):
            return script.kind(expression) is Kind.ARRAY
        case ast.IfExp(body=body, orelse=orelse):
            return is_fresh(script, body) and is_fresh(script, orelse)
        case _:
            return False


def _is_fresh_result(script: Script, call: ast.Call, name: str) -> bool:
    if _shares(call):
        return False
    if call.args and _may_be_own(script, call.args[0], "__array__"):
        return False
    if name.startswith("numpy.random."):
        return _is_shaped_draw(call, name)
    if name in MOST_OPERANDS:  # of numbers they make numbers
        arrays = any(script.kind(each) is Kind.ARRAY for each in call.args)
        return arrays and len(call.args) <= MOST_OPERANDS[name]
    return len(call.args) <= MOST_ARGUMENTS.get(name, -1)


def _is_fresh_method(script: Script, call: ast.Call, receiver: ast.expr, method: str) -> bool:
    if method in SAME_MEMORY:
        return is_fresh(script, receiver)
    if _shares(call) or len(call.args) > (2 if method == "clip" else 1):
        return False
    if method in REDUCTIONS and not (call.args or any(each.arg == "axis" for each in call.keywords)):
        return False
    if method in FRESH_METHODS | REDUCTIONS:
        return script.kind(receiver) is Kind.ARRAY
    return method in ("copy", "astype") and not _may_be_own(script, receiver, method)


def _may_be_own(script: Script, expression: ast.expr, method: str) -> bool:
    """Whether an object may be the project's, with a method of its own under a name of NumPy's."""
    values = script.values(expression)
    if any(value.cls is not None for value in values):
        return True
    return Kind.UNKNOWN in values.kinds and _defines(script, method)


@once
def _defines(script: Script, method: str) -> bool:
    defined = re.compile(rf"\bdef[ \t]+{method}\b")
    try:
        return any(map(defined.search, script.project.texts_with_word(script, method)))
    except Incomplete:
        return True


def _is_shaped_draw(call: ast.Call, name: str) -> bool:
    """Whether a draw has a shape; without one it is a Python number."""
    shaped = name in SHAPED_DRAWS and bool(call.args)
    return shaped or len(call.args) > 2 or any(keyword.arg == "size" for keyword in call.keywords)


def _shares(call: ast.Call) -> bool:
    """Whether arguments ask for memory that exists already (or may: `**options`)."""
    for keyword in call.keywords:
        if keyword.arg in (None, "out", "mmap_mode", "where"):
            return True
        if keyword.arg == "copy" and not is_constant(keyword.value, True):
            return True
    return False


@once
def resizing(script: Script) -> str | None:
    """Why a tensor with NumPy's memory may be resized, which torch refuses: by `resize_`, as `out=`, by its storage."""
    try:
        for word, resizes in _RESIZING.items():
            if any(map(resizes.search, script.project.texts_with_word(script, word))):
                return f"`{word}` may need a tensor with memory of its own"
    except Incomplete as unseen:
        return f"it may be resized: {unseen}"
    return None


def is_read_only(script: Script, expression: ast.expr) -> bool:
    """Whether an array may lie in memory that must not be written to, such as a mapped file."""
    return any(
        (script.qualname(part.func) or "") in READ_ONLY for part in ast.walk(expression) if isinstance(part, ast.Call)
    )


def array_elements(script: Script, expression: ast.expr) -> frozenset[Value] | None:
    """The elements of a list or tuple that surely holds arrays or NumPy scalars alone; None when it may hold others.

    Python numbers must be told apart, since NumPy and torch choose different types for them.
    """
    found: set[Value] = set()
    values = script.values(expression)
    for value in values:
        # Generators are sequences to the analysis as well, but neither torch nor NumPy reads them.
        if not value.items or not isinstance(value.node, ast.Tuple | ast.List | ast.ListComp):
            return None
        for element in _leaves(value, 2):
            if element.kind is not Kind.ARRAY or not _surely_array(script, element):
                return None
            found.add(element)
    return frozenset(found) or None


def _leaves(value: Value, depth: int) -> Iterator[Value]:
    for _, elements in value.items:
        for element in elements:
            if element.kind is Kind.SEQUENCE and element.items and depth:
                yield from _leaves(element, depth - 1)
            else:
                yield element


def _surely_array(script: Script, value: Value, depth: int = 0) -> bool:
    """Whether a value is an array or a NumPy scalar: `np.random.beta(1, 1)` and `a.tolist()` hold Python numbers."""
    home = value.script or script
    name = value.name or ""
    if depth > OPERANDS:
        return False
    match value.node:
        case ast.BinOp(left=left, right=right):
            return any(_all_arrays(home, side, depth) for side in (left, right))
        case ast.Compare(left=left, comparators=[right]):
            return any(_all_arrays(home, side, depth) for side in (left, right))
        case ast.UnaryOp(operand=operand):
            return _all_arrays(home, operand, depth)
        case ast.Subscript(value=base):
            return _all_arrays(home, base, depth)
        case ast.Call() as call if name.startswith("numpy.random."):
            return _is_shaped_draw(call, name)
        case _:
            return name.startswith("numpy.") or value.how in ARRAY_METHODS


def _all_arrays(script: Script, expression: ast.expr, depth: int) -> bool:
    values = script.values(expression)
    return bool(values) and all(
        value.kind is Kind.ARRAY and _surely_array(script, value, depth + 1) for value in values
    )


def may_be_empty(script: Script, expression: ast.expr) -> bool:
    """Whether a list of arrays may have no element at all: torch makes float32 of it, NumPy float64."""
    match expression:
        case ast.Tuple(elts=elements) | ast.List(elts=elements) if elements:
            pass
        case ast.ListComp(
            elt=element,
            generators=[
                ast.comprehension(
                    iter=ast.Call(func=ast.Name(id="range") as function, args=[ast.Constant(value=int() as count)]),
                    ifs=[],
                )
            ],
        ) if count > 0 and not script.definitions(function):
            elements = [element]
        case _:
            return True
    return any(isinstance(each, ast.Starred) or script.kind(each) is Kind.SEQUENCE for each in elements)


def only_last_axis_empty(script: Script, value: Value) -> bool:
    """Whether an array surely has elements along all axes but its last. Of arrays without elements torch keeps the
    axes up to the first empty one, NumPy all of them."""
    home = value.script or script
    match value.node:
        case ast.Call(func=function, args=[ast.ListComp(elt=element), *_]):
            return _is_array_of(home, function, [element])
        case ast.Call(func=function, args=[ast.List(elts=elements), *_]):
            return _is_array_of(home, function, elements)
        case ast.Subscript(value=ast.Call(func=function), slice=index) if not isinstance(index, ast.Slice | ast.Tuple):
            return home.qualname(function) in ("numpy.eye", "numpy.identity") and home.kind(index) is Kind.NUMBER
        case _:
            return False


def _is_array_of(script: Script, function: ast.expr, elements: list[ast.expr]) -> bool:
    """`np.array([n for n in …])` of numbers, which has a single axis."""
    return script.qualname(function) in ("numpy.array", "numpy.asarray") and all(
        script.kind(each) is Kind.NUMBER for each in elements
    )
