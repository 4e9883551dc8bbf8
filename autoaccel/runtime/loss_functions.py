"""Binary cross-entropy of many probabilities at once, on a CPU.

torch computes it there by two logarithms of the C library for each element, one element after the other (torch 2.13:
`aten/src/ATen/native/Loss.cpp`), although its own logarithms take 16 at a time. What is computed here by the latter
differs by rounding in the last digits of the loss. The gradients come from torch's own kernel, and are the same bit
for bit: they do not depend on the loss's value.
"""

from __future__ import annotations

import math
from typing import Any, Final

import torch
from torch import Tensor, nn
from torch.nn import _reduction, functional

from .environment import disabled
from .execution_mode import is_intercepted, is_traced
from .in_place_call import FunctionCall

_FEWEST: Final = 16_384
"""Elements from which calling seven kernels takes less time than calling one."""
_REDUCTIONS: Final = {"none": 0, "mean": 1, "sum": 2}
_LEAST_LOGARITHM: Final = -100.0


def binary_cross_entropy(
    input: Tensor,  # noqa: A002 - torch's name for it
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """`torch.nn.functional.binary_cross_entropy`, whose arguments, results and errors it has.

    Args:
        input: Probabilities, from 0 to 1, of any shape.
        target: What they should be, in the same shape.
        weight: Factors of the elements; with them it is torch's own function, as with few elements, other devices and
            other dtypes than float32.
        size_average: Deprecated, see `reduction`.
        reduce: Deprecated, see `reduction`.
        reduction: "mean", "sum" or "none".
    """
    if _is_taken(input, target, weight):
        if size_average is not None or reduce is not None:  # torch warns of them as if it had been asked itself
            number = _reduction.legacy_get_enum(size_average, reduce)
            reduction = next(name for name, each in _REDUCTIONS.items() if each == number)
            size_average = reduce = None
        if reduction in ("mean", "sum"):
            loss: Tensor = BinaryCrossEntropy.apply(input, target, reduction)  # type: ignore[no-untyped-call]
            if math.isfinite(loss.item()) and _are_shares(target):  # else torch may refuse them
                return loss
    return functional.binary_cross_entropy(input, target, weight, size_average, reduce, reduction)


def BCELoss(  # noqa: N802 - torch's name for it
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> nn.BCELoss:
    """An object of `torch.nn.BCELoss` that calls the function above; copies and pickles of it are torch's.

    Args:
        weight: As that of `binary_cross_entropy`, like all others.
        size_average: Deprecated.
        reduce: Deprecated.
        reduction: "mean", "sum" or "none".
    """
    loss = nn.BCELoss(weight, size_average, reduce, reduction)
    FunctionCall(loss, _forward)
    return loss


def _forward(loss: nn.BCELoss, input: Tensor, target: Tensor) -> Tensor:  # noqa: A002 - torch's name for it
    return binary_cross_entropy(input, target, weight=loss.weight, reduction=loss.reduction)


def _is_taken(probabilities: Any, target: Any, weight: Any) -> bool:
    """Whether the arguments are plain tensors of many numbers on a CPU, and nothing looks on."""
    return (
        weight is None
        and all(
            type(each) is Tensor
            and each.dtype is torch.float32
            and each.device.type == "cpu"
            and each.layout is torch.strided
            for each in (probabilities, target)
        )
        and probabilities.shape == target.shape
        and probabilities.numel() >= _FEWEST
        and not target.requires_grad
        and not is_traced()
        and not is_intercepted()
        and not (disabled("binary_cross_entropy") or disabled("fused"))
    )


def _are_shares(target: Tensor) -> bool:
    """Whether all numbers are from 0 to 1. Of the probabilities the loss tells: other ones have no logarithms."""
    least, most = torch.aminmax(target)
    return least.item() >= 0.0 and most.item() <= 1.0


class BinaryCrossEntropy(torch.autograd.Function):
    """The loss by vectorised logarithms, its gradient by torch's kernel, which can be differentiated again."""

    @staticmethod
    def forward(ctx: Any, probabilities: Tensor, target: Tensor, reduction: str) -> Tensor:
        """The sum, or the mean, of `-(target * log(p) + (1 - target) * log(1 - p))`, logarithms being at least -100."""
        ctx.save_for_backward(probabilities, target)
        ctx.reduction = _REDUCTIONS[reduction]
        of_true = probabilities.log().clamp_(min=_LEAST_LOGARITHM)
        of_false = probabilities.neg().log1p_().clamp_(min=_LEAST_LOGARITHM)
        losses = target.sub(1.0).mul_(of_false).addcmul_(target, of_true, value=-1.0)
        return losses.sum() if reduction == "sum" else losses.mean()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        """What torch's own function gives for the same gradient of the loss."""
        probabilities, target = ctx.saved_tensors
        kernel = torch.ops.aten.binary_cross_entropy_backward
        return kernel(gradients[0], probabilities, target, None, ctx.reduction), None, None


# The name that `print(loss)` shows, as of torch's own function.
BinaryCrossEntropy._backward_cls.__name__ = "BinaryCrossEntropyBackward0"  # noqa: SLF001
