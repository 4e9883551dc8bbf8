"""Errors of samples that a script handles.

What a sample raises in a worker arrives as an error of the same class that is made anew, from a text: it has no
attributes, another message, and is a `RuntimeError` where its class wants more than a text.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterable, Iterator

from autoaccel.analysis import Script
from autoaccel.dataflow.completeness import ScriptNode
from autoaccel.dataflow.syntax_index import last_name
from autoaccel.pytorch.loader_calls import LoaderCall
from autoaccel.pytorch.loader_changes import loader_state

REASON = "an error of a sample is handled, and workers hand on another one"
_NO_ERRORS = frozenset("KeyboardInterrupt StopIteration StopAsyncIteration SystemExit GeneratorExit".split())
_ENDING = frozenset({"exit", "_exit", "quit", "abort"})


def handles_errors(script: Script, made: LoaderCall, draws: Iterable[ScriptNode]) -> bool:
    """Whether something may go on after a sample has failed, or look at what it raised.

    Args:
        draws: Where batches are asked for: loops, calls of `next`.
    """
    code = loader_state(script, made, in_workers=True).inputs.code
    raised = {name for function, file in code.items() for name in _raised(file, function)}
    own = raised - vars(builtins).keys()  # where else these are handled may be about anything
    if own and any(
        _caught(each) & own for file in script.project.related(script) for each in file.find(ast.ExceptHandler)
    ):
        return True
    pending = list(dict.fromkeys(draws))
    for file, node in pending:  # grows while it is walked
        if any(_goes_on(each) for each in _handlers_around(file, node)):
            return True
        function = file.function(node)
        if raised and function is not None:
            pending += [each for each in file.callers(function).seen if each not in pending]
    return False


def _raised(file: Script, function: ast.AST) -> Iterator[str]:
    """The classes of the errors that a function raises itself, by the names that it knows them by."""
    for each in file.within(function, ast.Raise):
        if each.exc is not None:
            yield last_name(each.exc.func if isinstance(each.exc, ast.Call) else each.exc)


def _handlers_around(file: Script, node: ast.AST) -> Iterator[ast.ExceptHandler]:
    inner = node
    for around in file.ancestors(node):
        if isinstance(around, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            return
        if isinstance(around, ast.Try | ast.TryStar) and inner in around.body:
            yield from around.handlers
        inner = around


def _goes_on(handler: ast.ExceptHandler) -> bool:
    """Whether a handler may meet an error of a sample and does not end in another one, or with the program."""
    match handler.body[-1]:
        case ast.Raise():
            return False
        case ast.Expr(value=ast.Call(func=function)) if last_name(function) in _ENDING:
            return False
    return not _caught(handler) <= _NO_ERRORS


def _caught(handler: ast.ExceptHandler) -> set[str]:
    """The classes that a handler catches, by the names that it knows them by; an empty name for all."""
    match handler.type:
        case None:
            return {""}
        case ast.Tuple(elts=classes):
            return {last_name(each) for each in classes}
        case one:
            return {last_name(one)}
