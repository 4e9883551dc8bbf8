"""What lies outside of the scratch copy that a run has is not changed: not one file that the run did not create itself.

The copy (`autoaccel.measure.scratch`) is what keeps the user's files as they are; this module looks after the ways out
of it: absolute paths, `..`, and links to what is too large to be copied. An audit hook sees whatever Python opens for
writing, removes or renames, before it happens; `writers` adds what opens files below Python. What is new is written
down, to be removed after the run (`scratch.settle`); a run that is about to change something else ends at once, with
no chance for the script to object. Processes that are forked, or started by `multiprocessing`, are guarded too; other
programs that the script starts are not.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import stat
import sys
import tempfile
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from types import FrameType
from typing import Any, NoReturn

from autoaccel.measure import importing
from autoaccel.measure.observing import writers
from autoaccel.measure.observing.exchange import CREATED, DOWNLOADED, Exchange, write_whole
from autoaccel.measure.observing.observation import frames
from autoaccel.measure.observing.request import Request
from autoaccel.measure.observing.run_record import RunFailure

OVERWRITES = "overwrites"

_FILLED = 0.5  # of the room beside the copy, by one file that takes the place of a link

_CHANGES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND

# Where programs leave what they can make again. Variables name folders, the rest is below the home folder.
_FREE_VARIABLES = (
    "XDG_CACHE_HOME", "TORCH_HOME", "HF_HOME", "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "MPLCONFIGDIR",
)  # fmt: skip
_FREE_AT_HOME = (".cache", ".triton", ".nv", ".config/matplotlib", "Library/Caches")
_FREE = ("/tmp", "/var/tmp", "/dev", "/proc", "/sys", "/run")

_DOWNLOADERS = (
    "gdown",
    "huggingface_hub",
    "kagglehub",
    "nltk.downloader",
    "sklearn.datasets",
    "torch.hub",
    "torch_geometric.data",
    "torchaudio.datasets",
    "torchtext.",
    "torchvision.datasets",
    "urllib.request",
)


@dataclass(frozen=True)
class Terms:
    """What a guard has to know, in whichever process of the run it is."""

    request: Request
    exchange: Exchange
    main: int
    """The script's own process."""


class Guard:
    """Decides about each change, and keeps the list of what is new.

    Every open of the script goes through this: no path objects, no exceptions.
    """

    def __init__(self, terms: Terms, stop: Callable[[RunFailure], NoReturn] | None) -> None:
        """`stop` ends the script's own process; other processes have none."""
        exchange, request = terms.exchange, terms.request
        self._terms, self._stop = terms, stop
        self._alone = request.mode != "turns"
        """Whether no other run of the script is at work at the same time."""
        self._copy = _with_separator(request.copy) if request.copy else ""
        self._places = _places(request, exchange)
        self._own: set[str] = set()
        """What processes of the run have created."""
        self.told_of_writes: list[Callable[[str], None]] = []
        self.told_of_moves: list[Callable[[str, str], None]] = []
        self._journal = os.open(exchange.created, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        self._read = 0
        self._began = exchange.request.stat().st_mtime_ns
        self._events: dict[str, Callable[..., None]] = {
            "os.remove": self._remove,
            "os.rename": self._rename,
            "os.rmdir": self._remove_folder,
            "os.mkdir": self._make,
            "os.truncate": lambda path, _: self.open(path),
            "os.chmod": self._set,
            "os.chown": self._set,
            "os.utime": self._set,
            "os.link": lambda _, path, *folders: self._make(path, 0, folders[-1] if folders else -1),
            "os.symlink": lambda _, path, folder=-1: self._make(path, 0, folder),
            "shutil.rmtree": self._remove_tree,
            "sqlite3.connect": self._connect,
        }

    def hook(self, event: str, arguments: tuple[Any, ...]) -> None:
        """What Python calls for every event that can be audited: most are none of ours."""
        if event == "open":
            if (arguments[2] or 0) & _CHANGES:
                self.open(arguments[0], keeps=not arguments[2] & os.O_TRUNC)
            return
        answer = self._events.get(event)
        if answer is not None:
            answer(*arguments)

    def open(self, path: Any, *, keeps: bool = True) -> None:
        """A file is about to be opened in order to be changed or created; `keeps` what is in it, perhaps."""
        name = _name_of(path)
        if name is not None:
            self._unlink_from_original(name, keeps)
            self._write(os.path.realpath(name))

    def _set(self, path: Any, *_: object) -> None:
        """The mode, owner or time of a file is about to be set, which of a link means the file behind it."""
        name = _name_of(path)
        if name is not None:
            self._unlink_from_original(name, keeps=True)

    def _unlink_from_original(self, name: str, keeps: bool) -> None:
        """In the copy, large files are links: a copy takes the place of one that is written through."""
        if not self._copy or not os.path.islink(name):
            return
        link, real = _entry_of(name), os.path.realpath(name)
        # Whatever its age: what is behind a link of the copy was there when the copy was made.
        if not link.startswith(self._copy) or not self._watched(real) or not os.path.isfile(real) or self._is_own(real):
            return
        if not keeps:
            os.unlink(link)
            return
        copied = f"{link}.{os.getpid()}"
        with contextlib.suppress(OSError):
            if os.path.getsize(real) <= shutil.disk_usage(self._copy).free * _FILLED:
                shutil.copy2(real, copied)
                os.replace(copied, link)
                return
        with contextlib.suppress(OSError):
            os.unlink(copied)
        self._refuse(real, "overwrite")

    # -- what is whose

    def _watched(self, path: str) -> bool:
        """Whether changes at a path matter: of the folders that are named, the innermost decides."""
        if "__pycache__" in path or path.endswith((".pyc", ".pyo")):
            return False
        return next((matters for folder, matters in self._places if path.startswith(folder)), False)

    def _is_others(self, path: str) -> bool:
        """Whether something is there that matters, and that is not of this run."""
        if not self._watched(path):
            return False
        try:
            status = os.lstat(path)
        except OSError:
            return False
        if stat.S_ISDIR(status.st_mode):
            return not self._is_own(path)
        if not (stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode)):
            return False
        if path.endswith(".lock") and status.st_size == 0:
            return False
        # What is younger than the run, and not of these processes, a program that the script started may have made.
        return (status.st_ctime_ns <= self._began or not self._alone) and not self._is_own(path)

    def _is_own(self, path: str) -> bool:
        """Whether a process of the run created it, or a folder around it."""
        size = os.fstat(self._journal).st_size
        if size > self._read:
            lines = os.pread(self._journal, size - self._read, self._read).splitlines()
            # Replaced whole, and first: threads that ask meanwhile find either what was known or all of it.
            self._own = self._own | {json.loads(line)[1] for line in lines}
            self._read = size
        own = self._own
        return path in own or path.startswith(tuple(f"{each}{os.sep}" for each in own))

    def _keep(self, path: str, verb: str) -> None:
        if self._is_others(path):
            self._refuse(path, verb)

    def _write(self, path: str) -> None:
        if self.told_of_writes and (self._watched(path) or self._is_in_copy(path)):
            for told in self.told_of_writes:
                told(path)
        if os.path.lexists(path):
            self._keep(path, "overwrite")
        else:
            self._create(path)

    def _is_in_copy(self, path: str) -> bool:
        return bool(self._copy) and path.startswith(self._copy) and "__pycache__" not in path

    def _create(self, path: str) -> None:
        """Write down what is to be removed after the run, and what stays: data that would be downloaded once more."""
        watched = self._watched(path)
        if watched or self._is_in_copy(path):
            downloads = _is_downloading(sys._getframe(1))  # noqa: SLF001
            if watched or downloads:
                kind = DOWNLOADED if downloads else CREATED
                os.write(self._journal, json.dumps([kind, path]).encode() + b"\n")

    # -- events

    def _remove(self, path: Any, folder: int = -1) -> None:
        self._keep(_entry_of(path, folder), "remove")

    def _rename(self, source: Any, target: Any, source_folder: int = -1, target_folder: int = -1) -> None:
        old, new = _entry_of(source, source_folder), _entry_of(target, target_folder)
        self._keep(old, "move")
        self._write(new)
        for told in self.told_of_moves:
            told(old, new)
        for place, folders, files in os.walk(old):
            for name in (*folders, *files):
                self._create(os.path.join(new + place[len(old) :], name))

    def _remove_folder(self, path: Any, folder: int = -1) -> None:
        entry = _entry_of(path, folder)
        if self._watched(entry) and os.path.isdir(entry) and not os.listdir(entry):
            self._keep(entry, "remove")  # any other cannot be removed

    def _make(self, path: Any, _mode: int = 0, folder: int = -1) -> None:
        entry = _entry_of(path, folder)
        if not os.path.lexists(entry):
            self._create(entry)

    def _remove_tree(self, path: Any, folder: int | None = None) -> None:
        """A folder of the copy may be a link: what it leads to is not the script's to remove. Others are removed entry
        by entry, each of which is an event of its own."""
        top = _entry_of(path, -1 if folder is None else folder)
        if not self._copy or not top.startswith(self._copy) or not os.path.islink(top):
            return
        if not os.path.realpath(top).startswith(self._copy):
            os.unlink(top)
            os.mkdir(top)

    def _connect(self, database: Any) -> None:
        path = _database(database)
        if path is not None and not os.path.lexists(path):
            for ending in ("", "-journal", "-wal", "-shm"):
                self._create(path + ending)

    def connected(self, connection: Any, database: Any) -> None:
        """A database is only read as long as nothing is written: what the connection does decides."""
        path = _database(database)
        if path is not None and self._is_others(path):
            connection.set_authorizer(writers.Authorizer(partial(self._refuse, path, "overwrite")))

    # -- the end

    def _refuse(self, path: str, verb: str) -> NoReturn:
        where, lines = _in_script(sys._getframe(1), self._terms.request.root)  # noqa: SLF001 - the documented way to see one's callers
        message = f"would {verb} {path}, which lies outside of the copy of the project that it runs in"
        failure = RunFailure(OVERWRITES, message, where, lines)
        if os.getpid() == self._terms.main and self._stop is not None:
            self._stop(failure)
        write_whole(self._terms.exchange.failure, failure.to_json())
        os.kill(self._terms.main, signal.SIGKILL)
        os._exit(1)


_guards: list[Guard] = []


def install(request: Request, exchange: Exchange, stop: Callable[[RunFailure], NoReturn]) -> None:
    """Guard this process, and those that it forks or starts by `multiprocessing`.

    Args:
        request: Names the folders that are protected, and the copy.
        exchange: Of this run.
        stop: Ends this process at once and does not return; in other processes the guard itself does that, and tells
            the process that started the run.
    """
    _install(Terms(request, exchange, os.getpid()), stop)


def tell_of_writes(told: Callable[[str], None]) -> None:
    """Have the guards of this process tell of each file that is about to be written, by its real path."""
    for guard in _guards:
        guard.told_of_writes.append(told)


def tell_of_moves(told: Callable[[str, str], None]) -> None:
    """Have the guards of this process tell of each file or folder that is about to be moved, by both paths."""
    for guard in _guards:
        guard.told_of_moves.append(told)


def guard_torch() -> None:
    """Watch what torch writes without Python; to be called once it is imported."""
    for guard in _guards:
        writers.watch_torch(guard.open)


def _install(terms: Terms, stop: Callable[[RunFailure], NoReturn] | None) -> None:
    guard = Guard(terms, stop)
    _guards.append(guard)
    sys.addaudithook(guard.hook)
    writers.watch_imports(guard.open, guard.connected)
    importing.call_in_new_processes("autoaccel guard", _install, terms, None)


# -- where a file is, and whether it is the user's


def _places(request: Request, exchange: Exchange) -> list[tuple[str, bool]]:
    """Folders, each with the separator at its end, and whether changes below them matter; inner ones first."""
    free = [*_FREE, tempfile.gettempdir(), *(os.environ.get(name, "") for name in _FREE_VARIABLES)]
    free += [os.path.expanduser(os.path.join("~", name)) for name in _FREE_AT_HOME]
    places = {_with_separator(folder): False for folder in free if folder}
    places |= {_with_separator(folder): True for folder in request.protected}
    places |= {_with_separator(folder): False for folder in (str(exchange.folder), request.copy) if folder}
    return sorted(places.items(), key=lambda place: len(place[0]), reverse=True)


def _with_separator(folder: str) -> str:
    return os.path.realpath(folder).rstrip(os.sep) + os.sep


def _name_of(path: Any) -> str | None:
    """A path as text; None for a file that is already open."""
    if isinstance(path, int):
        return None
    try:
        return os.fsdecode(path)
    except TypeError:
        return None


def _entry_of(path: Any, folder: int = -1) -> str:
    """Where an entry of a folder is: links on the way are followed, but it may be a link itself."""
    name = os.fsdecode(path)
    if folder >= 0 and not os.path.isabs(name):
        name = os.path.join(f"/proc/self/fd/{folder}" if sys.platform == "linux" else f"/dev/fd/{folder}", name)
    head, tail = os.path.split(name.rstrip(os.sep))
    return os.path.join(os.path.realpath(head or os.curdir), tail)


def _database(database: Any) -> str | None:
    name = _name_of(database)
    if name is None or name in ("", ":memory:"):
        return None
    return os.path.realpath(name[len("file:") :].partition("?")[0] if name.startswith("file:") else name)


# -- who is about to do something: what the frames of the caller say


def _in_script(frame: FrameType | None, root: str) -> tuple[str, str]:
    """`file:line` of the innermost frame that is the project's own, which lies below `root`, and the traceback of all
    that are."""
    below = root.rstrip(os.sep) + os.sep
    own = [each for each in frames(frame) if os.path.realpath(each.f_code.co_filename).startswith(below)]
    if not own:
        return "", ""
    lines = traceback.StackSummary.extract((each, each.f_lineno) for each in reversed(own)).format()
    where = f"{own[0].f_code.co_filename}:{own[0].f_lineno}"
    return where, "Traceback (most recent call last):\n" + "".join(lines)


def _is_downloading(frame: FrameType | None) -> bool:
    """Whether a library gets data that it will not get again if it is there: that stays, as after any run."""
    return any(str(each.f_globals.get("__name__")).startswith(_DOWNLOADERS) for each in frames(frame))
