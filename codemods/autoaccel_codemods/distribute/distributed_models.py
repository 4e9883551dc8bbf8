"""Which models of a program are distributed, and why a program is left alone."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Final

from autoaccel.analysis.script import Script
from autoaccel.dataflow.abstract_values import Kind
from autoaccel.dataflow.call_arguments import given_as
from autoaccel.dataflow.completeness import Incomplete
from autoaccel.dataflow.query import once
from autoaccel.dataflow.syntax_index import is_constant
from autoaccel.edits import Code, Edit, Finding, InsertAfter, Skipped
from autoaccel.pytorch import cuda_graphs, data_parallel
from autoaccel.pytorch.gradients import backward_calls
from autoaccel.pytorch.loader_loops import loader_loops
from autoaccel.pytorch.mentions_in_reach import mention_in_reach
from autoaccel.rewriting.rule import Rule
from autoaccel_codemods.captured_step.problems import DeclinedError
from autoaccel_codemods.compile.trained_models import TrainedModel, trained_models
from autoaccel_codemods.compile.training_forwards import training_forwards
from autoaccel_codemods.distribute import clock_conditions, device_join, file_effects, sharded_use

_VERB: Final = "distribute"
_SEVERAL: Final = re.compile(
    r"^torch\.distributed\.(?!is_available$)|\.DistributedDataParallel$|\.Distributed\w*Sampler$|^torch_xla\."
    r"|^horovod\.|^(torch\.)?multiprocessing\.(spawn|Process|Pool|get_context)"
)
_SEVERAL_TEXT: Final = re.compile(r"distributed|Distributed|multiprocessing|horovod|torch_xla")
_DATA_PARALLEL: Final = "torch.nn.DataParallel"
_REPLICATION: Final = re.compile(
    r"^(?!torch\.nn\.DataParallel$)\S+\.(\w*DataParallel\w*|data_parallel|parallel_apply|replicate)$"
)
_REPLICATION_TEXT: Final = re.compile(r"DataParallel|data_parallel|parallel_apply|replicate")
_SPARSE: Final = ("torch.nn.Embedding", "torch.nn.EmbeddingBag", "torch.nn.functional.embedding")
_COMPILES: Final = frozenset({"torch.compile", "torch.jit.script", "torch.jit.trace"})
_RESUMED: Final = "torch.utils.checkpoint.checkpoint"


def findings(rule: Rule, script: Script, *, replicated: bool, sharded: bool = False) -> Iterator[Finding | Skipped]:
    """What a rule says of a file: of one that makes models at the first of them, of others where their first edit is.

    Args:
        rule: AA801 for programs without `DataParallel`, AA802 for those with it.
        script: Any file of the program.
        replicated: Which of both it is.
        sharded: Whether the parameters are spread over the ranks, too.
    """
    models = [each for each in trained_models(script) if not _is_distributed(script, each)]
    try:
        reason = _problem(script, models)
        is_replicated = data_parallel.replicated(script.project.related(script)) is not None
        if is_replicated is not replicated and not sharded:
            return
        if reason is None and sharded:
            reason = "`DataParallel` keeps whole parameters" if is_replicated else sharded_use.problem(script, models)
        edits = list(_edits(script, models, sharded=sharded)) if reason is None else []
    except (DeclinedError, Incomplete) as problem:
        reason, edits = str(problem), []
    if reason is not None and models:
        yield rule.skip(models[0].made, reason)
    elif edits:
        at = models[0].made if models else next(each for each in map(_place, edits) if each is not None)
        message = f"`{script.source(models[0].target)}` is trained by one process" if models else "each process does it"
        yield rule.finding(at, message, *edits, *script.import_runtime)


def _edits(script: Script, models: list[TrainedModel], *, sharded: bool) -> Iterator[Edit]:
    if not models and not _is_part(script):
        return
    yield from file_effects.edits(script)
    yield from clock_conditions.edits(script)
    inserted = [InsertAfter(each.ready, _call(script, each, sharded=sharded)) for each in models]
    yield from device_join.edits(script, models)
    yield from inserted


def _replicas(script: Script, outer: ast.AST) -> list[ast.Call]:
    """Calls of `DataParallel`."""
    return [call for call in script.within(outer, ast.Call) if script.qualname(call.func) == _DATA_PARALLEL]


def _call(script: Script, model: TrainedModel, *, sharded: bool) -> Code:
    options = ", shard=True" if sharded else ""
    return Code(f"{script.accel}.{_VERB}({script.source(model.target)}{options})")


def _place(edit: Edit) -> ast.AST | None:
    """Where an edit is made."""
    return getattr(edit, "node", None) or getattr(edit, "statement", None) or getattr(edit, "first", None)


def _is_distributed(script: Script, model: TrainedModel) -> bool:
    name = script.source(model.target)
    return any(script.source(call.args[0]) == name for call in script.find(ast.Call) if _distributes(script, call))


def _distributes(script: Script, call: ast.Call) -> bool:
    return script.runtime_name(call.func) == _VERB and bool(call.args)


def _is_part(script: Script) -> bool:
    """Whether a file without models belongs to a program that is distributed, or can be."""
    return any(
        any(_distributes(other, call) for call in other.find(ast.Call)) or _can_be_distributed(other)
        for other in script.project.related(script)
        if other is not script
    )


def _can_be_distributed(script: Script) -> bool:
    models = list(trained_models(script))
    try:
        return bool(models) and _problem(script, models) is None
    except (DeclinedError, Incomplete):
        return False


def _problem(script: Script, models: list[TrainedModel]) -> str | None:
    """Why a file is left alone. Raises `DeclinedError` and `Incomplete`."""
    if (reason := of_program(script)) is not None:
        return reason
    for each in models:
        if (reason := _of_model(script, each)) is not None:
            return f"`{script.source(each.target)}`: {reason}"
    for other in script.project.related(script):
        if other is not script:
            device_join.refuse(other)
            file_effects.edits(other)
    return None


@once
def of_program(script: Script) -> str | None:
    """Why a program cannot be distributed, whatever its models are. Raises `Incomplete`."""
    related = script.project.related(script)
    if names := sorted({name for each in related for name in each.frameworks}):
        return f"{', '.join(names)} distributes it in its own way"
    if (found := mention_in_reach(related, _SEVERAL, _SEVERAL_TEXT)) is not None:
        return f"it is distributed already: `{found[0].source(found[1])}`{_line(script, *found)}"
    if (found := mention_in_reach(related, _REPLICATION, _REPLICATION_TEXT)) is not None:
        return f"`{found[0].source(found[1])}`{_line(script, *found)} spreads a batch over devices by itself"
    if cuda_graphs.captures(script):
        return cuda_graphs.REASON
    for each in related:
        if (part := _unseen_by_reducer(each)) is not None:
            return f"`{each.source(part)}`{_line(script, each, part)}: the reducer does not see these gradients"
        for call in _replicas(each, each.tree):
            if _is_of_one_device(call):
                return f"`{each.source(call)}`{_line(script, each, call)} names its device by its number"
        for call in each.find(ast.Call):
            if isinstance(call.func, ast.Name) and call.func.id == "input" and not each.definitions(call.func):
                return f"it asks its user{_line(script, each, call)}"
            if each.qualname(call.func) in _COMPILES:
                return f"the script compiles{_line(script, each, call)}, and compiled code is not shared by processes"
            if (each.qualname(call.func) or "").startswith("torch.nn.Lazy"):
                return f"the layer{_line(script, each, call)} gets its parameters at the first call"
    if not any(_has_loader(each) or _has_fixed_batch(each) for each in related):
        return "nothing shows that it trains on batches: of a loader, or made before its loop"
    return None


def _is_of_one_device(call: ast.Call) -> bool:
    """Whether a `DataParallel` moves its model to a device that it is told."""
    given = given_as(call, "device_ids") or (call.args[1] if len(call.args) > 1 else None)
    return isinstance(given, ast.List | ast.Tuple) and len(given.elts) == 1


def _has_loader(script: Script) -> bool:
    """Whether a file makes a loader, or surely loops over one, or over batches that the runtime hands out."""
    loops = any(loop.known for loop in loader_loops(script)) or any(True for _ in script.runtime_calls("prefetch"))
    return loops or any(script.kind(call) is Kind.LOADER for call in script.find(ast.Call))


def _has_fixed_batch(script: Script) -> bool:
    """Whether a file trains on tensors that it has made before the loop, the same at each step."""
    return any(
        isinstance(each, ast.Name) and _is_made_before(file, each, call)
        for file, call, _ in training_forwards(script)
        for each in call.args
    )


def _is_made_before(script: Script, name: ast.Name, call: ast.Call) -> bool:
    definitions = script.definitions(name)
    is_tensor = script.kind(name) in (Kind.TENSOR, Kind.BATCH)
    return is_tensor and bool(script.loops(call)) and not any(map(script.loops, (each.node for each in definitions)))


def _line(script: Script, other: Script, node: ast.AST) -> str:
    """Where something is, for a sentence."""
    file = "" if other is script or other.path is None else f" of {other.path.name}"
    return f" in line {getattr(node, 'lineno', 1)}{file}"


_WHOLE_MODELS = re.compile(
    r"\[(\w+) for \1 in (?:[\w.]+\.parameters\(\)|[\w.]*chain\((?:[\w.]+\.parameters\(\)[,\s]*)+\))"
    r" if \1\.requires_grad\]"
)
"""`[p for p in generator.parameters() if p.requires_grad]`, as AA606 writes it."""


def _unseen_by_reducer(script: Script) -> ast.AST | None:
    """What makes gradients of parameters that nobody averages."""
    for call in backward_calls(script, script.tree):
        for each in call.keywords:
            if each.arg == "create_graph" and not is_constant(each.value, False):
                return call
            if each.arg == "inputs" and not _WHOLE_MODELS.fullmatch(script.source(each.value)):
                return call
    for call in script.calls(*_SPARSE):
        if any(each.arg == "sparse" and not is_constant(each.value, False) for each in call.keywords):
            return call
    for call in script.calls(_RESUMED):
        if not any(each.arg == "use_reentrant" and is_constant(each.value, False) for each in call.keywords):
            return call
    for call in script.syntax_index.calls_named("register_hook", "register_post_accumulate_grad_hook"):
        if isinstance(call.func, ast.Attribute) and script.kind(call.func.value) is not Kind.TENSOR:
            return call
    return None


def _of_model(script: Script, model: TrainedModel) -> str | None:
    """Why a model cannot be distributed."""
    if model.problem is not None and model.problem != "it runs a single time":
        return model.problem
    if not model.values or any(each.kind not in (Kind.MODULE, Kind.NONE) for each in script.values(model.target)):
        return "nothing shows that it is a module"
    return None
