"""One command as a process: what it cost, with all that it started."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_DEFECT = re.compile(r"internal error|rule \S+ \S+ failed:|Traceback")


@dataclass(frozen=True, slots=True)
class Cost:
    """Seconds, and bytes of the largest process."""

    cpu: float
    wall: float
    memory: int
    status: int
    lines: int
    """Lines on stdout: whether two runs of a command said the same amount."""


def measure(command: Sequence[str], folder: Path, environment: Mapping[str, str]) -> Cost:
    """Run a command to its end. Processes count that it has waited for, as well-kept ones do for all of theirs.

    Raises `RuntimeError` where a defect cut it short; files that nobody can parse are none.
    """
    begun = time.monotonic()
    with tempfile.TemporaryFile() as said, tempfile.TemporaryFile() as complaints:
        process = subprocess.Popen(command, cwd=folder, env=environment, stdout=said, stderr=complaints)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        said.seek(0)
        lines = sum(1 for _ in said)
        complaints.seek(0)
        heard = complaints.read().decode(errors="replace")
        if process.returncode not in (0, 1, 2) or _DEFECT.search(heard):
            raise RuntimeError(f"{command}: exit {process.returncode}: {heard[-1000:]}")
    return Cost(
        usage.ru_utime + usage.ru_stime, time.monotonic() - begun, usage.ru_maxrss * 1024, process.returncode, lines
    )
