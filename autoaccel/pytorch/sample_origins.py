"""What is computed of samples alone where they are collated, and so is where they are."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from autoaccel.analysis.call_sites import arguments_for
from autoaccel.analysis.classes import owner_name
from autoaccel.analysis.script import Script
from autoaccel.dataflow.abstract_values import Kind
from autoaccel.dataflow.call_arguments import given_values
from autoaccel.dataflow.completeness import ScriptNode
from autoaccel.dataflow.definitions import Definition
from autoaccel.library_models.tensor_operations import DRAWING, FILLING, METHODS

_NO_TENSORS = frozenset({Kind.NUMBER, Kind.STRING, Kind.BOOL, Kind.NONE, Kind.DTYPE})
_BINDING = frozenset({"assign", "for", "walrus", "aug"})
_COMPUTING = METHODS | FILLING | DRAWING
_GIVING_PARTS = frozenset("list tuple zip enumerate reversed sorted dict set next iter max min".split())


class DerivedFromSamples:
    """Tells what a function that collates samples computes of them, of all that its code leads to.

    What makes these tensors is part of that code, where moves are found for themselves: without one they are where the
    samples are."""

    def __init__(self, script: Script, expression: ast.expr, reached: Iterable[ScriptNode]) -> None:
        self._functions = {node for _, node in reached if isinstance(node, ast.FunctionDef | ast.Lambda)}
        collating = {value.node for value in script.values(expression) if value.kind is Kind.FUNCTION}
        self._collating = {each for each in (*collating, expression) if each in self._functions}

    def have_device(self, file: Script, device: ast.expr) -> bool:
        """Whether an expression surely is the device of samples, or of what is computed of them."""
        match device:
            case ast.Attribute(value=owner, attr="device"):
                if any(value.cls is not None for value in file.values(owner)):
                    return False  # an object may say another device than that of its tensors
                return file.qualname(device) is None and self._are_origin(file, owner, frozenset())
            case ast.Name():
                bound = file.definitions(device)
                return bool(bound) and all(
                    each.how == "assign"
                    and not each.path
                    and isinstance(each.value, ast.Attribute)
                    and self.have_device(file, each.value)
                    for each in bound
                )
            case _:
                return False

    def _are_origin(self, file: Script, expression: ast.expr, seen: frozenset[ast.AST]) -> bool:
        """Whether whatever tensors are in an expression come from samples, or are made in the code itself."""
        if expression in seen:
            return True
        seen |= {expression}
        if file.values(expression).kinds <= _NO_TENSORS:
            return True
        match expression:
            case ast.Name():
                bound = file.definitions(expression)
                return bool(bound) and all(self._is_origin(file, each, seen) for each in bound)
            case ast.Subscript(value=inner) | ast.Attribute(value=inner) | ast.Starred(value=inner):
                return self._are_origin(file, inner, seen)
            case ast.Call(func=function):
                parts = given_values(expression)
                if isinstance(function, ast.Attribute) and (name := file.qualname(function)) is None:
                    known = function.attr in METHODS and not file.callees(expression)
                    parts = [function.value, *parts]
                elif isinstance(function, ast.Name) and not file.definitions(function):
                    known = function.id in _GIVING_PARTS
                else:
                    name = file.qualname(function) or ""
                    known = name.startswith("torch.") and name.removeprefix("torch.") in _COMPUTING
                return known and all(self._are_origin(file, each, seen) for each in parts)
            case ast.ListComp(elt=inner) | ast.GeneratorExp(elt=inner):
                return self._are_origin(file, inner, seen)
            case ast.Tuple() | ast.List() | ast.BinOp() | ast.IfExp():
                parts = [each for each in ast.iter_child_nodes(expression) if isinstance(each, ast.expr)]
                return all(self._are_origin(file, each, seen) for each in parts)
            case _:
                return False

    def _is_origin(self, file: Script, bound: Definition, seen: frozenset[ast.AST]) -> bool:
        function = bound.scope.node
        if bound.how in _BINDING:
            return bound.value is not None and self._are_origin(file, bound.value, seen)
        if bound.how != "param" or bound.name == owner_name(file, function):
            return False
        if bound.value is not None and not self._are_origin(file, bound.value, seen):
            return False
        if function in self._collating:
            return True
        if function not in self._functions or file.callers(function).missing is not None:
            return False
        given = [
            (where, each)
            for where, each in arguments_for(file, function, bound.name)
            if where.function(each) in self._functions
        ]
        return bool(given) and all(self._are_origin(where, each, seen) for where, each in given)
