"""`rewrite --verified` with `--bench`, `--summary` and `--commits`; the runs are made up: `tests/cli/observing.py`."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from tests.cli.observing import Stage, install

Run = Callable[..., Result]

# AA190 makes it fail, as `fast` is not defined; AA690, which is opt-in, makes it faster.
BOTH = "import torch\nx = slow(1)\ny = timid(2)\n"
GOOD = "import torch\ny = timid(2)\n"
CHANGED = "import torch\ny = brave(2)\n"
BRAVE = ("--extend-select", "AA690")
VERIFIED = ("rewrite", "--verified", *BRAVE)


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Stage:
    return Stage(monkeypatch)


@pytest.fixture
def script(folder: Path) -> Path:
    (folder / "train.py").write_text(GOOD)
    return folder / "train.py"


def git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], capture_output=True, text=True, check=True).stdout


@pytest.fixture
def repository(script: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for role in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{role}_NAME", "somebody")
        monkeypatch.setenv(f"GIT_{role}_EMAIL", "somebody@example.org")
    git("init", "--quiet")
    git("add", ".")
    git("commit", "--quiet", "-m", "begin")
    return script.parent


def test_a_summary_with_the_figure(run: Run, script: Path, stage: Stage) -> None:
    result = run(*VERIFIED, "--bench", "--summary", "pr.md", "train.py", "--", "--epochs", "3")
    assert result.exit_code == 0, result.output
    assert script.read_text() == CHANGED
    assert "train.py: 1.50 times as fast after rewriting. The speed-up lies between" in result.stderr
    page = Path("pr.md").read_text(encoding="utf-8")
    first, _, *table = page.splitlines()[:5]
    assert first == "# train.py 1.50× (1.49–1.52), trains the same"
    assert table == [
        "| change | tier | proof | alone |",
        "| --- | --- | --- | ---: |",
        "| AA690 brave-call, 1 change | opt-in | bit for bit | 1.50× (1.49–1.52) |",
    ]
    assert "- The original measured against itself: 1.00× (" in page
    assert "autoaccel verify train.py -- --epochs 3\nautoaccel bench --ablate train.py -- --epochs 3\n" in page
    assert "`autoaccel undo`" in page


def test_a_summary_without_figures(run: Run, script: Path, stage: Stage) -> None:
    assert run(*VERIFIED, "--summary", "pr.md", "train.py").exit_code == 0
    page = Path("pr.md").read_text(encoding="utf-8")
    assert page.startswith("# train.py: 1 change, trains the same\n\n| change | tier | proof |\n")
    assert "bench" not in page
    assert "rewritten" not in stage.asked


@pytest.mark.parametrize(
    ("gain", "said"), [(1.0, "no difference in speed measured"), (0.5, "train.py 0.50× (0.50–0.51), trains the same")]
)
def test_no_gain_is_none(run: Run, script: Path, stage: Stage, gain: float, said: str) -> None:
    stage.gain = gain
    assert run(*VERIFIED, "--bench", "--summary", "pr.md", "train.py").exit_code == 0
    assert said in Path("pr.md").read_text(encoding="utf-8").splitlines()[0]


def test_what_is_left_out_is_said(run: Run, script: Path, stage: Stage) -> None:
    script.write_text(BOTH)
    assert run(*VERIFIED, "--bench", "--summary", "pr.md", "train.py").exit_code == 0
    page = Path("pr.md").read_text(encoding="utf-8")
    assert "## What makes a difference, and is left as it was\n\n- train.py:2: AA190 fast-call: it fails: " in page
    assert "AA190" not in page.partition("##")[0]


def test_names_are_text_alone(run: Run, folder: Path, stage: Stage) -> None:
    (folder / "<b>|x.py").write_text(GOOD)
    assert run(*VERIFIED, "--summary", "pr.md", "<b>|x.py").exit_code == 0
    assert Path("pr.md").read_text(encoding="utf-8").startswith("# &lt;b&gt;\\|x.py: 1 change")


def test_with_a_preview_the_summary_is_all_that_is_written(run: Run, script: Path, stage: Stage) -> None:
    assert run(*VERIFIED, "--diff", "--summary", "pr.md", "train.py").exit_code == 1
    assert script.read_text() == GOOD
    assert Path("pr.md").exists()


def test_where_nothing_can_be_timed_nothing_is_written(run: Run, script: Path, stage: Stage) -> None:
    stage.fails = "rewritten"
    result = run(*VERIFIED, "--bench", "--summary", "pr.md", "train.py")
    assert result.exit_code == 2
    assert script.read_text() == GOOD
    assert not Path("pr.md").exists()


def test_nothing_to_change(run: Run, script: Path, stage: Stage) -> None:
    script.write_text("import torch\n")
    assert run(*VERIFIED, "--bench", "--summary", "pr.md", "train.py").exit_code == 0
    assert Path("pr.md").read_text(encoding="utf-8").startswith("# train.py: nothing is changed\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--bench",), "--bench needs --verified"),
        (("--summary", "pr.md"), "--summary needs --verified"),
        (("--commits",), "--commits needs --verified"),
        (("--verified", "--commits", "--diff"), "--commits writes rewritten scripts alone"),
        (("--verified", "--commits", "--vendor"), "--commits writes rewritten scripts alone"),
        (("--verified", "--summary", "train.py"), "--summary train.py would replace a script"),
        (("--verified", "--summary", "."), ".: cannot write: is a folder"),
        (("--verified", "--summary", "missing/pr.md"), "missing/pr.md: cannot write: not in a folder"),
    ],
)
def test_usage(run: Run, script: Path, stage: Stage, arguments: tuple[str, ...], message: str) -> None:
    result = run("rewrite", *arguments, "train.py")
    assert result.exit_code == 2
    assert message in result.stderr
    assert stage.asked == []
    assert script.read_text() == GOOD


# -- commits


def test_one_commit_for_each_rule(run: Run, repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    observed = install(monkeypatch)
    (repository / "train.py").write_text("import torch\nx = slow(1)\ny = timid(2)\nz = timid(3)\nfast = brave = 1\n")
    (repository / "helper.py").write_text("timid(3)\n")
    (repository / "notes.txt").write_text("mine")
    git("add", "train.py", "helper.py")
    git("commit", "--quiet", "-m", "more")
    git("add", "notes.txt")
    observed.files = (str(repository.resolve() / "helper.py"),)
    observed.defined = ("fast",)
    result = run(*VERIFIED, "--commits", "train.py")
    assert result.exit_code == 0, result.output
    assert [line.split(" ")[-1] for line in git("log", "--format=%s", "-2").splitlines()] == ["(AA690)", "(AA190)"]
    assert git("show", "--format=", "--name-only", "HEAD").split() == ["helper.py", "train.py"]
    assert git("show", "--format=", "--name-only", "HEAD~").split() == ["train.py"]
    assert "- train.py:3: more courage (" in git("log", "--format=%b", "-1")
    assert (repository / "train.py").read_text().startswith("import torch\nx = fast(1)\ny = brave(2)\n")
    assert git("status", "--porcelain").split("\n")[0] == "A  notes.txt"


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        ("changed", "it has changes that are not committed"),
        ("untracked", "git does not track it"),
        ("outside", "it is in no git repository"),
    ],
)
def test_what_cannot_be_committed_is_said_before_anything_runs(
    run: Run, script: Path, stage: Stage, spoil: str, message: str, request: pytest.FixtureRequest
) -> None:
    if spoil != "outside":
        request.getfixturevalue("repository")
    if spoil == "changed":
        script.write_text(GOOD + "# mine\n")
    elif spoil == "untracked":
        git("rm", "--quiet", "--cached", "train.py")
    before = script.read_text()
    result = run(*VERIFIED, "--commits", "train.py")
    assert (result.exit_code, result.stderr) == (2, f"error: train.py: cannot commit: {message}\n")
    assert script.read_text() == before
    assert stage.asked == []


def test_a_hook_that_refuses_takes_the_change_back(run: Run, repository: Path, stage: Stage) -> None:
    hook = repository / ".git" / "hooks" / "pre-commit"
    hook.write_text("#!/bin/sh\necho not today >&2\nexit 1\n")
    hook.chmod(0o755)
    result = run(*VERIFIED, "--commits", "--summary", "pr.md", "train.py")
    assert result.exit_code == 2
    assert "cannot commit: not today; 0 of 1 are made" in result.stderr
    assert (repository / "train.py").read_text() == GOOD
    assert Path("pr.md").exists()


def test_without_git(run: Run, script: Path, stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    result = run(*VERIFIED, "--commits", "train.py")
    assert (result.exit_code, result.stderr) == (2, "error: --commits needs git\n")
