"""Modules that have nothing to fuse: single layers, and functions in the form of a module."""

from __future__ import annotations

import ast

from autoaccel.analysis.classes import class_info, external_lineage, lineage, methods
from autoaccel.analysis.script import Script
from autoaccel.dataflow.abstract_values import ClassRef, Kind, Value
from autoaccel.library_models.tensor_views import VIEWS
from autoaccel.pytorch.forwards import WITHOUT_PARAMETERS

_LAYERS = WITHOUT_PARAMETERS | frozenset(
    f"torch.nn.{name}"
    for name in """Linear Bilinear Embedding EmbeddingBag Conv1d Conv2d Conv3d ConvTranspose1d ConvTranspose2d
    ConvTranspose3d""".split()
)
_ADDING = frozenset({"register_parameter", "register_module", "add_module"})
_WITH_PARAMETERS = (Kind.MODULE, Kind.PARAMETER)
_RESHAPING = frozenset("torch.nn.Flatten torch.nn.Unflatten torch.nn.Identity".split())
_RESHAPES = VIEWS | {"size", "dim", "contiguous", "float", "to"}


def is_small(script: Script, model: Value, around: frozenset[ast.ClassDef] = frozenset()) -> bool:
    """Whether a model is a single layer, alone or as all that a container or a class of the project holds.

    A class that also holds others of its own, which are `around`, is as small as what else it holds.
    """
    if model.cls is not None:
        return model.cls.node in around or _has_one_operation(model.cls, around | {model.cls.node})
    if model.name == "torch.nn.Sequential" and isinstance(model.node, ast.Call):
        file = model.script or script
        if not model.node.args or any(isinstance(each, ast.Starred) for each in model.node.args):
            return False
        parts = [file.values(each) for each in model.node.args]
        if not all(len(values) == 1 for values in parts):
            return False
        layers = [value for values in parts for value in values if value.name not in _RESHAPING]
        return len(layers) <= 1 and all(is_small(file, each, around) for each in layers)
    return model.name in _LAYERS


def _has_one_operation(ref: ClassRef, around: frozenset[ast.ClassDef]) -> bool:
    """Whether the forward pass of a class consists of one layer, or one operation, and reshapes."""
    forwards = [*methods(ref, "forward")]
    if not forwards:
        return False
    script, forward = forwards[0]
    if any(script.within(forward, kind) for kind in (ast.For, ast.While, ast.comprehension)):
        return False
    operations: list[ast.expr] = [*script.within(forward, ast.BinOp)]
    for call in script.within(forward, ast.Call):
        reshapes = isinstance(call.func, ast.Attribute) and call.func.attr in _RESHAPES
        if not reshapes and not (isinstance(call.func, ast.Name) and call.func.id in ("len", "int")):
            operations.append(call)
    if len(operations) != 1 or not isinstance(operations[0], ast.Call):
        return not operations
    values = script.values(operations[0].func)
    if script.kind(operations[0].func) is Kind.MODULE:
        return bool(values) and all(is_small(script, value, around) for value in values)
    return (script.qualname(operations[0].func) or "").startswith("torch.")


def is_function(model: Value) -> bool:
    """Whether a class of the project surely has no parameters: neither its own, nor layers, nor what it is given."""
    return model.cls is not None and _has_only_functions(model.cls, frozenset())


def _has_only_functions(cls: ClassRef, around: frozenset[ast.ClassDef]) -> bool:
    """Whether a class, which is a part of those `around`, and all that it is made of have no parameters."""
    around |= {cls.node}
    if not all(_is_base_of_functions(name) for name in external_lineage(cls)):
        return False
    for ref in lineage(cls):
        if not all(_has_no_parameters(ref.script, call, around) for call in ref.script.within(ref.node, ast.Call)):
            return False
        for name, bound in class_info(ref).attributes.items():
            values = [ref.script.values(value) for value, _ in bound if isinstance(value, ast.expr)]
            given = [each for found in values for each in found if each.name not in WITHOUT_PARAMETERS]
            if not all(_is_function(each, around) for each in given if each.kind in _WITH_PARAMETERS):
                return False
            if any(each.kind is Kind.UNKNOWN for each in given) and _is_run(ref, name):
                return False
    return True


def _is_base_of_functions(name: str) -> bool:
    return name in ("torch.nn.Module", "object", "abc.ABC") or (name.startswith("torch.nn.") and name.endswith("Loss"))


def _is_function(value: Value, around: frozenset[ast.ClassDef]) -> bool:
    """Whether what a class keeps is a function, too."""
    return value.cls is not None and (value.cls.node in around or _has_only_functions(value.cls, around))


def _is_run(ref: ClassRef, name: str) -> bool:
    """Whether a class calls what it has under a name, or looks into it."""
    for part in ref.script.within(ref.node, ast.Attribute):
        around = ref.script.parent(part)
        if part.attr == name and isinstance(
            around, ast.Call | ast.Attribute | ast.Subscript | ast.For | ast.comprehension
        ):
            if not (isinstance(around, ast.Call) and around.func is not part):
                return True
    return False


def _has_no_parameters(script: Script, call: ast.Call, around: frozenset[ast.ClassDef]) -> bool:
    name = script.qualname(call.func)
    if name is not None and name.startswith("torch.nn.") and name.count(".") == 2:
        return name in WITHOUT_PARAMETERS or name.endswith("Loss")
    if isinstance(call.func, ast.Attribute) and call.func.attr in _ADDING:
        return False
    made = [value for value in script.values(call.func) if value.kind is Kind.CLASS]
    return all(_is_function(value, around) for value in made)
