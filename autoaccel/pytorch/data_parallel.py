"""Models that `nn.DataParallel` copies to every device at every step, and runs there in threads of its own.

Those threads open autocast again without its precision: replicas compute in float16, whatever the region around them
says, and their gradients are not scaled. Compiled code is copied with the model and holds the first replica's weights.
(https://github.com/pytorch/pytorch/blob/main/torch/nn/parallel/parallel_apply.py)
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from functools import lru_cache
from typing import TYPE_CHECKING

from autoaccel.pytorch.reachable_code import reachable_code

if TYPE_CHECKING:
    from autoaccel.analysis.script import Script

# Other libraries have theirs: `torch_geometric.nn.DataParallel`, `mmcv.parallel.MMDataParallel`.
_REPLICATES = re.compile(
    r"(^|\.)(?!\w*(Distributed|Sharded))\w*DataParallel$|^torch\.nn\.parallel\.(\w+\.)?(data_parallel|parallel_apply)$"
)
_MENTIONED = re.compile("DataParallel|data_parallel|parallel_apply")
_ASKING = frozenset({"isinstance", "issubclass"})


def replicated(scripts: Iterable[Script]) -> tuple[Script, ast.AST] | None:
    """Where code of these files, or what it calls in others, has a model replicated."""
    whole = dict.fromkeys(scripts)
    for script in whole:
        if (mention := _first_mention(script, script.tree)) is not None:
            return script, mention
    if not any(_MENTIONED.search(text) for script in whole for text in script.project.related_texts(script)):
        return None
    seen: set[ast.AST] = set()
    for script in whole:
        functions = (*script.find(ast.FunctionDef), *script.find(ast.AsyncFunctionDef))
        for other, node in reachable_code(script, (script.tree, *functions)):
            if other not in whole and node not in seen:
                seen.add(node)
                if (mention := _first_mention(other, node)) is not None:
                    return other, mention
    return None


def _first_mention(script: Script, node: ast.AST) -> ast.AST | None:
    """The first mention of what replicates, other than in a question or a type."""
    if not _MENTIONED.search(script.text):
        return None
    mentions: list[ast.Name | ast.Attribute] = [*script.within(node, ast.Attribute), *script.within(node, ast.Name)]
    for part in mentions:
        if isinstance(part.ctx, ast.Load) and _replicates(script.qualname(part)) and not _asks(script, part):
            return part
    return None


@lru_cache(maxsize=10_000)
def _replicates(qualified: str | None) -> bool:
    return qualified is not None and _REPLICATES.search(qualified) is not None


def _asks(script: Script, node: ast.AST) -> bool:
    inner = node
    for outer in script.ancestors(node):
        match outer:
            case ast.Call(func=ast.Name(id=name)) if name in _ASKING:
                return True
            case ast.Compare():
                return True
            case ast.AnnAssign(annotation=annotation) | ast.arg(annotation=annotation) if inner is annotation:
                return True
            case ast.FunctionDef(returns=annotation) if inner is annotation:
                return True
            case ast.Tuple() | ast.Attribute() | ast.Subscript() | ast.BinOp(op=ast.BitOr()):
                inner = outer
            case _:
                return False
    return False
