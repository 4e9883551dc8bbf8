"""Runs the script of a request under observation, and tells how it ended."""

from __future__ import annotations

import atexit
import functools
import os
import threading
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

from autoaccel.measure import program
from autoaccel.measure.observing.hooks import around
from autoaccel.measure.observing.observation import Observation
from autoaccel.measure.observing.record import FAILED, FINISHED, Failure
from autoaccel.measure.rewriter import Rewriter

Concerns = Callable[[str], bool]
"""Whether a file, by the name that its code has, is the project's."""


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
        observation.end(FAILED, failure_of(error, concerns))
    if observation.here:
        _leave()
        observation.end(FINISHED)


def failure_of(error: BaseException, concerns: Concerns) -> Failure:
    """What a user has to know of an exception: its last line, where in the project it was raised, the traceback."""
    error = error.with_traceback(program.of_the_script(error.__traceback__))
    told = "".join(traceback.format_exception(error))
    message = str(error).strip().split("\n")[0]
    return Failure(type(error).__name__, message, _where(error, concerns), told)


def _where(error: BaseException, concerns: Concerns) -> str:
    if isinstance(error, SyntaxError) and error.filename and concerns(error.filename):
        return f"{error.filename}:{error.lineno or 1}"
    where = ""
    for frame, line in traceback.walk_tb(error.__traceback__):
        if concerns(frame.f_code.co_filename):
            where = f"{frame.f_code.co_filename}:{line}"
    return where


def _exit_status(code: object) -> Failure:
    status, said = (code, "") if isinstance(code, int) else (1, f": {code}".split("\n")[0])
    return Failure("exit status", f"ended with exit status {status}{said}")


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
