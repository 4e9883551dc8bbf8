"""Which expressions are the old types that make tensors."""

from __future__ import annotations

import ast

import pytest

from autoaccel.analysis import load
from autoaccel.pytorch.tensor_kinds import is_tensor_type

HEAD = """\
import torch
from torch import nn
net = nn.Linear(2, 2)
cuda = torch.cuda.is_available()
Tensor = torch.cuda.FloatTensor if cuda else torch.FloatTensor
"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("torch.FloatTensor", True),
        ("torch.cuda.LongTensor", True),
        ("Tensor", True),
        ("torch.tensor", False),
        ("net", False),
    ],
)
def test_types(text: str, expected: bool) -> None:
    script = load(f"{HEAD}{text}\n")
    statement = script.tree.body[-1]
    assert isinstance(statement, ast.Expr)
    assert is_tensor_type(script, statement.value) is expected
