"""Programs that only evaluate: what trains anywhere, or may be anything but scores, is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from autoaccel.analysis import Project, Script, load
from autoaccel.analysis.files import Files
from autoaccel.pytorch.evaluation_only import evaluation_forwards, only_evaluates

HEAD = """\
import torch
from torch import nn
from torch.utils.data import DataLoader
net = nn.Linear(8, 2)
net.load_state_dict(torch.load('net.pt'))
criterion = nn.CrossEntropyLoss()
loader = DataLoader(data)
correct = 0
net.eval()
"""
BODY = """\
for x, y in loader:
    with torch.no_grad():
        out = net(x)
    correct += (out.argmax(1) == y).sum().item()
print(correct)
"""

# By case: what is another in the script above, and the sources of the forward passes that are found.
FORWARDS = {
    "plain": ("", "", ["net(x)"]),
    "around the loop": (
        BODY,
        "with torch.no_grad():\n    for x, y in loader:\n        out = net(x)\n        print(out.argmax(1).sum())\n",
        ["net(x)"],
    ),
    "a loss": ("out.argmax(1)", "criterion(out, y)", ["net(x)"]),
    "a loss of torch": ("out.argmax(1)", "nn.functional.cross_entropy(out, y)", ["net(x)"]),
    "a maximum of the data": ("out.argmax(1)", "torch.max(out.data, 1)[1]", ["net(x)"]),
    "only a mean": ("out.argmax(1)", "out.mean()", []),
    "never read": ("(out.argmax(1) == y)", "y", []),
    "taken apart": ("out.argmax(1)", "out[0].argmax(1)", []),
    "an attribute that no tensor has": ("out.argmax(1)", "(out.argmax(1) + out.logits)", []),
    "written": ("out.argmax(1) == y", "out.argmax(1) == out.add_(1)", []),
    "kept": ("    correct", "    outs = [out]\n    correct", []),
    "two names": ("out = net(x)", "out, h = net(x)", []),
    "an attribute": ("out = net(x)", "self.out = net(x)", []),
    "of a part": ("out = net(x)", "out = net(x)[0]", []),
    "two passes": ("out = net(x)", "out = net(x)\n        two = net(y)", []),
    "under a condition": ("    with torch.no_grad():", "    if x is not None:", []),
    "something unknown": ("net = nn.Linear(8, 2)", "net = make()", []),
    "something that may be unknown": ("net = nn.Linear(8, 2)", "net = nn.Linear(8, 2) if t else make()", []),
    "a loss of probabilities": ("net(x)", "net(nn.functional.binary_cross_entropy(x, y))", []),
    "no loader": ("in loader", "in make()", []),
    "an optimizer": ("correct = 0", "correct = 0\noptimizer = torch.optim.SGD(net.parameters(), lr=1)", []),
    "a backward pass": ("print(correct)", "correct.backward()", []),
    "a backward pass by its name": ("print(correct)", "getattr(correct, 'backward')()", []),
    "gradients by hand": ("correct = 0", "correct = 0\nfrom torch.autograd import grad", []),
    "only `Variable`": ("correct = 0", "correct = 0\nfrom torch.autograd import Variable", ["net(x)"]),
    "more than `Variable`": ("correct = 0", "correct = 0\nfrom torch.autograd import Variable, grad", []),
    "gradients of the input": ("    with", "    x.requires_grad_()\n    with", []),
    "a framework": ("import torch\n", "import torch\nimport pytorch_lightning\n", []),
}


def files(folder: Path, **texts: str) -> Script:
    """The script `main`, in a project with the others."""
    paths = {name: folder / f"{name}.py" for name in texts}
    for name, path in paths.items():
        path.write_text(texts[name])
    return load(texts["main"], paths["main"], Project(Files([*paths.values()])))


@pytest.mark.parametrize("case", FORWARDS)
def test_forwards(case: str) -> None:
    old, new, expected = FORWARDS[case]
    text = (HEAD + BODY).replace(old, new, 1) if old else HEAD + BODY
    assert (text == HEAD + BODY) is (not old)
    script = load(text)
    assert [script.source(each.call) for each in evaluation_forwards(script)] == expected


def test_each_loop_has_its_own() -> None:
    script = load(HEAD + BODY + BODY)
    assert [each.statement.lineno for each in evaluation_forwards(script)] == [12, 17]


@pytest.mark.parametrize(
    ("other", "main", "expected"),
    [
        ("", "", True),
        ("def f(loss):\n    loss.backward()\n", "import other\n", False),
        ("def f(loss):\n    loss.backward()\n", "from other import f\n", False),
        ("import main\nmain.net(x).sum().backward()\n", "", False),
        ("def f(net):\n    return net\n", "import other\n", True),
        ("loss.backward()\n", "", True),
    ],
    ids=["alone", "imported", "a part imported", "an importer", "no training", "a file of its own"],
)
def test_only_evaluates(tmp_path: Path, other: str, main: str, expected: bool) -> None:
    assert only_evaluates(files(tmp_path, main=HEAD + main + BODY, other=other)) is expected
