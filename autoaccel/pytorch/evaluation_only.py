"""Programs that only evaluate: the forward passes of their loops, whose outputs are looked at and never trained on."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from autoaccel.analysis.script import Script
from autoaccel.dataflow.abstract_values import Kind
from autoaccel.dataflow.query import once
from autoaccel.library_models.tensor_views import RESHAPING
from autoaccel.pytorch.evaluation_passes import evaluations
from autoaccel.pytorch.forwards import forward_calls
from autoaccel.pytorch.gradients import sets_grad_mode
from autoaccel.pytorch.loader_loops import LoaderLoop, loader_loops
from autoaccel.pytorch.step_effects import Effect, effects

_TRAINS = re.compile(
    r"\bbackward\b|autograd\.(?!Variable)|autograd +import +(?!Variable *(?:#|as\b|$))|\boptim\b|zero_grad"
    r"|torch\.func\b|enable_grad|requires_grad_\(|\.grad\b|GradScaler|Trainer|\.fit\(",
    re.MULTILINE,
)
_LOGITS = frozenset("argmax max topk softmax log_softmax sigmoid".split())
_KEEPS = RESHAPING | frozenset(
    """data detach cpu cuda to numpy shape size dim dtype device item tolist mean sum float exp eq clone contiguous
    min""".split()
)
_JUDGES = frozenset(
    f"torch.{place}{name}" for place in ("", "nn.functional.") for name in (*_LOGITS, "cross_entropy", "nll_loss")
)


@dataclass(frozen=True, slots=True, eq=False)
class EvaluationForward:
    """`outputs = model(images)` in a loop that evaluates; `outputs` surely is one floating tensor."""

    loop: LoaderLoop
    call: ast.Call
    statement: ast.Assign


@once
def only_evaluates(script: Script) -> bool:
    """Whether nothing in the project trains, or asks for gradients, to go by its words."""
    return not script.frameworks and not any(map(_TRAINS.search, script.project.related_texts(script)))


def evaluation_forwards(script: Script) -> Iterator[EvaluationForward]:
    """The forward passes of a program that only evaluates, one in each of its loops over a loader."""
    if not loader_loops(script) or not only_evaluates(script):
        return
    passes = [each for each in evaluations(script) if each.problem is None]
    for loop in loader_loops(script):
        if not any(each.holds(script, loop.node) for each in passes):
            continue
        found = _only_forward(script, loop)
        if found is not None and _is_of_logits(script, found.statement):
            yield found


def _only_forward(script: Script, loop: LoaderLoop) -> EvaluationForward | None:
    calls = list(forward_calls(script, loop.node))
    if len(calls) != 1 or sum(each.node is loop.node for each in loader_loops(script)) != 1:
        return None
    call = calls[0]
    statement = script.parent(call)
    if script.kind(call.func) is not Kind.MODULE or not isinstance(call.func, ast.Name | ast.Attribute):
        return None
    match statement:
        case ast.Assign(targets=[ast.Name()], value=value) if value is call:
            pass
        case _:
            return None
    around = script.parent(statement)
    while isinstance(around, ast.With) and all(sets_grad_mode(script, each.context_expr) for each in around.items):
        around = script.parent(around)
    if around is not loop.node or Effect.SENSITIVE in effects(script, statement):
        return None
    return EvaluationForward(loop, call, statement)


def _is_of_logits(script: Script, statement: ast.Assign) -> bool:
    """Whether a result is used as a tensor of scores, and as nothing else."""
    target = statement.targets[0]
    assert isinstance(target, ast.Name)
    scope = script.reaching_definitions.scopes[script.function(statement) or script.tree]
    made = [each for each in scope.definitions.get(target.id, ()) if each.node is statement]
    uses = [use for each in made for use in script.uses(each)]
    return bool(uses) and all(_is_tensor(script, use) for use in uses) and any(_is_score(script, use) for use in uses)


def _is_tensor(script: Script, use: ast.Name) -> bool:
    match script.parent(use):
        case ast.Attribute(attr=attr):
            return attr in _KEEPS | _LOGITS
        case ast.Call(func=function):
            return function is not use
        case ast.keyword() | ast.Compare() | ast.BinOp():
            return True
        case _:
            return False


def _is_score(script: Script, use: ast.Name) -> bool:
    expression: ast.expr = use
    while True:
        match script.parent(expression):
            case ast.Attribute(attr="data") as parent:
                expression = parent
            case ast.Attribute(attr=attr):
                return attr in _LOGITS
            case ast.Call(func=function, args=[first, *_]) if first is expression:
                return script.qualname(function) in _JUDGES or script.kind(function) is Kind.LOSS_FUNCTION
            case _:
                return False
