"""The statements below a model's making that prepare it: move, load, initialise, wrap it."""

from __future__ import annotations

import ast

from autoaccel.analysis.script import Script
from autoaccel.pytorch.forwards import runs_model
from autoaccel.pytorch.gradients import calls_training
from autoaccel_codemods.compile.model_origins import DISTRIBUTED, REPLICATED, SHARDED

_PREPARES = frozenset(
    """to cuda cpu xpu float half double bfloat16 apply load_state_dict requires_grad_ initialize init_weights
    reset_parameters""".split()
)
_EXTENDS = frozenset("add_module append extend insert register_module".split())


def common_statement(script: Script, made: list[ast.Assign | ast.AnnAssign]) -> ast.stmt | None:
    """The statement that holds all assignments: one of them, or the `if` whose branches they are."""
    chains = [[each, *(above for above in script.ancestors(each) if isinstance(above, ast.stmt))] for each in made]
    first = chains[0]
    for candidate in first:
        if all(any(candidate is each for each in chain) for chain in chains):
            return candidate if isinstance(candidate, ast.If | ast.Assign | ast.AnnAssign | ast.Try) else None
    blocks = [script.block(chain[-1]) for chain in chains]
    if all(block is blocks[0] for block in blocks):  # one after the other: the last one stands
        return max((chain[-1] for chain in chains), key=lambda statement: statement.lineno)
    return None


def set_up(script: Script, anchor: ast.stmt, target: str) -> tuple[ast.stmt, ast.stmt | None, str | None]:
    """The last statement of the same block that prepares the model, and where it is wrapped for several processes."""
    block = script.block(anchor)
    ready = anchor
    for statement in [anchor, *block[block.index(anchor) + 1 :]]:
        if isinstance(statement, ast.FunctionDef | ast.ClassDef):
            continue
        if isinstance(statement, ast.For | ast.While) and runs_models(script, statement):
            break
        if statement is not anchor and calls_training(script, statement):
            break
        for call in script.in_scope(statement, ast.Call):
            name = script.qualname(call.func)
            if any(script.source(each) == target for each in call.args):
                if name == SHARDED:
                    return ready, None, "the model is sharded"
                if name == DISTRIBUTED:
                    return ready, statement, None
                if name == REPLICATED:
                    ready = statement
        if statement is not anchor and prepares(script, statement, target):
            ready = statement
    return ready, None, None


def runs_while_built(script: Script, anchor: ast.stmt, target: str) -> bool:
    """Whether a loop below the model's making adds parts to it and runs models: it would be compiled anew each time."""
    block = script.block(anchor)
    loops = (each for each in block[block.index(anchor) + 1 :] if isinstance(each, ast.For | ast.While))
    return any(_calls(script, each, target, _EXTENDS) and runs_models(script, each) for each in loops)


def runs_models(script: Script, statement: ast.stmt) -> bool:
    return any(runs_model(script, call) for call in script.in_scope(statement, ast.Call))


def prepares(script: Script, statement: ast.stmt, target: str) -> bool:
    """Whether a statement moves, loads, initialises or extends the model."""
    if _calls(script, statement, target, _PREPARES | _EXTENDS):
        return True
    stored = (part for part in script.in_scope(statement, ast.Attribute) if isinstance(part.ctx, ast.Store))
    if any(script.source(part).startswith(target + ".") for part in stored) or _freezes(script, statement, target):
        return True
    names = script.in_scope(statement, ast.Name)
    return any(name.id == target and isinstance(name.ctx, ast.Store) for name in names)


def _calls(script: Script, statement: ast.stmt, target: str, methods: frozenset[str]) -> bool:
    functions = (call.func for call in script.in_scope(statement, ast.Call))
    return any(
        isinstance(each, ast.Attribute) and each.attr in methods and script.source(each.value) == target
        for each in functions
    )


def _freezes(script: Script, statement: ast.stmt, target: str) -> bool:
    """`for parameter in model.parameters(): parameter.requires_grad_(False)`"""
    match statement:
        case ast.For(
            target=ast.Name(id=name), iter=ast.Call(func=ast.Attribute(value=owner, attr="parameters")), body=[only]
        ):
            pass
        case _:
            return False
    match only:
        case ast.Assign(targets=[ast.Attribute(value=ast.Name(id=frozen), attr="requires_grad")]):
            pass
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=frozen), attr="requires_grad_"))):
            pass
        case _:
            return False
    return frozen == name and f"{script.source(owner)}.".startswith(f"{target}.")
