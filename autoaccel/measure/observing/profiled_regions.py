"""Where the script is, as annotations for the profiler: in its loader, its optimizer, its model.

A region inside another one interrupts it, but inside a loader everything is loading. A pass over a loader in which
nothing goes backward is an evaluation, with all that happened meanwhile.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.autograd.profiler import record_function
from torch.utils.data import DataLoader
from torch.utils.data.dataloader import _BaseDataLoaderIter

from autoaccel.measure.observing.hooks import replacing
from autoaccel.measure.observing.timelines import BACKWARD, FORWARD, LOADER, MARK, OPTIMIZER


class OpenRegions:
    """The regions that the main thread is in."""

    def __init__(self) -> None:
        self.traced = False
        """Whether the profiler is at work; nobody looks at anything else."""
        self.evaluated: list[tuple[float, float]] = []
        """From when to when passes ran that did not train, in seconds of `time.perf_counter`."""
        self.open: list[str] = []
        self._annotations: list[record_function] = []
        self._passes: dict[int, tuple[weakref.ref[Any], float]] = {}
        self._thread = threading.get_ident()

    def can_enter(self, name: str) -> bool:
        """Not twice, not inside a loader, and not on another thread."""
        return name not in self.open and LOADER not in self.open and threading.get_ident() == self._thread

    def enter(self, name: str) -> None:
        if self.traced and self.can_enter(name):
            self.open.append(name)
            self._annotations.append(record_function(MARK + name))
            self._annotations[-1].__enter__()  # type: ignore[no-untyped-call]

    def leave(self, name: str) -> None:
        """Leave a region, and what an exception left open inside it; nothing where it was not entered."""
        while name in self.open:
            self._annotations.pop().__exit__(None, None, None)
            if self.open.pop() == name:
                return

    @contextmanager
    def region(self, name: str) -> Iterator[None]:
        if not self.traced or not self.can_enter(name):
            yield
            return
        self.enter(name)
        try:
            yield
        finally:
            self.leave(name)

    def backward(self) -> None:
        """Something goes backward: the passes under way are training."""
        self._passes.clear()

    def pass_begins(self, batches: object, start: float) -> None:
        self._passes[id(batches)] = weakref.ref(batches), start

    def pass_ends(self, batches: object) -> None:
        """All batches were handed out; if nothing went backward meanwhile, that was an evaluation."""
        reference, start = self._passes.pop(id(batches), (None, 0.0))
        if reference is not None and reference() is batches:
            self.evaluated.append((start, time.perf_counter()))


def hook_loaders(regions: OpenRegions) -> None:
    """Passes over loaders, and each batch of them."""

    @replacing(DataLoader, "__iter__")
    def begun(create: Callable[..., Any], loader: DataLoader[Any]) -> Any:
        if not regions.can_enter(LOADER):
            return create(loader)
        start = time.perf_counter()
        with regions.region(LOADER):
            batches = create(loader)
        regions.pass_begins(batches, start)
        return batches

    @replacing(_BaseDataLoaderIter, "__next__")
    def next_batch(following: Callable[..., Any], batches: Any) -> Any:
        if not regions.can_enter(LOADER):
            return following(batches)
        try:
            with regions.region(LOADER):
                return following(batches)
        except StopIteration:
            regions.pass_ends(batches)
            raise


def hook_models(regions: OpenRegions) -> None:
    """Forwards of whole models, and backwards."""

    @replacing(nn.Module, "__call__")
    def called(call: Callable[..., Any], module: nn.Module, *args: Any, **kwargs: Any) -> Any:
        # What is compiled shall not see any of this, and modules within modules shall cost next to nothing.
        if torch.compiler.is_compiling() or not regions.traced or not regions.can_enter(FORWARD):
            return call(module, *args, **kwargs)
        with regions.region(FORWARD):
            return call(module, *args, **kwargs)

    @replacing(torch.autograd, "backward")
    def backward(plain: Callable[..., None], *args: Any, **kwargs: Any) -> None:
        regions.backward()
        with regions.region(BACKWARD):
            plain(*args, **kwargs)

    _hook(regions, BACKWARD, torch.autograd, "grad")


def hook_optimizers(regions: OpenRegions) -> None:
    """What belongs to a step beside the step itself."""
    for owner, names in (
        (torch.optim.Optimizer, ("zero_grad",)),
        (nn.Module, ("zero_grad",)),
        (torch.amp.GradScaler, ("step", "update", "unscale_")),
        (nn.utils, ("clip_grad_norm_", "clip_grad_value_")),
        (nn.utils.clip_grad, ("clip_grad_norm_", "clip_grad_value_")),
    ):
        for name in names:
            _hook(regions, OPTIMIZER, owner, name)


def _hook(regions: OpenRegions, region: str, owner: Any, name: str) -> None:
    @replacing(owner, name)
    def called(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        with regions.region(region):
            return function(*args, **kwargs)
