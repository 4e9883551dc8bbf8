"""Which files a script writes, on which of its lines, and what it saves there."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from autoaccel.measure.observing import guarding
from autoaccel.measure.observing.hooks import around
from autoaccel.measure.observing.observation import Concerns, Observation, Observer
from autoaccel.measure.observing.run_record import Written

_DEEP = 6
_MOST = 5_000  # lines of one file


class FilesWritten(Observer):
    """What guards see of the script's own process; without one nothing is seen."""

    def __init__(self, concerns: Concerns) -> None:
        self._concerns = concerns
        self._places: dict[str, str] = {}
        self._held: dict[str, tuple[str, ...]] = {}

    def install(self, observation: Observation) -> None:
        def written(path: str) -> None:
            if observation.here and path not in self._places:
                self._places[path] = place(sys._getframe(1), self._concerns)  # noqa: SLF001

        guarding.tell_of_writes(written)

        @around(torch, "save")
        def save(plain: Callable[..., None], obj: Any, f: Any, *args: Any, **kwargs: Any) -> None:
            plain(obj, f, *args, **kwargs)
            if isinstance(f, str | os.PathLike):
                lines = (f"{key}: {kind}".removeprefix(": ") for key, kind in _leaves(obj, ""))
                self._held[os.path.realpath(f)] = tuple(line for line, _ in zip(lines, range(_MOST)))  # noqa: B905

    def contribute(self) -> dict[str, Any]:
        found = self._places.items()
        return {"written": tuple(Written(path, where, self._held.get(path, ())) for path, where in found)}


def place(frame: Any, concerns: Concerns) -> str:
    """`file:line` of the innermost frame that is the project's own; empty where there is none."""
    while frame is not None:
        if concerns(frame.f_code.co_filename):
            return f"{frame.f_code.co_filename}:{frame.f_lineno}"
        frame = frame.f_back
    return ""


def _leaves(value: Any, key: str, depth: int = 0) -> Iterator[tuple[str, str]]:
    """The key of each leaf, and what sort of value it is."""
    if isinstance(value, nn.Module):
        value = value.state_dict()
    if isinstance(value, Mapping) and depth < _DEEP:
        for name, each in value.items():
            yield from _leaves(each, f"{key}.{name}".removeprefix("."), depth + 1)
    elif isinstance(value, Tensor):
        yield key, f"{value.dtype} of {' x '.join(map(str, value.shape)) or 'one number'}"
    else:
        yield key, type(value).__name__
