"""Numbers that are read by way of `.data`: `loss.data[0]`, `loss.data.item()`."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from autoaccel.analysis import Script
from autoaccel.dataflow.abstract_values import Kind
from autoaccel.dataflow.query import fixpoint
from autoaccel.edits import Code, Finding, Replace, Skipped
from autoaccel.library_models.tensor_operations import LOSSES
from autoaccel.rewriting.rule import Rule

_ELEMENTWISE = frozenset("abs sqrt exp log log10 neg square sigmoid tanh clamp detach cpu cuda float double".split())
_REDUCTIONS = frozenset({"mean", "sum"})
_POSITIONAL = 3  # input, target, and a weight or `size_average`: what follows may be `reduce`


def findings(script: Script, rule: Rule) -> Iterator[Finding | Skipped]:
    """The reads of a file that can be spelled anew, and those that may mean something else."""
    for call in script.syntax_index.calls_named("item"):
        match call:
            case ast.Call(func=ast.Attribute(value=ast.Attribute(value=tensor, attr="data") as data), args=[]):
                if script.kind(tensor) in (Kind.TENSOR, Kind.PARAMETER):
                    code = Code("{0}", (tensor,))
                    yield rule.finding(call, "a number is read from any tensor, `.data` or not", Replace(data, code))
    for index in script.find(ast.Subscript):
        match index:
            case ast.Subscript(
                value=ast.Attribute(value=tensor, attr="data"), slice=ast.Constant(value=0), ctx=ast.Load()
            ) if script.kind(tensor) in (Kind.TENSOR, None):
                if _is_tried(script, index):
                    yield rule.skip(index, "the error that its index raises may be caught here")
                elif has_no_dimensions(script, tensor):
                    edit = Replace(index, Code("{0}.item()", (tensor,)))
                    yield rule.finding(index, "a tensor without dimensions has no index since torch 0.5", edit)
                elif script.kind(tensor) is Kind.TENSOR:
                    yield rule.skip(index, f"`{script.source(tensor)}` may have dimensions")


def _is_tried(script: Script, node: ast.AST) -> bool:
    """Whether a function goes on by a handler where a place raises an error."""
    child = node
    for ancestor in script.ancestors(node):
        if isinstance(ancestor, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            return False
        if isinstance(ancestor, ast.Try) and ancestor.handlers and child in ancestor.body:
            return True
        child = ancestor
    return False


@fixpoint(True, False)
def has_no_dimensions(script: Script, expression: ast.expr) -> bool:
    """Whether a tensor surely is a single number: a loss, a sum, and what is computed of these and of numbers."""
    match expression:
        case ast.Call(func=function, args=arguments) if (name := script.qualname(function)) is not None:
            short = name.rpartition(".")[2]
            if name == f"torch.nn.functional.{short}" and short in LOSSES:
                return len(arguments) <= _POSITIONAL and _is_reduced(expression)
            alone = len(arguments) == 1 and not expression.keywords and name == f"torch.{short}"
            if short in _REDUCTIONS:
                return alone and script.kind(arguments[0]) is Kind.TENSOR
            return alone and short in _ELEMENTWISE and has_no_dimensions(script, arguments[0])
        case ast.Call(func=function) if script.kind(function) is Kind.LOSS_FUNCTION:
            return _is_reduced_by_class(script, function)
        case ast.Call(func=ast.Attribute(value=owner, attr=method), args=[], keywords=[]):
            whole = method in _REDUCTIONS and script.kind(owner) is Kind.TENSOR
            return whole or (method in _ELEMENTWISE and has_no_dimensions(script, owner))
        case ast.BinOp(left=left, right=right):
            sides = [each for each in (left, right) if script.kind(each) is not Kind.NUMBER]
            return bool(sides) and all(has_no_dimensions(script, each) for each in sides)
        case ast.UnaryOp(operand=operand):
            return has_no_dimensions(script, operand)
        case ast.Name():
            return _is_bound_to_numbers(script, expression)
        case _:
            return False


def _is_reduced_by_class(script: Script, function: ast.expr) -> bool:
    """Whether a library's loss takes the mean or the sum: nobody told it otherwise."""
    values = script.values(function)
    return bool(values) and all(
        isinstance(value.node, ast.Call)
        and (value.name or "").startswith("torch.nn.")
        and (value.name or "").endswith("Loss")
        and not (value.name or "").endswith("WithLoss")  # a loss, and more
        and len(value.node.args) <= _POSITIONAL - 2
        and _is_reduced(value.node)
        for value in values
    )


def _is_reduced(call: ast.Call) -> bool:
    """Whether nothing that a loss is given may keep it from taking the mean or the sum."""
    return not any(
        each.arg in (None, "reduce") or (each.arg == "reduction" and not _is_one_of(each.value, "mean", "sum"))
        for each in call.keywords
    )


def _is_one_of(expression: ast.expr, *texts: str) -> bool:
    return isinstance(expression, ast.Constant) and expression.value in texts


def _is_bound_to_numbers(script: Script, name: ast.Name) -> bool:
    definitions = script.definitions(name)
    made = [each for each in definitions if not (each.value is not None and script.kind(each.value) is Kind.NUMBER)]
    return bool(made) and all(
        each.how in ("assign", "aug") and not each.path and each.value is not None and _is_number(script, each.value)
        for each in definitions
    )


def _is_number(script: Script, value: ast.expr) -> bool:
    return script.kind(value) is Kind.NUMBER or has_no_dimensions(script, value)
