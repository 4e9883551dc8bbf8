"""Ratios to what a model gave before, in a region or out of it."""

from __future__ import annotations

import pytest

from autoaccel.analysis import load
from autoaccel.pytorch.training_steps import training_steps
from autoaccel_codemods.autocast.regions import place_regions

HEAD = """\
import torch
from torch import nn
from experience import Experience

policy, other = nn.Linear(4, 2), nn.Linear(4, 2)
optimizer = torch.optim.Adam(policy.parameters())

def surrogate(log_ratio, advantage):
    return -(torch.exp(log_ratio) * advantage).mean()

def clipped(new, old):
    return torch.clamp(new / old, 1 - 0.2, 1 + 0.2)

class Loss(nn.Module):
    def forward(self, new, old, advantage):
        return -(torch.exp(new.sub(old)) * advantage).mean()

criterion = Loss()
for iteration in range(1000):
    states, old, advantages = Experience(policy)
    for _ in range(10):
        new = torch.log_softmax(policy(states), 1)[:, 0]
        {lines}
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""
RATIOS = {
    "exp": "loss = -(torch.exp(new - old) * advantages).mean()",
    "as a method": "loss = -((new - old).exp() * advantages).mean()",
    "the other way round": "loss = -(torch.exp(-old + new) * advantages).mean()",
    "by name": "log_ratio = new - old; loss = -(log_ratio.exp() * advantages).mean()",
    "in place": "log_ratio = new.clone(); log_ratio -= old; loss = -(log_ratio.exp() * advantages).mean()",
    "clamped": "loss = -(torch.exp((new - old).clamp(-5, 5)) * advantages).mean()",
    "of a sequence": "loss = -(torch.exp((new - old).mean(-1)) * advantages).mean()",
    "handed to a function": "loss = surrogate(new - old, advantages)",
    "handed to a module": "loss = criterion(new, old, advantages)",
    "a quotient kept near 1": "loss = -(clipped(new.exp(), old.exp()) * advantages).mean()",
}
NONE = {
    "no ratio": "loss = -(new * advantages).mean()",
    "of itself": "loss = -(torch.exp(new - new.detach()) * advantages).mean()",
    "of another model in the same region": "loss = -torch.exp(new - torch.log_softmax(other(states), 1)[:, 0]).mean()",
    "of what is the same": "loss = -torch.exp(new - new.max(0).values).mean()",
    "a distance": "loss = torch.exp(-(new - old).pow(2)).mean()",
    "of a number": "loss = -torch.exp(new / 0.5 - 1.0).mean()",
    "a quotient": "loss = (new / old).mean()",
    "clamped elsewhere": "loss = -(torch.clamp(new / old, -10, 0) * advantages).mean()",
}


@pytest.mark.parametrize("lines", [pytest.param(each, id=name) for name, each in RATIOS.items()])
def test_a_ratio_to_what_was_kept(lines: str) -> None:
    assert [reason for reason in reasons(lines) if reason.startswith("a ratio is taken to `old")]


@pytest.mark.parametrize("lines", [pytest.param(each, id=name) for name, each in NONE.items()])
def test_no_ratio_to_what_was_kept(lines: str) -> None:
    assert not reasons(lines)


def reasons(lines: str) -> list[str]:
    script = load(HEAD.format(lines=lines.replace("; ", "\n        ")))
    [step] = training_steps(script)
    return [reason for _, reason in place_regions(script, step).problems]
