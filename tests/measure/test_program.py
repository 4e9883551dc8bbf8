"""`autoaccel run`: as `python script.py`, but rewritten.

The scripts import a stand-in for torch that only remembers how tensors were moved: importing torch itself would take
most of the time, and nothing here depends on it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]

TORCH = """
class Tensor:
    def to(self, device, **kwargs):
        print("moved", sorted(kwargs), flush=True)
        return self

def device(name):
    return name
"""

LOADER = """
from torch import Tensor

class DataLoader:
    def __init__(self, data, **kwargs):
        pass

    def __iter__(self):
        yield Tensor()
"""

TRAIN = """import torch
from torch.utils.data import DataLoader


def train(device):
    for batch in DataLoader([1]):
        batch = batch.to(device)
"""

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run `python -m autoaccel run --select AA103 …` in an empty folder."""
    installed = tmp_path / "installed"
    for name, text in {"torch": TORCH, "torch/utils": "", "torch/utils/data": LOADER}.items():
        (installed / name).mkdir(parents=True)
        (installed / name / "__init__.py").write_text(text)
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")

    def invoke(*arguments: str, quiet: bool = True, rules: str = "AA103") -> subprocess.CompletedProcess[str]:
        path = os.pathsep.join([str(REPOSITORY), str(REPOSITORY / "codemods"), str(installed)])
        command = [sys.executable, "-m", "autoaccel", "run", "--select", rules, *(["-q"] if quiet else []), *arguments]
        return subprocess.run(
            command, capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": path}
        )

    return invoke


def write(**texts: str) -> None:
    for name, text in texts.items():
        path = Path(f"{name}.py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


MOVED, PLAIN = "moved ['non_blocking']\n", "moved []\n"


def test_the_script_and_what_it_imports_are_rewritten(run: Run) -> None:
    write(
        helper=TRAIN,
        train="from helper import train\n" + TRAIN.replace("def train", "def own") + "\ntrain(0)\nown(0)\n",
    )
    before = {path: path.read_bytes() for path in Path().glob("*.py")}
    result = run("train.py", quiet=False)
    assert (result.returncode, result.stdout) == (0, MOVED * 2)
    assert result.stderr.splitlines() == [
        "autoaccel: train.py: 1 change in memory",
        "autoaccel: helper.py: 1 change in memory",
    ]
    assert before == {path: path.read_bytes() for path in Path().glob("*.py")}


def test_a_module_that_is_loaded_by_its_path_is_rewritten(run: Run) -> None:
    """So are those of editable installs, whose finders do the same."""
    write(
        helper=TRAIN,
        train="import importlib.util, sys\n"
        "spec = importlib.util.spec_from_file_location('other', 'helper.py')\n"
        "sys.modules['other'] = module = importlib.util.module_from_spec(spec)\n"
        "spec.loader.exec_module(module)\nmodule.train(0)\n",
    )
    assert run("train.py").stdout == MOVED


def test_libraries_are_left_alone(run: Run) -> None:
    write(**{"lib/site/helper": TRAIN})
    Path("lib", "site").rename(Path("lib", "site-packages"))
    write(train='import sys\nsys.path.append("lib/site-packages")\nimport helper\nhelper.train(0)\n')
    assert run("train.py").stdout == PLAIN


def test_everything_else_is_as_with_python(run: Run) -> None:
    """The name, arguments and place of the script, its modules, and that classes of it can be pickled."""
    write(
        other="",
        train="import os, pickle, sys, torch\nimport other\nclass C: pass\n"
        "print(sys.argv, __name__, os.path.relpath(__file__), __package__, __spec__, os.path.relpath(sys.path[0]))\n"
        "print(type(pickle.loads(pickle.dumps(C()))) is C, sys.modules['__main__'].C is C, __doc__)\n",
    )
    result = run("train.py", "--epochs", "3", "-q", "--select", "x", "--", "-m")
    assert result.stderr == ""
    assert result.stdout.splitlines() == [
        "['train.py', '--epochs', '3', '-q', '--select', 'x', '--', '-m'] __main__ train.py None None .",
        "True True None",
    ]


def test_a_safe_path_stays_safe(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONSAFEPATH", "1")
    write(train="import sys, os\nprint(os.getcwd() in sys.path, sys.path[0] in os.environ['PYTHONPATH'])\n")
    assert run("train.py").stdout == "False True\n"


def test_a_module(run: Run) -> None:
    ending = (
        "\nimport sys, os\ntrain(0)\nprint(os.path.relpath(sys.argv[0]), sys.argv[1:], __spec__.name, __package__)\n"
    )
    write(**{"pkg/__init__": "", "pkg/train": TRAIN + ending, "pkg/__main__": TRAIN + ending})
    assert run("-m", "pkg.train", "-x").stdout == MOVED + "pkg/train.py ['-x'] pkg.train pkg\n"
    assert run("-m", "pkg").stdout == MOVED + "pkg/__main__.py [] pkg.__main__ pkg\n"


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_processes_that_the_script_starts_are_rewritten_too(run: Run, method: str) -> None:
    write(
        helper=TRAIN,
        train=TRAIN.replace("def train", "def own")
        + "\nimport helper\nimport multiprocessing\nif __name__ == '__main__':\n"
        f"    multiprocessing.set_start_method({method!r})\n"
        "    for work in (helper.train, own):\n"
        "        process = multiprocessing.Process(target=work, args=(0,))\n"
        "        process.start()\n        process.join()\n",
    )
    result = run("train.py")
    assert (result.returncode, result.stdout) == (0, MOVED * 2)


def test_an_error_of_the_script_is_told_as_python_tells_it(run: Run) -> None:
    write(train=TRAIN + "        raise KeyError(batch)\n\n\nif True:\n    train(0)\n")
    result = run("train.py")
    plain = subprocess.run(
        [sys.executable, "train.py"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(Path("..", "installed"))},
    )
    assert plain.returncode == result.returncode == 1
    assert result.stdout == MOVED
    assert_same_traceback(result.stderr, plain.stderr)


def assert_same_traceback(one: str, other: str) -> None:
    """The same places and lines; the last line holds an address."""
    assert one.splitlines()[:-1] == other.splitlines()[:-1]


@pytest.mark.parametrize(
    ("ending", "status"),
    [("sys.exit(3)", 3), ("sys.exit()", 0), ("sys.exit('why')", 1), ("raise KeyboardInterrupt", 130)],
)
def test_exit_status(run: Run, ending: str, status: int) -> None:
    write(train=f"import sys\n{ending}\n")
    assert run("train.py").returncode == status


def test_what_cannot_be_run(run: Run) -> None:
    write(broken="import torch\n(\n")
    Path("folder").mkdir()
    for arguments, said in [
        (["missing.py"], "missing.py: no such file"),
        (["folder"], "folder: is a folder"),
        (["-"], "needs a script on disk"),
        (["-m", "missing.module"], "no module named missing"),
        (["broken.py"], "broken.py:2: cannot parse"),
        (["--slect", "AA1", "broken.py"], "No such option"),
    ]:
        result = run(*arguments)
        assert (result.returncode, result.stdout) == (2, "")
        assert said in result.stderr
        assert "Traceback" not in result.stderr


def test_a_file_that_cannot_be_rewritten_runs_as_it_is(run: Run) -> None:
    """What autoaccel writes is ASCII, which not every encoding that Python reads has in common."""
    write(train="from helper import train\ntrain(0)\n")
    Path("helper.py").write_bytes(b"# coding: utf-7\n" + TRAIN.encode())
    result = run("train.py")
    assert (result.returncode, result.stdout) == (0, PLAIN)
    assert "helper.py" in result.stderr
    assert "it runs as it is" in result.stderr
