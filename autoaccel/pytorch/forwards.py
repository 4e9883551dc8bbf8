"""Forward passes: calls that run a model, and whether they record gradients."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from autoaccel.analysis.classes import instance_kind
from autoaccel.analysis.script import Script
from autoaccel.dataflow.abstract_values import Kind
from autoaccel.dataflow.query import once
from autoaccel.pytorch.gradients import (
    has_grad_mode,
    in_grad_mode,
    sets_grad_mode,
)

WITHOUT_PARAMETERS = frozenset(
    f"torch.nn.{name}"
    for name in """AdaptiveAvgPool1d AdaptiveAvgPool2d AdaptiveMaxPool2d AvgPool1d AvgPool2d CosineSimilarity Dropout
    Dropout2d Flatten Fold GELU Identity LogSoftmax MaxPool1d MaxPool2d PairwiseDistance PixelShuffle ReLU
    ReflectionPad2d Sigmoid Softmax Softplus Tanh Unflatten Unfold Upsample ZeroPad2d""".split()
)


def forward_calls(script: Script, outer: ast.AST) -> Iterator[ast.Call]:
    """Calls of models within `outer`: directly, or of a project function that calls one; nested functions excluded."""
    for call in script.in_scope(outer, ast.Call):
        if runs_model(script, call):
            yield call


@once
def runs_model(script: Script, call: ast.Call) -> bool:
    """Whether a call runs a model: `model(x)`, `self.net(x)`, `model.forward(x)`, or a project function that does."""
    return _runs_model(script, call, set())


def _runs_model(script: Script, call: ast.Call, seen: set[ast.AST]) -> bool:
    if script.kind(call.func) is Kind.MODULE:
        scope = script.function(call)  # within a model a module without parameters stands for all of it
        return not is_function_module(script, call.func) or (scope is not None and is_module_method(script, scope))
    if isinstance(call.func, ast.Attribute):
        owner = script.kind(call.func.value)
        if owner is Kind.MODULE and call.func.attr in ("forward", "encode", "decode", "sample", "generate"):
            return True
    for other, function in script.callees(call):
        if function in seen:
            continue
        seen.add(function)
        if any(_runs_model(other, each, seen) for each in other.in_scope(function, ast.Call)):
            return True
    return False


def is_function_module(script: Script, model: ast.expr) -> bool:
    """Whether a module is a function of its inputs in the form of an object: without parameters it records nothing."""
    values = script.values(model)
    return bool(values) and all(value.name in WITHOUT_PARAMETERS for value in values)


def records(script: Script, call: ast.Call, within: ast.AST, seen: frozenset[ast.AST] = frozenset()) -> bool:
    """Whether a forward runs with gradients on: neither here nor in the project functions that lead to it are they
    off."""
    if in_grad_mode(script, call, within):
        return False
    callees = script.callees(call)
    if script.kind(call.func) is Kind.MODULE:
        return not callees or not all(_is_off_throughout(other, function) for other, function in callees)
    return not callees or any(
        records(other, inner, function, seen | {function})
        for other, function in callees
        if function not in seen
        for inner in forward_calls(other, function)
    )


def _is_off_throughout(script: Script, function: ast.FunctionDef) -> bool:
    """Whether a function sets the grad mode for all that it does."""
    body = [each for each in function.body if not (isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant))]
    match body:
        case [ast.With(items=items), *rest] if all(isinstance(each, ast.Return) for each in rest):
            return any(sets_grad_mode(script, each.context_expr) for each in items)
        case _:
            return has_grad_mode(script, function)


def is_module_method(script: Script, function: ast.AST) -> bool:
    """Methods of a model itself may be called while training."""
    cls = script.parent(function)
    if not isinstance(cls, ast.ClassDef):
        return False
    return instance_kind(script.class_ref(cls)) in (Kind.MODULE, Kind.LOSS_FUNCTION)


def forward_methods(script: Script) -> Iterator[ast.FunctionDef]:
    """The forward passes that the models of a file define."""
    return (each for each in script.find(ast.FunctionDef) if each.name == "forward" and is_module_method(script, each))


def tries_out(script: Script, function: ast.AST, forwards: tuple[ast.Call, ...]) -> bool:
    """Whether a function only calls a fresh model once, to see that it runs: `net = Net(); print(net(x).size())`."""
    if any(script.in_scope(function, kind) for kind in (ast.For, ast.While)):
        return False
    if any(part.attr == "load_state_dict" for part in script.in_scope(function, ast.Attribute)):
        return False
    return all(made_here(script, call.func, function) for call in forwards)


def made_here(script: Script, model: ast.expr, function: ast.AST) -> bool:
    """Whether a model is made where it is called, in the scope of `function`."""
    if isinstance(model, ast.Call):
        return True
    definitions = script.definitions(model) if isinstance(model, ast.Name) else ()
    return bool(definitions) and all(
        each.scope.node is function and isinstance(each.value, ast.Call) for each in definitions
    )
