"""`autoaccel doctor` at its edges: which machine and data are looked at, what is written where, and how it ends."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from tests.measure.checkup.machines import SERVER, VIRTUAL, Files, record

Run = Callable[..., Result]

BUSY: Files = {"proc/loadavg": "20.00 1.00 1.00 1/1 1\n"}


@pytest.fixture(autouse=True)
def _wide(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever terminal the tests are started from."""
    monkeypatch.setenv("COLUMNS", "200")


@pytest.fixture
def server(folder: Path) -> Path:
    return record(folder / "server", SERVER)


def test_a_healthy_machine(run: Run, server: Path) -> None:
    result = run("doctor", "--root", "server")
    assert result.exit_code == 0
    assert result.stdout.splitlines()[0].split() == "what value threshold what it costs how to fix it".split()
    assert "ok  GPU 1 PCIe width" in result.stdout
    assert "Not checked, no data are known" in result.stdout
    assert result.stderr == "nothing found in 27 checks; nothing was changed.\n"
    assert "\x1b" not in result.stdout
    assert "\x1b" in run("doctor", "--root", "server", "--color", "always").stdout


def test_something_is_found(run: Run, server: Path) -> None:
    record(server, BUSY)
    result = run("doctor", "--root", "server")
    assert result.exit_code == 1
    row = next(line for line in result.stdout.splitlines() if line.startswith("found"))
    assert "load of others" in row
    assert "20 on 32 CPUs" in row
    assert result.stderr == "1 found in 27 checks; nothing was changed.\n"
    assert run("doctor", "--root", "server", "-q").stderr == ""


def test_something_cannot_be_read(run: Run, server: Path) -> None:
    (server / "proc" / "loadavg").unlink()
    result = run("doctor", "--root", "server")
    assert result.exit_code == 1
    assert "unknown  load of others" in result.stdout
    assert "/proc/loadavg: no such file" in result.stdout
    assert result.stderr == "nothing found in 27 checks, of which 1 could not be read; nothing was changed.\n"


def test_json(run: Run, server: Path, folder: Path) -> None:
    record(server, BUSY)
    result = run("doctor", "--root", "server", "--json", "-")
    assert result.exit_code == 1
    found = json.loads(result.stdout)
    assert (found["format"], found["healthy"], found["script"]) == (1, False, None)
    assert [each["name"] for each in found["checks"] if each["status"] == "found"] == ["load"]
    result = run("doctor", "--root", "server", "--json", "out.json")
    assert "load of others" in result.stdout
    assert json.loads((folder / "out.json").read_text()) == found


@pytest.mark.parametrize("columns", ["30", "80", "200"])
def test_a_table_for_any_terminal(run: Run, server: Path, monkeypatch: pytest.MonkeyPatch, columns: str) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    record(server, BUSY)
    lines = run("doctor", "--root", "server").stdout.splitlines()
    assert max(map(len, lines)) <= max(int(columns), 82)


@pytest.mark.parametrize(
    ("script", "place"),
    [
        ("load('/data')\n", "/data"),
        ("load('/data', '/data/train.bin')\n", "/data"),
        ("load('/data/train.bin')\n", "/data/train.bin"),
        ("load('nothing')\n", None),
    ],
)
def test_the_data_of_a_script(run: Run, server: Path, folder: Path, script: str, place: str | None) -> None:
    (folder / "train.py").write_text(script)
    result = run("doctor", "train.py", "--root", "server", "--json", "-")
    disk = next(each for each in json.loads(result.stdout)["checks"] if each["name"] == "data-disk")
    assert (disk["status"] == "absent") == (place is None)
    assert place is None or disk["value"] == f"ext4; {1000} bytes in {place}"
    assert (folder / "train.py").read_text() == script


def test_data_that_are_named(run: Run, server: Path, folder: Path) -> None:
    (folder / "train.py").write_text("load('/data/train.bin')\n")
    result = run("doctor", "train.py", "--data", "/data", "--root", "server")
    assert "bytes in /data" in " ".join(result.stdout.split())
    assert "train.bin" not in result.stdout


def test_this_machine(run: Run, folder: Path) -> None:
    """Whatever is found: a row for everything, and the read rate of what is here."""
    if not Path("/proc/self").exists():
        pytest.skip("no Linux")
    (folder / "data.bin").write_bytes(bytes(3 * 2**20))
    result = run("doctor", "--data", "data.bin", "--json", "-")
    assert result.exit_code in (0, 1)
    found = {each["name"]: each for each in json.loads(result.stdout)["checks"]}
    assert str(folder / "data.bin") in found["data-disk"]["value"]
    assert found["read-rate"]["value"]


def test_the_python_that_is_named(run: Run, server: Path, folder: Path) -> None:
    facts = {"path": "", "python": [3, 11, 0], "torch": "2.13.0", "cuda": "12.6", "threads": 64, "sees_gpu": True}
    (folder / "python").write_text(f"#!/bin/sh\necho '{json.dumps(facts)}'\n")
    (folder / "python").chmod(0o755)
    result = run("doctor", "--root", "server", "--python", "python", "--json", "-")
    assert result.exit_code == 1
    found = {each["name"]: each["status"] for each in json.loads(result.stdout)["checks"]}
    assert {name for name, status in found.items() if status == "found"} == {"torch-threads"}
    assert found["images"] == "absent"


ENDINGS = [
    (["missing.py"], "error: missing.py: no such file\n"),
    (["pack"], "error: pack: is a folder; give a script\n"),
    (["-"], "error: -: no such file\n"),
    (["broken.py"], "error: broken.py: cannot be parsed: "),
    (["zero.py"], "error: zero.py: "),
    (["latin.py"], "error: latin.py: "),
    (["train.py", "more.py"], "unexpected extra argument"),
    (["--frobnicate"], "No such option"),
    (["--root", "pack"], "error: pack: no folder proc in it; doctor looks at Linux\n"),
    (["--root", ""], "the name of a file is empty"),
    (["--data", "nothing"], "error: nothing: no such file or folder\n"),
    (["--data", ""], "the name of a file is empty"),
    (["--python", "nothing"], "error: nothing: no such interpreter\n"),
    (["train.py", "--json", "train.py"], "would replace a script"),
]


@pytest.mark.parametrize(("arguments", "message"), ENDINGS, ids=lambda value: str(value)[:40])
def test_what_cannot_be_done(run: Run, server: Path, folder: Path, arguments: list[str], message: str) -> None:
    (folder / "pack").mkdir()
    (folder / "train.py").write_text("x = 1\n")
    (folder / "broken.py").write_text("x = (1\n")
    (folder / "zero.py").write_bytes(b"x = '\0'\n")
    (folder / "latin.py").write_bytes(b"x = '\xe9'\n")
    result = run("doctor", *(["--root", "server"] if "--root" not in arguments else []), *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert message in result.stderr
    assert len(result.stderr.splitlines()) == 1 or "Usage" in result.stderr
    assert (folder / "train.py").read_text() == "x = 1\n"


def test_a_report_that_cannot_be_written(run: Run, server: Path, folder: Path) -> None:
    (folder / "pack").mkdir()
    result = run("doctor", "--root", "server", "--json", "pack")
    assert result.exit_code == 2
    assert "error: pack: cannot write" in result.stderr
    assert "load of others" in result.stdout


def test_a_machine_without_gpus(run: Run, folder: Path) -> None:
    record(folder / "virtual", VIRTUAL)
    result = run("doctor", "--root", "virtual")
    assert result.exit_code == 0
    assert "Not checked, no NVIDIA GPU: GPU driver, torch on GPUs, GPU clocks, " in " ".join(result.stdout.split())
