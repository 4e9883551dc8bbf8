"""ResNet-50 without its JPEGs: one batch on the device, again and again."""

import argparse

import torch
import torch.nn as nn
from torch import Tensor


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


def repeated(work):
    """`work`, on CUDA as one replay of a graph."""
    if not torch.cuda.is_available():
        return work
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            work()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = work()

    def replay():
        graph.replay()
        return loss

    return replay


parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=1000)
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--size", choices=["small", "full"], default="small")
parser.add_argument("--data", help="not needed, the batch is drawn")
args = parser.parse_args()

torch.manual_seed(args.seed)
torch.set_float32_matmul_precision("high")
torch.backends.cudnn.benchmark = True
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
cuda = device.type == "cuda"
full = args.size == "full"

side, batch_size, classes = (224, 64, 20) if full else (64, 8, 8)
model = ResNet([3, 4, 6, 3] if full else [1, 1, 1, 1], 64 if full else 32, classes)
model = model.to(device, memory_format=torch.channels_last)
forward = torch.compile(model, dynamic=False) if cuda else model
criterion = nn.CrossEntropyLoss()
lr = 0.1 * batch_size / 256
optimizer = torch.optim.SGD(model.parameters(), lr, momentum=0.9, weight_decay=1e-4, fused=True)
images = torch.randn(batch_size, 3, side, side, device=device).to(memory_format=torch.channels_last)
labels = torch.randint(classes, (batch_size,), device=device)


def loss_of():
    with torch.autocast(device.type, torch.bfloat16):
        return criterion(forward(images), labels)


def work():
    optimizer.zero_grad(set_to_none=True)
    loss = loss_of()
    loss.backward()
    optimizer.step()
    return loss.detach()


again = repeated(work)
step = 0
while step < args.steps:
    loss = again()
    step += 1
    if step % 50 == 0 or step == args.steps:
        print(f"step {step} loss {loss.item():.4f}", flush=True)
