"""A teacher that is a slow copy of its student."""
import copy

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(13)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

x = torch.randn(200, 6)
y = (x[:, 0] * x[:, 1] > 0).long()
loader = DataLoader(TensorDataset(x, y), batch_size=20, shuffle=True)


class Student(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(6, 24), nn.ReLU(), nn.Linear(24, 24), nn.ReLU())
        self.head = nn.Linear(24, int("2"))

    def forward(self, x):
        return self.head(self.body(x))


student = Student().to(device)
optimizer = torch.optim.SGD(student.parameters(), lr=0.05, momentum=0.9)
teacher = copy.deepcopy(student)
teacher.requires_grad_(False)

for epoch in range(3):
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        optimizer.zero_grad()
        logits = student(x)
        agreement = nn.functional.mse_loss(logits, teacher(x))
        loss = nn.functional.cross_entropy(logits, y) + agreement
        loss.backward()
        optimizer.step()
        for slow, fast in zip(teacher.parameters(), student.parameters()):
            slow.data.mul_(0.9).add_(fast.data, alpha=0.1)
    print(f"epoch {epoch}: {loss.item():.6f} agreement {agreement.item():.6f}")
torch.save(student.state_dict(), "student.pt")
print(sorted(torch.load("student.pt")))
