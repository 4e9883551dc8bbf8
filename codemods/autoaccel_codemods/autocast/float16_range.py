"""Numbers that float16 cannot hold, where they meet what is in low precision: they become infinite, or zero, in
silence. A row of scores that is masked as a whole by `-1e9` then is one of `-inf`, whose softmax is not a number.

Numbers and tensors without dimensions take over the precision of what they are computed with; other tensors in float32
raise it to theirs, unless they are cast.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator

from autoaccel.analysis.attributes import stored_as
from autoaccel.analysis.script import Script
from autoaccel.dataflow.call_arguments import given_values
from autoaccel.dataflow.syntax_index import last_name
from autoaccel.library_models.python_names import BUILTINS
from autoaccel.library_models.tensor_views import VIEWS
from autoaccel_codemods.autocast import skip_reasons
from autoaccel_codemods.autocast.float_tensors import content
from autoaccel_codemods.autocast.tensor_content import Content
from autoaccel_codemods.autocast.value_origins import Place, spelled, spelled_with, value_of

LARGEST = 65504.0
ROUNDS_TO_ZERO = 2.0**-25
"""Half of the smallest number above 0."""

_ARITHMETIC = ast.Add | ast.Sub | ast.Mult | ast.Div
_SCALARS = frozenset("tensor as_tensor scalar_tensor float float32".split())
_CASTS = frozenset({"to", "type", "type_as"})


def lost(script: Script, low: ast.expr, *, computed: bool) -> str | None:
    """Why what may be in low precision must not be in float16: a number that it meets where it stands. What is
    `computed` in low precision casts its operands to it."""
    if computed and isinstance(low, ast.Call) and not script.callees(low):
        if (number := next(filter(None, (_in_tensor(script, each) for each in given_values(low))), None)) is not None:
            return skip_reasons.BEYOND_FLOAT16.format(number=number)
    for other, tiny in _met(script, low):
        if (number := _beyond(script, other, tiny=tiny)) is not None:
            return skip_reasons.BEYOND_FLOAT16.format(number=number)
    return None


def _met(script: Script, low: ast.expr) -> Iterator[tuple[ast.expr, bool]]:
    """What a value is computed with, or overwritten by; and whether it matters there that it is no zero."""
    parent = script.parent(low)
    match parent:
        case ast.BinOp(op=operator, left=left, right=right) if isinstance(operator, _ARITHMETIC):
            yield (right if left is low else left), isinstance(operator, ast.Mult | ast.Div)
        case ast.Subscript(value=value, ctx=ast.Store()) if value is low:
            statement = script.parent(parent)
            if isinstance(statement, ast.Assign | ast.AugAssign):
                yield statement.value, False
    if isinstance(low, ast.Name):
        for definition in script.definitions(low):
            statement = script.statement(definition.node)
            if isinstance(statement, ast.AugAssign) and isinstance(statement.op, _ARITHMETIC):
                yield statement.value, isinstance(statement.op, ast.Mult | ast.Div)
    if (call := _taking(script, low)) is not None and last_name(call.func) not in VIEWS and _is_of_torch(script, call):
        given = [*given_values(call), *([call.func.value] if isinstance(call.func, ast.Attribute) else [])]
        yield from ((each, last_name(call.func) == "where") for each in given if each is not low)


def _taking(script: Script, low: ast.expr) -> ast.Call | None:
    """The call that a value is an argument of, or its type, or whose method is called."""
    parent = script.parent(low)
    if isinstance(parent, ast.Attribute) and parent.attr == "dtype":
        low, parent = parent, script.parent(parent)
    if isinstance(parent, ast.keyword) or (isinstance(parent, ast.Attribute) and parent.value is low):
        low, parent = parent, script.parent(parent)  # type: ignore[assignment]
    return parent if isinstance(parent, ast.Call) else None


def _is_of_torch(script: Script, call: ast.Call) -> bool:
    qualified = script.qualname(call.func)
    if qualified is not None:
        return qualified.startswith("torch.")
    return not script.callees(call) and not (isinstance(call.func, ast.Name) and call.func.id in BUILTINS)


def _beyond(script: Script, expression: ast.expr, *, tiny: bool) -> str | None:
    """The number that float16 cannot hold as which an operand may be computed with; a tensor of its own dimensions is
    none, whatever it holds, but for one that is cast to what is low."""
    for file, node in spelled_with(script, expression, _behind):
        value = value_of(file, node)
        if value is not None and _is_lost(value, tiny=tiny):
            return file.source(node)
    if isinstance(expression, ast.Call) and last_name(expression.func) in _CASTS:
        return _in_tensor(script, expression)
    return None


def _behind(script: Script, node: ast.expr) -> Iterator[Place]:
    """What stands for a number elsewhere: attributes, imported names, defaults, tensors without dimensions."""
    if value_of(script, node) is not None:
        return
    found = script.qualified(node) if script.is_project_name(node) else None
    if found is not None:
        module, name = script.project.imported(script, found.dotted, found.level) or (script, None)
        bound = module.module_scope.definitions.get(name or "", ())
        yield from ((module, each.whole) for each in bound if each.whole is not None)
    match node:
        case ast.Attribute(value=owner, attr=attr):
            owners = (value.cls.script for value in script.values(owner) if value.cls is not None)
            for file in dict.fromkeys((script, *owners)):
                yield from ((file, value) for value in _kept(file, attr))
        case ast.Name():
            yield from ((script, each.value) for each in script.definitions(node) if each.how == "param" and each.value)
        case ast.Call(args=[value, *_]) if last_name(node.func) in _SCALARS:
            yield script, value
        case ast.UnaryOp(operand=operand):
            yield script, operand


def _kept(script: Script, attr: str) -> Iterator[ast.expr]:
    """What a file keeps under an attribute, of whatever object: by assignment, in the body of a class, as a buffer."""
    yield from (each.value for each in stored_as(script, attr) if each.value is not None and not each.path)
    for cls in script.find(ast.ClassDef):
        bound = script.reaching_definitions.scopes[cls].definitions.get(attr, ())
        yield from (each.whole for each in bound if each.whole is not None)
    for call in script.syntax_index.calls_named("register_buffer"):
        match call.args:
            case [ast.Constant(value=name), value, *_] if name == attr:
                yield value


def _in_tensor(script: Script, expression: ast.expr) -> str | None:
    """A number among those that compute a tensor of decimals that float16 cannot hold."""
    for file, node in spelled(script, expression):
        if content(file, node) in (Content.WHOLE, Content.NUMBER):
            continue
        for part in file.within(node, ast.Constant):
            value = value_of(file, part)
            if value is not None and _is_lost(value, tiny=False) and _is_of_decimals(file, part):
                return file.source(part)
    return None


def _is_of_decimals(script: Script, number: ast.Constant) -> bool:
    """Whether a number is no size, count or seed: a decimal, or computed with decimals."""
    around = next(each for each in script.ancestors(number) if not isinstance(each, ast.UnaryOp))
    return isinstance(number.value, float) or (
        isinstance(around, ast.BinOp) and content(script, around) is Content.FLOATING
    )


def _is_lost(value: float, *, tiny: bool) -> bool:
    return LARGEST < abs(value) < math.inf or (tiny and 0 < abs(value) <= ROUNDS_TO_ZERO)
