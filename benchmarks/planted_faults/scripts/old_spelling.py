"""Mixed precision by hand, as it was spelled once: the body in bfloat16, the head in float32."""
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(18)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

x = torch.randn(160, 12)
y = (x[:, :4].sum(1) > x[:, 4:8].sum(1)).long()
loader = DataLoader(TensorDataset(x, y), batch_size=16, shuffle=True)
body = nn.Sequential(nn.Linear(12, 48), nn.ReLU(), nn.Linear(48, 48), nn.ReLU()).to(device)
head = nn.Linear(48, 2).to(device)
optimizer = torch.optim.SGD([*body.parameters(), *head.parameters()], lr=0.1, momentum=0.9)

for epoch in range(3):
    for inputs, labels in loader:
        inputs, labels = inputs.to(device), labels.to(device)
        optimizer.zero_grad()
        with torch.cpu.amp.autocast(True, torch.bfloat16):
            features = body(inputs)
            with torch.cpu.amp.autocast(False):
                logits = head(features.float())
        loss = nn.functional.cross_entropy(logits, labels)
        loss.backward()
        optimizer.step()
    with torch.no_grad(), torch.cuda.amp.autocast():
        margin = head(body(x.to(device))).float().diff(dim=1).abs().mean()
    print(f"epoch {epoch}: {loss.item():.6f} margin {margin.item():.6f}")
