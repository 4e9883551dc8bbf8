"""A first try on MNIST: a few steps only, to see whether it runs at all."""

import argparse

import torch
from torch import nn, optim
from torch.utils.data import DataLoader
from torchvision import datasets, transforms


class Net(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv1 = nn.Conv2d(1, channels, kernel_size=5, stride=2, padding=2)
        self.conv2 = nn.Conv2d(channels, 2 * channels, kernel_size=5, stride=2, padding=2)
        self.fc = nn.Linear(2 * channels * 7 * 7, 10)

    def forward(self, x):
        x = torch.relu(self.conv1(x))
        x = torch.relu(self.conv2(x))
        return self.fc(x.view(x.size(0), -1))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--size", choices=["small", "full"], default="small")
    parser.add_argument("--data", default="./data")
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

    transform = transforms.Compose([transforms.ToTensor(), transforms.Normalize((0.1307,), (0.3081,))])
    train_dataset = datasets.MNIST(root=args.data, train=True, download=True, transform=transform)
    train_loader = DataLoader(dataset=train_dataset, batch_size=100, shuffle=True)

    model = Net(32 if args.size == "full" else 16).to(device)
    criterion = nn.CrossEntropyLoss()
    optimizer = optim.Adam(model.parameters(), lr=0.001)

    step = 0
    while step < args.steps:
        for images, labels in train_loader:
            images = images.to(device)
            labels = labels.to(device)

            outputs = model(images)
            loss = criterion(outputs, labels)

            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

            accuracy = (outputs.argmax(1) == labels).float().mean().item()
            step += 1
            if step % 10 == 0 or step == args.steps:
                print(f"step {step} loss {loss.item():.4f} accuracy {accuracy:.2f}")
            if step == args.steps:
                break


if __name__ == "__main__":
    main()
