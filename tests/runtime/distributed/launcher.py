"""Starts ranks for the tests, each a fork of one process, so that torch is imported once.

`python -m tests.runtime.distributed.launcher PLAN`, where the plan is a JSON list of launches:
{"ranks": 2, "run": "function of programs.py", "arguments": [...], "folder": "..."}. What ranks print stands in the
folder as out.0 and err.0, how they ended and after how many seconds in status.json.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import socket
import sys
import time
import traceback
from pathlib import Path
from typing import Any

import numpy  # noqa: F401 - as most programs have it
import torch

from autoaccel.measure.observing.forking import leave_to_the_server

PROGRAMS = "tests.runtime.distributed.programs"
WAITING = frozenset({"failing", "not_woken", "starts"})
LIMIT = 60  # seconds for a launch


def main() -> None:
    torch.set_num_threads(1)
    importlib.import_module(PROGRAMS)
    importlib.import_module("torch._dynamo")  # which DistributedDataParallel imports, in seconds
    gc.freeze()  # no rank looks through all of it, and copies it by that
    plan = json.loads(sys.argv[1])
    # Much of what fails waits, and leaves the processors to what trains beside it.
    for waits in (True, False):
        if os.fork() == 0:
            for launch in plan:
                if (launch["run"] in WAITING) == waits:
                    run(**launch)
            os._exit(0)
    statuses = [os.wait()[1] for _ in range(2)]
    if any(statuses):
        raise SystemExit(f"launching failed: {statuses}")


def run(ranks: int, run: str, arguments: list[Any], folder: str, environment: dict[str, str] | None = None) -> None:
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    began = time.monotonic()
    children = {}
    for rank in range(ranks):
        if pid := os.fork():
            children[pid] = rank
        else:
            if ranks > 1:
                os.environ.update(RANK=str(rank), WORLD_SIZE=str(ranks), LOCAL_RANK=str(rank))
                os.environ.update(LOCAL_WORLD_SIZE=str(ranks), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
            os.environ.update(environment or {})
            _be_a_rank(place, rank, run, arguments)
    ends: dict[int, Any] = {}
    while children:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid:
            ends[children.pop(pid)] = [os.waitstatus_to_exitcode(status), time.monotonic() - began]
        elif time.monotonic() - began > LIMIT:
            for each, rank in list(children.items()):
                os.kill(each, 9)
                os.waitpid(each, 0)
                ends[rank] = ["hung", LIMIT]
                del children[each]
        time.sleep(0.01)
    (place / "status.json").write_text(json.dumps([ends[rank] for rank in range(ranks)]))


def _be_a_rank(place: Path, rank: int, run: str, arguments: list[Any]) -> None:
    """As a program of its own would: its output, its traceback, its handlers at exit, its status."""
    import atexit

    leave_to_the_server()
    status = 0
    for number, name in ((1, "out"), (2, "err")):
        os.dup2(os.open(place / f"{name}.{rank}", os.O_WRONLY | os.O_CREAT), number)
    os.chdir(place)
    sys.argv = ["train.py"]
    try:
        getattr(sys.modules[PROGRAMS], run)(*arguments)
    except SystemExit as end:
        status = int(end.code or 0)
    except BaseException as failure:
        sys.excepthook(type(failure), failure, failure.__traceback__)
        status = 1
    with contextlib.suppress(Exception):
        atexit._run_exitfuncs()
    with contextlib.suppress(Exception):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(status)


if __name__ == "__main__":
    try:
        main()
    except BaseException:
        traceback.print_exc()
        os._exit(2)
