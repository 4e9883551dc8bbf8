"""Runs of a child that observes nothing and imports no torch, started and forked."""

from __future__ import annotations

import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from autoaccel.measure import fork_server, launching
from autoaccel.measure.observing.request import Request
from autoaccel.measure.observing.run_record import RunRecord

linux = pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="looks at /proc")

# What the real one does with the exchange, around a script that may use all of it.
CHILD = """
import faulthandler, os, pathlib, signal, sys
sys.path[0] = os.path.abspath(sys.argv[1])
if sys.argv[1] == "--serve":
    import types
    from autoaccel.measure.observing import forking
    sys.modules["torch"] = sys.modules["torch._dynamo"] = types.ModuleType("torch")
    forking._OBSERVING = ()
    sys.argv = forking.serve(int(sys.argv[2]), sys.argv[3]) or sys.exit()
from autoaccel.measure.observing.exchange import Beat, Exchange, write_whole
from autoaccel.measure.observing.run_record import RunRecord
from autoaccel.measure.observing.request import Request
faulthandler.register(signal.SIGUSR2, all_threads=False)
exchange = Exchange(pathlib.Path(sys.argv[1]))
request = Request.from_json(exchange.request.read_text())
beat = Beat(exchange)
record = {"ending": "finished"}
with open(request.script) as file:
    exec(compile(file.read(), os.path.abspath(request.script), "exec"))
write_whole(exchange.result, RunRecord(**record).to_json())
"""


def process_of(run: launching.Started) -> int:
    assert run._process is not None
    return run._process.pid


def prepared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, forks: bool) -> Iterator[Path]:
    """The working directory of runs; for fixtures."""
    child = tmp_path / "child.py"
    child.write_text(CHILD)
    monkeypatch.setattr(fork_server, "_CHILD", child)
    monkeypatch.setattr(fork_server, "_POSSIBLE", forks)
    monkeypatch.setattr(launching, "_GRACE", 0.3)
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    place = tmp_path / "project"
    place.mkdir()
    monkeypatch.chdir(place)
    yield place
    assert not any(server._gone for server in fork_server._servers.values())
    fork_server.close()


def request(folder: Path, text: str, mode: str = "record", name: str = "train.py") -> Request:
    (folder / name).write_text(textwrap.dedent(text))
    return Request(script=name, root=str(folder), mode=mode)


def observe(
    folder: Path,
    text: str,
    *,
    timeout: float | None = 30,
    on_steps: Callable[[int], None] | None = None,
    **environment: str,
) -> RunRecord:
    asked = request(folder, text)
    record = launching.observe(
        asked, python=sys.executable, environment=environment, folder=folder, timeout=timeout, on_steps=on_steps
    )
    assert left_over(folder) == []
    return record


def left_over(folder: Path) -> list[Path]:
    """Temporary files, but for what belongs to the server."""
    servers = [server._imports for server in fork_server._servers.values()]
    return [each for each in (folder.parent / "temporary").iterdir() if each not in servers]


def wait_until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, "it does not come about"
        time.sleep(0.02)


def alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(") ")[2][0] != "Z"
    except OSError:
        return False
