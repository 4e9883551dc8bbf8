"""One observed run: sets up guards, torch and hooks, runs the script, and tells how it ended."""

from __future__ import annotations

import atexit
import contextlib
import faulthandler
import functools
import multiprocessing.process
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NoReturn

from autoaccel.measure import program
from autoaccel.measure.observing.exchange import Exchange
from autoaccel.measure.observing.hooks import around
from autoaccel.measure.observing.observation import Concerns, Observation, Observer
from autoaccel.measure.observing.request import Request
from autoaccel.measure.observing.run_record import FAILED, FINISHED, RunFailure
from autoaccel.measure.rewriter import Rewriter


def start(folder: str, *pipes: str, began: float) -> None:
    """Run what the request in a folder asks for; the process ends with it."""
    faulthandler.register(signal.SIGUSR2, all_threads=False)  # where a script hangs, for the one who started it
    exchange = Exchange(Path(os.path.abspath(folder)))
    request = Request.from_json(exchange.request.read_text(encoding="utf-8"))
    observation = Observation(request, exchange, began - age_before(began))
    begin(observation, tuple(map(int, pipes)))


def begin(observation: Observation, pipes: tuple[int, ...] = ()) -> None:
    """Run in this process, however it was made; it ends with the run."""
    request = observation.request
    origin = Path(request.origin) if request.origin else None
    texts = Texts(request.texts)
    rewriter = Rewriter(Path(request.root), texts, tell, origin, request.own_lines)
    if request.import_original and not request.is_module:
        rewriter = replace(rewriter, kept_in_imports=Path(os.path.realpath(request.script)))
    concerns = concerning(rewriter)
    sys.dont_write_bytecode = True
    # Empty whatever stream 0 is: one that leads to a terminal is there to be asked how wide it is, not to be read.
    sys.stdin = Path(os.devnull).open(encoding="utf-8")  # noqa: SIM115 - it stays open
    _gather_sockets(observation.exchange)
    execute = None
    try:
        wanted = program.Program(request.script, request.arguments, request.is_module)
        path = program.locate(wanted)
        install(observation, path, texts.asked, concerns, pipes)
        execute = program.prepare(wanted, path, rewriter)
    except program.ProgramError as error:
        observation.end(FAILED, RunFailure("cannot start", str(error)))
    except ImportError as error:
        observation.end(FAILED, failure_of(error, concerns))
    run(observation, execute, concerns)


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


# -- what is watched in each mode


def install(
    observation: Observation, script: Path, loaded: Collection[str], concerns: Concerns, pipes: tuple[int, ...]
) -> None:
    """Import torch and hook everything that the request asks for. Raises `ImportError` where there is no torch.

    `loaded` are the project's files that were loaded, up to any moment.
    """
    request = observation.request
    if request.protected:
        from autoaccel.measure.observing import guarding

        guarding.install(request, observation.exchange, functools.partial(observation.end, FAILED))
    from autoaccel.measure.observing.output import Printing

    add(observation, Printing())
    import torch  # noqa: F401 - from here on it may be hooked

    if request.protected:
        guarding.guard_torch()
    if request.double:
        from autoaccel.measure.observing import double_precision

        double_precision.install()
    if request.rehearse:
        from autoaccel.measure.observing import rehearsal

        rehearsal.install(observation)
    for part in _of_mode(observation, script, loaded, concerns, pipes):
        add(observation, part)


def add(observation: Observation, part: Observer) -> None:
    """Install a part; it has its say in the record."""
    part.install(observation)
    observation.parts.append(part)


def _of_mode(
    observation: Observation, script: Path, loaded: Collection[str], concerns: Concerns, pipes: tuple[int, ...]
) -> Iterator[Observer]:
    # after torch, which they import
    from autoaccel.measure.observing import (
        coverage,
        files_written,
        loaders,
        meeting,
        naming,
        output,
        randomness,
        state,
        training,
        turns,
    )

    request, mode = observation.request, observation.request.mode
    if mode == "profile":
        from autoaccel.measure.observing import profiling

        yield profiling.Profiler()
    yield coverage.LineCoverage(script, loaded, concerns)
    yield output.Decisions()
    if request.stderr:
        yield output.Errors(concerns)
    if request.overflows:
        from autoaccel.measure.observing import overflows

        yield overflows.Overflows(request.overflows)
    kind = training.Marking if request.marked else training.Evaluating if request.batches else training.Training
    yield kind()
    if mode != "profile":
        yield loaders.Loaders(hashed=mode == "record")
    if mode == "record":
        yield training.Losses(concerns if request.traced else None)
        yield training.Marks()
        yield state.TrainedObjects(naming.Names(concerns, request.by_kind))
        yield files_written.FilesWritten(concerns)
    if mode == "turns":
        yield turns.Turns(*pipes)
    if request.meeting:
        yield meeting.Meeting()
    if request.perturbation:
        yield randomness.Perturbation()
    # what is imported on the way may draw numbers
    yield randomness.Randomness()
    if request.lines:
        yield coverage.Lines(concerns)


# -- the script itself


@dataclass(frozen=True)
class Texts:
    """Rewrites by table; new processes get a copy."""

    texts: dict[str, str]
    asked: dict[str, None] = field(default_factory=dict)
    """The files that could be rewritten so far, by real path, in the order in which they were loaded."""

    def __call__(self, path: Path, text: str) -> str:
        real = os.path.realpath(path)
        self.asked.setdefault(real)
        return self.texts.get(real, text)


def tell(message: str) -> None:
    """A file cannot be read or has no such text: Python itself will say so."""


def run(observation: Observation, execute: Callable[[], None], concerns: Concerns) -> None:
    """Run the program to its end, or to where the observation ends it. Only processes that were forked return."""

    @around(os, "_exit")
    def leave(_: Callable[[int], NoReturn], status: int) -> NoReturn:
        observation.end(*(FAILED, _exit_status(status)) if status else (FINISHED,))

    try:
        execute()
    except SystemExit as error:
        if not observation.here:
            raise
        if (code := error.code) not in (None, 0):
            observation.end(FAILED, _exit_status(code))
    except BaseException as error:
        if not observation.here:
            raise
        if observation.request.ranks > 1:
            with contextlib.suppress(Exception):
                sys.excepthook(type(error), error, error.__traceback__)  # which leaves word for the others
        observation.end(FAILED, failure_of(error, concerns))
    if observation.here:
        _leave()
        observation.end(FINISHED)


def failure_of(error: BaseException, concerns: Concerns) -> RunFailure:
    """What a user has to know of an exception: its last line, where in the project it was raised, the traceback."""
    error = error.with_traceback(program.of_the_script(error.__traceback__))
    told = "".join(traceback.format_exception(error))
    message = str(error).strip().split("\n")[0]
    return RunFailure(type(error).__name__, message, _where(error, concerns), told)


def _where(error: BaseException, concerns: Concerns) -> str:
    if isinstance(error, SyntaxError) and error.filename and concerns(error.filename):
        return f"{error.filename}:{error.lineno or 1}"
    where = ""
    for frame, line in traceback.walk_tb(error.__traceback__):
        if concerns(frame.f_code.co_filename):
            where = f"{frame.f_code.co_filename}:{line}"
    return where


def _exit_status(code: object) -> RunFailure:
    status, said = (code, "") if isinstance(code, int) else (1, f": {code}".split("\n")[0])
    return RunFailure("exit status", f"ended with exit status {status}{said}", status=status)


def _leave() -> None:
    """What Python does once the main module has ended: wait for threads, then call what was left for the end."""
    for last in (getattr(threading, "_shutdown", None), getattr(atexit, "_run_exitfuncs", None)):
        if last is not None:
            last()


def concerning(rewriter: Rewriter) -> Concerns:
    """Remembers what the rewriter says: frames are looked at by the thousand."""

    @functools.cache
    def concerns(filename: str) -> bool:
        return not filename.startswith("<") and rewriter.concerns(Path(filename))

    return concerns
