"""The fetcher of a loader's iterator: torch's own, but for batches that can be looked up whole."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import torch
from torch.utils.data._utils.fetch import _MapDatasetFetcher

from ..execution_mode import is_intercepted
from ..rng_state import RngState
from .batch_equality import difference
from .device_placement import DevicePlacement
from .mutation_guard import MutationGuard
from .row_indices import RowIndices, Unfit, rows
from .sample_structure import PartPath, Sample, SamplePart, map_parts, take_dtypes

# What looking up can meet in a dataset that is no longer what it was, or in indices outside it.
_FAILURES: Final = (Unfit, RuntimeError, IndexError, TypeError, ValueError, AttributeError, KeyError, OverflowError)


class BatchLookup:
    """How one loader's batches are looked up, for as long as what was read from the dataset is still so."""

    def __init__(self, sample: Sample, guard: MutationGuard, placement: DevicePlacement) -> None:
        self.sample = sample
        self.placement = placement
        self.proven = False
        self._guard = guard
        self._dtype = torch.get_default_dtype()
        parts: list[SamplePart] = []
        map_parts(sample, lambda part, _: parts.append(part))
        self.one_by_one = any(getattr(part.column, "one_by_one", False) for part in parts)
        self.draws = any(getattr(step, "kinds", ()) for part in parts for step in part.steps)

    def current(self) -> bool:
        return self._guard.same() and torch.get_default_dtype() is self._dtype

    def batch(self, indices: Any) -> Any:
        at = rows(indices)
        self.placement.begin_batch()

        def look(part: SamplePart, path: PartPath) -> torch.Tensor:
            found = self.placement.look(part, at, path)
            if found.requires_grad:  # asked for since it was read
                raise Unfit
            return found

        return map_parts(self.sample, look)


class WholeBatchFetcher(_MapDatasetFetcher):
    """Looks batches up by a plan; what a plan cannot do now is done by torch, sample by sample.

    plan: asked before each batch; None is torch's way.
    give_up: told once why torch's way is taken for good.
    """

    def __init__(self, plain: Any, lookup: Callable[[], BatchLookup | None], give_up: Callable[[str], None]) -> None:
        super().__init__(plain.dataset, plain.auto_collation, plain.collate_fn, plain.drop_last)
        self._plain = plain
        self._lookup = lookup
        self._give_up = give_up

    def fetch(self, possibly_batched_index: Any) -> Any:
        lookup = None if is_intercepted() else self._lookup()
        if lookup is None:
            return self._sample_by_sample(possibly_batched_index)
        if not lookup.proven or lookup.placement.due():
            return self._prove(lookup, possibly_batched_index)
        before = torch.get_rng_state() if lookup.draws else None
        try:
            return lookup.batch(possibly_batched_index)
        except _FAILURES as failure:
            if before is not None:
                torch.set_rng_state(before)
            if isinstance(failure, torch.OutOfMemoryError):
                lookup.placement.release()
            batch = self._sample_by_sample(possibly_batched_index)  # maybe it fails too, in the script's own way
            self._give_up(f"a batch could not be looked up: {_phrase(failure)}")
            return batch

    def _sample_by_sample(self, indices: Any) -> Any:
        return self._plain.fetch(list(indices.listed()) if isinstance(indices, RowIndices) else indices)

    def _prove(self, lookup: BatchLookup, indices: Any) -> Any:
        """The first batch of a way, both ways; the streams of random numbers go on as torch's way leaves them."""
        before = RngState()
        want = self._sample_by_sample(indices)
        after = RngState()
        before.restore()
        try:
            take_dtypes(lookup.sample, want)
            got = lookup.batch(indices)
            differs = difference(want, got)
            if not differs and RngState() != after:
                differs = "other random numbers"
        except _FAILURES as failure:
            differs = _phrase(failure)
        finally:
            after.restore()
        if differs:
            self._give_up(f"{'a' if lookup.proven else 'the first'} batch, looked up whole, had {differs}")
            return want
        lookup.proven = True
        return got


def _phrase(failure: BaseException) -> str:
    return str(failure).partition("\n")[0] or type(failure).__name__
