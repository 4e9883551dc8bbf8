"""What calls give: of the project, of models, and the builtins that hand on what they are given."""

from __future__ import annotations

import ast

import pytest

from autoaccel.analysis import Kind, load
from tests.analysis.test_value_inference import HEAD, kind_at_end

BUILT = "class B:\n    def __init__(self): self.m = self.build().train()\n    def build(self):\n"
DERIVED = "class D(B):\n    def build(self): return Net()\nD().m\n"


@pytest.mark.parametrize(
    ("body", "rest", "kind"),
    [
        pytest.param("raise NotImplementedError", DERIVED, Kind.MODULE, id="a method that others have"),
        pytest.param("'Text.'\n        raise E\n        return None", DERIVED, Kind.MODULE, id="return below raise"),
        pytest.param("def f(): return 1\n        raise E", DERIVED, Kind.MODULE, id="return of a function in it"),
        pytest.param("raise E", "B().m\n", None, id="a method that nobody has"),
        pytest.param("raise E", "class D(B): pass\nD().m\n", None, id="nor those that derive"),
        pytest.param("raise E", "from x import D\nclass C(D, B): pass\nC().m\n", None, id="bases out of sight"),
        pytest.param("if x: raise E\n        return None", DERIVED, None, id="raises at times"),
        pytest.param("if x: return None\n        raise E", DERIVED, None, id="returns at times"),
        pytest.param("return None", DERIVED, None, id="returns None"),
    ],
)
def test_methods_that_only_raise(body: str, rest: str, kind: Kind | None) -> None:
    assert kind_at_end(f"{BUILT}        {body}\n{rest}") == kind


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        pytest.param("for a, b in zip(DataLoader([]), range(3)):\n    b\n", Kind.NUMBER, id="zip"),
        pytest.param("it = iter(DataLoader([]))\nnext(it)\n", Kind.BATCH, id="next"),
        pytest.param("for i, (x, y) in enumerate(DataLoader([])):\n    y\n", Kind.BATCH, id="enumerated batch"),
        pytest.param("a, b = map(lambda t: t, (Net(), Net()))\na\n", Kind.MODULE, id="mapped by a lambda"),
        pytest.param("a, b = map(torch.autograd.Variable, (1, Net()))\nb\n", Kind.MODULE, id="mapped as they are"),
        pytest.param("a, *b = map(lambda t: t, (Net(), Net()))\nb\n", None, id="the rest of what is mapped"),
        pytest.param("a, b = map(unknown, (1, Net()))\nb\n", None, id="mapped out of sight"),
        pytest.param("Net()(torch.zeros(2))\n", Kind.TENSOR, id="forward"),
        pytest.param("Net().forward(1)\n", Kind.TENSOR, id="forward by its name"),
        pytest.param("nn.MSELoss()(1, 2)\n", Kind.TENSOR, id="a loss"),
        pytest.param("def f(): pass\nf()\n", Kind.NONE, id="no return"),
        pytest.param("def f(): yield 1\nf()\n", Kind.ITERATOR, id="a generator"),
        pytest.param("async def f(): return 1\nf()\n", None, id="a coroutine"),
        pytest.param("def f() -> Net: return unknown()\nf()\n", Kind.MODULE, id="an annotation, and nothing else"),
        pytest.param("class A:\n    def __call__(self): return 1\nA()()\n", Kind.NUMBER, id="an object"),
        pytest.param("class A: pass\nA()()\n", None, id="an object that cannot be called"),
        pytest.param("getattr(Net(), 'fc')\n", Kind.MODULE, id="getattr"),
        pytest.param("getattr(Net(), 'fc', 1)\n", None, id="getattr with a default of another kind"),
        pytest.param("next(iter([1, 2]))\n", Kind.NUMBER, id="next of a list"),
        pytest.param("sorted([1])[0]\n", Kind.NUMBER, id="sorted"),
        pytest.param("sum([torch.zeros(1)])\n", Kind.TENSOR, id="sum"),
        pytest.param("max(0.0, 1 - 0.1 * len([]))\n", Kind.NUMBER, id="max of numbers"),
        pytest.param("min(0.0, torch.zeros(1))\n", None, id="min of a number and a tensor"),
        pytest.param("max(unknown(), 1)\n", None, id="max of anything"),
        pytest.param("max(1, *unknown())\n", None, id="max of a list out of sight"),
        pytest.param("max([1])\n", None, id="max of a list"),
        pytest.param("round(abs(-1.5), 2)\n", Kind.NUMBER, id="round and abs of numbers"),
        pytest.param("abs(torch.zeros(1))\n", Kind.TENSOR, id="abs of a tensor"),
        pytest.param("abs(unknown())\n", None, id="abs of anything"),
        pytest.param("pow(torch.zeros(1), 2)\n", Kind.TENSOR, id="pow of a tensor"),
        pytest.param("dict(a=Net())['a']\n", Kind.MODULE, id="dict"),
        pytest.param("class A(Net):\n    def f(self):\n        super().fc\n", Kind.MODULE, id="super"),
        pytest.param("super().fc\n", None, id="super outside of a class"),
        pytest.param("with open(p) as f:\n    for line in f: line.strip()\n", Kind.STRING, id="lines of text"),
        pytest.param("with open(p, 'rb') as f:\n    for line in f: line\n", None, id="lines of bytes"),
        pytest.param("with open(p, mode) as f:\n    for line in f: line\n", None, id="lines of either"),
        pytest.param("with open(p, **o) as f:\n    for line in f: line\n", None, id="a mode out of sight"),
        pytest.param("import gzip\nfor line in gzip.open(p, mode='rt'): line\n", Kind.STRING, id="compressed text"),
        pytest.param("import gzip\nfor line in gzip.open(p): line\n", None, id="compressed bytes"),
        pytest.param("import csv\nfor row in csv.reader(f): row[0]\n", Kind.STRING, id="cells"),
        pytest.param("import csv\nfor row in csv.reader(f, quoting=q): row[0]\n", None, id="cells of any kind"),
    ],
)
def test_kinds(text: str, kind: Kind | None) -> None:
    assert kind_at_end(text) == kind


@pytest.mark.parametrize(
    ("body", "found"),
    [
        pytest.param("x, y = batch\n    torch.cat(x)", {(Kind.BATCH, (0,))}, id="a list of a batch"),
        pytest.param("torch.cat([batch[0][0], batch[0][1]])", {(Kind.BATCH, (0,))}, id="two of its parts"),
        pytest.param("torch.stack((batch['a'], batch['b']))", {(Kind.BATCH, ())}, id="parts without a part around"),
        pytest.param("torch.cat([x.view(1) for x in batch])", {(Kind.BATCH, ("*",))}, id="views of its parts"),
        pytest.param("torch.cat([batch[0], torch.zeros(1)])", {(Kind.TENSOR, ())}, id="beside another tensor"),
        pytest.param("torch.cat([batch[0].cuda(), batch[1].cuda()])", {(Kind.TENSOR, ())}, id="moved before"),
        pytest.param("torch.cat([batch[0] / 2, batch[1] / 2])", {(Kind.TENSOR, ())}, id="computed"),
        pytest.param("torch.cat(list(given) if given else batch)", {(Kind.TENSOR, ())}, id="or what is not known"),
        pytest.param("torch.maximum(batch[0], batch[1])", {(Kind.TENSOR, ())}, id="another operation"),
    ],
)
def test_parts_of_a_batch_that_are_put_together(body: str, found: set[tuple[Kind, tuple[int | str, ...]]]) -> None:
    script = load(f"{HEAD}for batch in DataLoader([]):\n    {body}\n")
    loop = script.tree.body[-1]
    assert isinstance(loop, ast.For)
    last = loop.body[-1]
    assert isinstance(last, ast.Expr)
    assert {(value.kind, value.path) for value in script.values(last.value)} == found
