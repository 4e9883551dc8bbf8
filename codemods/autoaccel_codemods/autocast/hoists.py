"""Expressions that get a name of their own inside a region: how much of a statement, and which name."""

from __future__ import annotations

import ast
import itertools
from dataclasses import dataclass

from autoaccel.analysis.script import Script
from autoaccel.pytorch.step_effects import Effect, call_effects


@dataclass(frozen=True, slots=True, eq=False)
class Hoist:
    """An expression that gets a name of its own inside a region."""

    expression: ast.expr
    name: str


class FreeNames:
    """Chooses names that are not used yet."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self._taken: dict[ast.AST, set[str]] = {}

    def choose(self, statement: ast.stmt, *candidates: str) -> str:
        """A name that the function (or, at module level, the file) does not use yet."""
        scope = self._script.function(statement) or self._script.tree
        taken = self._taken.get(scope)
        if taken is None:
            if isinstance(scope, ast.Module):
                taken = set(self._script.used_names)
            else:
                taken = {part.id for part in ast.walk(scope) if isinstance(part, ast.Name)}
                taken |= {part.arg for part in ast.walk(scope) if isinstance(part, ast.arg)}
            self._taken[scope] = taken
        numbered = (f"{candidates[0]}{number}" for number in itertools.count(2))
        free = next(each for each in itertools.chain(candidates, numbered) if each not in taken)
        taken.add(free)
        return free


def names_for(statement: ast.stmt) -> tuple[str, ...]:
    """Names for what a loss is computed from: `real_loss` is made of `real_output`."""
    target = statement.targets[0] if isinstance(statement, ast.Assign) else getattr(statement, "target", None)
    if isinstance(target, ast.Name):
        for word in ("loss", "Loss"):
            if word in target.id and target.id.lower() != "loss":
                name = target.id.replace(word, "output")
                return (name, "output", "prediction")
    return ("output", "prediction", "outputs")


def whole_expression(script: Script, forward: ast.expr, statement: ast.stmt) -> ast.expr | None:
    """The largest expression around a forward that has no binary cross-entropy in it."""
    whole: ast.expr = forward
    for ancestor in script.ancestors(forward):
        if ancestor is statement or not isinstance(ancestor, ast.expr | ast.keyword | ast.Starred):
            return whole
        if any(
            isinstance(part, ast.Call) and Effect.SENSITIVE in call_effects(script, part) for part in ast.walk(ancestor)
        ):
            return whole
        if isinstance(ancestor, ast.Starred):
            return None
        if isinstance(ancestor, ast.expr):
            whole = ancestor
    return whole


def is_conditional(script: Script, node: ast.AST, statement: ast.stmt) -> bool:
    """Whether a statement does not compute a part of it exactly once."""
    child = node
    for ancestor in script.ancestors(node):
        if ancestor is statement:
            return False
        if isinstance(ancestor, ast.Lambda | ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
            return True
        if isinstance(ancestor, ast.BoolOp) and child is not ancestor.values[0]:
            return True
        if isinstance(ancestor, ast.IfExp) and child is not ancestor.test:
            return True
        child = ancestor
    return False
