"""`python -m benchmarks.kernels`; see README.md."""

from __future__ import annotations

import functools
import itertools
import math
import time
from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn
from torch.nn import functional

from autoaccel import runtime as accel

TURNS = 30
Side = Callable[[], object]


def backward(function: Callable[[Tensor], Tensor], x: Tensor) -> Side:
    """A pass forward and back; the gradient of a result that is no scalar is the result."""

    def run() -> None:
        leaf = x.detach().requires_grad_()
        result = function(leaf)
        torch.autograd.backward(result, None if result.dim() == 0 else result.detach())

    return run


def cross_entropy() -> Iterator[tuple[str, Side, Side]]:
    for shape in ((32, 784), (128, 784), (64, 3, 64, 64)):
        p, y = torch.sigmoid(torch.randn(shape)), torch.rand(shape)
        sides = [
            backward(lambda x, of=of, y=y: of(x, y, reduction="sum"), p)  # type: ignore[misc]
            for of in (functional.binary_cross_entropy, accel.binary_cross_entropy)
        ]
        yield f"binary cross-entropy of {shape}", sides[0], sides[1]


def max_pool() -> Iterator[tuple[str, Side, Side]]:
    for shape, how in (
        ((64, 64, 24, 24), (2,)),
        ((100, 16, 28, 28), (2,)),
        ((64, 20, 8, 8), (2,)),
        ((32, 64, 56, 56), (3, 2, 1)),
    ):
        x = torch.randn(shape).relu()
        sides = [
            backward(lambda x, of=of, how=how: of(x, *how), x)  # type: ignore[misc]
            for of in (functional.max_pool2d, accel.max_pool2d)
        ]
        yield f"max pooling {how} of {shape}", sides[0], sides[1]


def activations() -> Iterator[tuple[str, Side, Side]]:
    formulas: dict[str, tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]]] = {
        "GELU by tanh": (
            lambda x: 0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * torch.pow(x, 3.0)))),
            lambda x: functional.gelu(x, approximate="tanh"),
        ),
        "GELU by erf": (lambda x: x * 0.5 * (1.0 + torch.erf(x / math.sqrt(2.0))), functional.gelu),
        "SiLU": (lambda x: x * torch.sigmoid(x), functional.silu),
        "hard swish": (lambda x: x * functional.relu6(x + 3.0) / 6.0, functional.hardswish),
        "hard sigmoid": (lambda x: functional.relu6(x + 3.0) / 6.0, functional.hardsigmoid),
        "Mish": (lambda x: x * torch.tanh(functional.softplus(x)), functional.mish),
    }
    for shape in ((8, 64), (64, 128, 192)):
        x = torch.randn(shape)
        for name, (written_out, kernel) in formulas.items():
            yield f"{name} of {shape}", backward(written_out, x), backward(kernel, x)


def generator_steps() -> Iterator[tuple[str, Side, Side]]:
    def layers(widths: tuple[int, ...]) -> nn.Module:
        return nn.Sequential(
            *(each for pair in itertools.pairwise(widths) for each in (nn.Linear(*pair), nn.LeakyReLU(0.2)))
        )

    for batch in (64, 256):
        generator, critic = layers((100, 256, 512, 784)), layers((784, 512, 256, 1))
        wanted = list(generator.parameters())
        z = torch.randn(batch, 100)

        def step(inputs: list[nn.Parameter] | None, models: tuple[nn.Module, ...], z: Tensor) -> None:
            for model in models:
                model.zero_grad()
            generator, critic = models
            torch.autograd.backward(critic(generator(z)).mean(), inputs=inputs)

        sides = [functools.partial(step, inputs, (generator, critic), z) for inputs in (None, wanted)]
        yield f"a generator's step, batch of {batch}", sides[0], sides[1]


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    print("| what | before, ms | after, ms | times faster |")
    print("|---|---:|---:|---:|")
    for group in (cross_entropy, max_pool, activations, generator_steps):
        for name, *sides in group():
            best = [float("inf")] * 2
            for _ in range(TURNS):
                for number, side in enumerate(sides):
                    began = time.perf_counter()
                    side()
                    best[number] = min(best[number], time.perf_counter() - began)
            before, after = (1000 * each for each in best)
            print(f"| {name} | {before:.3f} | {after:.3f} | {before / after:.2f} |", flush=True)


if __name__ == "__main__":
    main()
