"""The command as a process among processes: what a warm run imports, how many share the work, and how it is ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

STEP = """\
import torch

def step(model, loader: torch.utils.data.DataLoader, optimizer: torch.optim.Optimizer, device):
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        optimizer.zero_grad()
        loss = (model(x) - y).pow(2).mean()
        loss.backward()
        optimizer.step()
"""

COMMAND = [sys.executable, "-c", "from autoaccel.cli.main import main; main()"]

IMPORTED = """
import sys
from autoaccel.cli.main import main
try:
    main()
finally:
    print(*sorted(sys.modules), file=sys.stderr)
"""

HEAVY = {
    "autoaccel.jobs.pool",
    "autoaccel.rewriting.engine",
    "autoaccel.edits",
    "autoaccel.rewriting.registry",
    "autoaccel.analysis",
    "autoaccel_codemods",
    "importlib.metadata",
    "libcst",
    "multiprocessing",
    "tempfile",
    "torch",
}


@pytest.fixture
def project(folder: Path, repository: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Twenty scripts in four folders; the tool is run from its sources, with its own rules and a cache."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join((str(repository), str(repository / "codemods"))))
    monkeypatch.delenv("AUTOACCEL_NO_CACHE", raising=False)
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
    for number in range(20):
        path = folder / f"part{number % 4}" / f"step{number}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(STEP + f"\nnumber = {number}\n")
    (folder / "silent.py").write_text("print('nothing')\n")
    return folder


def execute(*arguments: str, command: list[str] = COMMAND, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*command, *arguments], cwd=folder, capture_output=True, text=True, check=False, timeout=120)


@pytest.mark.parametrize("output_format", ["concise", "full"])
def test_a_warm_run_imports_neither_rules_nor_parsers(project: Path, output_format: str) -> None:
    arguments = ("lint", "--output-format", output_format, ".")
    cold = execute(*arguments, folder=project)
    assert cold.returncode == 1, cold.stderr
    warm = execute(*arguments, command=[sys.executable, "-c", IMPORTED], folder=project)
    assert (warm.returncode, warm.stdout) == (1, cold.stdout)
    assert set(warm.stderr.split()) & HEAVY == set()


def test_runs_at_the_same_time(project: Path) -> None:
    arguments = ("lint", "--output-format", "concise", ".")
    expected = execute(*arguments, "--no-cache", folder=project)
    runs = [
        subprocess.Popen([*COMMAND, *arguments], cwd=project, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    for run in runs:
        stdout, stderr = run.communicate(timeout=120)
        assert (run.returncode, stdout, stderr) == (1, expected.stdout, expected.stderr)
    assert len(list((project / ".autoaccel_cache").glob("lint-*.json"))) == 1
    assert not list((project / ".autoaccel_cache").glob(".*.tmp"))


@pytest.mark.parametrize("command", ["lint", "rewrite --diff"])
def test_however_many_share_the_work_they_say_the_same(project: Path, command: str) -> None:
    (project / "part1" / "broken.py").write_text("import torch\nloader = DataLoader(\n")
    (project / "part2" / "latin.py").write_bytes(b"import torch\n# \xe9\nx.backward()\n")
    arguments = (*command.split(), ".")
    alone = execute(*arguments, "-j", "1", folder=project)
    assert alone.returncode == 2 and alone.stdout
    arguments = (*arguments, "--no-cache" if command == "lint" else "-v", "-j", "3")
    for method in ("fork", "forkserver", "spawn"):
        start = f"import multiprocessing; multiprocessing.set_start_method({method!r}); "
        together = execute(*arguments, command=[*COMMAND[:2], start + COMMAND[2]], folder=project)
        assert (together.returncode, together.stdout, together.stderr) == (2, alone.stdout, alone.stderr), method


def test_settings_of_rules_go_to_all_processes(project: Path) -> None:
    for path in project.rglob("step*.py"):
        path.write_text(
            path.read_text().replace("    for x, y in loader:", "    print(len(loader))\n    for x, y in loader:")
        )
    arguments = ("rewrite", "--diff", "--select", "AA604", "--set", "accumulate=7", ".")
    alone = execute(*arguments, "-j", "1", folder=project)
    together = execute(*arguments, "-j", "3", folder=project)
    assert alone.returncode == 1 and alone.stdout.count("min(7, len(loader)") == 20
    assert (together.stdout, together.stderr) == (alone.stdout, alone.stderr)


# Rules that take their time, or their process with them.
ODD = """
import os, pathlib, sys, time
from autoaccel.cli.main import main
from autoaccel.rewriting import registry
from autoaccel.edits import Tier
from autoaccel.rewriting.rule import Rule

ODD = Rule("ZZ100", "odd", Tier.EXACT, (b"number",))

@ODD.check
def odd(script):
    {body}
    return iter(())

real = registry.rules()
registry.rules = lambda: (*real, ODD)
main()
"""


def odd(body: str) -> list[str]:
    return [sys.executable, "-c", ODD.format(body=body)]


def interruptible(command: list[str]) -> list[str]:
    """A command that the tests may interrupt, although what a job in the background starts ignores it."""
    *python, program = command
    return [*python, f"import signal\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n{program}"]


def test_a_process_that_dies_takes_only_its_file_with_it(project: Path) -> None:
    whole = execute("lint", "--output-format", "concise", "--no-cache", ".", folder=project)
    body = "script.path.name in ('step7.py', 'step8.py') and os.kill(os.getpid(), 9)"
    arguments = ("lint", "--output-format", "concise", "-j", "2", "--no-cache", "-q", ".")
    done = execute(*arguments, command=odd(body), folder=project)
    assert done.returncode == 2
    lines = done.stderr.splitlines()
    assert [line.split(":")[1].strip() for line in lines] == ["part0/step8.py", "part3/step7.py"]
    assert all("the process that worked on it died" in line for line in lines)
    expected = [line for line in whole.stdout.splitlines() if not line.startswith(("part0/step8", "part3/step7"))]
    assert [line for line in done.stdout.splitlines() if line in expected] == expected


def test_a_process_that_dies_while_rewriting(project: Path) -> None:
    body = "script.path.name == 'step7.py' and os.kill(os.getpid(), 9)"
    before = (project / "part3" / "step7.py").read_bytes()
    done = execute("rewrite", "-j", "2", ".", command=odd(body), folder=project)
    assert done.returncode == 2
    assert "error: part3/step7.py: left alone, the process that worked on it died" in done.stderr
    assert "Traceback" not in done.stderr
    assert (project / "part3" / "step7.py").read_bytes() == before
    assert "19 files rewritten" in done.stderr


def processes_of(group: int) -> list[int]:
    """The living processes of a process group."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                state, _, parent_group = (entry / "stat").read_text().rpartition(") ")[2].split()[:3]
            except OSError:
                continue
            if int(parent_group) == group and state != "Z":
                found.append(int(entry.name))
    return found


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks at /proc")
@pytest.mark.parametrize("jobs", ["1", "2"])
@pytest.mark.parametrize("everybody", [True, False], ids=["the group, as a terminal does", "the process alone"])
@pytest.mark.parametrize("command", ["lint", "rewrite"])
def test_interrupted(project: Path, command: str, everybody: bool, jobs: str) -> None:
    before = {path: path.read_bytes() for path in project.rglob("*.py")}
    # One process is at work, the other one waits for more.
    body = "script.path.name == 'step0.py' and (pathlib.Path('begun').touch(), time.sleep(60))"
    process = subprocess.Popen(
        [*interruptible(odd(body)), command, "-j", jobs, "."], cwd=project, start_new_session=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        wait_until((project / "begun").exists)
        time.sleep(jobs == "2")
        if everybody:
            os.killpg(process.pid, signal.SIGINT)
        else:
            process.send_signal(signal.SIGINT)
        stdout, stderr = process.communicate(timeout=20)
    finally:
        process.kill()
    assert (process.returncode, stdout) == (130, "")
    assert stderr.strip().splitlines()[-1].startswith("autoaccel: interrupted") and "Traceback" not in stderr
    wait_until(lambda: not processes_of(process.pid))
    assert {path: path.read_bytes() for path in project.rglob("*.py")} == before
    assert not list(project.rglob(".*.py*"))


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks at /proc")
def test_no_process_outlives_a_killed_command(project: Path) -> None:
    body = "pathlib.Path('begun').touch(); time.sleep(60)"
    process = subprocess.Popen(
        [*odd(body), "lint", "-j", "2", "."], cwd=project, start_new_session=True,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        wait_until((project / "begun").exists)
    finally:
        process.kill()
        process.wait()
    wait_until(lambda: not processes_of(process.pid))


def wait_until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, "it does not come about"
        time.sleep(0.02)
