"""Generators that keep a graph from one value to the next, for whoever asks for it."""

from __future__ import annotations

import ast

import pytest

from autoaccel.analysis import load
from autoaccel.pytorch.kept_generators import goes_on_with_graph

HEAD = """\
import itertools
import numpy as np
import torch
from torch import nn

model = nn.Linear(4, 4)
data = torch.randn(8, 4)

def states():
    h = torch.zeros(1)
    while True:
        h = model(h)
        yield h

def averaged(values):
    mean = 0
    for value in values:
        mean = 0.9 * mean + value
        yield mean

def collected():
    seen = []
    while True:
        seen.append(model(data))
        yield sum(seen)

def measured():
    proto = model(data)
    yield 1
    yield proto.sum()

def scored():
    scores = model(data)
    for i in range(8):
        yield scores[i]

def nested():
    for h in states():
        yield h

class Episodes:
    def __init__(self, labels):
        self.places = [torch.arange(8) + 8 * c for c in range(4)]
        self.found = []
        self.tables = [torch.ones(8)]
        for c in range(4):
            places = np.argwhere(labels == c).reshape(-1)
            self.found.append(torch.from_numpy(places))

    def drawn(self):
        for c in torch.randperm(4):
            rows = []
            row = self.places[c]
            rows.append(row[torch.randperm(8)])
            rows.append(self.found[c])
            yield torch.stack(rows).t().reshape(-1)

    def looked_up(self):
        rows = []
        for c in range(4):
            rows.append(self.tables[c])
            yield torch.stack(rows)

def outputs():
    while True:
        out = model(data)
        yield out

def cycled(loader):
    while True:
        for batch in loader:
            yield batch

def pieces():
    order = torch.randperm(8)
    for i in range(8):
        yield data[order[i]]

"""


@pytest.mark.parametrize(
    ("lines", "goes_on"),
    [
        ("stream = states()", True),
        ("model.stream = states()", True),
        ("streams = [states()]", True),
        ("stream = iter(states())", True),
        ("def f(): return states()", True),
        ("f(states())", True),
        ("f = states", True),
        ("stream = averaged(model(x) for x in data)", True),
        ("stream = averaged(data)", False),
        ("stream = collected()", True),
        ("stream = measured()", True),
        ("stream = scored()", True),
        ("stream = nested()", True),
        ("stream = itertools.accumulate(map(model, data))", True),
        ("stream = outputs()", False),
        ("stream = cycled(data)", False),
        ("stream = Episodes(np.array([0, 1])).drawn()", False),
        ("stream = Episodes(np.array([0, 1])).looked_up()", True),
        ("class More(Episodes):\n    def f(self): self.places.append(model(data))\nstream = More([]).drawn()", True),
        ("made = Episodes([])\nmade.places = outputs()\nstream = made.drawn()", True),
        ("stream = pieces()", False),
        ("for h in states(): print(h)", False),
        ("for i, h in enumerate(states()): print(h)", False),
        ("for h, x in zip(states(), data): print(h)", False),
        ("first = next(states())", False),
        ("several = list(itertools.islice(states(), 3))", False),
        ("for x in itertools.accumulate(data): print(x)", False),
        ("def f():\n    stream = states()\n    next(stream)\n    for h in stream: print(h)", False),
        ("def f():\n    stream = states()\n    return stream", True),
        ("def home():\n    stream = states()\n    next(stream)", True),
    ],
)
def test_generators(lines: str, goes_on: bool) -> None:
    script = load(HEAD + lines + "\n")
    home = next((each for each in script.find(ast.FunctionDef) if each.name == "home"), None)
    assert goes_on_with_graph(script, home) is goes_on


ITERATED = """\
import itertools
import torch
from torch import nn

model = nn.Linear(4, 4)

class Chunks{base}:
    def __init__(self, rows):
        self.rows = rows

    def __iter__(self):
        rows = list(self.rows)
        for i in range(0, len(rows), 8):
            yield torch.stack(rows[i : i + 8])

chunks = Chunks(torch.randn(64, 4))

"""


@pytest.mark.parametrize(
    ("base", "lines", "goes_on"),
    [
        ("", "for chunk in chunks: print(model(chunk))", False),
        ("", "for i, chunk in enumerate(chunks): print(model(chunk))", False),
        ("(object)", "def f(data):\n    for chunk in data: print(chunk)\nf(chunks)", False),
        ("", "first = list(chunks)", False),
        ("", "stream = iter(chunks)", True),
        ("", "def f(data):\n    global stream\n    stream = iter(data)\nf(chunks)", True),
        ("", "stream = itertools.cycle(chunks)", True),
        ("", "def f(data):\n    for chunk in data: yield chunk\nstream = f(chunks)", True),
        ("", "def f(data):\n    yield from data\nstream = f(chunks)", True),
        ("", "stream = (model(chunk) for chunk in chunks)", True),
        ("", "loader = torch.utils.data.DataLoader(chunks)", True),
        ("(torch.utils.data.IterableDataset)", "for chunk in chunks: print(chunk)", True),
        ("", "class Twice(Chunks):\n    pass\nstream = iter(Twice([]))", True),
    ],
)
def test_iterators_of_objects(base: str, lines: str, goes_on: bool) -> None:
    script = load(ITERATED.format(base=base) + lines + "\n")
    assert goes_on_with_graph(script, None) is goes_on
