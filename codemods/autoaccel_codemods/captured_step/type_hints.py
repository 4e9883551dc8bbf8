"""The annotations of the function that a step becomes, where the code around it is annotated."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from autoaccel.analysis.script import Script
from autoaccel.dataflow.abstract_values import Kind
from autoaccel.library_models.tensor_views import RESHAPING
from autoaccel_codemods.captured_step.region import StepRegion

_ATTRIBUTES = RESHAPING | frozenset(
    "T clone contiguous cuda detach device dim dtype expand float long mean numel repeat shape size sum to type".split()
)


def wanted(script: Script, region: StepRegion, parameters: Sequence[str], results: Sequence[str]) -> bool:
    """Whether a function stands among annotated ones, and takes and gives nothing but tensors."""
    scope = region.scope
    around = [scope] if isinstance(scope, ast.FunctionDef | ast.AsyncFunctionDef) else [*script.find(ast.FunctionDef)]
    if not around or not all(map(_is_annotated, around)):
        return False
    return all(_is_tensor(script, region, each) for each in (*parameters, *results))


def undeclared(script: Script, region: StepRegion, results: Sequence[str]) -> ast.Name | None:
    """The one result where it is bound first, if a module is called for it: of what that gives, type checkers know
    nothing, and a function that returns it has to say so."""
    names = [part for each in region.statements for part in ast.walk(each) if isinstance(part, ast.Name)]
    for name in names:
        if [name.id] == list(results) and isinstance(name.ctx, ast.Store):
            match script.parent(name):
                case ast.Assign(targets=[ast.Name()], value=value) if _is_of_a_module(script, value):
                    return name
                case _:
                    return None
    return None


def _is_of_a_module(script: Script, value: ast.expr) -> bool:
    match value:
        case ast.BinOp(left=left, right=right):
            return _is_of_a_module(script, left) or _is_of_a_module(script, right)
        case ast.Call(func=function):
            return script.kind(function) in (Kind.MODULE, Kind.LOSS_FUNCTION)
        case _:
            return False


def _is_annotated(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    given = function.args
    every = [*given.posonlyargs, *given.args, *given.kwonlyargs, *filter(None, (given.vararg, given.kwarg))]
    own = [each for each in every[:1] if each.arg in ("self", "cls")]
    return function.returns is not None and all(each.annotation for each in every if each not in own)


def _is_tensor(script: Script, region: StepRegion, name: str) -> bool:
    """Whether a name of the step surely is a tensor: by its value, or as a part of a batch that is used as one."""
    parts = [part for each in region.statements for part in ast.walk(each)]
    names = [part for part in parts if isinstance(part, ast.Name) and part.id == name]
    if any(script.kind(each) is Kind.TENSOR for each in names):
        return True
    backward = (part.value for part in parts if isinstance(part, ast.Attribute) and part.attr == "backward")
    if any(isinstance(part, ast.Name) and part.id == name for each in backward for part in ast.walk(each)):
        return True
    target = region.around.target if isinstance(region.around, ast.For) else None
    whole = isinstance(target, ast.Name) and target.id == name
    return not whole and all(_is_used_as_tensor(script, each) for each in names)


def _is_used_as_tensor(script: Script, name: ast.Name) -> bool:
    if script.kind(name) is not Kind.BATCH:
        return False
    match script.parent(name):
        case ast.Attribute(attr=attribute):
            return attribute in _ATTRIBUTES
        case ast.Call() | ast.BinOp():
            return True
        case _:
            return False
