"""The VAE by hand: data on the device, batches gathered there, and on CUDA the whole step is one graph."""

import argparse

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torchvision import datasets

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=1000)
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--size", choices=["small", "full"], default="small")
parser.add_argument("--data", default="data")
args = parser.parse_args()

BATCH = 128
torch.manual_seed(args.seed)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
cuda = device.type == "cuda"
torch.set_float32_matmul_precision("high")


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


train_data = datasets.MNIST(args.data, train=True, download=True)
images = train_data.data.to(device).float().div_(255).flatten(1)

model = (VAE(400, 20) if args.size == "full" else VAE(64, 20)).to(device)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True, capturable=cuda)
loss_sum = torch.zeros((), device=device)


def loss_of(x: Tensor) -> Tensor:
    # bfloat16 does not pay for layers of this size on a CPU
    with torch.autocast(device.type, torch.bfloat16, enabled=cuda):
        logits, mu, logvar = model(x)
    return loss_function(logits, x, mu, logvar)


if cuda:
    loss_of = torch.compile(loss_of, dynamic=False)


def train_step(index: Tensor) -> None:
    optimizer.zero_grad(set_to_none=True)
    loss = loss_of(images[index])
    loss.backward()
    optimizer.step()
    loss_sum.add_(loss.detach())


class Graphed:
    """The step as a CUDA graph: three plain steps on a side stream, then captured, then replayed."""

    def __init__(self) -> None:
        self.index = torch.zeros(BATCH, dtype=torch.int64, device=device)
        self.stream = torch.cuda.Stream()
        self.graph: torch.cuda.CUDAGraph | None = None
        self.plain_steps = 0

    def __call__(self, index: Tensor) -> None:
        if len(index) != BATCH:  # the last batch of an epoch
            train_step(index)
            return
        self.index.copy_(index)
        if self.graph is None and self.plain_steps == 3:
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph):
                train_step(self.index)
        if self.graph is not None:
            self.graph.replay()
            return
        self.plain_steps += 1
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            train_step(self.index)
        torch.cuda.current_stream().wait_stream(self.stream)


def shuffled() -> Tensor:
    """The order of a shuffling DataLoader: it draws a base seed for workers, then the seed of its permutation."""
    torch.empty((), dtype=torch.int64).random_()
    generator = torch.Generator().manual_seed(int(torch.empty((), dtype=torch.int64).random_()))
    return torch.randperm(len(images), generator=generator).to(device)


model.train()
run_step = Graphed() if cuda else train_step
step = reported = 0
while step < args.steps:
    for index in shuffled().split(BATCH):
        run_step(index)
        step += 1
        if step % 50 == 0 or step == args.steps:
            print(f"step {step} loss {loss_sum.item() / (step - reported):.4f}", flush=True)
            loss_sum.zero_()
            reported = step
        if step == args.steps:
            break
