"""What `attention` writes trains as what was written out."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from tests.measure.forking import REPOSITORY, Forking

FIXTURES = REPOSITORY / "fixtures" / "attention"
PAIRS = sorted(FIXTURES.glob("*.in.py"))


PROGRAM = """\
import runpy, sys, warnings
warnings.simplefilter("error")
for path in sys.argv[1:]:
    print("#")
    runpy.run_path(path)
"""


def losses(paths: list[Path], forking: Forking) -> list[list[float]]:
    """What scripts print, all in one process, with the numbers behind their steps."""
    done = forking.python(["-c", PROGRAM, *map(str, paths)], REPOSITORY, {**os.environ})
    assert done.returncode == 0, done.stderr
    parts = done.stdout.split("#\n")[1:]
    return [[float(each) for each in re.findall(r"^\d+ (\S+)$", part, re.MULTILINE)] for part in parts]


def test_losses_are_the_same_but_for_rounding(forking: Forking) -> None:
    after = [each.with_name(each.name.replace(".in.", ".out.")) for each in PAIRS]
    found = losses([*PAIRS, *after], forking)
    assert all(len(each) == 3 for each in found)
    for one, other in zip(found[: len(PAIRS)], found[len(PAIRS) :], strict=True):
        assert other == pytest.approx(one, rel=1e-5)


def test_noops_run(forking: Forking) -> None:
    assert all(len(each) == 3 for each in losses(sorted(FIXTURES.glob("noop_*.py")), forking))
