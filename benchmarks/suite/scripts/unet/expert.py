"""U-Net by hand: images on the device, augmentation of whole batches there, channels last, compiled.

bfloat16 where the hardware has it: convolutions that emulate it take many times as long.
"""

import argparse
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor


def has_bfloat16(device):
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    cpuinfo = Path("/proc/cpuinfo")
    return cpuinfo.exists() and "avx512_bf16" in cpuinfo.read_text()


class DoubleConv(nn.Sequential):
    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__(
            nn.Conv2d(in_channels, out_channels, 3, padding=1, bias=False), nn.BatchNorm2d(out_channels),
            nn.ReLU(inplace=True),
            nn.Conv2d(out_channels, out_channels, 3, padding=1, bias=False), nn.BatchNorm2d(out_channels),
            nn.ReLU(inplace=True),
        )  # fmt: skip


class UNet(nn.Module):
    def __init__(self, width: int, depth: int) -> None:
        super().__init__()
        widths = [width * 2**i for i in range(depth + 1)]
        self.downs = nn.ModuleList(DoubleConv(i, o) for i, o in zip([3, *widths], widths[:-1]))
        self.pool = nn.MaxPool2d(2)
        self.bottom = DoubleConv(widths[-2], widths[-1])
        self.ups = nn.ModuleList(nn.ConvTranspose2d(2 * w, w, 2, stride=2) for w in reversed(widths[:-1]))
        self.convs = nn.ModuleList(DoubleConv(2 * w, w) for w in reversed(widths[:-1]))
        self.head = nn.Conv2d(width, 1, 1)

    def forward(self, x: Tensor) -> Tensor:
        skips = []
        for down in self.downs:
            x = down(x)
            skips.append(x)
            x = self.pool(x)
        x = self.bottom(x)
        for up, conv in zip(self.ups, self.convs):
            x = conv(torch.cat([skips.pop(), up(x)], dim=1))
        return self.head(x)


def dice_loss(logits: Tensor, masks: Tensor) -> Tensor:
    probabilities = torch.sigmoid(logits)
    overlap = (probabilities * masks).sum(dim=(1, 2, 3))
    total = probabilities.sum(dim=(1, 2, 3)) + masks.sum(dim=(1, 2, 3))
    return 1 - ((2 * overlap + 1) / (total + 1)).mean()


def make_shapes(count: int, side: int) -> tuple[np.ndarray, np.ndarray]:
    """Noisy images with a few bright ellipses, and the ellipses' masks."""
    rng = np.random.default_rng(1)
    images = rng.integers(0, 120, (count, side, side, 3), dtype=np.uint8)
    masks = np.zeros((count, side, side), dtype=np.uint8)
    y, x = np.ogrid[:side, :side]
    for image, mask in zip(images, masks):
        for _ in range(3):
            centre, radii = rng.uniform(0.2, 0.8, 2) * side, rng.uniform(0.05, 0.2, 2) * side
            mask |= (((y - centre[0]) / radii[0]) ** 2 + ((x - centre[1]) / radii[1]) ** 2 < 1).astype(np.uint8)
        image += mask[..., None] * rng.integers(40, 130, 3, dtype=np.uint8)
    return images, masks


class AugmentedBatches:
    """Shuffled batches; flips, quarter turns and brightness are drawn image by image, applied batch by batch."""

    def __init__(self, count: int, side: int, batch_size: int, device: torch.device) -> None:
        images, masks = make_shapes(count, side)
        self.images = torch.from_numpy(images).to(device).permute(0, 3, 1, 2)  # channels_last as it is
        self.masks = torch.from_numpy(masks).to(device).unsqueeze(1)
        self.batch_size, self.device = batch_size, device

    def __iter__(self):
        torch.empty((), dtype=torch.int64).random_()  # a DataLoader's base seed for its workers
        generator = torch.Generator().manual_seed(int(torch.empty((), dtype=torch.int64).random_()))
        for index in torch.randperm(len(self.images), generator=generator).split(self.batch_size):
            draws = [
                (np.random.rand() < 0.5, np.random.randint(4), np.random.uniform(0.8, 1.2), np.random.uniform(-0.1, 0.1))
                for _ in range(len(index))
            ]
            plan = torch.cat([index.unsqueeze(1).float(), torch.tensor(draws, dtype=torch.float32)], dim=1)
            if self.device.type == "cuda":
                plan = plan.pin_memory().to(self.device, non_blocking=True)
            where, flip, turns, gain, bias = plan.view(-1, 5, 1, 1, 1).unbind(1)
            index = where.flatten().long()
            images, masks = self.images[index], self.masks[index]
            images, masks = (torch.where(flip == 1, t.flip(3), t) for t in (images, masks))
            images, masks = (torch.where(turns >= 2, t.flip(2, 3), t) for t in (images, masks))
            images, masks = (torch.where(turns % 2 == 1, t.rot90(1, (2, 3)), t) for t in (images, masks))
            yield (images.float() / 255 * gain + bias).clamp_(0, 1), masks.float()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--size", choices=["small", "full"], default="small")
    parser.add_argument("--data", default="data", help="not used: images are generated")
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    np.random.seed(args.seed)
    torch.set_float32_matmul_precision("high")
    torch.backends.cudnn.benchmark = True
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    full = args.size == "full"

    batches = AugmentedBatches(800 if full else 128, 256 if full else 64, 16 if full else 2, device)
    model = (UNet(64, 4) if full else UNet(32, 2)).to(device, memory_format=torch.channels_last)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)

    low = has_bfloat16(device)

    def loss_of(images: Tensor, masks: Tensor) -> Tensor:
        with torch.autocast(device.type, torch.bfloat16, enabled=low):
            logits = model(images)
        logits = logits.float()
        return F.binary_cross_entropy_with_logits(logits, masks) + dice_loss(logits, masks)

    if device.type == "cuda":
        loss_of = torch.compile(loss_of, dynamic=False)

    step = reported = 0
    loss_sum = torch.zeros((), device=device)
    model.train()
    while step < args.steps:
        for images, masks in batches:
            images = images.to(memory_format=torch.channels_last)
            optimizer.zero_grad(set_to_none=True)
            loss = loss_of(images, masks)
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
