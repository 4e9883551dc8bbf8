"""Two heads on one trunk: each loss goes backward by itself, the gradients add up."""
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(1)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

x = torch.randn(240, 10)
kind = (x[:, :3].sum(1) > 0).long()
size = x[:, 3:6].sum(1, keepdim=True)
loader = DataLoader(TensorDataset(x, kind, size), batch_size=16, shuffle=True)


class TwoHeads(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU())
        self.kind = nn.Linear(32, int("2"))
        self.size = nn.Linear(32, int("1"))

    def forward(self, x):
        h = self.trunk(x)
        return self.kind(h), self.size(h)


model = TwoHeads().to(device)
cross_entropy, mse = nn.CrossEntropyLoss(), nn.MSELoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)

for epoch in range(3):
    for x, kind, size in loader:
        x, kind, size = x.to(device), kind.to(device), size.to(device)
        optimizer.zero_grad()
        kind_out, size_out = model(x)
        kind_loss = cross_entropy(kind_out, kind)
        size_loss = mse(size_out, size)
        kind_loss.backward(retain_graph=True)
        size_loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    print(f"epoch {epoch}: kind {kind_loss.item():.6f} size {size_loss.item():.6f}")
