"""A recurrent network written out, with state, weights and noise that are made on the host and moved."""
import torch
import torch.nn as nn

torch.manual_seed(2)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
BATCH, LENGTH, HIDDEN, CLASSES = 16, 12, 24, 3

sequences = torch.randn(160, LENGTH, 5)
labels = torch.arange(160) % CLASSES
sequences += 0.5 * labels[:, None, None]


class Elman(nn.Module):
    def __init__(self):
        super().__init__()
        self.step = nn.Linear(5 + HIDDEN, HIDDEN)
        self.out = nn.Linear(HIDDEN, int(CLASSES))

    def forward(self, x):
        h = torch.zeros(x.size(0), HIDDEN).to(device)
        for t in range(x.size(1)):
            h = torch.tanh(self.step(torch.cat([x[:, t], h], 1)))
        return self.out(h)


model = Elman().to(device)
offset = torch.zeros(CLASSES, requires_grad=True).to(device)
optimizer = torch.optim.SGD([{"params": model.parameters()}, {"params": [offset], "lr": 0.5}], lr=0.1, momentum=0.9)
prior = torch.full((CLASSES,), 1 / 3).to(device).double()

for epoch in range(3):
    total = 0.0
    for start in range(0, len(sequences), BATCH):
        x, y = sequences[start : start + BATCH].to(device), labels[start : start + BATCH].to(device)
        noise = torch.randn(x.size(0), HIDDEN // 4, 5).to(device)
        x = x + 0.1 * noise.mean(1, keepdim=True)
        optimizer.zero_grad()
        logits = model(x) + offset
        spread = (torch.softmax(logits, 1).double().mean(0) - prior).square().sum()
        loss = nn.functional.cross_entropy(logits, y) + 0.1 * spread.float()
        loss.backward()
        optimizer.step()
        total += loss.item()
    print(f"epoch {epoch}: {total:.6f} offset {[round(each, 5) for each in offset.tolist()]}")
