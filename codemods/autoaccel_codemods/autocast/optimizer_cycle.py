"""From one step of an optimizer to its next: what must happen in between, on every path."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence

from autoaccel.analysis.script import Script
from autoaccel.dataflow.child_nodes import children

Awaited = frozenset[int]  # what has not happened yet
Happens = Callable[["Script", ast.AST, Awaited], Awaited]
_INERT = (ast.Lambda, ast.Name, ast.Constant)
_LEAVES = (ast.Continue, ast.Break, ast.Return, ast.Raise)


class CycleWalk:
    """A walk from a statement on, until all that is awaited has happened or one of some statements is reached.

    What happens in one branch is taken to happen (the branches of a training step agree), unless that branch leaves.
    """

    def __init__(self, happens: Happens, ends: Sequence[ast.AST]) -> None:
        self._happens = happens
        self._ends = {id(each) for each in ends}
        self._up: set[tuple[ast.AST, Awaited]] = set()
        self._after_function: dict[tuple[ast.AST, Awaited], Awaited] = {}
        self.ended = False

    def after(self, script: Script, statement: ast.stmt, state: Awaited) -> None:
        """Walk from behind a statement to wherever control goes then."""
        if not state or self.ended or (statement, state) in self._up:
            return
        self._up.add((statement, state))
        block = script.block(statement)
        state = self.block(script, block[block.index(statement) + 1 :], state)
        around = _around(script, statement, block[-1])
        if isinstance(around, ast.FunctionDef | ast.AsyncFunctionDef):
            for other, call in script.callers(around):
                self.after(other, other.statement(call), state)
        elif isinstance(around, ast.stmt) and not isinstance(around, ast.ClassDef):
            if isinstance(around, ast.For | ast.While | ast.AsyncFor) and not isinstance(block[-1], ast.Break):
                self.block(script, around.body, state)
            if state:
                state = self._happens(script, around, state)
            self.after(script, around, state)

    def block(self, script: Script, statements: Sequence[ast.stmt], state: Awaited) -> Awaited:
        for statement in statements:
            if not state or self.ended:
                break
            state = self._statement(script, statement, state)
        return state

    def _statement(self, script: Script, statement: ast.stmt, state: Awaited) -> Awaited:
        if id(statement) in self._ends:
            self.ended = True
            return state
        match statement:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                return state
            case ast.If(test=test, body=body, orelse=orelse):
                state = self._expression(script, test, state)
                state = self._branches(script, [body, orelse], state)
            case ast.Match(subject=subject, cases=cases):
                state = self._expression(script, subject, state)
                state = self._branches(script, [each.body for each in cases], state)
            case ast.For(iter=header, body=body, orelse=orelse) | ast.While(test=header, body=body, orelse=orelse):
                state = self._expression(script, header, state)
                state = self.block(script, [*body, *orelse], state)
            case ast.With(items=items, body=body):
                for item in items:
                    state = self._expression(script, item.context_expr, state)
                state = self.block(script, body, state)
            case ast.Try(body=body, orelse=orelse, finalbody=final):
                state = self.block(script, [*body, *orelse, *final], state)
            case _:
                return self._expression(script, statement, state)
        return self._happens(script, statement, state) if state else state

    def _branches(self, script: Script, branches: list[list[ast.stmt]], state: Awaited) -> Awaited:
        left = state
        for branch in branches:
            after = self.block(script, branch, state)
            if not (branch and isinstance(branch[-1], _LEAVES)):
                left &= after
        return left

    def _expression(self, script: Script, node: ast.AST, state: Awaited) -> Awaited:
        """What a simple statement or an expression does, in the order of evaluation."""
        for part in children(node):
            if not isinstance(part, _INERT) and state and not self.ended:
                state = self._expression(script, part, state)
        if not state or self.ended:
            return state
        state = self._happens(script, node, state)
        if isinstance(node, ast.Call) and state:
            for other, function in script.callees(node):
                key = function, state
                if key not in self._after_function:
                    self._after_function[key] = state  # where it calls itself
                    self._after_function[key] = self.block(other, function.body, state)
                state = self._after_function[key]
        return state


def _around(script: Script, statement: ast.stmt, last: ast.stmt) -> ast.AST | None:
    """What control leaves at the end of a block: the statement around it, or what a last `continue` leaves."""
    wanted: tuple[type[ast.AST], ...] = (ast.stmt, ast.Module)
    if isinstance(last, ast.Continue | ast.Break):
        wanted = (ast.For, ast.While, ast.AsyncFor)
    elif isinstance(last, ast.Return):
        wanted = (ast.FunctionDef, ast.AsyncFunctionDef)
    return next((each for each in script.ancestors(statement) if isinstance(each, wanted)), None)
