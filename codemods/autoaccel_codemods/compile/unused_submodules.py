"""Parts of a model whose results a training step does not use.

Eager code gives their parameters no gradient and an optimizer leaves them alone. Compiled code gives them gradients of
zeros, and weight decay works on them: AOTAutograd fills in the gradients of outputs that nobody asked for.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from autoaccel.analysis.script import Script
from autoaccel.dataflow.definitions import Definition
from autoaccel_codemods.compile.trained_models import TrainedModel
from autoaccel_codemods.compile.training_forwards import training_forwards


def idle_part(script: Script, model: TrainedModel) -> str | None:
    """The source of a submodule of a trained model, if nothing but an unused output comes from it. Raises
    `Incomplete`."""
    made = {value.node for value in model.values}
    calls = [
        (other, call)
        for each in script.project.related(script)
        for other, call, _ in training_forwards(each)
        if any(value.node in made for value in other.values(call.func))
    ]
    unused = [frozenset(_unused(other, call)) for other, call in calls]
    always = frozenset.intersection(*unused) if unused else frozenset()
    forwards = dict.fromkeys(each for other, call in calls for each in other.callees(call))
    parts = (_only_part(file, forward, index) for file, forward in forwards for index in sorted(always))
    return next(filter(None, parts), None)


def _unused(script: Script, call: ast.Call) -> Iterator[int]:
    """Which of a call's results are bound to names that are never read, or not bound at all."""
    match script.parent(call):
        case ast.Assign(targets=[ast.Tuple(elts=targets)]):
            for index, target in enumerate(targets):
                if isinstance(target, ast.Name) and not any(script.uses(each) for each in _bound(script, target)):
                    yield index
        case ast.Subscript(slice=ast.Constant(value=int() as taken)) if taken in (0, 1):
            yield 1 - taken


def _bound(script: Script, target: ast.Name) -> Iterator[Definition]:
    scope = script.reaching_definitions.scopes[script.function(target) or script.tree]
    return (each for each in scope.definitions.get(target.id, ()) if script.inside(target, each.node))


def _only_part(script: Script, forward: ast.FunctionDef, index: int) -> str | None:
    """The submodule that makes one element of what `forward` returns, and that nothing else calls."""
    for statement in script.in_scope(forward, ast.Return):
        if not isinstance(statement.value, ast.Tuple) or index >= len(statement.value.elts):
            continue
        element = statement.value.elts[index]
        if isinstance(element, ast.Name):
            definitions = script.definitions(element)
            if len(definitions) != 1 or definitions[0].path or definitions[0].value is None:
                continue
            if script.uses(definitions[0]) != [element]:
                continue
            element = definitions[0].value
        if isinstance(element, ast.Call) and isinstance(element.func, ast.Attribute):
            name = element.func.attr
            if sum(each.attr == name for each in script.within(forward, ast.Attribute)) == 1:
                return script.source(element.func)
    return None
