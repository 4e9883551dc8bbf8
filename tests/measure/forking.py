"""Processes forked from one that has torch: importing it takes longer than training a small script.

`Forking().run` is to `launching.observe` what a fork is to a start: it takes a request and gives a record. So is
`Forking().python` to `subprocess.run([sys.executable, …])`.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import runpy
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any

from autoaccel.measure import launching
from autoaccel.measure.observing.exchange import Exchange
from autoaccel.measure.observing.forking import leave_to_the_server
from autoaccel.measure.observing.meeting import OVER
from autoaccel.measure.observing.request import Request
from autoaccel.measure.observing.run_record import RunRecord

REPOSITORY = Path(__file__).resolve().parents[2]
STANDINS = REPOSITORY / "tests" / "standins"
_LONGEST = 300  # seconds; what hangs is ended


class Forking:
    """A server that forks; a context manager."""

    def __enter__(self) -> Forking:
        inherited = {key: value for key, value in os.environ.items() if not key.startswith("AUTOACCEL_")}
        self._server = subprocess.Popen(
            [sys.executable, __file__],
            env={
                **inherited,
                "PYTHONPATH": os.pathsep.join([str(STANDINS), str(REPOSITORY)]),
                "PYTHONHASHSEED": "0",
                "CUDA_VISIBLE_DEVICES": "",
                "OMP_NUM_THREADS": "1",
                "MPLBACKEND": "Agg",
                "AUTOACCEL_REMEMBER": "off",
                "STANDIN_SAMPLES": "256",
                "STANDIN_TEST_SAMPLES": "100",
            },
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._server.communicate()

    def run(
        self, request: Request, environment: Mapping[str, str] | None = None, folder: Path | None = None
    ) -> RunRecord:
        """Run in a folder, by default the script's own; fails with what went to stderr if there is no record."""
        with tempfile.TemporaryDirectory() as temporary:
            exchange = Exchange(Path(temporary))
            exchange.request.write_text(request.to_json(), encoding="utf-8")
            where = Path(request.script).absolute().parent if folder is None else folder
            self._fork(exchange, where, environment={**(environment or {})})
            assert exchange.result.exists(), exchange.stderr.read_text(encoding="utf-8")
            return RunRecord.from_json(exchange.result.read_text(encoding="utf-8"))

    def python(
        self, arguments: Sequence[str], folder: Path, environment: Mapping[str, str]
    ) -> subprocess.CompletedProcess[str]:
        """What `python` does with these arguments, of which the first is `-c`, `-m` or a script, in this environment.

        The interpreter ends as one does: with what waits for that, and a traceback. What it reads of the environment
        when it starts is as in the server: the hash seed, and how many threads.
        """
        with tempfile.TemporaryDirectory() as temporary:
            exchange = Exchange(Path(temporary))
            status = self._fork(exchange, folder, arguments=[*arguments], environment={**environment})
            said = (each.read_text(encoding="utf-8", errors="replace") for each in (exchange.stdout, exchange.stderr))
            return subprocess.CompletedProcess([*arguments], status, *said)

    def _fork(self, exchange: Exchange, folder: Path, **asked: Any) -> int:
        """Wait for a child, whose exit status this is."""
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        message = {"exchange": str(exchange.folder), "folder": str(folder), **asked}
        self._server.stdin.write(json.dumps(message) + "\n")
        self._server.stdin.flush()
        return int(self._server.stdout.readline())


class ForkingRanks:
    """Processes that train together, each of another server. `run` is to `launching.observe_ranks` what that of
    `Forking` is to `launching.observe`; a context manager."""

    def __init__(self, first: Forking, most: int) -> None:
        self._servers = [first, *(Forking() for _ in range(most - 1))]

    def __enter__(self) -> ForkingRanks:
        for server in self._servers[1:]:
            server.__enter__()
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        for server in self._servers[1:]:
            server.__exit__()

    def run(self, request: Request, environment: Mapping[str, str], folder: Path, count: int) -> tuple[RunRecord, ...]:
        """A record of each."""
        port = launching.free_port()
        with tempfile.TemporaryDirectory() as meeting, ThreadPoolExecutor(count) as pool:

            def run(rank: int) -> RunRecord:
                asked = replace(request, rank=rank, ranks=count, meeting=meeting)
                told = {**environment, **launching.rank_environment(rank, count, port)}
                try:
                    return self._servers[rank].run(asked, told, folder)
                finally:
                    Path(meeting, OVER).touch()

            return tuple(pool.map(run, range(count)))


def _serve() -> None:
    for module in ("torch._dynamo", "autoaccel.runtime", "autoaccel.measure.observing.starting"):
        importlib.import_module(module)
    gc.collect()
    gc.freeze()  # no fork looks through all of it, not even where it ends
    for line in sys.stdin:
        message = json.loads(line)
        child = os.fork()
        if child == 0:
            _become(Exchange(Path(message.pop("exchange"))), **message)
            return
        _, status = os.waitpid(child, 0)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)  # workers, which would notice only after a while
        print(os.waitstatus_to_exitcode(status), flush=True)


def _become(
    exchange: Exchange, folder: str, environment: Mapping[str, str], arguments: Sequence[str] | None = None
) -> None:
    """In the fork: become the script; where it is observed, this does not return."""
    os.setsid()
    leave_to_the_server()
    os.chdir(folder)
    for path, descriptor in ((exchange.stdout, 1), (exchange.stderr, 2)):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), descriptor)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    if arguments is None:
        os.environ.update(environment)
        _observe(exchange)
    else:
        signal.alarm(_LONGEST)
        os.environ.clear()
        os.environ.update(environment)
        _execute(arguments)


def _observe(exchange: Exchange) -> None:
    from autoaccel.measure.observing.observation import Observation
    from autoaccel.measure.observing.starting import begin

    status = 70
    try:
        begin(Observation(Request.from_json(exchange.request.read_text()), exchange, time.monotonic()))
    except SystemExit as leave:  # of a process that the script forked
        status = leave.code if isinstance(leave.code, int) else int(leave.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _execute(arguments: Sequence[str]) -> None:
    """What the interpreter does with its arguments."""
    own = {str(Path(__file__).parent), str(STANDINS), str(REPOSITORY)}
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[:] = ["", *filter(None, paths), *(each for each in sys.path if each not in own)]
    sys.argv = [*arguments]
    match arguments[0]:
        case "-c":
            sys.argv = ["-c", *arguments[2:]]
            exec(compile(arguments[1], "<string>", "exec"), {"__name__": "__main__"})
        case "-m":
            sys.argv = [*arguments[1:]]
            runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
        case script:
            sys.path[0] = str(Path(script).parent)
            runpy.run_path(script, run_name="__main__")


if __name__ == "__main__":
    _serve()
