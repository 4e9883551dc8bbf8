"""How good is the network on the test set? Loss and accuracy, and the predictions for a look at the mistakes."""

import argparse

import numpy as np
import torch
import torch.nn as nn
from lightning_fabric import Fabric
from torch.utils.data import DataLoader, TensorDataset


class Bottleneck(nn.Module):
    expansion = 4

    def __init__(self, in_planes, planes, stride=1):
        super().__init__()
        self.conv1 = nn.Conv2d(in_planes, planes, kernel_size=1, bias=False)
        self.bn1 = nn.BatchNorm2d(planes)
        self.conv2 = nn.Conv2d(planes, planes, kernel_size=3, stride=stride, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(planes)
        self.conv3 = nn.Conv2d(planes, self.expansion * planes, kernel_size=1, bias=False)
        self.bn3 = nn.BatchNorm2d(self.expansion * planes)
        self.relu = nn.ReLU(inplace=True)
        self.shortcut = nn.Sequential()
        if stride != 1 or in_planes != self.expansion * planes:
            self.shortcut = nn.Sequential(
                nn.Conv2d(in_planes, self.expansion * planes, kernel_size=1, stride=stride, bias=False),
                nn.BatchNorm2d(self.expansion * planes),
            )

    def forward(self, x):
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.relu(self.bn2(self.conv2(out)))
        out = self.bn3(self.conv3(out))
        out += self.shortcut(x)
        return self.relu(out)


class ResNet(nn.Module):
    def __init__(self, num_blocks, num_classes):
        super().__init__()
        self.in_planes = 64
        self.stem = nn.Sequential(
            nn.Conv2d(3, 64, kernel_size=7, stride=2, padding=3, bias=False),
            nn.BatchNorm2d(64),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(kernel_size=3, stride=2, padding=1),
        )
        self.layer1 = self._make_layer(64, num_blocks[0], stride=1)
        self.layer2 = self._make_layer(128, num_blocks[1], stride=2)
        self.layer3 = self._make_layer(256, num_blocks[2], stride=2)
        self.layer4 = self._make_layer(512, num_blocks[3], stride=2)
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.linear = nn.Linear(512 * Bottleneck.expansion, num_classes)
        for m in self.modules():
            if isinstance(m, nn.Conv2d):
                nn.init.kaiming_normal_(m.weight, mode="fan_out", nonlinearity="relu")
            elif isinstance(m, Bottleneck):
                nn.init.constant_(m.bn3.weight, 0.25)
        nn.init.normal_(self.linear.weight, std=0.1)

    def _make_layer(self, planes, num_blocks, stride):
        layers = []
        for stride in [stride] + [1] * (num_blocks - 1):
            layers.append(Bottleneck(self.in_planes, planes, stride))
            self.in_planes = planes * Bottleneck.expansion
        return nn.Sequential(*layers)

    def forward(self, x):
        out = self.stem(x)
        out = self.layer4(self.layer3(self.layer2(self.layer1(out))))
        out = torch.flatten(self.avgpool(out), 1)
        return self.linear(out)


def make_test_set(count, size, num_classes, seed):
    """Blurred patterns, one a class, under noise."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, num_classes, count)
    patterns = rng.integers(0, 160, (num_classes, 3, size // 16, size // 16), dtype=np.uint8)
    images = patterns[labels].repeat(16, axis=2).repeat(16, axis=3)
    images += rng.integers(0, 96, images.shape, dtype=np.uint8)
    images = (torch.from_numpy(images).float() / 255 - 0.45) / 0.225
    return TensorDataset(images, torch.from_numpy(labels))


@torch.no_grad()
def evaluate(model, loader, criterion, step, steps):
    model.eval()
    total_loss, correct, seen = 0.0, 0, 0
    predictions = []
    for images, labels in loader:
        outputs = model(images)
        loss = criterion(outputs, labels)
        total_loss += loss.item() * labels.size(0)
        predicted = outputs.argmax(dim=1)
        correct += (predicted == labels).sum().item()
        seen += labels.size(0)
        predictions.append(predicted.cpu())
        step += 1
        if step % 50 == 0 or step == steps:
            print(f"step {step}: loss {total_loss / seen:.4f}")
        if step == steps:
            break
    return total_loss / seen, correct / seen, torch.cat(predictions), step


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=200, help="batches; the test set is gone through again and again")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--size", choices=["small", "full"], default="small")
    parser.add_argument("--data", default="./data", help="not needed: the images are generated")
    args = parser.parse_args()
    fabric = Fabric(accelerator="auto", devices=1, precision="bf16-mixed")
    fabric.launch()
    fabric.seed_everything(args.seed, verbose=False)

    if args.size == "full":
        dataset = make_test_set(2048, 224, 1000, args.seed)
        model, batch_size = ResNet([3, 4, 6, 3], 1000), 64
    else:
        dataset = make_test_set(512, 48, 100, args.seed)
        model, batch_size = ResNet([1, 1, 1, 1], 100), 32
    model = fabric.setup_module(model)
    loader = fabric.setup_dataloaders(DataLoader(dataset, batch_size=batch_size, shuffle=False))
    criterion = nn.CrossEntropyLoss()

    step = 0
    while step < args.steps:
        loss, accuracy, predictions, step = evaluate(model, loader, criterion, step, args.steps)
        common = torch.bincount(predictions).argmax().item()
        print(f"loss {loss:.4f}, accuracy {100 * accuracy:.2f} %, most often predicted: class {common}")


if __name__ == "__main__":
    main()
