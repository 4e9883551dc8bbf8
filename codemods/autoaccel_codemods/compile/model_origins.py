"""Where a model comes from: the assignments that made it, followed back through names, parameters and wrappers."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Final

from autoaccel.analysis.call_sites import arguments_for
from autoaccel.analysis.classes import class_info, instance_kind, lineage
from autoaccel.analysis.parameter_values import keywords_given
from autoaccel.analysis.script import Script
from autoaccel.dataflow.abstract_values import Kind
from autoaccel.dataflow.call_arguments import given_values
from autoaccel.dataflow.definitions import STAR, Definition
from autoaccel.dataflow.syntax_index import last_name

_RETURNS_MODEL = frozenset("to cuda cpu xpu float half double bfloat16 train eval apply requires_grad_".split())
SHARDED: Final = "torch.distributed.fsdp.FullyShardedDataParallel"
REPLICATED: Final = "torch.nn.DataParallel"
DISTRIBUTED: Final = "torch.nn.parallel.DistributedDataParallel"
_WRAPPERS = (SHARDED, REPLICATED, DISTRIBUTED, "torch.nn.SyncBatchNorm.convert_sync_batchnorm")

ModelOrigin = tuple[Script, ast.Assign | ast.AnnAssign, ast.expr]


def made_at(script: Script, expression: ast.expr, seen: set[object]) -> Iterator[ModelOrigin]:
    """Follow a model back through parameters and attributes to the assignments that made it."""
    if isinstance(expression, ast.Name):
        for definition in script.definitions(expression):
            if definition in seen:
                continue
            seen.add(definition)
            if definition.how == "param":
                function = definition.scope.node
                for other, argument in arguments_for(script, function, definition.name):
                    yield from made_at(other, argument, seen)
            elif definition.how in ("assign", "global"):
                yield from _assigned(script, definition.node, _part(definition), definition.name, seen)
    elif isinstance(expression, ast.Attribute):
        for owner in script.values(expression.value):
            if owner.cls is None:
                continue
            for each in lineage(owner.cls):
                for value, _ in class_info(each).attributes.get(expression.attr, ()):
                    if isinstance(value, ast.expr) and value not in seen:
                        seen.add(value)
                        statement = each.script.statement(value)
                        yield from _assigned(each.script, statement, value, expression.attr, seen)
    elif isinstance(expression, ast.Subscript):
        for other, argument in _by_keyword(script, expression):
            yield from made_at(other, argument, seen)
    elif isinstance(expression, ast.Call) and (receiver := _passed_on(script, expression)) is not None:
        yield from made_at(script, receiver, seen)


def _by_keyword(script: Script, expression: ast.Subscript) -> Iterator[tuple[Script, ast.expr]]:
    """What `kwargs["model"]` is given where the function is called."""
    match expression:
        case ast.Subscript(value=ast.Name() as name, slice=ast.Constant(value=str(key))):
            for definition in script.definitions(name):
                if definition.how == "param" and definition.path == (STAR,):
                    yield from keywords_given(script, definition).get(key, ())


def _part(definition: Definition) -> ast.expr | None:
    """The expression that a name is bound to: the matching one of `model, config = self.model, self.config`."""
    value = definition.value
    for step in definition.path:
        if not isinstance(value, ast.Tuple | ast.List) or not isinstance(step, int):
            break
        if not -len(value.elts) <= step < len(value.elts):
            break
        value = value.elts[step]
    return value


def _assigned(
    script: Script, statement: ast.AST, value: ast.expr | None, name: str, seen: set[object]
) -> Iterator[ModelOrigin]:
    if value is None or isinstance(value, ast.Constant) or not isinstance(statement, ast.Assign | ast.AnnAssign):
        return  # `self.model = None`: nothing yet
    if isinstance(value, ast.Call) and script.qualname(value.func) == "torch.load":  # what was there before, read back
        return
    if (other := _other_name(script, value)) is not None:
        before = list(made_at(script, other, seen))
        yield from before
        if before or not _is_handed_anew(script, other):
            return
    for target in targets(statement):
        if last_name(target) == name and not in_model(script, script.function(statement) or statement):
            yield script, statement, target


def _is_handed_anew(script: Script, name: ast.expr) -> bool:
    """Whether a name is a parameter for which every call makes a model that has no other name: `Trainer(Net())`."""
    definitions = script.definitions(name) if isinstance(name, ast.Name) else ()
    if not definitions or any(each.how != "param" for each in definitions):
        return False
    given = [place for each in definitions for place in arguments_for(script, each.scope.node, each.name)]
    made = all(
        isinstance(each, ast.Call) and all(value.node is not None for value in file.values(each))
        for file, each in given
    )
    return bool(given) and made and script.values(name).kinds == {Kind.MODULE}


def _other_name(script: Script, value: ast.expr) -> ast.Name | ast.Attribute | ast.Subscript | None:
    """What a model that an expression gives is called already: `model.to(device)`, `DistributedDataParallel(model)`."""
    if isinstance(value, ast.Name | ast.Attribute):
        return value
    if isinstance(value, ast.Subscript) and any(True for _ in _by_keyword(script, value)):
        return value
    if not isinstance(value, ast.Call):
        return None
    if value.args and script.qualname(value.func) in _WRAPPERS:
        return _other_name(script, value.args[0])
    match value.func:
        case ast.Attribute(value=ast.Call() as inner, attr=attr) if attr in _RETURNS_MODEL:
            return _other_name(script, inner)
    return _passed_on(script, value) or _handed_back(script, value)


def _passed_on(script: Script, call: ast.Call) -> ast.Name | ast.Attribute | ast.Subscript | None:
    """The model that a method of its own returns: `model.to(device)`."""
    match call.func:
        case ast.Attribute(value=ast.Subscript() as receiver, attr=attr) if attr in _RETURNS_MODEL:
            return receiver if any(True for _ in _by_keyword(script, receiver)) else None
        case ast.Attribute(value=ast.Name() | ast.Attribute() as receiver, attr=attr) if attr in _RETURNS_MODEL:
            return receiver if script.qualname(receiver) is None else None
        case _:
            return None


def _handed_back(script: Script, call: ast.Call) -> ast.Name | ast.Attribute | None:
    """The argument that a project function returns: `model = train(model, loader)`."""
    made = {value.node for value in script.values(call) if value.kind is Kind.MODULE and value.node is not None}
    if not script.callees(call):
        return None
    for argument in given_values(call):
        if isinstance(argument, ast.Name | ast.Attribute) and script.kind(argument) is Kind.MODULE:
            if made & {value.node for value in script.values(argument)}:
                return argument
    return None


def targets(statement: ast.Assign | ast.AnnAssign) -> Iterator[ast.expr]:
    targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
    for target in targets:
        if isinstance(target, ast.Tuple | ast.List):
            yield from target.elts
        else:
            yield target


def in_model(script: Script, scope: ast.AST) -> bool:
    cls = script.parent(scope)
    return isinstance(cls, ast.ClassDef) and instance_kind(script.class_ref(cls)) in (
        Kind.MODULE,
        Kind.LOSS_FUNCTION,
    )
