"""Starts observed processes and sees to their end: whatever happens to either side, none is left behind."""

from __future__ import annotations

import contextlib
import itertools
import math
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

from autoaccel.measure import failures, fork_server, scratch, watchdog, watchdog_client
from autoaccel.measure.observing.exchange import Exchange
from autoaccel.measure.observing.meeting import OVER
from autoaccel.measure.observing.request import Request
from autoaccel.measure.observing.run_record import FAILED, RunFailure, RunRecord

_PACE = 0.1  # s between two looks at a run
_GRACE = 1.0  # s to end in good order once asked to
_ROOM = 2**17  # bytes without which hardly anything can be recorded
_SHOWN = 20_000  # bytes of what it writes to standard error
_LEAVING = 5.0  # s that a process may take to end after its result is written
_COMPANY = 15.0  # s in which processes notice that one of them has failed, and say so
_ALONE = 60.0  # s that a process may go on without a step when another one has come to its end
WITH_OTHERS = "with others"
"""The kind of failure of processes that were ended since another one had failed."""

_numbers = itertools.count(1)


class Started:
    """One observed process and everything that it starts: a context manager, or to be ended by `kill`.

    `environment` is put on top of this process's own. With a `server` it is a fork, as long as there is one.
    """

    def __init__(
        self,
        request: Request,
        *,
        python: str,
        environment: Mapping[str, str],
        folder: Path,
        server: fork_server.ForkServer | None = None,
    ) -> None:
        self._watchdog = watchdog_client.watchdog_of_this_process()
        self._run = watchdog_client.name_of(next(_numbers))
        self._root = request.root
        self._process: subprocess.Popen[bytes] | fork_server.Forked | None = None
        self._over = False
        self.exchange = Exchange(Path(tempfile.mkdtemp(prefix="autoaccel-")))
        self._watchdog.tell("folder", self.exchange.folder)
        self.commands = self.events = -1
        self.began = 0.0
        try:
            self._start(request, python, run_environment(environment), folder, server)
        except BaseException:
            self.kill()
            raise

    def _start(
        self,
        request: Request,
        python: str,
        environment: dict[str, str],
        folder: Path,
        server: fork_server.ForkServer | None,
    ) -> None:
        exchange = self.exchange
        exchange.request.write_text(request.to_json(), encoding="utf-8")
        pipes: list[int] = []
        if request.mode == "turns":
            for_commands, self.commands = os.pipe()
            self.events, for_events = os.pipe()
            pipes = [for_commands, for_events]
        environment |= {watchdog.MARK: self._run}
        try:
            with _stdin() as stdin, exchange.stdout.open("ab") as stdout, exchange.stderr.open("ab") as stderr:
                self.began = time.monotonic()
                if server is not None:
                    self._process = server.fork(
                        [str(exchange.folder)],
                        environment=environment,
                        folder=folder,
                        beside=folder if request.is_module else (folder / request.script).resolve().parent,
                        files=[stdin.fileno(), stdout.fileno(), stderr.fileno(), *pipes],
                    )
                if self._process is None:
                    imports = exchange.folder / "imports"
                    self._process = subprocess.Popen(
                        [*fork_server.command(python, imports), str(exchange.folder), *map(str, pipes)],
                        cwd=folder,
                        env=fork_server.importing(environment, imports),
                        stdin=stdin,
                        stdout=stdout,
                        stderr=stderr,
                        pass_fds=pipes,
                        start_new_session=True,
                    )
        finally:
            for pipe in pipes:
                os.close(pipe)
        self._watchdog.tell("group", self._process.pid)

    def __enter__(self) -> Started:
        return self

    def __exit__(self, *error: object) -> None:
        self.kill()

    @property
    def is_forked(self) -> bool:
        return isinstance(self._process, fork_server.Forked)

    def poll(self) -> int | None:
        """The exit status; None while the process lives."""
        return None if self._process is None else self._process.poll()

    def wait(self, seconds: float) -> int | None:
        """Wait for the end, not longer than so many seconds."""
        assert self._process is not None
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self._process.wait(seconds)
        return None

    def steps(self) -> int:
        return self.exchange.count()

    def finished(self) -> float:
        """When the record was written, in seconds since the epoch; now if there is none."""
        with contextlib.suppress(OSError):
            return self.exchange.result.stat().st_mtime
        return time.time()

    def pause(self) -> None:
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def record(self) -> RunRecord | None:
        """What the process wrote down, or what a process that it started had to say; None when there is nothing."""
        if told := self.failure():
            return RunRecord(FAILED, told, steps=self.steps())
        try:
            record = RunRecord.from_json(self.exchange.result.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        if record.failure is None:
            return record
        return replace(record, failure=failures.of_exit(record.failure, self.errors()))

    def errors(self) -> str:
        """The end of what was said on stderr."""
        return _tail(self.exchange.stderr)

    def failure(self) -> RunFailure | None:
        """Why a worker process ended the run."""
        try:
            return RunFailure.from_json(self.exchange.failure.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None

    def lost(self, hung_for: float | None = None) -> RunFailure:
        """Why there is no record: it hung for so many seconds, or died."""
        if hung_for is not None:
            return failures.of_hanging(hung_for, self.steps(), self.errors(), self._root)
        if shutil.disk_usage(self.exchange.folder).free < _ROOM:
            return RunFailure("died", f"there is no space left in {self.exchange.folder.parent}")
        return failures.of_death(self.poll() or 0, self.errors(), self._root)

    def ask_where(self) -> None:
        """Have the process say on stderr where it is, before it is ended."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGUSR2)
            self.wait(_GRACE / 2)

    def end(self) -> None:
        """End all processes: those of the group are asked to, and have a moment; then none is asked."""
        if self._process is None:
            watchdog.signal_all(signal.SIGKILL, (), watchdog.processes_of(self._run))
            return
        self._signal(signal.SIGTERM)
        self._signal(signal.SIGCONT)
        self.wait(_GRACE)
        # Processes that look after shared memory end by themselves, once those that they serve have.
        self._until_gone(_GRACE)
        self._signal(signal.SIGKILL)
        self.wait(_GRACE)  # not for ever: an interrupt in the middle of an earlier wait leaves Popen's lock locked
        self._until_gone(_GRACE, signal.SIGKILL)

    def kill(self) -> None:
        """End all processes and remove the files of the exchange and those that the run created."""
        if self._over:
            return
        try:
            self.end()
        finally:
            self._over = True
            for pipe in (self.commands, self.events):
                if pipe >= 0:
                    os.close(pipe)
            self.commands = self.events = -1
            scratch.settle(self.exchange)
            shutil.rmtree(self.exchange.folder, ignore_errors=True)
            if self._process is not None:
                self._watchdog.tell("ended", self._process.pid)
            self._watchdog.tell("gone", self.exchange.folder)

    def _until_gone(self, seconds: float, number: int = 0) -> None:
        """Wait, not longer than so many seconds, until no process is left, sending them a signal all the while."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and (left := watchdog.processes_of(self._run)):
            watchdog.signal_all(number, (), left)
            time.sleep(0.02)

    def _signal(self, number: int) -> None:
        if self._process is not None:
            # The group at once: to find those that have left it takes a while, in which workers would go on.
            watchdog.signal_all(number, (self._process.pid,), ())
            watchdog.signal_all(number, (), watchdog.processes_of(self._run))


def observe(
    request: Request,
    *,
    python: str,
    environment: Mapping[str, str],
    folder: Path,
    timeout: float | None = None,
    on_steps: Callable[[int], None] | None = None,
) -> RunRecord:
    """Run to the end and return what was seen; what the script does wrong is in the record, too.

    `timeout` is how many seconds may go by without a step; None waits for ever.
    """
    server = fork_server.server_for(python, run_environment(environment), folder)
    with Started(request, python=python, environment=environment, folder=folder, server=server) as run:
        return _records([run], timeout, on_steps)[0]


def observe_ranks(
    request: Request,
    count: int,
    *,
    python: str,
    environment: Mapping[str, str],
    folder: Path,
    timeout: float | None = None,
    on_steps: Callable[[int], None] | None = None,
) -> tuple[RunRecord, ...]:
    """Run as so many processes that train together, with the environment that `torchrun` gives them, all on this
    machine, and return what was seen of each. Where one fails, or goes on without the others, none is left behind.
    """
    server = fork_server.server_for(python, run_environment(environment), folder)
    with contextlib.ExitStack() as stack:
        meeting = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="autoaccel-")))
        port = free_port()
        runs = [
            stack.enter_context(
                Started(
                    replace(request, rank=rank, ranks=count, meeting=str(meeting)),
                    python=python,
                    environment={**environment, **rank_environment(rank, count, port)},
                    folder=folder,
                    server=server,
                )
            )
            for rank in range(count)
        ]
        return _records(runs, timeout, on_steps, meeting / OVER)


def rank_environment(rank: int, count: int, port: int) -> dict[str, str]:
    """What `torchrun` tells one of so many processes of this machine."""
    return {
        **dict.fromkeys(("RANK", "LOCAL_RANK"), str(rank)),
        **dict.fromkeys(("WORLD_SIZE", "LOCAL_WORLD_SIZE"), str(count)),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
    }


def free_port() -> int:
    """A port that nobody listens at right now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def protected(folder: Path, root: Path) -> tuple[str, ...]:
    """What `Request.protected` should be: everything, but for where programs leave what they can make again; and, even
    if they lie there, the working directory and the project."""
    return tuple(dict.fromkeys(os.path.realpath(path) for path in (folder, root, Path(os.sep))))


def _records(
    runs: Sequence[Started],
    timeout: float | None,
    on_steps: Callable[[int], None] | None,
    word: Path | None = None,
) -> tuple[RunRecord, ...]:
    """Wait until all are over, end what is left of them, and return what was seen of each. `word` is a file that says
    to the others that one has come to its end."""
    ended = _follow(runs, timeout, on_steps, word)
    hangs = not any(map(_has_failed, ended))
    hanging = [run for run in runs if run not in ended]
    for run in hanging if hangs else ():
        run.ask_where()
    for run in runs:
        run.end()
    waited = min(timeout or math.inf, _ALONE if ended else math.inf) if hangs else None
    return tuple(_recorded(run, waited, alone=hangs) if run in hanging else _recorded(run, None) for run in runs)


def _follow(
    runs: Sequence[Started], timeout: float | None, on_steps: Callable[[int], None] | None, word: Path | None
) -> list[Started]:
    """Wait until all are over, and return those that are, in the order in which they came to it. It is fewer where they
    hang, or where one has failed, and others did not notice."""
    ended: list[Started] = []
    steps, since = 0, time.monotonic()
    while len(ended) < len(runs):
        next(run for run in runs if run not in ended).wait(_PACE)
        now = time.monotonic()
        over = [run for run in runs if run not in ended and _is_over(run)]
        if over:
            ended += sorted(over, key=lambda run: run.finished())
            since = now
            if word is not None:
                word.touch()
        made = min(run.steps() for run in runs)
        if made != steps:
            steps, since = made, now
            if on_steps is not None:
                on_steps(steps)
        patience = min(timeout or math.inf, _COMPANY if any(map(_has_failed, ended)) else _ALONE if ended else math.inf)
        if now - since > patience:
            break
    return ended


def _is_over(run: Started) -> bool:
    return run.poll() is not None or run.exchange.failure.exists() or time.time() - run.finished() > _LEAVING


def _has_failed(run: Started) -> bool:
    return bool(run.poll()) or run.exchange.failure.exists()


def _recorded(run: Started, hung_for: float | None, *, alone: bool = True) -> RunRecord:
    """What is known of a run that has ended; `hung_for` so many seconds, or not; or, if it is not `alone`, because
    another process of the same training had failed."""
    record = run.record()
    if record is None:
        ended = RunFailure(WITH_OTHERS, "was ended, since another process had failed")
        failure = run.lost(hung_for) if alone else ended
        record = RunRecord(FAILED, failure, steps=run.steps(), seconds=time.monotonic() - run.began)
    return record


def _stdin() -> BinaryIO:
    """What a run reads: nothing. A terminal is opened for writing only, so that who reads fails at once: it still says
    how wide it is, which scripts ask `stty` for."""
    try:
        return Path(os.ttyname(0)).open("wb", buffering=0)
    except OSError:
        return Path(os.devnull).open("rb")


def run_environment(overrides: Mapping[str, str]) -> dict[str, str]:
    """What a run gets: the same hashes each time, no window, nothing that waits for a user, nothing that another run
    found out."""
    always = {"PYTHONHASHSEED": "0", "PYTHONFAULTHANDLER": "1", "MPLBACKEND": "Agg", "AUTOACCEL_REMEMBER": "off"}
    # Trials are not worth a record in somebody's account.
    environment = {"WANDB_MODE": "disabled", **os.environ, **always, **overrides}
    environment.pop("PYTHONINSPECT", None)
    return environment


def _tail(path: Path) -> str:
    try:
        with path.open("rb") as file:
            file.seek(max(path.stat().st_size - _SHOWN, 0))
            return file.read().decode(errors="replace")
    except OSError:
        return ""
