"""The tool's side of the process that observed runs are forked from, where processes can be."""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import select
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from autoaccel.measure import watchdog, watchdog_client
from autoaccel.measure.observing.forking import MOST

_PACKAGE = Path(__file__).resolve().parent.parent
_CHILD = Path("measure", "observing", "__main__.py")
_PATIENCE = 120.0  # s in which torch can be imported
_OF_A_RUN = ("AUTOACCEL_", "RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_")
"""How variables begin that nothing reads while torch is imported."""
_POSSIBLE = sys.platform == "linux" and hasattr(os, "pidfd_open")


def command(python: str, imports: Path) -> list[str]:
    """What runs are started by, without their arguments. `imports` becomes a folder that makes this very package
    importable, and nothing that happens to lie beside it."""
    imports.mkdir(exist_ok=True)
    package = imports / _PACKAGE.name
    package.symlink_to(_PACKAGE, target_is_directory=True)
    return [python, str(package / _CHILD)]


def importing(environment: Mapping[str, str], imports: Path) -> dict[str, str]:
    """An environment in which a folder is imported from first."""
    paths = [str(imports), *filter(None, [environment.get("PYTHONPATH")])]
    return {**environment, "PYTHONPATH": os.pathsep.join(paths)}


class Forked:
    """A process whose parent is the server; what `subprocess.Popen` calls the same does the same."""

    def __init__(self, pid: int, status: int) -> None:
        self.pid = pid
        self._status = status
        self._over: int | None = None

    def poll(self) -> int | None:
        if self._over is None and select.select([self._status], [], [], 0)[0]:
            # Nothing is written where the server was killed.
            self._over = int(os.read(self._status, 16) or b"-9")
            os.close(self._status)
        return self._over

    def wait(self, timeout: float | None = None) -> int:
        if self._over is None:
            select.select([self._status], [], [], timeout)
        if (status := self.poll()) is None:
            raise subprocess.TimeoutExpired("fork", timeout or 0.0)
        return status

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)


class ForkServer:
    """One server: for one interpreter and one environment."""

    def __init__(self, python: str, environment: Mapping[str, str], folder: Path) -> None:
        """`environment` is all of it, and `folder` where relative paths in it begin."""
        self._watchdog = watchdog_client.watchdog_of_this_process()
        self._imports = Path(tempfile.mkdtemp(prefix="autoaccel-"))
        self._watchdog.tell("folder", self._imports)
        self._gone = False
        self.ready: float | None = None
        """Seconds from its start to the end of the import of torch, once it is ready."""
        self._channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._channel.settimeout(_PATIENCE)
        self._program = command(python, self._imports)
        try:
            with theirs:
                self._process = subprocess.Popen(
                    [*self._program, "--serve", str(theirs.fileno()), watchdog.MARK],
                    cwd=folder,
                    env={**importing(environment, self._imports), watchdog.MARK: watchdog_client.name_of(0)},
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    pass_fds=[theirs.fileno()],
                    start_new_session=True,
                )
        except BaseException:
            self._channel.close()
            self._remove()
            raise
        self._watchdog.tell("group", self._process.pid)

    def fork(
        self,
        arguments: Sequence[str],
        *,
        environment: Mapping[str, str],
        folder: Path,
        beside: Path,
        files: Sequence[int],
    ) -> Forked | None:
        """Start a run; None where the server cannot. `beside` is where the script imports from first, `files` are its
        three standard streams and pipes, whose numbers there become its last arguments."""
        if self._gone:
            return None
        asked = {
            "command": [*self._program, *arguments],
            "environment": importing(environment, self._imports),
            "folder": str(folder),
            "beside": str(beside),
        }
        status, for_status = os.pipe()
        try:
            self.wait()
            socket.send_fds(self._channel, [json.dumps(asked).encode()], [for_status, *files])
            answer = self._channel.recv(MOST)
        except OSError:  # it took too long, or the environment is too long
            answer = b""
        except BaseException:  # an interrupt: its answer would be taken for that to another question
            self._gone = True
            os.close(status)
            raise
        finally:
            os.close(for_status)
        if answer:
            return Forked(int(answer), status)
        os.close(status)
        self._gone = True
        return None

    def wait(self) -> None:
        """Until it is ready. Raises `OSError` where it is not going to be."""
        if self.ready is None:
            if not (answer := self._channel.recv(MOST)):
                raise ConnectionError("torch could not be imported")
            self.ready = float(answer)

    def close(self) -> None:
        """End it; runs that go on are left alone."""
        self._channel.close()
        if self.ready is None:
            self._process.kill()
        try:
            self._process.wait(1)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._watchdog.tell("ended", self._process.pid)
        self._remove()

    def _remove(self) -> None:
        shutil.rmtree(self._imports, ignore_errors=True)
        self._watchdog.tell("gone", self._imports)


_servers: dict[object, ForkServer] = {}
"""The latest one, by what it was started with."""


def server_for(python: str, environment: Mapping[str, str], folder: Path) -> ForkServer | None:
    """The server for runs under an interpreter, with an environment; the one before it is closed. None where processes
    cannot be forked."""
    if not _POSSIBLE:
        return None
    read = {name: value for name, value in environment.items() if not name.startswith(_OF_A_RUN)}
    paths = environment.get("PYTHONPATH", "").split(os.pathsep)
    started_with = (python, *sorted(read.items()), *([] if all(map(os.path.isabs, filter(None, paths))) else [folder]))
    if started_with not in _servers:
        close()
        _servers[started_with] = ForkServer(python, environment, folder)
    return _servers[started_with]


def close() -> None:
    """Close the server, if there is one."""
    while _servers:
        _servers.popitem()[1].close()


atexit.register(close)
