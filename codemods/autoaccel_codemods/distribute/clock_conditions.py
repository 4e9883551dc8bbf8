"""Conditions on the clock, which may hold on one rank and not on another: the first one decides."""

from __future__ import annotations

import ast
from typing import Final

from autoaccel.analysis.script import Script
from autoaccel.dataflow.query import once
from autoaccel.edits import Code, Edit, Replace
from autoaccel.library_models.python_names import CLOCKS

_OF_EACH: Final = CLOCKS | frozenset(
    """time.localtime time.gmtime time.strftime time.ctime datetime.datetime.now datetime.datetime.today
    datetime.datetime.utcnow datetime.date.today os.getpid uuid.uuid1 uuid.uuid4""".split()
)
_AGREED: Final = "agreed"


@once
def edits(script: Script) -> tuple[Edit, ...]:
    """The edits by which all ranks do what the first one finds."""
    branches: list[ast.If | ast.While | ast.IfExp] = [
        *script.find(ast.If),
        *script.find(ast.While),
        *script.find(ast.IfExp),
    ]
    tests = [each.test for each in branches if is_timed(script, each.test) and not _only_prints(each)]
    return tuple(Replace(each, Code(f"{script.accel}.{_AGREED}({{0}})", (each,))) for each in tests)


def is_timed(script: Script, expression: ast.expr, seen: frozenset[ast.AST] = frozenset()) -> bool:
    """Whether a value comes from the clock, or from what else each process has of its own."""
    if isinstance(expression, ast.Call) and script.runtime_name(expression.func) == _AGREED:
        return False
    if any(script.qualname(call.func) in _OF_EACH for call in script.within(expression, ast.Call)):
        return True
    for name in script.within(expression, ast.Name):
        for definition in script.definitions(name):
            if definition.value is not None and definition.how == "assign" and definition.node not in seen:
                if is_timed(script, definition.value, seen | {definition.node}):
                    return True
    return any(each.attr in _timed_attributes(script) for each in script.within(expression, ast.Attribute))


@once
def _timed_attributes(script: Script) -> frozenset[str]:
    """The attributes that a file stores the time in: `self.began = time.time()`."""
    return frozenset(
        target.attr
        for assign in script.find(ast.Assign)
        if any(script.qualname(call.func) in _OF_EACH for call in script.within(assign.value, ast.Call))
        for target in assign.targets
        if isinstance(target, ast.Attribute)
    )


def _only_prints(branch: ast.If | ast.While | ast.IfExp) -> bool:
    """Whether nothing hangs on a condition but what the first rank alone shows."""
    if not isinstance(branch, ast.If) or branch.orelse:
        return False
    return all(
        isinstance(each, ast.Expr)
        and isinstance(each.value, ast.Call)
        and isinstance(each.value.func, ast.Name)
        and each.value.func.id == "print"
        for each in branch.body
    )
