"""Whether what an operation gives carries a graph: its own, in something that it holds, or none."""

from __future__ import annotations

import pytest

from autoaccel.analysis import load
from autoaccel.pytorch import graph_results
from autoaccel.pytorch.graph_states import GraphNeeded

HEAD = "import copy, itertools, logging, torch\nimport numpy as np\nclass A:\n    shape = call()\na = A()\n"


@pytest.mark.parametrize(
    ("attribute", "held", "expected"),
    [("v.T", False, False), ("v.shape", False, None), ("a.shape", False, False), ("v.shape", True, False)],
)
def test_attributes(attribute: str, held: bool, expected: bool | None) -> None:
    script = load(f"{HEAD}{attribute}\n")
    node = script.tree.body[-1].value  # type: ignore[attr-defined]
    assert graph_results.of_attribute(script, node, held) is expected


@pytest.mark.parametrize(
    ("call", "held", "expected"),
    [
        ("v.mean()", False, False),
        ("v.item()", False, None),
        ("v.values()", True, True),
        ("v.pop()", True, False),
    ],
)
def test_methods(call: str, held: bool, expected: bool | None) -> None:
    script = load(f"{HEAD}{call}\n")
    node = script.tree.body[-1].value  # type: ignore[attr-defined]
    assert graph_results.of_method(script, node, node.func.attr, held) is expected


@pytest.mark.parametrize("call", ["v.backward()", "v.register_hook(print)"])
def test_methods_that_need_it(call: str) -> None:
    script = load(f"{HEAD}{call}\n")
    node = script.tree.body[-1].value  # type: ignore[attr-defined]
    with pytest.raises(GraphNeeded):
        graph_results.of_method(script, node, node.func.attr, False)


@pytest.mark.parametrize(
    ("operation", "held", "expected"),
    [("v + 1", False, False), ("v + 1", True, True), ("'%s' % v", False, None), ("f'{a}' % v", False, None)],
)
def test_operators(operation: str, held: bool, expected: bool | None) -> None:
    script = load(f"{HEAD}{operation}\n")
    node = script.tree.body[-1].value  # type: ignore[attr-defined]
    assert graph_results.of_operator(script, node, held) is expected


def test_operators_without_gradients() -> None:
    script = load(f"{HEAD}with torch.no_grad():\n    v + 1\n")
    node = script.tree.body[-1].body[0].value  # type: ignore[attr-defined]
    assert graph_results.of_operator(script, node, False) is None
    assert graph_results.of_operator(script, node, True) is True


@pytest.mark.parametrize(
    ("name", "held", "expected"),
    [
        ("torch.relu", False, False),
        ("numpy.mean", False, None),
        ("itertools.chain", False, True),
        ("copy.deepcopy", False, True),
    ],
)
def test_functions_of_libraries(name: str, held: bool, expected: bool | None) -> None:
    script = load(f"{HEAD}f(v)\n")
    assert graph_results.of_library(script, script.tree.body[-1].value, name, held) is expected  # type: ignore[attr-defined]
