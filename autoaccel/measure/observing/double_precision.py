"""Everything in float64: torch's default type, what loaders give, what modules are given.

So what several processes round otherwise stays far below what a mistake makes.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map_only
from torch.utils.data.dataloader import _BaseDataLoaderIter

from autoaccel.measure.observing.hooks import replacing


def install() -> None:
    """From here on, in this process and in those that are forked from it."""
    torch.set_default_dtype(torch.float64)
    Tensor.float = Tensor.double  # type: ignore[method-assign]
    torch.FloatTensor = torch.DoubleTensor  # type: ignore[misc, assignment]
    nn.modules.module.register_module_forward_pre_hook(lambda _, arguments: _doubled(arguments))

    @replacing(_BaseDataLoaderIter, "__next__")
    def following(plain: Any, iterator: Any) -> Any:
        return _doubled(plain(iterator))


def _doubled(value: Any) -> Any:
    return tree_map_only(Tensor, lambda each: each.double() if each.dtype == torch.float32 else each, value)
