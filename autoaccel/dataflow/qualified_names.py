"""Qualified names: one spelling for everything that can be imported in several ways."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

_EXACT = {
    "torch.autocast": "torch.amp.autocast",
    "torch.GradScaler": "torch.amp.GradScaler",
    "torch.amp.autocast_mode.autocast": "torch.amp.autocast",
    "torch.amp.grad_scaler.GradScaler": "torch.amp.GradScaler",
    "torch.cuda.amp.autocast_mode.autocast": "torch.cuda.amp.autocast",
    "torch.cuda.amp.grad_scaler.GradScaler": "torch.cuda.amp.GradScaler",
    "torch.nn.parallel.DataParallel": "torch.nn.DataParallel",
    "torch.autograd.variable.Variable": "torch.autograd.Variable",
    "torch.autograd.no_grad": "torch.no_grad",
    "torch.autograd.enable_grad": "torch.enable_grad",
    "torch.autograd.set_grad_enabled": "torch.set_grad_enabled",
    "torch.autograd.inference_mode": "torch.inference_mode",
    "torch.nn.utils.clip_grad_norm": "torch.nn.utils.clip_grad_norm_",
    "torch.nn.functional.sigmoid": "torch.sigmoid",
    "torch.nn.functional.tanh": "torch.tanh",
    "torch.utils.data.dataset.random_split": "torch.utils.data.random_split",
    # What the runtime does in torch's place, with the same arguments and results.
    **{
        f"{runtime}.{name}": f"{of_torch}.{name}"
        for runtime in ("autoaccel.runtime", "autoaccel_runtime")
        for of_torch, names in (
            ("torch.nn.functional", ("binary_cross_entropy", "max_pool2d")),
            ("torch.nn", ("BCELoss", "MaxPool2d")),
        )
        for name in names
    },
}
_MOVED = (
    (re.compile(r"^torch\.utils\.data\.(?:dataloader|dataset|sampler|distributed)\.(\w+)$"), r"torch.utils.data.\1"),
    (re.compile(r"^torch\.utils\.data\._utils\.(?:collate|worker)\.(\w+)$"), r"torch.utils.data.\1"),
    (re.compile(r"^torch\.optim\.(?!lr_scheduler\b|swa_utils\b)[a-z_0-9]+\.([A-Z]\w*)$"), r"torch.optim.\1"),
    (re.compile(r"^torch\.nn\.modules\.(?:\w+\.)?(\w+)$"), r"torch.nn.\1"),
    (re.compile(r"^torch\.nn\.utils\.(?:clip_grad|convert_parameters|fusion|init)\.(\w+)$"), r"torch.nn.utils.\1"),
    (re.compile(r"^torch\.nn\.parallel\.(?:distributed|data_parallel)\.(\w+)$"), r"torch.nn.parallel.\1"),
    (re.compile(r"^torch\.nn\.parameter\.(\w+)$"), r"torch.nn.\1"),
    (re.compile(r"^torch\.autograd\.grad_mode\.(\w+)$"), r"torch.\1"),
    (re.compile(r"^torch\.autograd\.(?:function|anomaly_mode|gradcheck|variable)\.(\w+)$"), r"torch.autograd.\1"),
    (re.compile(r"^torch\.(cuda\.)?amp\.(?:autocast_mode|grad_scaler|common)\.(\w+)$"), r"torch.\1amp.\2"),
    (re.compile(r"^torch\.(?:functional|random|serialization)\.(\w+)$"), r"torch.\1"),
    (re.compile(r"^torch\.distributions\.(?!constraints|transforms|utils)\w+\.(\w+)$"), r"torch.distributions.\1"),
    (re.compile(r"^torchvision\.(datasets|models|transforms)\.[a-z_0-9]+\.(\w+)$"), r"torchvision.\1.\2"),
)

SAME_FUNCTION: Final = frozenset({"autoaccel.runtime.first", "autoaccel_runtime.first"})
"""What hands back a function that does what the one that it is given does."""


@lru_cache(maxsize=10_000)
def canonical(name: str) -> str:
    """The public spelling of a qualified name: `torch.utils.data.dataloader.DataLoader` is
    `torch.utils.data.DataLoader`."""
    if name in _EXACT:
        return _EXACT[name]
    if not name.startswith("torch"):
        return name
    for pattern, replacement in _MOVED:
        moved, count = pattern.subn(replacement, name)
        if count:
            return _EXACT.get(moved, moved)
    return name
