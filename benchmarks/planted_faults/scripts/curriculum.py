"""A dataset that gets harder: the script changes it between epochs."""
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset

torch.manual_seed(9)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class Mixtures(Dataset):
    def __init__(self, n=150):
        generator = torch.Generator().manual_seed(9)
        self.noise = torch.randn(n, 6, generator=generator)
        self.level = 0.1

    def __len__(self):
        return len(self.noise)

    def __getitem__(self, i):
        label = i % 3
        x = self.level * self.noise[i]
        x[label] += 1
        return x, label


dataset = Mixtures()
loader = DataLoader(dataset, batch_size=16, shuffle=True)
model = nn.Sequential(nn.Linear(6, 24), nn.Tanh(), nn.Linear(24, int("3"))).to(device)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)

for epoch in range(4):
    dataset.level = 0.1 + 0.3 * epoch
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch}: {loss.item():.6f}")
