"""Early stopping: when a loop over epochs has brought nothing better for long, and the weights of its best epoch."""

from __future__ import annotations

import copy
import math
from typing import Any, Final

import torch

from .distributed import agreed
from .environment import Decision, disabled, note

_DIRECTIONS: Final = ("min", "max")


def early_stopping(*models: torch.nn.Module, patience: int, direction: str = "min") -> EarlyStopping:
    """What tells, epoch by epoch, whether to stop, and brings the weights of the best epoch back.

        stopper = accel.early_stopping(model, patience=5)
        for epoch in range(epochs):
            ...
            if stopper(val_loss):
                break
        stopper.restore()

    Under several processes the first rank decides, for all.

    Args:
        models: Whose parameters and buffers are kept: a copy of each, on its device.
        patience: After how many epochs in a row without a better figure it stops; at least 1.
        direction: "min" where smaller figures are better, such as of a loss, "max" where larger ones are.

    Raises:
        ValueError: `patience` or `direction` is none of these.
    """
    if patience < 1:
        raise ValueError(f"accel.early_stopping: patience must be at least 1, not {patience!r}")
    if direction not in _DIRECTIONS:
        raise ValueError(f"accel.early_stopping: direction must be min or max, not {direction!r}")
    return EarlyStopping(models, patience, 1.0 if direction == "min" else -1.0)


class EarlyStopping:
    """The best figure so far, and the weights that gave it."""

    def __init__(self, models: tuple[torch.nn.Module, ...], patience: int, sign: float) -> None:
        self._models = models
        self._patience = patience
        self._sign = sign  # by which the best figure is the smallest
        self._best: float | None = None
        self._kept: list[dict[str, Any]] = []
        self._calls = 0
        self._since_best = 0

    def __call__(self, figure: Any) -> bool:
        """Note the figure of an epoch: a number, or a tensor of one element.

        Returns:
            Whether to stop. One that is NaN is not better than any other.
        """
        if disabled("early_stopping"):
            return False
        number = float(figure) * self._sign
        self._calls += 1
        self._since_best += 1
        if agreed(not math.isnan(number) and (self._best is None or number < self._best)):
            self._best = number
            self._since_best = 0
            self._kept.clear()  # before there are others: memory for one copy is enough
            self._kept.extend(copy.deepcopy(model.state_dict()) for model in self._models)
        return self._since_best >= self._patience

    def restore(self) -> None:
        """Give the models the weights of the best epoch; where there was none, they stay as they are."""
        for model, state in zip(self._models, self._kept, strict=False):
            model.load_state_dict(state)
        if self._best is not None:
            best = self._calls - self._since_best
            reason = f"{self._best * self._sign:g} was the best figure of {self._calls}"
            note("early stopping", Decision(f"weights of epoch {best}", reason))
