"""Caches of `lint` as files: whole or not at all, and nothing that others wrote; reports as plain data."""

from __future__ import annotations

import io
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from hashlib import blake2b
from pathlib import Path
from typing import IO, Any

from autoaccel.rewriting.record import Failure, Range, Record, Report, TextEdit

_MAGIC = b"autoaccel cache 1"
KINDS = ("lint", "fixes", "index")  # without and with the edits that mend findings; summaries
DIGITS = 16  # in the name of a file
_MOST_BYTES = 1 << 28
_AT_ONCE = 1 << 20  # bytes
_MOST_CACHES = 8  # of versions, of each kind in one folder


def digest(data: bytes) -> str:
    return blake2b(data, digest_size=16).hexdigest()


def touched(path: str) -> int:
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return 0
    return max(status.st_mtime_ns, status.st_ctime_ns)


# -- reports as plain data


def plain(value: Any) -> Any:
    if isinstance(value, Report | Record | Failure | Range | TextEdit):
        return [plain(getattr(value, name)) for name in value.__slots__]
    return [plain(each) for each in value] if isinstance(value, tuple) else value


def built(kind: Any, values: Any) -> Any:
    parts = _PARTS.get(kind)
    if parts is None:
        return kind(*values)
    return kind(*[make(value) if make else value for make, value in zip(parts, values, strict=True)])


def _all(kind: Any) -> Callable[[Any], Any]:
    return lambda values: tuple([built(kind, each) for each in values])


_OF_PARTS: dict[str, Callable[[Any], Any]] = {
    "where": lambda value: Range(*value),
    "edits": _all(Range),
    "changes": _all(TextEdit),
    "findings": _all(Record),
    "skipped": _all(Record),
    "failures": _all(Failure),
    "fix": tuple,
    "notes": tuple,
}
_PARTS = {kind: tuple(map(_OF_PARTS.get, kind.__slots__)) for kind in (Report, Record, TextEdit)}


# -- on disk


def load(file: Path) -> dict[str, Any]:
    """The answers that `write` wrote. Raises `OSError` and `ValueError`."""
    document = read_back(file)
    if not _is_well_formed(document):
        raise ValueError("not what is written")
    return document


def read_back(file: Path) -> dict[str, Any]:
    with file.open("rb") as stream:
        data = stream.read(_MOST_BYTES)
    head, _, body = data.partition(b"\n")
    if head != heading(io.BytesIO(body)):
        raise ValueError("not what was written")
    return dict(json.loads(body))


def _is_well_formed(document: Any) -> bool:
    facts = len(document["facts"])
    return (
        all(are(str, fact, 3) for fact in document["facts"])
        and all(are(str, [each for names in lists for each in names]) for lists in document["trees"].values())
        and all(len(lists) == 3 for lists in document["trees"].values())
        and all(
            seen.count(" ") == 1 and name.count("\0") == 2 for kind, name, seen in document["facts"] if kind == "asked"
        )
        and all(
            len(answer) == 4
            and are(str, answer[:2])
            and are(int, answer[2])
            and all(0 <= number < facts for number in answer[2])
            for group in document["answers"].values()
            for answer in group.values()
        )
    )


def are(kind: type, items: list[Any], length: int | None = None) -> bool:
    return all(isinstance(each, kind) for each in items) and (length is None or len(items) == length)


def heading(body: IO[bytes]) -> bytes:
    body.seek(0)
    content = blake2b(digest_size=16)
    while part := body.read(_AT_ONCE):
        content.update(part)
    return b" ".join((_MAGIC, content.hexdigest().encode()))


def write(file: Path, body: IO[bytes]) -> None:
    """Replace a cache whole; old ones of other versions make room. Raises `OSError`."""
    folder = file.parent
    if not folder.exists():
        # In a folder of others' (`--cache-dir .`) these would hide the whole project from git.
        folder.mkdir(parents=True, exist_ok=True)
        (folder / ".gitignore").write_text("# Created by autoaccel.\n*\n")
        (folder / "CACHEDIR.TAG").write_text(
            "Signature: 8a477f597d28d172789f06886806bc55\n# A cache of autoaccel: may be deleted.\n"
        )
    temporary = folder / f".{file.name}.{os.getpid()}.tmp"
    try:
        with temporary.open("wb") as stream:
            stream.write(heading(body) + b"\n")
            body.seek(0)
            shutil.copyfileobj(body, stream, _AT_ONCE)
        temporary.replace(file)
    finally:
        temporary.unlink(missing_ok=True)
    for kind in KINDS:
        caches = sorted(_ours(folder, kind, ".json"), key=lambda each: touched(str(each)), reverse=True)
        for old in (*caches[_MOST_CACHES:], *_left_behind(folder, kind)):
            old.unlink(missing_ok=True)


def _left_behind(folder: Path, kind: str) -> list[Path]:
    """What runs that were killed did not finish."""
    an_hour_ago = time.time_ns() - 3600 * 10**9
    return [each for each in _ours(folder, f".{kind}", ".json.*.tmp") if touched(str(each)) < an_hour_ago]


def _ours(folder: Path, kind: str, after: str) -> Iterator[Path]:
    """Files that `write` names so, and no others that lie there."""
    return folder.glob(f"{kind}-{'[0-9a-f]' * DIGITS}{after}")
