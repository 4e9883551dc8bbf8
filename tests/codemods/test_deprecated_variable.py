"""What `deprecated-variable` writes gives the same tensors as today's torch makes of a `Variable`."""

from __future__ import annotations

import runpy
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.autograd import Variable

from autoaccel.edits import Tier
from autoaccel.rewriting import engine, registry

FIXTURES = Path(__file__).parents[2] / "fixtures" / "deprecated-variable"


def facts(value: object) -> Any:
    """All that tells a tensor from another, without its history; of other values nothing."""
    if not isinstance(value, torch.Tensor):
        return None
    grad = None if value.grad is None else value.grad.tolist()
    return type(value).__name__, value.tolist(), value.dtype, value.requires_grad, value.is_leaf, grad


def names(path: Path) -> dict[str, Any]:
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of `volatile`, `size_average`, and tensors that are resized
        found = runpy.run_path(str(path))
    return {name: facts(value) for name, value in found.items() if not name.startswith("__")}


@pytest.mark.filterwarnings("ignore:The .grad attribute")
@pytest.mark.parametrize("case", ["graph", "told_apart", "layout", "names", "without_gradients", "nothing_left"])
def test_tensors_stay_what_they_are(case: str, capsys: pytest.CaptureFixture[str]) -> None:
    before = names(FIXTURES / f"{case}.in.py")
    printed = capsys.readouterr().out
    after = names(FIXTURES / f"{case}.out.py")
    assert capsys.readouterr().out == printed
    assert after == {name: value for name, value in before.items() if name in after}
    assert set(before) - set(after) <= {"Variable", "V", "autograd"}


@pytest.mark.filterwarnings("ignore:volatile was removed")
def test_what_torch_makes_of_it() -> None:
    leaf = torch.nn.Parameter(torch.ones(3))
    for made in (Variable(leaf * 2), Variable(leaf), Variable(leaf * 2, volatile=True)):
        assert (type(made), made.requires_grad, made.grad_fn) == (torch.Tensor, False, None)
    assert Variable(leaf).data_ptr() == leaf.detach().data_ptr() == leaf.data_ptr()
    assert id(Variable(leaf, requires_grad=True)) != id(leaf)
    assert isinstance(leaf, Variable)
    assert not issubclass(torch.Tensor, Variable)
    assert Variable(None).shape == (0,)
    with pytest.raises(TypeError):
        Variable([1.0])  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        torch.ones(2).requires_grad_(1)  # type: ignore[arg-type]
    assert Variable(torch.ones(2), requires_grad=1).requires_grad  # type: ignore[arg-type]


TRAINING = """\
import torch
import torch.nn.functional as F
from torch import nn
from torch.autograd import Variable
from torch.utils.data import DataLoader
from torchvision import datasets, transforms

train_loader = DataLoader(datasets.MNIST("data", transform=transforms.ToTensor()), batch_size=64, shuffle=True)
test_loader = DataLoader(datasets.MNIST("data", train=False, transform=transforms.ToTensor()), batch_size=64)
model = nn.Sequential(nn.Flatten(), nn.Linear(784, 100), nn.ReLU(), nn.Linear(100, 10)).cuda()
optimizer = torch.optim.Adam(model.parameters())


def train():
    model.train()
    total = 0.0
    for data, target in train_loader:
        data, target = Variable(data.cuda()), Variable(target.cuda())
        optimizer.zero_grad()
        loss = F.cross_entropy(model(data), target)
        loss.backward()
        optimizer.step()
        total += loss.data.item()
    print(total)


def test():
    model.eval()
    correct = 0
    for data, target in test_loader:
        data, target = Variable(data.cuda(), volatile=True), Variable(target.cuda())
        correct += model(data).data.max(1)[1].eq(target).sum().item()
    print(correct)


for _ in range(10):
    train()
    test()
"""


def test_the_other_rules_follow_in_the_same_run() -> None:
    rules = [rule for rule in registry.rules() if not rule.opt_in]
    result = engine.rewrite(TRAINING, None, rules, tier=Tier.NUMERICS)
    assert not result.errors
    assert "Variable" not in result.after
    assert "volatile" not in result.after
    assert "        data, target = data.cuda(non_blocking=True), target.cuda(non_blocking=True)\n" in result.after
    assert "total += loss\n" in result.after
    assert "@torch.no_grad()\ndef test():" in result.after
    codes = {finding.rule.code for finding in result.findings}
    assert {"AA103", "AA201", "AA202", "AA301", "AA304", "AA401", "AA501", "AA602", "AA603"} <= codes
    again = engine.rewrite(result.after, None, rules, tier=Tier.NUMERICS)
    assert again.after == result.after


def test_old_spellings_hide_nothing() -> None:
    """What other rules find is the same with the wrappers and without them."""
    alone = [rule for rule in registry.rules() if rule.code == "AA304"]
    after = engine.rewrite(TRAINING, None, alone, tier=Tier.NUMERICS).after
    rest = [rule for rule in registry.rules() if rule.code != "AA304"]

    def found(text: str) -> list[str]:
        return sorted(each.rule.code for each in engine.rewrite(text, None, rest, tier=Tier.NUMERICS).findings)

    assert found(TRAINING) == found(after)


def test_what_does_not_parse_is_left_to_its_author(tmp_path: Path) -> None:
    text = "from torch.autograd import Variable\nx = Variable(y.cuda(async=True))\n"
    result = engine.rewrite(text, tmp_path / "old.py", registry.rules())
    assert result.after == text
    assert result.errors
