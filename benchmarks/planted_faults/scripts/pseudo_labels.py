"""A student learns from the labels of a teacher, which a generator makes on the way."""
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(17)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

loader = DataLoader(TensorDataset(torch.randn(160, 6)), batch_size=16, shuffle=True)
teacher = nn.Sequential(nn.Linear(6, 16), nn.Dropout(0.2), nn.Tanh(), nn.Linear(16, int("3"))).to(device)
student = nn.Sequential(nn.Linear(6, 16), nn.Dropout(0.1), nn.Tanh(), nn.Linear(16, int("3"))).to(device)
teacher.eval()
bias = nn.Parameter(torch.zeros(3, device=device))
optimizer = torch.optim.SGD([*student.parameters(), bias], lr=0.1, momentum=0.9)


def labelled():
    for (x,) in loader:
        x = x.to(device)
        yield x, teacher(x).argmax(1)


def check():
    hits = 0
    for (x,) in loader:
        x = x.to(device)
        hits += (student(x).argmax(1) == teacher(x).argmax(1)).sum().item()
    return hits


for epoch in range(3):
    for x, y in labelled():
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(student(x) + bias, y)
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch}: {loss.item():.6f} agrees {check()}")
