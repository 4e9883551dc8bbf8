"""Which statements of a step may as well be made before it."""

from __future__ import annotations

import ast

import pytest

from autoaccel.analysis.script import load
from autoaccel_codemods.captured_step.prepared_inputs import is_prepared

HEAD = """
import argparse
import random
import numpy as np
import torch
from torch import nn
from torch.autograd import Variable
opt = argparse.ArgumentParser().parse_args()
rest_of_it, _ = argparse.ArgumentParser().parse_known_args()
generator = np.random.default_rng(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
Tensor = torch.cuda.FloatTensor if torch.cuda.is_available() else torch.FloatTensor
model = nn.Linear(4, 4).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
weight = model.weight.data
table = torch.zeros(4)
loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.ones(8, 4)), batch_size=2)
for step, (x,) in enumerate(loader):
"""
CLEARED = "optimizer.zero_grad()"
UPDATED = f"{CLEARED}; loss.backward(); optimizer.step()"
COMPUTED = "loss = model(x).mean()"


def prepared(passed: str, statement: str) -> bool:
    lines = [*passed.split("; "), statement]
    script = load(HEAD + "\n".join(f"    {each}" for each in lines))
    [*above, last] = next(script.find(ast.For)).body
    return is_prepared(script, last, above)


@pytest.mark.parametrize("passed", [CLEARED, COMPUTED, f"{COMPUTED}; {UPDATED}"])
@pytest.mark.parametrize(
    "statement",
    [
        "z = np.random.normal(0, 1, (x.shape[0], opt.size))",
        "z = Variable(Tensor(np.random.normal(0, 1, (x.size(0), opt.size))), requires_grad=False)",
        "z = torch.from_numpy(np.random.rand(len(x), 4)).float().to(device)",
        "z = torch.tensor(np.random.randint(0, 10, x.shape[0]), dtype=torch.long, device=device)",
        "z = torch.ones(x.size(0), 1, device=device).fill_(0.9)",
        "z = Tensor(x.shape[0], 1).fill_(1.0)",
        "n = x.shape[0]",
        "z = torch.zeros(x.shape).cuda()",
        "z = -1 + 2 * np.random.rand(*x.shape)",
        "z = np.random.choice(opt.choices, size=step)",
        "z = np.random.rand(rest_of_it.size)",
        "z = torch.ones(2, device=place.device, dtype=kind).to(place.device)",
    ],
)
def test_prepared(passed: str, statement: str) -> None:
    assert prepared(passed, statement)


@pytest.mark.parametrize(
    "statement", ["z = torch.randn(len(x), 4, device=device)", "z = torch.rand(x.shape).to(device)"]
)
def test_torch_draws_beside_nothing_that_may_draw(statement: str) -> None:
    assert prepared(CLEARED, statement)
    assert prepared(UPDATED, statement)
    assert not prepared(f"{COMPUTED}; {UPDATED}", statement)
    assert not prepared("y = nn.functional.dropout(x)", statement)
    assert not prepared("optimizer.step(lambda: 0); y = x.uniform_()", statement)


def test_a_tensor_is_another_one_behind_what_may_change_it() -> None:
    assert prepared(CLEARED, "z = x.to(device)")
    assert prepared(f"{CLEARED}; model.zero_grad()", "z = Variable(x.type(Tensor))")
    assert not prepared(COMPUTED, "z = x.to(device)")
    assert not prepared("optimizer.step()", "z = weight.to(device)")


@pytest.mark.parametrize(
    ("passed", "statement"),
    [
        pytest.param("n = 2", "z = np.random.rand(n, 4)", id="a name that one of them binds"),
        pytest.param("y = model(z)", "z = np.random.rand(4)", id="a name that one of them reads"),
        pytest.param("z = model(x)", "z = np.random.rand(4)", id="a name that one of them binds, too"),
        pytest.param("opt.append(x)", "z = np.random.rand(opt.size)", id="settings that one of them changes"),
        pytest.param("loss = measure(opt)", "z = np.random.rand(opt.size)", id="settings that are handed out"),
        pytest.param("loss = opt.next()", "z = np.random.rand(opt.size)", id="settings with a method"),
        pytest.param("loss = settings(x)", "z = np.random.rand(settings.size)", id="unknown settings"),
        pytest.param("y = unknown.mul_(2)", "z = np.random.rand(unknown)", id="a name that may be a tensor"),
        pytest.param(COMPUTED, "z = np.random.rand(model.in_features)", id="of a model"),
        pytest.param(COMPUTED, "z = Tensor(weight)", id="a parameter"),
        pytest.param(COMPUTED, "z = Tensor(table)", id="a tensor"),
        pytest.param(COMPUTED, "z = torch.tensor(unknown)", id="what may be a tensor"),
        pytest.param(COMPUTED, "z = unknown * np.random.rand(2)", id="times what may be a tensor"),
        pytest.param(COMPUTED, "z = torch.ones(2).fill_(unknown)", id="filled with what may be a tensor"),
        pytest.param("optimizer.step()", "z = opt.table.view(-1)", id="a view of what may be a tensor"),
        pytest.param(COMPUTED, "z = weight.shape[int(loss)]", id="a result"),
        pytest.param(COMPUTED, "z = np.random.rand(int(loss))", id="drawn by a result"),
        pytest.param(CLEARED, "z = np.random.shuffle(table)", id="shuffled"),
        pytest.param(CLEARED, "z = generator.normal(0, 1, 4)", id="by a generator of its own"),
        pytest.param(CLEARED, "z = random.random()", id="by Python"),
        pytest.param(CLEARED, "z = make(np.random.rand(4))", id="by a function"),
        pytest.param(CLEARED, "z = torch.ones(4, requires_grad=True)", id="needs gradients"),
        pytest.param(CLEARED, "z = torch.ones(4, requires_grad=opt.more)", id="may need gradients"),
        pytest.param(CLEARED, "z = np.random.rand(**opt.sizes)", id="by unknown arguments"),
        pytest.param(CLEARED, "z = torch.ones(2, device=choose())", id="where a function says"),
        pytest.param(CLEARED, "z = torch.ones(2).to(choose())", id="moved to where a function says"),
        pytest.param(CLEARED, "z, y = np.random.rand(2)", id="taken apart"),
        pytest.param(CLEARED, "opt.z = np.random.rand(2)", id="kept"),
        pytest.param(CLEARED, "z = model(x)", id="computed"),
        pytest.param(CLEARED, "z = np.random.rand(2) if opt.more else 0", id="decided"),
    ],
)
def test_not_prepared(passed: str, statement: str) -> None:
    assert not prepared(passed, statement)


def test_a_size_of_what_is_not_known() -> None:
    """The function's callers are not in sight; the others read the number, too."""
    lines = ["n = images.shape[0]", "loss = model(images).sum() / n", "z = np.random.rand(n, 4)"]
    body = "".join(f"        {each}\n" for each in lines)
    script = load(f"{HEAD}    pass\ndef train(batches):\n    for images in batches:\n{body}")
    [_, computed, drawn] = [*script.find(ast.For)][1].body
    assert is_prepared(script, drawn, [computed])


def test_what_is_made_of_what_was_made_before() -> None:
    script = load(HEAD + "\n".join(f"    {each}" for each in [COMPUTED, "n = np.random.rand(4)", "z = Tensor(n)"]))
    [computed, first, second] = next(script.find(ast.For)).body
    assert is_prepared(script, second, [computed], [first])
    assert not is_prepared(script, second, [computed, first])


@pytest.mark.parametrize(
    "statement", ["z = y.float()", "z = y.view(-1).fill_(2.0)", "z = torch.as_tensor(y).fill_(2.0)"]
)
def test_another_name_of_a_tensor_that_a_step_reads(statement: str) -> None:
    script = load(HEAD + "\n".join(f"    {each}" for each in [CLEARED, "y = x.view(-1)", COMPUTED, statement]))
    [cleared, view, computed, last] = next(script.find(ast.For)).body
    assert is_prepared(script, view, [cleared])
    assert not is_prepared(script, last, [cleared, computed], [view])


def test_a_name_that_is_made_of_itself() -> None:
    script = load(
        HEAD + "\n".join(f"    {each}" for each in [COMPUTED, "z = np.random.rand(2)", "z = torch.tensor(z)"])
    )
    [computed, first, second] = next(script.find(ast.For)).body
    assert is_prepared(script, second, [computed], [first])


def test_not_where_a_failure_is_handled() -> None:
    body = (
        HEAD.rstrip()
        + "\n    try:\n        optimizer.zero_grad()\n        z = np.random.rand(2)\n    except OSError: pass"
    )
    script = load(body)
    [cleared, drawn] = next(script.find(ast.Try)).body
    assert not is_prepared(script, drawn, [cleared])


def test_not_where_a_function_reads_what_was_bound_in_the_step_before() -> None:
    script = load(f"def f():\n    return z\n{HEAD}    loss = f()\n    z = np.random.rand(2)\n")
    [computed, drawn] = next(script.find(ast.For)).body
    assert not is_prepared(script, drawn, [computed])
