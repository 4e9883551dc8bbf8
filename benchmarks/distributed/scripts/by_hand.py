import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
rank, world = dist.get_rank(), dist.get_world_size()

torch.manual_seed(0)
torch.set_default_dtype(torch.float64)
device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if torch.cuda.is_available() else torch.device("cpu")
images, labels = torch.randn(235, 3, 8, 8), torch.randint(0, 5, (235,))
train_set, test_set = TensorDataset(images[:171], labels[:171]), TensorDataset(images[171:234], labels[171:234])
train_sampler = DistributedSampler(train_set)
train_loader = DataLoader(train_set, batch_size=16 // world, sampler=train_sampler)
test_loader = DataLoader(test_set, batch_size=16 // world, sampler=DistributedSampler(test_set, shuffle=False))
model = nn.Sequential(
    nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Dropout(0.2), nn.Linear(512, 5)
).to(device)
model = DistributedDataParallel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=4, gamma=0.8)

for epoch in range(2):
    model.train()
    train_sampler.set_epoch(epoch)
    losses = []
    for x, y in train_loader:
        x, y = x.to(device), y.to(device)
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        losses.append(loss.item())
    model.eval()
    total, seen = 0.0, 0
    with torch.no_grad():
        for x, y in test_loader:
            x, y = x.to(device), y.to(device)
            total += F.cross_entropy(model(x), y, reduction="sum").item()
            seen += len(x)
    sums = torch.tensor([total, seen], device=device)
    dist.all_reduce(sums)
    total, seen = sums[0].item(), int(sums[1].item())
    train, lr = sum(losses) / len(losses), scheduler.get_last_lr()[0]
    if rank == 0:
        print(f"epoch {epoch}: train {train!r} test {total / seen!r} seen {seen} steps {len(losses)} lr {lr!r}")
if rank == 0:
    torch.save(model.module.state_dict(), "net.pt")
dist.barrier()
dist.destroy_process_group()
