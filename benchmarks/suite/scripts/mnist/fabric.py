# A convolutional network for handwritten digits.
import argparse

import torch
import torch.nn as nn
import torch.optim as optim
from lightning_fabric import Fabric
from torch.utils.data import DataLoader
from torchvision import datasets, transforms

parser = argparse.ArgumentParser(description="MNIST")
parser.add_argument("--steps", type=int, default=1000)
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--size", choices=["small", "full"], default="small")
parser.add_argument("--data", default="data")
args = parser.parse_args()

fabric = Fabric(accelerator="auto", devices=1, precision="bf16-mixed")
fabric.launch()
fabric.seed_everything(args.seed, verbose=False)


class Net(nn.Module):
    def __init__(self, width, stride):
        super().__init__()
        # strided convolutions instead of pooling keep the small network cheap
        self.conv1 = nn.Conv2d(1, width, 3, stride=stride, padding=1)
        self.conv2 = nn.Conv2d(width, 2 * width, 3, stride=stride, padding=1)
        self.pool = nn.MaxPool2d(2) if stride == 1 else nn.Identity()
        self.fc1 = nn.Linear(2 * width * 7 * 7, 4 * width)
        self.fc2 = nn.Linear(4 * width, 10)

    def forward(self, x):
        x = self.pool(torch.relu(self.conv1(x)))
        x = self.pool(torch.relu(self.conv2(x)))
        x = torch.flatten(x, 1)
        x = torch.relu(self.fc1(x))
        return self.fc2(x)


transform = transforms.Compose([transforms.ToTensor(), transforms.Normalize((0.1307,), (0.3081,))])
train_dataset = datasets.MNIST(args.data, train=True, download=True, transform=transform)
train_loader = DataLoader(train_dataset, batch_size=64, shuffle=True)

if args.size == "full":
    model = Net(32, stride=1)
else:
    model = Net(8, stride=2)
criterion = nn.CrossEntropyLoss()
optimizer = optim.Adam(model.parameters(), lr=0.001)
model, optimizer = fabric.setup(model, optimizer)
train_loader = fabric.setup_dataloaders(train_loader)

step = 0
running_loss = 0.0
batches = 0
while step < args.steps:
    model.train()
    for images, labels in train_loader:
        optimizer.zero_grad()
        outputs = model(images)
        loss = criterion(outputs, labels)
        fabric.backward(loss)
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
