"""The small GPT without its text: one batch on the device, again and again."""

import argparse

import torch
from torch import nn
from expert import GPT, SIZES, has_bfloat16

# block, layers, heads, width, batch, characters


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
    parser.add_argument("--seed", type=int, default=42)
    parser.add_argument("--size", choices=SIZES, default="small")
    parser.add_argument("--data", help="not needed")
    args = parser.parse_args()
    block, layers, heads, width, batch, _ = SIZES[args.size]
    vocabulary = 24

    torch.manual_seed(args.seed)
    torch.set_float32_matmul_precision("high")
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = GPT(vocabulary, block, layers, heads, width).to(device).train()
    parameters = list(model.parameters())
    optimizer = torch.optim.AdamW(
        parameters, lr=6e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True, capturable=device.type == "cuda"
    )
    loss_of = torch.compile(model, dynamic=False) if device.type == "cuda" else model
    chunk = torch.randint(vocabulary, (batch, block + 1), device=device)
    low = has_bfloat16(device)

    def work():
        with torch.autocast(device.type, torch.bfloat16, enabled=low):
            loss = loss_of(chunk[:, :-1], chunk[:, 1:])
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(parameters, 1.0)
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
