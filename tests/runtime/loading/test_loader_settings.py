"""Loader settings: safe on every machine."""

from __future__ import annotations

import math
import multiprocessing
import os
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, Dataset

from autoaccel import runtime as accel
from autoaccel.runtime import devices
from autoaccel.runtime.loading import loader_settings
from autoaccel.runtime.loading.worker_count import Machine
from tests.measure.forking import REPOSITORY, Forking


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A machine with a GPU, 16 CPUs, fork and enough shared memory, to be spoiled by the test."""
    monkeypatch.setattr(devices, "accelerator", lambda: torch.device("cuda"))
    monkeypatch.setattr(loader_settings, "usable_cpus", lambda: 16.0)
    monkeypatch.setattr(loader_settings, "start_method", lambda: "fork")
    monkeypatch.setattr(loader_settings, "_shared_memory", lambda: (math.inf, math.inf))
    return monkeypatch


@pytest.mark.parametrize(("cpus", "expected"), [(16.0, 4), (4.0, 3), (2.0, 1), (1.0, 0), (0.5, 0), (2.5, 1)])
def test_workers_by_usable_cpus(machine: pytest.MonkeyPatch, cpus: float, expected: int) -> None:
    machine.setattr(loader_settings, "usable_cpus", lambda: cpus)
    assert accel.num_workers() == expected


@pytest.mark.parametrize(("processes", "expected"), [("1", 4), ("4", 3), ("8", 1), ("16", 0), ("nonsense", 4)])
def test_processes_share_the_cpus(machine: pytest.MonkeyPatch, processes: str, expected: int) -> None:
    machine.setenv("LOCAL_WORLD_SIZE", processes)
    assert accel.num_workers() == expected


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("start_method", lambda: "spawn"),
        ("start_method", lambda: "forkserver"),
        ("_shared_memory", lambda: (64.0 * 2**20, 64.0 * 2**20)),
        ("get_worker_info", lambda: object()),
    ],
)
def test_no_workers_where_they_would_hurt(machine: pytest.MonkeyPatch, name: str, value: Any) -> None:
    machine.setattr(loader_settings, name, value)
    assert accel.num_workers() == 0


def test_no_workers_without_accelerator(machine: pytest.MonkeyPatch) -> None:
    machine.setattr(devices, "accelerator", lambda: None)
    assert accel.num_workers() == 0
    assert accel.pin_memory() is False


def test_the_environment_says_how_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTOACCEL_NUM_WORKERS", "7")
    assert accel.num_workers() == 7
    monkeypatch.setenv("AUTOACCEL_DISABLE", "workers")
    assert accel.num_workers() == 0


def test_a_wrong_number_is_ignored_with_one_warning(machine: pytest.MonkeyPatch) -> None:
    machine.setenv("AUTOACCEL_NUM_WORKERS", "many")
    with pytest.warns(RuntimeWarning, match="many") as caught:
        assert [accel.num_workers(), accel.num_workers()] == [4, 4]
    assert len(caught) == 1


@pytest.mark.parametrize(("kind", "expected"), [("cuda", True), ("xpu", True), ("mps", False)])
def test_pinning_by_kind(machine: pytest.MonkeyPatch, kind: str, expected: bool) -> None:
    machine.setattr(devices, "accelerator", lambda: torch.device(kind))
    assert accel.pin_memory() is expected
    for value in ("pin", "all"):
        machine.setenv("AUTOACCEL_DISABLE", value)
        assert accel.pin_memory() is False


class Asks(Dataset[int]):
    def __len__(self) -> int:
        return 1

    def __getitem__(self, index: int) -> int:
        return accel.num_workers()


def test_workers_have_no_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTOACCEL_NUM_WORKERS", "1")
    assert [int(batch) for batch in DataLoader(Asks(), num_workers=accel.num_workers())] == [0]


def _ask(answers: Any) -> None:
    answers.put(int(accel.num_workers()))


def test_daemons_have_no_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTOACCEL_NUM_WORKERS", "1")
    context = multiprocessing.get_context("fork")
    answers = context.Queue()
    process = context.Process(target=_ask, args=(answers,), daemon=True)
    process.start()
    assert answers.get(timeout=30) == 0
    process.join()


def test_asking_does_not_fix_the_start_method(forking: Forking, tmp_path: Path) -> None:
    program = (
        "import multiprocessing as m; from autoaccel import runtime as a; a.num_workers(); m.set_start_method('spawn')"
    )
    done = forking.python(["-c", program], tmp_path, {**os.environ, "PYTHONPATH": str(REPOSITORY)})
    assert done.returncode == 0, done.stderr


def test_usable_cpus_is_the_least(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(8)), raising=False)
    monkeypatch.setattr(loader_settings, "cgroup_quotas", lambda root, membership: iter([6.0, 2.5]))
    assert loader_settings.usable_cpus() == 2.5
    monkeypatch.setenv("SLURM_CPUS_PER_TASK", "2")
    assert loader_settings.usable_cpus() == 2.0
    monkeypatch.setenv("SLURM_CPUS_PER_TASK", "many")
    assert loader_settings.usable_cpus() == 2.5


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_quotas_of_control_groups_version_2(tmp_path: Path) -> None:
    write(tmp_path / "self", "0::/jobs/mine\n")
    write(tmp_path / "fs/cpu.max", "max 100000\n")
    write(tmp_path / "fs/jobs/cpu.max", "350000 100000\n")
    write(tmp_path / "fs/jobs/mine/cpu.max", "200000 100000\n")
    assert sorted(loader_settings.cgroup_quotas(tmp_path / "fs", tmp_path / "self")) == [2.0, 3.5]


def test_quotas_of_control_groups_version_1(tmp_path: Path) -> None:
    write(tmp_path / "self", "5:memory:/m\n4:cpu,cpuacct:/docker/abc\n")
    write(
        tmp_path / "fs/cpu/cpu.cfs_quota_us", "150000\n"
    )  # in a container the listed group is not visible, its root is
    write(tmp_path / "fs/cpu/cpu.cfs_period_us", "100000\n")
    assert list(loader_settings.cgroup_quotas(tmp_path / "fs", tmp_path / "self")) == [1.5]
    write(tmp_path / "fs/cpu/cpu.cfs_quota_us", "-1\n")
    assert list(loader_settings.cgroup_quotas(tmp_path / "fs", tmp_path / "self")) == []


@pytest.mark.parametrize("content", [None, "", "0::/x\n"])
def test_no_control_groups_no_quota(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        write(tmp_path / "self", content)
    assert list(loader_settings.cgroup_quotas(tmp_path / "fs", tmp_path / "self")) == []


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, 1),
        ({"LOCAL_WORLD_SIZE": "4"}, 4),
        ({"SLURM_NTASKS_PER_NODE": "4", "SLURM_PROCID": "0"}, 4),
        ({"SLURM_NTASKS_PER_NODE": "4"}, 1),  # in the shell of a batch job
        ({"SLURM_NTASKS_PER_NODE": "4", "SLURM_PROCID": "0", "SLURM_CPUS_PER_TASK": "8"}, 1),  # its own CPUs
        ({"SLURM_NTASKS_PER_NODE": "1", "SLURM_PROCID": "0", "LOCAL_WORLD_SIZE": "2"}, 2),  # torchrun in one task
        ({"SLURM_NTASKS_PER_NODE": "4(x2)", "SLURM_PROCID": "0"}, 1),
    ],
)
def test_processes_that_share_the_machine(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], expected: int
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert loader_settings._processes_here() == expected


def test_memory_that_control_groups_leave(tmp_path: Path) -> None:
    write(tmp_path / "self", "0::/jobs/mine\n")
    write(tmp_path / "fs/memory.max", "max\n")
    write(tmp_path / "fs/memory.current", "900\n")
    write(tmp_path / "fs/jobs/memory.max", "1000\n")
    write(tmp_path / "fs/jobs/memory.current", "700\n")
    write(tmp_path / "fs/jobs/memory.stat", "anon 300\ninactive_file 400\n")
    write(tmp_path / "fs/jobs/mine/memory.max", "500\n")
    write(tmp_path / "fs/jobs/mine/memory.current", "450\n")
    assert sorted(loader_settings.memory_left(tmp_path / "fs", tmp_path / "self")) == [50.0, 700.0]
    write(tmp_path / "self", "7:memory:/docker/abc\n")
    write(tmp_path / "fs/memory/memory.limit_in_bytes", "1000\n")
    write(tmp_path / "fs/memory/memory.usage_in_bytes", "1200\n")
    write(tmp_path / "fs/memory/memory.stat", "total_inactive_file 100\n")
    assert list(loader_settings.memory_left(tmp_path / "fs", tmp_path / "self")) == [0.0]


def test_a_training_process_has_its_share_of_the_machine(machine: pytest.MonkeyPatch) -> None:
    machine.setattr(loader_settings, "_free_memory", lambda: 8e9)
    machine.setattr(loader_settings, "_shared_memory", lambda: (4e9, 4e9))
    machine.setattr(loader_settings, "_held_memory", lambda: 1e9)
    assert loader_settings.machine() == Machine(16.0, 8e9, 4e9, 1e9)
    machine.setenv("LOCAL_WORLD_SIZE", "4")
    assert loader_settings.machine() == Machine(4.0, 2e9, 1e9, 1e9)


def test_this_machine_has_memory() -> None:
    found = loader_settings.machine()
    assert found.cpus > 0
    assert found.memory > 2**20
    assert found.shared > 0
    assert sys.platform != "linux" or 2**24 < found.held < 2**40
