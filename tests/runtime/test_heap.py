"""Memory that a step frees stays with the process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from autoaccel.runtime import heap

ROOT = Path(__file__).parents[2]
# A step that allocates some 60 MB in blocks that glibc takes from the system one by one, and its page faults.
FAULTS = """
import resource, sys, torch
from autoaccel import runtime as accel

with accel.autocast("cpu"):
    pass

def step():
    parts = [torch.ones(1 << 20) for _ in range(15)]
    return sum(part[0] for part in parts)

for _ in range(5):
    step()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(10):
    step()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


class Library:
    def __init__(self, takes: bool) -> None:
        self.takes = takes
        self.told: list[tuple[int, int]] = []

    def mallopt(self, parameter: int, value: int) -> int:
        self.told.append((parameter, value))
        return int(self.takes)


def test_both_thresholds_are_told() -> None:
    library = Library(takes=True)
    assert heap.settle(library)
    assert library.told == [(-3, 32 * 2**20), (-1, 512 * 2**20)]
    assert not heap.settle(Library(takes=False))


@pytest.mark.parametrize("name", ["MALLOC_ARENA_MAX", "GLIBC_TUNABLES", "LD_PRELOAD"])
def test_what_somebody_else_has_set_up_is_left_alone(name: str) -> None:
    assert heap.verdict({"PATH": "/bin"}).value is (sys.platform == "linux")
    found = heap.verdict({name: "1"})
    assert (found.value, found.reason) == (False, f"{name} is set")


def test_it_can_be_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTOACCEL_DISABLE", "heap")
    assert heap.verdict({}).reason == "AUTOACCEL_DISABLE"


def test_other_libraries_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heap, "_library", lambda: None)
    assert heap.verdict({}).value is False


@pytest.mark.skipif(not heap.verdict({}).value, reason="needs glibc")
def test_steps_find_their_memory_again() -> None:
    faults = {}
    for disable in ("heap", ""):
        environment = {
            "PATH": "/usr/bin:/bin",
            "PYTHONPATH": str(ROOT),
            "AUTOACCEL_DISABLE": disable,
            "OMP_NUM_THREADS": "1",
        }
        done = subprocess.run(
            [sys.executable, "-c", FAULTS], env=environment, capture_output=True, text=True, check=True
        )
        faults[disable] = int(done.stdout)
    assert faults[""] < faults["heap"] / 10
