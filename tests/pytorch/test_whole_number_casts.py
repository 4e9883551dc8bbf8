"""Casts to whole numbers: which of them every device does alike."""

from __future__ import annotations

import ast

import pytest

from autoaccel.analysis import load
from autoaccel.pytorch.tensor_creation import creation
from autoaccel.pytorch.whole_number_casts import undefined_cast


def problem(source: str, *more: str) -> str | None:
    script = load("import torch\nimport math\n" + "\n".join([*more, source]))
    statements = [each.value for each in script.tree.body if isinstance(each, ast.Expr)]
    made = creation(script, statements[-1])
    assert made is not None
    return undefined_cast(script, made, *statements[:-1])


@pytest.mark.parametrize(
    "source",
    [
        "torch.zeros(3).long()",
        "torch.empty(3).byte()",
        "torch.rand(3).byte()",
        "torch.full((3,), float('inf'))",
        "torch.full((3,), float('inf')).double().half()",
        "torch.full((3,), float('nan')).bool()",
        "torch.full((3,), 7.5).byte()",
        "torch.full((3,), -7.5).to(torch.int8)",
        "torch.full(fill_value=1e9, size=(3,)).int()",
        "torch.full((3,), len(x)).byte()",
        "torch.full((3,), v, dtype=torch.long).short()",
        "torch.zeros(3).long().fill_(v)",
        "torch.zeros(3).fill_(5).long()",
        "torch.zeros(3).uniform_(0, 9).long()",
        "torch.zeros(3).bernoulli_(p).long()",
        "torch.arange(n, dtype=torch.long).short()",
        "torch.arange(9).float().long()",
        "torch.tensor([[1, 2], [3, 400]]).byte()",
        "torch.tensor([[1.0, 2.0], [3.0, 4.5]]).byte()",
        "torch.LongTensor([-1]).byte()",
        "torch.randint(0, n, (3,)).byte()",
        "torch.triu(torch.ones(3, 3)).long()",
        "torch.linspace(0, 1, 3).half()",
    ],
)
def test_the_same_everywhere(source: str) -> None:
    assert problem(source) is None


@pytest.mark.parametrize(
    "source",
    [
        "torch.full((3,), float('inf')).long()",
        "torch.full((3,), math.nan).type(torch.int32)",
        "torch.full((3,), -1.0).byte()",
        "torch.full((3,), 128.0).to(torch.int8)",
        "torch.full((3,), 2147483647.0).int()",
        "torch.full((3,), 9223372036854775807.0).long()",
        "torch.full((3,), v).long()",
        "torch.full((3,), len(x), dtype=torch.float32).byte()",
        "torch.full((3,), len(x), dtype=t).byte()",
        "torch.full((3,), 3).float().fill_(v).long()",
        "torch.full_like(x, -1).byte()",
        "torch.zeros(3).fill_(v).long()",
        "torch.zeros(3).uniform_(0, n).long()",
        "torch.zeros(3).normal_().long()",
        "torch.arange(len(x)).float().byte()",
        "torch.full((3,), v).bool().float().byte()",
        "torch.tensor([1.0, 300.0]).byte()",
        "torch.tensor(rows, dtype=torch.float32).long()",
        "torch.FloatTensor([-1]).byte()",
        "torch.randn(3).byte()",
        "torch.full((3,), 200).to(torch.int8).float().byte()",
    ],
)
def test_what_may_not_fit(source: str) -> None:
    assert "may not fit" in (problem(source) or "")


@pytest.mark.parametrize(
    "source", ["torch.linspace(0, 9, 4).long()", "torch.arange(0, 1, 0.1).int()", "torch.hann_window(4).bool()"]
)
def test_what_is_cut_off(source: str) -> None:
    assert "cut off" in (problem(source) or "")


@pytest.mark.parametrize(
    ("source", "last", "same"),
    [
        ("torch.full((3,), v)", "torch.float16", True),
        ("torch.full((3,), v)", "torch.long", False),
        ("torch.full((3,), v)", "unknown", False),
        ("torch.full((3,), 0.5)", "unknown", True),
        ("torch.full((3,), -0.5)", "unknown", False),
        ("torch.full((3,), v).half()", "torch.long", False),
    ],
)
def test_a_type_that_comes_last(source: str, last: str, same: bool) -> None:
    assert (problem(source, last) is None) == same
