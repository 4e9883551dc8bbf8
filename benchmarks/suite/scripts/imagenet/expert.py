"""ResNet-50 on a folder of JPEGs by hand: workers decode, uint8 pixels travel, the device normalises; bf16 where the hardware has it, compiled."""

import argparse
import os
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
from torch import Tensor
from torch.utils.data import DataLoader
from torchvision import datasets, transforms


def has_bfloat16(device):
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    cpuinfo = Path("/proc/cpuinfo")
    return cpuinfo.exists() and "avx512_bf16" in cpuinfo.read_text()


class Bottleneck(nn.Module):
    def __init__(self, in_planes: int, planes: int, stride: int = 1) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(in_planes, planes, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(planes)
        self.conv2 = nn.Conv2d(planes, planes, 3, stride=stride, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(planes)
        self.conv3 = nn.Conv2d(planes, 4 * planes, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(4 * planes)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = None
        if stride != 1 or in_planes != 4 * planes:
            self.downsample = nn.Sequential(
                nn.Conv2d(in_planes, 4 * planes, 1, stride=stride, bias=False), nn.BatchNorm2d(4 * planes)
            )

    def forward(self, x: Tensor) -> Tensor:
        identity = x if self.downsample is None else self.downsample(x)
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.relu(self.bn2(self.conv2(out)))
        return self.relu(self.bn3(self.conv3(out)) + identity)


class ResNet(nn.Module):
    def __init__(self, blocks: list[int], width: int, num_classes: int) -> None:
        super().__init__()
        self.in_planes = width
        self.stem = nn.Sequential(
            nn.Conv2d(3, width, 7, stride=2, padding=3, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(3, stride=2, padding=1),
        )
        self.layers = nn.Sequential(
            *(self.stage(width * 2**i, count, stride=1 if i == 0 else 2) for i, count in enumerate(blocks))
        )
        self.fc = nn.Linear(self.in_planes, num_classes)

    def stage(self, planes: int, count: int, stride: int) -> nn.Sequential:
        stage = []
        for i in range(count):
            stage.append(Bottleneck(self.in_planes, planes, stride if i == 0 else 1))
            self.in_planes = 4 * planes
        return nn.Sequential(*stage)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(self.layers(self.stem(x)).mean((2, 3)))


def pixels(image) -> Tensor:
    return torch.from_numpy(np.array(image))  # HWC uint8: a quarter of the bytes, and channels_last already


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--size", choices=["small", "full"], default="small")
    parser.add_argument("--data", default="data")
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    torch.set_float32_matmul_precision("high")
    torch.backends.cudnn.benchmark = True
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    cuda = device.type == "cuda"
    full = args.size == "full"
    side, batch_size = (224, 64) if full else (64, 8)

    # flips and crops of views and bytes are those of the full pipeline; on a CPU workers would take the model's cores
    transform = transforms.Compose(
        [transforms.RandomResizedCrop(side), transforms.RandomHorizontalFlip(), transforms.Lambda(pixels)]
    )
    train_set = datasets.ImageFolder(os.path.join(args.data, "imagenet"), transform)
    workers = min(16, len(os.sched_getaffinity(0))) if cuda else 0
    loader = DataLoader(
        train_set, batch_size, shuffle=True, num_workers=workers, pin_memory=cuda, persistent_workers=workers > 0,
        prefetch_factor=4 if workers else None,
    )  # fmt: skip
    mean = 255 * torch.tensor([0.485, 0.456, 0.406], device=device).view(1, 3, 1, 1)
    std = 255 * torch.tensor([0.229, 0.224, 0.225], device=device).view(1, 3, 1, 1)

    model = ResNet([3, 4, 6, 3] if full else [1, 1, 1, 1], 64 if full else 32, len(train_set.classes))
    model = model.to(device, memory_format=torch.channels_last)
    criterion = nn.CrossEntropyLoss()
    low = has_bfloat16(device)
    lr = 0.1 * batch_size / 256
    optimizer = torch.optim.SGD(model.parameters(), lr, momentum=0.9, weight_decay=1e-4, fused=True)

    def loss_of(images: Tensor, labels: Tensor) -> Tensor:
        x = images.permute(0, 3, 1, 2).float().sub(mean).div(std)
        with torch.autocast(device.type, torch.bfloat16, enabled=low):
            return criterion(model(x), labels)

    if cuda:
        loss_of = torch.compile(loss_of, dynamic=False)

    step = reported = 0
    loss_sum = torch.zeros((), device=device)
    model.train()
    while step < args.steps:
        for images, labels in loader:
            images, labels = images.to(device, non_blocking=True), labels.to(device, non_blocking=True)
            optimizer.zero_grad(set_to_none=True)
            loss = loss_of(images, labels)
            loss.backward()
            optimizer.step()
            loss_sum += loss.detach()
            step += 1
            if step % 50 == 0 or step == args.steps:
                print(f"step {step} loss {loss_sum.item() / (step - reported):.4f}", flush=True)
                loss_sum.zero_()
                reported = step
            if step == args.steps:
                break


if __name__ == "__main__":
    main()
