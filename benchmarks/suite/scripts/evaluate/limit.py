"""The network's forward without the test set: one batch on the device, again and again."""

import argparse
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

# images, pixels, classes, batch, blocks
SIZES = {"full": (2048, 224, 1000, 64, (3, 4, 6, 3)), "small": (512, 48, 100, 32, (1, 1, 1, 1))}


def has_bfloat16(device):
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    cpuinfo = Path("/proc/cpuinfo")
    return cpuinfo.exists() and "avx512_bf16" in cpuinfo.read_text()


class Unit(nn.Module):
    """A convolution and its normalisation."""

    def __init__(self, inputs, outputs, kernel, stride=1):
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False)
        self.norm = nn.BatchNorm2d(outputs)

    def forward(self, x):
        return self.norm(self.conv(x))

    def fold(self):
        self.conv, self.norm = fuse_conv_bn_eval(self.conv, self.norm), nn.Identity()


class Bottleneck(nn.Module):
    def __init__(self, inputs, planes, stride):
        super().__init__()
        self.first = Unit(inputs, planes, 1)
        self.second = Unit(planes, planes, 3, stride)
        self.third = Unit(planes, 4 * planes, 1)
        self.shortcut = Unit(inputs, 4 * planes, 1, stride) if stride != 1 or inputs != 4 * planes else None

    def forward(self, x):
        out = F.relu(self.first(x), inplace=True)
        out = F.relu(self.second(out), inplace=True)
        out = self.third(out)
        out += x if self.shortcut is None else self.shortcut(x)
        return F.relu(out, inplace=True)


class ResNet(nn.Module):
    def __init__(self, blocks, classes):
        super().__init__()
        self.stem = Unit(3, 64, 7, 2)
        stages, inputs = [], 64
        for planes, count, stride in zip((64, 128, 256, 512), blocks, (1, 2, 2, 2), strict=True):
            for i in range(count):
                stages.append(Bottleneck(inputs, planes, stride if i == 0 else 1))
                inputs = 4 * planes
        self.stages = nn.Sequential(*stages)
        self.linear = nn.Linear(inputs, classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
            elif isinstance(module, Bottleneck):
                nn.init.constant_(module.third.norm.weight, 0.25)
        nn.init.normal_(self.linear.weight, std=0.1)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.stem(x), inplace=True), 3, 2, 1)
        return self.linear(self.stages(x).mean((2, 3))).float()


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


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--size", choices=SIZES, default="small")
    parser.add_argument("--data", help="not needed: the images are generated")
    args = parser.parse_args()
    _, pixels, classes, batch, blocks = SIZES[args.size]

    torch.manual_seed(args.seed)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    dtype = torch.bfloat16 if has_bfloat16(device) else torch.float32
    torch.backends.cudnn.benchmark = True
    model = ResNet(blocks, classes).eval()
    for module in model.modules():
        if isinstance(module, Unit):
            module.fold()
    model = model.to(device, dtype, memory_format=torch.channels_last)
    forward = torch.compile(model, dynamic=False) if device.type == "cuda" else model
    images = torch.randn(batch, 3, pixels, pixels, device=device).to(dtype, memory_format=torch.channels_last)
    labels = torch.randint(classes, (batch,), device=device)

    @torch.no_grad()
    def work():
        outputs = forward(images)
        loss, predicted = F.cross_entropy(outputs, labels), outputs.argmax(1)
        (predicted == labels).sum()
        return loss

    again = repeated(work)

    step = 0
    while step < args.steps:
        loss = again()
        step += 1
        if step % 50 == 0 or step == args.steps:
            print(f"step {step} loss {loss.item():.5f}")


if __name__ == "__main__":
    main()
