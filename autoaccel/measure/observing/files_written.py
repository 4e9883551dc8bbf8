"""Which files a script writes, on which of its lines, and what is in them."""

from __future__ import annotations

import contextlib
import itertools
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from autoaccel.measure.observing import guarding
from autoaccel.measure.observing.digests import digest_of
from autoaccel.measure.observing.hooks import around
from autoaccel.measure.observing.observation import Concerns, Observation, Observer, frames
from autoaccel.measure.observing.run_record import Entry, Written
from autoaccel.measure.observing.state import entry

_DEEP = 6
_MOST = 5_000  # lines of one file
_LARGE = 16 << 20  # bytes: of larger files only the size is compared


class FilesWritten(Observer):
    """What guards see of the script's own process; without one nothing is seen."""

    def __init__(self, concerns: Concerns) -> None:
        self._concerns = concerns
        self._places: dict[str, str] = {}
        self._saved: dict[str, dict[str, Any]] = {}

    def install(self, observation: Observation) -> None:
        def written(path: str) -> None:
            if observation.here:
                self._saved.pop(path, None)
                if path not in self._places:
                    self._places[path] = place(sys._getframe(1), self._concerns)  # noqa: SLF001

        def moved(old: str, new: str) -> None:
            if observation.here:
                self._move(old, new)

        guarding.tell_of_writes(written)
        guarding.tell_of_moves(moved)

        @around(torch, "save")
        def save(plain: Callable[..., None], obj: Any, f: Any, *args: Any, **kwargs: Any) -> None:
            plain(obj, f, *args, **kwargs)
            path = f if isinstance(f, (str, os.PathLike)) else getattr(f, "name", None)  # a path has a name, too
            if observation.here and isinstance(path, (str, os.PathLike)):
                self._saved[os.path.realpath(path)] = _held(obj)

    def _move(self, old: str, new: str) -> None:
        """A file is often written beside its place, and so is a folder of them."""
        below = old + os.sep
        for path in [each for each in self._places if each.startswith(below)]:
            self._places.setdefault(new + path[len(old) :], self._places[path])
        for path in [each for each in self._saved if each == old or each.startswith(below)]:
            self._saved[new + path[len(old) :]] = self._saved.pop(path)

    def contribute(self) -> dict[str, Any]:
        return {"written": tuple(self._written(path, where) for path, where in self._places.items())}

    def _written(self, path: str, where: str) -> Written:
        if not Path(path).is_file():
            return Written(path, where, is_gone=True)
        if (saved := self._saved.get(path)) is not None:
            return Written(path, where, **saved)
        contents, is_text = _read(path)
        return Written(path, where, (), contents, is_text)


def _read(path: str) -> tuple[tuple[str, ...], bool]:
    """The lines of a text, or a hash of all bytes; and whether it is a text."""
    try:
        size = Path(path).stat().st_size
        if size > _LARGE:
            return (f"{size} bytes",), False
        data = Path(path).read_bytes()
    except OSError:
        return (), False
    try:
        lines = data.decode("utf-8").splitlines()
    except UnicodeDecodeError:
        return (digest_of(data),), False
    return (tuple(lines), True) if len(lines) <= _MOST else ((digest_of(data),), False)


def place(frame: Any, concerns: Concerns) -> str:
    """`file:line` of the innermost frame that is the project's own; empty where there is none."""
    own = (each for each in frames(frame) if concerns(each.f_code.co_filename))
    return next((f"{each.f_code.co_filename}:{each.f_lineno}" for each in own), "")


# -- what `torch.save` is given


def _held(value: Any) -> dict[str, Any]:
    """Fields of `Written`."""
    every = _leaves(value, "")
    leaves = list(itertools.islice(every, _MOST))
    if rest := [value for *_, value in every]:
        leaves.append(("…", f"{len(rest)} more", rest))
    holds = tuple(f"{key}: {kind}".removeprefix(": ") for key, kind, _ in leaves)
    with torch.device("cpu"), torch.no_grad():  # whatever the script has chosen
        numbers = [_numbers(line, value) for line, (*_, value) in zip(holds, leaves, strict=True)]
    known = zip(leaves, numbers, strict=True)
    return {
        "holds": holds,
        "contents": tuple(one.digest if one and isinstance(v, Tensor) else digest_of(v) for (*_, v), one in known),
        "numbers": tuple(each for each in numbers if each is not None),
    }


def _leaves(value: Any, key: str, depth: int = 0) -> Iterator[tuple[str, str, Any]]:
    """Each leaf: its key, what sort of value it is, and the value."""
    if isinstance(value, nn.Module):
        value = value.state_dict()
    if isinstance(value, Mapping) and depth < _DEEP:
        for name, each in value.items():
            yield from _leaves(each, f"{key}.{name}".removeprefix("."), depth + 1)
    elif isinstance(value, (list, tuple)) and any(isinstance(each, Mapping) for each in value) and depth < _DEEP:
        for number, each in enumerate(value):
            yield from _leaves(each, f"{key}[{number}]", depth + 1)
    elif isinstance(value, Tensor):
        yield key, f"{value.dtype} of {' x '.join(map(str, value.shape)) or 'one number'}", value
    else:
        yield key, type(value).__name__, value


def _numbers(line: str, value: Any) -> Entry | None:
    """What is kept of a leaf that may be rounded: of numbers with a fraction, one, several or an array of them."""
    are_numbers = isinstance(value, (list, tuple)) and any(isinstance(each, float) for each in value)
    is_array = getattr(getattr(value, "dtype", None), "kind", "") == "f"  # numpy's
    if isinstance(value, float) or is_array or (are_numbers and all(_is_real(each) for each in value)):
        with contextlib.suppress(RuntimeError, TypeError, ValueError, OverflowError):  # numbers that none can hold
            value = torch.tensor(value, dtype=torch.float64)
    is_spread = hasattr(value, "full_tensor")  # over ranks, which need not all come here
    if is_spread or not isinstance(value, Tensor) or not (value.is_floating_point() or value.is_complex()):
        return None
    return entry(line, "saved", value)


def _is_real(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
