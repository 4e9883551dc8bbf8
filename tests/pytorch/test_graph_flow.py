"""Where a tensor's graph may go; the ways of names, containers and functions are in `test_graph_requirement.py`."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from autoaccel.analysis import Project, Script, load
from autoaccel.analysis.callables import called_name, functions_of
from autoaccel.dataflow.bounds import Bounds
from autoaccel.dataflow.completeness import Incomplete
from autoaccel.pytorch.graph_flow import GraphFlow
from autoaccel.pytorch.graph_states import CallStack, GraphNeeded, push_call
from autoaccel.pytorch.view_writes import RegionCode

HEAD = """\
import collections
import copy
import functools
import logging
import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
"""


def may_reach_backward(script: Script) -> bool:
    """Whether what `call()` gives may reach a backward pass, or cannot be followed."""
    [call] = [each for each in script.find(ast.Call) if script.source(each) == "call()"]
    try:
        GraphFlow(RegionCode(script, [call])).run([(script, call, False, ())])
    except (GraphNeeded, Incomplete):
        return True
    return False


PADDED = "class C(nn.Conv1d):\n    def forward(self, x):\n        return super().forward(F.pad(x, (1, 0)))\n"

# By case: code with one `call()`; what it gives goes backward, or to where nobody can follow.
REACHES = {
    "a file": "torch.save(call(), 'x')",
    "a file that gets what is told from None": "v = call()\nif v is not None:\n    torch.save(v, 'x')",
    "a file that gets what is compared in parts": "v = call()\nif v.mean() > w:\n    torch.save(v, 'x')",
    "a file that gets what makes a mask": "v = call()\nm = v > w\ntorch.save(v, 'x')",
    "a file that gets what is the highest of its own": "v = call()\nw = max(v)\ntorch.save(v, 'x')",
    "a file that gets what is masked as well": "v = call()\nw = (v > 0).sum() if z else v\ntorch.save(w, 'x')",
    "a file that gets another part": "v, w = call()\nif v > best:\n    torch.save({'w': w}, 'x')",
    "a file that gets what is compared behind a test": "v = call()\nif k and v > w:\n    best = v\ntorch.save(v, 'x')",
    "a file that gets what is compared now and then": "v = call()\nif k:\n    if v > w:\n        b = 1\ntorch.save(v)",
    "a figure that is trained out of a file": (
        "v = call()\nif v < best:\n    torch.save(v, 'x')\nw = torch.load('x')\noptimizer = torch.optim.SGD([w])"
    ),
    "the best, put in a file and used": "v = call()\nif v < best:\n    torch.save(v, 'x')\nv.backward()",
    "a name in an expression": "if (v := call()) is not None:\n    v.backward()",
    "one of two": "v = call() if x else 0\nv.backward()",
    "or": "v = x or call()\nv.backward()",
    "a name in a comprehension": "[v := call() for _ in y]\nv.backward()",
    "a name in a comprehension, bound before": "v = 0\nany((v := call()) is None for _ in y)\nv.backward()",
    "a name of the last round": "v = w = 0\n[((w := v), (v := call())) for _ in y]\nw.backward()",
    "a context": "with call() as v:\n    v.backward()",
    "a pattern": "match call():\n    case v:\n        v.backward()",
    "the rest": "a, *b = 1, call()\nb[0].backward()",
    "a loss": "F.mse_loss(call(), y).backward()",
    "a layer made anew": f"{PADDED}C(1, 1, 2)(call()).sum().backward()",
    "a layer made anew, of a class out of sight": (
        f"from elsewhere import Layer\n{PADDED.replace('nn.Conv1d', 'Layer')}print(C(1, 1, 2)(call()).item())"
    ),
    "a layer made anew, of several classes": (
        f"{PADDED}class K(nn.Conv1d):\n    def forward(self, x):\n        seen.append(x)\n"
        "class D(C, K): ...\nprint(D(1, 1, 2)(call()).item())\nseen[0].backward()"
    ),
    "a layer made anew, which keeps its input": (
        "class C(nn.Conv1d):\n    def forward(self, x):\n        self.kept = x\n        return super().forward(x)\n"
        "c = C(1, 1, 2)\nprint(c(call()).item())\nc.kept.backward()"
    ),
    "stacked": "torch.stack([call() for _ in y]).mean().backward()",
    "an item by a function": "import operator\noperator.setitem(d, 'a', call())",
    "an attribute by a pattern": "o.v = call()\nmatch o:\n    case A(v=x):\n        x.backward()",
    "an attribute by its place": "o.v = call()\nmatch o:\n    case A(x):\n        x.backward()",
    "a keyword": "F.mse_loss(input=call(), target=y).backward()",
    "a queue": "q = collections.deque()\nq.append(call())\nq.pop().backward()",
    "a queue of threads": "import queue\nq = queue.Queue()\nq.put(call())\nq.get().backward()",
    "a heap": "import heapq\nheapq.heappush(h, call())",
    "a thread": "import threading\nthreading.Thread(target=f, args=(call(),)).start()",
    "a partial function": "f = functools.partial(g, call())",
    "built": "d = dict(a=call())\nd['a'].backward()",
    "several arguments": "def f(*args):\n    args[0].backward()\nf(1, call())",
    "named arguments": "def f(**kwargs):\n    kwargs['a'].backward()\nf(a=call())",
    "spread": "def f(x):\n    x.backward()\nf(*[call()])",
    "spread by name": "def f(x):\n    x.backward()\nf(**{'x': call()})",
    "a default by name": "def f(x, *, y=None):\n    y.backward()\nf(1, y=call())",
    "a recursion": "def f(n, v):\n    return f(n - 1, v) if n else v\nf(3, call()).backward()",
    "a field": "class R:\n    loss: object\nr = R(call())\nr.loss.backward()",
    "a field by name": "class R:\n    a: object\n    loss: object\nr = R(a=1, loss=call())\nr.loss.backward()",
    "a property": "class A:\n    @property\n    def v(self):\n        return call()\nA().v.backward()",
    "a setter": "class A:\n    @property\n    def v(self): ...\n    @v.setter\n    def v(self, v): ...\no.v = call()",
    "an operator of the project": "class A:\n    def __add__(self, x): ...\nA() + call()",
    "a look-up of the project": "class A:\n    def __getitem__(self, x): ...\nA()[call()]",
    "all attributes": "o.__dict__['v'] = call()",
    "a name of a library": "torch.kept = call()",
    "an optimizer": "optimizer.step(call())",
    "parameters": "torch.optim.SGD([call()], 0.1)",
    "a generator": "g.send(call())",
    "a key": "max([call()], key=lambda v: v.backward())",
    "mapped": "map(torch.Tensor.backward, [call()])",
    "any name": "v = call()\nexec(code)",
    "all names": "v = call()\nprint(globals()[name])",
    "any name of a function": "def f():\n    v = call()\n    exec(code)",
    "an expression in a function": "def f():\n    v = call()\n    return lambda: eval(code)",
    "all names of a function": "def f():\n    v = call()\n    locals()['v'].backward()",
    "names that are handed on": "def f():\n    v = call()\n    g(**vars())",
    "all modules": "import sys\nv = call()\nprint(sys.modules[name].v)",
    "a method by name": "v = call()\ngetattr(v, name)()",
    "a hook": "call().register_hook(print)",
    "in a try": "try:\n    a = call().numpy()\nexcept RuntimeError:\n    pass",
    "copied in a try": "try:\n    a = copy.deepcopy(call())\nexcept RuntimeError:\n    pass",
    "awaited for whoever": "async def f():\n    return await call()",
    "written into a tensor": "t = torch.zeros(3)\nt.add_(call())\nt.sum().backward()",
    "added in place": "t = torch.zeros(3)\nu = t\nu += call()\nt.sum().backward()",
}

# By case: code with one `call()`, whose graph ends.
ENDS = {
    "a layer made anew": f"{PADDED}print(C(1, 1, 2)(call()).item())",
    "alone": "call()",
    "a name in an expression": "print((v := call()).item())",
    "tested": "while call():\n    pass",
    "the best, in a file": "v = call()\nif not (v < best or k):\n    torch.save({'best': v}, 'x')",
    "the highest, in a file": "v = call()\nbest = max(v, best)\ntorch.save([v, best], 'x')",
    "the best, in a file of a function": "def f(s):\n    torch.save(s)\nv = call()\nw = 1 if v > w else 0\nf({'v': v})",
    "negated": "v = not call()\nv.backward()",
    "asserted": "assert call() is not None",
    "deleted": "v = call()\ndel v",
    "a pattern without names": "match call():\n    case 1:\n        pass",
    "detached": "v = call().detach()\nv.backward()",
    "of a loop": "print([v.item() for v in call()])",
    "an array": "v = np.mean([call()])\nv.backward()",
    "a scheduler": "scheduler.step(call())",
    "a log": "logging.info('%s', call())",
    "a chart": "o.writer.add_scalar('a', call(), 1)",
    "a test": "self.assertEqual(call(), 1)",
    "text": "v = '{}'.format(call())\nv.backward()",
    "sorted for print": "print(sorted([call()], key=lambda v: v.item()))",
    "copied": "v = copy.deepcopy(call())\nprint(v)",
    "an argument that is shown": "def f(x, y):\n    print(x)\n    y.backward()\nf(call(), z)",
    "an argument by name": "def f(x, y):\n    print(x)\n    y.backward()\nf(y=z, x=call())",
    "a recursion": "def f(n, v):\n    return f(n - 1, v) if n else v\nprint(f(3, call()))",
    "a property": "class A:\n    @property\n    def v(self):\n        return call()\nprint(A().v)",
    "formatted with all names": "def f():\n    v = call()\n    print('{v}'.format(**locals()))",
    "another attribute by a pattern": "o.v = call()\nmatch o:\n    case A(w=x):\n        x.backward()",
    "shown in a function": "def f():\n    v = call()\n    print(v.mean())\nexec(code)",
    "a name that is bound anew": "v = call()\nv = z\nv.backward()",
    "added without gradients": "with torch.no_grad():\n    t = z + call()\nt.backward()",
}


@pytest.mark.parametrize("case", REACHES)
def test_reaches_backward(case: str) -> None:
    assert may_reach_backward(load(f"{HEAD}{REACHES[case]}\n"))


@pytest.mark.parametrize("case", ENDS)
def test_ends(case: str) -> None:
    assert not may_reach_backward(load(f"{HEAD}{ENDS[case]}\n"))


CHAIN = "def f(x):\n    g(x)\ndef g(x):\n    h(x)\ndef h(x):\n    print(x)\nf(call())\n"


@pytest.mark.parametrize(
    ("bounds", "expected"),
    [
        (Bounds(), False),
        (Bounds(graph_calls=3), False),
        (Bounds(graph_calls=2), True),
        (Bounds(graph_calls=0), True),
        (Bounds(graph_states=0), True),
        (Bounds(graph_files=0), True),
    ],
)
def test_lower_bounds(tmp_path: Path, bounds: Bounds, expected: bool) -> None:
    path, text = tmp_path / "main.py", f"{CHAIN}o.v = 1\nw = len(x)\n"
    path.write_text(text)
    (tmp_path / "user.py").write_text("import main\n")
    text = text.replace("print(x)", "o.v = x")
    assert may_reach_backward(load(text, path, Project([*tmp_path.glob("*.py")], bounds=bounds))) is expected


@pytest.mark.parametrize(
    ("reads", "expected"),
    [("from main import v\n", True), ("import main\n", True), ("import torch\n", False)],
)
def test_names_that_other_files_may_read(tmp_path: Path, reads: str, expected: bool) -> None:
    path, text = tmp_path / "main.py", "v = call()\nprint(v)\n"
    path.write_text(text)
    (tmp_path / "user.py").write_text(reads)
    assert may_reach_backward(load(text, path, Project([*tmp_path.glob("*.py")]))) is expected


def test_a_recursion_comes_back_to_where_it_began() -> None:
    script = load("def f():\n    g()\ndef g():\n    f()\nf()\n")
    functions = [*script.find(ast.FunctionDef)]
    first, second, third = (each for each in script.find(ast.Call))
    stack: CallStack = ()
    for call, function in ((third, functions[0]), (first, functions[1]), (second, functions[0])):
        stack = push_call(stack, (script, call, function))
    assert [call for _, call, _ in stack] == [third, first, second]
    assert push_call(stack, (script, first, functions[1])) == stack[:2]


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        ("len", "builtins.len"),
        ("torch.relu", "torch.relu"),
        ("F.relu", "torch.nn.functional.relu"),
        ("shadowed", None),
        ("max", None),
        ("nowhere", None),
        ("x.relu", None),
        ("[len][0]", None),
    ],
)
def test_called_name(function: str, expected: str | None) -> None:
    script = load(f"{HEAD}def shadowed(): ...\nmax = shadowed\n{function}(1)\n")
    call = script.tree.body[-1].value  # type: ignore[attr-defined]
    assert called_name(script, call.func) == expected


# By case: an expression, and the functions that it stands for; none unless these are all.
FUNCTIONS: dict[str, tuple[str, list[str]]] = {
    "a function": ("f", ["f"]),
    "one of two": ("f if x else g", ["f", "g"]),
    "under another name": ("other", ["f"]),
    "a method": ("A().go", ["go"]),
    "a lambda": ("lambda: 1", ["<lambda>"]),
    "a name for a lambda": ("short", ["<lambda>"]),
    "one of two, out of sight": ("f if x else nowhere", []),
    "a name that is also something else": ("either", []),
    "a partial function": ("functools.partial(f, 1)", []),
    "a class": ("A", []),
    "a function of a library": ("torch.relu", []),
    "out of sight": ("nowhere", []),
}


@pytest.mark.parametrize("case", FUNCTIONS)
def test_functions_of(case: str) -> None:
    expression, expected = FUNCTIONS[case]
    own = (
        "def f(): ...\ndef g(): ...\nclass A:\n    def go(self): ...\nother = f\nshort = lambda: 1\n"
        "either = lambda: 2\nif x:\n    either = nowhere\n"
    )
    script = load(f"{HEAD}{own}print({expression})\n")
    call = script.tree.body[-1].value  # type: ignore[attr-defined]
    assert [getattr(each, "name", "<lambda>") for _, each in functions_of(script, call.args[0])] == expected
