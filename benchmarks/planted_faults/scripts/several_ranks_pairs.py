import copy

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
points, labels = torch.randn(43, 12), torch.randint(0, 4, (43,))
labels[::5] = -100
loader = DataLoader(TensorDataset(points, labels), batch_size=8, shuffle=True)
weights = torch.tensor([1.0, 2.0, 0.5, 4.0], device=device)


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(12, 16)
        self.head = nn.Linear(16, int("4"))

    def forward(self, x):
        z = torch.tanh(self.body(x))
        return self.head(z), F.normalize(z, dim=1)


model = Encoder().to(device)
average = copy.deepcopy(model)
model.body.requires_grad_(False)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

best, waited = float("inf"), 0
for epoch in range(4):
    if epoch == 1:
        model.body.requires_grad_(True)
    running, count = 0.0, 0
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        out, z = model(x)
        classes = F.cross_entropy(out, y, weight=weights, ignore_index=-100)
        size = out.pow(2).sum() / len(x)
        pairs = F.cross_entropy(z @ z.t() * 5, torch.arange(len(x), device=device))
        loss = classes + 0.1 * size + 0.5 * pairs
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            for mine, theirs in zip(average.parameters(), model.parameters()):
                mine.lerp_(theirs, 0.2)
        running += loss.item() * len(x)
        count += len(x)
    with torch.no_grad():
        value = F.cross_entropy(average(points.to(device))[0], labels.to(device), ignore_index=-100).item()
    print(f"epoch {epoch}: {running / count:.4f}, validation {value:.4f}")
    if value < best - 0.005:
        best, waited = value, 0
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, "best.pt")
    else:
        waited += 1
        if waited == 2:
            break
state = torch.load("best.pt")
model.load_state_dict(state["model"])
optimizer.load_state_dict(state["optimizer"])
loss = F.cross_entropy(model(points.to(device))[0], labels.to(device), ignore_index=-100)
optimizer.zero_grad()
loss.backward()
optimizer.step()
print(f"in the end: {loss.item():.4f}")
