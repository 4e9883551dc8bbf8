"""Datasets that scripts write: their `__getitem__` is read, and understood or left alone."""

from __future__ import annotations

import linecache
import random
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Dataset, Subset

from autoaccel.runtime.in_memory.eligible_loaders import begin
from tests.runtime.in_memory.comparing import CPU, content, found, left_to_torch, same, whole

COUNT = 30


class Held(Dataset[Any]):
    """All that a dataset may hold."""

    def __init__(self) -> None:
        numbers = np.random.RandomState(0)
        self.x = numbers.randn(COUNT, 4)
        self.x32 = self.x.astype(np.float32)
        self.u8 = numbers.randint(0, 255, (COUNT, 3), dtype=np.uint8)
        self.y = np.arange(COUNT) % 3
        self.flags = self.y > 1
        self.t = torch.from_numpy(self.x32 + 1)
        self.labels = torch.arange(COUNT)
        self.names = list(range(COUNT))
        self.floats = [number / 7 for number in range(COUNT)]
        self.order = list(range(COUNT - 1, -1, -1))
        self.picks = np.arange(COUNT)[::-1].copy()
        self.parts = {"x": self.t, 0: self.y}
        self.transform: Any = None
        self.test = False
        self.size, self.scale = 5, 0.5
        self.text = "".join("abc "[number % 4] for number in numbers.randint(0, 99, COUNT))
        self.stoi = {"a": 1, "b": 7, "c": 2, " ": 0}
        self.texts = [str(number) for number in range(COUNT)]
        self.objects = np.array([None] * COUNT)
        self.frozen = np.arange(COUNT)
        self.frozen.flags.writeable = False

    def __len__(self) -> int:
        return COUNT - 6


UNDERSTOOD = [
    "return self.x[i], self.y[i]",
    "return self.t[i], self.labels[i]",
    "return self.x[i]",
    "return (self.u8[i], self.flags[i])",
    "return [self.x[i], self.t[i]]",
    "return {'x': self.x[i], 'y': self.y[i], 'both': (self.t[i], self.names[i])}",
    "return self.names[i], self.floats[i]",
    "return self.parts['x'][i], self.parts[0][i]",
    "return torch.tensor(self.x[i]), torch.tensor(self.y[i]), torch.tensor(self.names[i])",
    "return torch.tensor(self.floats[i]), torch.tensor(self.x[i], dtype=torch.float32)",
    "return torch.tensor(self.y[i], dtype=torch.long), torch.tensor(self.y[i], dtype=torch.float)",
    "return torch.from_numpy(self.x[i]).float(), int(self.y[i])",
    "return torch.as_tensor(self.x32[i]), float(self.y[i]), float(self.floats[i])",
    "return torch.Tensor(self.x[i]), torch.FloatTensor(self.x[i]), torch.LongTensor([self.y[i]])",
    "return torch.tensor([self.y[i]], dtype=torch.float), torch.tensor([self.names[i]])",
    "return self.x[i].astype(np.float32), self.y[i].astype('int32'), np.float32(self.x[i])",
    "x = self.x[i].astype(np.float32)\ny: int = self.y[i]\nreturn x, y",
    "'A docstring.'\nsample = {'x': self.x[i]}\nreturn sample",
    "x, y = self.x[i], self.y[i]\nreturn y, x",
    "return self.t[i].clone(), self.t[i].double(), self.t[i].half(), self.t[i].to(torch.int32), self.t[i].numpy()",
    "return self.x[i].copy(), self.labels[i].item(), self.y[i].item()",
    "return self.t[i].unsqueeze(0), self.t[i].view(2, 2), self.t[i].reshape(4, 1), self.t[i].view(2, 2).permute(1, 0)",
    "return self.x[i, :2], self.x[i, 0], self.x[i][1:], self.t[i, -1], self.t[i][0], self.t[i].view(2, 2)[1]",
    "return self.x32[i] / 255.0, self.u8[i] / 255, self.t[i] * self.scale, (self.t[i] - 0.5) / 0.25, self.x[i] + -1",
    "return self.t[self.order[i]], self.x[self.picks[i]], self.names[self.labels[i]]",
    "return i, self.x[i]",
    "return i + 1, self.x[i + 1], self.names[2 + i], self.t[i * 1 + 3 - 1], self.x[-i + 24], self.t[self.order[i + 1]]",
    "return self.t[i:i + self.size], self.x[i + 1:i + self.size + 1], self.u8[i:i + 1], self.labels[2 + i:i + 5]",
    "s = i\ne = s + self.size\nb = e - 2\nreturn self.x[s:e], self.x32[b:b + 3], self.y[b:b + 3]",
    "return self.t[i:i + 4][1:], self.x[i:i + 4, 1], self.x[i:i + 4, :2], self.x[i:i + 4, -1].astype(np.float32)",
    "x = torch.from_numpy(self.x32[i:i + 4]).double()\nreturn x[:-1], x[1:], self.t[i:i + 4].view(2, 8) / 2",
    "if torch.is_tensor(i):\n    i = i.tolist()\nreturn self.x[i]",
    "if isinstance(i, torch.Tensor):\n    i = i.item()\nreturn self.x[i]",
    "x = self.x[i]\nif self.transform:\n    x = self.transform(x)\nreturn x",
    "x = self.x[i]\nif self.transform is not None:\n    x = self.transform(x)\nreturn x",
    "if not self.test:\n    return self.x[i], self.y[i]\nreturn self.x[i]",
]  # fmt: skip

LEFT = {
    "return self.texts[i], self.x[i]": "looks something up in a list",
    "return self.objects[i] is None": "an expression like",
    "return self.frozen[i]": "looks something up in a ndarray",
    "return self.x[i], random.random()": "calls `random.random`",
    "print(i)\nreturn self.x[i]": "a statement like `print(i)`",
    "self.seen = i\nreturn self.x[i]": "assigns to `self.seen`",
    "x = self.x[i]\nx += 1\nreturn x": "a statement like `x += 1`",
    "return self.x[i] @ self.x[i]": "computes something",
    "return self.x[i] ** 2": "computes something",
    "return self.x[i].sum()": "calls .sum",
    "return self.x[i] - self.x[i].mean()": "calls .mean",
    "return torch.stack([self.t[i], self.t[i]])": "calls `torch.stack`",
    "return torch.rand(2), self.x[i]": "calls `torch.rand`",
    "return np.random.permutation(self.x[i])": "calls `np.random.permutation`",
    "return self.x[i % 3]": "computes",
    "return self.x[i // 2]": "computes",
    "return self.x[i / 2]": "computes something of the index",
    "return self.x[i + 0.0]": "computes something of the index",
    "return self.x[i - i]": "computes something of the index",
    "return self.x[i + 2**40]": "computes something",
    "return self.x[i * 4294967296]": "computes something of the index",
    "return self.x[self.names[i]:self.names[i] + 2]": "computes",
    "return self.t[i:]": "by another thing than the index",
    "return self.t[i:i + 5:2]": "an expression like",
    "return self.t[i:2 * i]": "no window",
    "return self.t[i:i]": "no window",
    "return self.t[i + 3:i]": "no window",
    "return self.names[i:i + 2]": "no window",
    "return self.t[i:i + 99]": "no window",
    "return self.text[i:i + 2]": "no window",
    "return self.x[i], 0": "hold a int",
    "return self.x[0]": "by another thing than the index",
    "return self.x[:i]": "by another thing than the index",
    "return self.x[i] if self.test else self.t[i]": "an expression like",
    "return self.x[i], self": "an expression like `self`",
    "return self.x[i], 'text'": "hold a str",
    "return self.x[i], None": "hold a NoneType",
    "return self.missing[i]": "not a plain attribute",
    "return self.__len__()": "an expression like `self`",
    "return [x for x in self.x[i]]": "an expression like",
    "return torch.tensor([self.stoi[c] for c in self.text[i:i + 4]])": "an expression like",
    "for x in self.x:\n    return x": "a statement like",
    "with torch.no_grad():\n    return self.x[i]": "a statement like",
    "try:\n    return self.x[i]\nexcept IndexError:\n    return self.x[0]": "a statement like",
    "x = self.x[i]\nif x.any():\n    x = 1\nreturn x": "decides by",
    "if i > 3:\n    return self.x[i]\nreturn self.x[i]": "decides by",
    "return torch.Tensor(self.names[i])": "in another way",
    "return int(self.floats[i])": "",
    "return torch.tensor(self.x[i], requires_grad=True)": "makes something out of",
    "import os\nreturn self.x[i]": "a statement like",
    "x = lambda: self.x[i]\nreturn x()": "an expression like",
    "pass": "returns nothing",
}


def dataset(body: str, name: str = "__getitem__", start: str = "def {}(self, i):") -> Any:
    """A dataset with such a method, from a file that is only in memory."""
    lines = [f"        {line}" for line in body.split("\n")]
    text = "\n".join(["import random", "import numpy as np", "import torch", "", "class Own(Held):",
                      f"    {start.format(name)}", *lines, ""])  # fmt: skip
    filename = f"<dataset {body!r} {start}>"
    linecache.cache[filename] = (len(text), None, text.splitlines(True), filename)
    names: dict[str, Any] = {"Held": Held}
    exec(compile(text, filename, "exec"), names)
    return names["Own"]()


@pytest.mark.parametrize("body", UNDERSTOOD)
@pytest.mark.filterwarnings("ignore:To copy construct")
def test_understood(body: str) -> None:
    own = dataset(body)
    same(lambda: DataLoader(own, batch_size=7, shuffle=True))
    same(lambda: DataLoader(Subset(own, [5, 0, 2]), batch_size=1), passes=1)


@pytest.mark.parametrize("body", LEFT)
def test_left_alone(body: str) -> None:
    own = dataset(body)
    loader = DataLoader(own, batch_size=7)
    batches = begin(loader, CPU)
    if batches is not None:
        want = _outcome(iter(loader))
        assert _outcome(batches) == want
    assert LEFT[body] in found(loader).given_up
    assert found(loader).given_up


PAST_AN_END = [
    "return self.t[i:i + 8]",
    "return self.x[i - 2:i + 2], self.y[i - 2]",
    "return self.x[i + 2:i + 10], self.t[i]",
    "return self.t[-i - 4:-i]",
    "return self.t[2 * i:2 * i + 5]",
    "return self.t[i * 2]",
]


@pytest.mark.parametrize("body", PAST_AN_END)
@pytest.mark.parametrize("size", [1, 4])
def test_windows_past_an_end_are_as_python_cuts_them(body: str, size: int) -> None:
    own = dataset(body)
    batches = begin(loader := DataLoader(own, batch_size=size), CPU)
    assert batches is not None
    assert _outcome(map(content, batches)) == _outcome(map(content, loader))


def test_windows_show_what_was_changed() -> None:
    def batches(start: Any) -> list[Any]:
        own = dataset("return self.x[i:i + self.size]")
        seen = []
        for at, batch in enumerate(start(DataLoader(own, batch_size=2, sampler=range(12)))):
            seen.append(content(batch))
            own.x[at * 2] += 1
            own.size = 3 + at // 2
            if at == 4:
                own.x = own.x[::-1].copy()
        return seen

    assert batches(whole) == batches(iter)


@pytest.mark.parametrize("body", ["torch.tensor(self.floats[i]) / 3", "torch.tensor([self.floats[i]]).double()"])
def test_numbers_are_rounded_before_they_are_computed_with(body: str) -> None:
    own = dataset(f"return {body}")
    own.floats = [0.0, 1.0, *own.floats]  # the first batch does not tell
    same(lambda: DataLoader(own, batch_size=2))
    assert not found(loader := DataLoader(own)).given_up and found(loader).fits()


def test_numpy_1_computes_with_single_numbers_in_another_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(np, "__version__", "1.26.4")
    left_to_torch(lambda: DataLoader(dataset("return self.x32[i, 0] * 0.1")), "numpy 1")
    same(lambda: DataLoader(dataset("return self.x32[i] * 0.1")))


def _outcome(batches: Any) -> str:
    try:
        return repr(list(batches))
    except Exception as failure:
        return repr(failure)


@pytest.mark.parametrize(
    ("start", "reason"),
    [
        ("def {}(self, i=0):", "other parameters"),
        ("def {}(self, *i):", "other parameters"),
        ("def {}(self, i, /):", "other parameters"),
        ("@torch.no_grad()\n    def {}(self, i):", "not a plain method"),
        ("@staticmethod\n    def {}(i):", "not a plain method"),
        ("async def {}(self, i):", "no text to read"),
    ],
)
def test_other_methods_are_left_alone(start: str, reason: str) -> None:
    left_to_torch(lambda: DataLoader(dataset("return self.x[i]", start=start)), reason)


def test_what_a_closure_holds_is_not_read() -> None:
    outside = torch.ones(COUNT)

    class Own(Held):
        def __getitem__(self, i: int) -> Any:
            return self.x[i], outside[i]

    left_to_torch(lambda: DataLoader(Own()), "not a plain method")


class InThisFile(Held):
    """Read from the file itself; annotations are not part of what runs."""

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        """Rows and labels."""
        row = torch.from_numpy(self.x[index])

        return row.float(), int(self.y[index])


def test_in_a_file() -> None:
    same(lambda: DataLoader(InThisFile(), batch_size=4, shuffle=True))


def test_a_text_that_is_not_what_runs_is_not_read() -> None:
    own = dataset("return self.x[i]")
    filename = type(own).__getitem__.__code__.co_filename
    text = "".join(linecache.cache[filename][2]).replace("self.x[i]", "self.x32[i]")  # type: ignore[misc]
    linecache.cache[filename] = (len(text), None, text.splitlines(True), filename)
    left_to_torch(lambda: DataLoader(own), "no text to read")


def test_a_text_that_moved_is_found() -> None:
    own = dataset("return self.y[i]")
    filename = type(own).__getitem__.__code__.co_filename
    text = "# a line more\n" + "".join(linecache.cache[filename][2])  # type: ignore[misc]
    linecache.cache[filename] = (len(text), None, text.splitlines(True), filename)
    same(lambda: DataLoader(own, batch_size=4))


def test_names_that_mean_something_else() -> None:
    own = dataset("return int(self.y[i]), torch.tensor(self.x[i])")
    own.__getitem__.__func__.__globals__["int"] = lambda value: random.randint(0, value)
    left_to_torch(lambda: DataLoader(own), "calls `int`")
