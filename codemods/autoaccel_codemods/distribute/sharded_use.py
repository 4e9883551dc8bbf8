"""Whether nothing but forward passes and optimizers uses the parameters of a model, as is wanted to spread them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from typing import Final

from autoaccel.analysis.script import Script
from autoaccel.dataflow.abstract_values import Kind
from autoaccel.dataflow.call_arguments import given_values
from autoaccel.pytorch.mentions_in_reach import mention_in_reach
from autoaccel_codemods.compile.trained_models import TrainedModel

_OPTIMIZERS: Final = frozenset(
    f"torch.optim.{name}" for name in "SGD Adam AdamW Adamax Adagrad Adadelta NAdam RAdam RMSprop".split()
)
_TAKE_PARAMETERS: Final = _OPTIMIZERS | {"torch.nn.utils.clip_grad_norm_", "torch.nn.utils.clip_grad_value_"}
_HARMLESS: Final = frozenset(
    "train eval training zero_grad state_dict load_state_dict parameters named_parameters forward to cuda".split()
)
_TAKE_MODELS: Final = frozenset("print str repr isinstance type id".split())
_PARAMETERS: Final = ("parameters", "named_parameters")
_BY_HAND: Final = re.compile(r"^torch\.autograd\.(grad|functional\.)|^torch\.func\.|^copy\.deepcopy$|^functorch\.")
_BY_HAND_TEXT: Final = re.compile(r"autograd|torch\.func|deepcopy|functorch")


def problem(script: Script, models: list[TrainedModel]) -> str | None:
    """Why the parameters of a program's models cannot be spread over ranks; None where they can."""
    related = script.project.related(script)
    if (found := mention_in_reach(related, _BY_HAND, _BY_HAND_TEXT)) is not None:
        return f"{_said(script, *found)} wants whole parameters"
    made = {value.node for model in models for value in model.values}
    for each in models:
        for call in _between(script, each):
            if script.qualname(call.func) in _TAKE_PARAMETERS:
                return f"{_said(script, script, call)} takes parameters before they are spread"
    for file in related:
        for part in (*_parameters_by_hand(file), *_other_uses(file, made), *_parts_of_layers(file)):
            return f"{_said(script, file, part)} wants whole parameters"
    return None


def _said(script: Script, file: Script, part: ast.AST) -> str:
    where = "" if file is script or file.path is None else f" of {file.path.name}"
    return f"`{file.source(part)}` in line {getattr(part, 'lineno', 1)}{where}"


def _between(script: Script, model: TrainedModel) -> Iterator[ast.Call]:
    """The calls that run from where a model is made to where it is distributed."""
    block = script.block(model.made)
    for statement in block[block.index(model.made) : block.index(model.ready) + 1] if model.ready in block else block:
        yield from script.within(statement, ast.Call)


def _parameters_by_hand(script: Script) -> Iterator[ast.AST]:
    """Where parameters are used by others than optimizers and clipping; they may be counted."""
    for call in script.syntax_index.calls_named(*_PARAMETERS):
        above = script.parent(call)
        if isinstance(above, ast.Call) and script.qualname(above.func) in _TAKE_PARAMETERS:
            continue
        if isinstance(above, ast.Dict) and _is_group(script, above):
            continue
        if not (isinstance(above, ast.comprehension) and _counts(script.parent(above))):
            yield call


def _is_group(script: Script, group: ast.Dict) -> bool:
    """`optim.SGD([{"params": net.parameters(), "lr": 0.1}])`."""
    groups = script.parent(group)
    call = script.parent(groups) if isinstance(groups, ast.List) else None
    return isinstance(call, ast.Call) and script.qualname(call.func) in _OPTIMIZERS


def _counts(generator: ast.AST | None) -> bool:
    """`p.numel() for p in net.parameters() if p.requires_grad`."""
    if not isinstance(generator, ast.GeneratorExp | ast.ListComp):
        return False
    return all(
        isinstance(part, ast.Attribute) and part.attr in ("numel", "requires_grad", "shape", "nelement", "size")
        for name in _names(generator)
        for part in name
    )


def _names(generator: ast.GeneratorExp | ast.ListComp) -> Iterator[list[ast.AST | None]]:
    targets = {each.id for part in generator.generators for each in ast.walk(part.target) if isinstance(each, ast.Name)}
    above = {child: node for node in ast.walk(generator) for child in ast.iter_child_nodes(node)}
    for name in (each for each in above if isinstance(each, ast.Name) and each.id in targets):
        if isinstance(name.ctx, ast.Load):
            yield [above[name]]


def _other_uses(script: Script, made: set[ast.AST | None]) -> Iterator[ast.AST]:
    """Where a model is more than called, trained, saved and loaded."""

    def is_model(expression: ast.expr) -> bool:
        return any(value.kind is Kind.MODULE and value.node in made for value in script.values(expression))

    for attribute in script.find(ast.Attribute):
        if attribute.attr not in _HARMLESS and is_model(attribute.value):
            yield attribute
    for call in script.find(ast.Call):
        if script.callees(call) or script.runtime_name(call.func) or _takes_models(script, call.func):
            continue
        for given in given_values(call):
            if isinstance(given, ast.Name | ast.Attribute) and is_model(given):
                yield call


def _takes_models(script: Script, function: ast.expr) -> bool:
    return isinstance(function, ast.Name) and function.id in _TAKE_MODELS and not script.definitions(function)


def _parts_of_layers(script: Script) -> Iterator[ast.AST]:
    """`layer.weight` of layers in a list, which have whole parameters only while they are called themselves."""
    loops: list[ast.For | ast.comprehension] = [*script.find(ast.For), *script.find(ast.comprehension)]
    for loop in loops:
        if isinstance(loop.iter, ast.Attribute) and isinstance(loop.target, ast.Name):
            scope = script.parent(loop) if isinstance(loop, ast.comprehension) else loop
            yield from _attributes_of(script, scope, loop.target.id)
    for part in script.find(ast.Subscript):
        above = script.parent(part)
        if script.kind(part) is Kind.MODULE and isinstance(above, ast.Attribute) and above.attr not in _HARMLESS:
            yield above


def _attributes_of(script: Script, scope: ast.AST | None, name: str) -> Iterable[ast.Attribute]:
    for part in script.within(scope, ast.Attribute) if scope is not None else ():
        if isinstance(part.value, ast.Name) and part.value.id == name and part.attr not in _HARMLESS:
            if script.kind(part.value) in (None, Kind.MODULE):
                yield part
