"""What a run that went wrong is told as, in one line."""

from __future__ import annotations

import os
import re
import signal
from dataclasses import replace
from pathlib import Path

from autoaccel.measure.observing.run_record import FAILED, RunFailure, RunRecord

CANNOT_START, EXIT_STATUS = "cannot start", "exit status"

_LONGEST = 300  # characters of a message

# What `faulthandler` prints of a frame.
_FRAME = re.compile(r'^  File "(?P<path>[^"]+)", line (?P<line>\d+) in ', re.MULTILINE)
_OF_THE_TOOL = re.compile(r'  File "[^"]*\bautoaccel/measure/|Extension modules: ')
_MODULE = re.compile(r"No module named '(?P<name>[^']+)'")
_HINTS = {"SIGKILL": ", often a lack of memory", "SIGSEGV": ", in compiled code", "SIGABRT": ", in compiled code"}


def of_death(status: int, errors: str, root: str) -> RunFailure:
    """A process that ended without a record. `status` is as in `Popen.returncode`; `errors` the end of its stderr."""
    traceback = _without_tool(errors)
    where = _where(errors, root)
    if status < 0:
        name = _signal_name(-status)
        return RunFailure("signal", f"killed by signal {-status} ({name}){_HINTS.get(name, '')}", where, traceback)
    last = traceback.splitlines()[-1].strip() if traceback else ""
    message = f"ended with exit status {status} before anything could be recorded"
    return RunFailure("died", f"{message}: {last}" if last and status else message, where, traceback)


def of_hanging(seconds: float, steps: int, errors: str, root: str) -> RunFailure:
    """A process that was ended because it made no step."""
    after = f" after {steps} step{'s' * (steps != 1)}" if steps else ""
    return RunFailure("timeout", f"made no step for {seconds:g} s{after}", _where(errors, root), _without_tool(errors))


def line(failure: RunFailure, *, script: str, python: str) -> str:
    """The one line for the user."""
    where = _shown(failure.where) or Path(script).name
    missing = _MODULE.search(failure.message)
    if failure.kind == "ModuleNotFoundError" and missing:
        return f"{where}: needs the module {missing['name']!r}, which {python} has not"
    message = _first_line(failure.message)
    if failure.kind == CANNOT_START:
        return message  # says itself where
    if failure.kind.isidentifier() and failure.kind[:1].isupper():
        return f"{where}: {failure.kind}{': ' * bool(message)}{message}"
    return f"{where}: {message or failure.kind}"


def without_training(record: RunRecord, *, script: str) -> str | None:
    """One line on a run that went well and trained nothing; None for all others."""
    if record.ending == FAILED or record.steps or record.backwards:
        return None
    return f"{Path(script).name}: ended after {record.seconds:.1f} s without a backward or an optimizer step"


def _where(errors: str, root: str) -> str:
    """The innermost frame that is the project's own, of what `faulthandler` printed last."""
    for frame in _FRAME.finditer(errors[errors.rfind("(most recent call first)") + 1 :]):
        path = Path(frame["path"])
        if root and path.is_relative_to(root):
            return f"{path}:{frame['line']}"
    return ""


def of_exit(failure: RunFailure, errors: str) -> RunFailure:
    """A script that ended itself with a status: what it said last on stderr is why."""
    said = errors.strip()
    if failure.kind != EXIT_STATUS or ":" in failure.message or not said:
        return failure
    return replace(failure, message=f"{failure.message}: {said.splitlines()[-1].strip()}", traceback=said)


def _first_line(message: str) -> str:
    said = (message.strip().splitlines() or [""])[0]
    return said if len(said) <= _LONGEST else f"{said[: _LONGEST - 1]}…"


def _shown(where: str) -> str:
    """Below the working directory as the user would write it."""
    here = f"{Path.cwd()}{os.sep}"
    return where.removeprefix(here)


def _without_tool(errors: str) -> str:
    """What was said on stderr, but for frames of this tool and what `faulthandler` adds to them."""
    lines = errors.strip().splitlines()
    return "\n".join(each for each in lines if not _OF_THE_TOOL.match(each)).strip()


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return "unknown"
