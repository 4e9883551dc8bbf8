"""Whether the batches of a loader carry no graph when it gives them."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from autoaccel.analysis.script import Script
from autoaccel.dataflow.abstract_values import Kind, Value, Values
from autoaccel.dataflow.query import once
from autoaccel.pytorch.loader_calls import LoaderCall, loader_calls
from autoaccel.pytorch.loader_loops import loader_loops
from autoaccel.pytorch.sample_code import keeps_gradients, reachable


def has_plain_samples(batch: Value) -> bool:
    """Whether nothing that makes the samples of a batch runs a model or requires gradients."""
    file = batch.script
    if file is None:
        return False
    loaders = [file.values(loop.loader) for loop in loader_loops(file) if loop.node is batch.node]
    if not loaders and isinstance(batch.node, ast.Call):
        parts: list[ast.expr] = [*file.within(batch.node, ast.Name), *file.within(batch.node, ast.Call)]
        loaders = [each for part in parts for each in _loaders(file.values(part))]
    if not loaders or any(each.kind is not Kind.LOADER for each in loaders):
        return False
    created = [(each.script, each.node) for values in loaders for each in values]
    made = [(other, call) for other, call in created if other is not None and isinstance(call, ast.Call)]
    calls = [(other, each) for other, call in made for each in loader_calls(other) if each.call is call]
    return len(calls) == len(made) and not any(_has_graph(other, each) for other, each in calls)


def _loaders(values: Values) -> Iterator[Values]:
    """The loaders that an expression may be, or that an iterator goes over: `next(iter(loader))`, `next(batches)`."""
    if values.kind is Kind.LOADER:
        yield values
    elif values.kind is Kind.ITERATOR:
        for value in values:
            yield from (each for _, each in value.items)


def _has_graph(script: Script, loader: LoaderCall) -> bool:
    """Whether the batches of a loader may have a graph, or it is not known what they are made from."""
    parts = [loader.settings[name] for name in ("dataset", "collate_fn") if name in loader.settings]
    known = loader.problem is None and "dataset" in loader.settings and "collate_fn" not in loader.possible
    return not known or any(_makes_graph(script, each) for each in parts)


@once
def _makes_graph(script: Script, expression: ast.expr) -> bool:
    """Whether what makes samples may run a model, or require gradients."""
    if keeps_gradients(script, expression):
        return True
    return any(
        isinstance(node, ast.Name | ast.Attribute | ast.Call) and file.kind(node) in (Kind.MODULE, Kind.PARAMETER)
        for file, node in reachable(script, expression)
    )
