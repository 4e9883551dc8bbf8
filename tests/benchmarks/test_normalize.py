"""The benchmark of images as bytes runs to its end, on images that really come as bytes, and tells what is faster."""

from __future__ import annotations

import os
import time
from pathlib import Path

from benchmarks.normalize.__main__ import Contest, measure
from tests.measure.forking import REPOSITORY, Forking


def test_every_contest_has_its_row(forking: Forking, tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY), "AUTOACCEL_LOG": "info"}
    command = ["-m", "benchmarks.normalize", "--turns", "2", "--samples", "64"]
    done = forking.python(command, tmp_path, environment)
    assert done.returncode == 0, done.stderr
    rows = [line.split("|")[2].strip() for line in done.stdout.splitlines() if line.startswith("| ")][1:]
    assert rows == ["a batch", "what workers do for one", "a step"] * 3
    assert done.stderr.count("the host (images are fetched as bytes)") == 3


def test_what_is_faster() -> None:
    def busy(seconds: float) -> None:
        end = time.process_time() + seconds
        while time.process_time() < end:
            pass

    contest = Contest("", "", lambda: busy(0.01), lambda: busy(0.002), 2)
    plain, as_bytes, (_low, ratio, _high) = measure(contest, 4)
    assert plain >= 5
    assert as_bytes >= 1
    assert ratio > 2
