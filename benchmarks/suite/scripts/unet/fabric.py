import argparse

import numpy as np
import torch
import torch.nn as nn
from lightning_fabric import Fabric
from torch.utils.data import DataLoader
from original import ShapesDataset, UNet, dice_loss


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


def get_args():
    parser = argparse.ArgumentParser(description="Train the UNet on images and target masks")
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--size", choices=["small", "full"], default="small")
    parser.add_argument("--data", default="data", help="not used: images are generated")
    return parser.parse_args()


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
