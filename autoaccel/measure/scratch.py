"""A copy of the project, in which every trial runs and may write what it likes.

Small files are copied. Large ones, and what is beyond the limits, are links: the guard in the observed process
(`observing.guarding`) puts a copy in place of a link before the script writes through it, and sees to it that nothing
outside is changed. The copy lies under a path that ends as the original's does, with links to what lies around it, so
that `../data` leads to the data. One copy serves one run after the other: what a run leaves there is undone.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import json
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path

from autoaccel.measure import watchdog_client
from autoaccel.measure.observing.exchange import CREATED, DOWNLOADED, Exchange
from autoaccel.measure.observing.request import Request
from autoaccel.measure.observing.run_record import RunRecord

_LARGE = 4 << 20
_MOST_ENTRIES = 100_000
_ABOVE = 3  # folders above the copy that are there, too
_LEFT_OUT = frozenset({".mypy_cache", ".pytest_cache", ".ruff_cache", ".autoaccel_cache"})
_LINKED = frozenset({".git", ".hg", ".svn", "__pycache__", "node_modules", "site-packages"})
_ENVIRONMENTS = ("pyvenv.cfg", "conda-meta")


class ScratchError(ValueError):
    """No copy can be made; the message is one line."""


@dataclasses.dataclass
class _Budget:
    """What is left to be spent; afterwards files become links, and then folders do."""

    data: int = 256 << 20
    files: int = 20_000
    entries: int = _MOST_ENTRIES

    def can_copy(self, entry: os.DirEntry[str]) -> bool:
        is_code = entry.name.endswith(".py")  # found by where it really is: a link would lead back
        if self.files <= 0 and not is_code:
            return False
        size = entry.stat().st_size
        if size > min(_LARGE, self.data) and not is_code:
            return False
        self.data -= size
        self.files -= 1
        return True


class Scratch:
    """Where the copy is, and the way there and back for what is asked of a run and what it says."""

    def __init__(self, original: Path, folder: Path, base: Path) -> None:
        """Make the copy. Raises `ScratchError`.

        Args:
            original: What is copied, by its real path: the working directory or, around it, the project.
            folder: The working directory of the user, by its real path.
            base: An empty temporary folder.
        """
        self.original = original
        self.copy = _place(original, base)
        self.folder = self.copy / folder.relative_to(original)
        """The working directory of the run."""
        self._base = base
        self._made = 0
        """When the copy was as it should be, in nanoseconds since the epoch."""
        self._budget = _Budget()
        self._way = frozenset(map(str, (folder, *folder.parents)))
        self._ways = self._way | set(map(str, (base, *base.parents)))
        """The folders that lead to the working directory, and to the copy as well."""
        self.restore()

    def restore(self) -> None:
        """Undo what a run did to the copy, which otherwise stays as the original was when it was made.

        What need not be made again is paid for, too: the same files are links every time. Raises `ScratchError`.
        """
        self._budget = _Budget()
        try:
            for outer in reversed(self.original.parents[:_ABOVE]):
                self._surround(str(outer), str(_place(self.original, self._base, outer)))
            entries = self._entries(str(self.original)) or ()
            if _holds_everything(self.original):  # only what lies in it directly
                self._budget.entries = 0
            self._fill(str(self.original), entries, str(self.copy))
        except OSError as error:
            raise ScratchError(f"cannot be run in a copy of {self.original}: {error.strerror or error}") from error
        self._made = time.time_ns()

    # Thousands of files are looked at before every run: no path objects from here on.

    def _surround(self, outer: str, place: str) -> None:
        """Links to what lies in a folder above the original, unless that is too much or cannot be told."""
        _make_folder(place)
        with contextlib.suppress(OSError):
            entries = _listed(outer, _MOST_ENTRIES) or ()
            _remove_others(place, entries)
            for entry in entries:
                # The next folder of the way is real, and neither leads into the other.
                if entry.path not in self._ways:
                    self._link(entry.path, f"{place}/{entry.name}")

    def _entries(self, folder: str) -> Sequence[os.DirEntry[str]] | None:
        """What is in a folder of the original; None for one that becomes a link. Raises `ScratchError`."""
        if folder not in self._way:
            with contextlib.suppress(OSError):
                return None if _is_environment(folder) else _listed(folder, self._budget.entries)
            return None
        entries = _listed(folder, _MOST_ENTRIES)
        if entries is None:
            raise ScratchError(
                f"would run in a copy of {folder}, which holds more than {_MOST_ENTRIES:,} entries; "
                "start it from a folder of its own"
            )
        return entries

    def _fill(self, original: str, entries: Sequence[os.DirEntry[str]], place: str) -> None:
        self._budget.entries -= len(entries)
        _make_folder(place)
        _remove_others(place, entries)
        for entry in entries:
            with contextlib.suppress(FileNotFoundError):  # gone in the meantime
                self._put(entry, f"{place}/{entry.name}")
        with contextlib.suppress(OSError):
            shutil.copystat(original, place)
            os.chmod(place, stat.S_IMODE(os.lstat(place).st_mode) | stat.S_IRWXU)  # it is to be restored and removed

    def _put(self, entry: os.DirEntry[str], place: str) -> None:
        if entry.is_symlink():
            self._link(self._target(Path(entry.path)), place)
        elif entry.is_dir():
            if entry.name in _LEFT_OUT or entry.path == str(self._base):
                _remove(place)
                return
            is_linked = entry.name in _LINKED and entry.path not in self._way
            entries = None if is_linked else self._entries(entry.path)
            if entries is None:
                self._link(entry.path, place)
            else:
                self._fill(entry.path, entries, place)
        elif entry.is_file():
            if not self._budget.can_copy(entry):
                self._link(entry.path, place)
            elif self._is_to_be_made(place):
                try:
                    shutil.copy2(entry.path, place)
                except OSError:  # what cannot be read, and a disk that is full
                    _remove(place)
                    os.symlink(entry.path, place)

    def _link(self, target: str, place: str) -> None:
        if self._is_to_be_made(place):
            os.symlink(target, place)

    def _is_to_be_made(self, place: str) -> bool:
        """Whether a file or link of the copy is not what it was; what is there instead goes."""
        try:
            status = os.lstat(place)
        except OSError:
            return True
        if stat.S_ISDIR(status.st_mode) or status.st_ctime_ns > self._made:
            _remove(place)
            return True
        return False

    def _target(self, link: Path) -> str:
        """Where a link leads: what was inside of the original is inside of the copy."""
        path = link.readlink()
        return str(self.copy / path.relative_to(self.original) if path.is_relative_to(self.original) else path)

    # -- there and back

    def request(self, request: Request) -> Request:
        """The request for a run in the copy."""
        root = self._there(os.path.realpath(request.root)) if request.root else ""
        script = request.script if request.is_module else self._there(request.script)
        arguments = tuple(map(self._argument, request.arguments))
        texts = request.texts | {self._there(path): text for path, text in request.texts.items()}
        request = dataclasses.replace(request, origin=str(self.original), copy=str(self._base))
        return dataclasses.replace(request, script=script, arguments=arguments, root=root, texts=texts)

    def record(self, record: RunRecord) -> RunRecord:
        """The record as if the run had been made in the original."""
        return RunRecord.from_json(self.told(record.to_json()))

    def told(self, text: str) -> str:
        """JSON that speaks of the original instead of the copy: temporary folders have random names."""
        original, copy = (json.dumps(str(path))[1:-1] for path in (self.original, self.copy))
        return text.replace(copy, original)

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
    """Copy the working directory, or the project if it lies inside; the copy is gone at the end. Raises `ScratchError`.

    Args:
        folder: The working directory.
        root: The folder of the project.
    """
    real, project = Path(os.path.realpath(folder)), Path(os.path.realpath(root))
    within = real.is_relative_to(project) and not _holds_everything(project)
    base = Path(os.path.realpath(tempfile.mkdtemp(prefix="autoaccel-scratch-")))
    watchdog_client.remember(base)
    try:
        yield Scratch(project if within else real, real, base)
    finally:
        shutil.rmtree(base, ignore_errors=True)
        watchdog_client.forget(base)


def settle(exchange: Exchange) -> None:
    """See to what a run created beside changing its copy: what it downloaded comes to where the script would have it,
    for the next run; all else is removed. What was moved into a new folder from elsewhere stays there."""
    try:
        began = exchange.request.stat().st_mtime
        request = Request.from_json(exchange.request.read_text(encoding="utf-8"))
        lines = exchange.created.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError, TypeError):  # it has not begun
        return
    entries: list[tuple[str, str]] = []
    for line in lines:
        with contextlib.suppress(ValueError):  # the last one may be incomplete
            kind, path = json.loads(line)
            entries.append((kind, path))
    downloaded = {path for kind, path in entries if kind == DOWNLOADED}
    for path in downloaded:
        if request.copy and path.startswith(request.copy + os.sep):
            _bring_home(Path(path), Path(request.origin), Path(request.copy))
    created = {path for kind, path in entries if kind == CREATED}
    for path in sorted(created, key=len, reverse=True):
        _remove_created(path, began, downloaded)


def _bring_home(path: Path, original: Path, base: Path) -> None:
    above = original.parents[_ABOVE] if len(original.parents) > _ABOVE else Path(original.anchor)
    place = above / path.relative_to(base)
    with contextlib.suppress(OSError):
        if path.is_dir() and not path.is_symlink():
            place.mkdir(parents=True, exist_ok=True)
        elif os.path.lexists(path) and not os.path.lexists(place):
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.move(path, place)


def _remove_created(path: str, began: float, downloaded: Collection[str]) -> None:
    """A file, or a folder with what is new in it: what programs that nobody watched wrote there, too."""
    if os.path.isdir(path) and not os.path.islink(path):
        for place, folders, files in os.walk(path, topdown=False):
            for name in files:
                file = Path(place, name)
                with contextlib.suppress(OSError):
                    if str(file) not in downloaded and file.lstat().st_mtime >= began:
                        file.unlink()
            _remove_empty(Path(place, name) for name in folders)
        _remove_empty([Path(path)])
    else:
        with contextlib.suppress(OSError):
            os.unlink(path)  # a link, not what it leads to


def _remove_empty(folders: Iterable[Path]) -> None:
    for folder in folders:
        with contextlib.suppress(OSError):
            folder.rmdir()


def _place(original: Path, base: Path, outer: Path | None = None) -> Path:
    """Where in the temporary folder the original is, or a folder above it."""
    below = original.parts[1:][-1 - _ABOVE :]
    above = 0 if outer is None else len(original.parts) - len(outer.parts)
    return base.joinpath(*below[: len(below) - above])


def _holds_everything(folder: Path) -> bool:
    """Whether it is the home folder or the root: of those only what lies in them directly is copied."""
    return str(folder) in (os.sep, os.path.realpath(os.path.expanduser("~")))


def _listed(folder: str, most: int) -> Sequence[os.DirEntry[str]] | None:
    """What is in a folder, by name; None where it is more than `most`."""
    with os.scandir(folder) as entries:
        found = list(itertools.islice(entries, max(most, 0) + 1))
    return None if len(found) > most else sorted(found, key=lambda entry: entry.name)


def _make_folder(place: str) -> None:
    if os.path.islink(place) or not os.path.isdir(place):
        _remove(place)
        os.mkdir(place)


def _remove_others(place: str, entries: Sequence[os.DirEntry[str]]) -> None:
    """What is in a folder of the copy and not in the original."""
    names = {entry.name for entry in entries}
    for name in os.listdir(place):
        if name not in names:
            _remove(f"{place}/{name}")


def _remove(place: str) -> None:
    if os.path.isdir(place) and not os.path.islink(place):
        shutil.rmtree(place, ignore_errors=True)
    else:
        with contextlib.suppress(OSError):
            os.unlink(place)


def _is_environment(path: str) -> bool:
    return any(os.path.exists(os.path.join(path, name)) for name in _ENVIRONMENTS)
