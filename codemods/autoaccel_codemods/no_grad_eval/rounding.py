"""What rounds otherwise where no gradients are recorded.

Compared bit by bit on a CPU with torch 2.13, with and without gradients, in float32, float64 and bfloat16, over shapes
from a single element to some hundreds: only what is listed here differed. Among what did not: linear, convolution
(plain, grouped, transposed, channels last), pooling, batch, group, instance, layer and RMS norm, embeddings and
embedding bags, `nn.GRU`, `nn.RNN`, all cells, activations, softmax, `scaled_dot_product_attention` (causal, masked,
flash), attention and decoder layers that take the sequence first, losses, distributions, other linear algebra.

Two choose their kernel by whether an operand requires a gradient, which a parameter does without a recorded graph, too,
and what is computed of one does not: `scaled_dot_product_attention` looks at its mask, and `matmul` and `linear` look
at the one of lower rank before they fold the other into a matrix (`should_fold` in ATen's LinearAlgebra.cpp).
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from autoaccel.analysis.classes import external_lineage, lineage
from autoaccel.analysis.script import Script
from autoaccel.dataflow.abstract_values import Kind, Value
from autoaccel.edits import Tier
from autoaccel.pytorch.forwards import forward_calls
from autoaccel.pytorch.kept_state import may_carry_graph

# In evaluation mode these take a fused path when no gradient is recorded: rounding and padded positions differ.
_FUSED = frozenset(f"torch.nn.{name}" for name in ("TransformerEncoder", "TransformerEncoderLayer", "Transformer"))
_FUSED_BATCH_FIRST = frozenset(
    f"torch.nn.{name}" for name in ("MultiheadAttention", "TransformerDecoder", "TransformerDecoderLayer")
)
_ZEROING = frozenset({"torch.nn.TransformerEncoder", "torch.nn.Transformer"})
_PADDING = ("src_key_padding_mask", "memory_key_padding_mask")
_MOST_POSITIONAL = 6  # more arguments than these may say `batch_first` without its name, to a decoder layer at least
# oneDNN's LSTM for inference; decompositions whose vectors only the gradient needs.
_ROUNDED = frozenset(
    f"torch.{name}"
    for name in """nn.LSTM linalg.svdvals linalg.eigvalsh linalg.cond linalg.lstsq linalg.matrix_norm
    linalg.matrix_rank svd""".split()
)
_NORMS = frozenset({"torch.linalg.norm", "torch.norm"})
_LAST_NAMES = (*sorted({each.rpartition(".")[2] for each in _FUSED | _FUSED_BATCH_FIRST | _ROUNDED}),)
_MATRIX = 2
_MULTIPLYING = {"torch.matmul": 2, "torch.linalg.matmul": 2, "operator.matmul": 2, "torch.nn.functional.linear": 2}
_COMPUTED_WEIGHTS = (
    "torch.nn.utils.parametriz",
    "torch.nn.utils.prune.",
    "torch.nn.utils.weight_norm",
    "torch.nn.utils.spectral_norm",
    "torch.func.functional_call",
    "torch.nn.utils.stateless.",
)
_LAYERS = ("torch.nn", "torch.linalg", "torch")  # where a layer or an operation may be looked up by a computed name
# Libraries' models whose layers are known: without attention of `torch.nn`, without LSTM.
_KNOWN = ("torch.nn.", "torchvision.models.")
_WITH_ATTENTION = ("torchvision.models.vit_", "torchvision.models.get_model", "torchvision.models.detection.")


def tier_without_gradients(script: Script, forwards: Iterable[ast.Call]) -> Tier:
    """How exact it is to run models without gradients."""
    files, models = _reached(script, forwards)
    tiers = [_tier_of_call(each, call) for each in files for call in each.find(ast.Call)]
    tiers += [_tier_of_mention(each, mention) for each in files for mention in _mentions(each)]
    products = [(each, product) for each in files for product in each.find(ast.BinOp)]
    tiers += [_tier_of_product(each, product, [product.left, product.right]) for each, product in products]
    tiers += [Tier.NUMERICS for each in files if _is_compiled_in(each)]
    return max([*tiers, *(_tier_of_model(each) for each in models)], default=Tier.EXACT)


def zeroes_padding(script: Script, forwards: Iterable[ast.Call]) -> bool:
    """Whether models are run here whose encoder leaves zeros at padded positions where no gradients are recorded, and
    these may be read: neither is a single position taken of what it gives, nor does the loss ignore some."""
    files, _ = _reached(script, forwards)
    made = (_canonical(each.qualname(call.func) or "") for each in files for call in each.find(ast.Call))
    if not any(name in _ZEROING for name in made):
        return False
    if any(keyword.arg == "ignore_index" for each in files for keyword in each.find(ast.keyword)):
        return False
    padded = [(each, keyword) for each in files for keyword in each.find(ast.keyword) if keyword.arg in _PADDING]
    return any(not _takes_one_position(file, file.parent(keyword)) for file, keyword in padded)


def _takes_one_position(script: Script, call: ast.AST | None) -> bool:
    """Whether of what a call gives only single positions are read: `self.encoder(x, …)[:, 0]`."""
    around = script.parent(call) if call is not None else None
    reads: list[ast.AST] = [call] if call is not None else []
    if isinstance(around, ast.Assign) and len(around.targets) == 1 and isinstance(around.targets[0], ast.Name):
        reads = [use for each in script.definitions(around.targets[0]) for use in script.uses(each)]
    return bool(reads) and all(_is_indexed(script, each) for each in reads)


def _is_indexed(script: Script, read: ast.AST) -> bool:
    taken = script.parent(read)
    if not isinstance(taken, ast.Subscript) or taken.value is not read:
        return False
    parts = taken.slice.elts if isinstance(taken.slice, ast.Tuple) else [taken.slice]
    return any(isinstance(each, ast.Constant) and type(each.value) is int for each in parts)


def _is_compiled_in(script: Script) -> bool:
    """Whether a file hands models to a compiler, which fuses others of their operations where none is for a
    gradient."""
    mentions = script.syntax_index.mentions("compile", *script.import_aliases(("compile",)))
    return any(
        script.qualname(each) == "torch.compile"
        or (isinstance(each, ast.Attribute) and script.kind(each.value) is Kind.MODULE)
        for each in mentions
    )


def _reached(script: Script, forwards: Iterable[ast.Call]) -> tuple[list[Script], list[Value]]:
    """The files in which models that are run here may be made of layers, and these models."""
    files: dict[Script, None] = {script: None}
    models: dict[Value, None] = {}
    seen: set[ast.AST] = set()
    pending = [(script, call) for call in forwards]
    while pending:
        file, call = pending.pop()
        for model in (call.func, *([call.func.value] if isinstance(call.func, ast.Attribute) else [])):
            values = file.values(model)
            if file.kind(model) is Kind.MODULE:
                models |= dict.fromkeys(each for each in values if each.kind is Kind.MODULE)
            files |= dict.fromkeys(each.script for each in values if each.script is not None)
            classes = [each.cls for each in values if each.cls is not None]
            files |= dict.fromkeys(ref.script for each in classes for ref in lineage(each))
        for other, function in file.callees(call):
            files[other] = None
            if function not in seen:
                seen.add(function)
                pending.extend((other, inner) for inner in forward_calls(other, function))
    return [*files], [*models]


def _tier_of_call(script: Script, call: ast.Call) -> Tier:
    name = _looked_up(script, call)
    if name is None:
        if isinstance(call.func, ast.Attribute) and call.func.attr == "matmul":
            return _tier_of_product(script, call, [call.func.value, *call.args])
        return Tier.EXACT
    if name in _FUSED or (name in _FUSED_BATCH_FIRST and _may_be_batch_first(call)):
        return Tier.NUMERICS
    if name.endswith(".?"):
        return Tier.NUMERICS if name == "torch.nn.?" else Tier.EQUIVALENT
    if name in _ROUNDED or (name in _NORMS and _is_of_matrix(call)) or name.startswith(_COMPUTED_WEIGHTS):
        return Tier.EQUIVALENT
    if name == "torch.nn.functional.scaled_dot_product_attention":
        masks = [*call.args[3:4], *(each.value for each in call.keywords if each.arg in ("attn_mask", None))]
        computed = any(not isinstance(each, ast.Constant) and _is_computed(script, each) for each in masks)
        return Tier.EQUIVALENT if computed or any(isinstance(each, ast.Starred) for each in call.args) else Tier.EXACT
    if name in _MULTIPLYING:
        keywords = [each.value for each in call.keywords if each.arg != "bias"]
        return _tier_of_product(script, call, [*call.args[: _MULTIPLYING[name]], *keywords])
    return Tier.EXACT


def _looked_up(script: Script, call: ast.Call) -> str | None:
    """The qualified name of what is called, or of what it looks up; `torch.nn.?` where the name is computed."""
    name = script.qualname(call.func)
    if name is not None:
        return _canonical(name)
    match call:
        case ast.Call(func=ast.Call(func=ast.Name(id="getattr"), args=[owner, named, *_])):
            pass
        case ast.Call(func=ast.Name(id="getattr"), args=[owner, named, *_]):
            if not isinstance(named, ast.Constant) or named.value not in _LAST_NAMES:
                found = script.qualname(owner)
                return f"{found}.?" if found in _LAYERS and not isinstance(named, ast.Constant) else None
        case ast.Call(func=ast.Name(id="vars"), args=[owner]):
            found = script.qualname(owner)
            return f"{found}.?" if found in _LAYERS else None
        case _:
            return None
    found = script.qualname(owner)
    constant = named.value if isinstance(named, ast.Constant) else None
    return f"{found}.{constant}" if found is not None and isinstance(constant, str) else None


def _mentions(script: Script) -> list[ast.Name | ast.Attribute]:
    return script.syntax_index.mentions(*_LAST_NAMES, *script.import_aliases(_LAST_NAMES))


def _tier_of_mention(script: Script, mention: ast.Name | ast.Attribute) -> Tier:
    """That of a layer which is named as a value or as a base class."""
    around = script.parent(mention)
    if isinstance(around, ast.Call):
        if around.func is mention or getattr(around.func, "id", "") in ("isinstance", "issubclass"):
            return Tier.EXACT
    if isinstance(around, ast.Attribute | ast.arg | ast.AnnAssign | ast.Compare | ast.BinOp):
        return Tier.EXACT
    if isinstance(around, ast.Tuple) and isinstance(script.parent(around), ast.Call | ast.Compare):
        return Tier.EXACT
    name = _canonical(script.qualname(mention) or "")
    if name in _FUSED | _FUSED_BATCH_FIRST:
        return Tier.NUMERICS
    return Tier.EQUIVALENT if name in _ROUNDED else Tier.EXACT


def _tier_of_product(script: Script, product: ast.expr, operands: list[ast.expr]) -> Tier:
    """That of a matrix product. Ranks are not known: whatever is computed may be the operand of lower rank."""
    if isinstance(product, ast.BinOp) and not isinstance(product.op, ast.MatMult):
        return Tier.EXACT
    if script.function(product) is None or any(script.kind(each) is Kind.ARRAY for each in operands):
        return Tier.EXACT  # no evaluation runs it; numpy
    if any(_is_matrix_parameter(script, each) for each in operands):
        return Tier.EXACT
    return Tier.EQUIVALENT if any(_is_computed(script, each) for each in operands) else Tier.EXACT


def _is_matrix_parameter(script: Script, operand: ast.expr) -> bool:
    """Whether an operand is a parameter itself, as it is made, with two dimensions at most."""
    if isinstance(operand, ast.Attribute) and operand.attr == "weight":
        return script.kind(operand.value) is Kind.MODULE
    values = script.values(operand)
    shapes = [value.node.args[0] for value in values if isinstance(value.node, ast.Call) and value.node.args]
    made = [each.args for each in shapes if isinstance(each, ast.Call)]
    return (
        script.kind(operand) is Kind.PARAMETER
        and len(made) == len(values)
        and all(
            len(args) <= _MATRIX and all(isinstance(each, ast.Name | ast.Constant) for each in args) for args in made
        )
    )


def _is_computed(script: Script, operand: ast.expr) -> bool:
    """Whether a tensor may be computed from parameters, here or by whoever hands it over; no buffer, no comparison."""
    if isinstance(operand, ast.Name) and any(each.how == "param" for each in script.definitions(operand)):
        return True
    owner = operand
    while isinstance(owner, ast.Subscript):
        owner = owner.value
    if isinstance(owner, ast.Attribute) and owner.attr in _buffers(script):
        return False
    return may_carry_graph(script, operand, set())


def _buffers(script: Script) -> set[object]:
    calls = script.syntax_index.calls_named("register_buffer")
    return {call.args[0].value for call in calls if call.args and isinstance(call.args[0], ast.Constant)}


def _canonical(name: str) -> str:
    return f"torch.nn.{name.rpartition('.')[2]}" if name.startswith("torch.nn.modules.") else name


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
        names = [_canonical(each) for each in external_lineage(model.cls)]
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
