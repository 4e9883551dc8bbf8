"""What moves ask for, where they may ask for several things, and where a creation cannot take their place."""

from __future__ import annotations

import ast

import pytest

from autoaccel.analysis import load
from autoaccel.pytorch.device_moves import DeviceMove, device_move, may_move_creation, moved_later

HEAD = "import torch\nfrom torch.autograd import Variable\ndevice = torch.device('cuda')\nother = torch.zeros(1)\n"


def last_move(text: str) -> DeviceMove | None:
    script = load(f"{HEAD}{text}\n")
    calls = [each for each in script.find(ast.Call) if isinstance(each.func, ast.Attribute)]
    moves = [each for each in calls if each.func.attr in ("to", "cuda", "type_as", "xpu", "type")]  # type: ignore[attr-defined]
    return device_move(script, moves[-1])


# By case: a script; the device and the dtype that its last move asks for, as source texts for a factory.
MOVES = {
    "a device and a dtype": ("x.to(device, torch.float16)", "{0}", "{0}"),
    "both by keyword": ("x.to(device='cuda', dtype=torch.float16, copy=True)", "{0}", "{0}"),
    "as a tensor": ("x.to(other=other)", "{0}.device", "{0}.dtype"),
    "as the data of a tensor": ("x.type_as(other.data)", "{0}.device", "{0}.dtype"),
    "the device of a tensor": ("x.to(other.device)", "{0}", None),
    "an attribute that is called so": ("x.to(args.device)", "{0}", None),
    "a device that may be None": ("device = None\nx.to(device)", "{0}", None),
    "the current GPU": ("x.cuda(non_blocking=True)", '"cuda"', None),
    "an index by keyword": ("x.cuda(device=1)", '"cuda:1"', None),
    "a GPU by its name": ("gpu = 'cuda:1'\nx.cuda(gpu)", "{0}", None),
    "a GPU by its number": ("gpu = 1\nx.cuda(gpu)", "{0}", None),
    "each GPU": ("for gpu in range(2):\n    x.cuda(gpu)", "{0}", None),
    "a GPU that may be None": ("gpu = 1 if t else None\nx.cuda(gpu)", 'torch.device("cuda", {0})', None),
    "a default, in whose place callers may give None": (
        "def f(gpu=0):\n    x.cuda(gpu)",
        'torch.device("cuda", {0})',
        None,
    ),
    "an annotated number whose default is None": (
        "def f(gpu: int = None):\n    x.cuda(gpu)",
        'torch.device("cuda", {0})',
        None,
    ),
    "an annotated number": ("def f(gpu: int = 0):\n    x.cuda(gpu)", "{0}", None),
}


@pytest.mark.parametrize("case", MOVES)
def test_moves(case: str) -> None:
    text, device, dtype = MOVES[case]
    moved = last_move(text)
    assert moved is not None
    assert moved.problem is None
    assert moved.device is not None
    assert moved.device.text.replace("'", '"') == device
    assert (moved.dtype and moved.dtype.text) == dtype


@pytest.mark.parametrize(
    "text",
    [
        "x.to(dtype=torch.float16)",
        "kind = torch.float16 if t else torch.float32\nx.to(kind)",
        "x.to(args.dtype)",
        "x.type(torch.cuda.FloatTensor)",
        "x.xpu()",
    ],
)
def test_no_moves_to_a_device(text: str) -> None:
    moved = last_move(text)
    assert moved is None or moved.device is None


@pytest.mark.parametrize(
    "text",
    [
        "x.to(None)",
        "kind = None\nx.to(kind)",
        "where = torch.float16 if t else 'cuda'\nx.to(where)",
        "where = other if t else 'cuda'\nx.to(where)",
        "x.to(True)",
        "x.to(**where)",
        "x.to(device, **more)",
        "x.type_as(other[0])",
        "x.type_as(self.other)",
        "x.cuda(True)",
        "gpu = None\nx.cuda(gpu)",
        "gpu = args.gpu\nx.cuda(gpu)",
        "gpu += 1\nx.cuda(gpu)",
        "gpu, n = None, 1\nx.cuda(gpu)",
        "def f(gpu=None):\n    x.cuda(gpu)",
        "def f(gpu=0):\n    x.cuda(gpu)\nf('cuda:1')",
    ],
)
def test_places_that_are_not_known(text: str) -> None:
    moved = last_move(text)
    assert moved is not None
    assert (moved.device, bool(moved.problem)) == (None, True)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("torch.zeros(3).to(d)", True),
        ("torch.zeros(3).cuda()", True),
        ("h = torch.zeros(3)\nh.type_as(x)", True),
        ("h = read()\nif t:\n    h = torch.zeros(3)\nh.to(d)", True),
        ("x.to(d)", False),
        ("h = read()\nh.to(d)", False),
        ("torch.zeros(3).float()", False),
    ],
)
def test_may_move_creation(text: str, expected: bool) -> None:
    script = load(f"{HEAD}{text}\n")
    statement = script.tree.body[-1]
    assert isinstance(statement, ast.Expr)
    assert isinstance(statement.value, ast.Call)
    assert may_move_creation(script, statement.value) is expected


# By case: a script, and whether its last move may be said by the creation above it; None where there is no such pair.
LATER = {
    "right below": ("h = torch.zeros(3)\nh = h.to(device)", True),
    "pairs": ("h = torch.zeros(3)\nc = torch.zeros(3)\nc = c.to(device)\nh = h.to(device)", True),
    "in a loop": ("h = torch.zeros(3)\nfor i in r:\n    h = h.to(device)", None),
    "another name for it": ("h = torch.zeros(3)\nk = h\nh = h.to(device)", False),
    "a call in between": ("h = torch.zeros(3)\nk = read()\nh = h.to(device)", False),
    "the device is bound in between": ("h = torch.zeros(3)\nother = torch.ones(1)\nh = h.to(other)", False),
    "two targets": ("h = torch.zeros(3)\nh = k = h.to(device)", None),
    "an attribute": ("self.h = torch.zeros(3)\nself.h = self.h.to(device)", None),
    "made in either branch": ("if t:\n    h = torch.zeros(3)\nelse:\n    h = torch.ones(3)\nh = h.to(device)", None),
    "added to": ("h = torch.zeros(3)\nh += 1\nh = h.to(device)", None),
    "wrapped on the way": ("h = torch.zeros(3)\nh = Variable(h).to(device)", True),
    "wrapped afterwards": ("h = torch.zeros(3)\nh = Variable(h.to(device))", True),
    "bound anew on the way": ("h = torch.zeros(3)\nh = Variable(h)\nh = h.view(1, 3)\nh = h.to(device)", True),
    "bound anew and kept": ("h = torch.zeros(3)\nk = h\nh = Variable(h)\nh = h.to(device)", False),
    "filled by statements": ("h = torch.FloatTensor(3)\nh.normal_()\nh.fill_(1)\nh = h.to(device)", True),
    "filled by what is bound": ("h = torch.empty(3)\nk = h.fill_(1)\nh = h.to(device)", False),
    "filled under a condition": ("h = torch.empty(3)\nif t:\n    h.fill_(1)\nh = h.to(device)", False),
    "of unset memory": ("h = torch.FloatTensor(3)\nh = h.to(device)", None),
    "moved into a call": ("def f():\n    h = torch.zeros(3)\n    return k(h.to(device))", True),
    "moved into a call under a condition": (
        "def f():\n    h = torch.zeros(3)\n    return k(h.to(device)) if t else 0",
        None,
    ),
    "moved into a call later": ("def f():\n    h = torch.zeros(3)\n    return lambda: h.to(device)", None),
    "moved into a call twice": ("def f():\n    h = torch.zeros(3)\n    return k(h.to(device), h)", False),
    "moved into a call, and looked up": (
        "def f():\n    h = torch.zeros(3)\n    k(h.to(device))\n    return locals()['h']",
        False,
    ),
    "moved into a call in a class": ("class A:\n    h = torch.zeros(3)\n    k(h.to(device))", False),
    "unpacked": ("h, k = torch.zeros(3), 1\nh = h.to(device)", None),
}


@pytest.mark.parametrize("case", LATER)
def test_moved_later(case: str) -> None:
    text, expected = LATER[case]
    script = load(f"{HEAD}{text}\n")
    moved = [found for each in script.find(ast.Call) if (found := device_move(script, each)) is not None][-1]
    later = moved_later(script, moved)
    assert (None if later is None else later.problem is None) is expected
