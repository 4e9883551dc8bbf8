import argparse

import numpy as np
import torch
import torch.nn as nn
from lightning_fabric import Fabric
from torch.utils.data import DataLoader, Dataset


class ShapesDataset(Dataset):
    """Noisy images with a few bright ellipses, and the ellipses' masks."""

    def __init__(self, count, side):
        rng = np.random.default_rng(1)
        self.images = rng.integers(0, 120, (count, side, side, 3), dtype=np.uint8)
        self.masks = np.zeros((count, side, side), dtype=np.uint8)
        y, x = np.ogrid[:side, :side]
        for image, mask in zip(self.images, self.masks):
            for _ in range(3):
                centre, radii = rng.uniform(0.2, 0.8, 2) * side, rng.uniform(0.05, 0.2, 2) * side
                mask |= (((y - centre[0]) / radii[0]) ** 2 + ((x - centre[1]) / radii[1]) ** 2 < 1).astype(np.uint8)
            image += mask[..., None] * rng.integers(40, 130, 3, dtype=np.uint8)

    def __len__(self):
        return len(self.images)

    def augment(self, image, mask):
        if np.random.rand() < 0.5:
            image, mask = image[:, ::-1], mask[:, ::-1]
        turns = np.random.randint(4)
        image, mask = np.rot90(image, turns), np.rot90(mask, turns)
        image = image * np.random.uniform(0.8, 1.2) + np.random.uniform(-0.1, 0.1)
        return np.clip(image, 0, 1), mask

    def __getitem__(self, index):
        image = self.images[index].astype(np.float32) / 255
        mask = self.masks[index].astype(np.float32)
        image, mask = self.augment(image, mask)
        image = torch.from_numpy(image.transpose(2, 0, 1).copy()).float()
        mask = torch.from_numpy(mask.copy()).unsqueeze(0)
        return image, mask


def double_conv(in_channels, out_channels):
    return nn.Sequential(
        nn.Conv2d(in_channels, out_channels, 3, padding=1, bias=False),
        nn.BatchNorm2d(out_channels),
        nn.ReLU(inplace=True),
        nn.Conv2d(out_channels, out_channels, 3, padding=1, bias=False),
        nn.BatchNorm2d(out_channels),
        nn.ReLU(inplace=True),
    )


class UNet(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        widths = [width * 2**i for i in range(depth + 1)]
        self.downs = nn.ModuleList([double_conv(i, o) for i, o in zip([3] + widths, widths[:-1])])
        self.pool = nn.MaxPool2d(2)
        self.bottom = double_conv(widths[-2], widths[-1])
        self.ups = nn.ModuleList([nn.ConvTranspose2d(2 * w, w, 2, stride=2) for w in reversed(widths[:-1])])
        self.convs = nn.ModuleList([double_conv(2 * w, w) for w in reversed(widths[:-1])])
        self.head = nn.Conv2d(width, 1, 1)

    def forward(self, x):
        skips = []
        for down in self.downs:
            x = down(x)
            skips.append(x)
            x = self.pool(x)
        x = self.bottom(x)
        for up, conv in zip(self.ups, self.convs):
            x = conv(torch.cat([skips.pop(), up(x)], dim=1))
        return self.head(x)


def dice_loss(logits, masks, smooth=1.0):
    probs = torch.sigmoid(logits)
    intersection = (probs * masks).sum(dim=(1, 2, 3))
    union = probs.sum(dim=(1, 2, 3)) + masks.sum(dim=(1, 2, 3))
    return 1 - ((2 * intersection + smooth) / (union + smooth)).mean()


def get_args():
    parser = argparse.ArgumentParser(description="Train the UNet on images and target masks")
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--size", choices=["small", "full"], default="small")
    parser.add_argument("--data", default="data", help="not used: images are generated")
    return parser.parse_args()


def train_net(net, fabric, loader, steps):
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    net, optimizer = fabric.setup(net, optimizer)
    loader = fabric.setup_dataloaders(loader)
    bce = nn.BCEWithLogitsLoss()
    step = 0
    losses = []
    net.train()
    while True:
        for images, true_masks in loader:
            masks_pred = net(images)
            loss = bce(masks_pred, true_masks) + dice_loss(masks_pred, true_masks)

            optimizer.zero_grad()
            fabric.backward(loss)
            optimizer.step()

            losses.append(loss.item())
            step += 1
            if step % 50 == 0 or step == steps:
                print(f"step {step} loss {np.mean(losses):.4f}", flush=True)
                losses = []
            if step == steps:
                return


if __name__ == "__main__":
    args = get_args()
    fabric = Fabric(accelerator="auto", devices=1, precision="bf16-mixed")
    fabric.launch()
    fabric.seed_everything(args.seed, verbose=False)
    if args.size == "full":
        dataset, batch_size, net = ShapesDataset(800, 256), 16, UNet(64, 4)
    else:
        dataset, batch_size, net = ShapesDataset(128, 64), 2, UNet(32, 2)
    loader = DataLoader(dataset, batch_size=batch_size, shuffle=True)
    train_net(net, fabric, loader, args.steps)
