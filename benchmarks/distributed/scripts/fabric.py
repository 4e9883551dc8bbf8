import torch
from lightning_fabric import Fabric
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

fabric = Fabric(accelerator="auto", devices=2, strategy="ddp")
fabric.launch()
torch.manual_seed(0)
torch.set_default_dtype(torch.float64)
world = fabric.world_size
images, labels = torch.randn(235, 3, 8, 8), torch.randint(0, 5, (235,))
train_set, test_set = TensorDataset(images[:171], labels[:171]), TensorDataset(images[171:234], labels[171:234])
train_loader = DataLoader(train_set, batch_size=16 // world, shuffle=True)
test_loader = DataLoader(test_set, batch_size=16 // world)
train_loader, test_loader = fabric.setup_dataloaders(train_loader, test_loader)
model = nn.Sequential(
    nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Dropout(0.2), nn.Linear(512, 5)
)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
model, optimizer = fabric.setup(model, optimizer)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=4, gamma=0.8)

for epoch in range(2):
    model.train()
    losses = []
    for x, y in train_loader:
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        fabric.backward(loss)
        fabric.clip_gradients(model, optimizer, max_norm=1.0)
        optimizer.step()
        scheduler.step()
        losses.append(loss.item())
    model.eval()
    total, seen = 0.0, 0
    with torch.no_grad():
        for x, y in test_loader:
            total += F.cross_entropy(model(x), y, reduction="sum").item()
            seen += len(x)
    sums = fabric.all_reduce(torch.tensor([total, seen], device=fabric.device), reduce_op="sum")
    total, seen = sums[0].item(), int(sums[1].item())
    train, lr = sum(losses) / len(losses), scheduler.get_last_lr()[0]
    fabric.print(f"epoch {epoch}: train {train!r} test {total / seen!r} seen {seen} steps {len(losses)} lr {lr!r}")
fabric.save("net.pt", model.state_dict())
