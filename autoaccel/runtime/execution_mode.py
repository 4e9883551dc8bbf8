"""In which situation of the program a call is made: what else there is that has to agree, or is looking on."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Final

import torch

_graph_task: Final[Callable[[], int] | None] = getattr(torch._C, "_current_graph_task_id", None)  # noqa: SLF001


def is_distributed() -> bool:
    """Whether other processes train with this one: they wait for it, so all have to do the same in the same step."""
    if os.environ.get("WORLD_SIZE", "1").strip() not in ("", "1"):
        return True
    return torch.distributed.is_available() and torch.distributed.is_initialized()


def in_backward() -> bool:
    """Whether this thread is in the middle of a backward pass, where checkpoints compute forward passes again."""
    return _graph_task is not None and _graph_task() != -1


def is_traced() -> bool:
    """Whether this call is traced or transformed: by a compiled caller, export, jit.trace, torch.func, anomaly mode."""
    if torch.compiler.is_compiling():
        return True
    return (
        torch._C._get_tracing_state() is not None  # noqa: SLF001
        or torch._C._functorch.peek_interpreter_stack() is not None  # noqa: SLF001
        or torch.is_anomaly_enabled()
    )


def is_intercepted() -> bool:
    """Whether something stands between this thread and torch's operations: a default device, a mode of the script's.

    Yes where a torch that names these otherwise does not tell.
    """
    try:
        return bool(torch._C._len_torch_function_stack() or torch._C._len_torch_dispatch_stack())  # noqa: SLF001
    except AttributeError:
        return True
