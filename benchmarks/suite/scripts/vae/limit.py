"""The autoencoder without its digits: one batch on the device, again and again."""

import argparse

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class VAE(nn.Module):
    def __init__(self, hidden: int, latent: int) -> None:
        super().__init__()
        self.fc1 = nn.Linear(784, hidden)
        self.fc21 = nn.Linear(hidden, latent)
        self.fc22 = nn.Linear(hidden, latent)
        self.fc3 = nn.Linear(latent, hidden)
        self.fc4 = nn.Linear(hidden, 784)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        h = F.relu(self.fc1(x))
        mu, logvar = self.fc21(h).float(), self.fc22(h).float()
        z = mu + torch.randn_like(mu) * torch.exp(0.5 * logvar)
        return self.fc4(F.relu(self.fc3(z))).float(), mu, logvar  # logits: the sigmoid is part of the loss


def loss_function(logits: Tensor, x: Tensor, mu: Tensor, logvar: Tensor) -> Tensor:
    reconstruction = F.binary_cross_entropy_with_logits(logits, x, reduction="sum")
    divergence = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
    return (reconstruction + divergence) / len(x)


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

model = (VAE(400, 20) if full else VAE(64, 20)).to(device)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True, capturable=cuda)
images = torch.rand(128, 784, device=device)


def loss_of():
    # bfloat16 does not pay for layers of this size on a CPU
    with torch.autocast(device.type, torch.bfloat16, enabled=cuda):
        logits, mu, logvar = model(images)
    return loss_function(logits, images, mu, logvar)


if cuda:
    loss_of = torch.compile(loss_of, dynamic=False)


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
