"""Runs that are forked from a process which has torch are those of processes that were just started."""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import sys
import textwrap
import types
from collections.abc import Iterator
from pathlib import Path

import pytest

from autoaccel.measure import fork_server, launching
from autoaccel.measure.observing import forking
from autoaccel.measure.observing.request import Request
from autoaccel.measure.observing.run_record import RunRecord
from tests.measure import launched

pytestmark = pytest.mark.skipif(not fork_server._POSSIBLE, reason="processes are not forked here")

TRAINS = """
import multiprocessing, os, sys
import numpy, random, torch

class Rows(torch.utils.data.Dataset):
    def __len__(self):
        return 24

    def __getitem__(self, index):
        return torch.randn(4), index % 2

if __name__ == "__main__":
    print(sys.argv, __name__, os.getcwd(), sys.path[0], os.getsid(0) == str(os.getpid()), sys.stdin.read())
    print(random.random(), numpy.random.rand(), torch.rand(1).item(), hash("seed"), torch.get_num_threads())
    print(sorted(name for name in os.environ if name.startswith(("AUTOACCEL_AMP", "RANK", "SOME"))))
    model = torch.nn.Linear(4, 2)
    optimizer = torch.optim.Adam(model.parameters())
    for x, y in torch.utils.data.DataLoader(Rows(), batch_size=8, shuffle=True, num_workers=2):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        print(loss.item())
    with multiprocessing.get_context("fork").Pool(1) as pool:
        print(pool.map(abs, [-1]))
    child = os.fork()
    if child == 0:
        print("from a fork")
        sys.exit(3)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.fixture(autouse=True, scope="module")
def close() -> Iterator[None]:
    yield
    fork_server.close()


def observe(folder: Path, text: str, environment: dict[str, str] | None = None, **request: object) -> RunRecord:
    (folder / "train.py").write_text(textwrap.dedent(text))
    asked = Request(script="train.py", root=str(folder))
    return launching.observe(
        dataclasses.replace(asked, **request),  # type: ignore[arg-type]
        python=sys.executable, environment=environment or {}, folder=folder, timeout=60,
    )  # fmt: skip


def test_a_fork_does_what_a_start_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    forked = observe(tmp_path, TRAINS, arguments=("--lr", "1"))
    assert forked.failure is None, forked.failure
    (server,) = fork_server._servers.values()
    assert not server._gone
    monkeypatch.setattr(fork_server, "_POSSIBLE", False)
    started = observe(tmp_path, TRAINS, arguments=("--lr", "1"))
    assert dataclasses.replace(forked, seconds=0.0) == dataclasses.replace(started, seconds=0.0)
    assert forked.steps == 3


def test_a_module_of_the_project_that_torch_would_have_found(tmp_path: Path) -> None:
    """The script is started anew: its module is the one that it imports."""
    (tmp_path / "mpmath").mkdir()
    (tmp_path / "mpmath" / "__init__.py").write_text("print('mine')")
    assert observe(tmp_path, "import mpmath").printed == ("mine",)


@pytest.mark.parametrize(
    ("name", "hides"), [("sympy.py", True), ("sympy/a.py", True), ("train.py", False), ("simpy.py", False)]
)
def test_hidden_modules(name: str, hides: bool, tmp_path: Path) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).touch()
    assert forking._hides_modules(str(tmp_path), {"sympy": sys, "torch": sys}) is hides


def test_a_folder_that_cannot_be_read_may_hide_anything(tmp_path: Path) -> None:
    assert forking._hides_modules(str(tmp_path / "missing"), {})


def test_what_was_initialised_before_a_fork_is_of_no_use() -> None:
    used = types.SimpleNamespace(_is_in_bad_fork=lambda: True)
    unused = types.SimpleNamespace(_is_in_bad_fork=lambda: False)
    assert forking._is_of_no_use(types.SimpleNamespace(cuda=used))
    assert forking._is_of_no_use(types.SimpleNamespace(cuda=unused, xpu=used))
    assert not forking._is_of_no_use(types.SimpleNamespace(cuda=unused, mps=types.SimpleNamespace()))


def test_what_was_made_before_the_fork_is_left_to_the_server() -> None:
    made = """
import os, weakref
from autoaccel.measure.observing import forking
class Library: ...
before, after = Library(), Library()
weakref.finalize(before, print, "before", os.getppid())
if os.fork() == 0:
    forking.leave_to_the_server()
    weakref.finalize(after, print, "after", os.getppid())
else:
    os.wait()
"""
    done = subprocess.run([sys.executable, "-c", made], capture_output=True, text=True, check=True)
    said = [line.split() for line in done.stdout.splitlines()]
    assert [word for word, _ in said] == ["after", "before"]
    assert said[1][1] == str(os.getpid())


# -- the server, with a child that imports no torch

SAYS = """
names = ("AUTOACCEL_AMP_DTYPE", "RANK", "SOME")
told = " ".join(f"{name}={os.environ[name]}" for name in names if name in os.environ)
record["settings"] = {"parent": str(os.getppid()), "told": told}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    yield from launched.prepared(tmp_path, monkeypatch, forks=True)


def server() -> fork_server.ForkServer:
    (only,) = fork_server._servers.values()
    return only


def told(record: RunRecord) -> str:
    """What a fork was told."""
    assert record.settings["parent"] == str(server()._process.pid)
    return record.settings["told"]


def test_one_server_for_all_in_which_torch_is_the_same(folder: Path) -> None:
    assert told(launched.observe(folder, SAYS)) == ""
    first = server()
    assert told(launched.observe(folder, SAYS, AUTOACCEL_AMP_DTYPE="off")) == "AUTOACCEL_AMP_DTYPE=off"
    assert server() is first
    assert told(launched.observe(folder, SAYS, SOME="other")) == "SOME=other"
    assert server() is not first
    assert first._process.poll() is not None


def test_ranks_are_forked_side_by_side(folder: Path) -> None:
    asked = launched.request(folder, SAYS)
    records = launching.observe_ranks(
        asked, 2, python=sys.executable, environment={}, folder=folder, timeout=60
    )  # fmt: skip
    assert list(map(told, records)) == ["RANK=0", "RANK=1"]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_without_a_server_runs_are_started(folder: Path, number: int) -> None:
    assert told(launched.observe(folder, SAYS)) == ""
    os.kill(server()._process.pid, number)
    server()._process.wait()
    for _ in range(2):
        assert launched.observe(folder, SAYS).settings["parent"] == str(os.getpid())
    fork_server.close()


def test_an_environment_that_is_too_long_to_be_sent(folder: Path) -> None:
    long = {f"AUTOACCEL_{number}": "x" * 100_000 for number in range(8)}
    record = launching.observe(
        launched.request(folder, SAYS), python=sys.executable, environment=long, folder=folder, timeout=60
    )
    assert record.settings["parent"] == str(os.getpid())
    fork_server.close()


def test_of_a_server_that_is_killed_no_status_comes() -> None:
    status, write = os.pipe()
    os.close(write)
    assert fork_server.Forked(os.getpid(), status).wait() == -signal.SIGKILL
