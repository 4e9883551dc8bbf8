"""Which device a place can name: by words that are surely bound there, and still mean the same."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from autoaccel.analysis import Project, load
from autoaccel.analysis.files import Files
from autoaccel.dataflow.bounds import Bounds
from autoaccel.edits import InsertAfter
from autoaccel.pytorch.device_expressions import is_used, named_device, precedes, visible_device

GUARD = "if __name__ == '__main__':\n    args = read()\n"
DEVICE = "device = torch.device('cuda')\n"

# By case: a script with one statement `here()`, and the device that it can name.
VISIBLE = {
    "none": ("here()", None),
    "where data went": (DEVICE + "x = x.to(device)\nhere()", "device"),
    "where something is made": (DEVICE + "x = torch.zeros(3, device=device)\nhere()", "device"),
    "in the same statement": (DEVICE + "here(x.to(device))", "device"),
    "only below": (DEVICE + "here()\nx = x.to(device)", None),
    "of several, the nearest": ("a, b = torch.device('cuda:0'), torch.device('cuda:1')\nx.to(a)\nx.to(b)\nhere()", "b"),
    "the host": ("cpu = torch.device('cpu')\nx = x.to(cpu)\nhere()", None),
    "the host behind the device": (DEVICE + "cpu = torch.device('cpu')\nx.to(device)\nx.to(cpu)\nhere()", "device"),
    "a type": ("kind = torch.float16\nx = x.to(kind)\nhere()", None),
    "text": ("x = x.to('cuda')\nhere()", None),
    "under a condition": ("if t:\n    d = torch.device('cuda')\n    x.to(d)\nhere()", None),
    "beside it under a condition": ("if t:\n    d = torch.device('cuda')\n    x.to(d)\n    here()", "d"),
    "in the other branch": ("if t:\n    d = torch.device('cuda')\n    x.to(d)\nelse:\n    here()", None),
    "around a loop": (DEVICE + "x.to(device)\nfor x in xs:\n    here()", "device"),
    "bound anew in between": (DEVICE + "x.to(device)\ndevice = torch.device('cpu')\nhere()", None),
    "of the module, in a function": (DEVICE + "x.to(device)\ndef f():\n    here()", "device"),
    "of the module, hidden by a parameter": (DEVICE + "x.to(device)\ndef f(device=None):\n    here()", None),
    "of the module, hidden by a name": (DEVICE + "x.to(device)\ndef f():\n    device = 1\n    here()", None),
    "of the module, under its guard": (
        "def f():\n    here()\nif __name__ == '__main__':\n    device = torch.device('cuda')\n    f(x.to(device))",
        None,
    ),
    "of the module, under its guard beside what the function needs": (
        f"def f():\n    for x in xs:\n        here()\n        print(args.n)\n{GUARD}    {DEVICE}    f(x.to(device))",
        "device",
    ),
    "of the module, under its guard beside what the function may need": (
        f"def f():\n    here()\n    if t:\n        print(args.n)\n{GUARD}    {DEVICE}    f(x.to(device))",
        None,
    ),
    "of the module, under its guard beside what the function needs unless it ends": (
        f"def f():\n    here()\n    if t:\n        return\n    print(args.n)\n{GUARD}    {DEVICE}    f(x.to(device))",
        None,
    ),
    "of the module, under its guard below what the function needs, and a call": (
        f"def f():\n    print(args.n)\n    here()\n{GUARD}    f()\n    {DEVICE}    f(x.to(device))",
        None,
    ),
    "of the module, under its guard above what the function needs": (
        (
            f"def f():\n    print(args.n)\n    here()\nif __name__ == '__main__':\n    {DEVICE}    args = read()\n"
            "    f(x.to(device))"
        ),
        None,
    ),
    "of the module, under its guard beside what is bound elsewhere as well": (
        f"args = None\ndef f():\n    print(args.n)\n    here()\n{GUARD}    {DEVICE}    f(x.to(device))",
        None,
    ),
    "of the module, in either branch": (
        (
            "if t:\n    device = torch.device('cuda')\nelse:\n    device = torch.device('cpu')\nx.to(device)\n"
            "def f():\n    here()"
        ),
        "device",
    ),
    "imported": ("from settings import device\nx.to(device)\ndef f():\n    here()", None),
    "of another function": ("def g():\n    d = torch.device('cuda')\n    x.to(d)\ndef f():\n    here()", None),
    "of the object": (
        (
            "class A:\n    def __init__(self):\n        self.device = torch.device('cuda')\n        x.to(self.device)\n"
            "    def f(self):\n        here()"
        ),
        "self.device",
    ),
    "of an object that a static method has not": (
        (
            "class A:\n    def __init__(self):\n        self.device = torch.device('cuda')\n        x.to(self.device)\n"
            "    @staticmethod\n    def f(x):\n        here()"
        ),
        None,
    ),
    "of an object of another class": (
        (
            "class A:\n    def __init__(self):\n        self.device = torch.device('cuda')\n        x.to(self.device)\n"
            "class B:\n    def f(self):\n        here()"
        ),
        None,
    ),
    "a parameter": ("def f(x, device):\n    here()", "device"),
    "a parameter by keyword": ("def f(x, *, device='cuda'):\n    here()", "device"),
    "a parameter that is None": ("def f(x, device=None):\n    here()", None),
    "a parameter that is bound anew": ("def f(x, device):\n    device = pick(device)\n    here()", None),
    "a parameter that is a number": ("def f(x, device: int = 0):\n    here()", None),
    "a number": ("gpu = 1\nx.to(gpu)\nhere()", "gpu"),
    "a number by its name alone": ("def f(x, rank):\n    x.to(rank)\n    here()", "rank"),
    "what may be a type": ("def f(x, kind):\n    x.to(kind)\n    here()", None),
    "a number of the object": (
        (
            "class A:\n    def __init__(self, gpu_id: int):\n        self.gpu_id = gpu_id\n"
            "    def f(self):\n        here()\n    def g(self):\n        x.to(self.gpu_id)"
        ),
        "self.gpu_id",
    ),
    "a number behind a device": (DEVICE + "x.to(device)\ngpu = 1\nx.to(gpu)\nhere()", "device"),
}


@pytest.mark.parametrize("case", VISIBLE)
def test_visible_device(case: str) -> None:
    text, expected = VISIBLE[case]
    script = load(f"import torch\n{text}\n")
    [call] = [each for each in script.find(ast.Call) if script.source(each.func) == "here"]
    assert visible_device(script, script.statement(call)) == expected


CHOICE = "cuda = torch.cuda.is_available()\nTensor = torch.cuda.FloatTensor if cuda else torch.FloatTensor\n"
NAMED = 'device = torch.device("cuda" if cuda else "cpu")'


@pytest.mark.parametrize(
    ("text", "device", "naming"),
    [
        (CHOICE + "x.type(Tensor)\nhere()", "device", [NAMED]),
        (CHOICE + "x = Tensor(3)\nhere()", "device", [NAMED]),
        (CHOICE + "here()\nx.type(Tensor)", None, []),
        (CHOICE + "if t:\n    x.type(Tensor)\nhere()", None, []),
        (CHOICE + "def f(x):\n    x.type(Tensor)\n    here()", "device", [NAMED]),
        (CHOICE + "x.type(Tensor)\ndef f():\n    here()", None, []),
        (CHOICE + f"{NAMED}\nx.type(Tensor)\nhere()", "device", []),
        (CHOICE + "device = 1\nx.type(Tensor)\nhere()", None, []),
        (CHOICE + "dev = torch.device('cuda')\ny.to(dev)\nx.type(Tensor)\nhere()", "dev", []),
        ("Tensor = torch.cuda.FloatTensor\nx.type(Tensor)\nhere()", None, []),
    ],
    ids=[
        "cast",
        "made",
        "below",
        "under a condition",
        "in the function",
        "of the module, in a function",
        "has a name",
        "name is taken",
        "behind a device",
        "no choice",
    ],
)
def test_named_device(text: str, device: str | None, naming: list[str]) -> None:
    script = load(f"import torch\n{text}\n")
    [call] = [each for each in script.find(ast.Call) if script.source(each.func) == "here"]
    found, edits = named_device(script, script.statement(call))
    assert found == device
    assert [each.code.text for each in edits if isinstance(each, InsertAfter)] == naming


def test_what_is_not_seen_names_no_device(tmp_path: Path) -> None:
    paths = [tmp_path / "main.py", tmp_path / "other.py"]
    choice = CHOICE.replace("torch.FloatTensor", "torch.Tensor")  # which is of the default type
    for path, text in zip(paths, (f"import torch\n{choice}x.type(Tensor)\nhere()\n", "import main\n"), strict=True):
        path.write_text(text)
    found = []
    for bounds in (Bounds(), Bounds(related=0)):
        script = load(paths[0].read_text(), paths[0], Project(paths, bounds=bounds))
        found.append(named_device(script, script.tree.body[-1])[0])
    assert found == ["device", None]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("first()\nlater()\n", True),
        ("later()\nfirst()\n", False),
        ("first(later())\n", True),
        ("first()\nif t:\n    later()\n", True),
        ("if t:\n    first()\nlater()\n", False),
        ("if t:\n    first()\nelse:\n    later()\n", False),
        ("if t:\n    first()\n    later()\n", True),
        ("try:\n    first()\nexcept E:\n    later()\n", False),
        ("with c:\n    first()\nlater()\n", False),
        ("for x in xs:\n    later()\n    first()\n", False),
        ("first()\ndef f():\n    later()\n", True),
        ("def f():\n    first()\nlater()\n", False),
    ],
)
def test_precedes(text: str, expected: bool) -> None:
    script = load(text)
    calls = {script.source(each.func): script.statement(each) for each in script.find(ast.Call)}
    assert precedes(script, calls["first"], calls["later"]) is expected


@pytest.mark.parametrize(
    ("main", "other", "expected"),
    [
        ("net(x)\n", "", False),
        ("net(x.cuda())\n", "", True),
        ("net(x.to(args.gpu))\n", "", True),
        ("from other import net\nnet(x)\n", "net = make().to('cuda')\n", True),
        ("from other import net\nnet(x)\n", "net = make()\n", False),
        ("net(x)\n", "net = make().to('cuda')\n", False),
    ],
    ids=["nowhere", "here", "in other words", "in a file that is imported", "in neither", "in a file of its own"],
)
def test_is_used(tmp_path: Path, main: str, other: str, expected: bool) -> None:
    paths = [tmp_path / "main.py", tmp_path / "other.py"]
    for path, text in zip(paths, (main, other), strict=True):
        path.write_text(text)
    assert is_used(load(main, paths[0], Project(Files(paths)))) is expected
