"""Scripts that capture CUDA graphs themselves.

While one is captured nothing else may allocate memory on the device or page-lock memory of the host, batches have to
lie where they lay before, and what was compiled cannot be captured as it is: such scripts are tuned, and left alone.
(https://docs.pytorch.org/docs/stable/notes/cuda.html#cuda-graphs)
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from autoaccel.pytorch.mentions_in_reach import mention_in_reach

if TYPE_CHECKING:
    from autoaccel.analysis.script import Script

REASON: Final = "the script captures CUDA graphs itself"
_CAPTURES = re.compile(r"^torch\.cuda\.(graphs\.)?(graph|CUDAGraph|make_graphed_callables)$")
_MENTIONED = re.compile(r"CUDAGraph|make_graphed_callables|\bgraph\b")


def captures(script: Script) -> bool:
    """Whether this file, one that shares its objects, or what these call captures a graph."""
    return mention_in_reach((script,), _CAPTURES, _MENTIONED) is not None
