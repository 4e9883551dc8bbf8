"""Samples from a stream, which does not divide itself among workers."""
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, IterableDataset

torch.manual_seed(8)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class Stream(IterableDataset):
    def __iter__(self):
        for i in range(144):
            x = torch.sin(torch.arange(8) * (1 + i % 5) + i)
            yield x, i % 5


loader = DataLoader(Stream(), batch_size=8)
model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, int("5"))).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

for epoch in range(3):
    total = seen = 0
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        total += loss.item() * len(x)
        seen += len(x)
    print(f"epoch {epoch}: {total / seen:.6f} of {seen} samples")
