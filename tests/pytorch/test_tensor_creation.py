"""Factories, the moves of what they make, and the legacy types that choose a device."""

from __future__ import annotations

import ast

import pytest

from autoaccel.analysis import Script, load
from autoaccel.edits import InsertAfter, Tier
from autoaccel.pytorch.device_moves import Move, move, moved_later
from autoaccel.pytorch.integers import integral
from autoaccel.pytorch.tensor_creation import creation
from autoaccel.pytorch.tensor_types import chosen_type

HEAD = "import torch\nimport numpy as np\nfrom torch.autograd import Variable\n\ndevice = torch.device('cuda')\n"


def last_expression(source: str) -> tuple[Script, ast.expr]:
    script = load(HEAD + source)
    statement = script.tree.body[-1]
    assert isinstance(statement, ast.Expr | ast.Assign)
    assert statement.value is not None
    return script, statement.value


def last_move(source: str) -> tuple[Script, Move | None]:
    script, expression = last_expression(source)
    assert isinstance(expression, ast.Call)
    return script, move(script, expression)


@pytest.mark.parametrize(
    ("source", "name", "tier"),
    [
        ("torch.zeros(3)", "torch.zeros", Tier.EXACT),
        ("torch.zeros(*shape)", "torch.zeros", Tier.EXACT),
        ("torch.tril(torch.ones(3, 3)).bool()[None]", "torch.ones", Tier.EXACT),
        ("torch.arange(3).view(1, -1)", "torch.arange", Tier.EXACT),
        ("torch.arange(0, 1, 0.1)", "torch.arange", Tier.NUMERICS),
        ("torch.arange(n, dtype=torch.long)", "torch.arange", Tier.EXACT),
        ("torch.linspace(0, 1, 3)", "torch.linspace", Tier.NUMERICS),
        ("torch.randn(3)", "torch.randn", Tier.EQUIVALENT),
        ("torch.empty(3).uniform_()", "torch.empty", Tier.EQUIVALENT),
        ("torch.LongTensor([1, 2])", "torch.tensor", Tier.EXACT),
        ("Variable(torch.zeros(3))", "torch.zeros", Tier.EXACT),
    ],
)
def test_factories(source: str, name: str, tier: Tier) -> None:
    made = creation(*last_expression(source))
    assert made is not None
    assert made.problem is None
    assert (made.name, made.tier) == (name, tier)


@pytest.mark.parametrize(
    ("source", "fragment"),
    [
        ("torch.zeros(3, requires_grad=True)", "leaf"),
        ("torch.zeros(3).requires_grad_()", "leaf"),
        ("Variable(torch.zeros(3), requires_grad=True)", "leaf"),
        ("torch.nn.Parameter(torch.zeros(3))", "leaf"),
        ("torch.randn(3, generator=g)", "generator"),
        ("torch.empty(3).normal_(generator=g)", "generator"),
        ("torch.zeros(3, pin_memory=True)", "pin_memory"),
        ("torch.zeros(3).pin_memory()", "buffer on the host"),
        ("torch.zeros(3, **options)", "**kwargs"),
        ("torch.zeros(3, device='cpu')", "device"),
        ("torch.zeros(3).exp()", "round"),
        ("torch.zeros(3) + 1", "round"),
        ("torch.zeros(1, 3).expand(4, 3)", "shares memory"),
        ("torch.zeros(4, 3)[1:]", "part"),
        ("torch.eye(4)[labels]", "part"),
        ("torch.normal(mean, std)", "size"),
    ],
)
def test_what_keeps_a_factory_on_the_host(source: str, fragment: str) -> None:
    made = creation(*last_expression(source))
    assert made is not None
    assert made.problem is not None
    assert fragment in made.problem


@pytest.mark.parametrize(
    "source",
    [
        "np.zeros(3)",
        "torch.FloatTensor(2, 3)",
        "torch.Tensor(np.zeros(3))",
        "torch.zeros(3).to(device).view(1, 3)",
        "torch.nn.Embedding.from_pretrained(torch.zeros(3, 3))",
        "torch.cat((torch.zeros(3), x))",
        "model(torch.zeros(3))",
    ],
)
def test_no_factory_in_sight(source: str) -> None:
    assert creation(*last_expression(source)) is None


@pytest.mark.parametrize(
    ("source", "device"),
    [
        ("x.to(device)", "{0}"),
        ("x.to('cuda:1', non_blocking=True)", "{0}"),
        ("x.to(device=device)", "{0}"),
        ("x.to(0)", "{0}"),
        ("x.cuda()", "'cuda'"),
        ("x.cuda(None)", "'cuda'"),
        ("x.cuda(1)", "'cuda:1'"),
        ("x.cuda(device)", "{0}"),
        ("y = torch.zeros(3)\nx.to(y)", "{0}.device"),
        ("y = torch.zeros(3)\nx.type_as(y)", "{0}.device"),
    ],
)
def test_moves(source: str, device: str) -> None:
    _, moved = last_move(source)
    assert moved is not None
    assert moved.device is not None
    assert moved.device.text == device


@pytest.mark.parametrize(
    "source", ["x.to(torch.float16)", "x.float()", "x.to()", "x.to(non_blocking=True)", "torch.cuda(x)"]
)
def test_no_moves(source: str) -> None:
    assert last_move(source)[1] is None


@pytest.mark.parametrize(
    "source",
    ["x.to(thing)", "x.to(*place)", "x.cuda(gpu)", "x.to(device, memory_format=torch.channels_last)", "x.type_as(y)"],
)
def test_moves_to_places_unknown(source: str) -> None:
    _, moved = last_move(source)
    assert moved is not None
    assert moved.device is None
    assert moved.problem


@pytest.mark.parametrize(
    ("annotation", "device"),
    [("int", "{0}"), ("int | None", "torch.device('cuda', {0})")],
)
def test_an_index_that_may_be_none(annotation: str, device: str) -> None:
    script = load(HEAD + f"def f(x, gpu: {annotation}):\n    return x.cuda(gpu)\n")
    moved = next(found for call in script.find(ast.Call) if (found := move(script, call)) is not None)
    assert moved.device is not None
    assert moved.device.text == device


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ("h = torch.zeros(3)\nh = h.to(device)\n", None),
        ("h = torch.zeros(3)\nc = torch.ones(3)\nh = h.to(device)\n", None),
        ("h = torch.zeros(3)\nprint(h)\nh = h.to(device)\n", "used"),
        ("h = torch.zeros(3)\nprint()\nh = h.to(device)\n", "other statements"),
        ("h = torch.zeros(3)\nplace = torch.device('cuda')\nh = h.to(place)\n", "other statements"),
        ("h = torch.zeros(3)\nif cuda:\n    h = h.to(device)\n", "condition"),
        ("h = torch.zeros(3)\nh = h.to(device)  # why\n", "comment"),
    ],
)
def test_moved_by_a_statement_of_its_own(source: str, problem: str | None) -> None:
    script = load(HEAD + source)
    moved = [found for call in script.find(ast.Call) if (found := move(script, call)) is not None][-1]
    later = moved_later(script, moved)
    assert later is not None
    assert (later.problem is None) == (problem is None)
    assert (problem or "") in (later.problem or "")


@pytest.mark.parametrize("source", ["x.to(device)", "h = x.to(device)", "h = torch.zeros(3)\nk = h.to(device)"])
def test_not_moved_by_a_statement_of_its_own(source: str) -> None:
    script, moved = last_move(source)
    assert moved is not None
    assert moved_later(script, moved) is None


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("3", True),
        ("2 * len(x) - 1", True),
        ("x.size(0)", True),
        ("x.shape[0] // 2", True),
        ("n = 4\nn", True),
        ("b, c = x.shape\nb", True),
        ("b, c = x.size()\nc", True),
        ("b, c = 3, 1.5\nb", True),
        ("b, c = 3, 1.5\nc", False),
        ("0.5", False),
        ("n / 2", False),
        ("unknown", False),
        ("n = 4\nn = 0.5\nn", False),
        ("True", False),
        ("x.shape", False),
    ],
)
def test_integers(source: str, expected: bool) -> None:
    assert integral(*last_expression(source)) is expected


CHOICE = "Tensor = torch.cuda.FloatTensor if {test} else torch.FloatTensor\n"


@pytest.mark.parametrize(
    ("source", "device"),
    [
        ("cuda = torch.cuda.is_available()\n" + CHOICE.format(test="cuda") + "Tensor", "'cuda' if {0} else 'cpu'"),
        (CHOICE.format(test="torch.cuda.is_available()") + "Tensor", "'cuda' if {0} else 'cpu'"),
        ("cuda = True\nd = torch.device('cuda' if cuda else 'cpu')\n" + CHOICE.format(test="cuda") + "Tensor", "d"),
        (
            "cuda = True if torch.cuda.is_available() else False\n"
            "d = torch.device('cuda' if torch.cuda.is_available() else 'cpu')\n"
            + CHOICE.format(test="cuda")
            + "Tensor",
            "d",
        ),
        (
            "cuda = True\n"
            + CHOICE.format(test="cuda")
            + "Tensor\nd = torch.device('cuda' if cuda else 'cpu')\nTensor",
            "d",
        ),
        (
            "cuda = True\nif cuda:\n    Tensor = torch.cuda.FloatTensor\nelse:\n    Tensor = torch.FloatTensor\nTensor",
            "'cuda' if {0} else 'cpu'",
        ),
        (
            "cuda = True\nif n:\n    d = torch.device('cuda' if cuda else 'cpu')\n"
            + CHOICE.format(test="cuda")
            + "Tensor",
            "'cuda' if {0} else 'cpu'",
        ),
    ],
)
def test_chosen_types(source: str, device: str) -> None:
    chosen = chosen_type(*last_expression(source))
    assert chosen is not None
    assert chosen.device.text == device
    assert chosen.dtype == "torch.float32"


@pytest.mark.parametrize(
    "source",
    [
        "cuda = True\n" + CHOICE.format(test="cuda") + "cuda = False\nTensor",
        CHOICE.format(test="ask()") + "Tensor",
        CHOICE.format(test="args.cuda") + "args.cuda = False\nTensor",
        "Tensor = torch.cuda.FloatTensor if cuda else torch.DoubleTensor\nTensor",
        "Tensor = torch.FloatTensor if cuda else torch.cuda.FloatTensor\nTensor",
        "Tensor = torch.FloatTensor\nTensor",
        CHOICE.format(test="True") + CHOICE.format(test="False") + "Tensor(3)",
        "if cuda:\n    Tensor = torch.cuda.FloatTensor\nTensor",
        "cuda = 1\nif cuda:\n    Tensor = torch.FloatTensor\nelse:\n    Tensor = torch.cuda.FloatTensor\nTensor",
    ],
)
def test_no_chosen_types(source: str) -> None:
    assert chosen_type(*last_expression(source)) is None


CHOICES = (
    "import torch\ncuda = True\n"
    + CHOICE.format(test="cuda")
    + "Long = torch.cuda.LongTensor if cuda else torch.LongTensor\n"
)


def test_a_choice_without_a_name_brings_one_along() -> None:
    script = load(CHOICES + "other = 1\nTensor")
    chosen = chosen_type(script, next(name for name in script.find(ast.Name) if name.lineno == 6))
    assert chosen is not None
    assert chosen.device.text == "device"
    (edit,) = chosen.naming
    assert isinstance(edit, InsertAfter)
    assert edit.code.text == 'device = torch.device("cuda" if cuda else "cpu")'
    assert script.source(edit.statement).startswith("Long = ")


def test_a_name_below_the_choices_is_known_in_functions() -> None:
    script = load(CHOICES + "where = torch.device('cuda' if cuda else 'cpu')\ndef f():\n    return Tensor")
    chosen = chosen_type(script, next(name for name in script.find(ast.Name) if name.lineno == 7))
    assert chosen is not None
    assert (chosen.device.text, chosen.naming) == ("where", ())


def test_no_name_is_made_behind_an_elif() -> None:
    script = load(
        "import torch\ncuda = True\nif cuda is None:\n    raise SystemExit\n"
        "elif cuda:\n    T = torch.cuda.FloatTensor\nelse:\n    T = torch.FloatTensor\nT"
    )
    chosen = chosen_type(script, next(name for name in script.find(ast.Name) if name.lineno == 9))
    assert chosen is not None
    assert (chosen.device.text, chosen.naming) == ('"cuda" if {0} else "cpu"', ())
