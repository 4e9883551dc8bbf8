"""The modules that the benchmark times compute the same as they are and scripted."""

from __future__ import annotations

import pytest
import torch

from benchmarks.jit.__main__ import Activations, Cells, Perceptron, seconds


@pytest.mark.parametrize("kind", [Perceptron, Activations, Cells])
def test_scripted_computes_the_same(kind: type[torch.nn.Module]) -> None:
    module = kind()
    x = torch.randn(4, 256, requires_grad=True)
    scripted = torch.jit.script(module)
    torch.testing.assert_close(scripted(x), module(x))
    assert seconds(scripted, x) > 0
    assert x.grad is not None
