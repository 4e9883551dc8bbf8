"""Of which losses `discarded-gradients` says that it leaves them alone, and of which there is nothing to say."""

from __future__ import annotations

import pytest

from autoaccel.rewriting import engine, registry

PROGRAM = """
import torch
from torch import nn

G, D = nn.Linear(4, 8), nn.Linear(8, 4)
optimizer_G = torch.optim.SGD(G.parameters(), lr=0.1)
optimizer_D = torch.optim.SGD(D.parameters(), lr=0.1)


def train_d(x):
    optimizer_D.zero_grad()
    loss = D(x).sum()
    loss.backward()
    optimizer_D.step()


def train(x):
    optimizer_G.zero_grad()
    {before}
    loss = D({given}).sum()
    loss.backward()
    {after}
    optimizer_G.step()


for x in torch.rand(4, 16, 4):
    train_d(torch.rand(16, 8))
    train(x)
"""
WHOLE = {"before": "pass", "given": "G(x)", "after": "pass"}


def said(**parts: str) -> list[str]:
    rules = [each for each in registry.rules() if each.code == "AA606"]
    return [each.message for each in engine.rewrite(PROGRAM.format(**{**WHOLE, **parts}), None, rules).skipped]


def test_losses_through_two_models() -> None:
    assert said() == ["gradients of `G` or of `D` may be discarded unread, but training is in more than one function"]
    assert said(before="y = G(x)", given="y") == said()


@pytest.mark.parametrize(
    "parts",
    [
        {"after": "optimizer_D.step()"},  # both step by them
        {"before": "D.requires_grad_(False)"},  # the program says what it wants
        {"given": "G(x).detach()"},
        {"before": "with torch.no_grad(): y = G(x)", "given": "y"},
        {"given": "torch.rand(16, 8)"},
    ],
    ids=str,
)
def test_nothing_is_said(parts: dict[str, str]) -> None:
    assert said(**parts) == []
