"""Where the script is: in its loader, its optimizer, its model. Timed by hooks that cost less than a microsecond each.

Times are exclusive: a region inside another one interrupts it, but inside a loader everything is loading. A pass over a
loader in which nothing goes backward is an evaluation, with all that happened meanwhile.
"""

from __future__ import annotations

import inspect
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import CodeType, FrameType
from typing import Any, Final

import torch
from torch import nn
from torch.autograd.profiler import record_function
from torch.utils.data import DataLoader
from torch.utils.data.dataloader import _BaseDataLoaderIter

from autoaccel.measure.observing.attribution import BACKWARD, EVALUATION, FORWARD, LOADER, OPTIMIZER
from autoaccel.measure.observing.hooks import replacing
from autoaccel.measure.observing.traces import MARK

_ENOUGH_CODE = 1000


@dataclass(frozen=True)
class _Pass:
    """An iteration over a loader: when it began, and the times of the regions then."""

    batches: weakref.ref[Any]
    start: float
    seconds: dict[str, float]


class Regions:
    """The regions that the main thread is in, and how long it has been in each."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.traced = False
        """Whether the profiler is told as well."""
        self.evaluated: list[tuple[float, float]] = []
        """From when to when passes ran that did not train, in seconds of `time.perf_counter`."""
        self.training_code: set[CodeType] = set()
        """Of functions that go backward, and of those that call them."""
        self._annotations: list[record_function | None] = []
        self._seconds: dict[str, float] = {}
        self._passes: dict[int, _Pass] = {}
        self._accounted = time.perf_counter()
        self._thread = threading.get_ident()

    def seconds(self) -> dict[str, float]:
        """By region, since the beginning, up to this moment."""
        self._account()
        return dict(self._seconds)

    def open(self, name: str) -> bool:
        """Whether a region can be entered: not twice, not inside a loader, and not on another thread."""
        return name not in self.names and LOADER not in self.names and threading.get_ident() == self._thread

    def enter(self, name: str) -> None:
        self._account()
        self.names.append(name)
        self._annotations.append(_annotated(MARK + name) if self.traced else None)

    def leave(self, name: str) -> None:
        """Leave a region, and what an exception left open inside it; nothing where it was not entered."""
        while name in self.names:
            self._account()
            annotation = self._annotations.pop()
            if annotation is not None:
                annotation.__exit__(None, None, None)
            if self.names.pop() == name:
                return

    @contextmanager
    def region(self, name: str) -> Iterator[None]:
        if not self.open(name):
            yield
            return
        self.enter(name)
        try:
            yield
        finally:
            self.leave(name)

    def _account(self) -> None:
        now = time.perf_counter()
        if self.names:
            self._add(self.names[-1], now - self._accounted)
        self._accounted = now

    def _add(self, name: str, seconds: float) -> None:
        self._seconds[name] = self._seconds.get(name, 0.0) + seconds

    def backward(self) -> None:
        """Something goes backward: the passes under way are training."""
        self._passes.clear()
        frame: FrameType | None = sys._getframe(1)  # noqa: SLF001
        while frame is not None and len(self.training_code) < _ENOUGH_CODE:
            self.training_code.add(frame.f_code)
            frame = frame.f_back

    def pass_begins(self, batches: object, start: float, before: dict[str, float]) -> None:
        self._passes[id(batches)] = _Pass(weakref.ref(batches), start, before)

    def pass_ends(self, batches: object) -> None:
        """All batches were handed out; if nothing went backward meanwhile, that was an evaluation."""
        ended = self._passes.pop(id(batches), None)
        if ended is None or ended.batches() is not batches:
            return
        self._account()
        now = self._accounted
        self._seconds = dict(ended.seconds)
        self._add(EVALUATION, now - ended.start)
        self.evaluated.append((ended.start, now))
        for key, other in self._passes.items():
            if other.start >= ended.start:  # of two that overlap, the time is counted once
                self._passes[key] = _Pass(other.batches, now, dict(self._seconds))


def _annotated(name: str) -> record_function:
    annotation = record_function(name)
    annotation.__enter__()  # type: ignore[no-untyped-call]
    return annotation


def hook_loaders(regions: Regions) -> None:
    """Passes over loaders, and each batch of them."""

    @replacing(DataLoader, "__iter__")
    def begun(create: Callable[..., Any], loader: DataLoader[Any]) -> Any:
        if not regions.open(LOADER):
            return create(loader)
        start, before = time.perf_counter(), regions.seconds()
        with regions.region(LOADER):
            batches = create(loader)
        regions.pass_begins(batches, start, before)
        return batches

    @replacing(_BaseDataLoaderIter, "__next__")
    def next_batch(following: Callable[..., Any], batches: Any) -> Any:
        if not regions.open(LOADER):
            return following(batches)
        regions.enter(LOADER)
        try:
            return following(batches)
        except StopIteration:
            regions.leave(LOADER)
            regions.pass_ends(batches)
            raise
        finally:
            regions.leave(LOADER)


def hook_models(regions: Regions) -> None:
    """Forwards of whole models, and backwards."""

    @replacing(nn.Module, "__call__")
    def called(call: Callable[..., Any], module: nn.Module, *args: Any, **kwargs: Any) -> Any:
        # What is compiled shall not see any of this, and modules within modules shall cost next to nothing.
        if torch.compiler.is_compiling() or not regions.open(FORWARD):
            return call(module, *args, **kwargs)
        with regions.region(FORWARD):
            return call(module, *args, **kwargs)

    @replacing(torch.autograd, "backward")
    def backward(plain: Callable[..., None], *args: Any, **kwargs: Any) -> None:
        regions.backward()
        with regions.region(BACKWARD):
            plain(*args, **kwargs)

    _hook(regions, BACKWARD, torch.autograd, "grad")


def hook_optimizers(regions: Regions) -> None:
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


def _hook(regions: Regions, region: str, owner: Any, name: str) -> None:
    @replacing(owner, name)
    def called(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        with regions.region(region):
            return function(*args, **kwargs)


# -- batches that no DataLoader makes: generators, `dataset[i]` in the loop. Hooks cannot tell that from the rest of the
# script's Python; looking at the stack every few milliseconds can


_INTERVAL: Final = 0.004
# The other thread gets its look this soon, also while the script runs Python.
_SWITCH: Final = 0.0005
# Their generators are around a loop, or around a statement, and make no batches.
_LIBRARIES: Final = ("torch", "tqdm", "rich", "contextlib")
_METHODS: Final = frozenset({"__next__", "__getitem__", "__getitems__"})


class Sampler:
    """Looks at the main thread while it is switched on."""

    def __init__(self, regions: Regions, root: str) -> None:
        self._looks = self._iterating = 0
        self._regions, self._root = regions, root
        self._main = threading.get_ident()
        self._on = threading.Event()
        self._over = False
        self._thread = threading.Thread(target=self._run, name="autoaccel sampler", daemon=True)
        self._interval = sys.getswitchinterval()

    def start(self) -> None:
        if not self._thread.is_alive():
            self._thread.start()
        self._looks = self._iterating = 0
        sys.setswitchinterval(_SWITCH)
        self._on.set()

    def stop(self) -> tuple[int, int]:
        """How many looks it took, and how many of these found the script making a batch outside of all regions."""
        if self._on.is_set():
            self._on.clear()
            sys.setswitchinterval(self._interval)
            return self._looks, self._iterating
        return 0, 0

    def close(self) -> None:
        self._over = True
        self._on.set()

    def _run(self) -> None:
        pause = threading.Event()
        while self._on.wait() and not self._over:
            pause.wait(_INTERVAL)
            if self._on.is_set():
                self._look(sys._current_frames().get(self._main))  # noqa: SLF001

    def _look(self, frame: FrameType | None) -> None:
        self._looks += 1
        if not self._regions.names and makes_batches(frame, self._regions, self._root):
            self._iterating += 1


def makes_batches(frame: FrameType | None, regions: Regions, root: str) -> bool:
    """Whether a stack is inside something that is iterated or indexed, and that does not itself train."""
    while frame is not None and frame.f_code not in regions.training_code:
        code = frame.f_code
        if code.co_name in _METHODS and code.co_filename.startswith(root):
            return True
        generates = code.co_flags & inspect.CO_GENERATOR and code.co_name != "<genexpr>"
        if generates and str(frame.f_globals.get("__name__", "")).split(".")[0] not in _LIBRARIES:
            return True
        frame = frame.f_back
    return False
