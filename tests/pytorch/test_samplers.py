"""Samplers that only count and draw."""

from __future__ import annotations

import ast

import pytest

from autoaccel.analysis import load
from autoaccel.pytorch.samplers import only_draws_indices

HEAD = """\
import random
import numpy as np
import torch
from torch import nn
from torch.utils.data import Sampler
from torch.utils.data.sampler import BatchSampler

model = nn.Linear(4, 1)

def score(x):
    return model(x)

def order(n):
    return torch.randperm(n).tolist()

class Mine({base}):
    def __init__(self, data, rows=None, scorer=None):
        self.data, self.rows, self.scorer, self.size = data, rows, scorer, 4

    def choose(self, rows):
        return random.sample(rows, 2)

    def __iter__(self):
{body}

def make(data, rows, scorer):
    return Mine(data, rows, scorer)
"""
CASES = {
    "counts": ("Sampler", "for i in range(len(self.data)):\n    yield i", True),
    "shuffles": ("Sampler", "for rows in self.rows:\n    np.random.shuffle(rows)\n    yield rows", True),
    "draws": ("Sampler", "yield from torch.randperm(len(self.data)).tolist()", True),
    "draws by a function": ("Sampler", "rows = order(len(self.data))\nfor row in rows:\n    yield row", True),
    "draws by a method": ("Sampler", "yield self.choose([1, 2, 3])", True),
    "collects": (
        "BatchSampler",
        "found = []\nfor i in self.rows:\n    found.append(i)\n    if len(found) > 3:\n        yield found",
        True,
    ),
    "slices": (
        "Sampler[int]",
        "for i in range(0, len(self.rows), self.size):\n    yield self.rows[i : i + self.size]",
        True,
    ),
    "runs a model": ("Sampler", "scores = model(self.data)\nfor i in scores.argsort():\n    yield i", False),
    "runs a model in a function": ("Sampler", "for x in self.data:\n    yield score(x)", False),
    "runs what it is given": ("Sampler", "for x in self.data:\n    yield self.scorer(x)", False),
    "runs by map": ("Sampler", "yield from map(self.scorer, self.data)", False),
    "sorts by what it is given": ("Sampler", "yield from sorted(self.data, key=self.scorer)", False),
    "sorts by a function in sight": ("Sampler", "yield from sorted(self.data, key=lambda x: len(x))", True),
    "sorts by a model": ("Sampler", "yield from sorted(self.data, key=lambda x: self.scorer(x))", False),
    "computes": ("Sampler", "weights = self.rows * 2\nfor each in weights:\n    yield each", False),
    "computes with torch": ("Sampler", "weights = torch.softmax(self.rows, 0)\nyield weights\nyield weights", False),
    "adds up": ("Sampler", "total = 0\nfor each in self.rows:\n    total += each\n    yield total", False),
    "is none": ("object", "for i in range(len(self.data)):\n    yield i", False),
}


@pytest.mark.parametrize("case", CASES)
def test_only_draws_indices(case: str) -> None:
    base, body, expected = CASES[case]
    indented = "".join(f"        {line}\n" for line in body.split("\n"))
    script = load(HEAD.format(base=base, body=indented))
    [function] = [each for each in script.find(ast.FunctionDef) if each.name == "__iter__"]
    assert only_draws_indices(script, function) is expected
