"""How observed runs are started, followed and ended."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import signal
import struct
import subprocess
import sys
import termios
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from autoaccel.measure import failures, fork_server, launching, watchdog
from autoaccel.measure.observing.request import Request
from autoaccel.measure.observing.run_record import FAILED, FINISHED, RunFailure, RunRecord
from tests.measure.launched import alive, left_over, linux, observe, prepared, process_of, request, wait_until

REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.fixture(params=["started", "forked"])
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[Path]:
    if request.param == "forked" and not fork_server._POSSIBLE:
        pytest.skip("processes are not forked here")
    yield from prepared(tmp_path, monkeypatch, forks=request.param == "forked")


def say(record: RunRecord) -> str:
    assert record.failure is not None
    return failures.line(record.failure, script="train.py", python="/usr/bin/python3")


def test_the_record_comes_back(folder: Path) -> None:
    record = observe(folder, "record.update(steps=3, printed=('loss 1.5',))")
    assert record == RunRecord(ending=FINISHED, steps=3, printed=("loss 1.5",))


def test_surroundings(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTOACCEL_NUM_WORKERS", "3")
    monkeypatch.setenv("AUTOACCEL_LOG", "info")
    monkeypatch.setenv("AUTOACCEL_REMEMBER", "on")
    monkeypatch.setenv("PYTHONINSPECT", "1")
    monkeypatch.setenv("PYTHONPATH", "elsewhere")
    record = observe(
        folder,
        """
        import sys, autoaccel
        variables = ["NUM_WORKERS", "LOG", "REMEMBER"]
        names = ["PYTHONHASHSEED", "MPLBACKEND", "WANDB_MODE", *(f"AUTOACCEL_{name}" for name in variables)]
        record["settings"] = {name: os.environ[name] for name in names} | {
            "inspect": repr(os.environ.get("PYTHONINSPECT")),
            "tool": os.path.realpath(os.path.dirname(autoaccel.__file__)),
            "beside": repr(sorted(os.listdir(os.path.dirname(os.path.dirname(autoaccel.__file__))))),
            "path": os.environ["PYTHONPATH"].split(os.pathsep, 1)[1],
            "input": sys.stdin.read(),
            "folder": os.getcwd(),
            "session": repr(os.getsid(0) == os.getpid()),
        }
        """,
        AUTOACCEL_LOG="",
        WANDB_MODE="offline",
    )
    assert record.settings == {
        "PYTHONHASHSEED": "0",
        "MPLBACKEND": "Agg",
        "WANDB_MODE": "offline",
        "AUTOACCEL_NUM_WORKERS": "3",
        "AUTOACCEL_LOG": "",
        "AUTOACCEL_REMEMBER": "off",
        "inspect": "None",
        "tool": str(REPOSITORY / "autoaccel"),
        "beside": "['autoaccel']",
        "path": "elsewhere",
        "input": "",
        "folder": str(folder),
        "session": "True",
    }


@pytest.fixture
def terminal() -> Iterator[None]:
    """Standard input is a terminal of 100 columns."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
    before = os.dup(0)
    os.dup2(theirs, 0)
    yield
    os.dup2(before, 0)
    for descriptor in (ours, theirs, before):
        os.close(descriptor)


@pytest.mark.usefixtures("terminal")
def test_a_terminal_tells_its_size_and_nothing_else(folder: Path) -> None:
    text = """
    import subprocess
    size = subprocess.run(["stty", "size"], stdin=0, capture_output=True, text=True).stdout
    try:
        said = input()
    except OSError as error:
        said = type(error).__name__
    record["printed"] = (size, said)
    """
    assert observe(folder, text).printed == ("30 100\n", "OSError")


def test_a_path_for_the_script_does_not_hide_the_tool(folder: Path) -> None:
    text = """
    import subprocess, sys
    find = "import autoaccel, os; print(os.environ['PYTHONPATH'].split(os.pathsep)[1:])"
    record["printed"] = (subprocess.run([sys.executable, "-P", "-c", find], capture_output=True, text=True).stdout,)
    """
    assert observe(folder, text, PYTHONPATH="elsewhere").printed == ("['elsewhere']\n",)


def test_steps_are_told_while_they_are_made(folder: Path) -> None:
    seen: list[int] = []

    def told(step: int) -> None:
        seen.append(step)
        (folder / f"told {step}").touch()

    text = """
    import time
    for step in (1, 2, 30):
        beat(step)
        while not os.path.exists(f"told {step}"):
            time.sleep(0.01)
    """
    observe(folder, text, on_steps=told)
    assert seen == [1, 2, 30]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("os.kill(os.getpid(), 9)", "train.py: killed by signal 9 (SIGKILL), often a lack of memory"),
        ("os._exit(3)", "train.py: ended with exit status 3 before anything could be recorded"),
        ("os._exit(0)", "train.py: ended with exit status 0 before anything could be recorded"),
        (
            "raise OSError('libcudart.so: no such file')",
            "train.py: ended with exit status 1 before anything could be recorded: OSError: libcudart.so: no such file",
        ),
        (
            "def crash():\n    os.kill(os.getpid(), 11)\ncrash()",
            "train.py:2: killed by signal 11 (SIGSEGV), in compiled code",
        ),
    ],
)
def test_a_process_that_dies_without_a_record(folder: Path, text: str, said: str) -> None:
    record = observe(folder, f"beat(7)\n{text}" if "crash" not in text else text)
    assert record.ending == FAILED
    assert say(record) == said
    assert record.steps == (0 if "crash" in text else 7)


def test_a_full_disk_is_said(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launching, "_ROOM", 2**62)
    assert say(observe(folder, "os._exit(1)")).startswith("train.py: there is no space left in /")


def test_a_process_that_hangs(folder: Path) -> None:
    record = observe(folder, "import time\nbeat(2)\ntime.sleep(60)", timeout=0.7)
    assert say(record) == "train.py:3: made no step for 0.7 s after 2 steps"
    assert record.failure is not None and "line 3 in <module>" in record.failure.traceback
    assert record.seconds < 20


def test_steps_are_what_keeps_a_run_alive(folder: Path) -> None:
    text = "import time\nfor step in range(1, 7):\n    beat(step)\n    time.sleep(0.4)"
    assert observe(folder, text, timeout=1.5).ending == FINISHED


def test_a_process_that_does_not_want_to_end(folder: Path) -> None:
    record = observe(folder, "import time\nsignal.signal(15, signal.SIG_IGN)\ntime.sleep(60)", timeout=0.5)
    assert record.failure is not None and record.failure.kind == "timeout"


def test_a_process_that_does_not_end_after_its_record(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launching, "_LEAVING", 0.3)
    text = "import threading, time\nthreading.Thread(target=time.sleep, args=(60,)).start()\nrecord['steps'] = 4"
    assert observe(folder, text).steps == 4


def test_what_a_worker_process_has_to_say(folder: Path) -> None:
    text = """
    from autoaccel.measure.observing.exchange import write_whole
    if os.fork() == 0:
        write_whole(exchange.failure, '{"kind": "overwrites", "message": "would overwrite log.txt"}')
        os._exit(1)
    os.wait()
    import time
    time.sleep(60)
    """
    assert observe(folder, text).failure == RunFailure("overwrites", "would overwrite log.txt")


LEAVES_PROCESSES = """
import subprocess, sys, time
sleep = [sys.executable, "-c", "import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(60)"]
left = [
    subprocess.Popen(sleep),
    subprocess.Popen(sleep, start_new_session=True),
    subprocess.Popen(sleep, env={"PATH": ""}),
]
with open("left.txt.new", "w") as file:
    print(*(each.pid for each in left), os.getpid(), file=file)
os.rename("left.txt.new", "left.txt")
"""


def left(folder: Path) -> list[int]:
    return [int(each) for each in (folder / "left.txt").read_text().split()]


@linux
@pytest.mark.parametrize("ending", ["", "os._exit(1)", "os.kill(os.getpid(), 9)", "time.sleep(60)"])
def test_no_process_outlives_its_run(folder: Path, ending: str) -> None:
    observe(folder, LEAVES_PROCESSES + ending, timeout=1.5)
    wait_until(lambda: not any(map(alive, left(folder))))


TOOL = """
import signal, sys
from pathlib import Path
from autoaccel.measure import fork_server, launching
from autoaccel.measure.observing.request import Request
fork_server._CHILD = Path("../child.py").resolve()
fork_server._POSSIBLE = {forks}
launching.tempfile.tempdir = str(Path("../temporary").resolve())
request = Request(script="train.py", root=str(Path.cwd()))
signal.signal(signal.SIGINT, signal.default_int_handler)  # what a job in the background starts ignores it
try:
    {act}
except KeyboardInterrupt:
    sys.exit(130)
"""
OBSERVES = "launching.observe(request, python=sys.executable, environment={}, folder=Path.cwd())"
PAUSES = """
    server = fork_server.server_for(sys.executable, launching.run_environment({}), Path.cwd())
    first = launching.Started(request, python=sys.executable, environment={}, folder=Path.cwd(), server=server)
    while not Path("left.txt").exists(): pass
    first.pause()
    second = launching.Started(request, python=sys.executable, environment={}, folder=Path.cwd(), server=server)
    Path("paused").touch()
    second.wait(60)
"""


@contextlib.contextmanager
def tool(folder: Path, act: str) -> Iterator[subprocess.Popen[bytes]]:
    program = TOOL.replace("{act}", act).replace("{forks}", str(fork_server._POSSIBLE))
    process = subprocess.Popen(
        [sys.executable, "-c", program], cwd=folder, start_new_session=True,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@linux
@pytest.mark.parametrize("everybody", [True, False], ids=["the group, as a terminal does", "the process alone"])
def test_interrupted(folder: Path, everybody: bool) -> None:
    request(folder, LEAVES_PROCESSES + "time.sleep(60)")
    with tool(folder, OBSERVES) as process:
        wait_until((folder / "left.txt").exists)
        if everybody:
            os.killpg(process.pid, signal.SIGINT)
        else:
            process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=20)
        assert (process.returncode, output) == (130, b"")
        wait_until(lambda: not any(map(alive, left(folder))))
        assert list((folder.parent / "temporary").iterdir()) == []


@linux
@pytest.mark.parametrize("act", [OBSERVES, PAUSES.strip()], ids=["running", "paused"])
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_nothing_outlives_a_killed_tool(folder: Path, act: str, number: int) -> None:
    creates = (
        "open('created', 'w').close()\nexchange.created.write_text('[\"created\", \"%s/created\"]' % os.getcwd())\n"
    )
    request(folder, creates + LEAVES_PROCESSES + "time.sleep(60)")
    with tool(folder, act) as process:
        wait_until((folder / ("left.txt" if act == OBSERVES else "paused")).exists)
        os.kill(process.pid, number)
        process.wait()
        wait_until(lambda: not any(map(alive, left(folder))))
        wait_until(lambda: not list((folder.parent / "temporary").iterdir()))
        assert not (folder / "created").exists()


TURNS = """
import json
commands, events = open(int(sys.argv[2])), open(int(sys.argv[3]), "w")
for line in commands:
    events.write(line.upper())
    events.flush()
"""


def start(folder: Path, text: str, name: str = "train.py") -> launching.Started:
    server = fork_server.server_for(sys.executable, launching.run_environment({}), folder)
    asked = request(folder, text, "turns", name)
    return launching.Started(asked, python=sys.executable, environment={}, folder=folder, server=server)


def test_a_run_that_is_attended_to(folder: Path) -> None:
    with start(folder, TURNS) as run:
        assert run.poll() is None and run.record() is None
        assert run.began <= time.monotonic()
        os.write(run.commands, b"run 3\n")
        assert os.read(run.events, 100) == b"RUN 3\n"
        os.close(run.commands)
        run.commands = -1
        assert run.wait(20) == 0
        assert run.record() == RunRecord(ending=FINISHED)
        assert os.read(run.events, 100) == b""
    run.kill()
    assert left_over(folder) == []


@linux
def test_an_interrupt_in_the_middle_of_a_wait(folder: Path) -> None:
    """It may leave the lock of `Popen.wait` locked for good; the run ends nevertheless."""
    with start(folder, TURNS) as run:
        if not isinstance(run._process, subprocess.Popen):
            pytest.skip("forks have no such lock")
        run._process._waitpid_lock.acquire()  # type: ignore[attr-defined]
        ends = threading.Thread(target=run.kill, daemon=True)
        ends.start()
        ends.join(20)
        assert not ends.is_alive()
        assert not alive(process_of(run))


@linux
def test_pause_and_resume(folder: Path) -> None:
    def state(process: int) -> str:
        return Path(f"/proc/{process}/stat").read_text().rpartition(") ")[2][0]

    with start(folder, LEAVES_PROCESSES + TURNS) as run, start(folder, TURNS, "other.py") as other:
        wait_until((folder / "left.txt").exists)
        run.pause()
        wait_until(lambda: [state(each) for each in left(folder)] == ["T"] * 4)
        assert state(process_of(other)) != "T"
        os.write(run.commands, b"go\n")
        run.resume()
        assert os.read(run.events, 100) == b"GO\n"
        run.pause()
    # Killed they are at once, gone when the system comes to it.
    wait_until(lambda: not any(map(alive, [*left(folder), process_of(run), process_of(other)])))
    run.pause()
    run.resume()


def test_an_interpreter_that_is_none(folder: Path) -> None:
    asked = request(folder, "")
    with pytest.raises(OSError, match="nothing"):
        launching.observe(asked, python=str(folder / "nothing"), environment={}, folder=folder)
    assert left_over(folder) == []


@linux
def test_runs_are_told_apart() -> None:
    """The tenth run of a tool is not the first one."""
    script = "import time; time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", script], env={watchdog.MARK: "7-ab.10."}) as process:
        try:
            wait_until(lambda: watchdog.processes_of("7-ab.") == [process.pid])
            assert watchdog.processes_of("7-ab.10.") == [process.pid]
            assert watchdog.processes_of("7-ab.1.") == []
        finally:
            process.kill()


def test_the_real_child(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One run under real observation: it trains, reports each step, and its loader's worker is about to do damage."""
    monkeypatch.undo()
    monkeypatch.chdir(folder)
    (folder / "log.txt").write_text("precious")
    text = """
    import torch
    class Data(torch.utils.data.Dataset):
        def __len__(self):
            return 100
        def __getitem__(self, index):
            if index == 40:
                open("log.txt", "w")
            open("seen.txt", "a").close()
            return torch.ones(2)
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for batch in torch.utils.data.DataLoader(Data(), 4, num_workers=1, prefetch_factor=1):
        model(batch).sum().backward()
        optimizer.step()
    """
    asked = replace(request(folder, text), protected=launching.protected(folder, folder))
    record = launching.observe(asked, python=sys.executable, environment={}, folder=folder, timeout=120)
    outside = "which lies outside of the copy of the project that it runs in"
    assert say(record) == f"train.py:8: would overwrite {folder / 'log.txt'}, {outside}"
    assert 0 < record.steps <= 10
    assert sorted(path.name for path in folder.iterdir()) == ["log.txt", "train.py"]
    assert (folder / "log.txt").read_text() == "precious"


# -- processes that train together


@pytest.fixture
def ranks(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[RunRecord, ...]]:
    """`ranks(text)` runs a text by two processes; it knows its number as `rank`."""
    monkeypatch.setattr(launching, "_COMPANY", 1.0)
    monkeypatch.setattr(launching, "_ALONE", 1.0)

    def run(text: str, timeout: float | None = None) -> tuple[RunRecord, ...]:
        text = "import os, signal, time\nrank = request.rank\n" + textwrap.dedent(text)
        (folder / "train.py").write_text(text, encoding="utf-8")
        request = Request("train.py", root=str(folder))
        return launching.observe_ranks(
            request, 2, python=sys.executable, environment={"A": "b"}, folder=folder, timeout=timeout
        )

    return run


def test_ranks_are_told_what_torchrun_tells(ranks: Callable[..., tuple[RunRecord, ...]]) -> None:
    names = "A RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT".split()
    first, other = ranks(f"record['printed'] = [os.environ[name] for name in {names}] + [str(request.ranks)]")
    assert first.printed[:6] == ("b", "0", "0", "2", "2", "127.0.0.1")
    assert other.printed[:6] == ("b", "1", "1", "2", "2", "127.0.0.1")
    assert first.printed[6:] == other.printed[6:]


def test_a_rank_that_fails_ends_the_others(ranks: Callable[..., tuple[RunRecord, ...]]) -> None:
    began = time.monotonic()
    first, other = ranks("os.kill(os.getpid(), signal.SIGKILL) if rank else time.sleep(60)")
    assert (first.ending, other.ending) == (FAILED, FAILED)
    assert first.failure is not None and first.failure.kind == launching.WITH_OTHERS
    assert other.failure is not None and "SIGKILL" in other.failure.message
    assert time.monotonic() - began < 30


def test_a_rank_that_notices_says_so_itself(ranks: Callable[..., tuple[RunRecord, ...]]) -> None:
    told = """
    if rank:
        os._exit(3)
    time.sleep(0.3)
    record = {"ending": "failed", "failure": RunFailure("RuntimeError", "rank 1 has gone")}
    """
    first, _ = ranks("from autoaccel.measure.observing.run_record import RunFailure\n" + textwrap.dedent(told))
    assert first.failure is not None and first.failure.message == "rank 1 has gone"


def test_a_rank_that_goes_on_alone_is_ended(ranks: Callable[..., tuple[RunRecord, ...]]) -> None:
    began = time.monotonic()
    first, other = ranks("time.sleep(0 if rank else 60)")
    assert other.ending == FINISHED
    assert first.failure is not None and first.failure.kind == "timeout"
    assert time.monotonic() - began < 30


def test_ranks_that_hang_say_where(ranks: Callable[..., tuple[RunRecord, ...]]) -> None:
    records = ranks("time.sleep(60)", timeout=4)  # in which it has come to its script on a busy machine
    for record in records:
        assert record.failure is not None and record.failure.message == "made no step for 4 s"
        assert record.failure.where.endswith("train.py:3")
