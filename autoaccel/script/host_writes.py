"""Whether memory that an expression refers to may be written to: under another name, by a function that is handed it,
through a NumPy array that shares it, by an object that keeps it.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from autoaccel.script.values import Kind

if TYPE_CHECKING:
    from autoaccel.script.flow import Definition
    from autoaccel.script.script import Script

_DEEPEST = 8
_VIEWS = frozenset(
    """numpy data detach view reshape squeeze unsqueeze transpose permute flatten ravel t T mT contiguous narrow
    expand chunk split unbind real imag swapaxes values items get __array__ cpu float double long""".split()
)
_ARRAY_WRITES = frozenset("fill sort put partition itemset resize setfield setflags byteswap".split())
_WRITERS = frozenset("copyto put place putmask fill_diagonal shuffle put_along_axis".split())
_SHARING = frozenset("asarray from_numpy as_tensor ascontiguousarray asanyarray frombuffer".split())
_LIBRARIES = ("torch.", "torchvision.", "numpy.", "matplotlib.", "math.", "sklearn.", "PIL.", "cv2.", "scipy.")
_KEEPERS = frozenset("append appendleft extend insert add put push setdefault send submit".split())


def may_be_written(script: Script, expression: ast.expr, after: tuple[int, int] = (0, 0), depth: int = 0) -> bool:
    """Whether what stands in place of an expression writes to its memory at a place behind `after`, or hands it to
    somebody who may."""
    if depth > _DEEPEST:
        return True
    parent = script.parent(expression)
    late = (expression.lineno, expression.col_offset) > after
    match parent:
        case ast.Attribute(attr=attr, ctx=context):
            return _through_attribute(script, parent, attr, context, after, late, depth)
        case ast.Subscript(value=value, ctx=context) if value is expression:
            if not isinstance(context, ast.Load):
                return late
            return _is_shared(script, parent) and may_be_written(script, parent, after, depth + 1)
        case ast.AugAssign(target=target):
            return target is expression and late
        case ast.Assign(targets=targets, value=value) if value is expression:
            return any(_through_target(script, parent, target, after, late, depth) for target in targets)
        case ast.AnnAssign(target=target) | ast.NamedExpr(target=target):
            return _through_target(script, parent, target, after, late, depth)
        case ast.For(iter=iterated) | ast.comprehension(iter=iterated) if iterated is expression:
            return _through_target(script, parent, parent.target, after, late, depth)
        case ast.Call():
            return parent.func is not expression and _through_call(script, parent, expression, after, late, depth)
        case ast.keyword():
            call = script.parent(parent)
            return isinstance(call, ast.Call) and _through_call(script, call, expression, after, late, depth)
        case ast.Return() | ast.Yield() | ast.YieldFrom() | ast.Lambda():
            return late
        case ast.List() | ast.Tuple() | ast.Dict() | ast.Set() | ast.Starred() | ast.BoolOp():
            return may_be_written(script, parent, after, depth + 1)
        case ast.IfExp(test=test):
            return test is not expression and may_be_written(script, parent, after, depth + 1)
        case _:
            return False


def _is_shared(script: Script, expression: ast.expr) -> bool:
    return script.kind(expression) not in (Kind.NUMBER, Kind.STRING, Kind.BOOL, Kind.NONE)


def _through_attribute(
    script: Script,
    node: ast.Attribute,
    attr: str,
    context: ast.expr_context,
    after: tuple[int, int],
    late: bool,
    depth: int,
) -> bool:
    if not isinstance(context, ast.Load):
        return late
    call = script.parent(node)
    called = isinstance(call, ast.Call) and call.func is node
    if called and attr.endswith("_") and not attr.endswith("__"):
        return attr != "requires_grad_" and late
    if called and attr in _ARRAY_WRITES:
        return late
    if attr in _VIEWS:
        return may_be_written(script, call if called and isinstance(call, ast.Call) else node, after, depth + 1)
    return False


def _through_target(
    script: Script, binding: ast.AST, target: ast.expr, after: tuple[int, int], late: bool, depth: int
) -> bool:
    match target:
        case ast.Name():
            bound = [each for each in script.definitions(target) if each.node is binding]
            return _under_other_name(script, bound or _bound(script, binding, target), after, depth)
        case ast.Tuple(elts=elements) | ast.List(elts=elements):
            return any(_through_target(script, binding, each, after, late, depth) for each in elements)
        case ast.Starred(value=value):
            return _through_target(script, binding, value, after, late, depth)
        case _:  # an attribute or an item of something that lives longer
            return late


def _bound(script: Script, binding: ast.AST, target: ast.Name) -> list[Definition]:
    return [
        each
        for scope in script.flow.scopes.values()
        for each in scope.definitions.get(target.id, ())
        if each.node is binding
    ]


def _under_other_name(script: Script, bound: list[Definition], after: tuple[int, int], depth: int) -> bool:
    for each in bound:
        if any(
            (target.lineno, target.col_offset) > after for target in script.additions(each)
        ):  # `a += 1` writes to an array
            return True
        if any(may_be_written(script, use, after, depth + 1) for use in script.uses(each)):
            return True
    return False


def _through_call(
    script: Script, call: ast.Call, given: ast.expr, after: tuple[int, int], late: bool, depth: int
) -> bool:
    name = script.qualname(call.func)
    if name is None and isinstance(call.func, ast.Name) and not script.definitions(call.func):
        return call.func.id in ("zip", "enumerate", "list", "tuple", "iter", "dict", "reversed") and may_be_written(
            script, call, after, depth + 1
        )
    if name is not None and not script.is_project_name(call.func):
        last = name.rpartition(".")[2]
        if any(each.arg == "out" and script.inside(given, each.value) for each in call.keywords):
            return late
        if last in _SHARING:
            return may_be_written(script, call, after, depth + 1)
        if last in _WRITERS or (last.endswith("_") and name.startswith("torch.")):
            return late and script.inside(given, call.args[0] if call.args else call)
        return late and not name.startswith(_LIBRARIES)
    callees = script.callees(call)
    if not callees:
        return late and _last_name(call) in _KEEPERS
    if not late:
        return False
    return any(_writes_parameter(script, call, given, home, function, depth) for home, function in callees)


def _last_name(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def _writes_parameter(
    script: Script, call: ast.Call, given: ast.expr, home: Script, function: ast.FunctionDef, depth: int
) -> bool:
    names = [each.arg for each in (*function.args.posonlyargs, *function.args.args)]
    names = names[1:] if script.project.is_bound(home, function, script, call) else names
    keyword = next((each.arg for each in call.keywords if each.value is given), None)
    if keyword is None:
        if given not in call.args or any(isinstance(each, ast.Starred) for each in call.args):
            return True
        index = call.args.index(given)
        keyword = names[index] if index < len(names) else None
    scope = home.flow.scopes.get(function)
    if keyword is None or scope is None or keyword not in scope.definitions:
        return True
    bound = [each for each in scope.definitions[keyword] if each.how == "param"]
    return not bound or _under_other_name(home, bound, (0, 0), depth + 1)
