"""Modules that may be elements of a container, whose calls do not say what they call."""

from __future__ import annotations

import ast

import pytest

from autoaccel.analysis import load
from autoaccel.analysis.contained_modules import may_be_contained

HEAD = """\
import torch
from torch import nn

class Block(nn.Module):
    points = None

    @classmethod
    def start(cls, n):
        cls.points = torch.zeros(n)

    @classmethod
    def made(cls):
        return cls()

    @classmethod
    def made_again(cls):
        return cls.made()

    def forward(self, x):
        return x

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = Block()
        self.body = {body}

    def forward(self, x):
        for each in self.body:
            x = each(x)
        return self.first(x)

net = Net()
"""


@pytest.mark.parametrize(
    ("body", "lines", "contained"),
    [
        ("nn.ModuleList([Block() for _ in range(3)])", "", True),
        ("nn.ModuleList([nn.Linear(4, 4)])", "", False),
        ("nn.Sequential(nn.Linear(4, 4), Block())", "", True),
        ("Block().to('cpu')", "", False),
        ("[]", "block = Block()\nblock.eval()\nprint(block(net))", False),
        ("[]", "block = Block()\nnet.body.append(block)", True),
        ("[]", "made = [Block]\nnet.body = [each() for each in made]", True),
        ("[]", "class Wide(Block):\n    pass\nnet.body = [Wide()]", True),
        ("[]", "def make():\n    return Block()\nnet.last = make()", False),
        ("[]", "def make():\n    return Block()\nnet.body = nn.ModuleList([make(), make()])", True),
        ("[]", "print(isinstance(net.first, Block))", False),
        ("[]", "def show(block):\n    print(block(1))\nshow(Block())\nshow(block=Block())", False),
        ("[]", "def wrap(block):\n    return nn.Sequential(block, nn.ReLU())\nnet.body = wrap(Block())", True),
        ("[]", "def wrap(*, block):\n    net.body.append(block)\nwrap(block=Block())", True),
        ("[]", "def wrap(*blocks):\n    net.body = blocks\nwrap(Block())", True),
        ("[]", "keep(Block())", True),
        ("[]", "one, two = Block(), Block().to('cpu')\nprint(one(net), two(net))", False),
        ("[]", "one, two = Block(), Block()\nnet.body = [two]", True),
        ("[]", "one, *rest = Block(), Block()", True),
        ("[]", "print(Block.points)\nBlock.start(3)", False),
        ("[]", "net.body = [Block.made(), Block.made_again()]", True),
        ("[]", "net.body = [Block.made_again()]", True),
        ("[]", "net.body = [Block.load('block.pt')]", True),
    ],
)
def test_contained(body: str, lines: str, contained: bool) -> None:
    script = load(HEAD.format(body=body) + lines + "\n")
    cls = next(each for each in script.find(ast.ClassDef) if each.name == "Block")
    assert may_be_contained(script.class_ref(cls)) is contained


@pytest.mark.parametrize(
    ("body", "told"),
    [("nn.ModuleList([Block() for _ in range(3)])", False), ("nn.ModuleList([nn.Linear(4, 4)])", True)],
)
def test_callers_of_elements_are_not_all(body: str, told: bool) -> None:
    script = load(HEAD.format(body=body))
    forward = next(each for each in script.find(ast.FunctionDef) if each.name == "forward")
    assert (script.callers(forward).missing is None) is told
