"""Which machine a record holds for."""

from __future__ import annotations

from pathlib import Path

from autoaccel.measure.tuning.machine_facts import fingerprint, machine_facts
from tests.measure.checkup import machines
from tests.measure.checkup.machines import SERVER, VIRTUAL, Files, meminfo, record, status

H100: Files = {"proc/driver/nvidia/gpus/0000:3b:00.0/information": "Model: \t\t NVIDIA H100\nIRQ:   \t\t 16\n"}


def of(folder: Path, *files: Files) -> dict[str, str]:
    return machine_facts(machines.host(record(folder, *files)))


def test_facts(tmp_path: Path) -> None:
    found = of(tmp_path, SERVER, H100)
    assert found["cpus"] == "32"
    assert found["memory"] == "256 GiB"
    assert found["gpus"] == "NVIDIA H100"
    assert of(tmp_path / "virtual", VIRTUAL)["gpus"] == "none"


def test_another_machine_has_another_fingerprint(tmp_path: Path) -> None:
    others: list[Files] = [{}, H100, {"proc/meminfo": meminfo(128)}, {"proc/self/status": status("0-7")}]
    found = [fingerprint(of(tmp_path / str(number), SERVER, each)) for number, each in enumerate(others)]
    assert len(set(found)) == len(found)


def test_the_same_machine_has_the_same(tmp_path: Path) -> None:
    busy: Files = {"proc/meminfo": meminfo(available=1), "proc/loadavg": "30.0 1.0 1.0 1/1 1\n"}
    assert of(tmp_path / "idle", SERVER) == of(tmp_path / "busy", SERVER, busy)
    assert fingerprint(machine_facts()) == fingerprint(machine_facts())


def test_nothing_can_be_read(tmp_path: Path) -> None:
    found = of(tmp_path, {})
    assert (found["cpus"], found["memory"], found["gpus"]) == ("", "", "none")
