"""Whether git tracks what lies in a folder, told by the index of the repository: git itself need not be there."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from autoaccel.discovery import git_files

_HASHES = (20, 32)  # bytes: SHA-1, SHA-256


def is_tracked(folder: Path) -> bool:
    """Whether a file in a folder belongs to a repository: whoever may change that may have written it."""
    real = Path(os.path.realpath(folder))
    top = next((each for each in (real, *real.parents) if (each / ".git").exists()), None)
    if top is None:
        return False
    place = b"" if top == real else os.fsencode(f"{real.relative_to(top).as_posix()}/")
    git = Path(git_files(str(top)))
    return any(_has(_bytes(each), place) for each in (git / "index", *git.glob("sharedindex.*")))


def _has(index: bytes, place: bytes) -> bool:
    version = int.from_bytes(index[4:8])
    if version < 4 and place not in index:  # names stand there in full: nearly always this is all
        return False
    for size in _HASHES:
        with contextlib.suppress(IndexError, ValueError):
            if any(name.startswith(place) for name in _names(index, version, size)):
                return True
    return False


def _names(index: bytes, version: int, size: int) -> Iterator[bytes]:
    """The names in an index (gitformat-index(5)). Raises `IndexError` and `ValueError` for what is none."""
    at, name = 12, b""
    for _ in range(int.from_bytes(index[8:12])):
        start = at
        at += 40 + size  # dates, mode, owner and length of the file; its hash
        at += 4 if index[at] & 0x40 else 2  # flags
        kept = b""
        if version >= 4:
            cut = index[at] & 0x7F
            while index[at] & 0x80:
                at += 1
                cut = (cut + 1) << 7 | index[at] & 0x7F
            at += 1
            kept = name[: len(name) - cut]
        end = index.index(b"\0", at)
        name = kept + index[at:end]
        yield name
        at = end + 1 if version >= 4 else start + (end - start + 8) // 8 * 8


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""
