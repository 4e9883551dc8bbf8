"""Models that `nn.DataParallel` copies to every device at every step, and runs there in threads of its own.

Those threads open autocast again without its precision: replicas compute in float16, whatever the region around them
says, and their gradients are not scaled. Compiled code is copied with the model and holds the first replica's weights.
(https://github.com/pytorch/pytorch/blob/main/torch/nn/parallel/parallel_apply.py)

On one device `nn.DataParallel` only calls its module. On several the runtime finds it: regions stay in float32, and
replicas run eagerly. So models that are wrapped before they are trained need not be left alone.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable

from autoaccel.analysis.classes import instance_kind
from autoaccel.analysis.script import Script
from autoaccel.dataflow.abstract_values import Kind
from autoaccel.dataflow.query import once
from autoaccel.pytorch.gradients import asks_for_gradients, calls_training
from autoaccel.pytorch.mentions_in_reach import Mention, mention_in_reach

WRAPPER = "torch.nn.DataParallel"
# Other libraries have theirs: `torch_geometric.nn.DataParallel`, `mmcv.parallel.MMDataParallel`.
_REPLICATES = re.compile(
    r"(^|\.)(?!\w*(Distributed|Sharded))\w*DataParallel$|^torch\.nn\.parallel\.(\w+\.)?(data_parallel|parallel_apply)$"
)
_MENTIONED = re.compile("DataParallel|data_parallel|parallel_apply")


def replicated(scripts: Iterable[Script]) -> tuple[Script, ast.AST] | None:
    """Where code of these files, or what it calls in others, has a model replicated."""
    return mention_in_reach(scripts, _REPLICATES, _MENTIONED)


def replicated_unnoticed(scripts: Iterable[Script]) -> tuple[Script, ast.AST] | None:
    """The same, but where a model is put into `nn.DataParallel` before any is trained, which the runtime finds."""
    return mention_in_reach(scripts, _REPLICATES, _MENTIONED, passes=_wraps_before_training)


@once
def _wraps_before_training(script: Script, mention: Mention) -> bool:
    """Whether this is the call of `nn.DataParallel(model)`, outside of models, and nothing that trains stands before it
    or before the calls that lead to it."""
    cls = script.enclosing_class(mention)
    if script.call_of(mention) is None or script.qualname(mention) != WRAPPER:
        return False
    if cls is not None and instance_kind(script.class_ref(cls)) in (Kind.MODULE, Kind.LOSS_FUNCTION):
        return False
    pending: list[tuple[Script, ast.AST]] = [(script, mention)]
    seen: set[ast.AST] = set()
    for file, node in pending:  # grows while it is walked
        function = file.function(node)
        scope = file.tree if function is None else function
        earlier = (each for each in file.in_scope(scope, ast.Call) if _end(each) <= _start(node))
        if any(calls_training(file, each) or asks_for_gradients(file, each) is not None for each in earlier):
            return False
        if function is None or function in seen:
            continue
        seen.add(function)
        callers = file.callers(function)
        if callers.missing is not None:
            return False
        pending.extend(callers)
    return True


def _start(node: ast.AST) -> tuple[int, int]:
    return node.lineno, node.col_offset  # type: ignore[attr-defined]


def _end(node: ast.expr) -> tuple[int, int]:
    return node.end_lineno or node.lineno, node.end_col_offset or node.col_offset
