"""What attributes and methods of tensors, batches, models and arrays give."""

from __future__ import annotations

import ast

import pytest

from autoaccel.analysis import load
from autoaccel.dataflow.abstract_values import ANY, UNKNOWN, Kind, Value, Values
from autoaccel.library_models.member_values import attribute, method


@pytest.mark.parametrize(
    ("kind", "call", "expected"),
    [
        (Kind.BATCH, "x.to(device)", (Kind.TENSOR, "moved")),
        (Kind.BATCH, "x.type(torch.cuda.FloatTensor)", (Kind.TENSOR, "moved")),
        (Kind.BATCH, "x.type(torch.FloatTensor)", (Kind.BATCH, "copy")),
        (Kind.BATCH, "x.view(-1)", (Kind.BATCH, "view")),
        (Kind.BATCH, "x.size(0)", (Kind.NUMBER, None)),
        (Kind.BATCH, "x.numpy()", (Kind.ARRAY, "view")),
        (Kind.BATCH, "x.items()", (Kind.SEQUENCE, None)),
        (Kind.TENSOR, "x.exp()", (Kind.TENSOR, "exp")),
        (Kind.TENSOR, "x.max(1)", (Kind.TENSOR, None)),
        (Kind.TENSOR, "x.item()", (Kind.NUMBER, None)),
        (Kind.TENSOR, "x.backward()", (Kind.NONE, None)),
        (Kind.MODULE, "x.cuda()", (Kind.MODULE, None)),
        (Kind.MODULE, "x.parameters()", (Kind.ITERATOR, None)),
        (Kind.MODULE, "x.encode()", None),
        (Kind.ARRAY, "x.sum()", (Kind.ARRAY, "sum")),
        (Kind.ARRAY, "x.tolist()", (Kind.SEQUENCE, None)),
        (Kind.STRING, "x.lower()", (Kind.STRING, None)),
        (Kind.STRING, "x.strange()", (Kind.UNKNOWN, None)),
        (Kind.UNKNOWN, "x.numpy()", (Kind.ARRAY, "view")),
        (Kind.UNKNOWN, "x.call()", None),
        (Kind.OPTIMIZER, "x.step()", None),
    ],
)
def test_methods(kind: Kind, call: str, expected: tuple[Kind, str | None] | None) -> None:
    script = load(f"import torch\n{call}\n")
    node = next(script.find(ast.Call))
    assert isinstance(node.func, ast.Attribute)
    found = method(Value(kind), node.func.attr, node, script)
    assert (None if found is None else [(each.kind, each.how) for each in found]) == (expected and [expected])


@pytest.mark.parametrize(
    ("kind", "name", "expected"),
    [
        (Kind.BATCH, "T", (Kind.BATCH, "view")),
        (Kind.BATCH, "shape", (Kind.SEQUENCE, None)),
        (Kind.ARRAY, "shape", (Kind.SEQUENCE, None)),
        (Kind.TENSOR, "ndim", (Kind.NUMBER, None)),
        (Kind.UNKNOWN, "shape", (Kind.UNKNOWN, None)),
        (Kind.BATCH, "grad", (Kind.TENSOR, None)),
        (Kind.TENSOR, "data", (Kind.TENSOR, None)),
        (Kind.TENSOR, "device", (Kind.DEVICE, None)),
        (Kind.TENSOR, "dtype", (Kind.DTYPE, None)),
        (Kind.LOADER, "dataset", (Kind.DATASET, None)),
        (Kind.MODULE, "module", (Kind.MODULE, None)),
        (Kind.ARRAY, "T", (Kind.ARRAY, "view")),
        (Kind.MODULE, "weight", (Kind.UNKNOWN, None)),
    ],
)
def test_attributes(kind: Kind, name: str, expected: tuple[Kind, str | None]) -> None:
    script = load(f"x.{name}\n")
    found = attribute(Value(kind), name, next(script.find(ast.Attribute)), script)
    assert [(each.kind, each.how) for each in found] == [expected]


def test_a_name_of_a_library_goes_on() -> None:
    script = load("x.nn\n")
    (found,) = attribute(Value(Kind.EXTERNAL, name="torch"), "nn", next(script.find(ast.Attribute)), script)
    assert (found.kind, found.name) == (Kind.EXTERNAL, "torch.nn")
    assert attribute(UNKNOWN, "nn", next(script.find(ast.Attribute)), script) == ANY == Values({UNKNOWN})
