"""What lists and dicts hold that are changed after they were made."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from autoaccel.analysis import Project, load
from autoaccel.dataflow.abstract_values import Kind

TENSOR = "torch.ones(1)"
HELD = {
    "never changed": ("d = {'a': 1, 'b': 'x'}\n", "d['a']", "number"),
    "a key of its own": (f"d = {{'a': 1, 'b': 2}}\nd['b'] = {TENSOR}\n", "d['a']", "number"),
    "the same key": (f"d = {{'a': 1, 'b': 2}}\nd['a'] = {TENSOR}\n", "d['a']", "number tensor"),
    "a new key": (f"d = {{'a': 1}}\nd['b'] = {TENSOR}\n", "d['b']", "tensor"),
    "any key": (f"d = {{'a': 1}}\nfor k in n:\n    d[k] = {TENSOR}\n", "d['a']", "number tensor"),
    "added to a key": (f"d = {{'a': 1}}\nd['a'] += {TENSOR}\n", "d['a']", "number tensor"),
    "unpacked into a key": ("d = {'a': 1}\nd['a'], b = f()\n", "d['a']", "number unknown"),
    "update by name": (f"d = {{'a': 1}}\nd.update(a={TENSOR})\n", "d['a']", "number tensor"),
    "update by a dict": ("d = {'a': 1}\nd.update({'a': 'x'})\n", "d['a']", "number string"),
    "joined with a dict": (f"d = {{'a': 1}}\nd |= {{'a': {TENSOR}}}\n", "d['a']", "number tensor"),
    "joined with what is not known": ("d = {'a': 1}\nd |= n\n", "d['a']", "number unknown"),
    "update by what is not known": ("d = {'a': 1}\nd.update(n)\n", "d['a']", "number unknown"),
    "update by what is unpacked": ("d = {'a': 1}\nd.update(**n)\n", "d['a']", "number unknown"),
    "a default": (f"d = {{'a': 1}}\nd.setdefault('b', {TENSOR})\n", "d['b']", "tensor"),
    "made by a call": (f"d = dict(a=1)\nd['a'] = {TENSOR}\n", "d['a']", "number tensor"),
    "made by a comprehension": (f"d = {{k: 1 for k in n}}\nd['a'] = {TENSOR}\n", "d['a']", "number tensor"),
    "an element of a list": (f"d = [1]\nd[0] = {TENSOR}\n", "d[0]", "number tensor"),
    "a slice of a list": (f"d = [1]\nd[:1] = [{TENSOR}]\n", "d[0]", "number tensor"),
    "an empty dict": (f"d = {{}}\nd['a'] = {TENSOR}\n", "d['a']", "tensor"),
    "an empty dict by any key": (f"d = dict()\nfor k in n:\n    d[k] = {TENSOR}\n", "d[n]", "tensor"),
    "an empty dict that goes out of sight": (f"d = {{}}\nd['a'] = {TENSOR}\nunknown(d)\n", "d['a']", "tensor unknown"),
    "what a call gives is not empty": (f"d = net.state_dict()\nd['a'] = {TENSOR}\n", "d['b']", "unknown"),
    "an empty list": (f"d = []\nd.append({TENSOR})\n", "d[0]", "tensor"),
    "a list of several": (f"d = [1, 2, 3]\nd.append({TENSOR})\n", "d[-1]", "number tensor"),
    "inserted": (f"d = [1, 2, 3]\nd.insert(0, {TENSOR})\n", "d[0]", "number tensor"),
    "extended": (f"d = [1]\nd.extend([{TENSOR}, 'x'])\n", "d[0]", "number string tensor"),
    "a list that is added": (f"d = [1]\nd += [{TENSOR}]\n", "d[0]", "number tensor"),
    "changed after another was added": (f"d = [1]\nd += [2]\nd.append({TENSOR})\n", "d[0]", "number tensor"),
    "by its method under another name": (f"d = [1]\nadd = d.append\nadd({TENSOR})\n", "d[0]", "number unknown"),
    "by its method, handed on": ("d = [1]\nlist(map(d.append, n))\n", "d[0]", "number unknown"),
    "pushed onto a heap": (f"import heapq\nd = [1]\nheapq.heappush(d, {TENSOR})\n", "d[0]", "number unknown"),
    "shuffled": (f"import random\nd = [1, {TENSOR}]\nrandom.shuffle(d)\n", "d[0]", "number tensor"),
    "deleted": (f"d = [1, {TENSOR}]\ndel d[0]\n", "d[0]", "number tensor"),
    "taken out of the middle": (f"d = [1, {TENSOR}]\nd.pop(0)\n", "d[0]", "number tensor"),
    "under another name": (f"d = {{'a': 1}}\ne = d\ne['a'] = {TENSOR}\n", "d['a']", "number tensor"),
    "bound by an expression": (f"if (e := {{'a': 1}}):\n    e['a'] = {TENSOR}\nd = e\n", "d['a']", "number tensor"),
    "one of two": (
        f"d = {{'a': 1}} if n else {{'a': 2}}\nd['a'] = {TENSOR}\n",
        "d['a']",
        "number tensor",
    ),
    "in a function": (f"def f(e):\n    e['a'] = {TENSOR}\nd = {{'a': 1}}\nf(d)\n", "d['a']", "number tensor"),
    "in a function that gets it by name": (
        f"def f(e):\n    e['a'] = {TENSOR}\nd = {{'a': 1}}\nf(e=d)\n",
        "d['a']",
        "number tensor",
    ),
    "in a function that is not seen": ("d = {'a': 1}\nunknown(d)\n", "d['a']", "number unknown"),
    "in a function of a library": ("d = [1]\ntorch.tensor(d)\n", "d[0]", "number"),
    "by whom a function returns it to": (
        f"def f():\n    e = {{'a': 1}}\n    return e\nd = f()\nd['a'] = {TENSOR}\n",
        "d['a']",
        "number tensor",
    ),
    "in another container": (f"d = {{'l': [1]}}\nd['l'].append({TENSOR})\n", "d['l'][0]", "number tensor"),
    "in another container by its name": (
        f"e = [1]\nd = [e]\nfor x in d:\n    x.append({TENSOR})\n",
        "e[0]",
        "number tensor",
    ),
    "in another container, in a loop": (
        f"d = [[1]]\nfor x in d:\n    x.append({TENSOR})\n",
        "d[0][0]",
        "number tensor",
    ),
    "put into another container": (f"e = [1]\nd = []\nd.append(e)\nd[0][0] = {TENSOR}\n", "e[0]", "number tensor"),
    "stored in another container": (f"e = [1]\nd = {{}}\nd[n] = e\nd[n][0] = {TENSOR}\n", "e[0]", "number tensor"),
    "values of another container": (
        f"d = {{'a': [1]}}\nfor x in d.values():\n    x.append({TENSOR})\n",
        "d['a'][0]",
        "number tensor",
    ),
    "unpacked beside another": (f"d, e = [1], []\nd.append({TENSOR})\n", "d[0]", "number tensor"),
    "the other of two that are unpacked": (f"d, e = [1], []\ne.append({TENSOR})\n", "d[0]", "number"),
    "unpacked to a list of names": (f"[d, e] = [[1], []]\nd.append({TENSOR})\n", "d[0]", "number tensor"),
    "unpacked, nested": (f"(d, e), n = ([1], []), 2\nd.append({TENSOR})\n", "d[0]", "number tensor"),
    "unpacked with the rest": (f"d, *e = [1], [], 2\nd.append({TENSOR})\n", "d[0]", "number tensor"),
    "unpacked from a name": (f"p = ([1], [])\nd, e = p\nd.append({TENSOR})\n", "p[0][0]", "number tensor"),
    "unpacked in a loop": (f"p = [([1], 2)]\nfor d, e in p:\n    d.append({TENSOR})\n", "p[0][0][0]", "number tensor"),
    "unpacked from what a function returns": (
        f"def f():\n    return [1], []\nd, e = f()\nd.append({TENSOR})\n",
        "d[0]",
        "number tensor",
    ),
    "attributes that are unpacked": (
        "class A:\n    def f(self):\n        self.d, self.e = [1], []\n        self.d.append(torch.ones(1))\n",
        "A().d[0]",
        "number tensor",
    ),
    "unpacked to a class": (f"class A:\n    x, y = [1], []\nA.x.append({TENSOR})\n", "A.x[0]", "number tensor"),
    "an element, in place": (f"d = [[1]]\nd[0] += [{TENSOR}]\n", "d[0][0]", "number tensor"),
    "matched": (f"p = [[1], 2]\nmatch p:\n    case [d, e]:\n        d.append({TENSOR})\n", "p[0][0]", "number unknown"),
    "enumerated": (f"p = [[1]]\nfor i, d in enumerate(p):\n    d.append({TENSOR})\n", "p[0][0]", "number tensor"),
    "chosen": (f"p = [[1]]\nd = max(p, key=len)\nd.append({TENSOR})\n", "p[0][0]", "number tensor"),
    "the longest of its elements": ("d = [1]\ne = max(d)\n", "d[0]", "number"),
    "in a slice": (f"p = [[1], [2]]\nfor d in p[1:]:\n    d.append({TENSOR})\n", "p[0][0]", "number tensor"),
    "in a sum": (f"p = [[1]]\nq = p + [3]\nq[0].append({TENSOR})\n", "p[0][0]", "number tensor"),
    "in a list that is extended": (
        f"p = [[1]]\nq = []\nq.extend(p)\nq[0].append({TENSOR})\n",
        "p[0][0]",
        "number tensor",
    ),
    "passed by a mapping": (
        f"def g(a):\n    a.append({TENSOR})\np = dict(a=[1])\ng(**p)\n",
        "p['a'][0]",
        "number tensor",
    ),
    "in an object of a library": (
        f"import types\nd = [1]\ns = types.SimpleNamespace(a=d)\ns.a.append({TENSOR})\n",
        "d[0]",
        "number unknown",
    ),
    "drawn by chance": (f"import random\np = [[1]]\nrandom.choice(p).append({TENSOR})\n", "p[0][0]", "number unknown"),
    "by the method of the type": (f"d = [1]\nlist.append(d, {TENSOR})\n", "d[0]", "number unknown"),
    "by a method that is looked up": (f"d = [1]\ngetattr(d, 'append')({TENSOR})\n", "d[0]", "number unknown"),
    "items of another container": (
        f"d = {{'a': [1]}}\nfor k, x in d.items():\n    x.append({TENSOR})\n",
        "d['a'][0]",
        "number tensor",
    ),
    "one of several that are made alike": (
        f"d = [[1] for _ in n]\nd[2].append({TENSOR})\n",
        "d[0][0]",
        "number tensor",
    ),
    "one of several of equal elements": (f"d = [0] * 3\nd[1] = {TENSOR}\n", "d[1]", "number tensor"),
    "a copy": (f"e = {{'a': 1}}\nd = e.copy()\nd['a'] = {TENSOR}\n", "d['a']", "number tensor"),
    "a copy by Python": (
        f"import copy\ne = {{'a': 1}}\nd = copy.deepcopy(e)\nd['a'] = {TENSOR}\n",
        "d['a']",
        "number tensor",
    ),
    "a slice": (f"e = [1, 2]\nd = e[1:]\nd[0] = {TENSOR}\n", "d[0]", "number tensor"),
    "a sum": (f"d = [1] + [2]\nd.append({TENSOR})\n", "d[0]", "number tensor"),
    "by a model": (
        (
            "class M(torch.nn.Module):\n    def forward(self, e):\n"
            f"        e[0] = {TENSOR}\n        return e\nd = [1]\nM()(d)\n"
        ),
        "d[0]",
        "number tensor",
    ),
    "by a model in a sequence": ("d = [1]\ntorch.nn.Sequential(n)(d)\n", "d[0]", "number unknown"),
    "by a function that a library calls": (
        "import functools\ndef f(e): ...\nd = [1]\nfunctools.partial(f, d)()\n",
        "d[0]",
        "number unknown",
    ),
    "in a thread": (
        "import threading\ndef f(e): ...\nd = [1]\nthreading.Thread(target=f, args=(d,)).start()\n",
        "d[0]",
        "number unknown",
    ),
    "sorted by a function": ("def f(e): ...\nd = [1]\nsorted(d, key=f)\n", "d[0]", "number"),
    "unpacked for a call": ("d = {'a': 1}\nunknown(**d)\n", "d['a']", "number"),
    "handed to an unseen function at last": (
        "def f():\n    d = [1]\n    x = d[0]\n    unknown(d)\n    return x\n",
        "f()",
        "number",
    ),
    "handed to an unseen function in every pass": (
        "def f(n):\n    d = [1]\n    for _ in n:\n        x = d[0]\n        unknown(d)\n    return x\n",
        "f(n)",
        "number unknown",
    ),
    "as an attribute": (
        f"class A:\n    def f(self):\n        self.d = {{'a': 1}}\n    def g(self):\n        self.d['a'] = {TENSOR}\n",
        "A().d['a']",
        "number tensor",
    ),
}

REGISTRY = """\
class Registry(dict):
    def register(self, name):
        def keep(made):
            self[name] = made
            return made
        return keep
    def add(self, name, made):
        self[name] = made
"""
MAKING = f"{REGISTRY}    def make(self, key):\n        return self[key]\n"
TWO = f"{REGISTRY}d, e = Registry(), Registry()\n"
OBJECTS = {
    "decorated": (f"{TWO}@d.register('a')\ndef f(): pass\n", "d['a']", "function"),
    "decorated for another one": (f"{TWO}@d.register('a')\ndef f(): pass\n", "e['a']", "unknown"),
    "decorated for either": (
        f"{TWO}@(d if n else e).register('a')\ndef f(): pass\ne['a'] = 1\n",
        "e['a']",
        "function number",
    ),
    "under another key": (
        f"{TWO}@d.register('a')\ndef f(): pass\n@d.register('b')\nclass A: pass\n",
        "d['b']",
        "class",
    ),
    "by any key": (
        f"{TWO}@d.register('a')\ndef f(): pass\n@d.register('b')\nclass A: pass\n",
        "d[n]",
        "class function",
    ),
    "under a key that is not known": (
        f"{TWO}@d.register(n)\ndef f(): pass\n@d.register('b')\nclass A: pass\n",
        "d['b']",
        "class function",
    ),
    "by a method": (f"{TWO}d.add('a', 1)\nd.add('b', 'x')\n", "d['a']", "number"),
    "by a method that is read": (f"{TWO}d.add('a', 1)\nadd = d.add\nadd('b', 'x')\n", "d['b']", "string unknown"),
    "by what makes the decorator, read": (
        f"{TWO}d['a'] = 1\nkeep = d.register\n@keep('a')\ndef f(): pass\n",
        "d['a']",
        "number unknown",
    ),
    "from outside": (f"{TWO}d['a'] = 1\nd.update(b='x')\n", "d.get('b')", "string"),
    "by whom it is given to": (f"{TWO}def g(x):\n    x['a'] = 1\ng(d)\n", "d['a']", "number"),
    "out of sight": (f"{TWO}d['a'] = 1\nunknown(d)\n", "d['a']", "number unknown"),
    "by the method of the type": (f"{TWO}d['a'] = 1\ndict.update(d, n)\n", "d['a']", "number unknown"),
    "one with elements": (f"{REGISTRY}d = Registry(n)\nd['a'] = 1\n", "d['a']", "unknown"),
    "one that makes its elements": (
        f"{REGISTRY}    def __init__(self, n):\n        super().__init__(n)\nd = Registry(n)\nd['a'] = 1\n",
        "d['a']",
        "unknown",
    ),
    "one with a name": (
        REGISTRY
        + "    def __init__(self, n):\n        super().__init__()\n        self.n = n\nd = Registry(n)\nd['a'] = 1\n",
        "d['a']",
        "number",
    ),
    "one that reads in its own way": (
        f"{REGISTRY}    def __getitem__(self, n):\n        return n\nd = Registry()\nd['a'] = 1\n",
        "d['a']",
        "unknown",
    ),
    "one for what is missing": (
        f"{REGISTRY}    def __missing__(self, n):\n        return n\nd = Registry()\nd['a'] = 1\n",
        "d['b']",
        "unknown",
    ),
    "one whose attributes are elements": (
        f"{REGISTRY}    __setattr__ = dict.__setitem__\nd = Registry()\nd['a'] = 1\nd.a = 'x'\n",
        "d['a']",
        "unknown",
    ),
    "a method from outside": (
        f"{TWO}d['a'] = 1\ndef put(self):\n    self['a'] = 'x'\nRegistry.put = put\nd.put()\n",
        "d['a']",
        "unknown",
    ),
    "a method that is set": (
        f"{TWO}d['a'] = 1\ndef put(self):\n    self['a'] = 'x'\nsetattr(Registry, 'put', put)\nd.put()\n",
        "d['a']",
        "unknown",
    ),
    "looked up by a method": (
        f"{MAKING}d = Registry()\nd['a'] = 1\n",
        "d.make('a')",
        "number",
    ),
    "looked up by a method of several": (
        f"{MAKING}d, e = Registry(), Registry()\nd['a'] = 1\ne['a'] = 'x'\n",
        "d.make('a')",
        "number string",
    ),
    "looked up by a method of one that is not seen": (
        f"{MAKING}d = Registry()\nd['a'] = 1\ne = collections.defaultdict(Registry)\n",
        "d.make('a')",
        "unknown",
    ),
    "one that is called": (
        REGISTRY.replace("def register", "def __call__") + "d = Registry()\nd['a'] = 1\n@d('b')\ndef f(): pass\n",
        "d['b']",
        "unknown",
    ),
    "one with a property": (
        (
            f"{REGISTRY}    @property\n    def slot(self): ...\n    @slot.setter\n    def slot(self, made):\n"
            "        self['a'] = made\nd = Registry()\nd['a'] = 1\nd.slot = 'x'\n"
        ),
        "d['a']",
        "unknown",
    ),
    "what is given by its name": (
        (
            f"{REGISTRY}    def put(self, **kw):\n        for k, made in kw.items():\n            self[k] = made\n"
            "d = Registry()\nd['a'] = 1\nd.put(a='x')\n"
        ),
        "d['a']",
        "number unknown",
    ),
    "one that takes over what it is made with": (
        (
            f"{REGISTRY}    def __init__(self, given):\n        super().__init__()\n        self |= given\n"
            "d = Registry(n)\nd['a'] = 1\n"
        ),
        "d['a']",
        "number unknown",
    ),
    "one that gets another method": (
        f"{REGISTRY}d = Registry()\nd['a'] = 1\nd.get = n\n",
        "d.get('a')",
        "unknown",
    ),
    "one that is derived": (
        f"{REGISTRY}class B(Registry):\n    def put(self):\n        self['a'] = 'x'\nd = B()\nd['a'] = 1\n",
        "d['a']",
        "unknown",
    ),
    "one within another container": (f"{REGISTRY}d = [Registry()]\nd[0]['a'] = 1\n", "d[0]['a']", "unknown"),
}
KEYS = {
    "by a name": ("k = 'a'\nd = {'a': 1, 'b': 'x'}\n", "d[k]", "number string"),
    "by a constant of another": ("c = {'k': 'a'}\nd = {'a': 1, 'b': 'x'}\n", "d[c['k']]", "number string"),
    "what another dict replaces": ("e = {'a': 'x'}\nd = {'a': 1, **e}\n", "d['a']", "string"),
    "what may be replaced": ("d = {'a': 1, **n}\n", "d['a']", "number unknown"),
    "what a computed key may replace": ("d = {'a': 1, n: 'x'}\n", "d['a']", "number string"),
    "what replaces another": ("d = {**n, 'a': 1}\n", "d['a']", "number"),
    "or a default": ("d = {'b': 1}\n", "d.get('a', 'x')", "string unknown"),
    "by pairs": ("d = {'a': 1}\nd.update([('a', 'x')])\n", "d['a']", "number unknown"),
    "joined with pairs": ("d = {'a': 1}\nd |= [('a', 'x')]\n", "d['a']", "number unknown"),
    "by another name that is set": ("d = {'a': 1}\nsetattr(n, 'd', d)\n", "d['a']", "number unknown"),
}


ALL = HELD | OBJECTS | KEYS


@pytest.mark.parametrize("case", ALL)
def test_held(case: str) -> None:
    text, read, kinds = ALL[case]
    script = load(f"import torch\n{text}X = {read}\n")
    assert sorted(each.kind.value for each in script.values(_last(script.tree))) == kinds.split()


@pytest.mark.parametrize(
    "change",
    [
        "from config import CONFIG\nCONFIG['lr'] = 'x'\n",
        "from config import CONFIG as C\nC['lr'] = 'x'\n",
        "import config as c\nc.CONFIG['lr'] = 'x'\n",
        "from config import *\nCONFIG.update(lr='x')\n",
    ],
)
def test_another_file_changes_it(tmp_path: Path, change: str) -> None:
    (tmp_path / "config.py").write_text("CONFIG = {'lr': 1}\nX = CONFIG['lr']\n")
    (tmp_path / "main.py").write_text(change)
    text = (tmp_path / "config.py").read_text()
    script = load(text, tmp_path / "config.py", Project(sorted(tmp_path.glob("*.py"))))
    assert script.values(_last(script.tree)).kinds == {Kind.NUMBER, Kind.STRING}


def _last(tree: ast.Module) -> ast.expr:
    statement = tree.body[-1]
    assert isinstance(statement, ast.Assign)
    return statement.value
