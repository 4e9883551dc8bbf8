"""What the program holds at this moment: compiled code, networks, tensors."""

from __future__ import annotations

import gc
import sys
from typing import Any

import torch

from .. import replicas
from ..environment import setting


def is_anything_compiled() -> bool:
    """Whether anything in this program is compiled, or will be at its first call."""
    if setting("COMPILE_MODE").lower() not in ("", "off", "none"):
        return True
    backends: Any = getattr(sys.modules.get("torch._dynamo.eval_frame"), "cached_backends", None)
    return isinstance(backends, dict) and any(callable(backend) for backend in backends.values())


def float16_in_any_region(kind: str) -> str:
    """Which networks that Python holds compute in float16 in any region on this kind of device; empty for none.

    (https://github.com/pytorch/pytorch/blob/main/aten/src/ATen/cudnn/AutocastRNN.cpp,
    https://github.com/pytorch/pytorch/blob/main/torch/nn/parallel/parallel_apply.py)
    """
    for thing in gc.get_objects():
        if not issubclass(type(thing), torch.nn.Module):
            continue
        if replicas.is_replicated(thing):
            return "DataParallel runs its replicas in float16 in any autocast region"
        if kind == "cuda" and issubclass(type(thing), torch.nn.RNNBase):
            if any(parameter.device.type == kind for parameter in thing.parameters()):
                return "cuDNN's recurrent networks compute in float16 in any autocast region"
    return ""


def any_tensor_of(dtype: torch.dtype) -> bool:
    """Whether Python holds any tensor of this type."""
    kinds: set[Any] = {torch.Tensor}
    todo = [torch.Tensor]
    while todo:
        found: set[Any] = set(type.__subclasses__(todo.pop())) - kinds
        kinds |= found
        todo.extend(found)
    return any(thing.dtype is dtype for thing in gc.get_objects() if type(thing) in kinds)
