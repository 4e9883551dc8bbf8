"""Runs a script as one rank of several, or as the only process, in a fork of a process that has imported torch.

Everything is computed in float64, so that what several processes round otherwise stays far below what a mistake makes:
that is torch's default type, loaders give it, and modules are given it. Recorded are the losses that go backward, the
optimizer steps, what the first rank prints, and which files there are in the end.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import sys
import time
from pathlib import Path
from typing import Any

from autoaccel.measure.observing import double_precision
from benchmarks.public_scripts import observe

LIMIT = 200.0  # seconds for a launch


def launch(ranks: int, script: Path, arguments: list[str], folder: Path, results: Path, options: dict[str, Any]) -> str:
    """Run a script by some ranks, and write what they did to `results`; the answer says what went wrong."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    results.mkdir(parents=True)
    children: dict[int, int] = {}
    for rank in range(ranks):
        pid = os.fork()
        if not pid:
            names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
            if ranks > 1:
                given = (rank, rank, ranks, ranks, "127.0.0.1", port)
                os.environ.update({name: str(value) for name, value in zip(names, given, strict=True)})
            _be_a_rank(rank, script, arguments, folder, results, options)
        children[pid] = rank
    return _awaited(children, time.monotonic() + LIMIT)


def _awaited(children: dict[int, int], end: float) -> str:
    said: list[str] = []
    while children:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid:
            rank = children.pop(pid)
            if code := os.waitstatus_to_exitcode(status):
                said.append(f"rank {rank}: exit status {code}")
        elif time.monotonic() > end:
            for each, rank in list(children.items()):
                os.kill(each, 9)
                os.waitpid(each, 0)
                said.append(f"rank {rank}: over {LIMIT:g} s")
                del children[each]
        else:
            time.sleep(0.01)
    return "; ".join(said)


def _be_a_rank(
    rank: int, script: Path, arguments: list[str], folder: Path, results: Path, options: dict[str, Any]
) -> None:
    import atexit

    atexit._clear()  # noqa: SLF001 - those of the process that this one is a fork of
    for number, name in ((1, "out"), (2, "err")):
        os.dup2(os.open(results / f"{name}.{rank}", os.O_WRONLY | os.O_CREAT), number)
    os.chdir(folder)
    os.environ.update(options["environment"])
    sys.path[:0] = ["", *options["path"]]  # the first one gives way to the folder of the script
    observation = observe.Observation(options["stop_after"], options["count"])
    double_precision.install()
    for shim in options["shims"]:
        observe.SHIMS[shim]()
    observe.install(observation)
    observe.settle(0)
    status = 0
    try:
        observe.execute(script, arguments)
    except observe.Stop:
        pass
    except SystemExit as leave:
        status = 0 if leave.code in (None, 0) else 1
    except BaseException as problem:
        sys.excepthook(type(problem), problem, problem.__traceback__)
        status = 1
    record = {"losses": observation.losses, "steps": observation.steps}
    (results / f"record.{rank}").write_text(json.dumps(record), encoding="utf-8")
    with contextlib.suppress(Exception):
        atexit._run_exitfuncs()  # noqa: SLF001 - as at any other end
    sys.stdout.flush()
    os._exit(status)
