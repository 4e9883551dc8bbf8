"""The convolutional network without its digits: one batch on the device, again and again."""

import argparse

import torch
from torch import nn
from model import Net


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

model = Net(args.size).to(device)
forward = torch.compile(model, dynamic=False) if cuda else model
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, fused=True)
images, labels = torch.randn(100, 1, 28, 28, device=device), torch.randint(10, (100,), device=device)


def loss_of():
    # bfloat16 does not pay for convolutions of so few channels on a CPU
    with torch.autocast(device.type, torch.bfloat16, enabled=cuda):
        return criterion(forward(images), labels)


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
