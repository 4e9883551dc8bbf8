"""Runs of scripts, each in a process that is forked from one that has torch: importing it takes longer than a turn.

A server has imported torch and nothing of the scripts, and no thread of it runs but its main one. A fork has its memory
where the server has it, so all forks of one server are alike, and forks of another one are laid out differently: what
lasts for the life of a process shows between servers, not between the columns of one.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn, Protocol

from autoaccel.measure import launching, watchdog_client
from autoaccel.measure.observing.exchange import Exchange
from autoaccel.measure.observing.request import Request

PROJECT = Path(__file__).resolve().parents[2]
_EVERYWHERE = ("torch", "numpy", "torch._dynamo")
"""What every training script imports: torch's optimizers do the last."""
_PRELOADED = (
    "autoaccel.measure.observing.starting", "autoaccel.measure.observing.loaders",
    "autoaccel.measure.observing.training", "autoaccel.measure.observing.state",
    "autoaccel.measure.observing.coverage", "autoaccel.measure.observing.output",
    "autoaccel.measure.observing.randomness", "autoaccel.measure.observing.turns",
)  # fmt: skip
_MOST = 1 << 16  # bytes of a message
_PACE = 0.02  # s between two looks at a process that is to end


class _Process(Protocol):
    """As much of `subprocess.Popen` as a run needs."""

    pid: int

    def poll(self) -> int | None: ...
    def wait(self, timeout: float | None = None) -> int: ...
    def send_signal(self, number: int) -> None: ...


class Server:
    """A context manager; `start` may be called once it says that it is ready."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        """`environment` is that of all its runs."""
        self._environment = environment
        self._asking = threading.Lock()
        self.ready = 0.0
        """Seconds from its start to the end of the import of torch: what every script begins with."""

    def __enter__(self) -> Server:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket = ours
        paths = [str(PROJECT), *filter(None, [self._environment.get("PYTHONPATH")])]
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "benchmarks.suite.forking", str(theirs.fileno())],
                env={
                    "PYTHONHASHSEED": "0",
                    "MPLBACKEND": "Agg",
                    **self._environment,
                    "PYTHONPATH": os.pathsep.join(paths),
                },
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        watchdog_client.watchdog_of_this_process().tell("group", self._process.pid)
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        watchdog_client.watchdog_of_this_process().tell("ended", self._process.pid)

    def wait(self) -> None:
        """Until it is ready. Raises `RuntimeError` where it is not going to be."""
        answer = self._socket.recv(_MOST)
        if not answer:
            raise RuntimeError("torch could not be imported")
        self.ready = float(json.loads(answer)["ready"])

    def start(self, request: Request, *, python: str, environment: Mapping[str, str], folder: Path) -> Forked:
        """As `launching.Started`."""
        return Forked(self, request, python=python, environment=environment, folder=folder)

    def fork(self, message: Mapping[str, object], pipes: list[int]) -> int:
        with self._asking:
            socket.send_fds(self._socket, [json.dumps(message).encode()], pipes)
            return self._answer() or 0

    def status(self, process: int, *, options: int = os.WNOHANG) -> int | None:
        """The exit status of a fork, None while it lives."""
        with self._asking:
            self._socket.send(json.dumps({"status": process, "options": options}).encode())
            return self._answer()

    def _answer(self) -> int | None:
        data = self._socket.recv(_MOST)
        if not data:
            raise RuntimeError("the process that forks is gone")
        answer: int | None = json.loads(data)
        return answer


class _Fork:
    """A process whose parent is the server."""

    def __init__(self, server: Server, pid: int) -> None:
        self._server, self.pid = server, pid
        self._status: int | None = None

    def poll(self) -> int | None:
        if self._status is None:
            self._status = self._server.status(self.pid)
        return self._status

    def wait(self, timeout: float | None = None) -> int:
        until = None if timeout is None else time.monotonic() + timeout
        while (status := self.poll()) is None:
            if until is not None and time.monotonic() > until:
                raise subprocess.TimeoutExpired("fork", timeout or 0.0)
            time.sleep(_PACE)
        return status

    def send_signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, number)


class Forked(launching.Started):
    """One observed run in a fork."""

    def __init__(
        self, server: Server, request: Request, *, python: str, environment: Mapping[str, str], folder: Path
    ) -> None:
        self._server = server
        super().__init__(request, python=python, environment=environment, folder=folder)

    def _start(self, request: Request, python: str, environment: Mapping[str, str], folder: Path) -> None:
        del python  # the server's
        exchange = self.exchange
        exchange.request.write_text(request.to_json(), encoding="utf-8")
        for_commands, self.commands = os.pipe()
        self.events, for_events = os.pipe()
        message = {"exchange": str(exchange.folder), "folder": str(folder), "environment": dict(environment)}
        try:
            self.began = time.monotonic()
            pid = self._server.fork(message, [for_commands, for_events])
        finally:
            os.close(for_commands)
            os.close(for_events)
        fork: _Process = _Fork(self._server, pid)
        self._process = fork  # type: ignore[assignment]
        self._watchdog.tell("group", pid)


# -- in the process that forks


def serve(channel: socket.socket) -> None:
    from autoaccel.measure.observing.starting import age_before

    now = time.monotonic()
    age = age_before(now)
    import importlib

    # Asks the driver's library and not the driver: what was initialised before a fork is of no use after it.
    os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"
    for name in _EVERYWHERE:
        importlib.import_module(name)
    channel.send(json.dumps({"ready": age + time.monotonic() - now}).encode())
    for name in _PRELOADED:
        importlib.import_module(name)
    while True:
        data, pipes, _, _ = socket.recv_fds(channel, _MOST, 2)
        if not data:
            return
        message = json.loads(data)
        if "status" in message:
            process, status = os.waitpid(message["status"], message["options"])
            channel.send(json.dumps(os.waitstatus_to_exitcode(status) if process else None).encode())
            continue
        child = os.fork()
        if child == 0:
            channel.close()
            _become(Exchange(Path(message["exchange"])), message["folder"], message["environment"], tuple(pipes))
        for pipe in pipes:
            os.close(pipe)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.setpgid(child, child)  # as the fork itself does: whoever comes first, the group is there
        channel.send(json.dumps(child).encode())


def _become(exchange: Exchange, folder: str, environment: Mapping[str, str], pipes: tuple[int, ...]) -> NoReturn:
    """In the fork: become the script."""
    import faulthandler
    import traceback

    from autoaccel.measure.observing.observation import Observation
    from autoaccel.measure.observing.starting import begin

    os.setpgid(0, 0)
    os.chdir(folder)
    os.environ.update(environment)
    sys.path[1:1] = filter(None, environment.get("PYTHONPATH", "").split(os.pathsep))
    for path, descriptor in ((exchange.stdout, 1), (exchange.stderr, 2)):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), descriptor)
    faulthandler.register(signal.SIGUSR2, all_threads=False)
    try:
        request = Request.from_json(exchange.request.read_text(encoding="utf-8"))
        begin(Observation(request, exchange, time.monotonic()), pipes)
    except SystemExit as leave:  # of a process that the script forked
        sys.stdout.flush()
        os._exit(leave.code if isinstance(leave.code, int) else 1)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(70)


if __name__ == "__main__":
    with socket.socket(fileno=int(sys.argv[1])) as given:
        serve(given)
