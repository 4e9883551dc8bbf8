"""Forward passes whose results are only looked at, and what must count as training all the same."""

from __future__ import annotations

import pytest

from autoaccel.analysis import load
from autoaccel_codemods.no_grad_eval.display_only_forwards import display_only_forwards

HEAD = """\
import torch
from torch import nn
from torchvision.utils import save_image
net = nn.Linear(2, 2)
other = nn.Linear(2, 2)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
"""
OFFSET = HEAD.count("\n")
TRAIN = "    net(x).sum().backward()\n    optimizer.step()\n"


def runs(text: str) -> list[tuple[int, int]]:
    """First and last line (after the head) of every run; of a function, the line of its `def` twice."""
    found = []
    for each in display_only_forwards(load(HEAD + text)):
        first, last = each.first or each.node, each.last or each.node
        found.append((first.lineno - OFFSET, last.lineno - OFFSET))
    return found


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(f"for x in xs:\n{TRAIN}    out = net(x)\n    save_image(out.data, 'a')\n", [(4, 4)], id="saved"),
        pytest.param(
            f"for x in xs:\n{TRAIN}    a = net(x)\n    b = other(a)\n    print(b.shape)\n", [(4, 5)], id="neighbours"
        ),
        pytest.param(f"for x in xs:\n{TRAIN}    hits += (net(x) > 0).sum().item()\n", [(4, 4)], id="summed up"),
        pytest.param("def show(z):\n    out = net(z)\n    save_image(out.cpu(), 'a')\n", [(1, 1)], id="function"),
        pytest.param(
            "def generate(h):\n    for i in range(9):\n        o, h = net(i, h)\n        print(o.argmax())\n",
            [(1, 1)],
            id="state goes round",
        ),
        pytest.param("def f(z):\n    return net(z)\n", [], id="returned"),
        pytest.param("def f(z):\n    out = net(z)\n    return out.sum()\n", [], id="returned later"),
        pytest.param("out = net(z)\nkeep(out)\n", [], id="handed on"),
        pytest.param("out = net(z)\n", [], id="never used"),
        pytest.param("out = net(z)\nself.out = out\n", [], id="stored"),
        pytest.param("fake = net(z).detach()\nother(fake).sum().backward()\n", [], id="before a backward"),
        pytest.param(
            "def fakes():\n    made = net(z)\n    return made.detach()\n"
            "for x in xs:\n    y = fakes()\n    other(y).sum().backward()\n",
            [],
            id="called before a backward",
        ),
        pytest.param("out = net(z)\nout.retain_grad()\n", [], id="asks for gradients"),
        pytest.param("with torch.no_grad():\n    out = net(z)\n    print(out.sum().item())\n", [], id="covered"),
        pytest.param("out = net(z)\nloss = out.sum()\nloss.backward()\nprint(out.data)\n", [], id="shown and trained"),
    ],
)
def test_samples(text: str, expected: list[tuple[int, int]]) -> None:
    assert runs(text) == expected
