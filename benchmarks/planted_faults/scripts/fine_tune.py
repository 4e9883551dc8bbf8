"""Fine-tuning with a small learning rate: the weights hardly move. Lines of the evaluation tell the time, too."""
import time

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(20)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

x = torch.randn(224, 10)
y = (x[:, :3].sum(1) > 0).long()
size = x[:, 3:6].sum(1, keepdim=True)
train_loader = DataLoader(TensorDataset(x[:160], y[:160], size[:160]), batch_size=16, shuffle=True)
test_loader = DataLoader(TensorDataset(x[160:], y[160:]), batch_size=16)


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
optimizer = torch.optim.SGD(model.parameters(), lr=1e-5, momentum=0.9)
started = time.time()


def evaluate():
    model.eval()
    correct = 0
    for inputs, labels in test_loader:
        inputs, labels = inputs.to(device), labels.to(device)
        correct += (model(inputs)[0].argmax(1) == labels).sum().item()
    model.train()
    return correct / 64


for epoch in range(3):
    for inputs, kind, size in train_loader:
        inputs, kind, size = inputs.to(device), kind.to(device), size.to(device)
        optimizer.zero_grad()
        kind_out, size_out = model(inputs)
        kind_loss = cross_entropy(kind_out, kind)
        size_loss = mse(size_out, size)
        kind_loss.backward(retain_graph=True)
        size_loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        optimizer.step()
    print(f"[{epoch + 1}/3] accuracy {evaluate():.4f} {time.time() - started:.2f} s")
