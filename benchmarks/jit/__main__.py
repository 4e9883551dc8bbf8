"""`python -m benchmarks.jit`; see README.md."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch
from torch import Tensor, nn

WARM_UP = 10
"""Calls before any counts: TorchScript's profiling executor optimises only what it has seen a few times."""
TURNS = 30


class Perceptron(nn.Module):
    """What its matrix products cost cannot be compiled away."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(256, 512), nn.Linear(512, 256)

    def forward(self, x: Tensor) -> Tensor:
        return self.second(torch.relu(self.first(x)))


class Activations(nn.Module):
    """Chains of pointwise operations written by hand, with a normalization between them."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(256, 256)
        self.scale, self.shift = nn.Parameter(torch.ones(256)), nn.Parameter(torch.zeros(256))

    def forward(self, x: Tensor) -> Tensor:
        for _ in range(3):
            x = self.linear(x)
            x = (x - x.mean(-1, keepdim=True)) / torch.sqrt(x.var(-1, keepdim=True) + 1e-5) * self.scale + self.shift
            x = 0.5 * x * (1 + torch.tanh(0.7978846 * (x + 0.044715 * x * x * x)))
        return x


class Cells(nn.Module):
    """A recurrent cell written by hand, sixteen steps of it."""

    def __init__(self) -> None:
        super().__init__()
        self.given, self.kept = nn.Linear(256, 512), nn.Linear(128, 512)

    def forward(self, x: Tensor) -> Tensor:
        hidden = torch.zeros(x.shape[0], 128)
        cell = torch.zeros(x.shape[0], 128)
        for step in range(16):
            gates = self.given(x.roll(step, 1)) + self.kept(hidden)
            into, forget, candidate, out = gates.chunk(4, 1)
            cell = torch.sigmoid(forget) * cell + torch.sigmoid(into) * torch.tanh(candidate)
            hidden = torch.sigmoid(out) * torch.tanh(cell)
        return hidden


def seconds(module: Callable[[Tensor], Tensor], x: Tensor) -> float:
    """How long one forward and one backward pass take."""
    began = time.perf_counter()
    module(x).square().mean().backward()
    return time.perf_counter() - began


def main() -> None:
    """Print a row for each module."""
    torch.set_num_threads(1)
    print("| module | eager, ms | scripted, ms | compiled, ms | compiled against scripted |")
    print("|---|---:|---:|---:|---:|")
    for kind in (Perceptron, Activations, Cells):
        torch.manual_seed(0)
        eager = kind()
        ways = (eager, torch.jit.script(eager), torch.compile(eager))
        x = torch.randn(128, 256, requires_grad=True)
        for way in ways:
            for _ in range(WARM_UP):
                seconds(way, x)
        turns = [[1000 * seconds(way, x) for way in ways] for _ in range(TURNS)]
        best = [min(each) for each in zip(*turns, strict=True)]
        figures = " | ".join(f"{each:.2f}" for each in best)
        print(f"| {kind.__name__} | {figures} | {best[1] / best[2]:.2f}x |", flush=True)


if __name__ == "__main__":
    main()
