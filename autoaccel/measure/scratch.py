"""A copy of the working directory for one run, which may write there what it likes.

Small files are copied. Large ones, and what is beyond the limits, are links: the guard in the observed process puts a
copy in place of a link before the script writes through it. The copy lies under a path that ends as the original's
does, with links to what lies around it, so that `../data` leads to the data.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from autoaccel.measure import keeping
from autoaccel.measure.observing.paths import COPY
from autoaccel.measure.observing.record import Record
from autoaccel.measure.observing.request import Request

_LARGE = 4 << 20
_ABOVE = 3  # folders above the copy that are there, too
_LEFT_OUT = frozenset({"__pycache__", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".autoaccel_cache"})
_LINKED = frozenset({".git", ".hg", ".svn", "node_modules", "site-packages"})
_ENVIRONMENTS = ("pyvenv.cfg", "conda-meta")


@dataclass
class _Budget:
    """What is left to be spent; afterwards files become links, and then folders do."""

    data: int = 256 << 20
    files: int = 20_000
    entries: int = 100_000

    def can_copy(self, size: int) -> bool:
        if size > min(_LARGE, self.data) or self.files <= 0:
            return False
        self.data -= size
        self.files -= 1
        return True


@dataclass(frozen=True)
class Scratch:
    """Where the copy is, and the way there and back for what is asked of a run and what it says."""

    original: Path
    """The folder that was copied, by its real path: the working directory or, around it, the project."""
    copy: Path
    folder: Path
    """The working directory of the run."""

    def request(self, request: Request) -> Request:
        """The request for a run in the copy."""
        root = self._there(os.path.realpath(request.root)) if request.root else ""
        script = request.script if request.is_module else self._there(request.script)
        arguments = tuple(map(self._argument, request.arguments))
        texts = request.texts | {self._there(path): text for path, text in request.texts.items()}
        return dataclasses.replace(
            request, script=script, arguments=arguments, root=root, texts=texts, origin=str(self.original)
        )

    def record(self, record: Record) -> Record:
        """The record as if the run had been made in the original; temporary folders have random names."""
        original, copy = (json.dumps(str(path))[1:-1] for path in (self.original, self.copy))
        return Record.from_json(record.to_json().replace(copy, original))

    def _there(self, path: str) -> str:
        """An absolute path below the original as one below the copy; others as they are."""
        if not Path(path).is_absolute():
            return path
        real = Path(os.path.realpath(path))
        return str(self.copy / real.relative_to(self.original)) if real.is_relative_to(self.original) else path

    def _argument(self, text: str) -> str:
        option, separator, value = text.rpartition("=")
        return option + separator + self._there(value)


@contextlib.contextmanager
def copy(folder: Path, root: Path) -> Iterator[Scratch]:
    """Copy the working directory, or the project if it lies inside; the copy is gone at the end.

    `folder` is the working directory and `root` the folder of the project.
    """
    real, project = Path(os.path.realpath(folder)), Path(os.path.realpath(root))
    original = project if real.is_relative_to(project) else real
    base = Path(os.path.realpath(tempfile.mkdtemp(prefix=COPY)))
    keeping.remember(base)
    try:
        place = _surroundings(original, base)
        _copy_folder(original, place, _Copying(original, place, base, _Budget()))
        yield Scratch(original, place, place / real.relative_to(original))
    finally:
        shutil.rmtree(base, ignore_errors=True)
        keeping.forget(base)


@dataclass(frozen=True)
class _Copying:
    original: Path
    copy: Path
    base: Path
    budget: _Budget


def _surroundings(original: Path, base: Path) -> Path:
    """The folders above, with links to what is in them; where the copy belongs."""
    place = base
    for outer in list(original.parents)[_ABOVE - 1 :: -1]:
        place = place / outer.name
        place.mkdir(exist_ok=True)
        with contextlib.suppress(OSError), os.scandir(outer) as entries:
            for entry in entries:
                # The next folder of the way is real, and neither leads into the other.
                if Path(entry.path) not in (original, *original.parents, base, *base.parents):
                    _link(entry.path, place / entry.name)
    return place / original.name


def _copy_folder(original: Path, place: Path, copying: _Copying) -> None:
    place.mkdir()
    with contextlib.suppress(OSError), os.scandir(original) as entries:
        for entry in entries:
            copying.budget.entries -= 1
            _copy_entry(entry, place / entry.name, copying)
    with contextlib.suppress(OSError):
        shutil.copystat(original, place)


def _copy_entry(entry: os.DirEntry[str], place: Path, copying: _Copying) -> None:
    if entry.is_symlink():
        place.symlink_to(_target(Path(entry.path), copying))
    elif entry.is_dir():
        if entry.name in _LEFT_OUT or Path(entry.path) == copying.base:
            return
        if entry.name in _LINKED or copying.budget.entries <= 0 or _is_environment(entry.path):
            _link(entry.path, place)
        else:
            _copy_folder(Path(entry.path), place, copying)
    elif entry.is_file():
        # Code is found by where it really is: a link would lead back.
        if copying.budget.can_copy(entry.stat().st_size) or entry.name.endswith(".py"):
            with contextlib.suppress(PermissionError):
                shutil.copy2(entry.path, place)
        else:
            _link(entry.path, place)


def _target(link: Path, copying: _Copying) -> str:
    """Where a link leads: what was inside of the original is inside of the copy."""
    path = link.readlink()
    if path.is_relative_to(copying.original):
        path = copying.copy / path.relative_to(copying.original)
    return str(path)


def _is_environment(path: str) -> bool:
    return any(os.path.exists(os.path.join(path, name)) for name in _ENVIRONMENTS)  # noqa: PTH110, PTH118


def _link(path: str, place: Path) -> None:
    with contextlib.suppress(FileExistsError):
        place.symlink_to(path)
