"""Which values are counted: made of comparisons, indices and numbers alone, and nothing else's memory."""

from __future__ import annotations

import ast

import pytest

from autoaccel.analysis.script import load
from autoaccel_codemods.captured_step.measured_values import is_measured

HEAD = """
import torch
from torch import nn
model = nn.Linear(4, 4)
x, y = torch.randn(8, 4), torch.zeros(8, dtype=torch.int64)
output = model(x)
loss = nn.functional.cross_entropy(output, y)
"""
ACCURACY = """
def accuracy(output, target, topk=(1,)):
    with torch.no_grad():
        largest = max(topk)
        size = target.size(0)
        _, predicted = output.topk(largest, 1, True, True)
        correct = predicted.t().eq(target.view(1, -1).expand_as(predicted.t()))
        found = []
        for k in topk:
            hits = correct[:k].reshape(-1).float().sum(0, keepdim=True)
            found.append(hits.mul_(100.0 / size))
        return found
"""


def measured(code: str) -> bool:
    script = load(f"{HEAD}{code}\n")
    last = script.tree.body[-1]
    assert isinstance(last, ast.Expr)
    return is_measured(script, last.value)


@pytest.mark.parametrize(
    "code",
    [
        "output.argmax(1)",
        "(output.argmax(1) == y).float().mean()",
        "output.max(1)[1].eq(y).sum().item()",
        "torch.eq(output.argmax(1), y)",
        "_, predicted = output.max(1)\n100.0 * predicted.eq(y).sum() / y.size(0)",
        f"{ACCURACY}\naccuracy(output, y)",
        f"{ACCURACY}\nfirst, second = accuracy(output, y, (1, 2))\nsecond",
        f"{ACCURACY}\naccuracy(output, y)[0]",
        "def share(a):\n    hits = a.argmax(1).sum()\n    return hits.float() / len(a), len(a)\nshare(output)",
        "def share(a, b):\n    return [(a.argmax(1) == each).sum() for each in b]\nshare(output, [y])",
    ],
)
def test_measured(code: str) -> None:
    assert measured(code)


@pytest.mark.parametrize(
    "code",
    [
        "output",
        "loss",
        "output.max(1)[0]",
        "output.mean()",
        "values, _ = output.max(1)\nvalues",
        "model.weight.sum()",
        "(output.argmax(1) == y) * output.sum()",
        "hits = (output.argmax(1) == y).float()\nhits += loss\nhits",
        "hits = (output.argmax(1) == y).float()\nhits.mul_(output.sum())\nhits",
        ACCURACY.replace("found.append(hits.mul_(100.0 / size))", "found.append(output[0])") + "\naccuracy(output, y)",
        ACCURACY.replace("hits.mul_(100.0 / size)", "hits.mul_(output.sum())") + "\naccuracy(output, y)",
        ACCURACY.replace("found = []", "found = [output]") + "\naccuracy(output, y)",
        ACCURACY.replace("return found", "found[0] = output\n        return found") + "\naccuracy(output, y)",
        ACCURACY.replace("return found", "more(found)\n        return found") + "\naccuracy(output, y)",
        ACCURACY.replace("return found", "return found, output") + "\naccuracy(output, y)",
        "def share(a):\n    hits = a.argmax(1).float()\n    hits.add_(a.sum())\n    return hits\nshare(output)",
        "def share(a):\n    hits = a.argmax(1).float()\n    hits[0] = a.sum()\n    return hits\nshare(output)",
        "def share(a, b):\n    yield (a.argmax(1) == b).float()\nshare(output, y)",
        "def share(a, b):\n    if len(b):\n        return a.argmax(1)\n    return a\nshare(output, y)",
        "def share(a, b):\n    return share(a, b)\nunknown(output)",
        "class Counts:\n    def eq(self, other):\n        return loss\nCounts().eq(y)",
        "unknown(output)",
    ],
)
def test_not_measured(code: str) -> None:
    assert not measured(code)
