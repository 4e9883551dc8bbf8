"""`autoaccel rewrite`: exit status, both streams and the bytes of the files."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import Result

Run = Callable[..., Result]

SLOW = "import torch\n\n\nx = slow(1)  # kept\n"
FAST = SLOW.replace("slow", "fast")
PATCH = """\
--- a/train.py
+++ b/train.py
@@ -1,4 +1,4 @@
 import torch
 
 
-x = slow(1)  # kept
+x = fast(1)  # kept
"""  # fmt: skip  # noqa: W293 - a patch marks an empty line by one space
CLEAN = "import torch\nx = 1\n"
DECLINED = "import torch\nx = slow(*y)\n"
BROKEN = "import torch\nx = slow(1\n"


@pytest.fixture
def train(folder: Path) -> Path:
    path = folder / "train.py"
    path.write_text(SLOW)
    return path


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        pytest.param(["--diff", "--check", "slow.py"], 1, id="diff and check"),
        pytest.param(["--diff", "--check", "clean.py"], 0, id="diff and check of nothing"),
        pytest.param(["-o", "new.py", "slow.py"], 0, id="output"),
        pytest.param(["-i", "-"], 2, id="interactive stdin"),
        pytest.param(["--vendor", "-"], 2, id="vendor stdin"),
        pytest.param(["--diff", "-i", "slow.py"], 2, id="interactive diff"),
        pytest.param(["--diff", "-o", "new.py", "slow.py"], 2, id="diff to an output"),
    ],
)
def test_exit_status_of_its_own_options(run: Run, folder: Path, arguments: list[str], status: int) -> None:
    """What it shares with `lint` is in the exit matrix."""
    (folder / "slow.py").write_text(SLOW)
    (folder / "clean.py").write_text(CLEAN)
    result = run("rewrite", *arguments)
    assert result.exit_code == status, result.output
    assert "Traceback" not in result.output
    assert (status == 2) == ("rror" in result.stderr)


def test_in_place(run: Run, train: Path) -> None:
    result = run("rewrite", "train.py")
    assert train.read_text() == FAST
    assert result.stdout == ""
    assert "train.py:4:5: AA190 fast-call: slow() is fast() now [exact]" in result.stderr
    assert "1 file rewritten: 1 change (1 exact)" in result.stderr


def test_second_run_has_nothing_to_do(run: Run, train: Path) -> None:
    run("rewrite", "train.py")
    before = train.stat().st_mtime_ns
    result = run("rewrite", "train.py")
    assert result.exit_code == 0
    assert "Nothing to rewrite in 1 file." in result.stderr
    assert "Undo" not in result.stderr
    assert (train.read_text(), train.stat().st_mtime_ns) == (FAST, before)


def test_patches_of_a_link_are_of_its_file(run: Run, folder: Path) -> None:
    """git applies nothing to links."""
    (folder / "real").mkdir()
    (folder / "real/train.py").write_text(SLOW)
    (folder / "link.py").symlink_to("real/train.py")
    patch = run("rewrite", "--diff", "link.py").stdout_bytes
    subprocess.run(["git", "apply", "-"], input=patch, check=True, cwd=folder)
    assert (folder / "real/train.py").read_text() == FAST
    (folder / "real/train.py").write_text(SLOW)
    run("rewrite", "link.py")
    assert (folder / "real/train.py").read_text() == FAST
    assert run("undo").exit_code == 0
    assert (folder / "real/train.py").read_text() == SLOW
    assert (folder / "link.py").is_symlink()


def test_patch_of_files_outside_of_the_working_directory(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One patch has one root: the nearest folder that holds everything."""
    for name in ("here/in.py", "there/out.py"):
        (folder / name).parent.mkdir()
        (folder / name).write_text(SLOW)
    monkeypatch.chdir(folder / "here")
    patch = run("rewrite", "--diff", "in.py", "../there").stdout_bytes
    subprocess.run(["git", "apply", "-"], input=patch, check=True, cwd=folder)
    assert (folder / "here/in.py").read_text() == (folder / "there/out.py").read_text() == FAST
    assert run("rewrite", "--diff", "--select", "all", "in.py").stdout == ""


def test_empty_name_is_not_the_working_directory(run: Run, train: Path) -> None:
    result = run("rewrite", "")
    assert result.exit_code == 2
    assert "the name of a file is empty" in result.stderr
    assert train.read_text() == SLOW


def test_relative_state_folder_is_ignored(run: Run, train: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is kept would lie in the project."""
    monkeypatch.setenv("XDG_STATE_HOME", "state")
    monkeypatch.setenv("HOME", str(train.parent / "home"))
    run("rewrite", "train.py")
    assert len(list((train.parent / "home/.local/state/autoaccel/undo").glob("*.patch"))) == 1
    assert not (train.parent / "state").exists()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_full_disk(folder: Path, train: Path, repository: Path) -> None:
    train.write_text("import torch\nx = torch.zeros(3).to('cuda')\n")
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(repository), str(repository / "codemods")])}
    command = [sys.executable, "-m", "autoaccel", "rewrite", "-q", "--diff", "--isolated", "train.py"]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False, env=environment)
    assert (done.returncode, done.stderr) == (2, "error: stdout: cannot write: No space left on device\n")


def test_left_alone_says_why(run: Run, folder: Path) -> None:
    (folder / "train.py").write_text(DECLINED)
    result = run("rewrite", "train.py")
    assert "train.py:2:5: AA190 fast-call: left alone: the arguments are not visible here" in result.stderr
    assert "1 opportunity left alone" in result.stderr


def test_diff(run: Run, train: Path) -> None:
    result = run("rewrite", "--diff", "train.py")
    assert result.stdout == PATCH
    assert train.read_text() == SLOW
    assert "1 file would be rewritten: 1 change (1 exact)" in result.stderr


def test_check_writes_nothing(run: Run, train: Path) -> None:
    result = run("rewrite", "--check", "train.py")
    assert (result.stdout, train.read_text()) == ("", SLOW)
    assert "train.py:4:5: AA190" in result.stderr


def test_quiet(run: Run, train: Path) -> None:
    result = run("rewrite", "-q", "train.py", "missing.py")
    assert train.read_text() == FAST
    assert result.stderr.splitlines() == ["error: missing.py: no such file or folder", "Undo: autoaccel undo"]


def test_other_files_are_still_done(run: Run, folder: Path, train: Path) -> None:
    (folder / "broken.py").write_text(BROKEN)
    result = run("rewrite", "broken.py", "train.py")
    assert result.exit_code == 2
    assert train.read_text() == FAST
    assert (folder / "broken.py").read_text() == BROKEN
    (line,) = [line for line in result.stderr.splitlines() if line.startswith("error: ")]
    assert line.startswith("error: broken.py:2:")
    assert "1 file could not be done" in result.stderr


def test_stdin(run: Run) -> None:
    result = run("rewrite", "-", input=SLOW)
    assert (result.exit_code, result.stdout) == (0, FAST)
    assert "<stdin>:4:5: AA190" in result.stderr


def test_stdin_keeps_bytes(run: Run) -> None:
    content = b"# coding: latin-1\r\n# torch \xe9\r\nx = slow(1)"
    assert run("rewrite", "-", input=content).stdout_bytes == content.replace(b"slow", b"fast")


def test_stdin_diff_and_name(run: Run) -> None:
    result = run("rewrite", "--diff", "--stdin-filename", "train.py", "-", input=SLOW)
    assert (result.exit_code, result.stdout) == (1, PATCH)


def test_stdin_to_output(run: Run, folder: Path) -> None:
    result = run("rewrite", "-", "-o", "new.py", input=SLOW)
    assert (result.exit_code, result.stdout, (folder / "new.py").read_text()) == (0, "", FAST)


@pytest.mark.parametrize("content", [BROKEN.encode(), b"import torch\nx = slow('\xe9')\n"], ids=["syntax", "encoding"])
def test_stdin_that_cannot_be_done_is_not_lost(run: Run, content: bytes) -> None:
    result = run("rewrite", "-", input=content)
    assert (result.exit_code, result.stdout_bytes) == (2, content)
    assert result.stderr.startswith("error: <stdin>")


def test_output_file(run: Run, folder: Path, train: Path) -> None:
    result = run("rewrite", "train.py", "-o", "deep/fast.py")
    assert result.exit_code == 0
    assert ((folder / "deep/fast.py").read_text(), train.read_text()) == (FAST, SLOW)
    assert "Undo" not in result.stderr


@pytest.mark.parametrize("exists", [True, False])
def test_output_folder_for_one_file(run: Run, folder: Path, train: Path, exists: bool) -> None:
    if exists:
        (folder / "out").mkdir()
    assert run("rewrite", "train.py", "-o", "out" if exists else "out/").exit_code == 0
    assert ((folder / "out/train.py").read_text(), train.read_text()) == (FAST, SLOW)


def test_output_file_of_an_unchanged_script(run: Run, folder: Path) -> None:
    (folder / "clean.py").write_text(CLEAN)
    assert run("rewrite", "clean.py", "-o", "copy.py").exit_code == 0
    assert (folder / "copy.py").read_text() == CLEAN


def test_output_folder_mirrors_the_tree(run: Run, folder: Path) -> None:
    (folder / "project/models").mkdir(parents=True)
    (folder / "project/train.py").write_text(SLOW)
    (folder / "project/models/net.py").write_text(CLEAN)
    assert run("rewrite", "project", "-o", "out").exit_code == 0
    written = {str(path.relative_to(folder / "out")): path.read_text() for path in (folder / "out").rglob("*.py")}
    assert written == {"train.py": FAST, "models/net.py": CLEAN}
    assert (folder / "project/train.py").read_text() == SLOW


def test_output_of_two_scripts_that_collide(run: Run, folder: Path) -> None:
    for name in ("a", "b"):
        (folder / name).mkdir()
        (folder / name / "train.py").write_text(SLOW)
    result = run("rewrite", "a/train.py", "b/train.py", "-o", "out")
    assert result.exit_code == 2
    assert "a/train.py" in result.stderr
    assert "b/train.py" in result.stderr
    assert not (folder / "out").exists()


def test_selection(run: Run, folder: Path) -> None:
    (folder / "train.py").write_text("import torch\nslow(timid(1))\n")
    assert "fast(timid(1))" in run("rewrite", "--diff", "train.py").stdout
    assert "fast(brave(1))" in run("rewrite", "--diff", "--extend-select", "AA690", "train.py").stdout
    assert "slow(brave(1))" in run("rewrite", "--diff", "--select", "brave-call", "train.py").stdout
    assert run("rewrite", "--diff", "--ignore", "AA1", "train.py").stdout == ""


def test_configuration_governs(run: Run, folder: Path, train: Path) -> None:
    (folder / "pyproject.toml").write_text('[tool.autoaccel]\nignore = ["fast-call"]\n')
    assert run("rewrite", "--check", "train.py").exit_code == 0
    assert run("rewrite", "--check", "--isolated", "train.py").exit_code == 1
    (folder / "pyproject.toml").write_text('[tool.autoaccel]\nignroe = ["fast-call"]\n')
    result = run("rewrite", "--check", "train.py")
    assert result.exit_code == 2
    assert "unknown key 'ignroe'; did you mean 'ignore'?" in result.stderr


def test_excluded_folders(run: Run, folder: Path) -> None:
    for name in ("build/a.py", "legacy/b.py", "src/c.py"):
        (folder / name).parent.mkdir()
        (folder / name).write_text(SLOW)
    result = run("rewrite", "--check", "--extend-exclude", "legacy/", ".")
    assert "src/c.py:4" in result.stderr
    assert "legacy" not in result.stderr
    assert "build" not in result.stderr
    assert "build/a.py:4" in run("rewrite", "--check", "--exclude", "legacy/", ".").stderr


def test_ignored_by_git(run: Run, folder: Path, train: Path) -> None:
    (folder / ".git").mkdir()
    (folder / ".gitignore").write_text("train.py\n")
    assert "train.py:4" not in run("rewrite", "--check", ".").stderr
    assert "train.py:4" in run("rewrite", "--check", "--no-respect-gitignore", ".").stderr


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        pytest.param("y\nn\ny\n", "fast(1), slow(2), fast(3)", id="each its own"),
        pytest.param("n\na\n", "slow(1), fast(2), fast(3)", id="all that follow"),
        pytest.param("y\nq\n", "fast(1), slow(2), slow(3)", id="quit keeps what was accepted"),
        pytest.param("y\n", "fast(1), slow(2), slow(3)", id="end of input is quit"),
        pytest.param("?\nwhat\ny\nn\nn\n", "fast(1), slow(2), slow(3)", id="asks again"),
    ],
)
def test_interactive(run: Run, train: Path, answers: str, expected: str) -> None:
    train.write_text("import torch\nx = slow(1), slow(2), slow(3)\n")
    result = run("rewrite", "-i", "train.py", input=answers)
    assert train.read_text() == f"import torch\nx = {expected}\n"
    assert (result.exit_code, result.stdout) == (0, "")
    assert "-x = slow(1), slow(2), slow(3)\n" in result.stderr


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        pytest.param("n\nn\nn\n", "3 changes declined.", id="each"),
        pytest.param("q\n", "3 changes declined.", id="all that follow"),
        pytest.param("y\nn\ny\n", "1 change declined.", id="one"),
        pytest.param("a\n", "", id="none"),
    ],
)
def test_interactive_tells_what_was_declined(run: Run, train: Path, answers: str, said: str) -> None:
    train.write_text("import torch\nx = slow(1), slow(2), slow(3)\n")
    result = run("rewrite", "-i", "train.py", input=answers)
    assert (said or "1 file rewritten: 3 changes") in result.stderr
    assert ("declined" in result.stderr) == bool(said)
    assert "Nothing to rewrite" not in result.stderr


def test_interactive_quit_ends_all_files(run: Run, folder: Path) -> None:
    for name in ("a.py", "b.py"):
        (folder / name).write_text(SLOW)
    run("rewrite", "-i", "a.py", "b.py", input="q\ny\n")
    assert [(folder / name).read_text() for name in ("a.py", "b.py")] == [SLOW, SLOW]


@pytest.mark.parametrize(
    ("flag", "variables", "coloured"),
    [
        (None, {}, False),
        (None, {"FORCE_COLOR": "1"}, True),
        (None, {"FORCE_COLOR": "1", "NO_COLOR": "1"}, False),
        ("always", {"NO_COLOR": "1"}, True),
        ("never", {"FORCE_COLOR": "1"}, False),
    ],
)
def test_colour(
    run: Run, train: Path, monkeypatch: pytest.MonkeyPatch, flag: str | None, variables: dict[str, str], coloured: bool
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    result = run("rewrite", "--diff", *([f"--color={flag}"] if flag else []), "train.py")
    assert ("\x1b[31m-x = slow(1)  # kept\x1b[0m\n" in result.stdout) == coloured
    assert ("\x1b" in result.stderr) == coloured


def test_internal_error_is_one_line_and_other_files_are_done(
    run: Run, folder: Path, train: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from autoaccel.rewriting import engine

    real = engine.rewrite

    def fails(text: str, *arguments: object, **keywords: object) -> object:
        if "defect" in text:
            raise RuntimeError("no such luck")
        return real(text, *arguments, **keywords)  # type: ignore[arg-type]

    monkeypatch.setattr(engine, "rewrite", fails)
    (folder / "defect.py").write_text("import torch\ndefect = slow(1)\n")
    result = run("rewrite", "defect.py", "train.py")
    assert result.exit_code == 2
    assert "error: defect.py: internal error, the file is left alone: RuntimeError: no such luck\n" in result.stderr
    assert "Traceback" not in result.stderr
    assert train.read_text() == FAST
    assert "Traceback" in run("rewrite", "-v", "defect.py").stderr


def test_rule_that_fails_is_named_and_other_files_are_done(
    run: Run, folder: Path, train: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from autoaccel.analysis import Script
    from autoaccel.edits import Finding, Tier
    from autoaccel.rewriting import registry
    from autoaccel.rewriting.rule import Rule

    broken = Rule("ZZ001", "broken", Tier.EXACT, (b"defect",))

    @broken.check
    def _broken(script: Script) -> Iterator[Finding]:
        raise RuntimeError("no such luck\nat all")

    known = registry.rules()
    monkeypatch.setattr(registry, "rules", lambda: (*known, broken))
    (folder / "defect.py").write_text("import torch\ndefect = slow(1)\n")
    result = run("rewrite", "-q", "defect.py", "train.py")
    assert result.exit_code == 2
    assert result.stderr.splitlines() == [
        "error: defect.py: rule ZZ001 broken failed: RuntimeError: no such luck",
        "Undo: autoaccel undo",
    ]
    assert train.read_text() == FAST
    assert 'raise RuntimeError("no such luck' in run("rewrite", "-v", "defect.py").stderr


def test_file_that_cannot_be_written(run: Run, folder: Path, train: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "full.py").write_text(SLOW)
    real = Path.replace

    def replace(self: Path, target: Path) -> Path:
        if target.name == "full.py":
            raise OSError(28, "No space left on device")
        return real(self, target)

    monkeypatch.setattr(Path, "replace", replace)
    result = run("rewrite", "full.py", "train.py")
    assert result.exit_code == 2
    assert "error: full.py: cannot write: no space left on device\n" in result.stderr
    assert ((folder / "full.py").read_text(), train.read_text()) == (SLOW, FAST)
    assert sorted(path.name for path in folder.iterdir()) == ["full.py", "train.py"]


def test_interrupted(run: Run, folder: Path, train: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was written before Ctrl-C is told, and can be undone."""
    (folder / "zoo.py").write_text(SLOW)
    real = Path.replace

    def replace(self: Path, target: Path) -> Path:
        if target.name == "zoo.py":
            raise KeyboardInterrupt
        return real(self, target)

    monkeypatch.setattr(Path, "replace", replace)
    result = run("rewrite", "train.py", "zoo.py")
    assert result.exit_code == 130
    assert (train.read_text(), (folder / "zoo.py").read_text()) == (FAST, SLOW)
    assert "1 file rewritten" in result.stderr
    assert "Undo: autoaccel undo" in result.stderr
    assert "interrupted" in result.stderr
    assert sorted(path.name for path in folder.iterdir()) == ["train.py", "zoo.py"]
    assert "1 file taken back" in run("undo").stderr
    assert train.read_text() == SLOW


def test_vendor(run: Run, folder: Path, repository: Path) -> None:
    """The copy is complete: the script's import works in a process that cannot see the tool."""
    (folder / "train.py").write_text("import torch\nfrom autoaccel import runtime as accel\nx = slow(accel.autocast)\n")
    result = run("rewrite", "--vendor", "train.py")
    assert result.exit_code == 0, result.output
    text = (folder / "train.py").read_text()
    assert text == "import torch\nimport autoaccel_runtime as accel\nx = fast(accel.autocast)\n"
    here, there = folder / "autoaccel_runtime", repository / "autoaccel/runtime"
    copied = {path.relative_to(here) for path in here.rglob("*.py")}
    assert copied == {path.relative_to(there) for path in there.rglob("*.py")}
    for path in here.rglob("*.py"):
        assert "from autoaccel" not in path.read_text().replace("`from autoaccel import runtime as accel`", "")


def test_vendor_with_old_line_ends(run: Run, folder: Path) -> None:
    (folder / "train.py").write_bytes(b"import torch\rfrom autoaccel import runtime as accel  # fast\r")
    assert run("rewrite", "--vendor", "train.py").exit_code == 0
    assert (folder / "train.py").read_bytes() == b"import torch\rimport autoaccel_runtime as accel  # fast\r"


def test_vendor_of_a_rewritten_script(run: Run, folder: Path) -> None:
    """Only what imports the runtime changes, not text that looks like it; and the summary counts no rewrites."""
    line = "from autoaccel import runtime as accel\n"
    (folder / "train.py").write_text(f'"""\n{line}"""\nimport torch\n{line}')
    result = run("rewrite", "--vendor", "train.py")
    assert (folder / "train.py").read_text() == f'"""\n{line}"""\nimport torch\nimport autoaccel_runtime as accel\n'
    assert f"The runtime was copied to {folder / 'autoaccel_runtime'}.\n" in result.stderr
    assert "1 file rewritten: the import of the runtime\n" in result.stderr
    assert run("rewrite", "--vendor", "--check", "train.py").exit_code == 0


@pytest.mark.parametrize("output", [[], ["-o", "out"]], ids=["in place", "output"])
def test_vendor_where_each_script_looks(run: Run, folder: Path, output: list[str]) -> None:
    """Python looks beside the script that is started: each has it there, but no package has it in itself."""
    for name in ("scripts/a/train.py", "scripts/b/train.py", "scripts/b/nets/deep/net.py"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("import torch\nfrom autoaccel import runtime as accel\n")
    for name in ("scripts/b/nets/__init__.py", "scripts/b/nets/deep/__init__.py"):
        (folder / name).touch()
    assert run("rewrite", "--vendor", "scripts", *output).exit_code == 0
    top = folder / "out" if output else folder / "scripts"
    copies = sorted(path.parent.relative_to(top).as_posix() for path in top.rglob("autoaccel_runtime"))
    assert copies == ["a", "b"]


def test_vendor_of_a_module_beside_the_script(run: Run, folder: Path) -> None:
    """The started script may itself have nothing to rewrite."""
    (folder / "lib").mkdir()
    (folder / "lib/net.py").write_text("import torch\nfrom autoaccel import runtime as accel\n")
    (folder / "train.py").write_text("import torch\nimport lib.net\n")
    assert run("rewrite", "--vendor", ".").exit_code == 0
    assert (folder / "autoaccel_runtime/__init__.py").exists()


def test_output_file_for_several_scripts(run: Run, folder: Path, train: Path) -> None:
    (folder / "other.py").write_text(SLOW)
    (folder / "out.py").write_text(CLEAN)
    result = run("rewrite", "train.py", "other.py", "-o", "out.py")
    assert result.exit_code == 2
    assert "--output out.py is a file; several scripts need a folder" in result.stderr
    assert (folder / "out.py").read_text() == CLEAN


@pytest.mark.parametrize("option", ["--select", "--ignore", "--exclude"])
def test_selection_of_nothing(run: Run, train: Path, option: str) -> None:
    result = run("rewrite", "train.py", option, " ,")
    assert result.exit_code == 2
    assert "names nothing" in result.stderr
    assert train.read_text() == SLOW


@pytest.mark.parametrize("stream", ["<&-", ">&-", "2>&-"])
def test_closed_streams(folder: Path, train: Path, repository: Path, stream: str) -> None:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(repository), str(repository / "codemods")])}
    command = f"{sys.executable} -m autoaccel rewrite --diff --isolated train.py {stream}"
    train.write_text("import torch\nx = torch.zeros(3).to('cuda')\n")
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False, cwd=folder, env=environment)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert train.read_text() == "import torch\nx = torch.zeros(3).to('cuda')\n"


def test_vendor_by_a_newer_version(run: Run, folder: Path, repository: Path) -> None:
    """Modules that are no more do not stay beside the packages that took their place; nothing else goes."""
    there = repository / "autoaccel/runtime"
    for name in ("amp.py", "old/__init__.py", "old/deep/part.py", "old/deep/__pycache__/part.pyc", "loading/gone.py"):
        (folder / "autoaccel_runtime" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "autoaccel_runtime" / name).write_text("raise ImportError")
    (folder / "autoaccel_runtime/NOTES.md").write_text("mine")
    (folder / "train.py").write_text("import torch\nfrom autoaccel import runtime as accel\n")
    assert run("rewrite", "--vendor", "train.py").exit_code == 0
    here = folder / "autoaccel_runtime"
    kept = {path.relative_to(here).as_posix() for path in here.rglob("*") if path.is_file()}
    assert kept == {path.relative_to(there).as_posix() for path in there.rglob("*.py")} | {"NOTES.md"}
    assert not (here / "old").exists()


def test_vendor_that_cannot_be_copied_changes_nothing(run: Run, folder: Path) -> None:
    text = "import torch\nfrom autoaccel import runtime as accel\nx = slow(accel.autocast)\n"
    (folder / "train.py").write_text(text)
    (folder / "autoaccel_runtime").write_text("in the way")
    result = run("rewrite", "--vendor", "train.py")
    assert result.exit_code == 2
    assert "autoaccel_runtime: cannot copy the runtime" in result.stderr
    assert (folder / "train.py").read_text() == text


def test_vendor_preview_copies_nothing(run: Run, folder: Path, train: Path) -> None:
    run("rewrite", "--vendor", "--diff", "train.py")
    assert not (folder / "autoaccel_runtime").exists()


def test_reader_that_leaves(folder: Path, repository: Path) -> None:
    """`autoaccel rewrite --diff … | head -1` ends quietly."""
    program = shutil.which("head")
    assert program is not None
    command = f"{sys.executable} -m autoaccel rewrite -q --diff . | {program} -c 1"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(repository), str(repository / "codemods")])}
    for number in range(20):
        (folder / f"{number}.py").write_text(f"import torch\ntorch.zeros(3).to('cuda')  # {'long ' * 5000}\n")
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False, cwd=folder, env=environment)
    assert (done.stdout, done.stderr) == ("-", "")


def test_links_that_lead_out_of_a_folder_are_left_alone(run: Run, folder: Path) -> None:
    (folder / "project").mkdir()
    (folder / "shared.py").write_text(SLOW)
    (folder / "project" / "shared.py").symlink_to("../shared.py")
    result = run("rewrite", "project")
    assert result.exit_code == 0
    assert f"project/shared.py: not followed, it leads to {folder / 'shared.py'}\n" in result.stderr
    assert (folder / "shared.py").read_text() == SLOW
    run("rewrite", "project/shared.py")
    assert (folder / "shared.py").read_text() == FAST
