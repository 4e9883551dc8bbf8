"""Models that `nn.DataParallel` copies to every device at every step, and runs there in threads of its own.

Those threads open autocast again without its precision: replicas compute in float16, whatever the region around them
says, and their gradients are not scaled. Compiled code is copied with the model and holds the first replica's weights.
(https://github.com/pytorch/pytorch/blob/main/torch/nn/parallel/parallel_apply.py)

With a single device, or none, `torch.nn.DataParallel` calls the model itself. How many there are is known when the
script runs: the runtime looks, and leaves replicas in float32, uncompiled, and as they lie in memory.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable

from autoaccel.analysis.classes import instance_kind
from autoaccel.analysis.script import Script
from autoaccel.dataflow.abstract_values import Kind
from autoaccel.dataflow.call_arguments import given_as
from autoaccel.pytorch.mentions_in_reach import mention_in_reach, mentions_in_reach

# Other libraries have theirs: `torch_geometric.nn.DataParallel`, `mmcv.parallel.MMDataParallel`.
_REPLICATES = re.compile(
    r"(^|\.)(?!\w*(Distributed|Sharded))\w*DataParallel$|^torch\.nn\.parallel\.(\w+\.)?(data_parallel|parallel_apply)$"
)
_FUNCTION = re.compile(r"^torch\.nn\.parallel\.(data_parallel\.)?data_parallel$")
_MENTIONED = re.compile("DataParallel|data_parallel|parallel_apply")


def replicated(scripts: Iterable[Script]) -> tuple[Script, ast.AST] | None:
    """Where code of these files, or what it calls in others, has a model replicated."""
    return mention_in_reach(scripts, _REPLICATES, _MENTIONED)


def replicated_on_any_machine(scripts: Iterable[Script]) -> tuple[Script, ast.AST] | None:
    """Where a model is replicated in a way that the runtime does not see to."""
    replicating = mentions_in_reach(scripts, _REPLICATES, _MENTIONED)
    return next((each for each in replicating if not _depends_on_the_machine(*each)), None)


def _depends_on_the_machine(script: Script, mention: ast.expr) -> bool:
    """Whether a mention wraps a model in torch's own DataParallel, for as many devices as there are when it runs, or
    calls `data_parallel` in a branch of a forward pass: `if self.ngpu > 1: …`."""
    call = script.call_of(mention)
    name = script.qualname(mention) or ""
    if call is None or script.loops(call) or _names_several(script, call):
        return False
    if _FUNCTION.search(name):
        branches = (each for each in script.ancestors(call) if isinstance(each, ast.If))
        return _is_seen_when_run(script, call) and any(True for _ in branches)
    return name == "torch.nn.DataParallel" and not _is_in_model(script, call)  # as a part of another model


def _is_seen_when_run(script: Script, call: ast.Call) -> bool:
    """Whether the runtime finds a call of `data_parallel` in the code of a model's forward pass, by that name."""
    function = script.function(call)
    plain = isinstance(function, ast.FunctionDef) and function.name == "forward" and not function.decorator_list
    return plain and script.source(call.func).endswith("data_parallel") and _is_in_model(script, call)


def _names_several(script: Script, call: ast.Call) -> bool:
    given = given_as(call, "device_ids")
    position = 2 if _FUNCTION.search(script.qualname(call.func) or "") else 1
    match given or (call.args[position] if len(call.args) > position else None):
        case ast.List(elts=devices) | ast.Tuple(elts=devices):
            return len(devices) > 1
        case ast.Call(func=ast.Name(id="range"), args=[ast.Constant(value=int(count))]):
            return count > 1
        case _:
            return False


def _is_in_model(script: Script, call: ast.Call) -> bool:
    classes = (each for each in script.ancestors(call) if isinstance(each, ast.ClassDef))
    return any(instance_kind(script.class_ref(each)) is Kind.MODULE for each in classes)
