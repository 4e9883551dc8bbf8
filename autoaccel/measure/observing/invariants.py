"""What no good rewrite does to autocast regions, scaled gradients and the workers of a loader, while all is rehearsed.

None of it shows in numbers where autocast computes in float32; in lower precision the script would train worse, or
fail.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import weakref
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch.optim import Optimizer
from torch.utils import data
from torch.utils.data import dataloader

from autoaccel import runtime
from autoaccel.measure.observing.hooks import replacing
from autoaccel.measure.observing.loaders import KeptGenerators, fetchers
from autoaccel.measure.observing.observation import Observation
from autoaccel.measure.observing.randomness import host_streams
from autoaccel.measure.observing.training import BACKWARD_IN_AUTOCAST, STEP_IN_AUTOCAST
from autoaccel.runtime.amp.grad_scaler import Scaler, has_gradients, parameters_of
from autoaccel.runtime.loading import loader_settings

CLIPPED_SCALED = "gradients were clipped while they were scaled"
NEVER_SCALED = "a scaler stepped an optimizer before any loss was scaled"
STEPPED_ALONE = "an optimizer stepped by itself after its loss was scaled"
CROSS_ENTROPY_INSIDE = "binary cross-entropy of probabilities ran inside an autocast region"
WORKERS_ALIKE = "workers of a loader draw the same random numbers"

_CLIPPING = ("clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_", "clip_grad_norm")


class CountedRegion:
    """An autocast region that is counted while it is open."""

    open = 0
    exempt = 0
    """Regions with autocast switched off that are open: what runs in them runs in full precision."""

    def __init__(self, opened: contextlib.AbstractContextManager[object]) -> None:
        self._opened = opened

    def __enter__(self) -> object:
        CountedRegion.open += 1
        return self._opened.__enter__()

    def __exit__(self, *error: Any) -> bool | None:
        CountedRegion.open -= 1
        return self._opened.__exit__(*error)


def watch(observation: Observation) -> None:
    """Watch regions and scalers from now on."""
    _Scalers(observation).watch()
    _watch_regions(observation)


def _watch_regions(observation: Observation) -> None:
    def look(phrase: str) -> None:
        if CountedRegion.open:
            observation.mark(phrase)

    observation.events.before_backward.append(lambda _: look(BACKWARD_IN_AUTOCAST))
    observation.events.before_step.append(lambda _: look(STEP_IN_AUTOCAST))

    @replacing(runtime, "autocast")
    def autocast(
        plain: Callable[..., contextlib.AbstractContextManager[object]], *args: Any, **kwargs: Any
    ) -> contextlib.AbstractContextManager[object]:
        region = plain(*args, **kwargs)
        # nothing steps inside a graph, and a graph is no place for a counter
        return region if torch.compiler.is_compiling() else CountedRegion(region)

    @replacing(torch.autocast, "__enter__")
    def enter(plain: Callable[..., Any], self: Any) -> Any:
        CountedRegion.exempt += not self._enabled
        return plain(self)

    @replacing(torch.autocast, "__exit__")
    def leave(plain: Callable[..., Any], self: Any, *error: Any) -> Any:
        CountedRegion.exempt -= not self._enabled
        return plain(self, *error)

    @replacing(torch.nn.functional, "binary_cross_entropy")
    def cross_entropy(plain: Callable[..., torch.Tensor], *args: Any, **kwargs: Any) -> torch.Tensor:
        # CUDA refuses it in half precision, where the logarithm of a probability overflows; a CPU does not.
        if not torch.compiler.is_compiling() and CountedRegion.open and not CountedRegion.exempt:
            observation.mark(CROSS_ENTROPY_INSIDE)
        return plain(*args, **kwargs)


class _Scalers:
    """What is done with gradients of scaled losses, between the backward and the step of their scaler."""

    def __init__(self, observation: Observation) -> None:
        self._observation = observation
        self._scaled: weakref.WeakSet[Optimizer] = weakref.WeakSet()
        """The optimizers whose gradients are scaled at this moment."""
        self._due: weakref.WeakSet[Optimizer] = weakref.WeakSet()
        """Those that a scaler has to step: gradients that overflowed must not be applied, and only it sees to that."""
        self._steps_under_way = 0

    def watch(self) -> None:
        mark = self._observation.mark
        self._observation.events.before_step.append(self._before_step)

        @replacing(Scaler, "scale")
        def scale(plain: Callable[..., Any], scaler: Scaler, outputs: Any) -> Any:
            result = plain(scaler, outputs)
            if result is not outputs:
                optimizers = list(scaler.optimizers())
                self._scaled.update(optimizers)
                self._due.update(optimizers)
            return result

        @replacing(Scaler, "unscale_")
        def unscale(plain: Callable[..., None], scaler: Scaler, optimizer: Optimizer) -> None:
            plain(scaler, optimizer)
            self._scaled.discard(optimizer)

        @replacing(Scaler, "step")
        def step(plain: Callable[..., Any], scaler: Scaler, optimizer: Optimizer, *args: Any, **kwargs: Any) -> Any:
            if scaler.is_enabled() and scaler._scale is None and has_gradients(optimizer):  # noqa: SLF001
                mark(NEVER_SCALED)
            self._steps_under_way += 1
            try:
                result = plain(scaler, optimizer, *args, **kwargs)
            finally:
                self._steps_under_way -= 1
                self._due.discard(optimizer)
            self._scaled.discard(optimizer)
            return result

        for module in (torch.nn.utils, torch.nn.utils.clip_grad):
            for name in _CLIPPING:
                if hasattr(module, name):
                    replacing(module, name)(self._clip)

    def _before_step(self, optimizer: Optimizer) -> None:
        if optimizer in self._due and not self._steps_under_way:
            self._observation.mark(STEPPED_ALONE)
        self._due.discard(optimizer)

    def _clip(self, plain: Callable[..., Any], parameters: Any, *args: Any, **kwargs: Any) -> Any:
        if not isinstance(parameters, torch.Tensor):
            parameters = list(parameters)  # it may be a generator, which can be read once
        if _any_of(parameters, self._scaled):
            self._observation.mark(CLIPPED_SCALED)
        return plain(parameters, *args, **kwargs)


def _any_of(given: Any, optimizers: Iterable[Optimizer]) -> bool:
    """Whether one of these parameters has a gradient and belongs to one of these optimizers."""
    wanted = {id(each) for each in ([given] if isinstance(given, torch.Tensor) else given) if each.grad is not None}
    return bool(wanted) and any(id(each) in wanted for optimizer in optimizers for each in parameters_of(optimizer))


# -- whether the workers of a loader draw different random numbers: torch seeds each of them, and what seeds them again
# may make them all alike. Only for workers that the runtime chose: what the script's own do is its own affair


def watch_seeds(observation: Observation) -> None:
    """Note where the generators of each worker stand when it begins, and mark what is alike in two of one loader."""
    noted = observation.exchange.folder / "seeds"
    numbers = itertools.count()

    @replacing(dataloader._MultiProcessingDataLoaderIter, "__init__")  # noqa: SLF001
    def create(plain: Callable[..., None], iterator: Any, loader: Any) -> None:
        own = loader.worker_init_fn
        if loader_settings.chose_workers(loader) and loader_settings.start_method() == "fork":
            loader.worker_init_fn = functools.partial(_begin, own, noted, next(numbers))
        try:
            plain(iterator, loader)
        finally:
            loader.worker_init_fn = own

    observation.endings.append(lambda *_: _look_back(noted, observation.mark))


def _begin(own: Callable[[int], object] | None, noted: Path, number: int, worker: int) -> None:
    """In a worker, before its first sample."""
    if own is not None:
        own(worker)
    _note(noted, number, host_streams())
    info = data.get_worker_info()
    kept = KeptGenerators(getattr(info, "dataset", None))
    begun = kept.streams()
    for owner in fetchers() if begun else ():

        @replacing(owner, "fetch")
        def fetch(plain: Callable[[Any, Any], Any], fetcher: Any, indices: Any) -> Any:
            batch = plain(fetcher, indices)
            now = kept.streams()
            # only those that samples draw from: another one may be alike in all workers
            used = [stream for stream, state in now.items() if begun.get(stream, state) != state]
            _note(noted, number, {stream: begun.pop(stream) for stream in used})
            return batch


def _note(noted: Path, number: int, streams: Mapping[str, str]) -> None:
    """Where streams of a worker stood when it began."""
    lines = [f"{number} {stream} {state}\n" for stream, state in streams.items()]
    with contextlib.suppress(OSError), noted.open("a", encoding="utf-8") as file:
        file.write("".join(lines))


def _look_back(noted: Path, mark: Callable[[str], None]) -> None:
    lines = noted.read_text(encoding="utf-8").split("\n")[:-1] if noted.exists() else []
    if len(set(lines)) < len(lines):
        mark(WORKERS_ALIKE)
