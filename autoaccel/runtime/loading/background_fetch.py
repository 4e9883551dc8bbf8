"""A thread of the host that fetches one batch while the loop waits for the device.

Only the thread that asked may see what was fetched, exceptions arrive there as well, and the thread is gone when its
owner is: after a `break`, an exception, garbage collection, at the end of the program. A process that forks meanwhile
waits for the fetch to end first, so that the child finds no lock taken; it has no such thread, and fetches by itself.
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
import os
import queue
import threading
import weakref
from collections.abc import Callable, Iterator
from concurrent import futures
from typing import Any, Final, TypeAlias

import torch
from torch.utils.data import _utils

from .. import devices
from ..execution_mode import is_intercepted
from ..rng_state import RngState
from .torch_iterators import Order

Fetch: TypeAlias = "Callable[[], Any]"
_Requests: TypeAlias = "queue.SimpleQueue[tuple[futures.Future[Any], Fetch] | None]"

# A fetch that takes longer is left behind: nothing is waited for endlessly.
_PATIENCE: Final = 5.0  # seconds


class FetchThread:
    """Fetches what it is told to, one thing at a time."""

    def __init__(self) -> None:
        self.busy: Final = threading.RLock()
        self._requests: Final[_Requests] = queue.SimpleQueue()
        self._wanted: futures.Future[Any] = futures.Future()
        self._process: Final = os.getpid()
        # what the thread refers to is not this object: dropping that ends it
        arguments = (self._requests, self.busy)
        self._thread: Final = threading.Thread(target=_serve, args=arguments, name="autoaccel-fetch", daemon=True)
        self._thread.start()
        self._end: Final = weakref.finalize(self, _stop, self._requests, self._thread)
        _watch_forks()
        _threads.add(self)

    @property
    def here(self) -> bool:
        """Whether the thread is in this process, and not in the one that this was forked from."""
        return os.getpid() == self._process

    def begin(self, fetch: Fetch) -> None:
        """Start a fetch, under the modes that this thread of the program is in."""
        inside = functools.partial(_under, torch.is_grad_enabled(), torch.is_inference_mode_enabled(), fetch)
        self._wanted = futures.Future()
        self._requests.put((self._wanted, functools.partial(contextvars.copy_context().run, inside)))

    def take(self) -> Any:
        """What was fetched, once it is there; an exception of the fetch is raised here."""
        while not futures.wait([self._wanted], _PATIENCE).done:
            if not self._thread.is_alive():
                raise RuntimeError("the thread that fetches batches has died")
        fetched, self._wanted = self._wanted, futures.Future()  # what it raises refers to this frame
        try:
            return fetched.result()
        finally:
            del fetched

    def close(self) -> None:
        """End the thread, when it is through with what it does."""
        self._end()


def is_plain_context() -> bool:
    """Whether this thread of the program is in no mode that another would not be in: autocast, a default device."""
    return not (torch.is_autocast_enabled("cpu") or is_intercepted())


class RngUseDetector:
    """Whether fetching was ever seen to draw from a generator that the whole program shares."""

    def __init__(self) -> None:
        self.seen = False
        self.asked = True  # whether anybody wants to know

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """Look at what happens inside."""
        if self.seen:
            yield
            return
        before = RngState()
        yield
        self.seen = before != RngState()


class BackgroundFetcher:
    """Stands before the fetcher of a single-process iterator: what the thread has fetched need not be fetched again."""

    @classmethod
    def of(cls, iterator: Any, rng_use: RngUseDetector) -> BackgroundFetcher:
        """Put one into torch's own iterator."""
        genuine = iterator._dataset_fetcher  # noqa: SLF001
        place = devices.accelerator() if getattr(iterator, "_pin_memory", False) else None
        iterator._dataset_fetcher = fetcher = cls(genuine, rng_use, place)  # noqa: SLF001
        return fetcher

    def __init__(self, genuine: Any, rng_use: RngUseDetector, pinned_for: torch.device | None) -> None:
        self._genuine: Final = genuine
        self._rng_use: Final = rng_use
        self._pinned_for: Final = pinned_for
        self._thread: FetchThread | None = None
        self._under_way: Any = None  # indices
        self._failed = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._genuine, name)

    @property
    def possible(self) -> bool:
        """Whether there may be a thread: not if none can be started, nor in a process that was forked from its own."""
        return not self._failed and (self._thread is None or self._thread.here)

    @property
    def pending(self) -> bool:
        """Whether the thread fetches, or has fetched, the next batch."""
        return self._under_way is not None and self.possible

    def fetch(self, indices: Any) -> Any:
        """A batch, from the thread where it has this one. Called by torch's iterator."""
        pending, self._under_way = self.pending and self._under_way is indices, None
        if pending and self._thread is not None:
            return self._thread.take()
        if not self._rng_use.asked:
            return self._genuine.fetch(indices)
        with self._rng_use.watched():
            return self._genuine.fetch(indices)

    def begin(self, order: Order) -> None:
        """Let the thread fetch what comes next in an order, if anything does."""
        try:
            indices = order.peek()
        except StopIteration:
            return
        if self._thread is None:
            try:
                self._thread = FetchThread()
            except RuntimeError:  # no more threads
                self._failed = True
                return
        self._under_way = indices
        # without reference to this object, so that dropping it ends the thread
        pin = None if self._pinned_for is None else _pinning(self._pinned_for)
        self._thread.begin(functools.partial(_fetch, self._genuine, indices, self._rng_use, pin))

    def close(self) -> None:
        """End the thread. What it was fetching is fetched again if it is asked for."""
        thread, self._thread, self._under_way = self._thread, None, None
        if thread is not None:
            thread.close()


def _fetch(genuine: Any, indices: Any, rng_use: RngUseDetector, pin: Callable[[Any], Any] | None) -> Any:
    with rng_use.watched():
        batch = genuine.fetch(indices)
    return batch if pin is None else pin(batch)


def _pinning(device: torch.device) -> Callable[[Any], Any]:
    """How the thread pins, for the device that is current here and now: each thread has a current one of its own."""
    module = devices.module_of(device.type)
    current = module.current_device()

    def pin(batch: Any) -> Any:
        module.set_device(current)
        pinned: Any = _utils.pin_memory.pin_memory
        return pinned(batch, device.type)

    return pin


def _under(gradients: bool, inference: bool, fetch: Fetch) -> Any:
    with torch.inference_mode(inference), torch.set_grad_enabled(gradients):
        return fetch()


def _serve(requests: _Requests, busy: Any) -> None:
    while (request := requests.get()) is not None:
        wanted, fetch = request
        with busy:
            try:
                wanted.set_result(fetch())
            except BaseException as failure:  # it is raised where it is taken
                wanted.set_exception(failure)
        del request, wanted, fetch


def _stop(requests: _Requests, thread: threading.Thread) -> None:
    requests.put(None)
    if thread is not threading.current_thread():  # garbage may be collected anywhere
        thread.join(_PATIENCE)


# ---------------------------------------------------------------- forks

_threads: Final[weakref.WeakSet[FetchThread]] = weakref.WeakSet()
_held: Final[list[Any]] = []


@functools.cache
def _watch_forks() -> None:
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=_hold, after_in_parent=_let_go, after_in_child=_let_go)


def _hold() -> None:
    _held.extend(thread.busy for thread in list(_threads) if thread.busy.acquire(timeout=_PATIENCE))


def _let_go() -> None:
    while _held:
        _held.pop().release()
