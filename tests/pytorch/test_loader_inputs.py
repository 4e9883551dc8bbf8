"""Whether an object, a name or a tensor is one of those that the batches of a loader are made from."""

from __future__ import annotations

import ast

import pytest

from autoaccel.analysis import Script, load
from autoaccel.pytorch.input_search import find_inputs
from autoaccel.pytorch.loader_calls import loader_calls
from autoaccel.pytorch.loader_inputs import ALL, IN_WORKERS, LoaderInputs

HEAD = """\
import torch
from torch.utils.data import DataLoader, Dataset, Sampler, TensorDataset
scale, unread, table = 2, 3, [1]
class Data(Dataset):
    def __init__(self, rows, change=None):
        self.rows, self.change = rows, change
    def __getitem__(self, i):
        return self.rows[i] * scale + len(table)
    def note(self):
        return unread
class Changed(Data):
    def __getitem__(self, i):
        return self.change(self.rows[i])
class Order(Sampler):
    def __iter__(self):
        return iter([2, 1])
rows = torch.ones(4)
data, other, order = Data(rows), Data(torch.zeros(4)), Order()
"""


def inputs(text: str, parts: tuple[str, ...] = ALL) -> tuple[Script, LoaderInputs]:
    script = load(f"{HEAD}{text}\n")
    [made] = loader_calls(script)
    return script, find_inputs(script, made, parts)


def seen(script: Script) -> ast.expr:
    return next(each.args[0] for each in script.find(ast.Call) if script.source(each.func) == "seen")


TWICE = """\
def twice(v): return v + v
class Own(Data):
    def __getitem__(self, i): return twice(self.rows[i])
DataLoader(Own(rows))
"""
# By case: a script with one loader; whether the argument of `seen(…)` may be what its batches are made from.
INCLUDED = {
    "the dataset": ("DataLoader(data)\nseen(data)", True),
    "another object of its class": ("DataLoader(data)\nseen(other)", False),
    "what it holds": ("DataLoader(data)\nseen(rows)", True),
    "what it holds, by its attribute": ("DataLoader(data)\nseen(data.rows)", True),
    "what another object of its class holds, which has the same attributes": (
        "DataLoader(data)\nseen(other.rows)",
        True,
    ),
    "a view by a function": ("DataLoader(TensorDataset(torch.squeeze(rows)))\nseen(rows)", True),
    "what other code hands to a function that it calls": (f"{TWICE}more = make()\ntwice(more)\nseen(more)", False),
    "what it hands to a function": (f"{TWICE}seen(rows)", True),
    "what such a function has made it of": (
        "def twice(v): return v\nmore = make()\nDataLoader(Changed(twice(more), twice))\nseen(more)",
        True,
    ),
    "what other code hands to a function that keeps it": (
        "def twice(v): return lambda: v\nmore = make()\ntwice(more)\nDataLoader(Changed(rows, twice))\nseen(more)",
        True,
    ),
    "another name for it": ("d = data\nDataLoader(d)\nseen(data)", True),
    "one of two": ("DataLoader(data if t else other)\nseen(other)", True),
    "the order": ("DataLoader(data, sampler=order)\nseen(order)", True),
    "a name that its code reads": ("DataLoader(data)\nseen(table)", True),
    "a name that other methods read": ("DataLoader(data)\nseen(unread)", False),
    "of the loader": ("loader = DataLoader(data)\nseen(loader.dataset)", True),
    "of the loader, made by it": ("loader = DataLoader(data)\nseen(loader.sampler)", True),
    "of the loader, not set": ("loader = DataLoader(data)\nseen(loader.generator)", False),
    "of another loader": ("a = DataLoader(data)\ndef f(b: DataLoader):\n    seen(b.dataset)", True),
    "the loader": ("loader = DataLoader(data)\nseen(loader)", False),
    "the batch": ("for x in DataLoader(data):\n    seen(x)", False),
    "in a library's dataset": ("DataLoader(TensorDataset(rows))\nseen(rows)", True),
    "in a library's dataset out of sight": ("from lib import Wrap\nDataLoader(Wrap(data))\nseen(data)", True),
    "a view": ("DataLoader(TensorDataset(rows.view(-1)))\nseen(rows)", True),
    "a copy": ("DataLoader(TensorDataset(rows.clone()))\nseen(rows)", False),
    "what a function gives": ("def make():\n    return data\nDataLoader(make())\nseen(data)", True),
    "of a parameter": ("def f(d):\n    DataLoader(d)\nf(data)\nseen(data)", True),
    "a parameter that is unknown": ("def f(d):\n    DataLoader(d)\n    seen(d)", True),
    "another parameter that is unknown": ("def f(d, e):\n    DataLoader(d)\n    seen(e)", False),
    "an attribute that is unknown": ("def f(a):\n    DataLoader(a.train_set)\n    seen(a.train_set)", True),
    "of an object that is unknown": ("DataLoader(data)\ndef f(loader):\n    seen(loader.dataset)", True),
    "a name that a lambda reads": ("mean = [1]\nDataLoader(data, collate_fn=lambda b: b + mean)\nseen(mean)", True),
    "a number": ("DataLoader(data)\nseen(3)", False),
}


@pytest.mark.parametrize("case", INCLUDED)
def test_includes(case: str) -> None:
    text, expected = INCLUDED[case]
    script, found = inputs(text)
    assert found.includes(script, seen(script)) is expected


def test_workers_hold_no_order() -> None:
    script, found = inputs("DataLoader(data, sampler=order)\nseen(order)", IN_WORKERS)
    assert not found.includes(script, seen(script))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("DataLoader(data)\nrows += 1", True),
        ("DataLoader(data)\nr = rows\nr += 1", True),
        ("DataLoader(data)\nn = 0\nn += 1", False),
        ("DataLoader(data)\nr = rows.clone()\nr += 1", False),
        ("DataLoader(data)\ntable += [2]", True),
        ("def f(d):\n    DataLoader(d)\n    d += [1]", True),
    ],
)
def test_extends(text: str, expected: bool) -> None:
    script, found = inputs(text)
    [target] = [each.target for each in script.find(ast.AugAssign)]
    assert isinstance(target, ast.Name)
    assert found.extends(script, target) is expected


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("data", True),
        ("data.rows[0]", True),
        ("data.rows.view(-1)", True),
        ("data.unread", False),
        ("data.unread[0]", False),
        ("rows[0]", True),
        ("rows.clone()", False),
        ("make()", False),
    ],
)
def test_touched(expression: str, expected: bool) -> None:
    script, found = inputs(f"DataLoader(data)\nseen({expression})")
    assert found.touched(script, seen(script)) is expected
