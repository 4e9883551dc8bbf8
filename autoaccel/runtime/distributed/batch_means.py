"""Means over the global batch, of which each rank has its rows: `F.cross_entropy` and its like, and `x.mean()`.

A mean over all elements is a sum over a number. Both are added up over the ranks, so that parts of any size, class
weights and elements that are left out (`ignore_index`) count as they do in one process. A mean of what every rank has
alike comes out as it was.
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable
from typing import Any, Final

import torch
from torch.nn import functional

from . import batch_part
from .shares import sum_over_ranks

Loss = Callable[..., torch.Tensor]

BY_ELEMENT: Final = ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss")
BY_ELEMENT_WEIGHTED: Final = ("binary_cross_entropy", "binary_cross_entropy_with_logits")
BY_CLASS: Final = ("cross_entropy", "nll_loss")
LOSSES: Final[dict[str, Loss]] = {
    name: getattr(functional, name) for name in (*BY_ELEMENT, *BY_ELEMENT_WEIGHTED, *BY_CLASS)
}
"""torch's own, by name."""

_signatures: Final = {name: inspect.signature(loss) for name, loss in LOSSES.items()}


@functools.cache
def install() -> None:
    """Replace the losses and means of torch that models call; at the second call there is nothing to do."""
    for name in LOSSES:
        setattr(functional, name, _in_models(name))
    owners: tuple[Any, ...] = torch, torch.Tensor
    for owner in owners:
        owner.mean = _mean_in_models(owner.mean)


def arguments(name: str, args: Any, kwargs: Any) -> dict[str, Any] | None:
    """The named arguments of a loss that is a mean or a sum over elements, or over rows of classes; None where it is
    something else, or a mean by weights of its own."""
    try:
        given = _signatures[name].bind(*args, **kwargs).arguments
    except TypeError:
        return None  # torch's own says what is wrong
    if given.pop("size_average", None) is not None or given.pop("reduce", None) is not None:
        return None
    is_other = given["input"].dim() < 2 if name in BY_CLASS else name in BY_ELEMENT and given.get("weight") is not None
    return None if is_other or given.get("reduction", "mean") not in ("mean", "sum") else given


def is_mean(given: dict[str, Any]) -> bool:
    """Whether a loss is a mean, and no sum."""
    return bool(given.get("reduction", "mean") == "mean")


def over_ranks(name: str, given: dict[str, Any]) -> torch.Tensor:
    """The loss of the global batch.

    Args:
        given: What `arguments` gave, of this rank's rows.

    Returns:
        A tensor without dimensions, the same on all ranks.
    """
    wide = {key: each.float() if _is_half(each) else each for key, each in given.items()}
    total = LOSSES[name](**{**wide, "reduction": "sum"})
    loss = _quotient(total, _number(name, given)) if is_mean(given) else sum_over_ranks(total)
    values = given["input"]
    return loss.to(values.dtype) if _is_half(values) and not torch.is_autocast_enabled(values.device.type) else loss


def _is_half(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.dtype in (torch.float16, torch.bfloat16)


def _number(name: str, given: dict[str, Any]) -> Any:
    """By what torch divides the sum."""
    values, target = given["input"], given["target"]
    if name not in BY_CLASS:
        return math.prod(torch.broadcast_shapes(values.shape, target.shape))  # type: ignore[no-untyped-call]
    if target.is_floating_point():
        return values.numel() / values.shape[1]
    counts = target != given.get("ignore_index", -100)
    weight = given.get("weight")
    return counts.sum() if weight is None else weight[target[counts]].sum()


def _quotient(total: torch.Tensor, number: Any) -> torch.Tensor:
    divisor = torch.as_tensor(number, dtype=total.dtype, device=total.device)
    sums = sum_over_ranks(torch.stack((total, divisor)))
    return sums[0] / sums[1]


def _in_models(name: str) -> Loss:
    original = LOSSES[name]

    @functools.wraps(original)
    def loss(*args: Any, **kwargs: Any) -> torch.Tensor:
        view = batch_part.current()
        if view is None or (given := arguments(name, args, kwargs)) is None:
            return original(*args, **kwargs)
        return over_ranks(name, given) if is_mean(given) and view.meets_at_mean() else original(*args, **kwargs)

    return loss


def _mean_in_models(original: Loss) -> Loss:
    @functools.wraps(original)
    def mean(input: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:  # noqa: A002 - torch's name
        view = batch_part.current()
        of_all = not args and not kwargs and input.is_floating_point()
        if view is None or not of_all or not view.meets_at_mean():
            return original(input, *args, **kwargs)
        exact = input.float() if _is_half(input) else input
        return _quotient(exact.sum(), input.numel()).to(input.dtype)

    return mean
