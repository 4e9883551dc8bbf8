"""Modules that hand their batches to copies of theirs on several devices, which run in threads.

Those threads open autocast again without its precision, so that replicas compute in float16 in any region, and their
gradients are not scaled (https://github.com/pytorch/pytorch/blob/main/torch/nn/parallel/parallel_apply.py). Compiled
code and graphs are of the first device alone.
"""

from __future__ import annotations

import gc
import types

from torch import nn

from . import devices
from .in_memory.function_source import all_codes


def is_replicated(thing: object) -> bool:
    """Whether an object is a `DataParallel` of several devices, or a module that may call `data_parallel` for several.

    With a single device both call their module itself.
    """
    kind = type(thing)
    if issubclass(kind, nn.DataParallel):
        return len(getattr(thing, "device_ids", None) or ()) > 1
    if not issubclass(kind, nn.Module) or _gpus() < 2:
        return False
    code = getattr(kind.forward, "__code__", None)
    return isinstance(code, types.CodeType) and any("data_parallel" in each.co_names for each in all_codes(code))


def _gpus() -> int:
    return int(devices.module_of("cuda").device_count())


def is_anything_replicated() -> bool:
    """Whether any module that Python holds may be."""
    return _gpus() > 1 and any(map(is_replicated, gc.get_objects()))
