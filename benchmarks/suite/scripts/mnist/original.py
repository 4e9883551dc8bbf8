# A convolutional network for handwritten digits.
import argparse

import torch
import torch.nn as nn
import torch.optim as optim
from torch.utils.data import DataLoader
from torchvision import datasets, transforms
from model import Net

parser = argparse.ArgumentParser(description="MNIST")
parser.add_argument("--steps", type=int, default=1000)
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--size", choices=["small", "full"], default="small")
parser.add_argument("--data", default="data")
args = parser.parse_args()

torch.manual_seed(args.seed)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

transform = transforms.Compose([transforms.ToTensor(), transforms.Normalize((0.1307,), (0.3081,))])
train_dataset = datasets.MNIST(args.data, train=True, download=True, transform=transform)
train_loader = DataLoader(train_dataset, batch_size=100, shuffle=True)

model = Net(args.size).to(device)
criterion = nn.CrossEntropyLoss()
optimizer = optim.SGD(model.parameters(), lr=0.01, momentum=0.9)

step = 0
running_loss = 0.0
batches = 0
while step < args.steps:
    model.train()
    for images, labels in train_loader:
        images, labels = images.to(device), labels.to(device)

        optimizer.zero_grad()
        outputs = model(images)
        loss = criterion(outputs, labels)
        loss.backward()
        optimizer.step()

        running_loss += loss.item()
        batches += 1
        step += 1
        if step % 50 == 0 or step == args.steps:
            print(f"step {step} loss {running_loss / batches:.4f}", flush=True)
            running_loss = 0.0
            batches = 0
        if step == args.steps:
            break
