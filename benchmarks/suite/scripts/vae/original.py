"""Variational autoencoder on MNIST."""

import argparse

import torch
import torch.utils.data
from torch import nn, optim
from torch.nn import functional as F
from torchvision import datasets, transforms


class VAE(nn.Module):
    def __init__(self, hidden, latent):
        super(VAE, self).__init__()
        self.fc1 = nn.Linear(784, hidden)
        self.fc21 = nn.Linear(hidden, latent)
        self.fc22 = nn.Linear(hidden, latent)
        self.fc3 = nn.Linear(latent, hidden)
        self.fc4 = nn.Linear(hidden, 784)

    def encode(self, x):
        h1 = F.relu(self.fc1(x))
        return self.fc21(h1), self.fc22(h1)

    def reparameterize(self, mu, logvar):
        std = torch.exp(0.5 * logvar)
        eps = torch.randn_like(std)
        return mu + eps * std

    def decode(self, z):
        h3 = F.relu(self.fc3(z))
        return torch.sigmoid(self.fc4(h3))

    def forward(self, x):
        mu, logvar = self.encode(x.view(-1, 784))
        z = self.reparameterize(mu, logvar)
        return self.decode(z), mu, logvar


# Reconstruction + KL divergence losses summed over all elements, per picture
def loss_function(recon_x, x, mu, logvar):
    BCE = F.binary_cross_entropy(recon_x, x.view(-1, 784), reduction="sum")
    KLD = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
    return (BCE + KLD) / x.size(0)


def main():
    parser = argparse.ArgumentParser(description="VAE MNIST Example")
    parser.add_argument("--steps", type=int, default=1000, help="number of batches to train (default: 1000)")
    parser.add_argument("--seed", type=int, default=0, help="random seed (default: 0)")
    parser.add_argument("--size", choices=["small", "full"], default="small")
    parser.add_argument("--data", default="data")
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

    train_loader = torch.utils.data.DataLoader(
        datasets.MNIST(args.data, train=True, download=True, transform=transforms.ToTensor()),
        batch_size=128,
        shuffle=True,
    )

    model = (VAE(400, 20) if args.size == "full" else VAE(64, 20)).to(device)
    optimizer = optim.Adam(model.parameters(), lr=1e-3)

    step = 0
    losses = []
    while step < args.steps:
        model.train()
        for data, _ in train_loader:
            data = data.to(device)
            optimizer.zero_grad()
            recon_batch, mu, logvar = model(data)
            loss = loss_function(recon_batch, data, mu, logvar)
            loss.backward()
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
