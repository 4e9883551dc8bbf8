"""Datasets that a script wrote itself, where `__getitem__` does nothing but look up, convert and return.

The text of the method is read (never run) against the objects that the dataset holds at this moment. Whatever has no
entry here makes the dataset one that torch fetches sample by sample.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Sequence
from typing import Any

import torch

from . import dtype_conversions, symbolic_rows
from .function_source import definition
from .mutation_guard import MutationGuard, Unsupported
from .sample_structure import Sample
from .symbolic_rows import Index, SymbolicRow

_MOST_STATEMENTS = 20


def read_samples(dataset: Any, guard: MutationGuard) -> Sample:
    """The samples of a dataset by its own `__getitem__`."""
    kind = type(dataset)
    method: Any = guard.method(kind, "__getitem__")
    function = definition(method)
    parameters = function.args
    names = [each.arg for each in parameters.args]
    if len(names) != 2 or parameters.vararg or parameters.kwarg or parameters.kwonlyargs or parameters.defaults:
        raise Unsupported("its __getitem__ takes other parameters")
    reader = _Reader(dataset, guard, names, method.__globals__)
    if len(function.body) > _MOST_STATEMENTS:
        raise Unsupported("its __getitem__ is long")
    found = reader.run(function.body)
    if found is None:
        raise Unsupported("its __getitem__ returns nothing")
    return _sample(found[0])


def _sample(value: Any) -> Sample:
    """What is returned, as parts of a batch."""
    if isinstance(value, (SymbolicRow, Index)):
        return symbolic_rows.part(value)
    if isinstance(value, (list, tuple)):
        return [_sample(each) for each in value]
    if isinstance(value, dict):
        return {key: _sample(each) for key, each in value.items()}
    raise Unsupported(f"its samples hold a {type(value).__name__}")


class _Reader:
    """Follows the statements of one `__getitem__`; `names` are what self and the index are called."""

    def __init__(self, dataset: Any, guard: MutationGuard, names: Sequence[str], outside: dict[str, Any]) -> None:
        self._dataset, self._guard, self._outside = dataset, guard, outside
        self._self, index = names
        self._local: dict[str, Any] = {index: symbolic_rows.ASKED}

    def run(self, statements: Sequence[ast.stmt]) -> tuple[Any] | None:
        """What these statements return; None when they come to their end."""
        for statement in statements:
            match statement:
                case ast.Expr(value=ast.Constant()) | ast.Pass():
                    pass
                case ast.Assign(targets=[target], value=value):
                    self._assign(target, self.value(value))
                case ast.AnnAssign(target=ast.Name() as target, value=ast.expr() as value):
                    self._assign(target, self.value(value))
                case ast.If(test=test, body=body, orelse=orelse):
                    if (returned := self.run(body if self._holds(test) else orelse)) is not None:
                        return returned
                case ast.Return(value=ast.expr() as value):
                    return (self.value(value),)
                case _:
                    raise Unsupported(f"its __getitem__ has a statement like `{_start(statement)}`")
        return None

    def _assign(self, target: ast.expr, value: Any) -> None:
        match target:
            case ast.Name(id=name) if name != self._self:
                self._local[name] = value
            case ast.Tuple(elts=targets) if isinstance(value, tuple) and len(value) == len(targets):
                for each, part in zip(targets, value, strict=True):
                    self._assign(each, part)
            case _:
                raise Unsupported(f"its __getitem__ assigns to `{ast.unparse(target)}`")

    def _holds(self, test: ast.expr) -> bool:
        """Which way an `if` goes, where that depends on attributes alone."""
        match test:
            case ast.Call(func=called, args=[ast.Name(id=name), *_], keywords=[]) if isinstance(
                self._local.get(name), Index
            ) and self._outer(called) in (torch.is_tensor, isinstance):
                if self._outer(called) is isinstance and self._outer(test.args[1]) is not torch.Tensor:
                    raise Unsupported("its __getitem__ asks for the type of the index")
                return False  # samplers' indices are numbers here
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return not self._holds(operand)
            case ast.Compare(left=left, ops=[ast.Is() | ast.IsNot() as op], comparators=[ast.Constant(value=None)]):
                value = self.value(left)
                return (value is None) is isinstance(op, ast.Is)
            case ast.Attribute():
                value = self.value(test)
                if value is None or isinstance(value, (bool, int, str)):
                    return bool(value)
        raise Unsupported(f"its __getitem__ decides by `{_start(test)}`")

    def value(self, node: ast.expr) -> Any:
        """What an expression stands for: a number, something the dataset holds, or a row of it."""
        match node:
            case ast.Constant(value=int() | float() | str() | None):
                return node.value
            case ast.Name(id=name) if name in self._local:
                return self._local[name]
            case ast.Attribute(value=ast.Name(id=name), attr=attribute) if name == self._self:
                return self._guard.attribute(self._dataset, attribute)
            case ast.Subscript(value=of, slice=index):
                return symbolic_rows.indexed(self.value(of), self._index(index), self._guard)
            case ast.Tuple(elts=elements):
                return tuple(self.value(each) for each in elements)
            case ast.List(elts=elements):
                return [self.value(each) for each in elements]
            case ast.Dict(keys=keys, values=items) if all(isinstance(key, ast.Constant) for key in keys):
                named = zip(keys, items, strict=True)
                return {key.value: self.value(item) for key, item in named if isinstance(key, ast.Constant)}
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return symbolic_rows.computed("Mult", -1, self.value(operand))
            case ast.BinOp(left=left, op=op, right=right):
                return symbolic_rows.computed(type(op).__name__, self.value(left), self.value(right))
            case ast.Call():
                return self._called(node)
        raise Unsupported(f"its __getitem__ has an expression like `{_start(node)}`")

    def _index(self, node: ast.expr) -> Any:
        match node:
            case ast.Slice(lower=lower, upper=upper, step=None):
                return slice(*(None if each is None else self.value(each) for each in (lower, upper)))
            case ast.Tuple(elts=elements):
                return tuple(self._index(each) for each in elements)
        return self.value(node)

    def _called(self, call: ast.Call) -> Any:
        options = {each.arg: self._option(each.value) for each in call.keywords if each.arg is not None}
        if len(options) != len(call.keywords):
            raise Unsupported("its __getitem__ passes options on")
        function = self._outer(call.func)
        if function is not None:
            return dtype_conversions.made(function, [self._option(each) for each in call.args], options)
        if isinstance(call.func, ast.Attribute) and not self._is_outside(call.func):
            on = self.value(call.func.value)
            if isinstance(on, SymbolicRow):
                return dtype_conversions.method(on, call.func.attr, [self._option(each) for each in call.args], options)
        raise Unsupported(f"its __getitem__ calls `{_start(call.func)}`")

    def _is_outside(self, node: ast.expr) -> bool:
        """Whether a dotted name begins with one that neither the method nor the dataset gives."""
        while isinstance(node, ast.Attribute):
            node = node.value
        return isinstance(node, ast.Name) and node.id != self._self and node.id not in self._local

    def _option(self, node: ast.expr) -> Any:
        """An argument: a dtype, or a value."""
        outer = self._outer(node)
        return self.value(node) if outer is None else outer

    def _outer(self, node: ast.expr) -> Any:
        """What a name or dotted name outside the method stands for: of torch, numpy and the builtins alone."""
        match node:
            case ast.Name(id=name) if name not in self._local and name != self._self:
                found = self._outside.get(name, getattr(builtins, name, None))
                return found if dtype_conversions.is_known(found) else None
            case ast.Attribute(value=of, attr=attribute):
                holder = self._outer(of)
                found = getattr(holder, attribute, None) if dtype_conversions.is_module(holder) else None
                return found if dtype_conversions.is_known(found) else None
        return None


def _start(node: ast.AST) -> str:
    text = ast.unparse(node).splitlines()[0]
    return text if len(text) <= 60 else text[:57] + "..."
