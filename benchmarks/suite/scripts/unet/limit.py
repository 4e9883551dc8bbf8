"""The U-Net without its images: one batch on the device, again and again."""

import argparse

import torch
import torch.nn.functional as F
from expert import UNet, dice_loss, has_bfloat16


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

side, batch_size = (256, 16) if full else (64, 2)
model = (UNet(64, 4) if full else UNet(32, 2)).to(device, memory_format=torch.channels_last)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True, capturable=cuda)
images = torch.rand(batch_size, 3, side, side, device=device).to(memory_format=torch.channels_last)
masks = torch.randint(2, (batch_size, 1, side, side), device=device).float()
low = has_bfloat16(device)


def loss_of():
    with torch.autocast(device.type, torch.bfloat16, enabled=low):
        logits = model(images)
    logits = logits.float()
    return F.binary_cross_entropy_with_logits(logits, masks) + dice_loss(logits, masks)


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
