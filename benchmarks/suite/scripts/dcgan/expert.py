"""DCGAN by hand: pictures resized once and kept on the device, channels last, compiled, nothing read back.

bfloat16 where the hardware has it: convolutions that emulate it take many times as long.
"""

import argparse
from pathlib import Path

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor
from torchvision import datasets, transforms


def has_bfloat16(device):
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    cpuinfo = Path("/proc/cpuinfo")
    return cpuinfo.exists() and "avx512_bf16" in cpuinfo.read_text()


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


def shuffled(count: int) -> Tensor:
    """The order of a shuffling DataLoader: it draws a base seed for workers, then the seed of its permutation."""
    torch.empty((), dtype=torch.int64).random_()
    generator = torch.Generator().manual_seed(int(torch.empty((), dtype=torch.int64).random_()))
    return torch.randperm(count, generator=generator)


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
    image_size, batch_size, width, nz = (64, 128, 64, 100) if full else (32, 8, 32, 32)

    dataset = datasets.MNIST(args.data, train=True, download=True)
    resize = transforms.Resize(image_size)
    pictures = torch.empty(len(dataset), 1, image_size, image_size, dtype=torch.uint8)
    for row, (image, _) in enumerate(dataset):
        pictures[row, 0] = torch.frombuffer(bytearray(resize(image).tobytes()), dtype=torch.uint8).view(image_size, -1)
    pictures = pictures.to(device)

    net_g = Generator(nz, width, image_size).to(device)
    net_g.apply(weights_init)
    net_d = Discriminator(width, image_size).to(device)
    net_d.apply(weights_init)
    for net in (net_g, net_d):  # only now: weights are drawn in the order of their memory
        net.to(memory_format=torch.channels_last)
    if cuda:
        net_g.compile(dynamic=False)
        net_d.compile(dynamic=False)
    criterion = F.binary_cross_entropy_with_logits
    optimizer_d = torch.optim.Adam(net_d.parameters(), lr=0.0002, betas=(0.5, 0.999), fused=True)
    optimizer_g = torch.optim.Adam(net_g.parameters(), lr=0.0002, betas=(0.5, 0.999), fused=True)

    step = reported = 0
    sums = torch.zeros(5, device=device)  # both losses, D(x), D(G(z)) before and after D's step
    low_precision = torch.autocast(device.type, torch.bfloat16, enabled=has_bfloat16(device))
    ones, zeros = torch.ones(batch_size, device=device), torch.zeros(batch_size, device=device)
    while step < args.steps:
        for index in shuffled(len(pictures)).to(device).split(batch_size):
            real = pictures[index].float().div_(255).sub_(0.5).div_(0.5)
            count = len(index)

            net_d.zero_grad(set_to_none=True)
            with low_precision:
                out_real = net_d(real)
            loss_real = criterion(out_real, ones[:count])
            loss_real.backward()
            noise = torch.randn(count, nz, 1, 1, device=device)
            with low_precision:
                fake = net_g(noise)
                out_fake = net_d(fake.detach())
            loss_fake = criterion(out_fake, zeros[:count])
            loss_fake.backward()
            optimizer_d.step()

            net_g.zero_grad(set_to_none=True)
            net_d.requires_grad_(False)  # the generator's step needs no gradients of the discriminator
            with low_precision:
                out_fooled = net_d(fake)
            loss_g = criterion(out_fooled, ones[:count])
            loss_g.backward()
            optimizer_g.step()
            net_d.requires_grad_(True)

            with torch.no_grad():
                outputs = torch.stack([out_real, out_fake, out_fooled]).sigmoid().mean(1)
                sums += torch.cat([torch.stack([loss_real + loss_fake, loss_g]), outputs])
            step += 1
            if step % 50 == 0 or step == args.steps:
                loss_d, loss_of_g, d_x, d_g_z1, d_g_z2 = (sums / (step - reported)).tolist()
                print(f"step {step} loss {loss_d + loss_of_g:.4f} loss_d {loss_d:.4f} loss_g {loss_of_g:.4f} "
                      f"D(x) {d_x:.4f} D(G(z)) {d_g_z1:.4f} / {d_g_z2:.4f}", flush=True)  # fmt: skip
                sums.zero_()
                reported = step
            if step == args.steps:
                break


if __name__ == "__main__":
    main()
