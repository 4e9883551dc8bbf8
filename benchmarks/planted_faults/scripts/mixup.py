"""Mixup: the loop draws random numbers between the batches, and so does the dataset."""
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset

torch.manual_seed(12)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class Rings(Dataset):
    def __init__(self, n=120):
        self.angle = torch.arange(n) * 0.7
        self.label = torch.arange(n) % 2

    def __len__(self):
        return len(self.label)

    def __getitem__(self, i):
        radius = 1 + self.label[i] + 0.1 * torch.randn(())
        return radius * torch.stack([self.angle[i].cos(), self.angle[i].sin()]), self.label[i]


loader = DataLoader(Rings(), batch_size=12, shuffle=True)
model = nn.Sequential(nn.Linear(2, 32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, int("2"))).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

for epoch in range(3):
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        order = torch.randperm(len(x), device=device)
        share = float(torch.rand(()))
        optimizer.zero_grad()
        logits = model(share * x + (1 - share) * x[order])
        loss = share * nn.functional.cross_entropy(logits, y)
        loss = loss + (1 - share) * nn.functional.cross_entropy(logits, y[order])
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch}: {loss.item():.6f}")
