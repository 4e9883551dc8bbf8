"""A training script of any length, as people write them: options, models, data, measures, and one loop, or many."""

from __future__ import annotations

_HEAD = '''"""Train a classifier of pictures."""

import argparse
import json
import math
import random
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset
'''

_LOOP = '''

def train_epoch{n}(model, loader, optimizer, criterion, device, epoch, options):
    """One pass over the training data; loss and accuracy."""
    model.train()
    total, correct, running = 0, 0, 0.0
    for step, (images, labels) in enumerate(loader):
        images = images.to(device)
        labels = labels.to(device)
        optimizer.zero_grad()
        outputs = model(images)
        loss = criterion(outputs, labels)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), options.clip)
        optimizer.step()
        running += loss.item()
        total += labels.size(0)
        correct += (outputs.argmax(dim=1) == labels).sum().item()
        if step % options.log_every == 0:
            print(f"epoch {{epoch}} step {{step}}: loss {{running / (step + 1):.4f}}")
    return running / len(loader), correct / total


def evaluate{n}(model, loader, criterion, device):
    """Loss and accuracy on held-out data."""
    model.eval()
    total, correct, running = 0, 0, 0.0
    for images, labels in loader:
        images = images.to(device)
        labels = labels.to(device)
        outputs = model(images)
        running += criterion(outputs, labels).item()
        total += labels.size(0)
        correct += (outputs.argmax(dim=1) == labels).sum().item()
    return running / len(loader), correct / total


def run{n}(options):
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    train = DataLoader(Pictures0(1000), batch_size=options.batch_size, shuffle=True)
    test = DataLoader(Pictures0(200), batch_size=options.batch_size)
    model = Encoder0(3, options.width).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=options.lr)
    criterion = nn.CrossEntropyLoss()
    best = 0.0
    for epoch in range(options.epochs):
        set_rate0(optimizer, epoch, options)
        loss, accuracy = train_epoch{n}(model, train, optimizer, criterion, device, epoch, options)
        print(f"train: loss {{loss:.4f}} accuracy {{accuracy:.4f}}")
        loss, accuracy = evaluate{n}(model, test, criterion, device)
        print(f"test: loss {{loss:.4f}} accuracy {{accuracy:.4f}}")
        if accuracy > best:
            best = accuracy
            torch.save(model.state_dict(), options.output / "best{n}.pt")
'''

_AROUND = (
    '''

class Encoder{n}(nn.Module):
    """Pictures to scores."""

    def __init__(self, channels, width):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, width, 3, padding=1)
        self.conv2 = nn.Conv2d(width, width, 3, stride=2, padding=1)
        self.norm1 = nn.BatchNorm2d(width)
        self.norm2 = nn.BatchNorm2d(width)
        self.head = nn.Linear(width, 10)
        self.reset()

    def reset(self):
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight)

    def forward(self, x):
        x = F.relu(self.norm1(self.conv1(x)))
        x = F.relu(self.norm2(self.conv2(x)))
        return self.head(x.mean(dim=(2, 3)))
''',
    '''

class Pictures{n}(Dataset):
    """Pictures in memory, with labels."""

    def __init__(self, length, transform=None):
        self.images = np.random.rand(length, 3, 32, 32).astype("float32")
        self.labels = np.random.randint(0, 10, length)
        self.transform = transform

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        image = torch.from_numpy(self.images[index])
        if self.transform is not None:
            image = self.transform(image)
        return image, int(self.labels[index])
''',
    '''

class Meter{n}:
    """A mean that is kept up to date."""

    def __init__(self, name, digits=4):
        self.name = name
        self.digits = digits
        self.reset()

    def reset(self):
        self.total = 0.0
        self.count = 0

    def update(self, value, count=1):
        self.total += value * count
        self.count += count

    @property
    def mean(self):
        return self.total / max(1, self.count)

    def __str__(self):
        return f"{{self.name}} {{self.mean:.{{self.digits}}f}}"
''',
    '''

def set_rate{n}(optimizer, epoch, options):
    """Warm up, then a half cosine."""
    if epoch < options.warmup:
        rate = options.lr * (epoch + 1) / options.warmup
    else:
        progress = (epoch - options.warmup) / max(1, options.epochs - options.warmup)
        rate = 0.5 * options.lr * (1 + math.cos(math.pi * progress))
    for group in optimizer.param_groups:
        group["lr"] = rate
    return rate


def write_history{n}(path, history):
    """What became of every epoch, as JSON."""
    lines = []
    for epoch, (loss, accuracy) in enumerate(history):
        lines.append({{"epoch": epoch, "loss": round(loss, 6), "accuracy": round(accuracy, 6)}})
    Path(path).write_text(json.dumps({{"written": time.time(), "epochs": lines}}, indent=1))


def draw{n}(length, share, seed=0):
    """Indices for training and for testing."""
    drawn = list(range(length))
    random.Random(seed).shuffle(drawn)
    cut = int(share * length)
    return sorted(drawn[:cut]), sorted(drawn[cut:])
''',
)

_MAIN = """

def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--width", type=int, default=32)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--warmup", type=int, default=1)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--clip", type=float, default=1.0)
    parser.add_argument("--log-every", type=int, default=100)
    parser.add_argument("--output", type=Path, default=Path("."))
    options = parser.parse_args()
{runs}

if __name__ == "__main__":
    main()
"""


def script(lines: int, loops: int) -> str:
    """A script of at least so many lines, with so many training loops."""
    text = _HEAD
    ends = "".join(_LOOP.format(n=n) for n in range(loops))
    ends += _MAIN.format(runs="".join(f"    run{n}(options)\n" for n in range(loops)))
    number = 0
    while number < len(_AROUND) or text.count("\n") + ends.count("\n") < lines:
        text += _AROUND[number % len(_AROUND)].format(n=number // len(_AROUND))
        number += 1
    return text + ends
