"""How exact an evaluation is without gradients."""

from __future__ import annotations

import pytest

from autoaccel.analysis import load
from autoaccel.edits import Tier
from autoaccel.pytorch.forwards import forward_calls
from autoaccel_codemods.no_grad_eval.rounding import tier_without_gradients

NET = """\
import torch
import timm as x
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = {layer}
    def forward(self, x):
        return self.layer(x)
model = Net()
out = model(torch.randn(2, 3, 4))
"""
FORWARD = """\
import torch
from torch import nn
from torch.nn import functional as F
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.linear = nn.Parameter(torch.randn(4, 4)), nn.Linear(4, 4)
        self.register_buffer("mask", torch.ones(4, 4))
    def forward(self, x):
        h = self.linear(x)
        return {result}
out = Net()(torch.randn(2, 3, 4))
"""


@pytest.mark.parametrize(
    ("result", "tier"),
    [
        pytest.param("h @ self.table", Tier.EXACT, id="times a parameter"),
        pytest.param("h @ self.linear.weight", Tier.EXACT, id="times a weight"),
        pytest.param("h @ self.linear.weight.t()", Tier.EQUIVALENT, id="times a transposed weight"),
        pytest.param("F.softmax(self.table, 1) @ h", Tier.EQUIVALENT, id="computed matrix"),
        pytest.param("torch.matmul(h, F.normalize(self.table))", Tier.EQUIVALENT, id="function"),
        pytest.param("h.matmul(F.normalize(self.table))", Tier.EQUIVALENT, id="method"),
        pytest.param("F.linear(x, self.table)", Tier.EXACT, id="linear"),
        pytest.param("F.linear(x, self.table * 2)", Tier.EQUIVALENT, id="linear with a computed weight"),
        pytest.param("F.scaled_dot_product_attention(h, h, h)", Tier.EXACT, id="attention"),
        pytest.param("F.scaled_dot_product_attention(h, h, h, self.table[:3])", Tier.EQUIVALENT, id="learned bias"),
        pytest.param("F.scaled_dot_product_attention(h, h, h, self.mask[:3])", Tier.EXACT, id="buffer as a mask"),
        pytest.param("F.scaled_dot_product_attention(h, h, h, attn_mask=h > 0)", Tier.EXACT, id="mask of truth values"),
        pytest.param("F.scaled_dot_product_attention(h, h, h, attn_mask=None)", Tier.EXACT, id="no mask"),
    ],
)
def test_kernels_chosen_by_requires_grad(result: str, tier: Tier) -> None:
    script = load(FORWARD.format(result=result))
    assert tier_without_gradients(script, [*forward_calls(script, script.tree.body[-1])]) is tier


@pytest.mark.parametrize(
    ("text", "tier"),
    [
        pytest.param(NET.format(layer="nn.Linear(4, 4)"), Tier.EXACT, id="linear"),
        pytest.param(NET.format(layer="nn.GRU(4, 4)"), Tier.EXACT, id="GRU"),
        pytest.param(NET.format(layer="nn.LSTMCell(4, 4)"), Tier.EXACT, id="LSTM cell"),
        pytest.param(NET.format(layer="nn.LSTM(4, 4)"), Tier.EQUIVALENT, id="LSTM"),
        pytest.param(NET.format(layer="nn.MultiheadAttention(4, 2)"), Tier.EXACT, id="attention, sequence first"),
        pytest.param(
            NET.format(layer="nn.MultiheadAttention(4, 2, batch_first=False)"), Tier.EXACT, id="attention, said so"
        ),
        pytest.param(
            NET.format(layer="nn.MultiheadAttention(4, 2, batch_first=True)"),
            Tier.NUMERICS,
            id="attention, batch first",
        ),
        pytest.param(
            NET.format(layer="nn.MultiheadAttention(4, 2, **options)"), Tier.NUMERICS, id="attention, options unknown"
        ),
        pytest.param(NET.format(layer="nn.TransformerEncoderLayer(4, 2)"), Tier.NUMERICS, id="encoder"),
        pytest.param(NET.format(layer="getattr(nn, 'LSTM')(4, 4)"), Tier.EQUIVALENT, id="looked up"),
        pytest.param(NET.format(layer="getattr(nn, cell)(4, 4)"), Tier.NUMERICS, id="looked up by any name"),
        pytest.param(NET.format(layer="vars(nn)[cell](4, 4)"), Tier.NUMERICS, id="looked up in the module"),
        pytest.param(NET.format(layer="{'a': nn.LSTM, 'b': nn.GRU}[cell](4, 4)"), Tier.EQUIVALENT, id="in a table"),
        pytest.param(
            NET.format(layer="nn.Linear(4, 4)") + "isinstance(model, nn.LSTM)\nout = model(1)\n",
            Tier.EXACT,
            id="asked for",
        ),
        pytest.param(
            NET.format(layer="nn.utils.parametrizations.weight_norm(nn.Linear(4, 4))"),
            Tier.EQUIVALENT,
            id="computed weight",
        ),
        pytest.param(NET.format(layer="nn.ModuleList([nn.Linear(4, 4)])[0]"), Tier.EXACT, id="element"),
        pytest.param(NET.replace("(nn.Module)", "(nn.Module, x.Base)").format(layer="1"), Tier.NUMERICS, id="base"),
        pytest.param(NET.replace("(nn.Module)", "(nn.LSTM)").format(layer="1"), Tier.EQUIVALENT, id="is an LSTM"),
        pytest.param(
            "import torch\ndef f(net: torch.nn.Module):\n    net.eval()\n    out = net(1)\n", Tier.NUMERICS, id="any"
        ),
        pytest.param(
            "import torch\nnet = torch.load('a')\nnet.eval()\nout = net(torch.ones(1))\n", Tier.NUMERICS, id="loaded"
        ),
        pytest.param(
            "import torchvision\nnet = torchvision.models.resnet18()\nout = net(x)\n", Tier.EXACT, id="library's"
        ),
        pytest.param(
            "import torchvision\nnet = torchvision.models.vit_b_16()\nout = net(x)\n",
            Tier.NUMERICS,
            id="with attention",
        ),
        pytest.param(
            "import torch\nnet = torch.nn.Linear(4, 4)\nout = torch.linalg.svdvals(net(x))\n",
            Tier.EQUIVALENT,
            id="singular values",
        ),
        pytest.param(
            "import torch\nnet = torch.nn.Linear(4, 4)\nout = torch.linalg.norm(net(x), dim=1)\n", Tier.EXACT, id="norm"
        ),
        pytest.param(
            "import torch\nnet = torch.nn.Linear(4, 4)\nout = torch.linalg.norm(net(x), ord='nuc')\n",
            Tier.EQUIVALENT,
            id="nuclear norm",
        ),
    ],
)
def test_tier_without_gradients(text: str, tier: Tier) -> None:
    script = load(text)
    forwards = [*forward_calls(script, script.tree.body[-1])]
    assert tier_without_gradients(script, forwards) is tier
