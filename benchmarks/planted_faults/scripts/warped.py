"""Inputs are warped by a table that is drawn once and kept."""
import functools

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(15)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

x = torch.randn(160, 8)
y = (x[:, :2].prod(1) > 0).long()
loader = DataLoader(TensorDataset(x, y), batch_size=16, shuffle=True)
model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, int("2"))).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)


@functools.lru_cache
def table(size):
    return 1 + 0.1 * torch.randn(size)


def warp(x):
    return x * table(x.size(1)).to(x.device)


for epoch in range(3):
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(warp(x)), y)
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch}: {loss.item():.6f}")
