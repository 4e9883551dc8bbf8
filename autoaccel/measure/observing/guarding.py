"""Files that were there before the run are there, unchanged, after it.

An audit hook sees whatever Python opens for writing, removes or renames, before it happens; `writers` adds what opens
files below Python. A run that is about to change an older file ends instead, with no chance for the script to object.
What is new is written down, so that it can be removed after the run. Processes that are forked, or started by
`multiprocessing`, are guarded too; other programs that the script starts are not.
"""

from __future__ import annotations

import json
import multiprocessing.spawn
import os
import shutil
import signal
import stat
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from autoaccel.measure.observing import callers, paths, writers
from autoaccel.measure.observing.exchange import FILE, FOLDER, KEPT, REMOVED_FOLDER, Exchange, write_whole
from autoaccel.measure.observing.record import Failure

OVERWRITES = "overwrites"

_CHANGES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


class Guard:
    """Decides about each change, and keeps the list of what is new."""

    def __init__(
        self,
        protected: Sequence[str],
        exchange: Exchange,
        main: int,
        stop: Callable[[Failure], NoReturn] | None,
        *,
        alone: bool,
    ) -> None:
        self._exchange = exchange
        self._here = os.path.realpath(os.curdir) + os.sep  # the script may leave it
        self._alone = alone
        """Whether no other run is at work in the same folders."""
        self._main = main
        """The script's own process, which alone can `stop`."""
        self._stop = stop
        self._places = paths.places(protected, exchange)
        self._copied = f"{os.sep}{paths.COPY}" in self._here
        """Whether links may be ours: only in a scratch copy are they replaced."""
        self._new: dict[str, str] = {}
        self._journal = os.open(exchange.written, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        self._read = 0
        self._began = os.stat(exchange.request).st_mtime_ns  # noqa: PTH116 - no objects in what every open goes through
        self._events: dict[str, Callable[..., None]] = {
            "os.remove": self._remove,
            "os.rename": self._rename,
            "os.rmdir": self._remove_folder,
            "os.mkdir": self._make_folder,
            "os.truncate": self._truncate,
            "os.link": self._link,
            "os.symlink": self._link,
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
        name = paths.name_of(path)
        if name is not None:
            self._part(name, keeps)
            self._write(os.path.realpath(name), "overwrite")

    def _part(self, name: str, keeps: bool) -> None:
        """In a scratch copy, large files are links: a copy takes the place of one that is written through."""
        if not self._copied or not os.path.islink(name):  # noqa: PTH114
            return
        link, real = paths.entry_of(name), os.path.realpath(name)
        if self._watched(link) or not self._is_old(real):
            return
        if keeps:
            shutil.copy2(real, f"{link}.{os.getpid()}")
            os.replace(f"{link}.{os.getpid()}", link)  # noqa: PTH105
        else:
            os.unlink(link)  # noqa: PTH108

    def written(self) -> tuple[str, ...]:
        """The files that are new, of all processes."""
        self._catch_up()
        return tuple(sorted(path for path, kind in list(self._new.items()) if kind == FILE and os.path.lexists(path)))

    def _write(self, path: str, verb: str) -> None:
        if not self._watched(path):
            return
        if os.path.lexists(path):
            self._keep(path, verb)
        else:
            self._note(FILE, path)

    def _keep(self, path: str, verb: str) -> None:
        """The run ends here if a file is older than it."""
        if self._is_old(path):
            self._refuse(path, verb)
        elif not self._alone and self._is_old(path, others=True):
            self._refuse(path, verb, "another run created")

    def _is_old(self, path: str, *, others: bool = False) -> bool:
        """Whether a file was there before the run; with `others` also what the run did not create itself."""
        if not self._watched(path) or self._is_new(path):
            return False
        try:
            status = os.lstat(path)
        except OSError:
            return False
        if stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode):
            # What is younger, and not of these processes, a program that the script started may have made.
            aged = others or status.st_ctime_ns <= self._began
            return aged and not (path.endswith(".lock") and status.st_size == 0)
        return False

    def _watched(self, path: str) -> bool:
        """Whether changes at a path matter: of the folders that are named, the innermost decides."""
        if "__pycache__" in path or path.endswith((".pyc", ".pyo")):
            return False
        return next((matters for folder, matters in self._places if path.startswith(folder)), False)

    def _is_new(self, path: str) -> bool:
        if path in self._new:
            return True
        self._catch_up()
        return path in self._new

    def _catch_up(self) -> None:
        """Read what other processes of the run wrote down."""
        size = os.fstat(self._journal).st_size
        if size > self._read:
            text = os.pread(self._journal, size - self._read, self._read)
            self._read = size
            for line in text.splitlines():
                kind, path = json.loads(line)
                if kind != REMOVED_FOLDER:
                    self._new[path] = kind

    def _note(self, kind: str, path: str) -> None:
        if callers.is_downloading(sys._getframe(1)):  # noqa: SLF001
            kind = KEPT
        if self._new.get(path) != kind:
            self._new[path] = kind
            self._write_down(kind, path)

    def _write_down(self, kind: str, path: str) -> None:
        os.write(self._journal, json.dumps([kind, path]).encode() + b"\n")

    # -- events

    def _remove(self, path: Any, folder: int = -1) -> None:
        self._keep(paths.entry_of(path, folder), "remove")

    def _rename(self, source: Any, target: Any, source_folder: int = -1, target_folder: int = -1) -> None:
        old, new = paths.entry_of(source, source_folder), paths.entry_of(target, target_folder)
        if os.path.isdir(old):  # noqa: PTH112
            if self._watched(old) and not self._is_new(old):
                self._refuse(old, "move")
            for path, kind in [(old, FOLDER), *self._new.items()] if self._watched(new) else ():
                if path == old or path.startswith(old + os.sep):
                    self._note(kind, new + path[len(old) :])
            return
        self._keep(old, "move")
        self._write(new, "overwrite")

    def _remove_folder(self, path: Any, folder: int = -1) -> None:
        entry = paths.entry_of(path, folder)
        if self._watched(entry) and not self._is_new(entry):
            self._write_down(REMOVED_FOLDER, entry)  # only an empty one can be removed: it is made again after the run

    def _make_folder(self, path: Any, _mode: int = 0, folder: int = -1) -> None:
        entry = paths.entry_of(path, folder)
        if self._watched(entry) and not os.path.lexists(entry):
            self._note(FOLDER, entry)

    def _truncate(self, path: Any, _length: int = 0) -> None:
        self.open(path)

    def _link(self, _source: Any, target: Any, *folders: int) -> None:
        entry = paths.entry_of(target, folders[-1] if folders else -1)
        if self._watched(entry) and not os.path.lexists(entry):
            self._note(FILE, entry)

    def _remove_tree(self, path: Any, folder: int | None = None) -> None:
        top = paths.entry_of(path, -1 if folder is None else folder)
        if self._copied and os.path.islink(top) and not self._watched(top) and self._watched(os.path.realpath(top)):  # noqa: PTH114
            os.unlink(top)  # noqa: PTH108 - a folder of a scratch copy: what it leads to is not the script's to remove
            os.mkdir(top)  # noqa: PTH102
        if not self._watched(top):
            return
        for place, _, files in os.walk(top):
            for name in files:
                self._keep(os.path.join(place, name), "remove")  # noqa: PTH118

    def _connect(self, database: Any) -> None:
        path = self._database(database)
        if path is not None and self._watched(path) and not os.path.lexists(path):
            for ending in ("", "-journal", "-wal", "-shm"):
                self._note(FILE, path + ending)

    def connected(self, connection: Any, database: Any) -> None:
        """A database is only read as long as nothing is written: what the connection does decides."""
        path = self._database(database)
        if path is not None and self._is_old(path):
            connection.set_authorizer(writers.Authorizer(partial(self._refuse, path, "overwrite")))

    def _database(self, database: Any) -> str | None:
        name = paths.name_of(database)
        if name is None or name in ("", ":memory:"):
            return None
        return os.path.realpath(name[len("file:") :].partition("?")[0] if name.startswith("file:") else name)

    # -- the end

    def _refuse(self, path: str, verb: str, why: str = "was there before the run") -> NoReturn:
        where, lines = callers.in_script(sys._getframe(1))  # noqa: SLF001 - the documented way to see one's callers
        inside = path.startswith(self._here)
        shown, remedy = (path[len(self._here) :], "; --scratch runs in a copy") if inside else (path, "")
        message = f"would {verb} {shown}, which {why}{remedy}"
        failure = Failure(OVERWRITES, message, where, lines)
        if os.getpid() == self._main and self._stop is not None:
            self._stop(failure)
        content = {"kind": failure.kind, "message": message, "where": where, "traceback": lines}
        write_whole(self._exchange.failure, json.dumps(content))
        os.kill(self._main, signal.SIGKILL)
        os._exit(1)


_guards: list[Guard] = []


def install(
    protected: Sequence[str], exchange: Exchange, stop: Callable[[Failure], NoReturn], *, alone: bool = True
) -> None:
    """Guard this process, and those that it forks or starts by `multiprocessing`.

    `stop` ends this process at once and does not return; in other processes the guard itself does that, and tells the
    process that started the run. Where the run is not `alone`, what others create at the same time is not its own.
    """
    _install(protected, exchange, os.getpid(), stop, alone=alone)


def guard_torch() -> None:
    """Watch what torch writes without Python; to be called once it is imported."""
    for guard in _guards:
        writers.watch_torch(guard.open)


def written() -> tuple[str, ...]:
    """The files that the run created, in all of its processes."""
    return tuple(path for guard in _guards for path in guard.written())


def _install(
    protected: Sequence[str],
    exchange: Exchange,
    main: int,
    stop: Callable[[Failure], NoReturn] | None,
    *,
    alone: bool,
) -> None:
    guard = Guard(protected, exchange, main, stop, alone=alone)
    _guards.append(guard)
    sys.addaudithook(guard.hook)
    writers.watch_imports(guard.open, guard.connected)
    prepare = multiprocessing.spawn.get_preparation_data

    def prepared(name: str) -> dict[str, Any]:
        # A key of its own, which the new process unpickles and otherwise ignores.
        return {"autoaccel guard": _InNewProcess(tuple(protected), str(exchange.folder), main, alone), **prepare(name)}

    vars(multiprocessing.spawn)["get_preparation_data"] = prepared


class _InNewProcess:
    """Guards the process in which it is unpickled."""

    def __init__(self, protected: tuple[str, ...], folder: str, main: int, alone: bool) -> None:
        self._arguments = protected, folder, main, alone

    def __reduce__(self) -> tuple[Callable[..., None], tuple[tuple[str, ...], str, int, bool]]:
        return _install_in_new_process, self._arguments


def _install_in_new_process(protected: tuple[str, ...], folder: str, main: int, alone: bool) -> None:
    _install(protected, Exchange(Path(folder)), main, None, alone=alone)
