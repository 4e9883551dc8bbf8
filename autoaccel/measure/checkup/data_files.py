"""What a script reads, how much of it there is, and how fast the disk gives it."""

from __future__ import annotations

import ast
import contextlib
import itertools
import mmap
import os
import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from autoaccel.measure.checkup.readings import NotApplicableError, NotReadableError

_MOST_FILES = 100_000  # looked at
_MOST_READ = 64 * 2**20  # bytes
_LONGEST = 1.0  # s
_LEAST_READ = 2**20  # bytes: less says nothing
_BLOCK = 2**20
_MOST_SAMPLED = 10_000  # files
_LONGEST_NAME = 4096


@dataclass(frozen=True, slots=True)
class DataFiles:
    """A file, or a folder with all that is in it."""

    place: Path
    size: int
    """Bytes."""
    complete: bool
    """Whether that is all of it."""


def named_in(source: str, folders: Sequence[Path], within: Path) -> list[Path]:
    """Files and folders whose names a script says, in strings, as seen from these folders, on a machine whose root is
    `within`. Raises `SyntaxError`."""
    found: dict[Path, None] = {}
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
            continue
        name = node.value.rstrip("/")
        if not 0 < len(name) <= _LONGEST_NAME or name in {".", ".."} or "\0" in name or name.endswith(".py"):
            continue
        for folder in folders:
            place = Path(os.path.abspath(folder / os.path.expanduser(name)))  # noqa: PTH111 - Path raises without a home
            # `os.path`: about names that are too long there is nothing to find out.
            if os.path.exists(within / str(place).lstrip("/")):  # noqa: PTH110
                found.setdefault(place)
                break
    return list(found)


def measured(place: Path, within: Path) -> DataFiles:
    """How much there is of it, on a machine whose root is `within`."""
    sizes = list(itertools.islice(_sizes(within / str(place).lstrip("/")), _MOST_FILES + 1))
    return DataFiles(place, sum(sizes), len(sizes) <= _MOST_FILES)


def _sizes(place: Path) -> Iterator[int]:
    for path in _files(place):
        with contextlib.suppress(OSError):
            yield path.stat().st_size


def _files(place: Path) -> Iterator[Path]:
    if place.is_file():
        yield place
    for folder, folders, names in os.walk(place):
        folders.sort()
        for name in sorted(names):
            yield Path(folder, name)


def read_rate(place: Path) -> float:
    """Bytes a second that the disk gives, past the kernel's cache, which stays as it is: what it holds is not thrown
    out. Read are blocks from all over the data in random order, as by training that shuffles, for a second at most.

    Raises `NotApplicableError` where there is too little to read, `NotReadableError` where the file system has no way
    past its cache.
    """
    blocks = _blocks(place)
    read, began = 0, time.perf_counter()
    with mmap.mmap(-1, _BLOCK) as buffer:  # aligned, as reading past the cache needs it
        for path, start in blocks:
            try:
                read += _read(path, start, buffer)
            except (OSError, AttributeError) as error:
                raise NotReadableError(f"{path}: cannot be read past the cache: {error}") from error
            if read >= _MOST_READ or time.perf_counter() - began > _LONGEST:
                break
    seconds = time.perf_counter() - began
    if read < _LEAST_READ:
        raise NotApplicableError("too little data to measure it")
    return read / seconds


def _blocks(place: Path) -> list[tuple[Path, int]]:
    """Files, and where to read in them: small ones from their start, of large ones any block."""
    draws = random.Random(0)
    paths = list(itertools.islice(_files(place), _MOST_FILES))
    found = []
    for path in draws.sample(paths, min(len(paths), _MOST_SAMPLED)):
        with contextlib.suppress(OSError):
            count = path.stat().st_size // _BLOCK
            starts = draws.sample(range(count), min(count, _MOST_READ // _BLOCK)) if count else [0]
            found += [(path, start * _BLOCK) for start in starts]
    return draws.sample(found, len(found))


def _read(path: Path, start: int, buffer: mmap.mmap) -> int:
    """How many bytes of a block were read."""
    file = os.open(path, os.O_RDONLY | os.O_DIRECT)
    try:
        return os.preadv(file, [buffer], start)
    finally:
        os.close(file)
