"""DCGAN without its pictures: one batch on the device, again and again."""

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor


def weights_init(m: nn.Module) -> None:
    classname = m.__class__.__name__
    if classname.find("Conv") != -1:
        nn.init.normal_(m.weight.data, 0.0, 0.02)
    elif classname.find("BatchNorm") != -1:
        nn.init.normal_(m.weight.data, 1.0, 0.02)
        nn.init.constant_(m.bias.data, 0)


class Generator(nn.Module):
    def __init__(self, nz: int, ngf: int, size: int) -> None:
        super().__init__()
        width = ngf * size // 8
        layers = [nn.ConvTranspose2d(nz, width, 4, 1, 0, bias=False), nn.BatchNorm2d(width), nn.ReLU(True)]
        while width > ngf:
            layers += [
                nn.ConvTranspose2d(width, width // 2, 4, 2, 1, bias=False), nn.BatchNorm2d(width // 2), nn.ReLU(True)
            ]  # fmt: skip
            width //= 2
        layers += [nn.ConvTranspose2d(ngf, 1, 4, 2, 1, bias=False), nn.Tanh()]
        self.main = nn.Sequential(*layers)

    def forward(self, z: Tensor) -> Tensor:
        return self.main(z)


class Discriminator(nn.Module):
    """Gives logits: the sigmoid is part of the loss, which bfloat16 allows then."""

    def __init__(self, ndf: int, size: int) -> None:
        super().__init__()
        width = ndf
        layers = [nn.Conv2d(1, width, 4, 2, 1, bias=False), nn.LeakyReLU(0.2, inplace=True)]
        while width < ndf * size // 8:
            layers += [
                nn.Conv2d(width, 2 * width, 4, 2, 1, bias=False), nn.BatchNorm2d(2 * width),
                nn.LeakyReLU(0.2, inplace=True),
            ]  # fmt: skip
            width *= 2
        layers += [nn.Conv2d(width, 1, 4, 1, 0, bias=False)]
        self.main = nn.Sequential(*layers)

    def forward(self, x: Tensor) -> Tensor:
        return self.main(x).view(-1).float()


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

image_size, batch_size, width, nz = (64, 128, 64, 100) if full else (32, 8, 32, 32)
net_g, net_d = Generator(nz, width, image_size).to(device), Discriminator(width, image_size).to(device)
for net in (net_g, net_d):
    net.apply(weights_init).to(memory_format=torch.channels_last)
    if cuda:
        net.compile(dynamic=False)
criterion = F.binary_cross_entropy_with_logits
adam = {"lr": 0.0002, "betas": (0.5, 0.999), "fused": True, "capturable": cuda}
optimizer_d = torch.optim.Adam(net_d.parameters(), **adam)
optimizer_g = torch.optim.Adam(net_g.parameters(), **adam)
real = 2 * torch.rand(batch_size, 1, image_size, image_size, device=device) - 1
ones, zeros = torch.ones(batch_size, device=device), torch.zeros(batch_size, device=device)


def low_precision():
    return torch.autocast(device.type, torch.bfloat16)


def work():
    net_d.zero_grad(set_to_none=True)
    with low_precision():
        fake = net_g(torch.randn(batch_size, nz, 1, 1, device=device))
        loss_real = criterion(net_d(real), ones)
        loss_fake = criterion(net_d(fake.detach()), zeros)
    loss_d = loss_real + loss_fake
    loss_d.backward()
    optimizer_d.step()

    net_g.zero_grad(set_to_none=True)
    net_d.requires_grad_(False)
    with low_precision():
        loss_g = criterion(net_d(fake), ones)
    loss_g.backward()
    optimizer_g.step()
    net_d.requires_grad_(True)
    return (loss_d + loss_g).detach()


again = repeated(work)
step = 0
while step < args.steps:
    loss = again()
    step += 1
    if step % 50 == 0 or step == args.steps:
        print(f"step {step} loss {loss.item():.4f}", flush=True)
