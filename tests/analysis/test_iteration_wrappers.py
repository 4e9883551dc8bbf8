"""Which functions and classes of a script hand on what they iterate, and nothing else."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from autoaccel.analysis import Script
from autoaccel.analysis.iteration_wrappers import wrapped_argument
from autoaccel.dataflow.abstract_values import Kind
from tests.analysis.test_value_inference import HEAD

LOG = "class Log:\n    def every(self, items, n=10):\n        {body}\n\nlog = Log()\n"
BAR = "class Bar:\n    def __init__(self, items, **more):\n        {make}\n    def __iter__(self):\n        {body}\n\n"


def wrapped(text: str, *, again: bool = False) -> str | None:
    """The source of the argument that the last call of a text hands on."""
    script = Script(HEAD + text, Path("script.py"))
    call = script.tree.body[-1].value  # type: ignore[attr-defined]
    assert isinstance(call, ast.Call)
    found = wrapped_argument(script, call, again=again)
    return None if found is None else script.source(found)


@pytest.mark.parametrize(
    ("text", "argument"),
    [
        ("def f(a):\n    for x in a:\n        yield x\nf(first)\n", "first"),
        ("def f(n, a):\n    print(n)\n    yield from a\nf(1, first)\n", "first"),
        ("def f(a):\n    for i, x in enumerate(a, 1):\n        yield x\n        print(i, len(a))\nf(first)\n", "first"),
        ("def f(n, a):\n    for x in a:\n        print(n)\n        yield x\nf(1, a=second)\n", "second"),
        (LOG.format(body="for x in items:\n            yield x") + "log.every(first, 3)\n", "first"),
        (LOG.format(body="for x in items:\n            if n: yield x") + "log.every(n=2, items=first)\n", "first"),
        ("def f(a, **k):\n    return a\nf(first, x=1)\n", "first"),
        ("from tqdm import tqdm\ndef f(a):\n    return tqdm(a, desc='x')\nf(first)\n", "first"),
        ("def g(a):\n    for x in a:\n        yield x\ndef f(a):\n    return g(a)\nf(first)\n", "first"),
        ("from tqdm import tqdm\ntqdm(first)\n", "first"),
        ("from tqdm import tqdm\ntqdm(total=3, iterable=first)\n", "first"),
        (BAR.format(make="self.items = items", body="return iter(self.items)") + "Bar(first)\n", "first"),
        (BAR.format(make="self.items = items", body="for x in self.items: yield x") + "Bar(first)\n", "first"),
    ],
)  # fmt: skip
def test_what_is_handed_on(text: str, argument: str) -> None:
    assert wrapped(text) == argument


@pytest.mark.parametrize(
    "text",
    [
        "def f(a):\n    for x in a:\n        yield x.sum()\nf(first)\n",
        "def f(a):\n    for x in a:\n        print(x)\n        yield x\nf(first)\n",
        "def f(a):\n    for x in a:\n        yield x\n        x.zero_()\nf(first)\n",
        "def f(a):\n    for x in a:\n        y = yield x\nf(first)\n",
        "def f(a):\n    y = yield from a\nf(first)\n",
        "def f(a):\n    yield from a\n    yield from a\nf(first)\n",
        "def f(a):\n    for _ in range(2):\n        yield from a\nf(first)\n",
        "def f(a):\n    while True:\n        yield from a\nf(first)\n",
        "def f(a):\n    for x in a:\n        x = g(x)\n        yield x\nf(first)\n",
        "def f(a):\n    for x in a:\n        yield x\n        yield x\nf(first)\n",
        "def f(a):\n    for x in a:\n        for _ in range(2):\n            yield x\nf(first)\n",
        "def f(a):\n    while True:\n        for x in a:\n            yield x\nf(first)\n",
        "def f(a):\n    for x in a:\n        pass\n    yield x\nf(first)\n",
        "def f(a):\n    a = list(a)\n    for x in a:\n        yield x\nf(first)\n",
        "def f(a):\n    print(a.dataset)\n    for x in a:\n        yield x\nf(first)\n",
        "def f(a):\n    for x in a:\n        yield x\n    for x in a:\n        print(x)\nf(first)\n",
        "def f(a):\n    for x in a.first:\n        yield x\nf(first)\n",
        "def f(*a):\n    for x in a:\n        yield x\nf(first)\n",
        "def f(a):\n    yield from a\n    for x in a:\n        yield x\nf(first)\n",
        "def f(a=third):\n    for x in a:\n        yield x\nf()\n",
        "@cached\ndef f(a):\n    for x in a:\n        yield x\nf(first)\n",
        "def f(a):\n    return a.first\nf(first)\n",
        "def f(a):\n    if a:\n        return a\n    return []\nf(first)\n",
        "def f(a):\n    return f(a)\nf(first)\n",
        "def f(a, b):\n    return zip(a, b)\nf(first, second)\n",
        "f = unknown\nf(first)\n",
        "def f(a):\n    return a\ndef g(b, a):\n    return a\nh = f if x else g\nh(first, second)\n",
        BAR.format(make="self.items = list(items)", body="return iter(self.items)") + "Bar(first)\n",
        BAR.format(make="self.items = items; items.go()", body="return iter(self.items)") + "Bar(first)\n",
        BAR.format(make="self.items = items", body="return iter(self.other)") + "Bar(first)\n",
        BAR.format(make="self.items = items", body="self.items = []\n        return iter(self.items)") + "Bar(first)\n",
        BAR.format(make="self.items = items", body="return iter(self.items)").replace("Bar:", "Bar(Base):")
        + "Bar(1)\n",
        BAR.format(make="self.items = items", body="return iter(self.items)\n    def __next__(self): ...") + "Bar(1)\n",
        "class Bar:\n    items = []\n    def __iter__(self):\n        return iter(self.items)\nBar(first)\n",
    ],
)
def test_what_does_more(text: str) -> None:
    assert wrapped(text) is None


def test_generators_are_iterated_once() -> None:
    generator = "def f(a):\n    for x in a:\n        yield x\ndef g(a):\n    return f(a)\n"
    assert wrapped(f"{generator}f(first)\n", again=True) is None
    assert wrapped(f"{generator}g(first)\n", again=True) is None
    assert (
        wrapped(BAR.format(make="self.items = items", body="return iter(self.items)") + "Bar(a)\n", again=True) == "a"
    )
    assert wrapped("def f(a):\n    return a\nf(first)\n", again=True) == "first"


KEEPS = """\
class Loading:
    def __init__(self, data):
        self.loader = DataLoader(data)
        {make}
    def __iter__(self):
        {body}
{more}
for i, batch in enumerate(Loading(data)):
    batch
"""


@pytest.mark.parametrize(
    ("make", "body", "more", "known"),
    [
        ("", "return iter(self.loader)", "", True),
        ("", "for i, x in enumerate(self.loader):\n            if i > 9: break\n            yield x", "", True),
        ("", "for x in self.loader: yield x", "    def __len__(self): return len(self.loader)", True),
        ("", "for x in self.loader: yield x.cuda()", "", False),
        ("", "for x in self.loader:\n            yield x\n            x.zero_()", "", False),
        ("", "for x in self.loader: yield x", "    def __next__(self): ...", False),
        ("self.loader = data or self.loader", "for x in self.loader: yield x", "", False),
        ("", "for x in self.loaders: yield x", "", False),
        ("", "for x in self.loader: yield x", "Loading.__iter__ = cleaned", False),
        ("self.loader = Own(data)", "for x in self.loader: yield x", "class Own(DataLoader): ...", False),
    ],
)
def test_what_an_object_keeps_is_handed_on(make: str, body: str, more: str, known: bool) -> None:
    head = "from torch.utils.data import DataLoader\n"
    script = Script(head + KEEPS.format(make=make, body=body, more=more), Path("script.py"))
    loop = script.tree.body[-1]
    assert isinstance(loop, ast.For)
    (statement,) = loop.body
    assert isinstance(statement, ast.Expr)
    assert (script.kind(statement.value) is Kind.BATCH) is known
