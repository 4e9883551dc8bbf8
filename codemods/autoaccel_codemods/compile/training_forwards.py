"""The forward passes of training: which models it calls, and why none of them is seen to be made."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence

from autoaccel.analysis.script import Script
from autoaccel.dataflow.abstract_values import Kind
from autoaccel.dataflow.call_arguments import given_values
from autoaccel.dataflow.query import once_all
from autoaccel.pytorch.gradients import backward_calls, in_grad_mode
from autoaccel.pytorch.run_once_code import runs_once
from autoaccel.pytorch.training_steps import training_scopes, training_steps
from autoaccel_codemods.compile.model_origins import in_model, made_at


@once_all
def training_forwards(script: Script) -> Iterator[tuple[Script, ast.Call, bool]]:
    """Calls of models in scopes with a backward pass, in what these scopes call and in what is handed to them, and
    whether they are repeated; not the calls inside models."""
    yield from _forwards_from(script, training_scopes(script))
    for scope in training_scopes(script):
        for other, call in () if isinstance(scope, ast.Module) else script.callers(scope):
            for part in _handed_over(other, call):
                if other.kind(part.func) is Kind.MODULE and not in_model(other, other.function(part) or other.tree):
                    yield other, part, not runs_once(other, part)


def _handed_over(script: Script, call: ast.Call) -> Iterator[ast.Call]:
    """The calls that a call is given the results of: `step(model(x), y)`, also by names."""
    for given in given_values(call):
        yield from script.within(given, ast.Call)
        for name in script.within(given, ast.Name):
            made = (each.value for each in script.definitions(name))
            yield from (each for each in made if isinstance(each, ast.Call))


def _forwards_from(script: Script, scopes: Iterable[ast.AST]) -> Iterator[tuple[Script, ast.Call, bool]]:
    pending: list[tuple[Script, ast.AST]] = [(script, scope) for scope in scopes]
    training = {scope for _, scope in pending}  # also methods of a model, which train one that they are given
    seen: set[ast.AST] = set()
    while pending:
        other, scope = pending.pop()
        if scope in seen or (scope not in training and in_model(other, scope)):
            continue
        seen.add(scope)
        for part in other.in_scope(scope, ast.Call):
            if other.kind(part.func) is Kind.MODULE:
                yield other, part, not runs_once(other, part)
            elif not any(True for _ in backward_calls(other, part)):
                pending.extend(
                    (script, callee) for script, callee in other.callees(part) if not _only_samples(script, callee)
                )


def steps_of_unseen_models(script: Script) -> Iterator[tuple[ast.Call, str]]:
    """Backward passes of this file whose step runs models, none of which is seen to be made; and why not."""
    for step in training_steps(script):
        forwards = step.forwards
        if not step.backwards or not step.optimizer_steps or any(in_model(script, each) for each in step.scopes):
            continue
        if not forwards:
            yield step.backwards[0].call, "the training step runs no model that is seen"
            continue
        called = [(file, call) for file, call, _ in _forwards_from(script, step.scopes)]
        if any(True for file, call in called for _ in made_at(file, call.func, set())):
            continue
        yield step.backwards[0].call, _why_unseen(script, forwards, called)


def _why_unseen(script: Script, forwards: Sequence[ast.Call], called: Sequence[tuple[Script, ast.Call]]) -> str:
    for file, call in called:
        made = [(value.script, value.node) for value in file.values(call.func) if value.kind is Kind.MODULE]
        part = all(at and node and in_model(at, at.function(node) or at.tree) for at, node in made)
        why = "it is made as a part of another model" if made and part else "nothing in sight makes it"
        return f"`{file.source(call.func)}`: {why}"
    for call in forwards:
        match call.func:
            case ast.Attribute(value=model, attr=name) if script.kind(model) is Kind.MODULE:
                said = script.source(model)
                if name == "forward":
                    return f"`{said}`: `{said}.forward(…)` passes compiled code by, which `{said}(…)` runs"
                return f"`{said}`: it is called by `{name}`, not by `forward`"
    names = dict.fromkeys(script.source(call.func) for call in forwards)
    return f"nothing shows that {' or '.join(f'`{name}`' for name in list(names)[:2])} is a module"


def _only_samples(script: Script, function: ast.AST) -> bool:
    """Whether a function that a training step calls now and then runs models without gradients only, in eval mode."""
    switches = (part for part in script.in_scope(function, ast.Attribute) if part.attr == "eval")
    if not any(True for _ in switches):
        return False
    forwards = (part for part in script.in_scope(function, ast.Call) if script.kind(part.func) is Kind.MODULE)
    return all(in_grad_mode(script, each, function) for each in forwards)
