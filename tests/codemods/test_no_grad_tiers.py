"""no-grad-eval is exact, but where a Transformer encoder may take its inference path when gradients are off."""

from __future__ import annotations

import pytest

from autoaccel.rewriting import engine
from autoaccel_codemods import no_grad_eval

TEXT = """\
import torch
from torch import nn


class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.{layer}(32, 4)

    def encode(self, x):
        return self.body(x)


def read(model, x):
    return model.encode(x).argmax(-1)


def validate(loader):
    model = Reader()
    model.eval()
    for x in loader:
        print({call})
"""


@pytest.mark.parametrize("call", ["model.encode(x)", "read(model, x)"])
@pytest.mark.parametrize(
    ("layer", "tier"),
    [("Linear", "exact"), ("TransformerEncoderLayer", "numerics"), ("Transformer", "numerics")],
)
def test_tier(layer: str, tier: str, call: str) -> None:
    result = engine.rewrite(TEXT.format(layer=layer, call=call), None, [no_grad_eval.RULE])
    assert [record.tier for record in result.applied] == [tier]


@pytest.mark.parametrize(
    ("layer", "tier"),
    [
        ("TransformerDecoderLayer(32, 4, 64, 0.1, nn.functional.relu, 1e-5, True)", "numerics"),
        ("TransformerDecoderLayer(32, 4, 64, 0.1, nn.functional.relu, 1e-5)", "exact"),
        ("MultiheadAttention(32, 4, batch_first=True)", "numerics"),
        ("MultiheadAttention(32, 4)", "exact"),
    ],
)
def test_attention_that_takes_the_batch_first(layer: str, tier: str) -> None:
    text = TEXT.replace("nn.{layer}(32, 4)", f"nn.{layer}").format(call="model.encode(x)")
    result = engine.rewrite(text, None, [no_grad_eval.RULE])
    assert [record.tier for record in result.applied] == [tier]
