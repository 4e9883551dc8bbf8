"""DCGAN without its pictures: one batch on the device, again and again."""

import argparse

import torch
import torch.nn.functional as F
from expert import Discriminator, Generator, has_bfloat16, weights_init


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

image_size, batch_size, width, nz = (64, 128, 64, 100) if full else (32, 8, 32, 32)
net_g, net_d = Generator(nz, width, image_size).to(device), Discriminator(width, image_size).to(device)
for net in (net_g, net_d):
    net.apply(weights_init).to(memory_format=torch.channels_last)
    if cuda:
        net.compile(dynamic=False)
criterion = F.binary_cross_entropy_with_logits
adam = {"lr": 0.0002, "betas": (0.5, 0.999), "fused": True, "capturable": cuda}
optimizer_d = torch.optim.Adam(net_d.parameters(), **adam)
optimizer_g = torch.optim.Adam(net_g.parameters(), **adam)
real = 2 * torch.rand(batch_size, 1, image_size, image_size, device=device) - 1
ones, zeros = torch.ones(batch_size, device=device), torch.zeros(batch_size, device=device)
low = has_bfloat16(device)


def low_precision():
    return torch.autocast(device.type, torch.bfloat16, enabled=low)


def work():
    net_d.zero_grad(set_to_none=True)
    with low_precision():
        fake = net_g(torch.randn(batch_size, nz, 1, 1, device=device))
        loss_real = criterion(net_d(real), ones)
        loss_fake = criterion(net_d(fake.detach()), zeros)
    loss_d = loss_real + loss_fake
    loss_d.backward()
    optimizer_d.step()

    net_g.zero_grad(set_to_none=True)
    net_d.requires_grad_(False)
    with low_precision():
        loss_g = criterion(net_d(fake), ones)
    loss_g.backward()
    optimizer_g.step()
    net_d.requires_grad_(True)
    return (loss_d + loss_g).detach()


again = repeated(work)
step = 0
while step < args.steps:
    loss = again()
    step += 1
    if step % 50 == 0 or step == args.steps:
        print(f"step {step} loss {loss.item():.4f}", flush=True)
