"""What part of a batch the code that runs now computes: asked by operations that need to know of the whole batch."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TypeAlias

import torch

from .shares import RankRows

_HERE: Final = f"{Path(__file__).parent}{os.sep}"
_TORCHS: Final = (torch.nn.functional.__file__, torch.random.__file__)

Site = tuple[object, int, int]
"""A line of a program and the module in which it runs."""


class Whole:
    """A forward pass over all rows, that notes which random numbers it draws, and whether it takes means of all."""

    rows = None

    def __init__(self) -> None:
        self.draws: list[tuple[Site, tuple[int, ...]]] = []
        self.has_means = False

    def batch_dim(self, shape: tuple[int, ...]) -> None:
        """A tensor of this shape is filled with random numbers."""
        self.draws.append((_site(), tuple(shape)))

    def meets_at_mean(self) -> bool:
        """A mean of all elements of a tensor is taken: of all rows as it stands."""
        self.has_means = True
        return False


class Share:
    """A forward pass over this rank's rows.

    Args:
        dims: Where random numbers were seen to be drawn, along which dimension rows lie there.
        meet: Sees that all ranks are at a mean of all elements of a tensor.
        expected: What a pass over all rows has drawn, for a pass that shall draw the same.
    """

    def __init__(
        self,
        rows: RankRows,
        dims: dict[Site, int | None],
        meet: Callable[[], None],
        expected: list[tuple[Site, tuple[int, ...]]] | None = None,
    ) -> None:
        self.rows: RankRows = rows
        self.dims = dims
        self._meet = meet
        self._expected = None if expected is None else iter(expected)

    def batch_dim(self, shape: tuple[int, ...]) -> int | None:
        """Along which dimension a tensor that random numbers fill has rows of the batch; None where it has none."""
        site = _site()
        if self._expected is not None:
            self._compare(site, shape)
        if site in self.dims:
            dim = self.dims[site]
        else:
            dim = 0 if len(shape) and shape[0] and shape[0] % self.rows.own == 0 else None
        if dim is not None and (dim >= len(shape) or shape[dim] % self.rows.own):
            raise RuntimeError(
                f"accel.distribute: random numbers of shape {tuple(shape)} do not go by rows of the batch"
            )
        return dim

    def meets_at_mean(self) -> bool:
        """Whether a mean of all elements of a tensor is one over all ranks; they are at it, all of them, then."""
        self._meet()
        return True

    def _compare(self, site: Site, shape: tuple[int, ...]) -> None:
        assert self._expected is not None
        known, whole = next(self._expected, (None, ()))
        if known != site or len(whole) != len(shape):
            raise RuntimeError("other random numbers are drawn for a part of the batch")
        differing = [dim for dim, size in enumerate(shape) if size != whole[dim]]
        dim = differing[0] if differing else None
        if len(differing) > 1 or self.dims.setdefault(site, dim) != dim:
            raise RuntimeError("random numbers are drawn whose rows cannot be told")


BatchView: TypeAlias = "Whole | Share"
"""The part of the batch that a forward pass computes."""

_view: BatchView | None = None


def current() -> BatchView | None:
    """What the code that runs now computes; None outside of distributed models."""
    return _view


def rows() -> RankRows | None:
    """The rows that the code which runs now computes; None where it is all of a batch."""
    return None if _view is None else _view.rows


def enter(view: BatchView | None) -> BatchView | None:
    """Set what is computed from here on; returns what was before."""
    global _view
    before, _view = _view, view
    return before


@contextmanager
def computing(view: BatchView | None) -> Iterator[None]:
    """Set what is computed for a while."""
    before = enter(view)
    try:
        yield
    finally:
        enter(before)


def _site() -> Site:
    """Which line outside of torch's functions, and of these modules, is running, in which module of the model."""
    frame = sys._getframe(1)  # noqa: SLF001
    while frame.f_back is not None and (
        frame.f_code.co_filename in _TORCHS or frame.f_code.co_filename.startswith(_HERE)
    ):
        frame = frame.f_back
    return frame.f_code, frame.f_lineno, id(frame.f_locals.get("self"))
