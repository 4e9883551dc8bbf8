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
    """The named arguments of a loss that is a mean over all elements; None where it is something else."""
    try:
        given = _signatures[name].bind(*args, **kwargs).arguments
    except TypeError:
        return None  # torch's own says what is wrong
    asked = given.get("reduction", "mean"), given.pop("size_average", None), given.pop("reduce", None)
    return given if asked == ("mean", None, None) else None


def over_ranks(name: str, given: dict[str, Any]) -> torch.Tensor:
    """The loss of the global batch.

    Args:
        given: What `arguments` gave, of this rank's rows.

    Returns:
        A tensor without dimensions, the same on all ranks.
    """
    total = LOSSES[name](**{**given, "reduction": "sum"})
    return _quotient(total, _number(name, given))


def _number(name: str, given: dict[str, Any]) -> Any:
    """By what torch divides the sum."""
    values, target = given["input"], given["target"]
    if name not in BY_CLASS:
        return math.prod(torch.broadcast_shapes(values.shape, target.shape))  # type: ignore[no-untyped-call]
    if target.is_floating_point():
        return values.numel() / values.shape[1 if values.dim() > 1 else 0]
    counts = target != given.get("ignore_index", -100)
    weight = given.get("weight")
    return counts.sum() if weight is None else weight[target[counts]].sum()


def _quotient(total: torch.Tensor, number: Any) -> torch.Tensor:
    exact = total.float() if total.dtype in (torch.float16, torch.bfloat16) else total
    divisor = torch.as_tensor(number, dtype=exact.dtype, device=exact.device)
    sums = sum_over_ranks(torch.stack((exact, divisor)))
    return (sums[0] / sums[1]).to(total.dtype)


def _in_models(name: str) -> Loss:
    original = LOSSES[name]

    @functools.wraps(original)
    def loss(*args: Any, **kwargs: Any) -> torch.Tensor:
        view = batch_part.current()
        if view is None or (given := arguments(name, args, kwargs)) is None or not view.meets_at_mean():
            return original(*args, **kwargs)
        return over_ranks(name, given)

    return loss


def _mean_in_models(original: Loss) -> Loss:
    @functools.wraps(original)
    def mean(input: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:  # noqa: A002 - torch's name
        view = batch_part.current()
        of_all = not args and not kwargs and input.is_floating_point()
        if view is None or not of_all or not view.meets_at_mean():
            return original(input, *args, **kwargs)
        exact = input.float() if input.dtype in (torch.float16, torch.bfloat16) else input
        return _quotient(exact.sum(), input.numel()).to(input.dtype)

    return mean
