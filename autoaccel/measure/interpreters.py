"""Which Python runs the script: the one that is asked for, or the first in reach that has torch."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

OLDEST_PYTHON = (3, 10)
OLDEST_TORCH = (2, 6)

# Finds torch without importing it, which takes seconds and can fail in many ways. A torch.py in the working directory
# is not torch. The version is what torch's own file of it says.
_PROBE = """
import importlib.util, json, re, sys
sys.path = [path for path in sys.path if path]
spec = importlib.util.find_spec("torch")
version = None
if spec is not None:
    version = ""
    for folder in spec.submodule_search_locations or ():
        try:
            with open(folder + "/version.py", encoding="utf-8") as file:
                version = re.search("__version__ = ['\\"]([^'\\"]+)", file.read()).group(1)
        except (OSError, AttributeError):
            pass
print(json.dumps({"path": sys.executable, "python": list(sys.version_info[:3]), "torch": version}))
"""
_PROBE_SECONDS = 60
_IN_AN_ENVIRONMENT = ("bin/python", "bin/python3", "Scripts/python.exe", "python.exe")


class InterpreterError(ValueError):
    """No interpreter to run the script with; the message is one line."""


@dataclass(frozen=True, slots=True)
class Interpreter:
    """A Python, and what a script finds there."""

    path: str
    python: tuple[int, ...]
    """Its version."""
    torch: str | None
    """The version of its torch; empty where that cannot be told without importing it, None where there is no torch."""


def choose(named: str | None, environment: Mapping[str, str] = os.environ) -> Interpreter:
    """The one that is named: a path, a name on the PATH, or the folder of an environment. Else the one that this tool
    runs under, that of the active environment, or the first on the PATH, whichever has torch first.

    Raises `InterpreterError`.
    """
    if named is not None:
        return _checked(_probe(_named(named, environment)))
    tried: list[str] = []
    for path in _candidates(environment):
        if path in tried:
            continue
        tried.append(path)
        try:
            found = _probe(path)
        except InterpreterError:
            continue
        if found.torch is not None:
            return _checked(found)
    raise InterpreterError(f"no interpreter with torch: tried {', '.join(tried)}; name one with --python")


def _checked(found: Interpreter) -> Interpreter:
    """The same, if it can run the script. Raises `InterpreterError`."""
    if found.python < OLDEST_PYTHON:
        raise InterpreterError(
            f"{found.path}: is Python {_spelled(found.python)}; at least {_spelled(OLDEST_PYTHON)} is needed"
        )
    if found.torch is None:
        raise InterpreterError(f"{found.path}: has no torch")
    if found.torch and _numbers(found.torch) < OLDEST_TORCH:
        raise InterpreterError(f"{found.path}: has torch {found.torch}; at least {_spelled(OLDEST_TORCH)} is needed")
    return found


def _probe(path: str) -> Interpreter:
    """Ask an interpreter. Raises `InterpreterError`."""
    try:
        done = subprocess.run(
            [path, "-c", _PROBE], capture_output=True, text=True, timeout=_PROBE_SECONDS, check=False,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        reason = getattr(error, "strerror", None) or f"no answer within {_PROBE_SECONDS} s"
        raise InterpreterError(f"{path}: cannot be run: {reason}") from error
    try:
        # Site customizations may greet on stdout; the answer is the last line.
        answer = json.loads(done.stdout.splitlines()[-1])
        return Interpreter(answer["path"] or path, tuple(answer["python"]), answer["torch"])
    except (IndexError, KeyError, TypeError, ValueError) as error:
        said = done.stderr.strip().splitlines()
        raise InterpreterError(f"{path}: is not a Python that works{': ' + said[-1] if said else ''}") from error


def _named(name: str, environment: Mapping[str, str]) -> str:
    """The interpreter that a user means. Raises `InterpreterError`."""
    path = Path(name).expanduser()
    if path.is_dir():
        inside = next((path / each for each in _IN_AN_ENVIRONMENT if (path / each).is_file()), None)
        if inside is None:
            raise InterpreterError(f"{name}: is a folder without an interpreter")
        return os.path.abspath(inside)
    if path.is_file():
        # Not its real path: an environment is known by where the link to its interpreter lies.
        return os.path.abspath(path)
    found = shutil.which(name, path=environment.get("PATH"))
    if found is None:
        raise InterpreterError(f"{name}: no such interpreter")
    return found


def _candidates(environment: Mapping[str, str]) -> Iterator[str]:
    yield sys.executable
    for variable in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        folder = environment.get(variable)
        if folder:
            yield from (str(path) for name in _IN_AN_ENVIRONMENT if (path := Path(folder, name)).is_file())
    for name in ("python3", "python"):
        found = shutil.which(name, path=environment.get("PATH"))
        if found:
            yield found


def _numbers(version: str) -> tuple[int, ...]:
    """`2.6.0a0+git1234` is (2, 6)."""
    return tuple(int(part) for part in version.split(".")[:2] if part.isdecimal())


def _spelled(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))
