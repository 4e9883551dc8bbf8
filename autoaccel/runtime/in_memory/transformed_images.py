"""Images as torchvision's own transforms make them one by one, kept as bytes for later passes.

`Resize` and its like go through PIL, which takes tens of microseconds an image. They draw nothing: the same bytes give
the same image in every pass. So an image goes through them when its row is first asked for, and again where its bytes
are others by then: those that it was made of are kept beside it, and compared in every batch.
"""

from __future__ import annotations

import copy
import functools
import math
import sys
import weakref
from collections.abc import Sequence
from typing import Any, ClassVar, Final

import torch

from ..loading.loader_settings import machine
from .columns import Tensors
from .device_placement import SHARE
from .mutation_guard import Unsupported
from .row_indices import RowIndices, Unfit

_living: Final[weakref.WeakSet[TransformedImages]] = weakref.WeakSet()


class TransformedImages:
    """The images of a dataset, through the first of its transforms.

    source: its images as they are.
    image: what the transforms make of an image of that size; all have its size and mode.
    """

    one_by_one: ClassVar = True  # in the first pass

    def __init__(self, dataset: Any, source: Tensors, transforms: Sequence[Any], image: Any) -> None:
        numpy: Any = sys.modules["numpy"]
        before, after = source.seen(), numpy.asarray(image)
        self.nbytes: Final = before.nbytes + len(before) * after.nbytes
        taken, free = sum(each.nbytes for each in _living), machine().memory
        if free == math.inf or self.nbytes + taken > SHARE * (free + taken):
            raise Unsupported("its images, resized, take more than a tenth of the free memory")
        self._source: Final = source
        self._dataset: Final = copy.copy(dataset)
        vars(self._dataset)["transform"] = functools.partial(_through, transforms)
        # arrays: a tensor that is made while gradients are off for good could not be written to afterwards
        self._made: Final = numpy.zeros(len(before), bool)
        self._before: Final = numpy.empty(before.shape, numpy.uint8)  # memory that is not written to is not taken
        self._after: Final = numpy.empty((len(before), *after.shape), numpy.uint8)
        _living.add(self)

    def host(self, rows: RowIndices) -> torch.Tensor:
        """The images of a batch, made where they are not yet."""
        source, at = self._source.seen(), rows.tensor
        if source.dtype != torch.uint8 or source.shape != self._before.shape:
            raise Unfit("images of another size")
        before = source.index_select(0, at)
        made = torch.from_numpy(self._made).index_select(0, at)
        known = torch.from_numpy(self._before).index_select(0, at)
        if not (made.all() and torch.equal(known, before)):
            self._make(at, before, ~made | (known != before).flatten(1).any(1))
        return torch.from_numpy(self._after).index_select(0, at)

    def _make(self, at: torch.Tensor, before: torch.Tensor, wanted: torch.Tensor) -> None:
        numpy: Any = sys.modules["numpy"]
        rows = at[wanted].numpy()
        self._made[rows] = False
        for row in dict.fromkeys(rows.tolist()):
            pixels = numpy.asarray(self._dataset[row][0])
            if pixels.dtype != numpy.uint8 or pixels.shape != self._after.shape[1:]:
                raise Unfit("images of several sizes")
            self._after[row] = pixels
        self._before[rows] = before[wanted].numpy()
        self._made[rows] = True


def _through(transforms: Sequence[Any], image: Any) -> Any:
    for each in transforms:
        image = each(image)
    return image
