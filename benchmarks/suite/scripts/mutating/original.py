"""Learning to tell frequencies apart under noise, by a curriculum.

The loop changes the data set between two batches: signals get longer and noisier as the network gets better, and
what it got wrong comes up again. Every batch depends on what was learned from the one before.
"""

import argparse
import math

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset

CLASSES = 10


class Signals(Dataset):
    def __init__(self, count):
        self.labels = torch.arange(count) % CLASSES
        self.noise = 0.05
        self.length = 32
        self.hard = []

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        if self.hard and index % 4 == 0:
            index = self.hard[index % len(self.hard)]
        label = self.labels[index]
        time = torch.arange(self.length) / 32
        phase = 2 * math.pi * torch.rand(1)
        signal = torch.sin(2 * math.pi * (1 + label) * time + phase)
        signal = signal + self.noise * torch.randn(self.length)
        return signal.unsqueeze(0), label, index


class Classifier(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv1d(1, width, 9, padding=4),
            nn.ReLU(),
            nn.Conv1d(width, width, 9, padding=4),
            nn.ReLU(),
            nn.AdaptiveAvgPool1d(1),
        )
        self.head = nn.Linear(width, CLASSES)

    def forward(self, x):
        return self.head(self.features(x).flatten(1))


def train(args):
    torch.manual_seed(args.seed)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    width, batch_size = (256, 256) if args.size == "full" else (64, 64)
    dataset = Signals(8192)
    loader = DataLoader(dataset, batch_size=batch_size, shuffle=True)
    model = Classifier(width).to(device)
    criterion = nn.CrossEntropyLoss(reduction="none")
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    step, skill = 0, 0.0
    while step < args.steps:
        for signals, labels, indices in loader:
            signals, labels = signals.to(device), labels.to(device)
            outputs = model(signals)
            losses = criterion(outputs, labels)
            loss = losses.mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

            right = (outputs.argmax(1) == labels).cpu()
            skill = 0.9 * skill + 0.1 * right.float().mean().item()
            dataset.noise = 0.05 + skill
            dataset.length = 32 + 8 * int(4 * skill)
            dataset.hard = (dataset.hard + indices[~right].tolist())[-256:]

            step += 1
            if step % 50 == 0 or step == args.steps:
                print(f"step {step} loss {loss.item():.4f} skill {skill:.3f} noise {dataset.noise:.3f}")
            if step == args.steps:
                break


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--size", choices=("small", "full"), default="small")
    parser.add_argument("--data", help="not needed")
    train(parser.parse_args())
