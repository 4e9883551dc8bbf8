"""Where Python itself reads what is in a tensor: surely, or not."""

from __future__ import annotations

import ast

import pytest

from autoaccel.analysis import load
from autoaccel.pytorch import host_reads

HEAD = "import torch\nx = torch.randn(3, 4)\ny = torch.zeros(3)\nweight = torch.nn.Parameter(y)\n"

# By case: a line, and the tensors whose values it asks for.
READS = {
    "a test": ("if x.any():\n    pass", ["x.any()"]),
    "a comparison": ("if x.sum() > 3:\n    pass", ["x.sum() > 3"]),
    "a comparison of what was kept": ("big = x.sum() > 3\nwhile big:\n    break", ["big"]),
    "one of two tests": ("if known or x.all():\n    pass", ["x.all()"]),
    "the first of two values": ("z = x.any() or y", ["x.any()"]),
    "a choice": ("z = 1 if torch.equal(x, y) else 2", ["torch.equal(x, y)"]),
    "a negation": ("z = not x.isnan().any()", ["x.isnan().any()"]),
    "an assertion": ("assert (x > 0).all()", ["(x > 0).all()"]),
    "a condition of a comprehension": ("z = [r for r in x if r.sum() > 0]", ["r.sum() > 0"]),
    "a conversion": ("z = int(x.sum())", ["x.sum()"]),
    "a conversion of a parameter": ("z = float(weight)", ["weight"]),
    "a conversion of their own": ("def int(x):\n    return 1\nz = int(x.sum())", []),
    "sizes": ("if x.shape[0] > 3 or x.dim() == 2 or x.numel() or len(x):\n    pass", []),
    "kinds": ("if x.is_contiguous() or torch.is_tensor(x) or x.dtype == torch.float or x.is_cuda:\n    pass", []),
    "whether there is one": ("if x is None or x is not None or x == None or missing is x:\n    pass", []),
    "what was asked before": ("missing = x is None\nif missing:\n    pass", []),
    "where it lies": ("if x.get_device() >= 0:\n    pass", []),
    "read by a method that says so": ("if x.sum().item() > 3:\n    pass", []),
    "what may be anything": ("def f(z):\n    if z.any():\n        return int(z)", []),
    "a text": ("z = float('1.5')", []),
}


@pytest.mark.parametrize(("text", "expected"), READS.values(), ids=READS)
def test_what_is_read(text: str, expected: list[str]) -> None:
    script = load(HEAD + text + "\n")
    reads = (host_reads.read_by(script, node) for node in ast.walk(script.tree))
    assert [script.source(each) for each in reads if each is not None] == expected


@pytest.mark.parametrize(("text", "expected"), READS.values(), ids=READS)
def test_all_that_reads_is_listed(text: str, expected: list[str]) -> None:
    script = load(HEAD + text + "\n")
    reading = [node for node in ast.walk(script.tree) if host_reads.read_by(script, node) is not None]
    assert len(reading) == len(expected)
    assert all(isinstance(each, host_reads.READING) for each in reading)


# By case: an expression, and whether it is taken for one of elements that a mask chooses.
MASKS = {
    "a comparison": ("x[x > 0]", True),
    "among other indices": ("x[0, x[0] > 0]", True),
    "both of two": ("x[(x > 0) & (x < 1)]", True),
    "the others": ("x[~x.isnan()]", True),
    "converted": ("x[y.bool()]", True),
    "made as one": ("x[torch.tensor([True, False, True], dtype=torch.bool)]", True),
    "whole numbers": ("x[y.long()]", False),
    "negative whole numbers": ("x[~y.long()]", False),
    "a slice": ("x[1:, None]", False),
    "a list": ("[x, y][x > 0]", False),
    "what may be anything": ("x[unknown]", False),
    "a comparison of what may be anything": ("x[unknown > 0]", True),
    "a comparison of plain numbers": ("x[len(x) > 0]", False),
    "of what may be anything": ("unknown[x > 0]", True),
}


@pytest.mark.parametrize(("text", "expected"), MASKS.values(), ids=MASKS)
def test_masks(text: str, expected: bool) -> None:
    script = load(HEAD + text + "\n")
    subscript = script.tree.body[-1].value  # type: ignore[attr-defined]
    assert host_reads.masks(script, subscript) is expected
