"""ResNet-50 without its JPEGs: one batch on the device, again and again."""

import argparse

import torch
import torch.nn as nn
from expert import ResNet, has_bfloat16


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

side, batch_size, classes = (224, 64, 20) if full else (64, 8, 8)
model = ResNet([3, 4, 6, 3] if full else [1, 1, 1, 1], 64 if full else 32, classes)
model = model.to(device, memory_format=torch.channels_last)
forward = torch.compile(model, dynamic=False) if cuda else model
criterion = nn.CrossEntropyLoss()
lr = 0.1 * batch_size / 256
optimizer = torch.optim.SGD(model.parameters(), lr, momentum=0.9, weight_decay=1e-4, fused=True)
images = torch.randn(batch_size, 3, side, side, device=device).to(memory_format=torch.channels_last)
labels = torch.randint(classes, (batch_size,), device=device)
low = has_bfloat16(device)


def loss_of():
    with torch.autocast(device.type, torch.bfloat16, enabled=low):
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
