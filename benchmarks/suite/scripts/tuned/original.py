"""CIFAR-10 by somebody who has done this before: nothing is left to be gained by the usual means."""

import argparse
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset
from torchvision import datasets

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=2000)
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--size", choices=["small", "full"], default="small")
parser.add_argument("--data", default="data")
args = parser.parse_args()

cuda = torch.cuda.is_available()
device = torch.device("cuda" if cuda else "cpu")
torch.manual_seed(args.seed)
torch.backends.cudnn.benchmark = True
torch.set_float32_matmul_precision("high")
width, batch_size = (64, 512) if args.size == "full" else (16, 32)
mean = torch.tensor([125.3, 123.0, 113.9], device=device).view(1, 3, 1, 1)
std = torch.tensor([62.9, 62.1, 66.7], device=device).view(1, 3, 1, 1)


def low_precision():
    if cuda:
        return torch.cuda.is_bf16_supported()
    cpuinfo = Path("/proc/cpuinfo")
    return cpuinfo.exists() and "avx512_bf16" in cpuinfo.read_text()


class TrainingSet:
    """All images on the device; crops and flips are drawn there, for a whole batch at once."""

    def __init__(self, root):
        plain = datasets.CIFAR10(root, train=True, download=True)
        images = torch.from_numpy(plain.data).permute(0, 3, 1, 2).to(device, torch.float32)
        images = F.pad((images - mean) / std, (4, 4, 4, 4), mode="reflect")
        self.images = images.permute(0, 2, 3, 1).contiguous()
        self.labels = torch.tensor(plain.targets, device=device)

    def batches(self):
        for rows in torch.randperm(len(self.labels), device=device).split(batch_size):
            if len(rows) < batch_size:
                return
            shifts = torch.randint(0, 9, (2, len(rows), 1), device=device)
            reach = torch.arange(32, device=device)
            reversed_reach = torch.where(torch.rand(len(rows), 1, device=device) < 0.5, 31 - reach, reach)
            vertical, horizontal = shifts[0] + reach, shifts[1] + reversed_reach
            crops = self.images[rows[:, None, None], vertical[:, :, None], horizontal[:, None, :]]
            yield crops.permute(0, 3, 1, 2), self.labels[rows]


class TestSet(Dataset):
    """Fetched by the batch: the loader hands over all indices at once."""

    def __init__(self, root):
        plain = datasets.CIFAR10(root, train=False, download=True)
        self.images, self.labels = torch.from_numpy(plain.data), torch.tensor(plain.targets)

    def __len__(self):
        return len(self.labels)

    def __getitems__(self, indices):
        return self.images[indices], self.labels[indices]


def unit(inputs, outputs, pool):
    layers = [nn.Conv2d(inputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(inplace=True)]
    return nn.Sequential(*layers, *([nn.MaxPool2d(2)] if pool else []))


class Residual(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.branch = nn.Sequential(unit(channels, channels, False), unit(channels, channels, False))

    def forward(self, x):
        return x + self.branch(x)


train_set = TrainingSet(args.data)
test_loader = DataLoader(
    TestSet(args.data),
    batch_size=512,
    num_workers=2 if cuda else 0,
    pin_memory=cuda,
    persistent_workers=cuda,
    collate_fn=tuple,
)
model = nn.Sequential(
    unit(3, width, False),
    unit(width, 2 * width, True),
    Residual(2 * width),
    unit(2 * width, 4 * width, True),
    unit(4 * width, 4 * width, True),
    Residual(4 * width),
    nn.AdaptiveMaxPool2d(1),
    nn.Flatten(),
    nn.Linear(4 * width, 10),
)
model = model.to(device, memory_format=torch.channels_last)
if cuda:
    model.compile()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=5e-4, nesterov=True, fused=True)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=5000)
low = low_precision()


@torch.no_grad()
def test():
    model.eval()
    correct = torch.zeros((), dtype=torch.int64, device=device)
    for images, labels in test_loader:
        images, labels = images.to(device, non_blocking=True), labels.to(device, non_blocking=True)
        images = (images.permute(0, 3, 1, 2).float() - mean) / std
        with torch.autocast(device.type, torch.bfloat16, enabled=low):
            correct += (model(images).argmax(1) == labels).sum()
    model.train()
    return correct.item() / len(test_loader.dataset)


step = epoch = 0
while step < args.steps:
    for images, labels in train_set.batches():
        with torch.autocast(device.type, torch.bfloat16, enabled=low):
            loss = F.cross_entropy(model(images), labels, label_smoothing=0.1)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        scheduler.step()
        step += 1
        if step % 50 == 0 or step == args.steps:
            print(f"step {step} loss {loss.item():.4f}")
        if step == args.steps:
            break
    epoch += 1
    if epoch % 5 == 0 or step == args.steps:
        print(f"epoch {epoch} accuracy {test():.4f}")
