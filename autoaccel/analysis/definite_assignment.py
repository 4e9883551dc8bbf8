"""Where names and attributes surely have a value: on every path, not only on that of the branch that assigns them."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence

from autoaccel.analysis.script import Script
from autoaccel.dataflow.definitions import Definition
from autoaccel.dataflow.syntax_index import last_name

_ENDS = ast.Raise | ast.Return | ast.Break | ast.Continue
_CONDITIONS = ast.If | ast.IfExp | ast.ExceptHandler | ast.match_case | ast.comprehension | ast.BoolOp
_SCOPES = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef


def is_empty(value: ast.expr) -> bool:
    """None, or a container that is to be filled."""
    match value:
        case ast.Constant(value=None) | ast.List(elts=[]) | ast.Dict(keys=[]):
            return True
        case _:
            return False


def last_binding(script: Script, groups: Sequence[Sequence[ast.stmt]]) -> ast.stmt | None:
    """The statement after which each name of several surely has a value, and is not given another: a group holds the
    assignments of one name. None where there is no such place."""
    statements = dict.fromkeys(each for group in groups for each in group)
    if not statements or not all(groups):
        return None
    current: ast.AST | None = next(iter(statements))
    while isinstance(current, ast.stmt):
        block = script.block(current)
        holding = [each for each in block if any(script.inside(made, each) for made in statements)]
        if all(any(script.inside(made, each) for each in holding) for made in statements):
            sure = all(any(_binds(each, group) for each in holding) for group in groups)
            looped = any(_in_loop(script, made, block) for made in statements)
            if sure and not looped:
                return holding[-1]
            if looped:
                return None
        current = script.parent(current)
        while isinstance(current, ast.ExceptHandler | ast.match_case):
            current = script.parent(current)
        if isinstance(current, _SCOPES):
            return None
    return None


def _in_loop(script: Script, statement: ast.stmt, block: list[ast.stmt]) -> bool:
    """Whether a loop, or a scope of its own, lies between a statement and a block around it."""
    current: ast.AST | None = statement
    while isinstance(current, ast.stmt | ast.ExceptHandler | ast.match_case):
        if isinstance(current, ast.stmt) and current in block:
            return current is not statement and isinstance(current, ast.For | ast.While | ast.AsyncFor)
        if current is not statement and isinstance(current, ast.For | ast.While | ast.AsyncFor | _SCOPES):
            return True
        current = script.parent(current)
    return True


def _binds(statement: ast.stmt, group: Iterable[ast.stmt]) -> bool:
    """Whether every path through a statement runs one of a group, or ends."""

    def covered(block: list[ast.stmt]) -> bool:
        return any(isinstance(each, _ENDS) or _binds(each, group) for each in block)

    if statement in group:
        return True
    match statement:
        case ast.If(test=test, body=body, orelse=orelse):
            return covered(body) and (covered(orelse) or _is_main(test))
        case ast.With(body=body) | ast.AsyncWith(body=body):
            return covered(body)
        case ast.Try(body=body, handlers=handlers, orelse=orelse, finalbody=final):
            tried = covered([*body, *orelse]) and all(covered(each.body) for each in handlers)
            return tried or covered(final)
        case ast.Match(cases=cases):
            last = cases[-1]
            whole = isinstance(last.pattern, ast.MatchAs) and last.pattern.pattern is None and last.guard is None
            return whole and all(covered(each.body) for each in cases)
        case _:
            return False


def _is_main(test: ast.expr) -> bool:
    """`if __name__ == "__main__":`"""
    return isinstance(test, ast.Compare) and isinstance(test.left, ast.Name) and test.left.id == "__name__"


def always_runs(script: Script, statement: ast.stmt, scope: ast.AST) -> bool:
    """Whether every run of a function that comes to its end has run a statement."""
    current: ast.AST | None = statement
    while current is not None and current is not scope:
        above = script.parent(current)
        if isinstance(above, ast.Try) and current not in (*above.body, *above.finalbody):
            return False
        if not (above is scope or isinstance(above, ast.With | ast.AsyncWith | ast.Try)):
            if not (isinstance(above, ast.If) and _is_main(above.test) and current in above.body):
                return False
        current = above
    return True


def is_bound(script: Script, scope: ast.AST, point: ast.stmt, expression: ast.expr | None) -> bool:
    """Whether an expression of names, attributes and parts surely has a value before a statement of a function that
    uses it later on."""
    if expression is None:
        return False
    root = expression
    while isinstance(root, ast.Attribute | ast.Subscript):
        root = root.value
    if not isinstance(root, ast.Name) or not stands(script, scope, point, expression):
        return False
    if is_made_by_calls(script, scope, point, expression):
        return False
    definitions = script.definitions(root)
    own = [each for each in definitions if each.scope.node is scope]
    made = [each.node for each in own if isinstance(each.node, ast.stmt)]
    if len(made) < len([each for each in own if each.how != "param"]):
        return False
    if made and not _precede(script, made, point):
        return False
    if is_read(script, scope, expression):
        return True
    if isinstance(expression, ast.Name):
        return bool(definitions) and _has_value(script, own or definitions)
    if isinstance(expression, ast.Attribute) and isinstance(expression.value, ast.Name):
        return _has_attribute(script, scope, expression)
    return False


def stands(script: Script, scope: ast.AST, point: ast.stmt, expression: ast.expr) -> bool:
    """Whether a function does not make anew, from a place on, what an expression reads."""
    text = script.source(expression)
    return not any(
        (part.lineno, part.col_offset) >= (point.lineno, point.col_offset)
        and any(script.source(target) == text for target in part.targets)
        for part in script.in_scope(scope, ast.Assign)
    )


def is_made_by_calls(script: Script, scope: ast.AST, point: ast.stmt, expression: ast.expr) -> bool:
    """Whether a function that is called from a place on may bind what an expression reads: `self.setup(fold)`."""
    if not isinstance(expression, ast.Name | ast.Attribute):
        return False
    name = expression.id if isinstance(expression, ast.Name) else expression.attr
    binders = _binders(script, scope, name, is_global=isinstance(expression, ast.Name))
    if not binders:
        return False
    return any(
        last_name(call.func) in binders
        for call in script.in_scope(scope, ast.Call)
        if call.lineno >= point.lineno or any(above in script.loops(call) for above in script.loops(point))
    )


def _binders(script: Script, scope: ast.AST, name: str, *, is_global: bool) -> set[str]:
    """The names of functions that bind a name of a module, or an attribute, and of those that call one."""
    files = list(dict.fromkeys((script, *script.project.related(script))))
    found = {
        each.name
        for other in files
        if any(True for _ in other.find(ast.Global)) or not is_global
        for each in other.find(ast.FunctionDef)
        if each is not scope and each.name != "__init__" and _stores(other, each, name, is_global=is_global)
    }
    if not found:
        return found
    calls = {
        each: {last_name(part.func) for part in other.within(each, ast.Call)}
        for other in files
        for each in other.find(ast.FunctionDef)
    }
    while found and (more := {each.name for each, called in calls.items() if called & found} - found - {"__init__"}):
        found |= more
    return found


def _stores(script: Script, function: ast.FunctionDef, name: str, *, is_global: bool) -> bool:
    if is_global:
        outward: list[ast.Global | ast.Nonlocal] = [
            *script.within(function, ast.Global),
            *script.within(function, ast.Nonlocal),
        ]
        return any(name in each.names for each in outward)
    return any(script.inside(part, function) for part in script.syntax_index.stored(name))


def _precede(script: Script, made: Sequence[ast.stmt], point: ast.stmt) -> bool:
    """Whether assignments that are left behind on the way to a place surely are made there."""
    if any(script.inside(each, point) or each.lineno >= point.lineno for each in made):
        return False
    last = last_binding(script, [made])
    if last is None:
        return False
    block = script.block(last)
    return any(isinstance(above, ast.stmt) and above in block for above in (point, *script.ancestors(point)))


def is_read(script: Script, scope: ast.AST, expression: ast.expr) -> bool:
    """Whether a function reads an expression on every path, so that it fails without."""
    text = script.source(expression)
    parts: list[ast.Name | ast.Attribute | ast.Subscript] = [
        *script.in_scope(scope, ast.Name),
        *script.in_scope(scope, ast.Attribute),
        *script.in_scope(scope, ast.Subscript),
    ]
    return any(
        isinstance(part.ctx, ast.Load) and script.source(part) == text and not _is_conditional(script, part, scope)
        for part in parts
    )


def _is_conditional(script: Script, node: ast.AST, scope: ast.AST) -> bool:
    child = node
    for above in script.ancestors(node):
        if above is scope:
            return False
        if isinstance(above, _CONDITIONS | _SCOPES):
            tested = isinstance(above, ast.If | ast.IfExp) and child is above.test
            if not tested and not (isinstance(above, ast.If) and _is_main(above.test)):
                return True
        child = above
    return False


def _has_value(script: Script, definitions: Sequence[Definition]) -> bool:
    if any(each.how in ("param", "import", "for", "with", "walrus") for each in definitions):
        return all(each.how in ("param", "import", "for", "with", "walrus", "assign") for each in definitions)
    scope = definitions[0].scope
    statements = [each.node for each in scope.definitions.get(definitions[0].name, ()) if each.how == "assign"]
    made = [each for each in statements if isinstance(each, ast.stmt)]
    last = last_binding(script, [made])
    return last is not None and always_runs(script, last, scope.node)


def _has_attribute(script: Script, scope: ast.AST, expression: ast.Attribute) -> bool:
    """Whether the constructor of the class surely assigns an attribute of `self`."""
    owner = (
        script.enclosing_class(scope) if not isinstance(script.parent(scope), ast.ClassDef) else script.parent(scope)
    )
    if not isinstance(owner, ast.ClassDef) or not isinstance(expression.value, ast.Name):
        return False
    if expression.value.id != "self":
        return False
    for method in owner.body:
        if isinstance(method, ast.FunctionDef) and method.name == "__init__":
            return _surely_sets(script, method, expression.attr, [])
    return False


def _surely_sets(script: Script, method: ast.FunctionDef, name: str, around: list[ast.FunctionDef]) -> bool:
    """Whether every run of a method assigns an attribute of `self`, by itself or in a method that it calls:
    `self.build_model()`."""
    made = [part for part in script.in_scope(method, ast.Assign) if _sets(part, name)]
    last = last_binding(script, [made]) if made else None
    leaves = min((part.lineno for part in script.in_scope(method, ast.Return)), default=None)
    if last is not None and always_runs(script, last, method):
        return leaves is None or last.lineno < leaves
    for part in script.in_scope(method, ast.Expr):
        match part:
            case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id="self"))) as call):
                callees = script.callees(call)  # of classes that derive from this one as well
                early = leaves is None or part.lineno < leaves
                if callees and early and method not in around and always_runs(script, part, method):
                    inner = [*around, method]
                    if all(_surely_sets(other, callee, name, inner) for other, callee in callees):
                        return True
    return False


def _sets(assign: ast.Assign, name: str) -> bool:
    return any(
        isinstance(part, ast.Attribute) and part.attr == name and isinstance(part.ctx, ast.Store)
        for target in assign.targets
        for part in ast.walk(target)
    )
