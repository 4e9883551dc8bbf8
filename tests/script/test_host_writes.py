"""Whether memory may be written to under another name, by a function, or by who keeps it."""

from __future__ import annotations

import ast

import pytest

from autoaccel.script import load
from autoaccel.script.host_writes import may_be_written

HEAD = """import numpy as np
import torch
import unknown

def wipe(t): t.zero_()
def show(t): return t.sum()
def both(t, u): wipe(u)
def again(t): again(t)

def f(x, box, lst):
    start()
"""


def written(code: str) -> bool:
    """Whether any use of `x` behind `start()` may write to it."""
    script = load(HEAD + "".join(f"    {line}\n" for line in code.split("\n")))
    [start] = [node for node in script.find(ast.Name) if node.id == "start"]
    uses = [node for node in script.find(ast.Name) if node.id == "x" and isinstance(node.ctx, ast.Load)]
    return any(may_be_written(script, use, (start.lineno, 0)) for use in uses)


@pytest.mark.parametrize(
    "code",
    [
        "x.zero_()",
        "x[0] = 1",
        "x += 1\nprint(x)\nx.add_(1)",
        "x.data[0] = 1",
        "y = x.numpy()\ny += 1",
        "y = x.numpy()\nz = y.reshape(-1)\nz.sort()",
        "a, b = x\nb.mul_(2)",
        "for row in x:\n    row[0] = 0",
        "y = np.asarray(x)\ny[0] = 0",
        "wipe(x)",
        "both(1, x)",
        "both(*x)",
        "again(x)",
        "np.add(1, 1, out=x.numpy())",
        "np.random.shuffle(x.numpy())",
        "torch.nn.init.zeros_(x)",
        "unknown.work(x)",
        "box.x = x",
        "lst.append(x)",
        "return x",
        "for t in (x,):\n    t.zero_()",
    ],
)
def test_may_be_written(code: str) -> None:
    assert written(code)


@pytest.mark.parametrize(
    "code",
    [
        "print(x, len(x))",
        "y = x + 1\ny.zero_()",
        "y = x.clone()\ny[0] = 0",
        "show(x)",
        "both(x, 1)",
        "x.sum().backward()",
        "x.requires_grad_()",
        "torch.add(x, 1)",
        "np.mean(x.numpy())",
        "if x.max() > 0:\n    print(f'{x}')",
        "y = x[0] * 2\ny.zero_()",
        "return x.shape",
    ],
)
def test_is_only_read(code: str) -> None:
    assert not written(code)
