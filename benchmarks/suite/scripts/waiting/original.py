# Training on readings that come from a slow store: every sample is waited for.
import argparse
import time

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=300)
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--size", type=str, default="small", help="small or full")
parser.add_argument("--data", type=str, default="data", help="not needed")
args = parser.parse_args()

torch.manual_seed(args.seed)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
CHANNELS, LENGTH, CLASSES = 8, 128, 5
BATCH, HIDDEN = (64, 512) if args.size == "full" else (16, 128)


class RemoteReadings(Dataset):
    """Each reading is fetched over the network; here a pause stands for that."""

    def __init__(self, count, latency):
        self.count = count
        self.latency = latency

    def __len__(self):
        return self.count

    def fetch(self, index):
        time.sleep(self.latency)
        generator = torch.Generator().manual_seed(index)
        return torch.randn(CHANNELS, LENGTH, generator=generator)

    def __getitem__(self, index):
        label = index % CLASSES
        reading = self.fetch(index)
        reading[label] += torch.sin(torch.arange(LENGTH) / (2.0 + label))
        return reading, label


train_data = RemoteReadings(4000, latency=0.001)
train_loader = DataLoader(train_data, batch_size=BATCH, shuffle=True)

model = nn.Sequential(
    nn.Flatten(),
    nn.Linear(CHANNELS * LENGTH, HIDDEN),
    nn.ReLU(),
    nn.Linear(HIDDEN, HIDDEN),
    nn.ReLU(),
    nn.Linear(HIDDEN, CLASSES),
).to(device)
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

step = 0
running_loss = 0.0
while step < args.steps:
    for readings, labels in train_loader:
        readings, labels = readings.to(device), labels.to(device)
        optimizer.zero_grad()
        loss = criterion(model(readings), labels)
        loss.backward()
        optimizer.step()
        running_loss += loss.item()
        step += 1
        if step % 50 == 0 or step == args.steps:
            print(f"step {step} loss {loss.item():.4f} mean {running_loss / step:.4f}")
        if step == args.steps:
            break
