"""MNIST by hand: the data live on the device, batches are gathered there, and on CUDA the whole step is one graph."""

import argparse

import torch
from torch import Tensor, nn, optim
from torchvision import datasets

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=1000)
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--size", choices=["small", "full"], default="small")
parser.add_argument("--data", default="data")
args = parser.parse_args()

BATCH = 100
torch.manual_seed(args.seed)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
cuda = device.type == "cuda"
torch.set_float32_matmul_precision("high")


class Net(nn.Module):
    def __init__(self, full: bool) -> None:
        super().__init__()
        if full:
            self.features = nn.Sequential(
                nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
                nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            )  # fmt: skip
            self.fc1, self.fc2 = nn.Linear(64 * 7 * 7, 128), nn.Linear(128, 10)
        else:
            self.features = nn.Sequential(
                nn.Conv2d(1, 8, 7, stride=5, padding=1), nn.ReLU(),
                nn.Conv2d(8, 16, 3, stride=2, padding=1), nn.ReLU(),
            )  # fmt: skip
            self.fc1, self.fc2 = nn.Linear(16 * 3 * 3, 32), nn.Linear(32, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.features(x).flatten(1)
        return self.fc2(torch.relu(self.fc1(x)))


train_data = datasets.MNIST(args.data, train=True, download=True)
images = train_data.data.to(device).float().div_(255).sub_(0.1307).div_(0.3081).unsqueeze(1)
labels = train_data.targets.to(device)

model = Net(args.size == "full").to(device)
forward = torch.compile(model, dynamic=False) if cuda else model
criterion = nn.CrossEntropyLoss()
optimizer = optim.SGD(model.parameters(), lr=0.01, momentum=0.9, fused=True)
loss_sum = torch.zeros((), device=device)


def train_step(index: Tensor) -> None:
    optimizer.zero_grad(set_to_none=True)
    # bfloat16 does not pay for convolutions of so few channels on a CPU
    with torch.autocast(device.type, torch.bfloat16, enabled=cuda):
        loss = criterion(forward(images[index]), labels[index])
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
    return torch.randperm(len(labels), generator=generator).to(device)


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
