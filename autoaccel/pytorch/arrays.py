"""NumPy arrays: which expressions make an array of their own, and which lists hold nothing but arrays."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from autoaccel.dataflow.abstract_values import Kind, Value
from autoaccel.dataflow.completeness import Incomplete
from autoaccel.dataflow.query import once
from autoaccel.pytorch.integers import integral

if TYPE_CHECKING:
    from autoaccel.analysis.script import Script
    from autoaccel.dataflow.reaching_definitions import Definition

_BY_ANY_NAME = ("exec", "eval", "locals", "vars")
# By word: what may resize a tensor. An `out=` is looked for where no function of NumPy stands before it on its line.
_RESIZING = {
    **{word: re.compile(rf"\b{word}\b") for word in ("resize_", "resize_as_", "untyped_storage", "storage")},
    "out": re.compile(r"^(?!.*\b(?:np|numpy)\.)(?:.*[(,]\s*out\s*=(?!=)|\s*out=(?![= ]))", re.MULTILINE),
}
# Functions whose result never shares memory with an argument; a positional argument beyond the number may be `out`.
_CONSTRUCTORS = (
    "array", "vstack", "hstack", "dstack", "column_stack", "row_stack", "block", "zeros", "ones", "full",
    "empty", "eye", "identity", "arange", "linspace", "logspace", "geomspace", "zeros_like", "ones_like",
    "full_like", "empty_like", "copy", "tile", "repeat", "pad", "append", "insert", "delete", "where", "sort",
    "argsort", "tril", "triu", "load", "loadtxt", "genfromtxt", "fromfile", "fromiter", "bincount", "digitize",
    "argwhere", "unique", "searchsorted", "interp", "convolve", "cross", "kron",
)  # fmt: skip
_OF_ONE = (
    "abs", "absolute", "exp", "log", "log1p", "log2", "log10", "expm1", "sqrt", "square", "sin", "cos", "tan",
    "tanh", "sign", "floor", "ceil", "logical_not", "isnan", "isfinite", "round", "cumsum", "cumprod",
)  # fmt: skip
_OF_TWO = (
    "outer", "matmul", "maximum", "minimum", "power", "add", "subtract", "multiply", "divide", "mod", "logical_and",
    "logical_or", "take",
)  # fmt: skip
_MOST_ARGUMENTS = {
    **{f"numpy.{name}": 99 for name in _CONSTRUCTORS},
    "numpy.stack": 2,
    "numpy.concatenate": 2,
    "numpy.load": 1,
}
_MOST_OPERANDS = {
    **{f"numpy.{name}": 1 for name in _OF_ONE},
    **{f"numpy.{name}": 2 for name in _OF_TWO},
    "numpy.clip": 3,
}
_FRESH_METHODS = frozenset({"cumsum", "cumprod", "clip", "round", "repeat", "argsort", "take", "dot"})
_REDUCTIONS = frozenset({"sum", "mean", "std", "var", "min", "max", "argmax", "argmin", "prod", "any", "all"})
_SAME_MEMORY = frozenset({"reshape", "transpose", "squeeze", "swapaxes", "flatten", "ravel"})
_READ_ONLY = frozenset({"numpy.memmap", "numpy.frombuffer", "numpy.broadcast_to", "numpy.load"})
_NUMBERS_OF_ARRAY = frozenset({"shape", "ndim", "size", "dtype", "mean", "std", "max", "min", "sum", "any", "all"})
_ARRAY_METHODS = (
    _FRESH_METHODS | _REDUCTIONS | _SAME_MEMORY | {"astype", "copy", "view", "arithmetic", "nonzero", "numpy"}
)
_SHAPED_DRAWS = frozenset(
    f"numpy.random.{name}" for name in ("rand", "randn", "random", "random_sample", "standard_normal", "permutation")
)
_COMPREHENSIONS = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp | ast.Lambda


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
        case ast.Name():
            return _is_last_use(script, expression)
        case _:
            return False


def _is_fresh_result(script: Script, call: ast.Call, name: str) -> bool:
    if _shares(call):
        return False
    if name.startswith("numpy.random."):
        return _is_shaped_draw(call, name)
    if name in _MOST_OPERANDS:  # of numbers they make numbers
        arrays = any(script.kind(each) is Kind.ARRAY for each in call.args)
        return arrays and len(call.args) <= _MOST_OPERANDS[name]
    return len(call.args) <= _MOST_ARGUMENTS.get(name, -1)


def _is_fresh_method(script: Script, call: ast.Call, receiver: ast.expr, method: str) -> bool:
    if method in _SAME_MEMORY:
        return is_fresh(script, receiver)
    if _shares(call) or len(call.args) > (2 if method == "clip" else 1):
        return False
    if method in _REDUCTIONS and not (call.args or any(each.arg == "axis" for each in call.keywords)):
        return False
    if method in _FRESH_METHODS | _REDUCTIONS:
        return script.kind(receiver) is Kind.ARRAY
    return method in ("copy", "astype")


def _is_shaped_draw(call: ast.Call, name: str) -> bool:
    """Whether a draw has a shape; without one it is a Python number."""
    shaped = name in _SHAPED_DRAWS and bool(call.args)
    return shaped or len(call.args) > 2 or any(keyword.arg == "size" for keyword in call.keywords)


def _shares(call: ast.Call) -> bool:
    """Whether arguments ask for memory that exists already (or may: `**options`)."""
    for keyword in call.keywords:
        if keyword.arg in (None, "out", "mmap_mode", "where"):
            return True
        if keyword.arg == "copy" and not (isinstance(keyword.value, ast.Constant) and keyword.value.value is True):
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
        (script.qualname(part.func) or "") in _READ_ONLY for part in ast.walk(expression) if isinstance(part, ast.Call)
    )


def _is_last_use(script: Script, name: ast.Name) -> bool:
    """Whether a local name holds a fresh array that was only filled and measured before, and is not looked at again."""
    function = script.function(name)
    statement = script.statement(name)
    definitions = script.definitions(name)
    if function is None or not definitions or _inside_comprehension(script, name, statement):
        return False
    if any(isinstance(each.target, ast.Name) and each.target.id == name.id for each in script.find(ast.AugAssign)):
        return False  # `a += 1` writes to the array that the tensor would share
    if any(script.inside(call, function) for call in script.syntax_index.calls_named(*_BY_ANY_NAME)):
        return False
    return all(
        _makes_fresh(script, each, function)
        and script.loops(each.node) == script.loops(statement)
        and all(use is name or _harmless(script, use, each, name) for use in script.uses(each))
        for each in definitions
    )


def _inside_comprehension(script: Script, node: ast.AST, statement: ast.stmt) -> bool:
    for ancestor in script.ancestors(node):
        if ancestor is statement:
            return False
        if isinstance(ancestor, _COMPREHENSIONS):
            return True
    return False


def _makes_fresh(script: Script, definition: Definition, function: ast.AST) -> bool:
    if definition.how != "assign" or definition.path or definition.scope.node is not function:
        return False
    node, value = definition.node, definition.value
    one_target = isinstance(node, ast.AnnAssign) or (isinstance(node, ast.Assign) and len(node.targets) == 1)
    return one_target and value is not None and not isinstance(value, ast.Name) and is_fresh(script, value)


def _harmless(script: Script, use: ast.Name, definition: Definition, last: ast.Name) -> bool:
    """Whether another use neither keeps the array nor comes after the last one."""
    first = definition.node
    if not getattr(first, "lineno", 0) <= use.lineno < script.statement(last).lineno:
        return False
    if script.function(use) is not script.function(last):
        return False
    match script.parent(use):
        case ast.Subscript(value=value, ctx=ast.Store()) if value is use:
            return True
        case ast.Attribute(attr=attribute):
            return attribute in _NUMBERS_OF_ARRAY
        case ast.BinOp():
            return True
        case ast.Call(func=ast.Name(id="len"), args=[argument]):
            return argument is use
        case _:
            return False


def array_elements(script: Script, expression: ast.expr) -> frozenset[Value] | None:
    """The elements of a list or tuple that surely holds arrays or NumPy scalars alone; None when it may hold others.

    Python numbers must be told apart, since NumPy and torch choose different types for them.
    """
    found: set[Value] = set()
    values = script.values(expression)
    for value in values:
        if value.kind is not Kind.SEQUENCE or not value.items or not _is_seen_whole(script, value, expression):
            return None
        for element in _leaves(value, 2):
            if element.kind is not Kind.ARRAY or not _surely_array(script, element):
                return None
            found.add(element)
    return frozenset(found) or None


def _is_seen_whole(script: Script, value: Value, expression: ast.expr) -> bool:
    """Whether the analysis has seen all that goes into a list: it was bound to plain names, and at most appended to.

    Generators are sequences to the analysis as well, but neither torch nor NumPy reads them.
    """
    node, file = value.node, value.script or script
    if not isinstance(node, ast.Tuple | ast.List | ast.ListComp):
        return False
    if isinstance(node, ast.Tuple) or node is expression:
        return True
    counted = isinstance(node, ast.List) and len(node.elts) < 2
    target = file.syntax_index.bound_name(node)
    made = file.definitions(target) if target is not None else ()
    if target is None and not isinstance(file.parent(node), ast.Return):
        return False
    if any(_grows(file, use, counted) for each in made for use in file.uses(each)):
        return False
    if not isinstance(expression, ast.Name):
        return True
    passed_on = [each for each in script.definitions(expression) if each not in made]
    return not any(_grows(script, use, False) for each in passed_on for use in script.uses(each))


def _grows(script: Script, use: ast.Name, counted: bool) -> bool:
    """Whether a use of a list's name changes what is in it; `append` may be counted in by the analysis."""
    match script.parent(use):
        case ast.Attribute(attr="append"):
            return not counted
        case ast.Attribute(attr="extend" | "insert"):
            return True
        case ast.Subscript(value=base, ctx=ast.Store() | ast.Del()):
            return base is use
        case _:
            return False


def _leaves(value: Value, depth: int) -> Iterator[Value]:
    for _, elements in value.items:
        for element in elements:
            if element.kind is Kind.SEQUENCE and element.items and depth:
                yield from _leaves(element, depth - 1)
            else:
                yield element


def _surely_array(script: Script, value: Value, depth: int = 0) -> bool:
    """Whether a value is an array or a NumPy scalar: `np.random.beta(1, 1)` and `a.tolist()` hold Python numbers."""
    file = value.script or script
    name = value.name or ""
    if depth > 8:
        return False
    match value.node:
        case ast.BinOp(left=left, right=right):
            return any(_all_arrays(file, side, depth) for side in (left, right))
        case ast.Compare(left=left, comparators=[right]):
            return any(_all_arrays(file, side, depth) for side in (left, right))
        case ast.UnaryOp(operand=operand):
            return _all_arrays(file, operand, depth)
        case ast.Subscript(value=base):
            return _all_arrays(file, base, depth)
        case ast.Call() as call if name.startswith("numpy.random."):
            return _is_shaped_draw(call, name)
        case _:
            return name.startswith("numpy.") or name in _ARRAY_METHODS


def _all_arrays(script: Script, expression: ast.expr, depth: int) -> bool:
    values = script.values(expression)
    return bool(values) and all(
        value.kind is Kind.ARRAY and _surely_array(script, value, depth + 1) for value in values
    )


def may_be_empty(script: Script, expression: ast.expr) -> bool:
    """Whether a list of arrays may have no element at all: torch makes float32 of it, NumPy float64."""
    for value in script.values(expression):
        file, node = value.script or script, value.node
        match node:
            case ast.Tuple(elts=elements) | ast.List(elts=elements):
                full = _has_elements(file, node)
            case ast.ListComp(elt=element, generators=[ast.comprehension(iter=source, ifs=[])]):
                full, elements = _has_elements(file, source), [element]
            case _:
                return True
        if not full or _shrinks(file, node):
            return True
        if any(file.kind(each) is Kind.SEQUENCE and may_be_empty(file, each) for each in elements):
            return True
    return False


def _shrinks(script: Script, node: ast.expr) -> bool:
    target = script.syntax_index.bound_name(node)
    for use in (use for each in script.definitions(target) for use in script.uses(each)) if target is not None else ():
        parent = script.parent(use)
        if isinstance(parent, ast.Attribute) and parent.attr in ("pop", "clear", "remove"):
            return True
    return False


def _has_elements(script: Script, source: ast.expr) -> bool:
    match source:
        case ast.List(elts=elements) | ast.Tuple(elts=elements):
            return any(not isinstance(each, ast.Starred) for each in elements)
        case ast.Call(func=ast.Name(id="range") as function, args=[ast.Constant(value=int() as count)]):
            return count > 0 and not script.definitions(function)
        case _:
            return False


def only_last_axis_empty(script: Script, value: Value) -> bool:
    """Whether an array surely has elements along all axes but its last. Of arrays without elements torch keeps the
    axes up to the first empty one, NumPy all of them."""
    file = value.script or script
    return isinstance(value.node, ast.expr) and (_is_flat(file, value.node) or _is_filled(file, value.node))


def _is_filled(script: Script, expression: ast.expr) -> bool:
    """`np.zeros((3, n))`"""
    match expression:
        case ast.Call(func=function):
            shape = _shape(expression, script.qualname(function) or "")
            return shape is not None and all(
                isinstance(each, ast.Constant) and isinstance(each.value, int) and each.value > 0 for each in shape[:-1]
            )
        case _:
            return False


def _shape(call: ast.Call, name: str) -> list[ast.expr] | None:
    """The sizes that a constructor is given, one by one."""
    if any(isinstance(each, ast.Starred) for each in call.args) or any(each.arg is None for each in call.keywords):
        return None
    if name in ("numpy.random.rand", "numpy.random.randn"):
        return call.args
    if name in ("numpy.zeros", "numpy.ones", "numpy.empty", "numpy.full"):
        given = call.args[0] if call.args else next((each.value for each in call.keywords if each.arg == "shape"), None)
    elif name in ("numpy.random.normal", "numpy.random.uniform", "numpy.random.randint"):
        numbers = all(isinstance(each, ast.Constant) for each in call.args[:2])
        size = next((each.value for each in call.keywords if each.arg == "size"), None)
        given = (call.args[2] if len(call.args) > 2 else size) if numbers else None
    else:
        return None
    return given.elts if isinstance(given, ast.Tuple | ast.List) else None


def _is_flat(script: Script, expression: ast.expr, depth: int = 0) -> bool:
    """Whether an array surely has at most one axis."""
    if depth > 8:
        return False
    match expression:
        case ast.Call(func=function) if (name := script.qualname(function)) is not None:
            return _is_flat_result(script, expression, name)
        case ast.Call(func=ast.Attribute(value=base, attr=method)):
            if method in _REDUCTIONS:
                return not expression.args and not expression.keywords
            return method in ("flatten", "ravel") or (
                method in ("astype", "copy") and _is_flat_value(script, base, depth)
            )
        case ast.Subscript(value=base, slice=index):
            matrix = isinstance(base, ast.Call) and script.qualname(base.func) in ("numpy.eye", "numpy.identity")
            one_number = not isinstance(index, ast.Slice | ast.Tuple) and script.kind(index) is Kind.NUMBER
            return (matrix and one_number) or (
                (one_number or isinstance(index, ast.Slice)) and _is_flat_value(script, base, depth)
            )
        case ast.BinOp(left=left, right=right) | ast.Compare(left=left, comparators=[right]):
            return all(
                script.kind(each) is Kind.NUMBER or _is_flat_value(script, each, depth) for each in (left, right)
            )
        case ast.UnaryOp(operand=operand):
            return _is_flat_value(script, operand, depth)
        case _:
            return False


def _is_flat_value(script: Script, expression: ast.expr, depth: int) -> bool:
    values = script.values(expression)
    return bool(values) and all(
        value.kind is Kind.ARRAY
        and isinstance(value.node, ast.expr)
        and _is_flat(value.script or script, value.node, depth + 1)
        for value in values
    )


def _is_flat_result(script: Script, call: ast.Call, name: str) -> bool:
    match name, call.args:
        case "numpy.array" | "numpy.asarray", [ast.ListComp(elt=element), *_]:
            return script.kind(element) is Kind.NUMBER
        case "numpy.array" | "numpy.asarray", [ast.List(elts=elements), *_]:
            return all(script.kind(each) is Kind.NUMBER for each in elements)
        case "numpy.arange" | "numpy.bincount" | "numpy.unique", _:
            return not call.keywords
        case "numpy.zeros" | "numpy.ones" | "numpy.empty" | "numpy.full" | "numpy.random.permutation", [size, *_]:
            return integral(script, size)
    shape = _shape(call, name)
    return shape is not None and len(shape) == 1
