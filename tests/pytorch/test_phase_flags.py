"""Functions that train where a flag says so."""

from __future__ import annotations

import pytest

from autoaccel.analysis import load
from autoaccel.pytorch.phase_flags import flagged_evaluations

HEAD = """\
import torch
from torch import nn
model = nn.Linear(8, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
criterion = nn.MSELoss()
"""
STEP = "    if {}:\n        loss.backward()\n        optimizer.step()\n    print(loss.item())\n"


def body(test: str, before: str = "") -> str:
    return f"{before}    loss = criterion(model(x), x)\n{STEP.format(test)}"


# By case: a program, and the flags of what is evaluated in it.
FLAGGED = {
    "an argument": ("def f(x, train):\n" + body("train") + "f(a, True)\nf(a, False)\n", ["train"]),
    "by its name": ("def f(x, train):\n" + body("train") + "f(a, train=False)\n", ["train"]),
    "by default": ("def f(x, train=False):\n" + body("train") + "f(a)\nf(a, True)\n", ["train"]),
    "the other way round": ("def f(x, test):\n" + body("not test") + "f(a, True)\n", ["not test"]),
    "a text": ("def f(x, p):\n" + body("p == 'train'") + "f(a, 'train')\nf(a, 'test')\n", ["p == 'train'"]),
    "an optimizer or none": (
        "def f(x, opt=None):\n" + body("opt is not None") + "f(a)\nf(a, optimizer)\n",
        ["opt is not None"],
    ),
    "a name for it": (
        "def f(x, opt=None):\n" + body("train", "    train = opt is not None\n") + "f(a)\nf(a, optimizer)\n",
        ["train"],
    ),
    "a number": ("def f(x, train):\n" + body("train") + "f(a, 1)\nf(a, 0)\n", ["bool(train)"]),
    "never down": ("def f(x, train=True):\n" + body("train") + "f(a)\nf(a, True)\n", []),
    "down where gradients are off": (
        "def f(x, train=True):\n" + body("train") + "f(a)\nwith torch.no_grad():\n    f(a, False)\n",
        [],
    ),
    "not known": ("def f(x, train):\n" + body("train") + "f(a, unknown())\nf(a, False)\n", []),
    "a list": ("def f(x, seen):\n" + body("seen") + "f(a, [])\nf(a, [1])\n", []),
    "bound anew": ("def f(x, train):\n" + body("train", "    train = train or x.any()\n") + "f(a, False)\n", []),
    "of the module": ("train = False\ndef f(x):\n" + body("train") + "f(a)\n", []),
    "goes backward elsewhere, too": (
        "def f(x, train):\n" + body("train") + "    loss.backward()\nf(a, True)\nf(a, False)\n",
        [],
    ),
    "two flags": (
        "def f(x, train, more):\n" + body("train") + STEP.format("more") + "f(a, True, False)\nf(a, False, True)\n",
        [],
    ),
    "an else": (
        "def f(x, train):\n" + body("train") + "    if train:\n        optimizer.step()\n    else:\n        pass\n"
        "f(a, False)\n",
        [],
    ),
    "decorated": ("@jit\ndef f(x, train):\n" + body("train") + "f(a, False)\n", []),
    "a grad mode of its own": (
        "def f(x, train):\n    with torch.set_grad_enabled(train):\n        loss = criterion(model(x), x)\n"
        + STEP.format("train")
        + "f(a, False)\n",
        [],
    ),
}


@pytest.mark.parametrize("case", FLAGGED)
def test_flagged_evaluations(case: str) -> None:
    text, expected = FLAGGED[case]
    assert [each.flag for each in flagged_evaluations(load(HEAD + text))] == expected
