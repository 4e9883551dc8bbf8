"""What the batches of a loader are made from: the code that is reached, and what may be trained."""

from __future__ import annotations

import pytest

from autoaccel.analysis import load
from autoaccel.pytorch.input_search import find_inputs
from autoaccel.pytorch.loader_calls import loader_calls
from autoaccel.pytorch.loader_inputs import LoaderInputs

HEAD = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, Sampler, TensorDataset
scale, table = 2, [1]
net = nn.Linear(8, 2)
class Data(Dataset):
    def __init__(self, rows, change=None):
        self.rows, self.change = rows, change
    def __getitem__(self, i):
        return self.rows[i] * scale + len(table)
class Changed(Data):
    def __getitem__(self, i):
        return self.change(self.rows[i])
class Order(Sampler):
    def __iter__(self):
        return iter([2, 1])
rows = torch.ones(4)
data, order = Data(rows), Order()
"""


def inputs(text: str) -> LoaderInputs:
    script = load(f"{HEAD}{text}\n")
    [made] = loader_calls(script)
    return find_inputs(script, made)


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
    found = inputs(text)
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
    assert (inputs(text).trained is not None) is trained


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
    assert (inputs(PUT_IN + text).trained is not None) is trained


@pytest.mark.parametrize(
    ("decorator", "may_run"), [("register('ask')", True), ("timed", True), ("torch.no_grad()", False)]
)
def test_functions_that_a_decorator_hands_on(decorator: str, may_run: bool) -> None:
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
    found = inputs(text)
    assert ("ask" in {getattr(each, "name", "") for each in (*found.code, *found.possible_code)}) is may_run
