"""Memory that a step frees stays with the process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from autoaccel import runtime as accel
from autoaccel.runtime import devices
from autoaccel.runtime.loading import glibc_malloc

ROOT = Path(__file__).parents[3]
# Steps that allocate some 60 MB, and their page faults. By itself glibc takes blocks that are larger than all that were
# freed before from the system one by one; where others come to lie is chance.
FAULTS = """
import resource, sys, torch
from autoaccel import runtime as accel

accel.prefetch([])

def step(number):
    parts = [torch.ones((1 << 20) + 4096 * number) for _ in range(15)]
    return sum(part[0] for part in parts)

for number in range(5):
    step(number)
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for number in range(5, 15):
    step(number)
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
    assert glibc_malloc.set_thresholds(library)
    assert library.told == [(-3, 32 * 2**20), (-1, 512 * 2**20)]
    assert not glibc_malloc.set_thresholds(Library(takes=False))


@pytest.mark.parametrize("name", ["MALLOC_ARENA_MAX", "GLIBC_TUNABLES", "LD_PRELOAD"])
def test_what_somebody_else_has_set_up_is_left_alone(name: str) -> None:
    assert glibc_malloc.verdict({"PATH": "/bin"}).value is (sys.platform == "linux")
    found = glibc_malloc.verdict({name: "1"})
    assert (found.value, found.reason) == (False, f"{name} is set")


def test_it_can_be_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTOACCEL_DISABLE", "heap")
    assert glibc_malloc.verdict({}).reason == "AUTOACCEL_DISABLE"


def test_other_libraries_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(glibc_malloc, "_library", lambda: None)
    assert glibc_malloc.verdict({}).value is False


@pytest.mark.skipif(not glibc_malloc.verdict({}).value, reason="needs glibc")
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


@pytest.mark.parametrize("verb", ["prefetch([])", "autocast('cpu')", "grad_scaler()", "compile(abs)", "num_workers()"])
def test_only_prefetch_keeps_memory(verb: str, monkeypatch: pytest.MonkeyPatch) -> None:
    library = Library(takes=True)
    library.gnu_get_libc_version = None  # type: ignore[attr-defined]
    monkeypatch.setattr(glibc_malloc, "_library", lambda: library)
    for name in os.environ:
        if name.startswith(("MALLOC_", "GLIBC_TUNABLES", "LD_PRELOAD")):
            monkeypatch.delenv(name)
    monkeypatch.setattr(devices, "accelerator", lambda: None)
    eval(f"accel.{verb}", {"accel": accel, "abs": abs})
    assert bool(library.told) is verb.startswith("prefetch")
