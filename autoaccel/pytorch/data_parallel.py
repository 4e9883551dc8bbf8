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
from autoaccel.pytorch.mentions_in_reach import mention_in_reach

# Other libraries have theirs: `torch_geometric.nn.DataParallel`, `mmcv.parallel.MMDataParallel`.
_REPLICATES = re.compile(
    r"(^|\.)(?!\w*(Distributed|Sharded))\w*DataParallel$|^torch\.nn\.parallel\.(\w+\.)?(data_parallel|parallel_apply)$"
)
_MENTIONED = re.compile("DataParallel|data_parallel|parallel_apply")


def replicated(scripts: Iterable[Script]) -> tuple[Script, ast.AST] | None:
    """Where code of these files, or what it calls in others, has a model replicated."""
    return mention_in_reach(scripts, _REPLICATES, _MENTIONED)
