"""The word language model, tuned by hand.

The device is only waited for where a loss is printed, matrices are multiplied in bfloat16 where the hardware has it,
the text is numbered without going through strings, and what surrounds cuDNN's LSTM is compiled.
"""

import argparse
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

BPTT, CLIP, LR = 35, 0.25, 4.0
SIZES = {"full": (33278, 2000000, 650, 20), "small": (4000, 200000, 200, 20)}


def has_bfloat16(device):
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    cpuinfo = Path("/proc/cpuinfo")
    return cpuinfo.exists() and "avx512_bf16" in cpuinfo.read_text()


def make_stream(words, tokens, columns, seed):
    """The text as (length, columns) of ids, numbered by first appearance, without going through strings."""
    random = np.random.default_rng(seed)
    ids = random.zipf(1.2, tokens) % words
    ids[2::3] = (ids[1::3][: len(ids[2::3])] * 7 + 3) % words
    _, first, inverse = np.unique(ids, return_index=True, return_inverse=True)
    rank = np.empty_like(first)
    rank[np.argsort(first)] = np.arange(len(first))
    stream = torch.from_numpy(rank[inverse])
    length = len(stream) // columns
    return stream[: length * columns].view(columns, -1).t().contiguous(), len(first)


class LanguageModel(nn.Module):
    def __init__(self, vocabulary, width, layers=2, dropout=0.2):
        super().__init__()
        self.dropout = dropout
        self.encoder = nn.Embedding(vocabulary, width)
        self.rnn = nn.LSTM(width, width, layers, dropout=dropout)
        self.decoder = nn.Linear(width, vocabulary)
        nn.init.uniform_(self.encoder.weight, -0.1, 0.1)
        nn.init.zeros_(self.decoder.bias)
        nn.init.uniform_(self.decoder.weight, -0.1, 0.1)

    def embed(self, words):
        return F.dropout(self.encoder(words), self.dropout, self.training)

    def loss(self, output, targets):
        logits = self.decoder(F.dropout(output, self.dropout, self.training))
        return F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--size", choices=SIZES, default="small")
    parser.add_argument("--data", default="data", help="not needed: the text is generated")
    args = parser.parse_args()
    words, tokens, width, columns = SIZES[args.size]

    torch.manual_seed(args.seed)
    cuda = torch.cuda.is_available()
    device = torch.device("cuda" if cuda else "cpu")
    torch.set_float32_matmul_precision("high")
    stream, vocabulary = make_stream(words, tokens, columns, args.seed)
    stream = stream.to(device)
    model = LanguageModel(vocabulary, width).to(device)
    embed, loss_of = model.embed, model.loss
    if cuda:
        embed, loss_of = torch.compile(embed), torch.compile(loss_of)
    optimizer = torch.optim.SGD(model.parameters(), lr=LR, fused=True)
    low = has_bfloat16(device)
    model.train()
    parameters = list(model.parameters())

    step = 0
    while step < args.steps:
        hidden = None
        for i in range(0, len(stream) - 1, BPTT):
            length = min(BPTT, len(stream) - 1 - i)
            batch, targets = stream[i : i + length], stream[i + 1 : i + 1 + length]
            with torch.autocast(device.type, torch.bfloat16, enabled=low):
                output, hidden = model.rnn(embed(batch), hidden)
                hidden = tuple(part.detach() for part in hidden)
                loss = loss_of(output, targets)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            nn.utils.clip_grad_norm_(parameters, CLIP)
            optimizer.step()
            step += 1
            if step % 50 == 0 or step == args.steps:
                print(f"step {step} loss {loss.item():.4f}")
            if step == args.steps:
                return


if __name__ == "__main__":
    main()
