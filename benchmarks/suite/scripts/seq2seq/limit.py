"""Translation without sentences: one batch on the device, again and again."""

import argparse
import random

import torch
from torch import nn
from expert import SIZES, Translator, attend_and_advance, has_bfloat16, make_pairs

# pairs, words, lengths, width, batch


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
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--size", choices=SIZES, default="small")
    parser.add_argument("--data", help="not needed: the sentences are made up")
    args = parser.parse_args()
    _, words, (shortest, longest), width, batch = SIZES[args.size]

    random.seed(args.seed)
    torch.manual_seed(args.seed)
    torch.set_float32_matmul_precision("high")
    cuda = torch.cuda.is_available()
    device = torch.device("cuda" if cuda else "cpu")
    sources, targets, lengths = (part.to(device) for part in make_pairs(batch, words, shortest, longest))
    model = Translator(words, width).to(device).train()
    if cuda:
        model.advance = torch.compile(attend_and_advance, dynamic=False)
    parts = [list(model.encoder.parameters()), list(model.decoder.parameters())]
    optimizer = torch.optim.Adam(parts[0] + parts[1], lr=0.002, fused=True, capturable=cuda)
    low = has_bfloat16(device)

    def work():
        with torch.autocast(device.type, torch.bfloat16, enabled=low):
            loss = model(sources, targets, lengths)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        for parameters in parts:
            nn.utils.clip_grad_norm_([each for each in parameters if each.grad is not None], 1.0)
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
