"""How many workers: arithmetic over made-up measurements and machines."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as some

from autoaccel.runtime.loading.worker_count import (
    CHEAP,
    MOST,
    START,
    LoaderMeasurements,
    Machine,
    decide_workers,
    helps,
)

BIG = Machine(cpus=16.0, memory=math.inf, shared=math.inf)
IMAGES = LoaderMeasurements(
    fetch=0.19, step=0.06, host=0.06, batch=40 * 2**20, ahead=2, left=1000, waited=0.6, kept=True
)


@pytest.mark.parametrize(
    ("fetch", "step", "expected"),
    [
        (0.19, 0.06, 10),  # 3 * 0.19 / 0.06: the step may well become three times faster
        (0.03, 0.06, 2),
        (0.015, 0.06, 1),
        (0.05, 0.06, 3),
        (10.0, 0.01, 15),  # as many as there are CPUs beside the one that trains
        (0.0002, 0.00001, 0),  # cheap
        (0.001, 0.5, 0),  # far below the step
        (0.00095, 0.0, 10),  # a step of no time: batches are handed over in 0.3 ms
    ],
)
def test_enough_to_hide_the_fetch_behind_the_step(fetch: float, step: float, expected: int) -> None:
    assert decide_workers(replace(IMAGES, fetch=fetch, step=step, host=step), BIG).workers == expected


@pytest.mark.parametrize(("host", "expected"), [(0.1, 3), (0.05, 3), (0.02, 0), (0.0, 0)])
def test_what_is_fetched_while_the_device_is_busy_is_hidden_already(host: float, expected: int) -> None:
    """A loop that never waits for its results hands work over faster than it is done."""
    assert decide_workers(replace(IMAGES, fetch=0.07, step=0.1, host=host), BIG).workers == expected


@pytest.mark.parametrize(
    ("machine", "expected", "reason"),
    [
        (Machine(64.0, math.inf, math.inf), 10, "a batch takes 190 ms to fetch, a step 60 ms"),
        (Machine(4.0, math.inf, math.inf), 3, "4 would hide it, but there are 4 CPUs"),
        (Machine(2.5, math.inf, math.inf), 1, "2.5 CPUs"),
        (Machine(1.0, math.inf, math.inf), 0, "1 CPUs, of which one trains"),
        (Machine(16.0, math.inf, 400 * 2**20), 2, "400 MiB free in /dev/shm for batches of 40.0 MiB"),
        (Machine(16.0, math.inf, 64 * 2**20), 0, "/dev/shm"),
        (Machine(16.0, 2**30, math.inf), 3, "1024 MiB free in memory"),
        (Machine(16.0, 2**28, math.inf), 0, "memory"),
    ],
)
def test_no_more_than_the_machine_has_room_for(machine: Machine, expected: int, reason: str) -> None:
    found = decide_workers(IMAGES, machine)
    assert found.workers == expected
    assert reason in found.reason


def test_never_more_than_the_most() -> None:
    assert decide_workers(replace(IMAGES, fetch=60.0), Machine(256.0, math.inf, math.inf)).workers == MOST


def test_a_short_pass_does_not_pay_for_starting_them() -> None:
    short = replace(IMAGES, fetch=0.004, step=0.01, host=0.01, left=20, kept=False, waited=99.0)
    assert decide_workers(short, BIG).workers == 0
    assert decide_workers(short, BIG).yet
    assert decide_workers(replace(short, left=60), BIG).workers == 2
    assert decide_workers(replace(short, left=30), BIG).workers == 1, "fewer, where more would not pay"
    assert decide_workers(replace(short, left=None), BIG).workers == 0


def test_kept_workers_pay_once_the_run_has_lasted() -> None:
    """What they cost was lost to fetching before: at worst, twice of what the better way takes."""
    short = replace(IMAGES, fetch=0.004, step=0.01, host=0.01, left=20)
    assert decide_workers(replace(short, waited=0.9 * START), BIG).workers == 0
    assert decide_workers(replace(short, waited=START), BIG).workers == 1
    assert decide_workers(replace(short, waited=2 * START), BIG).workers == 2


def test_a_process_that_holds_much_is_forked_at_a_price() -> None:
    short = replace(IMAGES, fetch=0.004, step=0.01, host=0.01, left=60, kept=False)
    assert decide_workers(short, BIG).workers == 2
    assert decide_workers(short, replace(BIG, held=64 * 2**30)).workers == 0


numbers = some.floats(0.0, 100.0)


@given(
    numbers, numbers, numbers, some.integers(0, 2**34), some.integers(1, 8), numbers, numbers, numbers, some.booleans()
)
def test_whatever_is_measured_it_fits(
    fetch: float,
    step: float,
    host: float,
    batch: int,
    ahead: int,
    cpus: float,
    memory: float,
    shared: float,
    kept: bool,
) -> None:
    machine = Machine(cpus, memory * 2**30, shared * 2**30)
    found = decide_workers(LoaderMeasurements(fetch, max(step, host), host, batch, ahead, 1000, 1.0, kept), machine)
    assert 0 <= found.workers <= MOST
    assert found.reason
    if found.workers:
        assert fetch >= CHEAP
        assert found.workers <= cpus - 1
        assert found.workers * ahead * batch <= min(machine.memory / 4, machine.shared / 2)


def test_they_stay_if_the_loop_waits_clearly_less() -> None:
    assert helps(fetch=0.010, wait=0.001)
    assert not helps(fetch=0.010, wait=0.0095)
    assert not helps(fetch=0.0005, wait=0.0026)  # small tensors: handing them over takes longer than making them
