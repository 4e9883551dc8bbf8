"""The word language model without its text: one batch on the device, again and again."""

import argparse

import torch
from torch import nn
from expert import BPTT, CLIP, LR, LanguageModel, SIZES, has_bfloat16


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
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--size", choices=SIZES, default="small")
    parser.add_argument("--data", default="data", help="not needed: the text is generated")
    args = parser.parse_args()
    words, _, width, columns = SIZES[args.size]

    torch.manual_seed(args.seed)
    torch.set_float32_matmul_precision("high")
    cuda = torch.cuda.is_available()
    device = torch.device("cuda" if cuda else "cpu")
    model = LanguageModel(words, width).to(device).train()
    embed, loss_of = (torch.compile(model.embed), torch.compile(model.loss)) if cuda else (model.embed, model.loss)
    optimizer = torch.optim.SGD(model.parameters(), lr=LR, fused=True)
    parameters, low = list(model.parameters()), has_bfloat16(device)
    batch, targets = torch.randint(words, (2, BPTT, columns), device=device)
    hidden = tuple(torch.zeros(2, columns, width, device=device) for _ in range(2))

    def work():
        with torch.autocast(device.type, torch.bfloat16, enabled=low):
            output, _ = model.rnn(embed(batch), hidden)
            loss = loss_of(output, targets)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(parameters, CLIP)
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
