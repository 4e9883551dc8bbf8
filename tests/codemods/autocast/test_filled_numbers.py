"""Numbers that low precision cannot hold, where tensors are filled or bounded by them."""

from __future__ import annotations

import ast

import pytest
import torch

from autoaccel.analysis import load
from autoaccel_codemods.autocast.filled_numbers import BFLOAT16_LIMIT, beyond_bfloat16, beyond_float16

BEGINNING = """\
import numpy as np
import torch
NEGATIVE = -1e9
LEAST = torch.finfo(torch.float32).min
def forward(x, mask, given, scores=torch.zeros(3)):
"""


@pytest.mark.parametrize(
    ("call", "in_bfloat16", "in_float16"),
    [
        ("scores.masked_fill(mask, -1e4)", False, False),
        ("scores.masked_fill(mask == 0, -1e9)", False, True),
        ("scores.masked_fill(mask, NEGATIVE)", False, True),
        ("scores.masked_fill(mask, value=-1e9)", False, True),
        ("torch.masked_fill(scores, mask, -1e9)", False, True),
        ("scores.masked_fill_(mask, -3.4e38)", True, True),
        ("scores.masked_fill(mask, LEAST)", True, True),
        ("scores.masked_fill(mask, torch.finfo(torch.float32).min)", True, True),
        ("scores.masked_fill(mask, -torch.finfo(torch.float).max)", True, True),
        ("scores.masked_fill(mask, np.finfo('float32').min)", True, True),
        ("scores.masked_fill(mask, torch.finfo(scores.dtype).min)", False, False),
        ("scores.masked_fill(mask, -torch.finfo(scores.dtype).max)", False, False),
        ("scores.masked_fill(mask, float('-inf'))", False, False),
        ("scores.masked_fill(mask, -np.inf)", False, False),
        ("scores.masked_fill(mask, given)", True, True),  # LEAST stands in the text
        ("scores.fill_(0.5)", False, False),
        ("torch.full_like(scores, LEAST)", True, True),
        ("scores.clamp(min=LEAST)", True, True),
        ("scores.clamp(-1e9, 1e9)", False, True),
        ("torch.clamp(scores, -1, 1)", False, False),
        ("np.clip(x, -3.4e38, 1)", False, False),
        ("scores.sum(LEAST)", False, False),
    ],
)
def test_what_a_number_fits(call: str, in_bfloat16: bool, in_float16: bool) -> None:
    script = load(f"{BEGINNING}    {call}\n")
    node = script.tree.body[-1].body[-1].value  # type: ignore[attr-defined]
    assert isinstance(node, ast.Call)
    assert (beyond_bfloat16(script, node) is not None) is in_bfloat16
    assert (beyond_float16(script, node) is not None) is in_float16


def test_a_number_that_is_not_known_fits_where_nothing_speaks_of_limits() -> None:
    script = load("def forward(scores, mask, given):\n    scores.masked_fill(mask, given)\n")
    (call,) = script.find(ast.Call)
    assert beyond_bfloat16(script, call) is None
    assert beyond_float16(script, call)


def test_the_limit_is_that_of_torch() -> None:
    assert torch.finfo(torch.bfloat16).max == BFLOAT16_LIMIT
    scores, mask = torch.zeros(2, dtype=torch.bfloat16), torch.tensor([True, False])
    scores.masked_fill(mask, -BFLOAT16_LIMIT)
    with pytest.raises(RuntimeError, match="without overflow"):
        scores.masked_fill(mask, torch.finfo(torch.float32).min)
    with pytest.raises(RuntimeError, match="without overflow"):
        scores.half().masked_fill(mask, -1e9)


def test_a_bound_that_is_not_known_may_be_any_that_is_written_down() -> None:
    text = (
        "import torch\nclass Head(torch.nn.Module):\n    def forward(self, x):\n        return x.clamp(max=self.most)\n"
    )
    small, large = (load(f"{text}MOST = {most}\n") for most in ("100", "1e6"))
    assert not beyond_float16(small, next(small.find(ast.Call)))
    assert beyond_float16(large, next(large.find(ast.Call)))
