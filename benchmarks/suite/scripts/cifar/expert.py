"""CIFAR-10 by hand: padded uint8 images on the device, crop and flip as one gather, channels last, compiled.

bfloat16 where the hardware has it: convolutions that emulate it take many times as long.
"""

import argparse
from pathlib import Path

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim
from torch import Tensor
from torchvision import datasets

MEAN, STD = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)


def has_bfloat16(device):
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    cpuinfo = Path("/proc/cpuinfo")
    return cpuinfo.exists() and "avx512_bf16" in cpuinfo.read_text()


class BasicBlock(nn.Module):
    def __init__(self, in_planes: int, planes: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(in_planes, planes, 3, stride=stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(planes)
        self.conv2 = nn.Conv2d(planes, planes, 3, stride=1, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(planes)
        self.shortcut = nn.Sequential()
        if stride != 1 or in_planes != planes:
            self.shortcut = nn.Sequential(
                nn.Conv2d(in_planes, planes, 1, stride=stride, bias=False), nn.BatchNorm2d(planes)
            )

    def forward(self, x: Tensor) -> Tensor:
        out = F.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        return F.relu(out + self.shortcut(x))


class ResNet(nn.Module):
    def __init__(self, blocks: list[int], width: int) -> None:
        super().__init__()
        self.in_planes = width
        self.conv1 = nn.Conv2d(3, width, 3, stride=1, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.layer1 = self.make_layer(width, blocks[0], stride=1)
        self.layer2 = self.make_layer(2 * width, blocks[1], stride=2)
        self.layer3 = self.make_layer(4 * width, blocks[2], stride=2)
        self.layer4 = self.make_layer(8 * width, blocks[3], stride=2)
        self.linear = nn.Linear(8 * width, 10)

    def make_layer(self, planes: int, count: int, stride: int) -> nn.Sequential:
        layers = []
        for block_stride in [stride] + [1] * (count - 1):
            layers.append(BasicBlock(self.in_planes, planes, block_stride))
            self.in_planes = planes
        return nn.Sequential(*layers)

    def forward(self, x: Tensor) -> Tensor:
        out = F.relu(self.bn1(self.conv1(x)))
        out = self.layer4(self.layer3(self.layer2(self.layer1(out))))
        return self.linear(F.avg_pool2d(out, 4).flatten(1))


class AugmentedBatches:
    """Shuffled batches with RandomCrop(32, padding=4) and RandomHorizontalFlip, drawn as a DataLoader draws them."""

    def __init__(self, root: str, batch_size: int, device: torch.device) -> None:
        data = datasets.CIFAR10(root, train=True, download=True)
        images = torch.from_numpy(data.data).to(device)
        self.padded = F.pad(images, (0, 0, 4, 4, 4, 4))  # zeros around height and width, channels stay last
        self.labels = torch.tensor(data.targets, device=device)
        self.mean = 255 * torch.tensor(MEAN, device=device).view(1, 3, 1, 1)
        self.std = 255 * torch.tensor(STD, device=device).view(1, 3, 1, 1)
        self.sides = torch.arange(32, device=device)
        self.batch_size, self.device = batch_size, device

    def __iter__(self):
        torch.empty((), dtype=torch.int64).random_()  # a DataLoader's base seed for its workers
        generator = torch.Generator().manual_seed(int(torch.empty((), dtype=torch.int64).random_()))
        order = torch.randperm(len(self.labels), generator=generator)
        for index in order.split(self.batch_size):
            draws = [
                (int(torch.randint(0, 9, (1,))), int(torch.randint(0, 9, (1,))), float(torch.rand(1)) < 0.5)
                for _ in range(len(index))
            ]
            plan = torch.cat([index.unsqueeze(1), torch.tensor(draws)], dim=1)
            if self.device.type == "cuda":
                plan = plan.pin_memory().to(self.device, non_blocking=True)
            index, top, left, flip = plan.unbind(1)
            rows = top[:, None] + self.sides
            columns = left[:, None] + torch.where(flip[:, None] == 1, 31 - self.sides, self.sides)
            pixels = self.padded[index[:, None, None], rows[:, :, None], columns[:, None, :]]
            # seen as NCHW this is channels_last already
            yield pixels.permute(0, 3, 1, 2).float().sub_(self.mean).div_(self.std), self.labels[index]


def main():
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
    full = args.size == "full"

    batches = AugmentedBatches(args.data, 128 if full else 16, device)
    net = ResNet([2, 2, 2, 2], 64) if full else ResNet([1, 1, 1, 1], 32)
    net = net.to(device, memory_format=torch.channels_last)
    if device.type == "cuda":
        net.compile(dynamic=False)
    criterion = nn.CrossEntropyLoss()
    optimizer = optim.SGD(net.parameters(), lr=0.02, momentum=0.9, weight_decay=5e-4, fused=True)
    scheduler = optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=200)

    low = has_bfloat16(device)

    step = reported = 0
    loss_sum = torch.zeros((), device=device)
    while step < args.steps:
        net.train()
        for inputs, targets in batches:
            optimizer.zero_grad(set_to_none=True)
            with torch.autocast(device.type, torch.bfloat16, enabled=low):
                loss = criterion(net(inputs), targets)
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
        scheduler.step()


if __name__ == "__main__":
    main()
