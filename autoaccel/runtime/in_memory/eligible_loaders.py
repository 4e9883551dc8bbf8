"""Which loaders' batches are looked up whole, and their iterators."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import Any, Final

import torch
from torch.utils import data
from torch.utils.data import dataloader as torchs
from torch.utils.data._utils import collate

from .. import devices
from ..environment import Decision, disabled, note
from ..loading.loader_settings import chose_workers, may_have_workers
from ..loading.loader_statistics import named
from ..loading.rebuild_batch import PartsToMove
from ..loading.torch_iterators import is_torchs, single_process
from .batch_fetcher import BatchLookup, WholeBatchFetcher
from .device_placement import DevicePlacement
from .mutation_guard import MutationGuard, Unsupported
from .sampler_slices import slices
from .torch_datasets import read_samples

_COLLATED: Final = dict(collate.default_collate_fn_map)
# How often a dataset may be read anew in one pass before that costs more than it saves.
_MOST_READ: Final = 4
_FEWEST_BATCHES: Final = 8


class InMemoryLoader:
    """One loader's batches for one device, read from the dataset as often as that has changed."""

    def __init__(self, loader: data.DataLoader[Any], placement: DevicePlacement) -> None:
        self._loader = weakref.ref(loader)
        self._placement = placement
        self._lookup: BatchLookup | None = None
        self._read = 0
        self._passes = 0
        self.topic = f"resident {named(loader)}"
        self.given_up = ""

    def fits(self) -> bool:
        """Whether batches can be looked up whole, as far as one can tell without looking."""
        return not disabled("resident") and not disabled("prefetch") and self.lookup() is not None

    def lookup(self) -> BatchLookup | None:
        """The plan, as long as the dataset is what was read, or another."""
        if self.given_up:
            return None
        if self._lookup is not None and self._lookup.current():
            return self._lookup
        loader = self._loader()
        if loader is None or self._read > _MOST_READ * (self._passes + 1):
            self.give_up("the dataset changes all the time")
            return None
        self._read += 1
        self._lookup = None  # the images that it keeps go before others are made
        try:
            if reason := _unfit(loader):
                raise Unsupported(reason)
            guard = MutationGuard()
            lookup = BatchLookup(read_samples(loader.dataset, guard), guard, self._placement)
            if lookup.one_by_one and may_have_workers(loader):
                raise Unsupported("its workers resize its images meanwhile")
            if lookup.one_by_one and len(loader) < _FEWEST_BATCHES:
                raise Unsupported("of so few batches the first one, made twice, is too great a part")
            self._lookup = lookup
        except Unsupported as reason:
            self.give_up(str(reason))
            return None
        return self._lookup

    def give_up(self, reason: str) -> None:
        """Leave this loader to torch from now on."""
        self.given_up = reason
        self._lookup = None
        note(self.topic, Decision(False, reason))

    def begin(self) -> Any:
        """An iterator of torch's own with another fetcher; None where the loader is left to torch."""
        loader = self._loader()
        if loader is None or not self.fits():
            return None
        if reason := _unfit(loader):  # a loader's attributes may be others than in the pass before
            self.give_up(reason)
            return None
        self._passes += 1
        self._placement.begin_pass()
        batches = single_process(loader)
        if type(batches) is torchs._SingleProcessDataLoaderIter:  # noqa: SLF001
            fetcher = WholeBatchFetcher(batches._dataset_fetcher, self.lookup, self.give_up)  # noqa: SLF001
            batches._dataset_fetcher = fetcher  # noqa: SLF001
            if (order := slices(batches._index_sampler)) is not None:  # noqa: SLF001
                batches._sampler_iter = order  # noqa: SLF001
            if self._placement.device is not None:
                batches._pin_memory = False  # noqa: SLF001 - `device_placement` pins what stays here
            where = "the host" if self._placement.device is None else str(self._placement.device)
            note(self.topic, Decision(where, "batches are looked up whole"))
        return batches


def _unfit(loader: data.DataLoader[Any]) -> str:
    """Why a loader's batches are torch's own business, whatever its dataset."""
    if not is_torchs(loader):
        return f"a {type(loader).__name__} makes its iterators itself"
    if loader.num_workers and not chose_workers(loader):
        return "the script chose workers"
    if loader.timeout:
        return "the loader has a timeout"
    if reason := collated_otherwise(loader):
        return reason
    return "" if hasattr(torchs, "_SingleProcessDataLoaderIter") else "this torch fetches in another way"


def collated_otherwise(loader: data.DataLoader[Any]) -> str:
    """Why batches are not, here, what torch puts together of samples in its own way; empty if they are."""
    if loader.batch_sampler is None:
        return "the loader hands out samples, not batches"
    if loader.collate_fn is not collate.default_collate or collate.default_collate_fn_map != _COLLATED:
        return "batches are put together by a function of the script"
    return "this is a worker itself" if data.get_worker_info() is not None else ""


# By the identity of the loader: it may be equal to another, and not be hashable.
_in_memory_loaders: Final[dict[int, tuple[weakref.ref[Any], dict[Any, InMemoryLoader]]]] = {}


def in_memory_loader(loader: Any, device: torch.device, move: PartsToMove) -> InMemoryLoader | None:
    """The lookup of a loader's batches for a device; the same one for as long as the loader lives."""
    if not isinstance(loader, data.DataLoader):
        return None
    key = id(loader)
    if key not in _in_memory_loaders or _in_memory_loaders[key][0]() is not loader:
        _in_memory_loaders[key] = (weakref.ref(loader, lambda _: _in_memory_loaders.pop(key, None)), {})
    place = device if device.type == "cuda" and devices.available(device) else None
    asked = (place, move if isinstance(move, str) else tuple(move))
    known = _in_memory_loaders[key][1]
    if asked not in known:
        known[asked] = InMemoryLoader(loader, DevicePlacement(*asked, pin=loader.pin_memory))
    return known[asked]


def fits(loader: Any, device: torch.device, move: PartsToMove = "all") -> bool:
    """Whether a loader's batches can be looked up whole."""
    found = in_memory_loader(loader, device, move)
    return found is not None and found.fits()


def begin(loader: Any, device: torch.device, move: PartsToMove = "all") -> Iterator[Any] | None:
    """A pass over a loader whose batches are looked up whole; None where it is torch's own business."""
    found = in_memory_loader(loader, device, move)
    return None if found is None else found.begin()
