"""The models whose weights are kept: all that the loop trains, and those that it is judged by."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from autoaccel.analysis.script import Script
from autoaccel.dataflow.abstract_values import Kind
from autoaccel.dataflow.syntax_index import position
from autoaccel.pytorch.gradients import is_optimizer_step
from autoaccel_codemods.autocast.optimized_parameters import ParameterSource, covers, held
from autoaccel_codemods.captured_step.problems import DeclinedError
from autoaccel_codemods.early_stopping.validation_figures import Figure


def names(script: Script, loop: ast.For, figure: Figure) -> list[str]:
    """How the models are written before the loop. Raises `DeclinedError` where one of them has no name there."""
    known = dict(_modules(script, loop))
    kept: dict[str, None] = {}
    for other, optimizer in _optimizers(script, loop):
        ways = held(other, optimizer)
        if not ways:
            raise DeclinedError(f"what `{other.source(optimizer)}` updates is not in sight")
        for source in (each for way in ways for each in way):
            kept[_name(script, known, source)] = None
    judged = (part for part in ast.walk(figure.statement) if isinstance(part, ast.expr))
    kept.update((text, None) for part in judged if (text := script.source(part)) in known)
    whole = [text for text in kept if not any(text.startswith(f"{other}.") for other in kept)]
    if not whole:
        raise DeclinedError("no model is trained that has a name here")
    return whole


def _modules(script: Script, loop: ast.For) -> Iterator[tuple[str, ast.expr]]:
    """What the loop's function knows a model by before the loop, and does not bind anew in it: the shortest first."""
    scope = script.function(loop) or script.tree
    names, attributes = script.in_scope(scope, ast.Name), script.in_scope(scope, ast.Attribute)
    if (cls := script.enclosing_class(loop)) is not None:
        own = (each for each in script.within(cls, ast.Attribute) if _is_own(each))
        yield from ((script.source(each), each) for each in own if script.kind(each) is Kind.MODULE)
    parts: list[ast.expr] = [*names, *sorted(attributes, key=lambda each: script.source(each).count("."))]
    bound = {each.id for each in names if isinstance(each.ctx, ast.Store | ast.Del) and script.inside(each, loop)}
    for part in parts:
        root = part
        while isinstance(root, ast.Attribute):
            root = root.value
        if not isinstance(root, ast.Name) or root.id in bound or script.kind(part) is not Kind.MODULE:
            continue
        if script.inside(part, loop) or position(part) < position(loop):
            yield script.source(part), part


def _is_own(attribute: ast.Attribute) -> bool:
    return isinstance(attribute.value, ast.Name) and attribute.value.id == "self"


def _optimizers(script: Script, loop: ast.For) -> Iterator[tuple[Script, ast.expr]]:
    """The optimizers that a loop, or what it calls, steps."""
    pending: list[tuple[Script, ast.AST]] = [(script, loop)]
    seen: set[ast.AST] = {loop}
    for other, node in pending:
        for call in other.in_scope(node, ast.Call):
            if is_optimizer_step(other, call):
                assert isinstance(call.func, ast.Attribute)
                scaled = other.kind(call.func.value) is Kind.SCALER and call.args
                yield other, call.args[0] if scaled else call.func.value
            for file, callee in other.callees(call):
                if callee not in seen:
                    seen.add(callee)
                    pending.append((file, callee))


def _name(script: Script, known: dict[str, ast.expr], source: ParameterSource) -> str:
    if source.owner is not None:
        for text, model in known.items():
            if covers(script, model, source):
                return text
        raise DeclinedError(f"`{source.script.source(source.owner)}` is trained, and has no name where the loop stands")
    raise DeclinedError("it trains parameters of which nobody knows whose they are")
