"""Texts of small training scripts, and how they are run."""

from __future__ import annotations

from collections.abc import Callable

from autoaccel.measure.observing.run_record import RunRecord

Observe = Callable[..., RunRecord]
"""`observe(text, environment=None, **request)` runs a text as the script of an empty project."""

SETUP = """
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(1)
model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2))
data = TensorDataset(torch.randn(24, 4), torch.randint(0, 2, (24,)))
loader = DataLoader(data, batch_size=4, shuffle=True)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
"""

EPOCH = """
for x, y in loader:
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    print(loss.item())
"""
