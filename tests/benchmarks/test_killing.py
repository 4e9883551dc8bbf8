"""Files survive a `rewrite` that is killed while it writes; the driver that says so would notice if they did not."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="the driver forks")

CARELESS = """
import sys, time
from autoaccel import sources

def replace(path, source, text):
    data = source.encode(text)
    with open(path, "wb") as file:
        for part in (data[:100], data[100:]):
            file.write(part)
            file.flush()
            time.sleep(0.002)

sources.replace = replace
"""


def kill(repository: Path, before: str = "") -> subprocess.CompletedProcess[str]:
    code = f"{before}\nimport sys\nfrom benchmarks.robustness import killing\nsys.exit(killing.main())"
    path = os.pathsep.join((str(repository), str(repository / "codemods")))
    return subprocess.run(
        [sys.executable, "-c", code, "--kills", "12", "--files", "15"],
        cwd=repository, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_files_survive(repository: Path) -> None:
    done = kill(repository)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "12 kills" in done.stdout and "180 files compared, 0 truncated or mixed" in done.stdout


def test_careless_writing_would_be_noticed(repository: Path) -> None:
    done = kill(repository, CARELESS)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "neither before nor after" in done.stdout
