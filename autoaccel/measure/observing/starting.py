"""Sets up an observed run: guards, torch, hooks, then the script."""

from __future__ import annotations

import faulthandler
import multiprocessing.process
import os
import signal
import sys
import time
from pathlib import Path

from autoaccel.measure import program
from autoaccel.measure.observing import parts, running
from autoaccel.measure.observing.exchange import Exchange
from autoaccel.measure.observing.observation import Observation
from autoaccel.measure.observing.record import FAILED, Failure
from autoaccel.measure.observing.request import Request
from autoaccel.measure.rewriter import Rewriter


def start(request_file: str, result_file: str, *pipes: str, began: float) -> None:
    """Run what a request asks for; the process ends with it."""
    if hasattr(faulthandler, "register"):
        faulthandler.register(signal.SIGUSR2, all_threads=False)  # where a script hangs, for the one who started it
    request = Request.from_json(Path(request_file).read_text(encoding="utf-8"))
    observation = Observation(request, Exchange.of(os.path.abspath(result_file)), began - age_before(began))
    begin(observation, tuple(map(int, pipes)))


def begin(observation: Observation, pipes: tuple[int, ...] = ()) -> None:
    """Run in this process, however it was made; it ends with the run."""
    request = observation.request
    origin = Path(request.origin) if request.origin else None
    texts = running.Texts(request.texts)
    rewriter = Rewriter(Path(request.root), texts, running.tell, origin)
    concerns = running.concerning(rewriter)
    sys.dont_write_bytecode = True
    # Empty whatever stream 0 is: one that leads to a terminal is there to be asked how wide it is, not to be read.
    sys.stdin = Path(os.devnull).open(encoding="utf-8")  # noqa: SIM115 - it stays open
    _gather_sockets(observation.exchange)
    execute = None
    try:
        wanted = program.Program(request.script, request.arguments, request.is_module)
        path = program.locate(wanted)
        parts.install(observation, path, texts.asked, concerns, pipes)
        execute = program.prepare(wanted, path, rewriter)
    except program.ProgramError as error:
        observation.end(FAILED, Failure("cannot start", str(error)))
    except ImportError as error:
        observation.end(FAILED, running.failure_of(error, concerns))
    running.run(observation, execute, concerns)


def _gather_sockets(exchange: Exchange) -> None:
    """Workers put sockets into folders of their own, and are killed before they remove them: let it be one of ours."""
    folder = exchange.folder / "sockets"
    folder.mkdir(exist_ok=True)
    multiprocessing.process.current_process()._config.setdefault("tempdir", str(folder))  # type: ignore[attr-defined]  # noqa: SLF001


def age_before(now: float) -> float:
    """How long the process lived before `now`, by the monotonic clock: Python needs time to start."""
    try:
        started = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19]) / os.sysconf("SC_CLK_TCK")
        age = time.clock_gettime(time.CLOCK_BOOTTIME) - started - (time.monotonic() - now)
    except (OSError, AttributeError, ValueError, IndexError):
        return 0.0
    return max(age, 0.0)
