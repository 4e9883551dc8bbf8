"""Observed runs in processes forked from one that has torch: importing it takes longer than training a small script.

`Forking().run` is to `launching.observe` what a fork is to a start: it takes a request and gives a record.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

from autoaccel.measure.observing.exchange import Exchange
from autoaccel.measure.observing.record import RunRecord
from autoaccel.measure.observing.request import Request

REPOSITORY = Path(__file__).resolve().parents[2]
STANDINS = REPOSITORY / "tests" / "standins"


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
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        with tempfile.TemporaryDirectory() as temporary:
            exchange = Exchange(Path(temporary))
            exchange.request.write_text(request.to_json(), encoding="utf-8")
            where = Path(request.script).absolute().parent if folder is None else folder
            message = {"exchange": temporary, "folder": str(where), "environment": dict(environment or {})}
            self._server.stdin.write(json.dumps(message) + "\n")
            self._server.stdin.flush()
            assert self._server.stdout.readline()
            assert exchange.result.exists(), exchange.stderr.read_text(encoding="utf-8")
            return RunRecord.from_json(exchange.result.read_text(encoding="utf-8"))


def _serve() -> None:
    for module in ("torch._dynamo", "autoaccel.runtime", "autoaccel.measure.observing.starting"):
        importlib.import_module(module)
    for line in sys.stdin:
        message = json.loads(line)
        child = os.fork()
        if child == 0:
            _become(Exchange(Path(message["exchange"])), message["folder"], message["environment"])
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


def _become(exchange: Exchange, folder: str, environment: Mapping[str, str]) -> None:
    """In the fork: become the script; does not return."""
    from autoaccel.measure.observing.observation import Observation
    from autoaccel.measure.observing.starting import begin

    os.setsid()
    os.chdir(folder)
    os.environ.update(environment)
    for path, descriptor in ((exchange.stdout, 1), (exchange.stderr, 2)):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), descriptor)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    try:
        begin(Observation(Request.from_json(exchange.request.read_text()), exchange, time.monotonic()))
    except SystemExit as leave:  # of a process that the script forked
        sys.stdout.flush()
        os._exit(leave.code if isinstance(leave.code, int) else 1)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(70)


if __name__ == "__main__":
    _serve()
