"""The last batches are kept and trained on once more."""
from collections import deque

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(19)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

x = torch.randn(160, 8)
y = (x[:, 0] > x[:, 1]).long()
loader = DataLoader(TensorDataset(x, y), batch_size=16, shuffle=True)
model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, int("2"))).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
kept = deque(maxlen=3)

for epoch in range(3):
    for inputs, labels in loader:
        inputs, labels = inputs.to(device), labels.to(device)
        kept.append((inputs, labels))
        optimizer.zero_grad()
        loss = sum(nn.functional.cross_entropy(model(x), y) for x, y in kept) / len(kept)
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch}: {loss.item():.6f}")
