"""`autoaccel undo`: rewrites are taken back, and nothing that was edited since is lost."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import Result

from autoaccel.analysis import Script
from autoaccel.edits import AddImport, Code, Finding, Replace, Skipped, Tier
from autoaccel.jobs import undoing
from autoaccel.rewriting import registry
from autoaccel.rewriting.rule import Rule

Run = Callable[..., Result]

SLOW = "import torch\n\n\nx = slow(1)  # kept\n\n\ny = 1\n"
FAST = SLOW.replace("slow", "fast")
RUNTIME = "import torch\nfrom autoaccel import runtime as accel\n\n\nx = slow(accel.autocast)\n"


@pytest.fixture(autouse=True)
def state(folder: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    place = tmp_path_factory.mktemp("state")
    monkeypatch.setenv("XDG_STATE_HOME", str(place))
    return place / "autoaccel" / "undo"


@pytest.fixture
def train(folder: Path) -> Path:
    path = folder / "train.py"
    path.write_text(SLOW)
    return path


def test_everything_is_as_it_was(run: Run, folder: Path) -> None:
    texts = {
        "my train.py": SLOW.encode(),
        "sub/other.py": SLOW.replace("\n", "\r\n").encode(),
        "sub/end.py": b"slow(1)#torch",
        "latin.py": "# coding: latin-1\nimport torch\nslow('é')\n".encode("latin-1"),
        "bom.py": b"\xef\xbb\xbfimport torch\nslow(1)\n",
    }
    for name, content in texts.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(content)
        (folder / name).chmod(0o640)
    result = run("rewrite", ".")
    assert all((folder / name).read_bytes() == content.replace(b"slow", b"fast") for name, content in texts.items())
    assert result.stderr.splitlines()[-1] == "Undo: autoaccel undo"
    taken = run("undo")
    assert (taken.exit_code, taken.stdout) == (0, "")
    assert taken.stderr.startswith("5 files taken back, of the rewrite at ")
    assert taken.stderr.endswith(": bom.py, latin.py, my train.py and 2 others.\n")
    assert {name: (folder / name).read_bytes() for name in texts} == texts
    assert all((folder / name).stat().st_mode & 0o777 == 0o640 for name in texts)


def test_one_after_the_other(run: Run, folder: Path, train: Path) -> None:
    (folder / "second.py").write_text(SLOW)
    run("rewrite", "train.py")
    run("rewrite", "second.py")
    assert run("undo").exit_code == 0
    assert (train.read_text(), (folder / "second.py").read_text()) == (FAST, SLOW)
    assert run("undo").exit_code == 0
    assert (train.read_text(), (folder / "second.py").read_text()) == (SLOW, SLOW)
    result = run("undo")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "no rewrite of files here is kept" in result.stderr


def test_what_was_edited_since_stays(run: Run, train: Path) -> None:
    run("rewrite", "train.py")
    train.write_text(FAST.replace("y = 1", "y = 2\nz = 3"))
    result = run("undo")
    assert result.exit_code == 0
    assert "train.py: taken back, what was edited since is kept\n" in result.stderr
    assert train.read_text() == SLOW.replace("y = 1", "y = 2\nz = 3")


@pytest.mark.parametrize(
    ("edited", "said"),
    [
        pytest.param(FAST.replace("fast(1)", "fast(2)"), "its lines were changed since", id="the same line"),
        pytest.param(None, "it is no longer there", id="gone"),
        pytest.param(FAST + "fast = 3\n", None, id="bound since"),
    ],
)
def test_nothing_is_written_unless_all_can_be(
    run: Run, folder: Path, train: Path, edited: str | None, said: str | None
) -> None:
    (folder / "other.py").write_text(SLOW)
    run("rewrite", ".")
    if edited is None:
        train.unlink()
    else:
        train.write_text(edited)
    result = run("undo", "-q")
    if said is None:
        assert result.exit_code == 0
        return
    assert result.exit_code == 2
    assert f"error: train.py: cannot be taken back, {said}\n" in result.stderr
    assert (folder / "other.py").read_text() == FAST
    if edited is not None:
        assert train.read_text() == edited
        assert "error: line 4:\n-x = fast(2)  # kept\n+x = slow(1)  # kept\n" in result.stderr
    train.write_text(FAST)
    assert run("undo").exit_code == 0, "what is kept is kept until it was taken back"
    assert train.read_text() == (folder / "other.py").read_text() == SLOW


@pytest.mark.parametrize(
    ("added", "problem"),
    [
        ("w = accel\n", "`accel`, which line 4 then says, would be bound no more"),
        ("w = w2 = 1\n", None),
    ],
)
def test_what_leans_on_the_rewrite_is_seen(
    run: Run, folder: Path, train: Path, added: str, problem: str | None
) -> None:
    """Line by line it could be merged."""
    before, after = b"import torch\n\n\n", b"import torch\nimport accel\n\n\n"
    train.write_bytes(after + added.encode())
    undoing.save([undoing.FileChange(train, before, after)], b"")
    result = run("undo")
    assert (result.exit_code == 2) is (problem is not None)
    assert (problem or "taken back") in result.stderr
    assert train.read_bytes() == (after if problem else before) + added.encode()


def test_the_runtime_goes_and_what_it_replaced_comes_back(run: Run, folder: Path) -> None:
    (folder / "train.py").write_text(RUNTIME)
    old = {"amp.py": "old", "__init__.py": "older", "NOTES.md": "mine", "deep/er.py": "gone"}
    for name, text in old.items():
        (folder / "autoaccel_runtime" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "autoaccel_runtime" / name).write_text(text)
    before = contents(folder)
    run("rewrite", "--vendor", "train.py")
    assert "import autoaccel_runtime as accel" in (folder / "train.py").read_text()
    assert run("undo").exit_code == 0
    assert contents(folder) == before

    (folder / "plain").mkdir()
    (folder / "plain" / "train.py").write_text(RUNTIME)
    run("rewrite", "--vendor", "plain")
    (folder / "plain" / "autoaccel_runtime" / "__pycache__").mkdir()
    (folder / "plain" / "autoaccel_runtime" / "__pycache__" / "x.pyc").write_text("")
    assert run("undo").exit_code == 0
    assert [each.name for each in (folder / "plain").iterdir()] == ["train.py"]


def test_a_runtime_that_was_edited_is_not_removed(run: Run, folder: Path) -> None:
    (folder / "train.py").write_text(RUNTIME)
    run("rewrite", "--vendor", "train.py")
    (folder / "autoaccel_runtime" / "__init__.py").write_text("mine")
    result = run("undo")
    assert result.exit_code == 2
    assert "autoaccel_runtime/__init__.py: cannot be taken back, it was changed since" in result.stderr
    assert (folder / "autoaccel_runtime" / "devices.py").exists()


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


KILLED = """
import os, pathlib, sys
replace = pathlib.Path.replace
pathlib.Path.replace = lambda self, target: os._exit(9) if target.name == "b.py" else replace(self, target)
from autoaccel.cli.main import cli
cli.main(["rewrite", "."])
"""


def test_what_is_killed_on_the_way_can_be_taken_back(run: Run, folder: Path) -> None:
    """Nobody could say any more how."""
    text = "import torch\nx = torch.zeros(3).to('cuda')\n"
    for name in ("a.py", "b.py"):
        (folder / name).write_text(text)
    done = subprocess.run([sys.executable, "-c", KILLED], cwd=folder, capture_output=True, check=False)
    assert (done.returncode, (folder / "a.py").read_text() != text) == (9, True), done.stderr
    assert run("undo").exit_code == 0
    assert {path.name: path.read_text() for path in folder.glob("*.py")} == {"a.py": text, "b.py": text}


def test_what_was_taken_back_otherwise(run: Run, train: Path) -> None:
    run("rewrite", "train.py")
    train.write_text(SLOW)
    result = run("undo")
    assert result.exit_code == 0
    assert "Nothing was left to take back" in result.stderr
    assert run("undo").exit_code == 2


def test_only_what_was_rewritten_here(run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("one", "two"):
        (folder / name).mkdir()
        (folder / name / "train.py").write_text(SLOW)
        monkeypatch.chdir(folder / name)
        run("rewrite", "train.py")
    monkeypatch.chdir(folder / "one")
    assert run("undo").exit_code == 0
    assert ((folder / "one/train.py").read_text(), (folder / "two/train.py").read_text()) == (SLOW, FAST)
    assert run("undo").exit_code == 2
    monkeypatch.chdir(folder)
    assert run("undo").exit_code == 0
    assert (folder / "two/train.py").read_text() == SLOW


def test_list(run: Run, folder: Path, train: Path) -> None:
    assert (run("undo", "--list").stdout, run("undo", "--list").stderr) == ("", "No rewrite is kept.\n")
    run("rewrite", "train.py")
    (folder / "b.py").write_text(SLOW)
    run("rewrite", "b.py")
    result = run("undo", "--list")
    assert result.exit_code == 0
    assert [line.split("  ")[1] for line in result.stdout.splitlines()] == ["b.py", "train.py"]
    assert train.read_text() == FAST


def test_nobody_else_can_read_what_is_kept(run: Run, train: Path, state: Path) -> None:
    state.mkdir(parents=True, mode=0o755)
    train.chmod(0o600)
    mask = os.umask(0o022)
    try:
        run("rewrite", "train.py")
    finally:
        os.umask(mask)
    (patch,) = state.iterdir()
    assert (state.stat().st_mode & 0o777, patch.stat().st_mode & 0o777) == (0o700, 0o600)


def test_what_is_kept_is_a_patch(run: Run, folder: Path, train: Path, state: Path) -> None:
    run("rewrite", "train.py")
    (patch,) = state.iterdir()
    subprocess.run(["git", "apply", "-R", str(patch)], check=True, cwd=folder)
    assert train.read_text() == SLOW


@pytest.mark.parametrize("content", [b"", b"autoaccel undo 1 \n", b"autoaccel undo 1 AAAA\n", b"--- a/x\n+++ b/x\n"])
def test_what_is_no_record_is_left_out(run: Run, train: Path, state: Path, content: bytes) -> None:
    run("rewrite", "train.py")
    (state / "99999999-999999-x.patch").write_bytes(content)
    assert run("undo").exit_code == 0
    assert train.read_text() == SLOW


def test_quiet_keeps_the_hint(run: Run, train: Path) -> None:
    assert run("rewrite", "-q", "train.py").stderr == "Undo: autoaccel undo\n"


NEEDING = Rule("AA191", "needing-call", Tier.EXACT, (b"slow(",))


@NEEDING.check
def _needing(script: Script) -> Iterator[Finding | Skipped]:
    for call in script.find(ast.Call):
        if isinstance(call.func, ast.Name) and call.func.id == "slow":
            imported = AddImport("autoaccel", "runtime", "accel")
            yield NEEDING.finding(call, "slow() is accel() now", Replace(call.func, Code("accel")), imported)


@pytest.mark.parametrize(("option", "said"), [(None, 1), ("--vendor", 0), ("--diff", 0)])
def test_what_is_needed_where_it_runs_is_said_once(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch, option: str | None, said: int
) -> None:
    monkeypatch.setattr(registry, "rules", lambda: (NEEDING,))
    for name in ("a.py", "b.py"):
        (folder / name).write_text("import torch\nx = slow(1)\n")
    result = run("rewrite", ".", *([option] if option else []))
    assert result.stderr.count("needs autoaccel where it runs, or `--vendor`") == said
    if option is None:
        assert "from autoaccel import runtime as accel" in (folder / "a.py").read_text()
        (folder / "a.py").write_text((folder / "a.py").read_text() + "slow(2)\n")
        assert "needs autoaccel" not in run("rewrite", ".").stderr, "it did before"
