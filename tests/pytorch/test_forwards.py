"""Calls that run a model, and whether they record gradients."""

from __future__ import annotations

import ast

import pytest

from autoaccel.analysis import load
from autoaccel.pytorch.forwards import made_here, records, runs_model, tries_out

HEAD = """\
import torch
from torch import nn
net = nn.Linear(2, 2)
def run(x):
    return net(x)
def count(x):
    return len(x)
@torch.no_grad()
def quietly(x):
    return net(x)
"""


@pytest.mark.parametrize(
    ("call", "runs"),
    [
        ("net(x)", True),
        ("net.forward(x)", True),
        ("run(x)", True),
        ("nn.ReLU()(x)", False),
        ("count(x)", False),
        ("net.eval()", False),
        ("torch.relu(x)", False),
    ],
)
def test_what_runs_a_model(call: str, runs: bool) -> None:
    script = load(f"{HEAD}{call}\n")
    assert runs_model(script, script.tree.body[-1].value) is runs  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("statement", "recorded"),
    [("net(x)", True), ("run(x)", True), ("quietly(x)", False), ("with torch.no_grad():\n    run(x)", False)],
)
def test_what_records(statement: str, recorded: bool) -> None:
    script = load(f"{HEAD}{statement}\n")
    call = next(each for each in script.find(ast.Call) if script.source(each).endswith("(x)") and each.lineno > 10)
    assert records(script, call, script.tree) is recorded


@pytest.mark.parametrize(
    ("body", "tried", "made"),
    [
        ("    m = nn.Linear(2, 2)\n    m(1)\n", True, True),
        ("    net(1)\n", False, False),
        ("    m = nn.Linear(2, 2)\n    m.load_state_dict(w)\n    m(1)\n", False, True),
        ("    m = nn.Linear(2, 2)\n    for x in y:\n        m(1)\n", False, True),
    ],
)
def test_a_fresh_model(body: str, tried: bool, made: bool) -> None:
    script = load(f"{HEAD}def test():\n{body}")
    function = script.tree.body[-1]
    [call] = [each for each in script.within(function, ast.Call) if script.source(each).endswith("(1)")]
    assert tries_out(script, function, (call,)) is tried
    assert made_here(script, call.func, function) is made
