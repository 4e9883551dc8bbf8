import argparse
import os

import torch
import torch.nn as nn
import torch.optim as optim
import torchvision.datasets as datasets
import torchvision.transforms as transforms
from accelerate import Accelerator
from accelerate.utils import set_seed


class Bottleneck(nn.Module):
    def __init__(self, in_planes, planes, stride=1):
        super().__init__()
        self.conv1 = nn.Conv2d(in_planes, planes, kernel_size=1, bias=False)
        self.bn1 = nn.BatchNorm2d(planes)
        self.conv2 = nn.Conv2d(planes, planes, kernel_size=3, stride=stride, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(planes)
        self.conv3 = nn.Conv2d(planes, planes * 4, kernel_size=1, bias=False)
        self.bn3 = nn.BatchNorm2d(planes * 4)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = None
        if stride != 1 or in_planes != planes * 4:
            self.downsample = nn.Sequential(
                nn.Conv2d(in_planes, planes * 4, kernel_size=1, stride=stride, bias=False),
                nn.BatchNorm2d(planes * 4),
            )

    def forward(self, x):
        identity = x
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.relu(self.bn2(self.conv2(out)))
        out = self.bn3(self.conv3(out))
        if self.downsample is not None:
            identity = self.downsample(x)
        return self.relu(out + identity)


class ResNet(nn.Module):
    def __init__(self, blocks, width, num_classes):
        super().__init__()
        self.in_planes = width
        self.stem = nn.Sequential(
            nn.Conv2d(3, width, kernel_size=7, stride=2, padding=3, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(kernel_size=3, stride=2, padding=1),
        )
        self.layers = nn.Sequential(
            *[self._stage(width * 2**i, count, 1 if i == 0 else 2) for i, count in enumerate(blocks)]
        )
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(self.in_planes, num_classes)

    def _stage(self, planes, count, stride):
        stage = []
        for i in range(count):
            stage.append(Bottleneck(self.in_planes, planes, stride if i == 0 else 1))
            self.in_planes = planes * 4
        return nn.Sequential(*stage)

    def forward(self, x):
        x = self.layers(self.stem(x))
        return self.fc(torch.flatten(self.avgpool(x), 1))


class AverageMeter:
    """Computes and stores the average and current value"""

    def __init__(self):
        self.reset()

    def reset(self):
        self.sum, self.count = 0.0, 0

    def update(self, val, n=1):
        self.sum += val * n
        self.count += n

    @property
    def avg(self):
        return self.sum / self.count


def main():
    parser = argparse.ArgumentParser(description="ImageNet training")
    parser.add_argument("--steps", default=1000, type=int)
    parser.add_argument("--seed", default=0, type=int)
    parser.add_argument("--size", default="small", choices=["small", "full"])
    parser.add_argument("--data", default="data")
    args = parser.parse_args()

    accelerator = Accelerator(mixed_precision="bf16")
    set_seed(args.seed)
    image_size, batch_size = (224, 64) if args.size == "full" else (64, 8)

    normalize = transforms.Normalize(mean=[0.485, 0.456, 0.406], std=[0.229, 0.224, 0.225])
    train_dataset = datasets.ImageFolder(
        os.path.join(args.data, "imagenet"),
        transforms.Compose([
            transforms.RandomResizedCrop(image_size),
            transforms.RandomHorizontalFlip(),
            transforms.ToTensor(),
            normalize,
        ]),
    )
    train_loader = torch.utils.data.DataLoader(train_dataset, batch_size=batch_size, shuffle=True)

    if args.size == "full":
        model = ResNet([3, 4, 6, 3], 64, len(train_dataset.classes))
    else:
        model = ResNet([1, 1, 1, 1], 32, len(train_dataset.classes))
    criterion = nn.CrossEntropyLoss()
    optimizer = optim.SGD(model.parameters(), lr=0.1 * batch_size / 256, momentum=0.9, weight_decay=1e-4)
    model, optimizer, train_loader = accelerator.prepare(model, optimizer, train_loader)

    losses = AverageMeter()
    step = 0
    model.train()
    while step < args.steps:
        for images, target in train_loader:
            output = model(images)
            loss = criterion(output, target)
            losses.update(loss.item())

            optimizer.zero_grad()
            accelerator.backward(loss)
            optimizer.step()

            step += 1
            if step % 50 == 0 or step == args.steps:
                print(f"step {step} loss {losses.avg:.4f}", flush=True)
                losses.reset()
            if step == args.steps:
                break


if __name__ == "__main__":
    main()
