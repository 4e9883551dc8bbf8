"""The one place that makes torch's own loader iterators in another way than `iter(loader)`, and knows their insides.

`Order` is the order of one pass: the indices that the loader's sampler gives, each once. Whoever fetches takes them
from it, the training process or workers, and what was taken but never arrived can be taken again: so a pass can change
hands between two batches.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import multiprocessing
from collections import deque
from collections.abc import Collection, Iterator
from typing import Any, Final, TypeAlias

import torch
from torch.utils import data
from torch.utils.data import _utils

_CONTEXT: Final = "_DataLoader__multiprocessing_context"
_RECENT: Final = 16  # batches: as far as anybody looks ahead, and more
# What is altered of a loader for a moment, and what is read or replaced inside its iterators, with where torch uses it.
_SETTINGS: Final = frozenset(
    {"num_workers", "prefetch_factor", "persistent_workers", "timeout", "generator", "sampler", "batch_sampler"}
    | {"dataset", "_iterator", _CONTEXT}
)
_INSIDES: Final = (
    ("DataLoader", "_get_iterator", set[str]()),
    ("_BaseDataLoaderIter", "__init__", {"_index_sampler", "_sampler_iter", "generator", "random_"}),
    ("_BaseDataLoaderIter", "_next_index", {"_sampler_iter"}),
    ("_BaseDataLoaderIter", "_reset", {"_index_sampler", "_sampler_iter"}),
    ("_SingleProcessDataLoaderIter", "_next_data", {"_next_index", "_dataset_fetcher", "fetch"}),
    ("_MultiProcessingDataLoaderIter", "_reset", {"_try_put_index"}),
    ("_MultiProcessingDataLoaderIter", "_try_put_index", {"_next_index"}),
    ("_MultiProcessingDataLoaderIter", "_shutdown_workers", set[str]()),
)
_States: TypeAlias = "list[torch.Tensor]"


class _EarlyDraws:
    """The program's own generators that a sampler draws from, asked early: they can be put back to where they were.

    Asked early, it draws early, which matters to nobody but the next pass after a `break`.
    """

    def __init__(self, generators: Collection[torch.Generator]) -> None:
        self._generators: Final = tuple(generators)
        self._arrived: Final[deque[_States]] = deque(maxlen=_RECENT)  # where they were when each batch had been drawn
        self._latest: _States = []

    def drawn(self) -> _States:
        """Where they are, now that the sampler was asked."""
        self._latest = self._states()
        return self._latest

    def arrived(self, states: _States) -> None:
        """The batch for which they were drawn from until these states has arrived."""
        self._arrived.append(states)

    def rewind(self, unused: int) -> None:
        """The loop was left: generators are as if nothing had been asked early, unless others drew from them since.

        Args:
            unused: How many of the last that arrived the loop never got.
        """
        if len(self._arrived) > unused and all(map(torch.equal, self._latest, self._states())):
            for generator, state in zip(self._generators, self._arrived[-1 - unused], strict=True):
                generator.set_state(state)

    def _states(self) -> _States:
        return [generator.get_state() for generator in self._generators]


class Order(Iterator[Any]):
    """The indices of the batches of a pass that are still to be fetched; remembers those under way.

    Args:
        indices: What the loader's sampler gives.
        generators: The program's own that the sampler may draw from.
    """

    def __init__(self, indices: Iterator[Any], generators: Collection[torch.Generator] = ()) -> None:
        self._indices: Final = indices
        self._draws: Final = _EarlyDraws(generators)
        # each with the states of the generators when it had been given
        self._again: Final[deque[tuple[Any, _States]]] = deque()
        self._under_way: Final[deque[tuple[Any, _States]]] = deque()
        self.taken = 0

    def __next__(self) -> Any:
        self.peek()
        entry = self._again.popleft()
        self._under_way.append(entry)
        self.taken += 1
        return entry[0]

    def peek(self) -> Any:
        """The indices that come next; they stay."""
        if not self._again:
            try:
                indices = next(self._indices)
            finally:
                states = self._draws.drawn()
            self._again.append((indices, states))
        return self._again[0][0]

    @property
    def under_way(self) -> int:
        """How many were taken that have not arrived."""
        return len(self._under_way)

    def arrived(self) -> None:
        """The earliest of those under way has been fetched, or has failed for good."""
        self._draws.arrived(self._under_way.popleft()[1])

    def put_back(self) -> None:
        """Nobody fetches what is under way any more: it comes next."""
        self._again.extendleft(reversed(self._under_way))
        self.taken -= len(self._under_way)
        self._under_way.clear()

    def rewind(self, unused: int = 0) -> None:
        """The loop was left, and never got the last `unused` batches that arrived."""
        self._draws.rewind(unused)


class WorkerEpoch(Iterator[Any]):
    """A pass over a loader with workers of its own; `active` until its batches have run out, or it is dropped.

    As with an `Order`, generators are left as the loop would have left them had nobody looked ahead.
    """

    def __init__(self, batches: Iterator[Any], generators: Collection[torch.Generator]) -> None:
        self.batches: Final = batches
        self.active = True
        self._draws: Final = _EarlyDraws(generators)

    def __next__(self) -> Any:
        try:
            batch = next(self.batches)
        except StopIteration:
            self.active = False
            raise
        finally:
            states = self._draws.drawn()
        self._draws.arrived(states)
        return batch

    def arrived(self) -> bool:
        """Whether the next batch can be had without waiting for a worker."""
        return at_hand(self.batches)

    def left(self, unused: int) -> None:
        """The loop was left, and never got the last `unused` batches."""
        self._draws.rewind(unused)


def generators_of(loader: Any) -> list[torch.Generator]:
    """The program's own generators that a loader's sampler may draw from while it is asked."""
    owners = (loader, loader.sampler, loader.batch_sampler)
    found = [getattr(owner, "generator", None) for owner in owners]
    return list({id(each): each for each in found if isinstance(each, torch.Generator)}.values())


def known(loader: Any) -> bool:
    """Whether this torch's loaders and iterators are made as is relied on here."""
    return vars(loader).keys() >= _SETTINGS and _iterators_are_known()


@functools.cache
def _iterators_are_known() -> bool:
    module: Any = data.dataloader
    try:
        for name, method, uses in _INSIDES:
            code = inspect.unwrap(getattr(getattr(module, name), method)).__code__  # others may have wrapped it
            if not {*code.co_names} >= uses:
                return False
    except AttributeError:
        return False
    return True


def is_torchs(loader: Any) -> bool:
    """Whether a loader is iterated as torch iterates it."""
    return (
        isinstance(loader, data.DataLoader)
        and type(loader).__iter__ is data.DataLoader.__iter__
        and type(loader)._get_iterator is data.DataLoader._get_iterator  # noqa: SLF001
    )


def single_process(loader: Any, seeds: torch.Generator | None = None) -> Any:
    """The iterator that a loader without workers has, whatever workers it has: it draws its seed, and no more; from
    `seeds`, if given."""
    changes: dict[str, Any] = {} if seeds is None else {"generator": seeds}
    with altered(loader, num_workers=0, prefetch_factor=None, persistent_workers=False, timeout=0, **changes):
        return loader._get_iterator()  # noqa: SLF001


def several_processes(loader: Any, workers: int, seeds: torch.Generator, *, keep: bool = False, **changes: Any) -> Any:
    """An iterator with new workers; by fork, where the loader has none that would be started in another way.

    workers: of the type of the loader's own number.
    seeds: the generator they get their base seed from.
    keep: whether they are to serve later passes.
    changes: what else of the loader is another than its own.
    """
    if not loader.num_workers:
        changes[_CONTEXT] = multiprocessing.get_context("fork")
    factor = loader.prefetch_factor or 2
    changes |= {"num_workers": workers, "generator": seeds, "prefetch_factor": factor, "persistent_workers": keep}
    with altered(loader, **changes):
        iterator = loader._get_iterator()  # noqa: SLF001
    iterator._index_sampler = loader._index_sampler  # noqa: SLF001 - for loops over the loader itself
    return _unwatched(iterator)


def _unwatched(iterator: Any) -> Any:
    """A worker that dies shall be met where its batch is waited for, not by a signal anywhere in the program."""
    with contextlib.suppress(AttributeError):
        signals: Any = _utils.signal_handling
        signals._remove_worker_pids(id(iterator))  # noqa: SLF001
        iterator._worker_pids_set = False  # noqa: SLF001
    return iterator


def resume(loader: Any, iterator: Any, order: Order) -> None:
    """Let workers that were kept serve another pass, in this order."""
    iterator._index_sampler = order  # noqa: SLF001
    try:
        iterator._reset(loader)  # noqa: SLF001
    finally:
        iterator._index_sampler = loader._index_sampler  # noqa: SLF001


def drain(iterator: Any) -> None:
    """Give workers no further batches: the iterator ends with those under way."""
    iterator._sampler_iter = iter(())  # noqa: SLF001


def shut_down(iterator: Any) -> None:
    """End workers now."""
    with contextlib.suppress(Exception):  # some may be dead, which is why they are ended
        iterator._shutdown_workers()  # noqa: SLF001


def at_hand(iterator: Any) -> bool:
    """Whether an iterator's next batch can be had without waiting for a worker; yes where that cannot be told."""
    try:
        tasks, wanted, sent = iterator._task_info, iterator._rcvd_idx, iterator._send_idx  # noqa: SLF001
        ready = iterator._data_queue  # noqa: SLF001
        with ready.mutex:
            indices = [entry[0] for entry in ready.queue]
    except AttributeError:  # another kind of iterator, or a torch that names these otherwise
        return True
    if not getattr(iterator, "_in_order", True):
        return bool(indices)
    return wanted >= sent or len(tasks.get(wanted, ())) == 2 or wanted in indices


@contextlib.contextmanager
def altered(loader: Any, **changes: Any) -> Iterator[None]:
    """The loader with other settings for the moment: a copy would be another loader to whoever watches it."""
    settings = vars(loader)
    before = {name: settings[name] for name in changes}
    settings.update(changes)
    try:
        yield
    finally:
        settings.update(before)
