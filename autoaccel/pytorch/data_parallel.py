"""Models that `nn.DataParallel` copies to every device at every step, and runs there in threads of its own.

Those threads open autocast again without its precision: replicas compute in float16, whatever the region around them
says, and their gradients are not scaled. Compiled code is copied with the model and holds the first replica's weights.
(https://github.com/pytorch/pytorch/blob/main/torch/nn/parallel/parallel_apply.py)
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable

from autoaccel.analysis.script import Script
from autoaccel.dataflow.abstract_values import Value
from autoaccel.pytorch.mentions_in_reach import mention_in_reach, mentions_in_reach
from autoaccel.pytorch.separate_models import stays_separate

# Other libraries have theirs: `torch_geometric.nn.DataParallel`, `mmcv.parallel.MMDataParallel`.
_REPLICATES = re.compile(
    r"(^|\.)(?!\w*(Distributed|Sharded))\w*DataParallel$|^torch\.nn\.parallel\.(\w+\.)?(data_parallel|parallel_apply)$"
)
_MENTIONED = re.compile("DataParallel|data_parallel|parallel_apply")


def replicated(scripts: Iterable[Script]) -> tuple[Script, ast.AST] | None:
    """Where code of these files, or what it calls in others, has a model replicated."""
    return mention_in_reach(scripts, _REPLICATES, _MENTIONED)


def may_be_replicated(scripts: Iterable[Script], model: Iterable[Value]) -> bool:
    """Whether a model with these constructors, or a part of it, may be replicated: not where every one that is, and the
    model itself, stays a model of its own."""
    replicating = [*mentions_in_reach(scripts, _REPLICATES, _MENTIONED)]
    if not replicating:
        return False
    made = [(value.script, value.node) for value in model]
    made += [(script, script.call_of(mention)) for script, mention in replicating]
    return not all(
        script is not None and isinstance(node, ast.Call) and stays_separate(script, node) for script, node in made
    )
