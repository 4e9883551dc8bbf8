"""The network of the table without its rows: one batch on the device, again and again."""

import argparse

import torch
import torch.nn.functional as F
from expert import FEATURES, SIZES, build


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


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--size", choices=SIZES, default="small")
    parser.add_argument("--data", help="not needed, the table is generated")
    args = parser.parse_args()
    _, batch, hidden = SIZES[args.size]

    torch.manual_seed(args.seed)
    torch.set_float32_matmul_precision("high")
    cuda = torch.cuda.is_available()
    device = torch.device("cuda" if cuda else "cpu")
    model = build(hidden).to(device).train()
    forward = torch.compile(model, dynamic=False) if cuda else model
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True, capturable=cuda)
    x, y = torch.randn(batch, FEATURES, device=device), torch.randn(batch, 1, device=device)

    def work():
        with torch.autocast("cuda", torch.bfloat16, enabled=cuda):  # on a CPU such small products are slower in it
            predicted = forward(x)
        loss = F.mse_loss(predicted.float(), y)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        return loss.detach()

    again = repeated(work)

    step = 0
    while step < args.steps:
        loss = again()
        step += 1
        if step % 50 == 0 or step == args.steps:
            print(f"step {step} loss {loss.item():.5f}")


if __name__ == "__main__":
    main()
