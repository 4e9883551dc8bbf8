"""Places that a graph comes to, with the calls that lead there, and what is said where it cannot be left out."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from autoaccel.analysis.constant_arguments import SpecializedCall
from autoaccel.analysis.script import Script
from autoaccel.dataflow.completeness import Incomplete

UNFOLLOWED = "what becomes of it cannot be followed"
WRITTEN = "what is made in it may be written to where gradients are on"

# The call by which control came into a function: what the function returns goes back there.
_Frame = tuple["Script", ast.Call, ast.AST]
CallStack = tuple[_Frame, ...]
FlowState = tuple["Script", ast.AST, bool, CallStack]


class GraphNeeded(Exception):  # noqa: N818  # no error: an answer
    """A backward pass may need the graph of a tensor; the message is the reason where it goes out of sight."""


def push_call(call_stack: CallStack, frame: _Frame) -> CallStack:
    """The calls that lead to a place with one more; a recursion comes back to where it began."""
    for index, each in enumerate(call_stack):
        if each[1] is frame[1]:
            return call_stack[: index + 1]
    if len(call_stack) >= frame[0].project.bounds.graph_calls:
        raise Incomplete("more calls lead to it than are looked at")
    return (*call_stack, frame)


def calls_in(call_stack: CallStack) -> tuple[ast.Call, ...]:
    """What tells the ways to a place apart."""
    return tuple(call for _, call, _ in call_stack)


def is_unreached(entered: Iterable[SpecializedCall], script: Script, node: ast.AST, call_stack: CallStack) -> bool:
    """Whether one of these calls leaves a node out, and control came to it by that call."""
    return any(each.leads == calls_in(call_stack) and each.leaves_out(script, node) for each in entered)
