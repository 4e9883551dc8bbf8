"""What `attention` writes trains as what was written out."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

FIXTURES = Path(__file__).parents[2] / "fixtures" / "attention"
PAIRS = sorted(FIXTURES.glob("*.in.py"))


def losses(paths: list[Path]) -> list[list[float]]:
    """What scripts print, all in one process, with the numbers behind their steps."""
    program = "import runpy, sys\nfor path in sys.argv[1:]:\n    print('#')\n    runpy.run_path(path)"
    command = [sys.executable, "-W", "error", "-c", program, *map(str, paths)]
    out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return [[float(each) for each in re.findall(r"^\d+ (\S+)$", part, re.MULTILINE)] for part in out.split("#\n")[1:]]


def test_losses_are_the_same_but_for_rounding() -> None:
    after = [each.with_name(each.name.replace(".in.", ".out.")) for each in PAIRS]
    found = losses([*PAIRS, *after])
    assert all(len(each) == 3 for each in found)
    for one, other in zip(found[: len(PAIRS)], found[len(PAIRS) :], strict=True):
        assert other == pytest.approx(one, rel=1e-5)


def test_noops_run() -> None:
    assert all(len(each) == 3 for each in losses(sorted(FIXTURES.glob("noop_*.py"))))
