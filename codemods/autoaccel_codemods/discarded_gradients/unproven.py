"""Losses that come through the models of two optimizers, where it is not followed who steps and when."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from autoaccel.analysis.script import Script
from autoaccel.dataflow.abstract_values import Kind
from autoaccel.dataflow.query import once
from autoaccel.dataflow.syntax_index import position
from autoaccel.library_models.graph_operations import is_without_graph


def losses(script: Script, backwards: list[ast.Call], steps: list[ast.Call]) -> Iterator[tuple[ast.Call, str]]:
    """The backward passes that compute gradients for two optimizers, of which not both surely step by them."""
    owners = _owners(script, steps)
    if len(frozenset().union(*owners.values())) < 2:
        return
    together = _together(script, backwards, steps)
    for backward in backwards:
        if (pair := _pair(script, backward, owners, together)) is not None:
            inner, outer = map(script.source, pair)
            yield backward, f"gradients of `{inner}` or of `{outer}` may be discarded unread, but {_unseen(script)}"


def _unseen(script: Script) -> str:
    calls = script.syntax_index.calls_named("backward", "zero_grad", "step")
    spread = len({script.function(each) for each in calls}) > 1
    return (
        "training is in more than one function" if spread else "it is not seen what the optimizers have, or who steps"
    )


def _pair(
    script: Script, backward: ast.Call, owners: dict[ast.AST, frozenset[ast.AST]], together: set[frozenset[ast.AST]]
) -> tuple[ast.expr, ast.expr] | None:
    """Two models of different optimizers that a loss comes through, one after the other."""
    assert isinstance(backward.func, ast.Attribute)
    for call in _calls(script, backward.func.value, backward):
        outer = _owned(script, call, owners)
        for given in (*call.args, *(each.value for each in call.keywords)) if outer else ():
            for inner in _calls(script, given, backward):
                if _is_apart(outer, _owned(script, inner, owners), together):
                    return inner.func, call.func
    return None


def _is_apart(outer: frozenset[ast.AST], inner: frozenset[ast.AST], together: set[frozenset[ast.AST]]) -> bool:
    """Whether two models have optimizers, and none in common, nor two that step after the same backward pass."""
    pairs = (frozenset({one, other}) for one in outer for other in inner)
    return bool(outer) and bool(inner) and not outer & inner and not any(pair in together for pair in pairs)


def _optimizers(script: Script, step: ast.Call) -> frozenset[ast.AST]:
    assert isinstance(step.func, ast.Attribute)
    return frozenset(
        value.node
        for value in script.values(step.func.value)
        if value.kind is Kind.OPTIMIZER and isinstance(value.node, ast.Call)
    )


def _owners(script: Script, steps: list[ast.Call]) -> dict[ast.AST, frozenset[ast.AST]]:
    """For calls that make models, those that make the optimizers of their parameters."""
    found: dict[ast.AST, frozenset[ast.AST]] = {}
    for step in steps:
        assert isinstance(step.func, ast.Attribute)
        for file, made in script.creations(step.func.value):
            if made not in _optimizers(script, step):
                continue
            for part in file.within(made, ast.Call):
                if isinstance(part.func, ast.Attribute) and part.func.attr == "parameters":
                    for _, model in file.creations(part.func.value):
                        found[model] = found.get(model, frozenset()) | {made}
    return found


def _owned(script: Script, call: ast.Call, owners: dict[ast.AST, frozenset[ast.AST]]) -> frozenset[ast.AST]:
    return frozenset().union(*(owners.get(made, frozenset()) for _, made in script.creations(call.func)))


def _together(script: Script, backwards: list[ast.Call], steps: list[ast.Call]) -> set[frozenset[ast.AST]]:
    """The pairs of optimizers that step in one function with no backward pass between them: by the same gradients."""
    pairs = set()
    for first in steps:
        for second in steps:
            if position(first) < position(second) and script.function(first) is script.function(second):
                between = (position(first) < position(each) < position(second) for each in backwards)
                calls = [
                    each
                    for each in script.find(ast.Call)
                    if position(first) < position(each) < position(second) and script.callees(each)
                ]
                if not any(between) and not calls:
                    pairs |= {
                        frozenset({one, other})
                        for one in _optimizers(script, first)
                        for other in _optimizers(script, second)
                    }
    return pairs


def _calls(script: Script, start: ast.expr, backward: ast.Call) -> Iterator[ast.Call]:
    """The calls that a value comes from, as far as assignments in its function tell; attributes may be assigned in
    another one."""
    scope = script.function(backward)
    pending: list[ast.AST] = [start]
    seen: set[ast.AST] = set()
    while pending:
        for part in with_graph(pending.pop()):
            if isinstance(part, ast.Call):
                yield part
            if isinstance(part, ast.Name | ast.Attribute) and isinstance(part.ctx, ast.Load):
                for each in _assigned(script).get(ast.unparse(part), ()):
                    own = script.function(each) is scope
                    if each not in seen and (own or isinstance(part, ast.Attribute)):
                        seen.add(each)
                        pending.append(each.value)


def in_block_without_graph(script: Script, node: ast.AST) -> bool:
    blocks = (each for each in script.ancestors(node) if isinstance(each, ast.With))
    return any(is_without_graph(script, item.context_expr) for each in blocks for item in each.items)


@once
def _assigned(script: Script) -> dict[str, list[ast.Assign]]:
    """The assignments to variables and attributes, by how these are written, but for those that record no graph."""
    found: dict[str, list[ast.Assign]] = {}
    for each in script.find(ast.Assign):
        if not in_block_without_graph(script, each):
            for target in each.targets:
                for part in (target, *getattr(target, "elts", ())):
                    found.setdefault(ast.unparse(part), []).append(each)
    return found


def with_graph(expression: ast.AST) -> Iterator[ast.AST]:
    """The parts of an expression but those whose graph is cut: `fake.detach()`, `fake.data`."""
    match expression:
        case ast.Call(func=ast.Attribute(attr="detach")) | ast.Attribute(attr="data"):
            return
    yield expression
    for child in ast.iter_child_nodes(expression):
        yield from with_graph(child)
