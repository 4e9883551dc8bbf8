"""What of a call's arguments decides which compiled graph fits it, looked at cheaply."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any, Final

import torch

_DEEPEST: Final = 3
_MOST: Final = 32


def signature(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Hashable:
    """Shapes, types and devices of the tensors among the arguments, whether they need gradients, and small constants.

    Numbers count by their type alone: graphs take them as variables after the first change.
    """
    found = tuple([_of(value, 0) for value in args])
    return (found, tuple([(name, _of(value, 0)) for name, value in kwargs.items()])) if kwargs else found


def _of(value: Any, depth: int) -> Hashable:
    if isinstance(value, torch.Tensor):
        return value.shape, value.dtype, value.device, value.requires_grad
    if value is None or isinstance(value, (bool, str)):
        return value
    if depth < _DEEPEST:
        if isinstance(value, (list, tuple)):
            return len(value), tuple([_of(each, depth + 1) for each in value[:_MOST]])
        if isinstance(value, Mapping):
            items = list(value.items())
            return len(items), tuple([(str(name), _of(each, depth + 1)) for name, each in items[:_MOST]])
    return type(value).__qualname__
