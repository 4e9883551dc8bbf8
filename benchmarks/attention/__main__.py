"""`python -m benchmarks.attention`; see README.md."""

from __future__ import annotations

import time
from pathlib import Path

import torch
from torch import nn

FIXTURE = Path(__file__).parents[2] / "fixtures" / "attention" / "causal"
SIZES = ((8, 32, 64, 4), (8, 64, 128, 4), (8, 128, 128, 4), (4, 256, 384, 6))
"""Of the batch, the sequence, the width and the number of heads."""
TURNS = 15


def attention(text: str, width: int, heads: int) -> nn.Module:
    """The module that a side of the fixture defines, for sequences of up to 256, with the weights of the other side."""
    names: dict[str, type[nn.Module]] = {}
    exec(text.partition("\n\ntorch.manual_seed")[0].replace("32, 32", "256, 256"), names)
    torch.manual_seed(0)
    return names["Attention"](width, heads)


def main() -> None:
    torch.set_num_threads(1)
    texts = [FIXTURE.with_suffix(f".{side}.py").read_text(encoding="utf-8") for side in ("in", "out")]
    print("| batch, length, width, heads | dropout | written out, ms | kernel, ms | times faster |")
    print("|---|---:|---:|---:|---:|")
    for batch, length, width, heads in SIZES:
        for share in (0.0, 0.1):
            sides = [attention(text.replace("Dropout(0.1)", f"Dropout({share})"), width, heads) for text in texts]
            x = torch.randn(batch, length, width, requires_grad=True)
            best = [float("inf")] * 2
            for _ in range(TURNS):
                for side, module in enumerate(sides):
                    began = time.perf_counter()
                    module(x).square().mean().backward()
                    best[side] = min(best[side], time.perf_counter() - began)
            before, after = (1000 * each for each in best)
            print(
                f"| {batch}, {length}, {width}, {heads} | {share} | {before:.2f} | {after:.2f} | {before / after:.2f} |"
            )


if __name__ == "__main__":
    main()
