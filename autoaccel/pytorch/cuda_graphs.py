"""Scripts that capture CUDA graphs themselves.

While one is captured nothing else may allocate memory on the device or page-lock memory of the host, batches have to
lie where they lay before, and what was compiled cannot be captured as it is: such scripts are tuned, and left alone.
(https://docs.pytorch.org/docs/stable/notes/cuda.html#cuda-graphs)
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from typing import Final

from autoaccel.analysis.script import Script
from autoaccel.dataflow.query import once
from autoaccel.pytorch.mentions_in_reach import mention_in_reach

REASON: Final = "the script captures CUDA graphs itself"
_CAPTURES = re.compile(r"^torch\.cuda\.(graphs\.)?(graph|CUDAGraph|make_graphed_callables)$")
_MENTIONED = re.compile(r"CUDAGraph|make_graphed_callables|\.graph\b|cuda\s+import\b")


def captured(scripts: Iterable[Script]) -> tuple[Script, ast.AST] | None:
    """Where code of these files, or what it calls in others, captures a graph."""
    return mention_in_reach(scripts, _CAPTURES, _MENTIONED)


@once
def captures(script: Script) -> bool:
    """Whether the files that share this one's objects, or what they call, capture a graph."""
    return captured(script.project.related(script)) is not None
