"""Lay out pictures by pixel.

Convolutions work on all channels of one pixel after the other. Pictures lie channel by channel, so they are reordered
before every layer and after it; laid out channels last once, they stay so through convolutions, normalisations and
pooling. `accel.channels_last` copies the pictures that a model is given, tries both layouts when the script trains,
step against step, and keeps the faster one. Parameters, checkpoints and what the model returns lie as before. Results
differ by rounding, dropout draws other masks.

Left alone:
- models without convolutions over two dimensions, and those whose parts are not visible;
- scripts that choose layouts themselves (`memory_format`), compile, export or capture CUDA graphs;
- models with hooks, or under `DataParallel` for several devices that the script names; programs that take gradients by
  `torch.autograd.grad`, compute activations again in the backward pass, define functions of autograd or kernels of
  their own;
- forward passes that keep what they compute: `self.features = x`;
- when the script runs: forward passes that ask for strides or make views that the other layout does not have,
  replicas, training in several processes, deterministic algorithms (also of cuDNN alone).

Before:
    model = ResNet().to(device)

After:
    model = ResNet().to(device)
    accel.channels_last(model)
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from autoaccel.analysis import Script
from autoaccel.dataflow.abstract_values import ClassRef, Value
from autoaccel.dataflow.completeness import Incomplete
from autoaccel.dataflow.syntax_index import breadth_first
from autoaccel.edits import Code, Finding, Skipped, Tier
from autoaccel.pytorch import cuda_graphs
from autoaccel.pytorch.data_parallel import replicated_on_any_machine
from autoaccel.pytorch.mentions_in_reach import mention_in_reach
from autoaccel.rewriting.rule import Rule, UnderDeterminism
from autoaccel_codemods.compile.blockers import model_classes, model_parts, of_file, with_makers
from autoaccel_codemods.compile.trained_models import TrainedModel, below_setup, trained_models

RULE = Rule(
    code="AA701",
    name="channels-last",
    tier=Tier.NUMERICS,
    needles=(b"optim", b".backward(", b"train(", b"Trainer(", b"eval(", b"_model()"),
    pattern=r"torch|[Mm]odel|[Nn]et|\.(?:backward|zero_grad|step)\(",
    references=("https://docs.pytorch.org/tutorials/intermediate/memory_format_tutorial.html",),
    addresses=("compute",),
    under_determinism=UnderDeterminism.OFF,
    order=75,
)

_CONVOLUTIONS = frozenset({"torch.nn.Conv2d", "torch.nn.ConvTranspose2d"})
_PICTURED = "torchvision.models."
_OTHER_MODELS = tuple(f"{_PICTURED}{name}" for name in ("detection.", "video.", "quantization.", "optical_flow."))
_LAID_OUT = re.compile(r"^torch\.(channels_last|contiguous_format|preserve_format)$")
_LAYOUT_WORDS = re.compile("channels_last|contiguous_format|preserve_format")
_NOTICING = re.compile(
    r"^torch\.(autograd\.(grad|\w*Function|functional\.\w+)|utils\.(checkpoint\.\w+|cpp_extension\.\w+|dlpack\.\w+)"
    r"|func\.\w+|library\.\w+)$|^(triton|cupy|numba\.cuda|pycuda)(\.|$)"
)
_NOTICING_WORDS = re.compile(
    r"autograd\b.*\b(grad|\w*Function|functional)\b|checkpoint|cpp_extension|dlpack|triton|cupy|numba|pycuda"
    r"|torch\.(func|library)|torch import .*(func|library)"
)
_KEEPING = frozenset({"append", "extend", "add", "update", "insert", "register_buffer"})


@RULE.check
def check(script: Script) -> Iterator[Finding | Skipped]:
    models = trained_models(script)
    given = {script.source(call.args[0]) for call in script.runtime_calls("channels_last") if len(call.args) == 1}
    convolving = [each for each in models if script.source(each.target) not in given and convolves(script, each)]
    if not convolving:
        return
    whole = _of_file(script)
    for model in convolving:
        name = script.source(model.target)
        reason = whole or model.problem or _of_model(model)
        if reason is not None:
            yield RULE.skip(model.made, f"`{name}`: {reason}")
            continue
        edit = below_setup(script, model, models, Code(f"{script.accel}.channels_last({name})"))
        message = f"`{name}` reorders its pictures in memory for every convolution"
        yield RULE.finding(model.made, message, edit, *script.import_runtime)


def convolves(script: Script, model: TrainedModel) -> bool:
    """Whether there are convolutions over two dimensions in a model, as far as one can see."""
    return any(_has_convolutions(script, value) for value in model.values)


def _has_convolutions(script: Script, value: Value) -> bool:
    file = value.script or script
    made = [] if value.node is None else with_makers(file, value.node)
    if any(_mentions_convolutions(*each) for each in made):
        return True
    if value.cls is not None:
        parts = ((each.script, each.node) if isinstance(each, ClassRef) else each for each in model_parts(value.cls))
        return any(_mentions_convolutions(*each) for each in parts)
    if value.name is not None and value.name.startswith(_PICTURED):
        return _is_pictured(value.name)
    calls = ((at, call) for at, node in made for call in breadth_first(node) if isinstance(call, ast.Call))
    inner = (part for at, call in calls for part in at.values(call))
    return any(part.cls is not None and _has_convolutions(file, part) for part in inner)


def _mentions_convolutions(script: Script, node: ast.AST) -> bool:
    mentions = (*script.qualified_names, *script.qualified_attributes)
    return any((name in _CONVOLUTIONS or _is_pictured(name)) and script.inside(part, node) for part, name in mentions)


def _is_pictured(name: str) -> bool:
    """Whether a model of torchvision's is for pictures."""
    return name.startswith(_PICTURED) and not name.startswith(_OTHER_MODELS)


def _of_file(script: Script) -> str | None:
    """Why no model of a file is to be laid out otherwise."""
    related = script.project.related(script)
    try:
        if (reason := of_file(script)) is not None:
            return reason
        if mention_in_reach(related, _LAID_OUT, _LAYOUT_WORDS) is not None:
            return "the script chooses layouts in memory itself"
        if (mention := mention_in_reach(related, _NOTICING, _NOTICING_WORDS)) is not None:
            where, node = mention
            return f"`{where.source(node)}` may see how its tensors lie in memory"
        if cuda_graphs.captures(script):
            return cuda_graphs.REASON
        if replicated_on_any_machine(related) is not None:
            return "DataParallel copies the model to every device at every step"
    except Incomplete as incomplete:
        return str(incomplete)
    return None


def _of_model(model: TrainedModel) -> str | None:
    """Why a model is not to be laid out otherwise."""
    for value in model.values:
        if value.cls is None:
            if value.name is None:
                return "what it is made of cannot be seen"
            continue
        for cls, method in _forward_methods(value.cls):
            if _keeps(method):
                return f"`{cls.name}.{method.name}` keeps what it computes"
    return None


def _forward_methods(model: ClassRef) -> Iterator[tuple[ast.ClassDef, ast.FunctionDef]]:
    """The forward methods of a model and its parts, and all others that have a name which such a method mentions."""
    methods = [
        (ref.node, part) for ref in model_classes(model) for part in ref.node.body if isinstance(part, ast.FunctionDef)
    ]
    pending, reached = ["forward"], {"forward"}
    while pending:
        name = pending.pop()
        for cls, method in methods:
            if method.name == name:
                yield cls, method
                mentioned = {part.attr for part in breadth_first(method) if isinstance(part, ast.Attribute)}
                pending += sorted(mentioned - reached)
                reached |= mentioned


def _keeps(method: ast.FunctionDef) -> bool:
    """Whether a method puts something into an attribute, or into what an attribute holds."""
    for part in breadth_first(method):
        match part:
            case ast.Attribute(ctx=ast.Store()) | ast.Subscript(value=ast.Attribute(), ctx=ast.Store()):
                return True
            case ast.Call(func=ast.Attribute(value=ast.Attribute(value=ast.Name(id="self")), attr=name)):
                if name in _KEEPING:
                    return True
    return False
