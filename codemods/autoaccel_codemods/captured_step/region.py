"""The statements of a loop's body that are a training step: from the first forward pass to the optimizer's update."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from autoaccel.dataflow.abstract_values import Kind
from autoaccel.dataflow.syntax_index import walk_scope
from autoaccel.library_models.python_names import BUILTINS
from autoaccel.pytorch.gradients import is_backward
from autoaccel.pytorch.step_effects import calls_model
from autoaccel_codemods.captured_step.problems import DeclinedError

if TYPE_CHECKING:
    from autoaccel.analysis.script import Script
    from autoaccel.dataflow.syntax_index import Loop
    from autoaccel.pytorch.training_steps import ScopeNode, TrainingStep

_PLAIN = ast.Assign | ast.AugAssign | ast.AnnAssign | ast.Expr
_OWN_SCOPES = ast.Lambda | ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
_UNMOVABLE = ast.Await | ast.Yield | ast.YieldFrom | ast.NamedExpr | ast.Starred


@dataclass(frozen=True, slots=True, eq=False)
class Region:
    """Statements of the body of `loop`, which train `models` by `optimizer`; between them nothing but `shown`: what
    prints numbers, and may as well do so after the step."""

    statements: Sequence[ast.stmt]
    shown: Sequence[ast.stmt]
    loop: Loop
    scope: ScopeNode
    models: tuple[ast.expr, ...]
    optimizer: ast.expr


def find(script: Script, step: TrainingStep) -> Region:
    """The statements of a step. Raises `DeclinedError`."""
    if len(step.backwards) != 1 or len(step.steps) != 1:
        raise DeclinedError("the step has several backward passes, or several optimizers")
    backward, update = step.backwards[0], step.steps[0]
    block = script.block(backward.statement)
    loops = script.loops(backward.call)
    if not loops or loops[0].body is not block or isinstance(loops[0], ast.AsyncFor):
        raise DeclinedError("its backward pass does not stand in the body of a loop itself")
    if update.statement not in block or update.each is not None or update.optimizer is None:
        raise DeclinedError("the optimizer does not step beside the backward pass")
    if backward.call.args or backward.call.keywords:
        raise DeclinedError("its backward pass has arguments")
    if update.receiver is update.call.func and update.call.args:
        raise DeclinedError("the optimizer is given a closure")
    first, last = _forward(script, block, backward.statement), block.index(update.statement)
    if last < block.index(backward.statement):
        raise DeclinedError("the optimizer steps before the backward pass")
    while last + 1 < len(block) and _is_upkeep(script, block[last + 1]):
        last += 1
    cleared = [index for index in range(first) if _clears(block[index])]
    if cleared and all(is_movable(each) for each in block[cleared[0] : first]):
        first = cleared[0]
    computed = set(block[first : last + 1])
    shown = [each for each in block[first : last + 1] if is_display(script, each, computed)]
    statements = [each for each in block[first : last + 1] if each not in shown]
    for each in statements:
        if not is_movable(each):
            raise DeclinedError(f"line {each.lineno} decides or binds what a function cannot")
    models = tuple(_models(script, statements))
    if not models:
        raise DeclinedError("its forward pass is not in sight")
    scope = script.function(backward.call) or script.tree
    _refuse_changed(statements, shown)
    return Region(statements, shown, loops[0], scope, models, update.optimizer)


def _forward(script: Script, block: list[ast.stmt], backward: ast.stmt) -> int:
    """Where the first statement before the backward pass stands that runs a model."""
    end = block.index(backward)
    for index, statement in enumerate(block[: end + 1]):
        if any(isinstance(part, ast.Call) and calls_model(script, part) for part in walk_scope(statement)):
            return index
    raise DeclinedError("its forward pass does not stand beside the backward pass")


def _clears(statement: ast.stmt) -> bool:
    match statement:
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr="zero_grad"))):
            return True
        case _:
            return False


def _is_upkeep(script: Script, statement: ast.stmt) -> bool:
    """What belongs to the update: `scaler.update()`, and gradients that are cleared after it."""
    match statement:
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=owner, attr="update"), args=[])):
            return script.kind(owner) is Kind.SCALER
        case _:
            return _clears(statement)


def is_movable(statement: ast.stmt) -> bool:
    """Whether a statement computes and binds names, and nothing else; regions of autocast may stand around it."""
    if isinstance(statement, ast.With):
        plain = all(each.optional_vars is None for each in statement.items)
        return plain and all(map(is_movable, statement.body))
    if not isinstance(statement, _PLAIN) or (isinstance(statement, ast.AnnAssign) and statement.value is None):
        return False
    parts = list(ast.walk(statement))
    if any(isinstance(part, _OWN_SCOPES | _UNMOVABLE) for part in parts):
        return False
    stored = (part for part in parts if isinstance(getattr(part, "ctx", None), ast.Store | ast.Del))
    return all(isinstance(part, ast.Name | ast.Tuple) for part in stored)


def is_display(script: Script, statement: ast.stmt, computed: set[ast.stmt]) -> bool:
    """Whether a statement prints texts, numbers and what these statements have computed, and does nothing else."""
    match statement:
        case ast.If(test=test, body=body, orelse=[]):
            return _is_shown(script, test, computed) and all(is_display(script, each, computed) for each in body)
        case ast.Expr(value=ast.Call(func=ast.Name(id="print") as name, args=args, keywords=[])):
            return not script.definitions(name) and all(_is_shown(script, each, computed) for each in args)
        case _:
            return False


def _is_shown(script: Script, expression: ast.expr, computed: set[ast.stmt]) -> bool:
    """Whether an expression is made of numbers, texts and results, and of what converts them: the update of the
    parameters changes none of these."""
    for part in ast.walk(expression):
        match part:
            case ast.Call(func=ast.Attribute(attr="item" | "format")):
                pass
            case ast.Call(func=ast.Name(id="len" | "float" | "int" | "str" | "round") as name):
                if script.definitions(name):
                    return False
            case ast.Attribute(attr="item" | "format"):
                if not isinstance(script.parent(part), ast.Call):
                    return False
            case ast.Name():
                builtin = script.call_of(part) is not None and part.id in BUILTINS
                plain = script.kind(part) in (Kind.NUMBER, Kind.STRING, Kind.BOOL)
                if not builtin and not plain and not _is_result(script, part, computed):
                    return False
            case (
                ast.Constant()
                | ast.BinOp()
                | ast.UnaryOp()
                | ast.Compare()
                | ast.BoolOp()
                | ast.JoinedStr()
                | ast.FormattedValue()
                | ast.expr_context()
                | ast.operator()
                | ast.unaryop()
                | ast.cmpop()
                | ast.boolop()
            ):
                pass
            case _:
                return False
    return True


def _is_result(script: Script, name: ast.Name, computed: set[ast.stmt]) -> bool:
    """Whether a name holds what an operation of the step has made: a tensor of its own, which no update changes."""
    found = script.definitions(name)
    return bool(found) and all(each.node in computed and _makes(script, each.value) for each in found)


def _makes(script: Script, value: ast.expr | None) -> bool:
    match value:
        case ast.BinOp():
            return True
        case ast.Call(func=ast.Attribute(attr="mean" | "sum")):
            return True
        case ast.Call(func=function):
            made = (script.qualname(function) or "").startswith("torch.nn.functional.")
            return made or script.kind(function) is Kind.LOSS_FUNCTION
        case _:
            return False


def _refuse_changed(statements: Sequence[ast.stmt], shown: Sequence[ast.stmt]) -> None:
    """What is shown after the step must not have been bound anew in it since."""
    for display in shown:
        read = {part.id for part in ast.walk(display) if isinstance(part, ast.Name)}
        later = (part for each in statements if each.lineno > display.lineno for part in ast.walk(each))
        if any(isinstance(part, ast.Name) and part.id in read and isinstance(part.ctx, ast.Store) for part in later):
            raise DeclinedError(f"line {display.lineno} shows what the step changes afterwards")


def _models(script: Script, statements: Sequence[ast.stmt]) -> Iterator[ast.expr]:
    """What is called to run a model, by its outermost owner that is one: `model` of `model.encoder(x)`."""
    seen: set[str] = set()
    for statement in statements:
        for part in walk_scope(statement):
            if not isinstance(part, ast.Call) or is_backward(script, part) or not calls_model(script, part):
                continue
            model: ast.expr = part.func
            while isinstance(model, ast.Attribute) and script.kind(model.value) is Kind.MODULE:
                model = model.value
            if script.kind(model) is not Kind.MODULE:
                raise DeclinedError(f"what `{script.source(part.func)}` runs is not in sight")
            if not isinstance(model, ast.Name | ast.Attribute):
                raise DeclinedError(f"`{script.source(model)}` is no name")
            if script.source(model) not in seen:
                seen.add(script.source(model))
                yield model
