"""What else a loop does in each batch with what the update changes: it would happen several times a step."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Final

from autoaccel.analysis.script import Script
from autoaccel.dataflow.abstract_values import Kind
from autoaccel.dataflow.call_arguments import given_values
from autoaccel.pytorch.step_effects import Effect, call_effects, calls_model
from autoaccel_codemods.accumulate.updates import Update
from autoaccel_codemods.captured_step.problems import DeclinedError

_HOOKS: Final = ("register_hook", "register_post_accumulate_grad_hook", "register_step_post_hook", "grad")
_LOOKS: Final = frozenset("train eval state_dict parameters named_parameters get_last_lr get_lr".split())
_CHANGES: Final = Effect.BACKWARD | Effect.STEP | Effect.GRADIENTS | Effect.DOUBLE


def refuse(script: Script, update: Update) -> None:
    """Raises `DeclinedError`."""
    for mention in script.syntax_index.mentions(*_HOOKS):
        if isinstance(mention, ast.Attribute) and script.qualname(mention) is None:
            raise DeclinedError(f"the script reads gradients, or hooks into them, in line {mention.lineno}")
    for statement in update.loop.body:
        if statement not in update.statements:
            _refuse_statement(script, statement)


def _refuse_statement(script: Script, statement: ast.stmt) -> None:
    for part, inner in _parts(statement):
        match part:
            case ast.Break() | ast.Continue() if not inner:
                word = type(part).__name__.lower()
                raise DeclinedError(f"`{word}` in line {part.lineno} may leave a window without its step")
            case ast.Return() | ast.Yield() | ast.YieldFrom():
                raise DeclinedError(f"line {part.lineno} may leave a window without its step")
            case ast.Call():
                _refuse_call(script, part)
            case ast.Name() | ast.Attribute() if script.kind(part) is Kind.OPTIMIZER:
                if not _is_only_read(script, part):
                    raise DeclinedError(f"line {part.lineno} does something with the optimizer in every batch")


def _parts(statement: ast.stmt) -> Iterator[tuple[ast.AST, bool]]:
    """All that is in a statement, and whether it is in a loop of its own."""
    pending: list[tuple[ast.AST, bool]] = [(statement, False)]
    for part, inner in pending:
        yield part, inner
        own = isinstance(part, ast.For | ast.AsyncFor | ast.While)
        for child in ast.iter_child_nodes(part):
            pending.append((child, inner or (own and child not in getattr(part, "orelse", ()))))


def _refuse_call(script: Script, call: ast.Call) -> None:
    name = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    if name in ("step", "zero_grad", "unscale_"):
        raise DeclinedError(f"line {call.lineno} does a part of the update under a condition, or of another one")
    found = call_effects(script, call)
    if _CHANGES & found:
        raise DeclinedError(f"`{script.source(call.func)}` in line {call.lineno} does something with gradients")
    if Effect.FORWARD in found or calls_model(script, call):
        return
    given = [each for each in given_values(call) if script.kind(each) is Kind.MODULE]
    if isinstance(call.func, ast.Attribute) and name not in _LOOKS and script.kind(call.func.value) is Kind.MODULE:
        given.append(call.func.value)
    if given:
        raise DeclinedError(f"line {call.lineno} does something with `{script.source(given[0])}` in every batch")


def _is_only_read(script: Script, optimizer: ast.expr) -> bool:
    """`optimizer.state_dict()`, `optimizer.param_groups[0]["lr"]`"""
    match script.parent(optimizer):
        case ast.Attribute(attr="state_dict"):
            return True
        case ast.Attribute(attr="param_groups") as groups:
            item = script.parent(groups)
            value = script.parent(item) if isinstance(item, ast.Subscript) else None
            return isinstance(value, ast.Subscript) and isinstance(value.ctx, ast.Load)
        case _:
            return False
