"""Iterators over loaders whose batches `next` takes."""

from __future__ import annotations

import pytest

from autoaccel.analysis import load
from autoaccel.pytorch.kept_iterators import kept_iterators

HEAD = """\
import itertools
from torch.utils.data import DataLoader
from autoaccel import runtime as accel
a = DataLoader([])
b = DataLoader([])
def cycle(batches):
    while True:
        for batch in batches:
            yield batch
def chain(batches):
    while True:
        yield from batches
"""
RESTART = """\
it = iter(a)
while True:
    try:
        x, y = next(it)
    except StopIteration:
        it = iter(a)
        x, y = next(it)
"""
KEEPER = """\
class Keeper:
    def __init__(self):
        self.it = iter(a)
    def f(self):
        x = next(self.it)
"""


@pytest.mark.parametrize(
    ("text", "loaders", "sites"),
    [
        pytest.param("it = iter(a)\nx = next(it)\n", ["a"], 1, id="once"),
        pytest.param(RESTART, ["a", "a"], 2, id="taken up again"),
        pytest.param("it = cycle(a)\nfor i in range(9):\n    x = next(it)\n", ["a"], 1, id="an endless generator"),
        pytest.param("it = iter(a)\n(x, _), z = next(it), 1\n", ["a"], 1, id="side by side"),
        pytest.param("it = chain(batches=a)\nx = next(it)\n", ["a"], 1, id="that yields from"),
        pytest.param("it = iter(a if len(a) else b)\nx = next(it)\n", [], 0, id="a loader without a name"),
        pytest.param("it = iter(DataLoader([]))\nx = next(it)\n", ["DataLoader([])"], 1, id="made for it"),
        pytest.param("it, other = iter(a), iter(b)\nx = next(it)\n", ["a"], 1, id="one of two bindings"),
        pytest.param(
            "def f(it):\n    it = cycle(it)\n    x = next(it)\nf(a)\n", ["it"], 1, id="under the loader's own name"
        ),
        pytest.param("c = a if len(a) else b\nit = iter(c)\nx = next(it)\n", ["c"], 1, id="one of two"),
        pytest.param("it = itertools.cycle(a)\nx = next(it)\n", ["a"], 1, id="cached"),
        pytest.param(
            "def f(loader):\n    it = iter(loader)\n    x = next(it)\nf(a)\nf(b)\n", ["loader"], 1, id="a parameter"
        ),
        pytest.param("it = iter(a)\nx = next(it)\ny = next(it)[0]\n", ["a"], 2, id="a part without a name"),
        pytest.param("it = iter(a)\nf(next(it))\n", ["a"], 1, id="a batch without a name"),
        pytest.param("it = iter(a)\no.x = next(it)\n", ["a"], 1, id="a batch in an attribute"),
        pytest.param("it = iter(a)\nx = [next(it) for _ in range(3)]\n", ["a"], 1, id="a list of batches"),
        pytest.param(KEEPER, ["a"], 1, id="an attribute"),
        pytest.param(KEEPER + "        self.it = cycle(a)\n", ["a", "a"], 1, id="an attribute set twice"),
        pytest.param("def f():\n    pass\nf.it = iter(a)\nx = next(f.it)\n", [], 0, id="an attribute of a function"),
    ],
)
def test_kept(text: str, loaders: list[str], sites: int) -> None:
    script = load(HEAD + text)
    found = [*kept_iterators(script)]
    assert [script.source(loader) for each in found for loader in each.loaders] == loaders
    assert sum(len(each.sites) for each in found) == sites
    assert all(each.node is each.sites[0] for each in found)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("it = iter(a)\nfor x in it:\n    pass\nx = next(it)\n", id="a loop reads it too"),
        pytest.param("it = iter(a)\nx = next(it)\nf(it)\n", id="handed on"),
        pytest.param("it = iter(a)\nx = next(it)\nother = it\n", id="another name"),
        pytest.param("it = iter(a)\nx = next(it, None)\n", id="with a default"),
        pytest.param("it = iter(a)\nx = it.next()\n", id="a method"),
        pytest.param(KEEPER + "        print(self.it)\n", id="an attribute is read otherwise"),
        pytest.param(KEEPER + "    def g(self):\n        y = next(self.it)\n", id="an attribute in two functions"),
        pytest.param(KEEPER + "    def g(self, k):\n        y = getattr(self, k)\n", id="an attribute by a name"),
        pytest.param(KEEPER + "    def g(self):\n        self.it = iter([1])\n", id="an attribute for a list"),
        pytest.param(KEEPER + "    def g(self, k):\n        setattr(self, k, a)\n", id="an attribute set by a name"),
        pytest.param(KEEPER + "    def g(self):\n        self.it, y = iter(a), 1\n", id="an attribute unpacked"),
        pytest.param(KEEPER + "    def g(self):\n        return vars(self)\n", id="an attribute of all"),
        pytest.param("it = iter(a)\nx = next(it)\ndel it\n", id="given up"),
        pytest.param(
            "it = iter(a)\nx = next(it)\ndef again():\n    global it\n    it = iter(b)\n", id="bound elsewhere"
        ),
        pytest.param("it = None\nit = it or iter(a)\nx = next(it)\n", id="made by an expression"),
        pytest.param("it = None\nif not it:\n    it = iter(a)\nx = next(it)\n", id="not begun yet"),
        pytest.param("it = iter(unknown)\nx = next(it)\n", id="over what is not known"),
        pytest.param("it = iter([1, 2])\nx = next(it)\n", id="over a list"),
        pytest.param("it = iter(accel.prefetch(a))\nx = next(it)\n", id="fetched ahead already"),
        pytest.param("it, other = pair(iter(a), iter(b))\nx = next(it)\n", id="unpacked"),
        pytest.param("it, *other = iter(a), *iter(b)\nx = next(it)\n", id="unpacked beside a rest"),
        pytest.param(
            "def f(it=a):\n    if len(it) > 9:\n        it = cycle(it)\n    x = next(it)\nf()\n", id="sometimes"
        ),
        pytest.param(
            "def f(it=a):\n    for x in it:\n        pass\n    it = cycle(it)\n    x = next(it)\nf()\n",
            id="read before",
        ),
        pytest.param("it = iter(a)\ndef f():\n    x = next(it)\n", id="in another function"),
        pytest.param("def f(loader):\n    it = iter(loader)\n    x = next(it)\n", id="a parameter nobody gives"),
        pytest.param("def next(it):\n    return 1\nit = iter(a)\nx = next(it)\n", id="another next"),
        pytest.param("def iter(it):\n    return 1\nit = iter(a)\nx = next(it)\n", id="another iter"),
        pytest.param(
            "for i in range(9):\n    if i == 0:\n        c = DataLoader([])\n        it = iter(c)\n    x = next(it)\n",
            id="a loader made in the loop",
        ),
    ],
)
def test_not_kept(text: str) -> None:
    assert not [*kept_iterators(load(HEAD + text))]
