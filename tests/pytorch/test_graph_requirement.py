"""What an evaluation must record a graph for: where its results go, and where they cannot be followed."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from autoaccel.analysis import Project, load
from autoaccel.dataflow.bounds import Bounds
from autoaccel.dataflow.completeness import Incomplete
from autoaccel.pytorch.evaluation_passes import EvaluationPass
from autoaccel.pytorch.evaluation_passes import evaluations as evaluation_passes
from autoaccel.pytorch.graph_flow import GraphFlow
from autoaccel.pytorch.graph_requirement import needs_graph
from autoaccel.pytorch.graph_states import GraphNeeded
from autoaccel.pytorch.view_writes import RegionCode

HEAD = """\
import torch
from torch import nn
net = nn.Linear(2, 2)
"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("kept = [[1, call()]]\nkept[0][1].backward()\n", True, id="list in a list"),
        pytest.param("kept = []\nkept.append({'a': call()})\nkept[0]['a'].backward()\n", True, id="dict in a list"),
        pytest.param("kept = []\nkept.append([call().item()])\nkept[0][0].backward()\n", False, id="number in a list"),
        pytest.param("kept = [call()]\nprint([each.mean().item() for each in kept])\n", False, id="read as numbers"),
        pytest.param("d = {}\nd.setdefault('a', []).append(call())\nd['a'][0].backward()\n", True, id="setdefault"),
        pytest.param("d = {}\nd.update(a=call())\nsum(d.values()).backward()\n", True, id="update"),
        pytest.param("a = []\nb = a\nb += [call()]\na[0].backward()\n", True, id="alias added to"),
        pytest.param("a = [1]\nb = a.copy()\nb.append(call())\na[0].backward()\n", False, id="copy"),
        pytest.param("def f(x, to):\n    to.append(x)\na = []\nf(call(), a)\na[0].backward()\n", True, id="argument"),
        pytest.param("def f(x, to):\n    to.append(x)\na = []\nf(call(), a)\nprint(len(a))\n", True, id="counted"),
        pytest.param(
            "def f(x, seen=[]):\n    seen.append(x)\n    return seen\nf(call())\nf(1)[0].backward()\n",
            True,
            id="default",
        ),
        pytest.param("v = call()\ndef f():\n    return v.sum()\nf().backward()\n", True, id="closure"),
        pytest.param("v = call()\nf = lambda: v.sum()\nf().backward()\n", True, id="lambda"),
        pytest.param("v = call()\nf = lambda x=v: x.sum()\nf().backward()\n", True, id="default of a lambda"),
        pytest.param("class A:\n    v = call()\nA.v.backward()\n", True, id="class variable"),
        pytest.param("def f():\n    global v\n    v = call()\ndef g():\n    v.backward()\n", True, id="global"),
        pytest.param(
            "def f():\n    v = 0\n    def g():\n        nonlocal v\n        v = call()\n    g()\n    v.backward()\n",
            True,
            id="nonlocal",
        ),
        pytest.param("setattr(o, 'v', call())\no.v.backward()\n", True, id="setattr"),
        pytest.param("o.v = call()\ngetattr(o, 'v').backward()\n", True, id="getattr"),
        pytest.param(
            "o.v = call()\nfor name in names:\n    getattr(o, name).backward()\n",
            True,
            id="getattr of any name",
        ),
        pytest.param("o.v = call()\nprint(o.v.mean().item())\n", False, id="attribute that is shown"),
        pytest.param(
            "class A:\n    pass\nclass B:\n    pass\na, b = A(), B()\na.v = call()\nb.v.backward()\n",
            False,
            id="attribute of another class",
        ),
        pytest.param("def f():\n    yield call()\nfor v in f():\n    v.backward()\n", True, id="yielded"),
        pytest.param("a = []\nf = lambda v: a.append(v)\nf(call())\na[0].backward()\n", True, id="lambda that keeps"),
        pytest.param("def f(hook):\n    hook(call())\n", True, id="hook"),
        pytest.param("def f(loss):\n    print(loss(call()).item())\n", True, id="criterion of callers out of sight"),
        pytest.param(
            "def f(loss):\n    print(loss(call()).item())\nf(torch.nn.MSELoss())\n",
            False,
            id="criterion that is handed over",
        ),
        *(
            pytest.param(
                f"a = []\ndef f(loss):\n    print(loss(call()).item())\n{handed}\na[0].backward()\n", True, id=name
            )
            for name, handed in {
                "function of a computed name": "def g(x):\n    a.append(x)\nf(globals()[name])",
                "function of a module": "def g(x):\n    a.append(x)\nf(getattr(sys.modules[m], name))",
                "partial": "import functools\ndef g(to, x):\n    to.append(x)\nf(functools.partial(g, a))",
                "partial of a lambda": "from functools import partial\nf(partial(lambda to, x: to.append(x), a))",
                "lambda of a table": "f({0: lambda x: a.append(x)}.get(0))",
                "method of a list": "f(a.append)",
            }.items()
        ),
        *(
            pytest.param(
                f"def f(loss):\n    print(loss(call()).item())\n{handed}\ntorch.ones(1).backward()\n", False, id=name
            )
            for name, handed in {
                "partial that keeps nothing": "import functools\nf(functools.partial(lambda k, x: k * x, 2))",
                "lambda of a table that keeps nothing": "f({0: lambda x: x.sum()}.get(0))",
            }.items()
        ),
        *(
            pytest.param(f"class A:\n    def __init__(self, log=None):\n{text}", True, id=name)
            for name, text in {
                "another name of an attribute": "        self.m = []\n        self.z = self.m\n"
                "a = A()\na.z.append(call())\na.m[0].backward()\n",
                "an attribute in a list": "        self.m = []\n        self.z = [self.m]\n"
                "a = A()\na.z[0].append(call())\na.m[0].backward()\n",
                "handed to an object": "        self.z = log\nm = []\na = A(m)\na.z.append(call())\nm[0].backward()\n",
                "handed to an object in a dict": "        self.z = log\nm = []\na = A({'k': m})\n"
                "a.z['k'].append(call())\nm[0].backward()\n",
                "put into a list before": "        self.m, self.n = [], []\n        self.n.append(self.m)\n"
                "a = A()\na.n[0].append(call())\na.m[0].backward()\n",
            }.items()
        ),
        *(
            pytest.param(f"import copy, itertools, random, types\nm = []\n{text}\nm[0].backward()\n", True, id=name)
            for name, text in {
                "a loop over lists": "for a in [m]:\n    a.append(call())",
                "a loop over a sum": "for a in [m] + [[]]:\n    a.append(call())",
                "a loop over pairs": "for k, a in {'k': m}.items():\n    a.append(call())",
                "of a comprehension": "[a for a in (m,)][0].append(call())",
                "in a shallow copy": "{'k': m}.copy()['k'].append(call())",
                "in another shallow copy": "d = {'k': m}\nb = d.copy()\nb['k'].append(call())",
                "in a copy by copy": "copy.copy([m])[0].append(call())",
                "chosen": "max([m], [m])[0].append(call())",
                "drawn": "random.choice([m]).append(call())",
                "chained": "next(itertools.chain([m])).append(call())",
                "by a lambda": "f = lambda: m\nf().append(call())",
                "in a namespace": "types.SimpleNamespace(k=m).k.append(call())",
                "in a list in a list": "n = []\nn.append(m)\nn[0].append(call())",
            }.items()
        ),
        pytest.param("net.register_buffer('v', call())\nnet.v.backward()\n", True, id="buffer"),
        pytest.param(
            "for a in [[], []]:\n    a.append(call())\nprint(a[0].item())\n", False, id="a loop over new lists"
        ),
        pytest.param(
            "import collections\nd = collections.defaultdict(list)\nd[1].append(call())\n", False, id="new list"
        ),
        pytest.param("import operator\noperator.methodcaller('add', call())(a)\n", True, id="methodcaller"),
        pytest.param("import itertools\nlist(itertools.starmap(a, [(call(), 1)]))\n", True, id="starmap"),
        pytest.param(
            "from torch.utils import data as d\nfor v, in d.DataLoader(d.TensorDataset(call())):\n    v.backward()\n",
            True,
            id="data set",
        ),
        pytest.param("raise Found(call())\n", True, id="raised"),
        pytest.param("call().mean().requires_grad_()\n", True, id="asked for gradients"),
        pytest.param("print(call().requires_grad)\n", True, id="asked whether it has a graph"),
        pytest.param("from elsewhere import keep\nkeep(call())\n", True, id="function out of sight"),
        pytest.param("from elsewhere import *\nkeep(call())\n", True, id="function by a star"),
        pytest.param("import numpy as np\nv = np.round(call())\nv.backward()\n", False, id="numpy"),
        pytest.param("v = round(call())\nv.backward()\n", True, id="round keeps the graph"),
        pytest.param("v = torch.argmax(call())\nv.backward()\n", False, id="indices"),
        pytest.param("v = f'{call()}'\nv.backward()\n", False, id="text"),
        pytest.param("v = '%f' % call()\nv.backward()\n", False, id="formatted"),
        pytest.param("v = torch.distributions.Normal(call(), 1)\nv.sample().backward()\n", False, id="sample"),
        pytest.param("v = torch.distributions.Normal(call(), 1)\nv.rsample().backward()\n", True, id="rsample"),
        pytest.param(
            "class W:\n    def __init__(self, v):\n        self.v = v\n    def item(self):\n"
            "        return self.v\nw = W(call())\nw.item().backward()\n",
            True,
            id="own item",
        ),
        pytest.param(
            "v = call()\nwith torch.no_grad():\n    w = v * 2\nw.backward()\n",
            False,
            id="computed without gradients",
        ),
        pytest.param(
            "v = call()\nwith torch.no_grad():\n    w = v\nw.backward()\n",
            True,
            id="named without gradients",
        ),
        pytest.param("a, b = call(), 1\nb.backward()\n", False, id="unpacked beside it"),
        pytest.param(
            "def f(g):\n    return g()\ndef h():\n    return call()\nf(h).backward()\n",
            True,
            id="handed over",
        ),
        pytest.param("for v in map(lambda t: t.item(), [call()]):\n    v.backward()\n", True, id="mapped to numbers"),
        pytest.param("v = call()\nv.backward()\n", True, id="name"),
        pytest.param("v = call()\nw = 2 * v\n(w + 1).backward()\n", True, id="arithmetic"),
        pytest.param("v = call().item()\nv.backward()\n", False, id="number"),
        pytest.param("v = call()\nv.data.backward()\n", False, id="data"),
        pytest.param("vs = []\nvs.append(call())\nsum(vs).backward()\n", True, id="list"),
        pytest.param("vs = {}\nvs['a'] = call()\nvs['a'].backward()\n", True, id="element"),
        pytest.param("o.loss = call()\no.loss.backward()\n", True, id="attribute"),
        pytest.param("for v in call():\n    v.backward()\n", True, id="iterated"),
        pytest.param("def f():\n    return call()\nf().backward()\n", True, id="returned to a backward"),
        pytest.param("def f():\n    return call()\nprint(f())\n", False, id="returned to a print"),
        pytest.param("def f():\n    return call()\n", True, id="returned to nobody known"),
        pytest.param("v = call()\nprint(v)\n", False, id="printed"),
        pytest.param("a = torch.zeros(2)\nb = a.detach()\nb[0] = call()\na.backward()\n", False, id="detached memory"),
        pytest.param("a = torch.zeros(2)\nb = a.view(2)\nb[0] = call()\na.backward()\n", True, id="viewed memory"),
        pytest.param(
            "def f(t: torch.Tensor):\n    return t\na = f(torch.zeros(2))\na[0] = call()\nprint(a)\n",
            False,
            id="written to what a function was handed",
        ),
        pytest.param(
            "def f(t: torch.Tensor):\n    return t\nb = torch.zeros(2)\na = f(b)\na[0] = call()\nb.backward()\n",
            True,
            id="written to what a function was handed by name",
        ),
        pytest.param("v = call() > 0\nv.backward()\n", False, id="compared"),
    ],
)
def test_reaches_backward(text: str, expected: bool) -> None:
    script = load("import torch\n" + text)
    [call] = [each for each in script.find(ast.Call) if script.source(each) == "call()"]
    try:
        GraphFlow(RegionCode(script, [call])).run([(script, call, False, ())])
    except (GraphNeeded, Incomplete):
        assert expected
    else:
        assert not expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("def f(x):\n    return net(x).argmax()\nprint(f(1))\n", False, id="number"),
        pytest.param("def f(x):\n    return net(x)\nf(1).sum().backward()\n", True, id="returned"),
        pytest.param(
            "def f(x, w: torch.Tensor):\n    print(net(x).sum().item())\n    return w * 2\nf(1, v)[0].backward()\n",
            True,
            id="beside the forward",
        ),
        pytest.param(
            "w = nn.Parameter(v)\ndef f(x):\n    print(net(x).sum().item())\n    return w.pow(2)\nf(1).backward()\n",
            True,
            id="of a parameter",
        ),
        pytest.param(
            "w = v.detach().requires_grad_()\ndef f(x):\n    print(net(x).sum().item())\n    return w * 2\n"
            "f(1).backward()\n",
            True,
            id="of a leaf that a method makes",
        ),
        pytest.param(
            "def g():\n    return sum(p.norm() for p in net.parameters())\ndef f(x):\n"
            "    print(net(x).sum().item())\n    return g()\nf(1).backward()\n",
            True,
            id="in a function",
        ),
        pytest.param(
            "def f(x, h):\n    print(net(x).sum().item())\n    return h()(x)\nf(1).backward()\n",
            True,
            id="strange call",
        ),
        pytest.param(
            "def f(x, h):\n    print(net(x).sum().item())\n    return h()(x).item()\nf(1).backward()\n",
            False,
            id="strange call read as a number",
        ),
        pytest.param(
            "def f(x):\n    print(net(x).sum().item())\n    return sum(map(net, [x]))\nf(1).backward()\n",
            True,
            id="mapped model",
        ),
        pytest.param(
            "def f(x, w):\n    print(net(x).sum().item())\n    return w[0] * 2\nf(1, v).backward()\n",
            True,
            id="element of what is given",
        ),
        pytest.param(
            "def f(x, w):\n    print(net(x).sum().item())\n    return torch.stack(w).sum()\nf(1, [v]).backward()\n",
            True,
            id="elements added",
        ),
        pytest.param(
            "def f(x, w):\n    print(net(x).sum().item())\n    return len(w)\nf(1, [v]).backward()\n",
            False,
            id="elements counted",
        ),
        pytest.param(
            "net.forward = made()\ndef f(x):\n    print(net(x).sum().item())\n    return 1\nnet(1).backward()\n",
            True,
            id="replaced forward",
        ),
        pytest.param(
            "add = net.register_forward_hook\nadd(made())\ndef f(x):\n    print(net(x).sum().item())\n    return 1\n"
            "f(1)\n",
            True,
            id="hook by an alias",
        ),
    ],
)
def test_lost_graph(text: str, expected: bool) -> None:
    script = load(HEAD + text)
    [function] = [each for each in script.find(ast.FunctionDef) if each.name == "f"]
    forwards = [each for each in script.within(function, ast.Call) if script.source(each) == "net(x)"]
    assert (needs_graph(script, [function], forwards) is not None) is expected


@pytest.mark.parametrize(
    ("keeps", "reads", "expected"),
    [
        ("from store import kept", "kept[0]", True),
        ("from store import kept as mine", "store.kept[0]", True),
        ("from store import *", "store.latest()", True),
        ("import store\nkept = store.kept", "store.latest()", True),
        ("kept = []", "store.latest()", False),
    ],
)
def test_containers_of_other_files(tmp_path: Path, keeps: str, reads: str, expected: bool) -> None:
    (tmp_path / "store.py").write_text("kept = []\ndef latest():\n    return kept[0]\n")
    name = "mine" if keeps.endswith("mine") else "kept"
    text = f"{HEAD}{keeps}\nimport store\ndef f(x):\n    {name}.append(net(x))\nf(1)\n{reads}.backward()\n"
    path = tmp_path / "main.py"
    path.write_text(text)
    script = load(text, path, Project([*tmp_path.glob("*.py")]))
    [function] = script.find(ast.FunctionDef)
    forwards = [each for each in script.within(function, ast.Call) if script.source(each) == "net(x)"]
    assert (needs_graph(script, [function], forwards) is not None) is expected


COMMON = "def features(model, x):\n    model.eval()\n    return model(x)\n"
USER = "from common import features\nfeatures(net, x).mean().item()\n"


@pytest.mark.parametrize("importers", [1, 23, 24, 25, 60])
def test_whoever_imports_it(tmp_path: Path, importers: int) -> None:
    for each in range(importers - 1):
        (tmp_path / f"user{each}.py").write_text(USER)
    (tmp_path / "zz_last.py").write_text(USER.replace("mean().item()", "mean().backward()"))
    [found] = evaluations(tmp_path, Bounds())
    assert found.problem is not None
    assert "its result may reach a backward pass" in found.problem


def test_a_lower_bound_declines(tmp_path: Path) -> None:
    (tmp_path / "user.py").write_text(USER)
    (tmp_path / "other.py").write_text(USER)
    assert [each.problem for each in evaluations(tmp_path, Bounds())] == [None]
    assert all(each.problem is not None for each in evaluations(tmp_path, Bounds(graph_states=0)))


def evaluations(folder: Path, bounds: Bounds) -> tuple[EvaluationPass, ...]:
    path = folder / "common.py"
    path.write_text(COMMON)
    return evaluation_passes(load(COMMON, path, Project([*folder.glob("*.py")], bounds=bounds)))
