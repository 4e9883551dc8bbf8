"""Augmentation in the dataset: one loader draws from torch's stream, one from a generator that the dataset keeps."""
import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset

torch.manual_seed(10)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class Noisy(Dataset):
    def __init__(self, n=96):
        self.x = torch.linspace(-2, 2, n)

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return (self.x[i] + 0.3 * torch.randn(())).reshape(1), torch.sin(self.x[i]).reshape(1)


class Jittered(Noisy):
    def __init__(self, n=96):
        super().__init__(n)
        self.rng = np.random.default_rng(10)

    def __getitem__(self, i):
        x = self.x[i] + float(self.rng.normal(0, 0.3))
        return x.reshape(1), torch.cos(self.x[i]).reshape(1)


noisy = DataLoader(Noisy(), batch_size=12)
jittered = DataLoader(Jittered(), batch_size=12)
model = nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, int("1"))).to(device)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)

for epoch in range(3):
    for loader in (noisy, jittered):
        for x, y in loader:
            x, y = x.to(device), y.to(device)
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(x), y)
            loss.backward()
            optimizer.step()
    print(f"epoch {epoch}: {loss.item():.6f}")
