"""What runs a single time in the life of a program: time saved there is not noticed."""

from __future__ import annotations

import ast

from autoaccel.analysis.script import Script


def runs_once(script: Script, node: ast.AST, seen: frozenset[ast.AST] = frozenset()) -> bool:
    """Whether a place is reached once at most: neither it nor any call that leads to it stands in a loop.

    False where not every call of a function is seen: methods, functions that are handed over, functions nobody calls.
    """
    function = script.function(node)
    if script.loops(node) or any(isinstance(each, ast.comprehension) for each in _until(script, node, function)):
        return False
    if function is None:
        return True
    if function in seen or not isinstance(function, ast.FunctionDef) or script.function(function) is not None:
        return False
    if isinstance(script.parent(function), ast.ClassDef) or _is_handed_over(script, function):
        return False
    callers = script.callers(function).seen
    return len(callers) == 1 and runs_once(*callers[0], seen | {function})


def _until(script: Script, node: ast.AST, outer: ast.AST | None) -> list[ast.AST]:
    """What encloses a place, as far as its function; the loops of a comprehension for the comprehension."""
    found: list[ast.AST] = []
    for each in script.ancestors(node):
        if each is outer:
            break
        found.extend([each, *getattr(each, "generators", ())])
    return found


def _is_handed_over(script: Script, function: ast.FunctionDef) -> bool:
    """Whether a function is mentioned other than by a call of it: `Process(target=train)`, `spawn(train)`."""
    return any(
        name.id == function.name and isinstance(name.ctx, ast.Load) and script.call_of(name) is None
        for name in script.find(ast.Name)
    )
