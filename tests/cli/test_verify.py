"""`verify` and `rewrite --verified` as their users meet them; nearly all runs are made up: `tests/cli/observing.py`."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from autoaccel.measure import launching, scratch
from autoaccel.measure.observing.request import Request
from autoaccel.measure.observing.run_record import RunRecord
from autoaccel.rewriting import registry
from tests.cli import observing
from tests.cli.observing import Observed
from tests.measure.forking import Forking

Run = Callable[..., Result]

# AA190 makes it fail; AA690, which is opt-in, does it no harm.
SCRIPT = "import torch\nx = slow(1)\ny = timid(2)\n"
FAILS = "it fails: NameError: name 'fast' is not defined (train.py:2)"
GOOD = "import torch\ny = timid(2)\n"
BOTH = ("--extend-select", "AA690")


@pytest.fixture
def observed(monkeypatch: pytest.MonkeyPatch) -> Observed:
    return observing.install(monkeypatch)


@pytest.fixture
def script(folder: Path) -> Path:
    (folder / "train.py").write_text(SCRIPT, encoding="utf-8")
    return folder / "train.py"


@pytest.fixture
def good(folder: Path) -> Path:
    (folder / "train.py").write_text(GOOD, encoding="utf-8")
    return folder / "train.py"


def test_a_difference_is_named(run: Run, script: Path, observed: Observed) -> None:
    result = run("verify", "train.py", *BOTH)
    assert result.exit_code == 1
    assert result.stderr == ""
    rows, verdict = result.stdout.split("\n\n")
    assert rows.splitlines() == [
        f"AA190 fast-call   1 change  exact   differs  train.py:2: {FAILS}",
        "AA690 brave-call  1 change  opt-in  same     bit for bit",
    ]
    assert verdict.startswith(
        "train.py does not train the same: 1 change of 2 makes a difference.\n"
        "3 steps, to the end of the script; cpu, torch 2.13.0, Python 3.11.7; "
    )
    assert script.read_text(encoding="utf-8") == SCRIPT


def test_no_difference(run: Run, good: Path, observed: Observed) -> None:
    result = run("verify", "train.py", *BOTH)
    assert (result.exit_code, result.stderr) == (0, "")
    assert "train.py trains the same with 1 change.\n" in result.stdout


def test_nothing_to_verify(run: Run, good: Path, observed: Observed) -> None:
    result = run("verify", "train.py")
    assert result.exit_code == 0
    assert "train.py: nothing would be rewritten, so there is nothing to verify.\n" in result.stdout
    assert len(observed.requests) == 1


def test_quiet_leaves_what_differs_and_the_verdict(run: Run, script: Path, observed: Observed) -> None:
    result = run("verify", "-q", "train.py", *BOTH)
    assert (result.exit_code, result.stderr) == (1, "")
    assert result.stdout == (
        "train.py:2: AA190 fast-call: it fails: NameError: name 'fast' is not defined (train.py:2)\n\n"
        "train.py does not train the same: 1 change of 2 makes a difference.\n"
    )


def test_verbose_shows_every_change_and_every_run(run: Run, script: Path, observed: Observed) -> None:
    result = run("verify", "-v", "train.py", *BOTH)
    assert "train.py:3: AA690 brave-call: same: bit for bit [opt-in]\n" in result.stdout
    assert "    it fails: NameError: name 'fast' is not defined (train.py:2)\n" in result.stdout
    runs = [line for line in result.stdout.splitlines() if line.startswith("run ")]
    assert len(runs) == len(observed.requests)
    assert runs[0].startswith("run  1  original ")
    assert "2 of 2" not in runs[0]


def test_json(run: Run, script: Path, folder: Path, observed: Observed) -> None:
    result = run("verify", "train.py", *BOTH, "--json", "-")
    content = json.loads(result.stdout)
    assert (result.exit_code, content["status"], content["version"]) == (1, "different", 1)
    assert [(each["code"], each["path"], each["verdict"]) for each in content["outcomes"]] == [
        ("AA190", "train.py", "failed"),
        ("AA690", "train.py", "passed"),
    ]
    assert content["outcomes"][0]["where"] == {"column": 5, "end_column": 12, "end_line": 2, "line": 2}
    assert content["steps"] == 3
    assert content["trials"][0]["name"] == "original"

    result = run("verify", "train.py", *BOTH, "--json", "out/verified.json")
    assert "does not train the same" in result.stdout
    written = json.loads((folder / "out" / "verified.json").read_text(encoding="utf-8"))
    assert written["outcomes"] == content["outcomes"]


def test_json_that_cannot_be_written(run: Run, good: Path, folder: Path, observed: Observed) -> None:
    result = run("verify", "train.py", *BOTH, "--json", folder)
    assert result.exit_code == 2
    assert "cannot write" in result.stderr


def test_a_script_that_fails(run: Run, folder: Path, observed: Observed) -> None:
    (folder / "train.py").write_text("import torch\ncrash()\n", encoding="utf-8")
    result = run("verify", "train.py")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == "error: train.py:2: NameError: name 'crash' is not defined\n"
    verbose = run("verify", "-v", "train.py")
    assert verbose.stderr == f"Traceback …\n{result.stderr}"
    content = json.loads(run("verify", "train.py", "--json", "-").stdout)
    assert (content["status"], content["reason"]) == ("unknown", "train.py:2: NameError: name 'crash' is not defined")


def test_a_folder_that_is_too_much_to_be_copied(
    run: Run, good: Path, folder: Path, observed: Observed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scratch, "_MOST_ENTRIES", 3)
    for number in range(4):
        (folder / f"{number}").touch()
    holds = "holds more than 3 entries; start it from a folder of its own"
    why = f"train.py: would run in a copy of {folder}, which {holds}"
    result = run("verify", "train.py", "--json", "-")
    assert (result.exit_code, result.stderr) == (2, f"error: {why}\n")
    content = json.loads(result.stdout)
    assert (content["status"], content["reason"]) == ("unknown", why)
    for command in ("bench", "rewrite"):
        options = ["--verified"] if command == "rewrite" else []
        result = run(command, *options, "train.py")
        assert (result.exit_code, result.stderr, result.stdout) == (2, f"error: {why}\n", "")
    assert observed.requests == []
    assert sorted(path.name for path in folder.iterdir()) == ["0", "1", "2", "3", "train.py"]


def test_what_is_asked_of_the_runs(run: Run, good: Path, folder: Path, observed: Observed) -> None:
    result = run("verify", "--steps", "7", "train.py", *BOTH, "--", "--epochs", "3", "--", "-v")
    assert result.exit_code == 0
    for request in observed.requests:
        assert (request.script, request.arguments, request.is_module) == (
            "train.py",
            ("--epochs", "3", "--", "-v"),
            False,
        )
        # A look at float16 is short.
        assert (request.origin, request.patience) == (str(folder.resolve()), None)
        assert request.steps in (7, 2)
        assert request.protected
    assert folder not in observed.folders


def test_stderr_is_asked_for(run: Run, good: Path, observed: Observed) -> None:
    assert run("verify", "train.py", *BOTH).exit_code == 0
    assert not any(request.stderr for request in observed.requests)
    observed.requests.clear()
    assert run("verify", "--stderr", "train.py", *BOTH).exit_code == 0
    assert observed.requests
    assert all(request.stderr for request in observed.requests)


def test_in_copies_of_the_working_directory(run: Run, good: Path, folder: Path, observed: Observed) -> None:
    result = run("verify", "--scratch", "train.py", *BOTH)
    assert result.exit_code == 0, result.output
    assert folder not in observed.folders
    assert not any(each.exists() for each in observed.folders)
    assert "train.py trains the same with 1 change.\n" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("verify", "missing.py"), "missing.py: no such file"),
        (("verify", "."), ".: is a folder; give a script"),
        (("verify", "-"), "a script on disk is needed"),
        (("verify", "train.py", "--seeds", "2"), "2 is not in the range x>=3"),
        (("verify", "train.py", "--epochs", "3"), "No such option"),
        (("verify", "train.py", "--select", "AA9999"), "no rule matches 'AA9999'"),
        (("verify", "train.py", "--against", "v1.0"), "v1.0: neither a file nor a revision that git knows"),
        (("verify", "-m", "elsewhere", "--against", "train.py"), "--against needs a script whose file is known"),
        (("verify", "train.py", "--ranks", "2", "--stderr"), "--stderr is not for that"),
        (("verify", "train.py", "--json", "train.py"), "--json train.py would replace a script that is looked at"),
        (("rewrite", "train.py", "--", "--epochs", "1"), "--epochs: no such file; arguments for the script need"),
        (("rewrite", "--verified", "train.py", "other.py"), "--verified needs one script on disk"),
        (("rewrite", "--verified", "-"), "--verified needs one script on disk"),
        (("rewrite", "--verified", "-i", "train.py"), "--verified changes scripts in place, and does not ask"),
        (("rewrite", "--verified", "-o", "x.py", "train.py"), "--verified changes scripts in place, and does not ask"),
    ],
)
def test_usage(run: Run, good: Path, observed: Observed, arguments: tuple[str, ...], message: str) -> None:
    result = run(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert message in result.stderr
    assert observed.requests == []


def test_interrupted(run: Run, good: Path, monkeypatch: pytest.MonkeyPatch, observed: Observed) -> None:
    def interrupted(*_: Any, **__: Any) -> RunRecord:
        raise KeyboardInterrupt

    monkeypatch.setattr(launching, "observe", interrupted)
    result = run("verify", "train.py")
    assert (result.exit_code, result.stdout) == (130, "")


# -- verify --against


def test_the_guilty_hunk_is_named(run: Run, good: Path, observed: Observed) -> None:
    good.with_name("other.py").write_text(GOOD.replace("torch", "torch, os") + "z = fast(1)\n", encoding="utf-8")
    result = run("verify", "train.py", "--against", "other.py")
    assert (result.exit_code, result.stderr) == (1, "")
    rows, verdict = result.stdout.split("\n\n")
    same, differs = rows.splitlines()
    assert same.split() == "hunk of other.py 1 change equivalent same bit for bit".split()
    assert differs.startswith("hunk of other.py  1 change  equivalent  differs  train.py:3: it fails: NameError: ")
    assert verdict.startswith("train.py does not train the same as other.py: 1 change of 2 makes a difference.\n")
    assert good.read_text(encoding="utf-8") == GOOD


def test_two_versions_that_train_the_same(run: Run, good: Path, observed: Observed) -> None:
    good.with_name("other.py").write_text(GOOD.replace("timid(2)", "timid(3)"), encoding="utf-8")
    result = run("verify", "train.py", "--against", "other.py", "--json", "-")
    content = json.loads(result.stdout)
    assert (result.exit_code, content["status"], content["against"]) == (0, "same", "other.py")
    assert [each["message"] for each in content["outcomes"]] == ["`y = timid(2)` is `y = timid(3)` in other.py"]
    assert all(request.by_kind for request in observed.requests)


def test_the_same_code(run: Run, good: Path, observed: Observed) -> None:
    good.with_name("other.py").write_text("# once more\n" + GOOD, encoding="utf-8")
    result = run("verify", "train.py", "--against", "other.py")
    assert result.exit_code == 0
    assert "train.py: the same code as other.py, so there is nothing to verify.\n" in result.stdout


def test_another_version_that_cannot_be_parsed(run: Run, good: Path, observed: Observed) -> None:
    good.with_name("other.py").write_text("def f(:\n", encoding="utf-8")
    result = run("verify", "train.py", "--against", "other.py")
    assert result.exit_code == 2
    assert "other.py:1: cannot parse train.py: " in result.stderr


# -- rewrite --verified


def test_only_what_passed_is_written(run: Run, script: Path, observed: Observed) -> None:
    result = run("rewrite", "--verified", "train.py", *BOTH)
    assert (result.exit_code, result.stdout) == (0, "")
    assert script.read_text(encoding="utf-8") == SCRIPT.replace("timid", "brave")
    lines = result.stderr.splitlines()
    assert lines[0] == "train.py does not train the same: 1 change of 2 makes a difference."
    assert lines[1] == (
        "train.py:2:5: AA190 fast-call: left alone: it makes a difference: it fails: NameError: name 'fast' is not "
        "defined (train.py:2)"
    )
    assert lines[2] == "train.py:3:5: AA690 brave-call: more courage [opt-in]"
    assert "1 file rewritten: 1 change (1 opt-in)" in result.stderr
    assert "Undo: autoaccel undo" in result.stderr


def test_as_a_patch(run: Run, script: Path, observed: Observed) -> None:
    result = run("rewrite", "--verified", "--diff", "train.py", *BOTH)
    assert result.exit_code == 1
    assert "-y = timid(2)\n+y = brave(2)\n" in result.stdout
    assert "+x = fast" not in result.stdout
    assert script.read_text(encoding="utf-8") == SCRIPT


def test_files_that_the_script_imports_are_rewritten_with_it(
    run: Run, good: Path, folder: Path, observed: Observed
) -> None:
    (folder / "helper.py").write_text("timid(3)\n", encoding="utf-8")
    (folder / "other.py").write_text("timid(4)\n", encoding="utf-8")
    observed.files = (str(folder.resolve() / "helper.py"),)
    result = run("rewrite", "--verified", "train.py", *BOTH, "--", "--epochs", "3")
    assert result.exit_code == 0, result.output
    assert (folder / "helper.py").read_text(encoding="utf-8") == "brave(3)\n"
    assert (folder / "other.py").read_text(encoding="utf-8") == "timid(4)\n"
    assert {request.arguments for request in observed.requests} == {("--epochs", "3")}


def test_what_cannot_be_verified_is_not_written(run: Run, folder: Path, observed: Observed) -> None:
    (folder / "train.py").write_text("crash()\nslow(1)\n", encoding="utf-8")
    result = run("rewrite", "--verified", "train.py")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == "error: train.py:2: NameError: name 'crash' is not defined\n"
    assert (folder / "train.py").read_text(encoding="utf-8") == "crash()\nslow(1)\n"


def test_without_verified_what_follows_the_dashes_are_paths(run: Run, script: Path, observed: Observed) -> None:
    result = run("rewrite", "--check", "--", "train.py")
    assert result.exit_code == 1
    assert observed.requests == []


# -- scripts that really run

TRAIN = """
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
data = TensorDataset(torch.randn(64, 8), torch.randint(0, 3, (64,)))
loader = DataLoader(data, batch_size=16, shuffle=True)
model = nn.Sequential(nn.Linear(8, 512), nn.BatchNorm1d(512), nn.ReLU(), nn.Linear(512, 3)).to(device)
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=0.01)

for epoch in range(3):
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch}: loss {loss.item():.4f}")
"""


@pytest.fixture
def real(forking: Forking, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """All rules, and processes that are forked."""

    def observe(request: Request, *, environment: dict[str, str], folder: Path, **_: Any) -> RunRecord:
        return forking.run(request, environment, folder)

    monkeypatch.undo()
    monkeypatch.chdir(folder)
    monkeypatch.setattr(launching, "observe", observe)
    (folder / "train.py").write_text(TRAIN, encoding="utf-8")
    return folder / "train.py"


def test_a_script_that_really_trains(run: Run, real: Path) -> None:
    assert len(registry.rules()) > 5
    result = run("verify", "train.py")
    assert result.exit_code == 0, result.output
    rules = [line.split()[0] for line in result.stdout.partition("\n\n")[0].splitlines()]
    assert {"AA103", "AA201", "AA202", "AA301"} <= set(rules)
    assert "Numbers in bfloat16: loss " in result.stdout
    assert "12 steps, to the end of the script; cpu, torch " in result.stdout


@pytest.mark.slow
def test_in_processes_of_its_own(folder: Path, repository: Path) -> None:
    """From end to end: the command, three processes with torch in them, the verdict."""
    (folder / "train.py").write_text(textwrap.dedent(TRAIN), encoding="utf-8")
    command = [sys.executable, "-m", "autoaccel", "verify", "--tier", "exact", "--steps", "4", "train.py"]
    path = f"{repository}:{repository / 'codemods'}"
    done = subprocess.run(
        command, cwd=folder, env={"PYTHONPATH": path, "OMP_NUM_THREADS": "1", "HOME": str(folder)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "train.py trains the same with " in done.stdout
    assert "3 runs in " in done.stdout
    assert sorted(path.name for path in folder.iterdir()) == ["train.py"]
