"""Why a model must not, or need not, be compiled."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator

from autoaccel.analysis import name_lookups
from autoaccel.analysis.classes import lineage
from autoaccel.analysis.computed_members import behind, lookup
from autoaccel.analysis.literal_flags import is_never_given
from autoaccel.analysis.script import Script
from autoaccel.dataflow.abstract_values import ClassRef, Kind, Value
from autoaccel.dataflow.call_arguments import given_values, unpacks
from autoaccel.dataflow.completeness import ScriptNode
from autoaccel.dataflow.syntax_index import breadth_first, is_constant
from autoaccel.library_models.graph_operations import FORWARD_HOOKS, GRADIENT_HOOKS
from autoaccel.pytorch import host_reads
from autoaccel.pytorch.reachable_code import reachable_code
from autoaccel_codemods.compile.small_modules import is_function, is_small
from autoaccel_codemods.compile.trained_models import TrainedModel

_HOOKS = FORWARD_HOOKS | GRADIENT_HOOKS | {"register_module_full_backward_hook"}
_ELSEWHERE = ("torch.distributed.rpc.", "torch.distributed.fsdp.", "torch.quantization.")
_WHOLE_FILE = {
    "torch.compile": "the script calls `torch.compile` itself",
    "torch.jit.script": "the script uses TorchScript",
    "torch.jit.trace": "the script uses TorchScript",
    "torch.onnx.export": "the script exports its model",
    "torch.export.export": "the script exports its model",
    "torch.autograd.set_detect_anomaly": "anomaly detection does not see into compiled code",
    "torch.autograd.detect_anomaly": "anomaly detection does not see into compiled code",
    "torch.fx.symbolic_trace": "the script traces its model",
}
_DETECTION = "torchvision.models.detection."
_RECURRENT = frozenset({"torch.nn.LSTM", "torch.nn.GRU", "torch.nn.RNN"})
_CACHES = frozenset({"functools.cache", "functools.lru_cache"})
_BESIDE = frozenset({"zip", "enumerate", "reversed"})
_MAKES_PARAMETERS = frozenset({"torch.nn.Parameter", "torch.nn.parameter.Parameter"})
_BREAKS = {
    "item": "its forward pass reads values on the host",
    "tolist": "its forward pass reads values on the host",
    "numpy": "its forward pass leaves torch",
    "cpu": "its forward pass leaves the device",
    "backward": "its forward pass trains",
}
_MODELS = frozenset({Kind.MODULE, Kind.UNKNOWN})
_CHECKPOINTS = frozenset({"checkpoint", "checkpoint_sequential"})
_AVERAGING = re.compile(r"[Bb]atch_?[Nn]orm|InstanceNorm|spectral_norm|\btorchvision\b|\btimm\b|\bhub\b")
_KEEPING_BUFFERS = re.compile(r"register_buffer|\bBuffer\(")
_CHANGING_BUFFERS = re.compile(r"\.[a-z]+_\(|\bself\.\w+(?:\[.*\])?\s*[-+*/]?=")


def of_model(script: Script, model: TrainedModel) -> str | None:
    """Why a model must not, or need not, be compiled; None when nothing speaks against it."""
    names = [*_named(script, model.made.value), *(value.name or "" for value in model.values)]
    if any(f"{name}.".startswith(_DETECTION) for name in names):
        return "its shapes depend on what it detects"
    if any(value.kind not in (Kind.MODULE, Kind.NONE) for value in script.values(model.target)) or not model.values:
        return "nothing shows that it is a module"
    if all(is_small(script, value) for value in model.values):
        return "a single layer has nothing to fuse"
    for value in model.values:
        if is_function(value):
            return "it is a criterion, or another function in the form of a module"
        if (reason := _layer_reason(value.name)) is not None:
            return reason
        if value.cls is None and value.name is None and not isinstance(value.node, ast.Call):  # told by its use alone
            return "what it is made of cannot be seen"
        classes = [each for part in _classes_of(value) for each in model_classes(part)]
        for ref in classes:
            reason = _class_reason(ref.script, ref.node)
            if reason is not None:
                return reason
        if _moves_averages_again(classes) or _is_memory_efficient(value):
            return "what a checkpoint computes again moves its averages again, and in compiled code does not"
    return None


def _classes_of(value: Value) -> list[ClassRef]:
    """The class of a model, or those of the parts that a container is made of: `nn.Sequential(Stem(), Head())`."""
    if value.cls is not None or value.script is None or value.node is None:
        return [] if value.cls is None else [value.cls]
    parts = (part for call in value.script.within(value.node, ast.Call) for part in value.script.values(call))
    return [part.cls for part in parts if part.kind is Kind.MODULE and part.cls is not None]


def _is_memory_efficient(value: Value) -> bool:
    """`torchvision.models.densenet121(memory_efficient=True)`, which uses checkpoints of its own."""
    keywords = value.node.keywords if isinstance(value.node, ast.Call) and value.cls is None else ()
    return any(each.arg == "memory_efficient" and not is_constant(each.value, False) for each in keywords)


def _moves_averages_again(classes: Collection[ClassRef]) -> bool:
    """Whether parts of a model that are computed again in the backward pass may keep averages, or other state: eager
    code moves these twice in each step."""
    files = {ref.script for ref in classes}
    if not any(
        (file.qualname(mention) or "").startswith("torch.utils.checkpoint.")
        for file in files
        for mention in file.syntax_index.mentions(*_CHECKPOINTS, *file.import_aliases(tuple(_CHECKPOINTS)))
    ):
        return False
    texts = [file.text for file in files]
    changing = any(_CHANGING_BUFFERS.search(ref.script.source(each)) for ref in classes for each in _forwards(ref.node))
    return any(map(_AVERAGING.search, texts)) or (changing and any(map(_KEEPING_BUFFERS.search, texts)))


def _forwards(cls: ast.ClassDef) -> Iterator[ast.FunctionDef]:
    """The methods of a class that run when it is there."""
    return (each for each in cls.body if isinstance(each, ast.FunctionDef) and not each.name.startswith("__"))


def _named(script: Script, made: ast.AST | None) -> list[str]:
    """All that a constructor call names: also `detection.__dict__[name](…)`."""
    parts = breadth_first(made.func) if isinstance(made, ast.Call) else ()
    return [script.qualname(part) or "" for part in parts if isinstance(part, ast.Name | ast.Attribute)]


def _layer_reason(name: str | None) -> str | None:
    if name in _RECURRENT:
        return "recurrent layers are fused already"
    if name is not None and name.startswith("torch.nn.Lazy"):
        return "its parameters are made at the first call"
    return "spectral norm works through hooks" if name == "torch.nn.utils.spectral_norm" else None


def model_classes(outer: ClassRef) -> Iterator[ClassRef]:
    """A model's class, its project bases, and the classes of the modules that these are made of."""
    return (each for each in model_parts(outer) if isinstance(each, ClassRef))


def model_parts(outer: ClassRef) -> Iterator[ClassRef | ScriptNode]:
    """The same, and the functions of modules that make parts of it: `conv3x3(64, 64)`."""
    pending, seen = [outer], set[ast.AST]()
    while pending:
        for ref in lineage(pending.pop()):
            if ref.node in seen:
                continue
            seen.add(ref.node)
            yield ref
            for part in with_makers(ref.script, ref.node):
                if part[1] not in seen:
                    seen.add(part[1])
                    yield part
                for call in part[0].syntax_index.by_depth(part[0].within(part[1], ast.Call)):
                    # what a call makes, and what it runs: a part may be given to the constructor
                    for values in (part[0].values(call), part[0].values(call.func)):
                        pending.extend(each.cls for each in values if each.kind is Kind.MODULE and each.cls is not None)


def with_makers(script: Script, node: ast.AST) -> list[ScriptNode]:
    """Code, and the functions of modules that it calls, and these, other than in a forward pass."""
    found: list[ScriptNode] = [(script, node)]
    for at, code in found:  # grows while it is walked
        for call in at.within(code, ast.Call):
            around = at.function(call)
            if not (isinstance(around, ast.FunctionDef) and around.name == "forward"):
                for other, function in at.callees(call):
                    if isinstance(other.parent(function), ast.Module) and (other, function) not in found:
                        found.append((other, function))
    return found


def _class_reason(script: Script, cls: ast.ClassDef) -> str | None:
    for call in script.syntax_index.by_depth(script.within(cls, ast.Call)):
        for name in (script.qualname(call.func), *(value.name for value in script.values(call.func))):
            if (reason := _layer_reason(name)) is not None:
                return reason
        if _may_be_recurrent(script, call):
            return f"`{script.source(call.func)}` may be a recurrent layer, which is fused already"
    for method in cls.body:
        if isinstance(method, ast.FunctionDef) and method.name != "__init__":
            reason = _forward_reason(script, method)
            if reason is not None and (method.name == "forward" or _called_by_forward(cls, method.name)):
                return reason
    return None


def _may_be_recurrent(script: Script, call: ast.Call) -> bool:
    """Whether a layer is made by a name that is not seen, with as many arguments as recurrent ones need at least."""
    found = lookup(behind(script, call.func) or call.func)
    if found is None or script.qualname(found[0]) != "torch.nn" or Kind.UNKNOWN not in script.values(call.func).kinds:
        return False
    return unpacks(call) or len(given_values(call)) > 1


def _called_by_forward(cls: ast.ClassDef, name: str) -> bool:
    forward = next((each for each in cls.body if isinstance(each, ast.FunctionDef) and each.name == "forward"), None)
    return forward is not None and any(
        isinstance(part, ast.Attribute) and part.attr == name for part in breadth_first(forward)
    )


def _forward_reason(script: Script, method: ast.FunctionDef, nested: bool = True) -> str | None:
    """What breaks the graph, compiles anew at every call, or unrolls a loop over the data."""
    switched_off = _switched_off(script, method)
    for part in breadth_first(method):
        if part in switched_off:
            continue
        if nested and isinstance(part, ast.Call) and isinstance(part.func, ast.Name):
            for other, function in script.callees(part):
                if function.name != "forward":
                    reason = _forward_reason(other, function, nested=False)
                    if reason is not None:
                        return reason
        if host_reads.read_by(script, part) is not None:
            return _BREAKS["item"]
        match part:
            case ast.Subscript(ctx=ast.Load()) if host_reads.masks(script, part):
                return "its forward pass picks elements by a mask, so its shapes depend on values"
            case ast.Call(func=ast.Attribute(attr=name)) if name in _BREAKS and script.qualname(part.func) is None:
                if script.kind(part.func) is not Kind.MODULE:  # `self.item(batch)`, a layer of that name
                    return _BREAKS[name]
            case ast.Call() if host_reads.is_shaped_by_values(script, part):
                return f"the shape of `{script.source(part.func)}(…)` in its forward pass depends on values"
            case ast.Call(func=ast.Name(id="print")):
                return "its forward pass prints"
            case ast.Call() if _is_cached(script, part.func):
                return "its forward pass calls a cached function, which compiled code runs at every call"
            case ast.Call() if (script.qualname(part.func) or "").startswith(("random.", "numpy.random.")):
                return "its forward pass draws random numbers in Python"
            case ast.Call() if script.qualname(part.func) in _MAKES_PARAMETERS:
                return "its forward pass makes parameters, so it would be compiled anew each time"
            case ast.Call() if script.qualname(part.func) == "torch.autograd.grad":
                return "its forward pass differentiates"
            case ast.Call() if script.qualname(part.func) == "torch.nn.utils.rnn.pack_padded_sequence":
                return "recurrent layers are fused already"
            case ast.AugAssign(target=ast.Attribute(value=ast.Name(id="self")), value=ast.Constant()):
                return "its forward pass counts its own calls, so it would be compiled anew each time"
            case ast.While():
                return "its forward pass loops while a condition on the data holds"
            case ast.For(iter=iterable) if _over_data(script, iterable):
                return "its forward pass loops over the data"
            case ast.For() if (count := _repeated(script, part)) is not None:
                return f"its forward pass does the same `{script.source(count)}` times"
    return None


def _switched_off(script: Script, method: ast.FunctionDef) -> set[ast.AST]:
    """What a method does only if it is asked to, as no call in sight does: `def forward(self, x, verbose=False)`."""
    return {
        part
        for branch in script.in_scope(method, ast.If)
        if isinstance(branch.test, ast.Name) and _is_never_given(script, branch.test)
        for statement in branch.body
        for part in ast.walk(statement)
    }


def _is_never_given(script: Script, name: ast.Name) -> bool:
    definitions = script.definitions(name)
    falsy = (
        each.how == "param" and isinstance(each.value, ast.Constant) and not each.value.value for each in definitions
    )
    return bool(definitions) and all(falsy) and all(is_never_given(script, each) for each in definitions)


def _is_cached(script: Script, function: ast.expr) -> bool:
    """Whether a function of the project, or a method of the class around, is decorated to remember its results."""
    candidates: list[ast.AST] = []
    if isinstance(function, ast.Name):
        candidates = [definition.node for definition in script.definitions(function)]
        for value in script.values(function):
            candidates += [value.node] if value.node is not None else []
    elif isinstance(function, ast.Attribute):
        cls = script.enclosing_class(function)
        candidates = [each for each in (cls.body if cls else ()) if getattr(each, "name", None) == function.attr]
    return any(
        script.qualname(decorator.func if isinstance(decorator, ast.Call) else decorator) in _CACHES
        for each in candidates
        if isinstance(each, ast.FunctionDef)
        for decorator in each.decorator_list
    )


def _over_data(script: Script, iterable: ast.expr) -> bool:
    """`range(x.size(1))`, `range(len(x))` of a tensor, or a tensor itself, also among others: `zip(x, y)`."""
    if isinstance(iterable, ast.Call) and isinstance(iterable.func, ast.Name) and iterable.func.id == "range":
        for part in breadth_first(iterable):
            if isinstance(part, ast.Attribute) and part.attr in ("size", "shape"):
                return True
            bound = script.definitions(part) if isinstance(part, ast.Name) else ()
            if any((each.how == "param" and each.name != "self") or _from_shape(each.value) for each in bound):
                return True  # `len(self.layers)` is of the model
        return False
    if isinstance(iterable, ast.Call) and isinstance(iterable.func, ast.Name) and iterable.func.id in _BESIDE:
        return any(_over_data(script, each) for each in iterable.args)
    return script.kind(iterable) in (Kind.TENSOR, Kind.BATCH)


def _repeated(script: Script, loop: ast.For) -> ast.expr | None:
    """How often a loop does the same, where that is no number in sight: `for t in range(self.steps)` that takes no part
    of the model by its variable, as `self.layers[i]` is."""
    counted = loop.iter
    match counted:
        case ast.Call(func=ast.Name(id="reversed"), args=[inner]):
            counted = inner
    match loop.target, counted:
        case (
            ast.Name(id=variable),
            ast.Call(func=ast.Name(id="range"), args=[*_, ast.Attribute(value=ast.Name(id="self")) as count]),
        ):
            pass
        case _:
            return None
    calls = (each for statement in loop.body for each in script.within(statement, ast.Call))
    if not any(script.qualname(each.func) is None and script.values(each.func).kinds & _MODELS for each in calls):
        return None
    parts = [part for statement in loop.body for part in breadth_first(statement)]
    return None if any(_takes_part(script, part, variable) for part in parts) else count


def _takes_part(script: Script, part: ast.AST, variable: str) -> bool:
    """`self.layers[i]`, `getattr(self, f"layer{i}")`"""
    match part:
        case ast.Subscript(value=owner, slice=index):
            if script.values(owner).kinds.isdisjoint({Kind.MODULE, Kind.SEQUENCE, Kind.MAPPING}):
                return False
        case ast.Call(func=ast.Name(id="getattr"), args=[_, index, *_]):
            pass
        case _:
            return False
    return any(isinstance(each, ast.Name) and each.id == variable for each in breadth_first(index))


def _from_shape(value: ast.expr | None) -> bool:
    return value is not None and any(
        isinstance(part, ast.Attribute) and part.attr in ("size", "shape") for part in breadth_first(value)
    )


def of_file(script: Script, leaving_out: Collection[str] = ()) -> str | None:
    """What the file does that forbids compiling any of its models, but for calls that are to be taken out."""
    if script.frameworks:
        return f"{', '.join(sorted(script.frameworks))} wraps models in its own way"
    if any(name_lookups.mentions(each, _HOOKS) for each in script.project.related(script)):
        return "hooks do not run inside compiled code, or in another order"
    for call in script.find(ast.Call):
        name = script.qualname(call.func)
        if name in _WHOLE_FILE and name not in leaving_out:
            return _WHOLE_FILE[name]
        if name is not None and name.startswith(_ELSEWHERE):
            return "the model is sharded, remote or quantized"
        if name is None and _calls_member(script, call, "compile"):
            return f"the script calls `{script.source(call.func)}` itself, which may compile a model"
        if name is None and _calls_member(script, call, "share_memory"):
            return "several processes train it, and each would compile it"
    return None


def _calls_member(script: Script, call: ast.Call, member: str) -> bool:
    """Whether a call is of a model's method, by its name; a method of the project's own is one if it leads to one."""
    if not isinstance(call.func, ast.Attribute) or call.func.attr != member:
        return False
    if not name_lookups.is_own_method(script, call.func):
        return True
    return any(
        other.inside(mention, code)
        for other, code in reachable_code(script, [call])
        for mention in name_lookups.mentions(other, {member})
    )
