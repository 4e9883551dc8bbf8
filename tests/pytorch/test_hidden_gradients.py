"""Code that needs gradients and that an evaluation may enter out of sight."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from autoaccel.analysis import Project, load
from autoaccel.dataflow.bounds import Bounds
from autoaccel.dataflow.completeness import Incomplete
from autoaccel.pytorch.hidden_gradients import code_run_by, hidden_gradient_uses, needs_gradients, reason_of

HEAD = """\
import torch
from torch import nn
net = nn.Linear(2, 2)
def attack(x):
    return x - torch.autograd.grad(net(x).sum(), x)[0]
"""
HELD = "class N(nn.Module):\n    pass\nT = [attack]\nmodel = N()\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("def f(g, x):\n    return g(net(x))\n", False, id="nothing needs them elsewhere"),
        pytest.param("T = [attack]\ndef f(g, x):\n    return g(net(x))\n", True, id="callable that is handed over"),
        pytest.param("T = [lambda x: attack(x)]\ndef f(n, x):\n    return T[n](net(x))\n", True, id="lambda"),
        pytest.param("T = [attack]\ndef f(x):\n    return len(net(x))\n", False, id="calls only what is known"),
        pytest.param("T = [attack]\ndef f(x):\n    return [net(each) for each in x]\n", True, id="unknown iterable"),
        pytest.param("T = [attack]\ndef f(x):\n    return [net(each) for each in range(3)]\n", False, id="range"),
        pytest.param("def f(x):\n    return list(map(attack, [net(x)]))\n", True, id="mapped"),
        pytest.param(
            f"{HELD}def f(x):\n    model.eval()\n    return net(x)\n",
            False,
            id="method of every module",
        ),
        pytest.param(
            f"{HELD}def f(x):\n    model.probe(x)\n    return net(x)\n",
            True,
            id="method that no module has",
        ),
        pytest.param(
            f"{HELD}model.eval = attack\ndef f(x):\n    model.eval()\n    return net(x)\n",
            True,
            id="method of every module that is stored anew",
        ),
        pytest.param(
            "class A:\n    def go(self, x):\n        return attack(x)\ndef f(a, x):\n    return net(a.go(x))\n",
            True,
            id="method by its name",
        ),
        pytest.param(
            "class A:\n    def go(self, x):\n        return attack(x)\ndef f(a, x):\n    return net(a.on(x))\n",
            False,
            id="method of another name",
        ),
        pytest.param(
            "class A:\n    def __getattr__(self, a):\n        return attack(a)\ndef f(a, x):\n    return net(a.x)\n",
            True,
            id="attribute made when read",
        ),
        pytest.param(
            "@register('a')\ndef g(x):\n    return attack(x)\ndef f(h, x):\n    h(net(x))\n", True, id="registered"
        ),
        pytest.param(
            "def g(x):\n    return attack(x)\ndef f(name, x):\n    return globals()[name](net(x))\n", True, id="globals"
        ),
        pytest.param(
            "def closure():\n    attack(1)\noptimizer.step(closure)\ndef f(g, x):\n    return g(net(x))\n",
            False,
            id="closure of an optimizer",
        ),
        pytest.param(
            "def main():\n    attack(1)\n    f(len, 2)\nrun(main)\ndef f(g, x):\n    return g(net(x))\n",
            False,
            id="what calls the evaluation",
        ),
        pytest.param(
            "import torchattacks\nnet = torchattacks.PGD(net)\ndef f(a, x):\n    return a(x)\n", True, id="library"
        ),
        pytest.param("import strange\ndef f(x):\n    return strange.explain(net, x)\n", True, id="model given away"),
        pytest.param("import timm\ndef f(x):\n    return timm.explain(net, x)\n", False, id="known library"),
        pytest.param("import strange\ndef f(x):\n    return strange.plot(x)\n", False, id="a library without a model"),
        pytest.param("import json\ndef f(x):\n    return json.dumps(net)\n", False, id="Python's own library"),
        pytest.param("def f(x):\n    exec(x)\n", True, id="exec"),
        pytest.param("import importlib\ndef f(x):\n    importlib.import_module(x)\n", True, id="a module at run time"),
        pytest.param("T = [attack]\ndef f(m, x):\n    with m:\n        net(x)\n", True, id="unknown context"),
        pytest.param(
            "T = [attack]\ndef f(x):\n    with open(x):\n        net(x)\n", False, id="a context of Python's own"
        ),
        pytest.param(
            "class C:\n    def __enter__(self):\n        attack(1)\n    def __exit__(self, *a): ...\n"
            "def f(x):\n    with C():\n        net(x)\n",
            True,
            id="a context of the project",
        ),
        pytest.param(
            "class C:\n    def __enter__(self): ...\n    def __exit__(self, *a):\n        print(a)\n"
            "def f(x):\n    with C():\n        net(x)\n",
            False,
            id="a context that needs none",
        ),
        pytest.param(
            "class R:\n    def __getitem__(self, i):\n        return attack(i)\ndef f(r, x):\n    return net(r[x])\n",
            True,
            id="an element of what is not known",
        ),
        pytest.param(
            "class R:\n    def __getitem__(self, i):\n        return attack(i)\ndef f(x):\n    return net([1, 2][0])\n",
            False,
            id="an element of a list",
        ),
        pytest.param(
            "class R:\n    def __iter__(self):\n        yield attack(1)\ndef f():\n    return [net(x) for x in R()]\n",
            True,
            id="an iterable of the project",
        ),
        pytest.param(
            "class R:\n    def __iter__(self):\n        yield attack(1)\n"
            "def f():\n    for i, x in enumerate(R()):\n        net(x)\n",
            True,
            id="counted",
        ),
        pytest.param(
            "def g(x):\n    yield attack(x)\ndef f(x):\n    return [net(y) for y in g(x)]\n", True, id="a generator"
        ),
        pytest.param(
            "def g(x):\n    yield attack(x)\ndef f(it):\n    return net(next(it))\n", True, id="the next of a generator"
        ),
        pytest.param(
            "def g(x):\n    yield attack(x)\ndef f(it):\n    return net(it.send(1))\n", True, id="sent to a generator"
        ),
        pytest.param(
            "class M(nn.Module):\n    def forward(self, x):\n        return attack(x)\n"
            "def f(x, make):\n    return make()(x)\n",
            False,
            id="a model, which is looked at elsewhere",
        ),
        pytest.param("net.register_forward_hook(attack)\ndef f(x):\n    return net(x)\n", True, id="a hook"),
        pytest.param(
            "setattr(net, name, attack)\ndef f(x):\n    return net(x)\n", True, id="stored by a computed name"
        ),
        pytest.param("net.forward = attack\ndef f(x):\n    return net(x)\n", True, id="in the place of a forward"),
        pytest.param("o.go = attack\ndef f(p, x):\n    return p.go(net(x))\n", True, id="stored under the name"),
        pytest.param("o.go = attack\ndef f(p, x):\n    return p.on(net(x))\n", False, id="stored under another name"),
        pytest.param(
            "import functools\n@functools.cache\ndef g(x):\n    return attack(x)\ndef f(h, x):\n    h(net(x))\n",
            False,
            id="a decorator of Python's own",
        ),
        pytest.param(
            "class R:\n    def __len__(self):\n        return attack(1)\ndef f(r, x):\n    return net(x) / len(r)\n",
            True,
            id="a length",
        ),
        pytest.param("T = [attack]\ndef f(rows):\n    return net([*rows])\n", True, id="spread"),
        pytest.param("T = [attack]\ndef f(rows):\n    yield from rows\n", True, id="handed out one by one"),
        pytest.param(
            "class A:\n    @property\n    def p(self):\n        return attack(1)\ndef f(a, x):\n    return net(a.p)\n",
            True,
            id="a property",
        ),
        pytest.param(
            "class A:\n    @property\n    def p(self): ...\n    @p.setter\n    def p(self, v):\n        attack(v)\n"
            "def f(a, x):\n    a.p = net(x)\n",
            True,
            id="a setter",
        ),
        pytest.param("async def g(x):\n    attack(x)\ndef f(h, x):\n    h(net(x))\n", True, id="a coroutine"),
        pytest.param(
            "class A:\n    def go(self, x):\n        attack(x)\ndef f(a, x):\n    getattr(a, 'go')(net(x))\n",
            True,
            id="looked up",
        ),
        pytest.param(
            "class A:\n    def go(self, x):\n        attack(x)\ndef f(a, x):\n    getattr(a, 'on')(net(x))\n",
            False,
            id="another that is looked up",
        ),
        pytest.param(
            "import operator\nclass A:\n    def go(self):\n        attack(1)\n"
            "def f(a, x):\n    net(x)\n    operator.methodcaller('go')(a)\n",
            True,
            id="a method caller",
        ),
        pytest.param("def g(h):\n    h(1)\ndef f(x):\n    g(attack)\n", True, id="handed to a function in sight"),
        pytest.param("def f(x):\n    return net(x)\ndef g(h):\n    h(attack)\n", False, id="handed elsewhere"),
    ],
)
def test_needs_gradients(text: str, expected: bool) -> None:
    script = load(HEAD + text)
    [function] = [each for each in script.find(ast.FunctionDef) if each.name == "f"]
    assert (needs_gradients(script, [function], function) is not None) is expected


def test_where_it_is_entered() -> None:
    text = "T = [attack]\ndef f(rows, m, g):\n    for x in rows:\n        g(x)\n    with m:\n        len(x)\n"
    script = load(HEAD + text)
    [function] = [each for each in script.find(ast.FunctionDef) if each.name == "f"]
    found = hidden_gradient_uses(script, [function], function)
    assert [script.source(each.node) for each in found] == ["g", "rows", "m"]
    [loop] = script.find(ast.For)
    assert [each.loop for each in found] == [None, loop, None]
    assert reason_of(found[1]) == "`rows` may run code that needs gradients"


def test_the_loop_of_another_function_is_not_its_own() -> None:
    text = "T = [attack]\ndef g(rows):\n    for x in rows:\n        print(x)\ndef f(rows):\n    g(rows)\n"
    script = load(HEAD + text)
    [function] = [each for each in script.find(ast.FunctionDef) if each.name == "f"]
    assert [each.loop for each in hidden_gradient_uses(script, [function], function)] == [None]


def test_statements_of_a_scope() -> None:
    script = load(HEAD + "T = [attack]\nnet(x)\ng(x)\n")
    *_, harmless, strange = script.tree.body
    assert needs_gradients(script, [harmless], script.tree) is None
    assert needs_gradients(script, [strange], script.tree) == "`g` may run code that needs gradients"


@pytest.mark.parametrize(("most", "complete"), [(0, False), (1, False), (2, True)])
def test_code_that_nobody_looks_at(tmp_path: Path, most: int, complete: bool) -> None:
    path, text = tmp_path / "main.py", f"{HEAD}def f(x):\n    return net(x)\n"
    path.write_text(text)
    (tmp_path / "user.py").write_text("import main\n")
    script = load(text, path, Project([*tmp_path.glob("*.py")], bounds=Bounds(graph_files=most)))
    function = next(each for each in script.find(ast.FunctionDef) if each.name == "f")
    assert (needs_gradients(script, [function], function) is None) is complete
    if not complete:
        with pytest.raises(Incomplete):
            hidden_gradient_uses(script, [function], function)


@pytest.mark.parametrize(
    ("body", "models", "expected"),
    [
        pytest.param("a()", False, ["f", "a", "b"], id="what it calls"),
        pytest.param("net(1)", False, ["f"], id="a model of a library"),
        pytest.param("print(1)", True, ["f", "forward"], id="all models"),
        pytest.param("for x in R():\n        b()", False, ["f", "b", "__iter__"], id="what it iterates over"),
        pytest.param("with C():\n        pass", False, ["f", "__enter__", "__exit__"], id="its contexts"),
        pytest.param("x = a", False, ["f"], id="what it only names"),
    ],
)
def test_code_run_by(body: str, models: bool, expected: list[str]) -> None:
    own = (
        "class M(nn.Module):\n    def forward(self, x): ...\n    def other(self): ...\n"
        "class R:\n    def __iter__(self): ...\nclass C:\n    def __enter__(self): ...\n"
        "    def __exit__(self): ...\ndef a():\n    b()\ndef b(): ...\n"
    )
    script = load(f"{HEAD}{own}def f():\n    {body}\n")
    function = script.tree.body[-1]
    found = code_run_by(script, [function], models=models)
    assert sorted(getattr(each, "name", "") for _, each in found) == sorted(expected)
