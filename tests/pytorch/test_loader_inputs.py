"""What the batches of a loader are made from: objects, names and code that are reached, and what may be trained."""

from __future__ import annotations

import ast

import pytest

from autoaccel.analysis import Script, load
from autoaccel.pytorch.loader_calls import loader_calls
from autoaccel.pytorch.loader_inputs import IN_WORKERS, LoaderInputs

HEAD = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, Sampler, TensorDataset
scale, unread, table = 2, 3, [1]
net = nn.Linear(8, 2)
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


def inputs(text: str, parts: tuple[str, ...] = ()) -> tuple[Script, LoaderInputs]:
    script = load(f"{HEAD}{text}\n")
    [made] = loader_calls(script)
    return script, LoaderInputs(script, made, parts) if parts else LoaderInputs(script, made)


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
    "of the loader, not set": ("loader = DataLoader(data)\nseen(loader.sampler)", False),
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


# By case: a script with one loader; the names of the functions that make its batches.
CODE = {
    "a dataset": ("DataLoader(data)", {"__getitem__"}),
    "a dataset and an order": ("DataLoader(data, sampler=order)", {"__getitem__", "__iter__"}),
    "a function": ("def mix(b):\n    return b\nDataLoader(data, collate_fn=mix)", {"__getitem__", "mix"}),
    "a function that calls another": (
        "def part(b):\n    return b\ndef mix(b):\n    return part(b)\nDataLoader([1], collate_fn=mix)",
        {"mix", "part"},
    ),
    "an object that is called": (
        "class Mix:\n    def __call__(self, b):\n        return b\nDataLoader([1], collate_fn=Mix())",
        {"__call__"},
    ),
    "a function in a tuple": (
        "def mix(b):\n    pass\nfs = (print, mix)\nDataLoader([1], collate_fn=fs[1])",
        {"mix"},
    ),
    "a dataset that derives": (
        "class More(Data):\n    def __getitem__(self, i):\n        return i\nDataLoader(More(rows))",
        {"__getitem__"},
    ),
    "a list": ("DataLoader([1, 2])", set()),
}


@pytest.mark.parametrize("case", CODE)
def test_code(case: str) -> None:
    text, expected = CODE[case]
    _, found = inputs(text)
    assert {getattr(each, "name", "") for each in found.code} == expected


@pytest.mark.parametrize(
    ("text", "trained"),
    [
        ("DataLoader(data)", False),
        ("DataLoader(Changed(rows, net))", True),
        ("DataLoader(Changed(rows, nn.Flatten()))", False),
        ("DataLoader(Changed(rows, nn.Sequential(net)))", True),
        ("DataLoader(TensorDataset(nn.Parameter(rows)))", True),
        ("DataLoader(TensorDataset(net.weight))", True),
        ("DataLoader(data, collate_fn=lambda b: net(b))", True),
        ("def mix(b):\n    return net(b)\nDataLoader(data, collate_fn=mix)", True),
        ("def f(d):\n    DataLoader(d)\nf(TensorDataset(net.weight))", True),
    ],
)
def test_trained(text: str, trained: bool) -> None:
    assert (inputs(text)[1].trained is not None) is trained


PUT_IN = """
import operator
class Chain:
    def __init__(self, steps):
        self.steps, self.table, self.last = list(steps), {}, None
    def add(self, step):
        self.steps.append(step)
    def register(self, step):
        self.steps.append(step)
        return step
    def __call__(self, x):
        for step in self.steps:
            x = step(x)
        for step in self.table.values():
            x = step(x)
        return x
class Ask:
    def __init__(self, model):
        self.model = model
    def __call__(self, x):
        return self.model(x)
def plain(x):
    return x
chain, kept = Chain([plain]), []
loader = DataLoader(Changed(rows, chain))
"""


@pytest.mark.parametrize(
    ("text", "trained"),
    [
        ("list(map(chain.steps.append, [lambda x: net(x)]))", True),
        ("import itertools; list(itertools.starmap(chain.steps.insert, [(0, lambda x: net(x))]))", True),
        ("import functools; functools.reduce(operator.iadd, [[lambda x: net(x)]], chain.steps)", True),
        ("import functools; functools.reduce(lambda a, b: a.append(b) or a, [lambda x: net(x)], chain.steps)", True),
        ("operator.methodcaller('append', lambda x: net(x))(chain.steps)", True),
        ("put = operator.methodcaller('append', lambda x: net(x))\nput(chain.steps)", True),
        ("operator.iadd(chain.steps, [lambda x: net(x)])", True),
        ("list.append(chain.steps, lambda x: net(x))", True),
        ("put = lambda to, x: to.append(x)\nlist(map(put, [chain.steps], [lambda x: net(x)]))", True),
        ("import bisect; bisect.insort(chain.steps, lambda x: net(x), key=id)", True),
        ("operator.attrgetter('steps')(chain).append(lambda x: net(x))", True),
        ("kinds = {0: chain.steps}\nkinds.setdefault(0, []).append(lambda x: net(x))", True),
        ("object.__setattr__(chain, 'steps', [lambda x: net(x)])", True),
        ("for k, v in {'steps': [lambda x: net(x)]}.items():\n    setattr(chain, k, v)", True),
        ("for f in [plain, lambda x: net(x)]:\n    chain.steps.append(f)", True),
        ("chain.steps.extend(f for f in [lambda x: net(x)])", True),
        ("chain.steps.extend(filter(None, [lambda x: net(x)]))", True),
        ("list(map(chain.steps.append, [lambda x: 2 * x]))", False),
        ("operator.methodcaller('append', lambda x: 2 * x)(chain.steps)", False),
        ("operator.methodcaller('append', lambda x: net(x))(kept)", False),
        ("list(map(kept.append, [lambda x: net(x)]))", False),
        ("print(len(chain.steps), net)", False),
        ("chain.steps.append(lambda x: net(x))", True),
        ("ask = lambda x: net(x)\nchain.steps.append(ask)", True),
        ("chain.steps.append(Ask(net))", True),
        ("chain.steps.append(net)", True),
        ("chain.steps.append(net.weight)", True),
        ("chain.add(lambda x: net(x))", True),
        ("loader.dataset.change.steps.append(lambda x: net(x))", True),
        ("loader.dataset.change.add(lambda x: net(x))", True),
        ("chain.steps.insert(0, lambda x: net(x))", True),
        ("chain.steps.extend([plain, lambda x: net(x)])", True),
        ("chain.steps += [lambda x: net(x)]", True),
        ("chain.steps[0] = lambda x: net(x)", True),
        ("steps = chain.steps\nsteps += [lambda x: net(x)]", True),
        ("chain.table.update(a=lambda x: net(x))", True),
        ("chain.table.setdefault('a', lambda x: net(x))", True),
        ("chain.steps = [lambda x: net(x)]", True),
        ("loader.dataset.change = lambda x: net(x)", True),
        ("setattr(loader.dataset, 'change', lambda x: net(x))", True),
        ("operator.setitem(chain.steps, 0, lambda x: net(x))", True),
        ("add = chain.steps.append\nadd(lambda x: net(x))", True),
        ("def make():\n    def ask(x):\n        return net(x)\n    return ask\nchain.steps.append(make())", True),
        ("@chain.register\ndef ask(x):\n    return net(x)", True),
        ("@chain.register\ndef ask(x):\n    return x", False),
        ("kept.append(lambda x: net(x))\nkept.append(net)", False),
        ("chain.steps.append(plain)", False),
        ("chain.steps.append(lambda x: x * 2)", False),
        ("chain.last = net", False),
        ("chain.table['a'] = 3", False),
    ],
)
def test_put_in_once_it_was_made(text: str, trained: bool) -> None:
    assert (inputs(PUT_IN + text)[1].trained is not None) is trained


@pytest.mark.parametrize(
    ("decorator", "may_run"), [("register('ask')", True), ("timed", False), ("torch.no_grad()", False)]
)
def test_functions_that_a_decorator_puts_into_a_table(decorator: str, may_run: bool) -> None:
    text = f"""
TABLE = {{}}
def register(name):
    def keep(f):
        TABLE[name] = f
        return f
    return keep
def timed(f):
    def inner(*a):
        return f(*a)
    return inner
@{decorator}
def ask(x):
    return net(x)
def make(name):
    return DataLoader(Changed(rows, TABLE[name]))
"""
    assert ("ask" in {getattr(each, "name", "") for each in inputs(text)[1].possible_code}) is may_run


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
