"""The models that a step runs, by the names that its own code has for them: also those that its functions run."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from autoaccel.analysis.bound_receivers import is_bound
from autoaccel.analysis.script import Script
from autoaccel.dataflow.abstract_values import Kind
from autoaccel.pytorch.gradients import is_backward
from autoaccel.pytorch.step_effects import Effect, call_effects, calls_in, calls_model
from autoaccel_codemods.captured_step.problems import DeclinedError


def called_models(script: Script, statements: Sequence[ast.stmt]) -> Iterator[ast.expr]:
    """What statements call to run models, by its outermost owner that is one: `model` of `model.encoder(x)`, and of
    `loss = compute_loss(model, x)`. Raises `DeclinedError`."""
    seen: set[str] = set()
    for statement in statements:
        for call in script.in_scope(statement, ast.Call):
            for model in _of_call(script, call, ()):
                if script.source(model) not in seen:
                    seen.add(script.source(model))
                    yield model


def _of_call(script: Script, call: ast.Call, entered: tuple[ast.AST, ...]) -> Iterator[ast.expr]:
    if is_backward(script, call):
        return
    of_objects = all(is_bound(other, function, script, call) for other, function in script.callees(call))
    if of_objects and calls_model(script, call):
        yield _outermost(script, call.func)
    elif Effect.FORWARD in call_effects(script, call):
        for other, function in script.callees(call):
            if isinstance(function, ast.FunctionDef) and function.name != "__init__" and function not in entered:
                for inner in calls_in(other, function):
                    for model in _of_call(other, inner, (*entered, function)):
                        yield _outside(script, call, other, function, model)


def _outermost(script: Script, called: ast.expr) -> ast.expr:
    model = called
    while isinstance(model, ast.Attribute) and script.kind(model.value) is Kind.MODULE:
        model = model.value
    if script.kind(model) is not Kind.MODULE:
        raise DeclinedError(f"what `{script.source(called)}` runs is not in sight")
    if not isinstance(model, ast.Name | ast.Attribute):
        raise DeclinedError(f"`{script.source(model)}` is no name")
    return model


def _outside(script: Script, call: ast.Call, other: Script, function: ast.FunctionDef, model: ast.expr) -> ast.expr:
    """What a model of a function's code is called where the function is: an argument, or the same name."""
    owner = _owner(model)
    found = () if owner is None else other.definitions(owner)
    if owner is not None and found:
        if all(each.how == "param" and each.scope.node is function for each in found):
            given = _given(script, call, other, function, owner.id)
            if isinstance(given, ast.Name | ast.Attribute) and owner is model and script.kind(given) is Kind.MODULE:
                return given
            is_same = given is not None and other is script and script.source(given) == owner.id
        else:
            is_same = other is script and all(each.scope.node is script.tree for each in found)
        same = _read_alike(script, call, model) if is_same else None
        if same is not None and (found[0].how == "param" or _are_of_module(script, same)):
            return same
    raise DeclinedError(f"`{function.name}` runs `{other.source(model)}`, for which the step has no name")


def _owner(model: ast.expr) -> ast.Name | None:
    while isinstance(model, ast.Attribute):
        model = model.value
    return model if isinstance(model, ast.Name) else None


def _are_of_module(script: Script, read: ast.expr) -> bool:
    """Whether a name is the module's variable where it is read."""
    owner = _owner(read)
    found = () if owner is None else script.definitions(owner)
    return bool(found) and all(each.scope.node is script.tree for each in found)


def _given(script: Script, call: ast.Call, other: Script, function: ast.FunctionDef, parameter: str) -> ast.expr | None:
    """What a call gives for a parameter; for `self`, the object of which it is a method."""
    first = function.args.args[0].arg if function.args.args else None
    if parameter == first and isinstance(call.func, ast.Attribute) and is_bound(other, function, script, call):
        return call.func.value
    return script.argument(call, function, parameter, other)


def _read_alike(script: Script, call: ast.Call, model: ast.expr) -> ast.expr | None:
    """An expression of the code around a call that reads the same: `model`, `self.model`; for an attribute that is read
    in functions alone, theirs."""
    scope = script.function(call) or script.tree
    reads: list[ast.Name | ast.Attribute] = [*script.in_scope(scope, ast.Name), *script.in_scope(scope, ast.Attribute)]
    text = script.source(model)
    alike = (each for each in reads if isinstance(each.ctx, ast.Load) and script.source(each) == text)
    return next(alike, model if isinstance(model, ast.Attribute) else None)
