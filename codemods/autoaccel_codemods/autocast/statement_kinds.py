"""What single statements of a training step are to an autocast region: what one may begin and end with."""

from __future__ import annotations

import ast

from autoaccel.analysis.script import Script
from autoaccel.dataflow.abstract_values import Kind
from autoaccel.dataflow.syntax_index import walk_scope
from autoaccel.library_models.tensor_operations import FLOATING, KEEPING, LOW, PRODUCTS
from autoaccel.pytorch.step_effects import Effect, effects, is_sensitive, may_run_model
from autoaccel_codemods.autocast.backward_slice import MUTATORS, variables
from autoaccel_codemods.autocast.float32_statements import read_by_name
from autoaccel_codemods.autocast.float_tensors import content
from autoaccel_codemods.autocast.tensor_content import Content

_BY_CLASS = frozenset(f"torch.nn.{name}" for name in ("CrossEntropyLoss", "NLLLoss", "CTCLoss", "MultiMarginLoss"))
# Between forward and loss: clearing gradients, and waiting for numbers to be counted.
_NOT_OF_THE_FORWARD = frozenset({"zero_grad", "item", "tolist"})
_WITH_GRADIENTS = frozenset({Kind.OPTIMIZER, Kind.MODULE})
_OF_HOST = frozenset({Kind.ARRAY, Kind.NUMBER, Kind.BOOL, Kind.STRING})


def starts(script: Script, statement: ast.stmt, reduced: set[str]) -> bool:
    """Whether a region may begin with a statement: it runs a model, or computes with what names in low precision, those
    that are `reduced`, hold."""
    if Effect.FORWARD in effects(script, statement):
        return True
    calls = script.in_scope(statement, ast.Call)
    if any(may_run_model(script, call) for call in calls):
        return True
    return bool(variables(script, statement) & reduced) and any(
        script.kind(call.func) is not Kind.SCHEDULER for call in calls
    )


def is_on_host(script: Script, statement: ast.stmt) -> bool:
    """Whether a statement runs no model, and makes or keeps arrays and plain values alone."""
    match statement:
        case ast.Assign(targets=[ast.Name()], value=value):
            given = [value]
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr=method), args=[*given], keywords=[])) if (
            method in MUTATORS
        ):
            pass
        case _:
            return False
    for each in given:
        if isinstance(each, ast.Tuple):
            given += each.elts
        elif not script.values(each).kinds <= _OF_HOST:
            return False
    return not any(may_run_model(script, call) for call in script.in_scope(statement, ast.Call))


def ends_between(script: Script, gap: list[ast.stmt], following: ast.stmt, reduced: set[str]) -> bool:
    """Whether statements between two of a region end it: they run no model, and wait or clear gradients. Of a line
    that clears them between forward and loss, a second region would be more to read than a longer one."""
    match gap:
        case [ast.Expr(value=ast.Call(func=ast.Attribute(value=owner, attr="zero_grad")) as call)]:
            kinds = script.values(owner).kinds
            torchs = bool(kinds) and kinds <= _WITH_GRADIENTS and not script.callees(call)
            if torchs and starts(script, following, reduced):
                return False
    calls = [call for each in gap for call in script.in_scope(each, ast.Call)]
    return any(
        isinstance(each.func, ast.Attribute) and each.func.attr in _NOT_OF_THE_FORWARD for each in calls
    ) and not any(may_run_model(script, each) for each in calls)


def is_arithmetic(script: Script, statement: ast.stmt, reduced: set[str]) -> bool:
    """Whether all that a statement does to what is in low precision is arithmetic of torch's, on tensors that can
    be lifted to float32 where it names them: autocast runs none of it faster."""
    if not isinstance(statement, ast.Assign) or not starts(script, statement, reduced):
        return False
    calls = script.in_scope(statement, ast.Call)
    names = read_by_name(script, statement, reduced)
    return (
        all(_is_elementwise(script, each) for each in calls)
        and not any(isinstance(getattr(part, "op", None), ast.MatMult) for part in walk_scope(statement))
        and set(map(script.source, names)) == variables(script, statement) & reduced
        and all(content(script, each) is Content.FLOATING for each in names)
    )


def _is_elementwise(script: Script, call: ast.Call) -> bool:
    qualified = script.qualname(call.func)
    if qualified is not None:
        module, _, name = qualified.rpartition(".")
        return module == "torch" and name in FLOATING | KEEPING and name not in LOW | PRODUCTS
    name = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    known = not script.callees(call) and name in FLOATING | KEEPING
    return known and name not in LOW | PRODUCTS and not name.endswith("_")


def draws(script: Script, node: ast.AST) -> bool:
    """`next(batches)`: loads data."""
    match node:
        case ast.Call(func=ast.Name(id="next") as function):
            return not script.definitions(function)
        case ast.Call(func=ast.Attribute(attr="__next__")):
            return True
        case _:
            return False


def takes_classes(script: Script, call: ast.Call) -> bool:
    """Whether binary cross-entropy may as well be a loss whose targets are whole numbers: those must not be floats."""
    if not is_sensitive(script, call):
        return False
    return any(value.kind is Kind.LOSS_FUNCTION and value.name in _BY_CLASS for value in script.values(call.func))
