import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
images, labels = torch.randn(43, 3, 6, 6), torch.randint(0, 5, (43,))
train_loader = DataLoader(TensorDataset(images, labels), batch_size=8, shuffle=True)
test_loader = DataLoader(TensorDataset(images[:21], labels[:21]), batch_size=8)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.drop = nn.Dropout(0.3)
        self.out = nn.Linear(288, 5)

    def forward(self, x):
        x = F.relu(self.norm(self.conv(x)))
        return self.out(self.drop(x.flatten(1)))


model = Net().to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=4, gamma=0.5)

best = float("inf")
for epoch in range(3):
    model.train()
    for i, (x, y) in enumerate(train_loader):
        x, y = x.to(device), y.to(device)
        noise = torch.randn(x.shape, device=device)
        loss = F.cross_entropy(model(x + 0.1 * noise), y)
        loss.backward()
        if i % 2:
            nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            optimizer.step()
            optimizer.zero_grad()
            scheduler.step()
    model.eval()
    total, seen = 0.0, 0
    with torch.no_grad():
        for x, y in test_loader:
            x, y = x.to(device), y.to(device)
            total += F.cross_entropy(model(x), y, reduction="sum").item()
            seen += len(x)
    print(f"epoch {epoch}: {total / seen:.4f} over {seen}")
    if total < best:
        best = total
        torch.save(model.state_dict(), "best.pt")
model.load_state_dict(torch.load("best.pt"))
print(f"best: {sum(each.sum().item() for each in model.parameters()):.6f}")
