"""The edits that convert a training step: regions, names for what is taken out of statements, scalers."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from autoaccel.analysis import Script
from autoaccel.dataflow.syntax_index import breadth_first
from autoaccel.edits import Code, Edit, InsertAfter, InsertBefore, Replace, WrapStatements, literal
from autoaccel.pytorch import device_expressions
from autoaccel.pytorch.training_steps import Backward, OptimizerStep, ScopeNode, TrainingStep
from autoaccel_codemods.autocast.gradient_scaling import Scaling
from autoaccel_codemods.autocast.hoists import Hoist
from autoaccel_codemods.autocast.regions import Region, Regions
from autoaccel_codemods.autocast.scaler_creation import ScalerCreation


class ScalerNames:
    """The names of scalers: one free name for the file, numbered where two would meet in one scope. A variable meets no
    attribute."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self._given: set[tuple[bool, ast.AST, str]] = set()

    def scaler(self, creation: ScalerCreation) -> str:
        scope: ast.AST = self._script.function(creation.statement) or self._script.tree
        if creation.owner is not None:
            scope = self._script.enclosing_class(creation.statement) or scope
        shared = any(each is not scope for each in creation.scopes)
        number = 1
        names = "scaler", "grad_scaler", "amp_scaler", "loss_scaler"
        files = dict.fromkeys((self._script, *self._script.project.related(self._script)))
        # what another object's user sets, `trainer.scaler = StandardScaler()`, is of its own making
        unset = [name for name in names if not any(_may_set(each, name) for each in files)]
        base = self._script.free_name(*(unset or names))
        name = base
        owned = creation.owner is not None
        while any((owned, name) == (kind, known) and (other is scope or shared) for kind, other, known in self._given):
            number += 1
            name = f"{base}{number}"
        self._given.add((owned, scope, name))
        return name


def _may_set(script: Script, name: str) -> bool:
    """Whether a file may set an attribute of this name, of whatever object: by a text (`"--grad-scaler"` of a parser,
    too), by a keyword, as a property."""
    texts = (each.value for each in script.find(ast.Constant) if isinstance(each.value, str))
    return (
        bool(script.syntax_index.stored(name))
        or any(each.lstrip("-").replace("-", "_") == name for each in texts)
        or any(each.arg == name for each in script.find(ast.keyword))
        or any(each.name == name for each in script.find(ast.FunctionDef))
    )


def step_edits(
    script: Script, step: TrainingStep, found: Regions, scaled: Scaling, names: ScalerNames
) -> Iterator[Edit]:
    """What all decisions on a step come to. Its scalers, if it needs any, get `names`."""
    named: set[ast.stmt] = set()
    for region in found.regions:
        header, naming = region_header(script, region.anchor, float16=bool(scaled.creations))
        for edit in naming:
            if not isinstance(edit, InsertAfter):
                yield edit
            elif edit.statement not in named:  # what a finding inserts twice stands there twice
                named.add(edit.statement)
                yield edit
        yield from _region(region, found, header)
    for statement, call, name in found.loads:
        yield InsertBefore(statement, Code(f"{name} = {{0}}", (call,)))
        yield Replace(call, Code(name))
    done = {hoist.expression for region in found.regions for hoist in region.hoists}
    for region in found.regions:
        bound, casts = _converted_at_once(script, region, found.float32_casts)
        if region.last is not None and len(casts) > max(len(bound), 2):
            made = ", ".join(f"{name}.float()" for name in bound)
            yield InsertAfter(region.last, Code(f"{', '.join(bound)} = {made}"))
            done |= casts
    for expression in found.float32_casts:
        if expression not in done:
            yield Replace(expression, Code("{0}.float()", (expression,)))
    if scaled.creations:
        yield from _scaling(script, step, found, scaled, names)
    else:
        for backward, name in found.losses.items():
            yield Replace(backward.loss, Code(name))


def _converted_at_once(script: Script, region: Region, casts: Sequence[ast.expr]) -> tuple[list[str], set[ast.expr]]:
    """Names that a region binds and that everything below it, in its block, reads in float32, and those reads."""
    if region.first is None or region.last is None:
        return [], set()
    block = script.block(region.first)
    inside = block[block.index(region.first) : block.index(region.last) + 1]
    below = block[block.index(region.last) + 1 :]
    names: list[str] = []
    found: set[ast.expr] = set()
    for definition in dict.fromkeys(
        each for cast in casts if isinstance(cast, ast.Name) for each in script.definitions(cast)
    ):
        uses = [
            each for each in script.uses(definition) if not any(script.inside(each, statement) for statement in inside)
        ]
        alone = all(script.definitions(each) == (definition,) and each in casts for each in uses)
        if definition.node not in inside or not alone or script.additions(definition):
            continue
        if all(any(script.inside(each, statement) for statement in below) for each in uses):
            if {script.function(each) for each in uses} == {script.function(region.first)}:
                names.append(definition.name)
                found.update(uses)
    parts = [part for statement in inside for part in breadth_first(statement) if isinstance(part, ast.Name)]
    order = [part.id for part in parts if isinstance(part.ctx, ast.Store)]
    return sorted(names, key=order.index), found


def _scaling(script: Script, step: TrainingStep, found: Regions, scaled: Scaling, names: ScalerNames) -> Iterator[Edit]:
    scalers: dict[ScopeNode, str] = {}
    for creation in scaled.creations:
        name = names.scaler(creation)
        owner = "" if creation.owner is None else f"{creation.owner}."
        made = Code(literal(f"{owner}{name} = {script.accel}.grad_scaler({', '.join(creation.optimizers)})"))
        yield InsertAfter(creation.statement, made) if creation.after else InsertBefore(creation.statement, made)
        yield from (InsertAfter(each, made) for each in creation.also)
        for scope in creation.scopes:
            scalers[scope] = name if creation.owner is None else f"self.{name}"
    for backward in step.backwards:
        yield _backward(backward, scalers[backward.scope], found)
    for each in step.optimizer_steps:
        yield Replace(each.call, Code(f"{scalers[each.scope]}.step({{0}})", (each.receiver,)))
    for unscale in scaled.unscales:
        yield InsertBefore(unscale.before, Code(literal(_unscaling(script, unscale.step, scalers[unscale.step.scope]))))
    for statement in scaled.updates:
        scope = script.function(statement) or script.tree
        yield InsertAfter(statement, Code(f"{scalers[scope]}.update()"))


def _unscaling(script: Script, step: OptimizerStep, scaler: str) -> str:
    unscale = f"{scaler}.unscale_({script.source(step.receiver)})"
    if step.each is None:
        return unscale
    target, iterated = (script.source(each) for each in step.each)
    return f"for {target} in {iterated}:\n    {unscale}"


def _backward(backward: Backward, scaler: str, found: Regions) -> Edit:
    name = found.losses.get(backward)
    if name is not None:
        return Replace(backward.loss, Code(f"{scaler}.scale({name})"))
    call, loss = backward.call, backward.loss
    if isinstance(loss, ast.Name | ast.Attribute | ast.Call) or call.args or call.keywords:
        return Replace(loss, Code(f"{scaler}.scale({{0}})", (loss,)))
    # `(a + b).backward()` loses its parentheses
    return Replace(call, Code(f"{scaler}.scale({{0}}).backward()", (loss,)))


def region_header(script: Script, statement: ast.stmt, *, float16: bool) -> tuple[Code, tuple[Edit, ...]]:
    """The header of a region at a statement, `float16` if that may be chosen for it, and what names its device."""
    device, naming = device_expressions.named_device(script, statement)
    arguments = (device, None if float16 else "fp16=False")
    return Code(f"with {script.accel}.autocast({literal(', '.join(filter(None, arguments)))})"), naming


def _region(region: Region, found: Regions, header: Code) -> Iterator[Edit]:
    tail = _tail(region.hoists)
    if region.first is not None and region.last is not None:
        yield WrapStatements(region.first, region.last, header, tail)
    elif tail is not None and region.before is not None:
        body = tail.text.replace("\n", "\n    ")
        yield InsertBefore(region.before, Code(f"{header.text}:\n    {body}", tail.holes), below_comments=True)
    losses = [each.loss.value if isinstance(each.loss, ast.NamedExpr) else each.loss for each in found.losses]
    for hoist in region.hoists:
        if all(hoist.expression is not loss for loss in losses):
            is_cast = hoist.expression in found.float32_casts
            yield Replace(hoist.expression, Code(f"{hoist.name}.float()" if is_cast else hoist.name))


def _tail(hoists: list[Hoist]) -> Code | None:
    if not hoists:
        return None
    lines = [f"{hoist.name} = {{{index}}}" for index, hoist in enumerate(hoists)]
    return Code("\n".join(lines), tuple(hoist.expression for hoist in hoists))
