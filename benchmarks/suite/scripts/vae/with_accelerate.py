"""Variational autoencoder on MNIST."""

import argparse

import torch
import torch.utils.data
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch import optim
from torchvision import datasets, transforms
from original import VAE, loss_function


def main():
    parser = argparse.ArgumentParser(description="VAE MNIST Example")
    parser.add_argument("--steps", type=int, default=1000, help="number of batches to train (default: 1000)")
    parser.add_argument("--seed", type=int, default=0, help="random seed (default: 0)")
    parser.add_argument("--size", choices=["small", "full"], default="small")
    parser.add_argument("--data", default="data")
    args = parser.parse_args()

    accelerator = Accelerator(mixed_precision="bf16")
    set_seed(args.seed)

    train_loader = torch.utils.data.DataLoader(
        datasets.MNIST(args.data, train=True, download=True, transform=transforms.ToTensor()),
        batch_size=128,
        shuffle=True,
    )

    model = VAE(400, 20) if args.size == "full" else VAE(64, 20)
    optimizer = optim.Adam(model.parameters(), lr=1e-3)
    model, optimizer, train_loader = accelerator.prepare(model, optimizer, train_loader)

    step = 0
    losses = []
    while step < args.steps:
        model.train()
        for data, _ in train_loader:
            optimizer.zero_grad()
            recon_batch, mu, logvar = model(data)
            loss = loss_function(recon_batch, data, mu, logvar)
            accelerator.backward(loss)
            losses.append(loss.item())
            optimizer.step()
            step += 1
            if step % 50 == 0 or step == args.steps:
                print("step {} loss {:.4f}".format(step, sum(losses) / len(losses)), flush=True)
                losses.clear()
            if step == args.steps:
                break


if __name__ == "__main__":
    main()
