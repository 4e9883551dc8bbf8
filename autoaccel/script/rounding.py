"""What rounds otherwise where no gradients are recorded.

Compared bit by bit on a CPU with torch 2.13, with and without gradients, in float32, float64 and bfloat16, over shapes
from a single element to some hundreds: only what is listed here differed. Among what did not: linear, convolution
(plain, grouped, transposed, channels last), pooling, batch, group, instance, layer and RMS norm, embeddings and
embedding bags, `nn.GRU`, `nn.RNN`, all cells, activations, softmax, `scaled_dot_product_attention` (causal, masked,
flash), attention and decoder layers that take the sequence first, losses, distributions, other linear algebra.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import TYPE_CHECKING

from autoaccel.rewriting.finding import Tier
from autoaccel.script.evaluation import forward_calls
from autoaccel.script.values import Kind, Value

if TYPE_CHECKING:
    from autoaccel.script.script import Script

# In evaluation mode these take a fused path when no gradient is recorded: rounding and padded positions differ.
_FUSED = frozenset(f"torch.nn.{name}" for name in ("TransformerEncoder", "TransformerEncoderLayer", "Transformer"))
_FUSED_BATCH_FIRST = frozenset(
    f"torch.nn.{name}" for name in ("MultiheadAttention", "TransformerDecoder", "TransformerDecoderLayer")
)
_MOST_POSITIONAL = 8  # more arguments than these may say `batch_first` without its name
# oneDNN's LSTM for inference; decompositions whose vectors only the gradient needs.
_ROUNDED = frozenset(
    f"torch.{name}"
    for name in """nn.LSTM linalg.svdvals linalg.eigvalsh linalg.cond linalg.lstsq linalg.matrix_norm
    linalg.matrix_rank svd""".split()
)
_NORMS = frozenset({"torch.linalg.norm", "torch.norm"})
# Libraries' models whose layers are known: without attention of `torch.nn`, without LSTM.
_KNOWN = ("torch.nn.", "torchvision.models.")
_WITH_ATTENTION = ("torchvision.models.vit_", "torchvision.models.get_model", "torchvision.models.detection.")


def tier_without_gradients(script: Script, forwards: Iterable[ast.Call]) -> Tier:
    """How exact it is to run models without gradients."""
    files, models = _reached(script, forwards)
    tiers = [_tier_of_call(each, call) for each in files for call in each.find(ast.Call)]
    return max([*tiers, *(_tier_of_model(each) for each in models)], default=Tier.EXACT)


def _reached(script: Script, forwards: Iterable[ast.Call]) -> tuple[list[Script], list[Value]]:
    """The files in which models that are run here may be made of layers, and these models."""
    files: dict[Script, None] = {script: None}
    models: dict[Value, None] = {}
    seen: set[ast.AST] = set()
    pending = [(script, call) for call in forwards]
    while pending:
        home, call = pending.pop()
        for model in (call.func, *([call.func.value] if isinstance(call.func, ast.Attribute) else [])):
            values = home.values(model)
            if home.kind(model) is Kind.MODULE:
                models |= dict.fromkeys(each for each in values if each.kind is Kind.MODULE)
            files |= dict.fromkeys(each.script for each in values if each.script is not None)
        for other, function in home.callees(call):
            files[other] = None
            if function not in seen:
                seen.add(function)
                pending.extend((other, inner) for inner in forward_calls(other, function))
    return [*files], [*models]


def _tier_of_call(script: Script, call: ast.Call) -> Tier:
    name = script.qualname(call.func)
    if name in _FUSED or (name in _FUSED_BATCH_FIRST and _may_be_batch_first(call)):
        return Tier.NUMERICS
    if name in _ROUNDED or (name in _NORMS and _is_of_matrix(call)):
        return Tier.EQUIVALENT
    return Tier.EXACT


def _may_be_batch_first(call: ast.Call) -> bool:
    named = [each for each in call.keywords if each.arg in ("batch_first", None)]
    return len(call.args) > _MOST_POSITIONAL or any(
        not (isinstance(each.value, ast.Constant) and not each.value.value) for each in named
    )


def _is_of_matrix(call: ast.Call) -> bool:
    """Whether a norm is one of singular values, for all that is known: of a vector it has a dimension."""
    orders = [*call.args[1:2], *(each.value for each in call.keywords if each.arg in ("ord", "p"))]
    return any(not isinstance(each, ast.Constant) or each.value in (2, -2, "nuc") for each in orders)


def _tier_of_model(model: Value) -> Tier:
    """That of a class which is not in sight: it may hold any of these layers."""
    if model.cls is not None:
        names = [*model.cls.script.project.external_lineage(model.cls)]
    elif model.name is not None and model.name != "torch.nn.Module":
        names = [model.name]
    elif isinstance(model.node, ast.Subscript | ast.For | ast.comprehension):
        names = []  # an element of a container, which is made in one of the files
    else:
        return Tier.NUMERICS
    if any(name in _FUSED | _FUSED_BATCH_FIRST for name in names if model.cls is not None):
        return Tier.NUMERICS
    if not all(name.startswith(_KNOWN) and not name.startswith(_WITH_ATTENTION) for name in names):
        return Tier.NUMERICS
    return Tier.EQUIVALENT if any(name in _ROUNDED for name in names) else Tier.EXACT
