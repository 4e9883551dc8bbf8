"""Which calls may enter a module's `forward`, and what they pass."""

from __future__ import annotations

import ast

import pytest

from autoaccel.analysis import load
from autoaccel.dataflow.completeness import Incomplete
from autoaccel.pytorch.forward_calls import forward_calls, passed_by

HEAD = """\
import torch
from torch import nn
class Block(nn.Module):
    def forward(self, x, mask=None):
        return x
"""
HELD = """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = Block()
        self.blocks = nn.ModuleList([Block() for _ in range(2)])
    def forward(self, x, mask, more):
        for block in self.blocks:
            x = block(x, more)
        return self.first(x, mask=mask)
"""


def passed(text: str) -> list[str]:
    """What is passed for the mask."""
    script = load(HEAD + text)
    function = next(each for each in script.find(ast.FunctionDef) if each.name == "forward")
    parameter = next(
        each
        for scope, known in script.reaching_definitions.scopes.items()
        if scope is function
        for each in known.definitions["mask"]
    )
    calls = forward_calls(script, function)
    return [ast.unparse(passed_by(script, parameter, other, call)[1]) for other, call in calls]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Block()(x, 1)\n", ["1"]),
        ("Block()(x)\n", ["None"]),
        (HELD, ["more", "mask"]),
        ("block = Block()\nblock.forward(x, mask=2)\n", ["2"]),
        ("unknown = table[x]\nunknown(x, 3)\nBlock()(x, 1)\n", ["3", "1"]),
        ("x.view(2, 3)\nprint(x, 3)\ntorch.add(x, 3)\nBlock()(x, 1)\n", ["1"]),
        ("block = Block()\nBlock.forward(block, x, 6)\n", ["6"]),
        ("Block()(x, 1)\nlist(map(int, rows))\n", ["1"]),
        ("x.kept = Block()\nx.kept(x, 4)\n", ["4"]),
        (
            "Block()(x, 1)\nclass More(Block):\n    def forward(self, x):\n        return super().forward(x, 5)\n",
            ["1", "5"],
        ),
    ],
)
def test_calls(text: str, expected: list[str]) -> None:
    assert passed(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "block = Block()\nblock(x, 1)\ncheckpoint(block, x, mask)\n",
        "block = Block()\nblock(x, 1)\npartial(block, x)(mask)\n",
        "Block()(x, 1)\nblocks = table[x]\nlist(map(blocks, rows, masks))\n",
        "Block()(*parts)\n",
        "block = Block()\nblock(x, 1)\npool.submit(block, x, mask)\n",
        "block = Block()\nblock(x, 1)\nrun(block.forward, x, mask)\n",
        "block = Block()\ntype(block).forward(block, x, mask)\n",
        "Block()(x, **options)\n",
    ],
)
def test_calls_out_of_sight(text: str) -> None:
    with pytest.raises(Incomplete):
        passed(text)
