"""Calls that only evaluate, of functions that train for other constants."""

from __future__ import annotations

import ast

import pytest

from autoaccel.analysis import load
from autoaccel.pytorch.evaluation_calls import evaluation_calls

MODEL = """\
import torch
from torch import nn

model = nn.Sequential(nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
"""
BY_OPTIMIZER = """\
def run(loader, optimizer=None):
    total = 0.0
    for x, y in loader:
        loss = nn.functional.mse_loss(model(x), y)
        if optimizer is not None:
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        total += loss.item()
    return total

"""
BY_FLAG = BY_OPTIMIZER.replace("optimizer=None", "train").replace("optimizer is not None", "train")
BY_PHASE = BY_FLAG.replace("train)", "phase)").replace("if train:", 'if phase == "train":')
BY_MODE = BY_PHASE.replace("def run", "def tune").replace('phase == "train"', "phase != 'val'")
OUTER = """\
def outer(loader, train=False):
    return run(loader, train)

"""
OWN_MODE = BY_FLAG.replace("    total = 0.0\n", "    torch.set_grad_enabled(train)\n    total = 0.0\n")

# By case: what stands after the model, and by call: None where it only evaluates, else the word; or the test.
EVALUATING = {
    "without an optimizer": (BY_OPTIMIZER + "run(a, optimizer)\nrun(b)\n", ["run(b)"]),
    "neighbours as one": (BY_OPTIMIZER + "run(a, optimizer)\nx = run(b)\ny = run(c)\n", ["run(b) run(c)"]),
    "apart": (BY_OPTIMIZER + "x = run(b)\nrun(a, optimizer)\ny = run(c)\n", ["run(b)", "run(c)"]),
    "by a flag": (BY_FLAG + "run(a, True)\nrun(b, False)\n", ["run(b, False)"]),
    "by its name": (BY_FLAG + "run(a, train=True)\nrun(b, train=False)\n", ["run(b, train=False)"]),
    "by a phase": (BY_PHASE + "run(a, 'train')\nrun(b, 'val')\n", ["run(b, 'val')"]),
    "the flag is handed on": (BY_FLAG + OUTER + "outer(a, True)\nouter(b)\n", ["outer(b)"]),
}
PHASES = {
    "for one of two": ("for phase in ['train', 'val']:\n    run(a, phase)\n", "phase == 'train'"),
    "for one of three": ("for phase in ('train', 'dev', 'val'):\n    run(a, phase)\n", "phase == 'train'"),
    "for two of three": ("for mode in ('a', 'b', 'val'):\n    tune(a, mode)\n", "mode in ('a', 'b')"),
    "of flags": ("for train in (True, False):\n    run(a, train)\n", "train"),
    "of flags, evaluated first": ("for off in (False, True):\n    run(a, train=off)\n", "off"),
}
NONE = {
    "all calls train": BY_OPTIMIZER + "run(a, optimizer)\nrun(b, optimizer)\n",
    "it never trains": BY_OPTIMIZER.replace("loss.backward()", "pass").replace("optimizer.step()", "pass") + "run(b)\n",
    "it always trains": BY_FLAG.replace("if train:", "if True:") + "run(b, False)\n",
    "no constant": BY_OPTIMIZER + "run(b, chosen)\n",
    "several functions": BY_FLAG + "run2 = run if fast else print\nrun2(b, False)\n",
    "without gradients already": BY_FLAG + "with torch.no_grad():\n    run(b, False)\n",
    "it chooses the mode itself": OWN_MODE + "run(b, False)\n",
    "in a larger statement": BY_FLAG + "if run(b, False) > 1:\n    print(1)\n",
    "beside a backward pass": BY_FLAG + "z = [run(b, False), z.backward()]\n",
    "among mixed constants": BY_PHASE + "for phase in ('train', 0):\n    run(a, phase)\n",
}


def found(text: str) -> list[tuple[str, str | None, str | None]]:
    script = load(MODEL + text)
    return [
        (" ".join(map(ast.unparse, each.forwards)), each.problem, each.trains_if) for each in evaluation_calls(script)
    ]


@pytest.mark.parametrize("case", EVALUATING)
def test_calls_that_only_evaluate(case: str) -> None:
    text, expected = EVALUATING[case]
    assert found(text) == [(each, None, None) for each in expected]


@pytest.mark.parametrize("case", PHASES)
def test_a_loop_over_phases(case: str) -> None:
    loop, expected = PHASES[case]
    ((_, problem, trains_if),) = found((BY_PHASE if "phase" in loop else BY_FLAG) + BY_MODE + loop)
    assert problem is None
    assert trains_if == expected


@pytest.mark.parametrize("case", NONE)
def test_calls_that_do_not(case: str) -> None:
    assert [each for each in found(NONE[case]) if each[1] is None] == []


def test_it_is_said_where_no_constant_tells() -> None:
    ((call, problem, _),) = found(BY_FLAG + "def once(train):\n    pass\nrun(b, bool(flags))\n")
    assert call == "run(b, bool(flags))"
    assert problem == "no constant says whether it trains: `train`"


def test_losses_that_go_on() -> None:
    text = BY_OPTIMIZER.replace("total += loss.item()", "total += loss") + "run(a, optimizer)\nkept = run(b)\n"
    assert [each[1] for each in found(text + "kept.backward()\n")] == ["its result may reach a backward pass"]
