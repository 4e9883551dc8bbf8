"""What the batches of a loader are made from, and whether a loop changes it."""

from __future__ import annotations

import ast

import pytest

from autoaccel.analysis import load
from autoaccel.pytorch.loader_calls import loader_calls
from autoaccel.pytorch.loader_changes import drawn_beside, loader_state
from autoaccel.pytorch.loader_loops import loader_loops

SCRIPT = """\
import random
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset, Sampler, Subset

class Base:
    def after(self):
        pass

class Options:
    scale = 1

def factor(of=[1]):
    return of[0] * factor.by
factor.by = 1

class Data(Dataset):
    def __init__(self, helper=None):
        self.x = torch.randn(64, 8)
        self.width, self.unread, self.helper = 1, 1, helper
    def __len__(self):
        return len(self.x)
    def __getitem__(self, i):
        return {item}
    def widen(self):
        self.width += 1
    def note(self):
        self.unread += 1
    def describe(self):
        return self.width

class Order(Sampler):
    def __init__(self, weights):
        self.weights, self.last = weights, 0
    def __iter__(self):
        self.last = 1
        return iter(self.weights.argsort().tolist())

weights = torch.ones(64)
order, data, net = Order(weights), Data({given}), nn.Linear(8, 8)
loader = DataLoader({dataset}, sampler=order)
"""


def state_of(
    body: str, *, before: str = "", item: str = "self.x[i] * self.width * Options.scale * factor()", **parts: str
) -> str | None:
    text = SCRIPT.format(item=item, given=parts.get("given", ""), dataset=parts.get("dataset", "data"))
    script = load(f"{text}{before}\nfor epoch in range(2):\n    for x in loader:\n        {body}\n")
    (loop,) = loader_loops(script)
    return drawn_beside(script, loop)


@pytest.mark.parametrize(
    "body",
    [
        "data.width = 2",
        "data.width += 1",
        "data.widen()",
        "loader.dataset.widen()",
        "loader.dataset.x[0] = 1",
        "data.x[0].mul_(2)",
        "setattr(data, 'width', 2)",
        "order.weights[0] = 2",
        "order.weights = x",
        "weights[0] = 2",
        "weights.zero_()",
        "torch.add(x, x, out=weights)",
        "random.shuffle(weights)",
        "loader.sampler.weights = x",
        "unknown.sampler.update(x)",
        "print(order.last)",
        "[data.widen() for _ in x]",
        "data.x.data = x",
        "data.x.data.copy_(x)",
        "w = weights.view(-1); w.zero_()",
        "w = torch.from_dlpack(weights); w.zero_()",
        "from torch.utils import dlpack; w = dlpack.from_dlpack(dlpack.to_dlpack(weights)); w.zero_()",
        "w = weights.numpy(); w[0] = 1",
        "torch.squeeze(weights).zero_()",
        "torch.nn.functional.relu(data.x, inplace=True)",
        "torch.nn.functional.relu(data.x, True)",
        "nn.ReLU(inplace=True)(weights)",
        "import operator; operator.imul(weights, 2)",
        "weights.__imul__(2)",
        "getattr(weights, 'mul_')(2)",
        "f = weights.mul_; f(2)",
        "m = memoryview(weights.numpy()); m[0] = 1.0",
        "weights.untyped_storage().fill_(0)",
        "unseen.shuffle(weights)",
        "import library; library.change(weights)",
        "unknown(weights)",
        "setattr(unknown, 'width', 2)",
        "type(net).options.width = 2",
        "import __main__ as me; me.data.width = 2",
        "Options.scale = 2",
        "factor.by = 2",
        "factor.__defaults__[0][0] = 2",
        "torch._foreach_mul_([weights], 2)",
        "unknown.scale = 2",
    ],
)
def test_changed_while_it_is_read(body: str) -> None:
    assert state_of(body) is not None


@pytest.mark.parametrize(
    "body",
    [
        "pass",
        "data.unread = 2",
        "data.note()",
        "print(data.describe(), data.width, len(loader.dataset))",
        "y = Data()",
        "x[0] = 2",
        "x.mul_(2)",
        "other = torch.zeros(3); other.zero_()",
        "loader.sampler.get_weights()",
        "random.shuffle([1, 2])",
        "w = weights.clone(); w.zero_()",
        "w = x.view(-1); w.zero_()",
        "torch.add(x, x, out=x)",
        "nn.ReLU(inplace=True)(x)",
        "nn.ReLU()(weights)",
        "import operator; operator.mul(weights, 2)",
        "f = x.mul_; f(2)",
        "import library; library.change(x)",
        "import matplotlib.pyplot as plt; plt.plot(weights)",
        "unknown(x, len(weights))",
        "setattr(unknown, 'unread', 2)",
        "unknown.other = 2",
    ],
)
def test_only_read(body: str) -> None:
    assert state_of(body) is None


@pytest.mark.parametrize(
    ("before", "body", "changes"),
    [
        ("data.widen()", "pass", False),
        ("def deep():\n    data.widen()\ndef outer():\n    deep()", "outer()", True),
        ("def deep():\n    data.widen()\ndef outer():\n    deep()", "pass", False),
        ("def later():\n    data.widen()\nnet.register_forward_hook(later)", "net(x)", True),
        ("class Mine(Base):\n    def after(self):\n        data.widen()\nthing: Base = Mine()", "Base().after()", True),
        ("def steps():\n    data.widen()\n    yield 1\nfor _ in steps():\n    break", "pass", False),
        ("def f(d):\n    d.width = 3", "f(data)", True),
        ("def f(d):\n    d.width = 3", "f(Base())", False),
        ("use(data.widen)", "pass", True),
        ("use(loader.dataset.widen)", "pass", True),
        ("use(weights.fill_)", "pass", True),
        ("rows = [1]\nlater = Data(rows)\nuse(loader.dataset.x.__setitem__)", "pass", True),
        ("add = weights.__setitem__", "add(0, 1)", True),
        ("add = weights.__setitem__\nadd(0, 1)", "pass", False),
        ("from functools import partial\nuse(partial(setattr, data, 'width'))", "pass", True),
        ("from functools import partial\nuse(partial(torch.add, weights, out=weights))", "pass", True),
        ("from functools import partial\nuse(partial(unseen, data.x))", "pass", True),
        (
            "from functools import partial\nuse(partial(print, data.x), partial(Data, data.x), losses.append)",
            "pass",
            False,
        ),
        ("use(data.describe, data.x.clone, weights.sum)", "pass", False),
        ("use(getattr(weights, 'clone'))", "pass", False),
        ("use(getattr(weights, 'zero_'))", "pass", True),
    ],
)
def test_when_it_is_changed(before: str, body: str, changes: bool) -> None:
    assert (state_of(body, before=before) is not None) is changes


@pytest.mark.parametrize(
    ("item", "given", "trained"),
    [
        ("self.helper(self.x[i])", "nn.Linear(8, 8)", True),
        ("self.helper(self.x[i])", "nn.Sequential(nn.Flatten(0), nn.Linear(8, 8))", True),
        ("self.helper(self.x[i])", "nn.Sequential(nn.Flatten(0), nn.ReLU())", False),
        ("self.helper(self.x[i])", "lambda x: net(x)", True),
        ("self.helper(self.x[i])", "lambda x: x * 2", False),
        ("self.helper[i]", "nn.Parameter(torch.ones(64))", True),
        ("self.helper[i]", "net(torch.ones(64, 8)).detach()", False),
        ("self.x[i] * net.weight", "", True),
        ("self.x[i]", "net", False),
    ],
)
def test_trained(item: str, given: str, trained: bool) -> None:
    assert (state_of("pass", item=item, given=given) is not None) is trained


COUNT = "self.x[i] if seen.append(i) is None else 0"


@pytest.mark.parametrize(
    ("before", "body", "reads"),
    [
        ("seen = []", "print(len(seen))", True),
        ("seen = []", "if x.sum() > 3: break\nprint(len(seen))", True),
        ("seen = []", "pass\nprint(len(seen))", False),
    ],
    ids=["beside it", "after a loop that may be left", "after the loop"],
)
def test_what_samples_note_is_read(before: str, body: str, reads: bool) -> None:
    assert (state_of(body, before=before, item=COUNT) is not None) is reads


KEPT = """\
import heapq
import random
import h5py
import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset
count = 0
class Data(Dataset):
    def __init__(self):
        self.rows, self.images, self.paths = torch.randn(64, 4), np.zeros((64, 4)), ["a"] * 64
        self.a = self.b = self.seen = 0
        self.heap, self.file, self.transform = [], None, torch.nn.Identity()
        self.noise = torch.default_generator
    def bump(self):
        self.seen += 1
    def __getitem__(self, i):
        {item}
loader = DataLoader(Data())
for x in loader:
    {body}
"""


@pytest.mark.parametrize(
    ("item", "keeps", "carries"),
    [
        ("return self.rows[i]", False, False),
        ("self.seen = i; return self.rows[i]", True, False),
        ("self.seen += 1; return self.rows[i]", True, False),
        ("self.seen += 1; return self.rows[i] * self.seen", True, True),
        ("self.bump(); return self.seen", True, True),
        ("self.a, self.b = self.b, self.a; return self.a", True, True),
        ("self.a: int = self.a + 1; return self.a", True, True),
        ("setattr(self, 'seen', i); return self.seen", True, True),
        ("vars(self)['seen'] += 1; return self.seen", True, True),
        ("del self.paths[0]; return self.paths[i]", True, True),
        ("random.shuffle(self.paths); return self.paths[i]", True, True),
        ("heapq.heappush(self.heap, i); return self.heap[0]", True, True),
        ("self.heap.append(i); return len(self.heap)", True, True),
        ("self.rows[i].mul_(2); return self.rows[i]", True, True),
        ("row = self.rows[i]; row += 1; return row", True, True),
        ("image = self.images[i]; image -= 0.5; return image", True, True),
        ("image, path = self.images[i], self.paths[i]; image *= 0.5; return image", True, True),
        ("pair = self.images[i], self.paths[i]; image, path = pair; image *= 0.5; return image", True, True),
        ("image, (row, path) = self.images[i], (self.rows[i], i); row *= 0.5; return row", True, True),
        ("image, n = self.images[i].copy(), i; image *= 0.5; return image", False, False),
        ("image, n = self.images[i], i; n *= 2; return image", False, False),
        ("image = self.images[i]; image[0] = 0.5; return image", True, True),
        ("image = self.images[i]; np.add(image, 1, out=image); return image", True, True),
        ("rows = self.rows; rows += 1; return rows[i]", True, True),
        ("global count; count += 1; return count", True, True),
        ("[self.rows[i] for self.seen in range(3)]; return self.seen", True, True),
        ("row = self.rows[i].clone(); row += 1; return row", False, False),
        ("image = self.images[i] - 0.5; image += 1; return image", False, False),
        ("image = self.images[i].astype('float64'); image -= 1; return image", False, False),
        ("found = []; found.append(i); return found", False, False),
        ("row = self.images[i]; row = np.array([row]); row += 1; return row", False, False),
        ("row = self.heap[i]; row = row[:3]; row += [0] * 3; return row", False, False),
        ("row = self.heap[i]; row += [0] * 3; return row", True, True),
        ("path = self.paths[i]; path += '.png'; return path", False, False),
        ("i += 1; return self.rows[i]", False, False),
        ("return self.transform(self.rows[i])", False, False),
        ("return torch.randn(4, generator=self.noise)", False, False),
        ("torch.randn(4, generator=self.noise, out=self.rows[i]); return self.rows[i]", True, True),
        ("return cv2.imread(self.paths[i])", False, False),
        ("self.file = h5py.File('a'); return self.file[i]", False, False),
    ],
)
def test_what_one_sample_leaves_for_the_next(item: str, keeps: bool, carries: bool) -> None:
    """Each worker would keep its own; one batch too many matters where a loop is left, not for what is stored anew."""

    def reason(body: str, *, in_workers: bool) -> str | None:
        script = load(KEPT.format(item=item, body=body))
        state = loader_state(script, next(iter(loader_calls(script))))
        return state.problem([(script, next(iter(script.find(ast.For))))], in_workers=in_workers)

    assert ("keeps something" in (reason("pass", in_workers=True) or "")) is keeps
    assert reason("pass", in_workers=False) is None
    assert ("nobody asked for" in (reason("if x.sum(): break", in_workers=False) or "")) is carries


def test_a_method_that_is_put_in_the_place_of_another() -> None:
    before = "factors = [1.0]\nData.__getitem__ = lambda self, i: self.x[i] * factors[0]"
    assert state_of("factors[0] = 2", before=before) is not None
    assert state_of("factors[0] = 2", before="factors = [1.0]") is None


def test_a_subset_is_changed_with_its_dataset() -> None:
    assert state_of("data.width = 2", dataset="Subset(data, [1, 2])") is not None
    assert state_of("loader.dataset.indices = [1]", dataset="Subset(data, [1, 2])") is not None


def test_workers_hold_no_order() -> None:
    script = load(SCRIPT.format(item="self.x[i]", given="", dataset="data") + "order.weights = weights * 2\n")
    (made,) = loader_calls(script)
    assert loader_state(script, made).changed_after(script, made.call)
    assert not loader_state(script, made, in_workers=True).changed_after(script, made.call)


@pytest.mark.parametrize(
    ("body", "changed"),
    [
        ("it = make()\nfor x in it:\n    pass\ndata.width = 2\n", True),
        ("data.width = 2\nit = make()\n", False),
        ("def fit():\n    it = make()\n    for epoch in range(2):\n        data.widen()\nfit()\n", True),
        ("def fit():\n    data.widen()\n    it = make()\nfit()\n", False),
        ("def later():\n    data.widen()\nit = make()\nregister(later)\n", True),
        ("class Mode:\n    def __enter__(self):\n        data.widen()\nit = make()\nwith Mode():\n    pass\n", True),
        ("it = make()\ndata.unread = 2\n", False),
    ],
    ids=[
        "behind the call of what makes it",
        "before it",
        "in its caller's loop",
        "in its caller, before it",
        "handed over",
        "by a context",
        "of what is not read",
    ],
)
def test_changed_after_a_function_has_made_it(body: str, changed: bool) -> None:
    text = SCRIPT.format(item="self.x[i] * self.width", given="", dataset="data")
    text = text.replace("loader = DataLoader(data", "def make():\n    return DataLoader(data")
    script = load(text + body)
    (made,) = loader_calls(script)
    assert loader_state(script, made).changed_after(script, made.call) is changed


@pytest.mark.parametrize(
    ("before", "item", "body", "changed"),
    [
        ("import mining\nmining.keep(data)", "self.x[i]", "mining.step()", True),
        ("from mining import Miner\nminer = Miner(data)", "self.x[i]", "miner.step()", True),
        ("import mining\nminer = mining.make(order)", "self.x[i]", "mining.step()", True),
        ("import mining", "mining.change(self.x[i])", "mining.step()", True),
        ("import mining", "mining.change(self.x[i])", "pass", False),
        ("import mining", "self.x[i]", "mining.step(x)", False),
        ("import cv2", "cv2.flip(self.x[i])", "cv2.imshow('a', x)", False),
    ],
)
def test_a_module_out_of_sight(before: str, item: str, body: str, changed: bool) -> None:
    assert (state_of(body, before=before, item=item) is not None) is changed


def test_what_a_module_out_of_sight_keeps_is_kept_by_each_worker() -> None:
    text = SCRIPT.format(item="mining.change(self.x[i])", given="", dataset="data")
    script = load(f"import mining\n{text}for x in loader:\n    pass\n")
    (made,) = loader_calls(script)
    assert "`mining` is not seen" in (loader_state(script, made).problem([], in_workers=True) or "")
    assert loader_state(script, made).problem([]) is None


@pytest.mark.parametrize(
    ("item", "keeper"),
    [
        ("return self.x[i]", None),
        ("self.count += 1; return self.x[i]", "__getitem__"),
        ("self.cache[i] = 1; return 1", "__getitem__"),
        ("self.seen.append(i); return 1", "__getitem__"),
        ("self.file = h5py.File('x'); return self.file[i]", None),
        ("x = self.x[i]; x[0] = 1; return x", "__getitem__"),  # of a tensor, a view
        ("x = self.x[i].clone(); x[0] = 1; return x", None),
        ("Rows.count += 1; return 1", "__getitem__"),
        ("LOADED[i] = 1; return 1", "__getitem__"),
        ("LOADED.append(i); return 1", "__getitem__"),
        ("return torch.sort(self.x[i])", None),
        ("found = []; found.append(i); return found", None),
        ("return self.read(i)", "read"),
    ],
)
def test_keeper(item: str, keeper: str | None) -> None:
    script = load(
        "import h5py\nimport torch\nfrom torch.utils.data import DataLoader, Dataset\nLOADED = {}\n"
        f"class Rows(Dataset):\n    def __getitem__(self, i):\n        {item}\n"
        "    def read(self, i):\n        self.last = i\n        return i\nDataLoader(Rows())\n"
    )
    (made,) = loader_calls(script)
    assert loader_state(script, made, in_workers=True).keeper == keeper
