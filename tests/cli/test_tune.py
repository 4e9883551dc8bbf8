"""`autoaccel tune` as its users meet it, and `rewrite` after it; the runs are made up: `tests/cli/observing.py`."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from autoaccel.measure.benching import procedure
from autoaccel.measure.tuning import machine_facts
from tests.cli.observing import Stage

Run = Callable[..., Result]

# AA190 makes it fail, as `fast` is not defined; AA690, which is opt-in, makes it faster.
BOTH = "import torch\nx = slow(1)\ny = timid(2)\n"
GOOD = "import torch\ny = timid(2)\n"
BRAVE = ("--extend-select", "AA690")
RECORD = Path(".autoaccel", "tune.json")


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Stage:
    return Stage(monkeypatch)


@pytest.fixture
def script(folder: Path) -> Path:
    (folder / "setup.cfg").touch()  # the root of a project
    (folder / "train.py").write_text(GOOD)
    return folder / "train.py"


def recorded() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(RECORD.read_text())["scripts"]["train.py"]
    return found


def test_what_wins_is_written(run: Run, script: Path, stage: Stage) -> None:
    result = run("tune", "train.py", *BRAVE)
    assert result.exit_code == 0, result.output
    assert script.read_text() == "import torch\ny = brave(2)\n"
    first, _, head, row = result.stdout.splitlines()
    assert first == "train.py: 1 of 1 rule pays on this machine: 1.50 times as fast (1.49 to 1.52)."
    assert head.split() == ["changes", "gain", "interval", "alone", "interval"]
    assert row.split() == "AA690 brave-call 1 1.50 1.49 to 1.52 1.50 1.49 to 1.52 kept".split()
    assert "Undo: autoaccel undo" in result.stderr
    assert "What was measured, and why the rest was left out: .autoaccel/tune.json." in result.stderr
    assert stage.asked == ["original", "again", "rewritten"] * 3
    found = recorded()
    assert [(each["code"], each["kept"]) for each in found["rules"]] == [("AA690", True)]
    assert found["speedup"]["median"] == pytest.approx(1.5)
    assert found["files"] == ["train.py"]


@pytest.mark.parametrize("gain", [1.0, 0.5])
def test_what_does_not_win_is_not(run: Run, script: Path, stage: Stage, gain: float) -> None:
    stage.gain = gain
    result = run("tune", "train.py", *BRAVE, "--", "--epochs", "1")
    assert result.exit_code == 0
    assert script.read_text() == GOOD
    assert "train.py: nothing is measured to pay on this machine." in result.stdout
    assert "does not pay here" in result.stderr
    assert "Undo" not in result.stderr
    assert [(each["code"], each["kept"]) for each in recorded()["rules"]] == [("AA690", False)]
    assert recorded()["speedup"] is None
    assert recorded()["arguments"] == ["--epochs", "1"]


def test_what_trains_otherwise_is_not_even_measured(run: Run, script: Path, stage: Stage) -> None:
    script.write_text(BOTH)
    result = run("tune", "train.py", *BRAVE)
    assert result.exit_code == 0
    assert script.read_text() == "import torch\nx = slow(1)\ny = brave(2)\n"
    assert "AA190 fast-call" in result.stdout
    assert "left out: it makes a difference: it fails: NameError" in result.stdout
    assert {each["code"]: each["kept"] for each in recorded()["rules"]} == {"AA690": True, "AA190": False}


def test_nothing_trains_the_same(run: Run, script: Path, stage: Stage) -> None:
    script.write_text("import torch\nx = slow(1)\n")
    result = run("tune", "train.py")
    assert result.exit_code == 0
    assert script.read_text() == "import torch\nx = slow(1)\n"
    assert "nothing is measured to pay" in result.stdout
    assert stage.asked == []


def test_nothing_to_tune(run: Run, script: Path, stage: Stage) -> None:
    result = run("tune", "train.py")
    assert (result.exit_code, result.stdout.splitlines()[0]) == (
        0, "train.py: nothing would be rewritten, so there is nothing to tune.",
    )  # fmt: skip
    assert not RECORD.exists()


def test_a_preview_changes_nothing(run: Run, script: Path, stage: Stage) -> None:
    result = run("tune", "train.py", "--diff", *BRAVE)
    assert result.exit_code == 1
    assert result.stdout.startswith("--- a/train.py\n+++ b/train.py\n")
    assert "-y = timid(2)\n+y = brave(2)\n" in result.stdout
    assert "1 of 1 rule pays on this machine" in result.stderr
    assert script.read_text() == GOOD
    assert not RECORD.exists()
    stage.gain = 1.0
    assert run("tune", "train.py", "--diff", *BRAVE).exit_code == 0


def test_rewrite_heeds_the_record(run: Run, script: Path, stage: Stage) -> None:
    script.write_text(BOTH)
    run("tune", "train.py", *BRAVE)
    script.write_text(BOTH)
    result = run("rewrite", "train.py")
    assert result.exit_code == 0
    assert script.read_text() == BOTH
    said = "train.py: as tuned on this machine, AA190 left out (.autoaccel/tune.json; --isolated ignores it)."
    assert result.stderr.splitlines()[0] == said
    assert run("rewrite", "train.py", "--check").exit_code == 0
    assert run("rewrite", ".", "--check").stderr.splitlines()[0] == said
    assert said not in run("rewrite", "train.py", "-q").stderr


def test_a_verified_rewrite_heeds_it_as_well(run: Run, script: Path, stage: Stage) -> None:
    script.with_name("autoaccel.toml").write_text('extend-select = ["AA690"]\n')
    stage.gain = 1.0
    run("tune", "train.py")
    result = run("rewrite", "--verified", "train.py")
    assert result.exit_code == 0
    assert "train.py: as tuned on this machine, AA690 left out" in result.stderr
    assert script.read_text() == GOOD
    run("rewrite", "--verified", "train.py", "--config", 'extend-select = ["AA690"]', "--isolated")
    assert script.read_text() != GOOD


@pytest.mark.parametrize("arguments", [("--isolated",), ("--select", "AA190"), ("--extend-select", "AA690")])
def test_who_says_which_rules_is_heeded_first(run: Run, script: Path, stage: Stage, arguments: tuple[str, ...]) -> None:
    script.write_text(BOTH)
    run("tune", "train.py")
    result = run("rewrite", "train.py", "--check", *arguments)
    assert result.exit_code == 1
    assert "as tuned" not in result.stderr


def test_another_machine(run: Run, script: Path, stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    script.write_text(BOTH)
    run("tune", "train.py")
    monkeypatch.setattr(machine_facts, "machine_facts", lambda: {"cpus": "1000"})
    result = run("rewrite", "train.py")
    said = (
        "train.py: tuned on another machine, which does not count here (.autoaccel/tune.json; --isolated ignores it)."
    )
    assert result.stderr.splitlines()[0] == said
    assert script.read_text() == "import torch\nx = fast(1)\ny = timid(2)\n"


def test_other_files_are_rewritten_as_ever(run: Run, script: Path, stage: Stage) -> None:
    script.write_text(BOTH)
    run("tune", "train.py")
    other = script.with_name("other.py")
    other.write_text(BOTH)
    result = run("rewrite", "other.py")
    assert "tuned" not in result.stderr
    assert "fast(1)" in other.read_text()
    assert "fast(1)" not in script.read_text()
    assert run("lint", "train.py").exit_code == 1


def test_a_record_that_is_none(run: Run, script: Path, stage: Stage) -> None:
    RECORD.parent.mkdir()
    RECORD.write_text("{")
    result = run("rewrite", "train.py", "--check")
    assert result.exit_code == 0
    assert "tune.json: is no record of `tune`: not heeded" in result.stderr
    result = run("tune", "train.py", *BRAVE)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "tune.json: is no record of `tune`; move it away" in result.stderr
    assert stage.asked == []
    assert RECORD.read_text() == "{"


def test_rules_of_another_pack_are_no_error(run: Run, script: Path, stage: Stage) -> None:
    script.write_text(BOTH)
    run("tune", "train.py")
    RECORD.write_text(RECORD.read_text().replace("AA190", "ZZ190"))
    result = run("rewrite", "train.py", "--check")
    assert result.exit_code == 1
    assert "as tuned on this machine, nothing left out" in result.stderr


def test_a_script_behind_a_link(run: Run, script: Path, stage: Stage) -> None:
    script.write_text(BOTH)
    run("tune", "train.py")
    script.with_name("link.py").symlink_to(script)
    result = run("rewrite", "link.py", "--check")
    assert result.exit_code == 0
    assert "link.py: as tuned on this machine, AA190 left out" in result.stderr


def test_batch_sizes_are_shown_and_nothing_is_written(run: Run, script: Path, stage: Stage) -> None:
    result = run("tune", "--batch", "train.py", *BRAVE)
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.startswith("train.py: batch sizes; nothing was changed.\n")
    assert "Not further: with batches 2 times as large a batch holds no more samples.\n" in result.stdout
    assert stage.asked == ["original", "original"]
    assert script.read_text() == GOOD
    assert not RECORD.exists()


def test_a_batch_that_is_too_large(run: Run, script: Path, stage: Stage) -> None:
    stage.fails = "original, 2 times"
    result = run("tune", "--batch", "train.py")
    assert result.exit_code == 0
    assert "Not further: with batches 2 times as large it fails: RuntimeError: no luck.\n" in result.stdout


def test_a_script_that_fails_as_it_is(run: Run, script: Path, stage: Stage) -> None:
    stage.fails = "original"
    result = run("tune", "--batch", "train.py")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == "error: train.py: with the script's own batches it fails: RuntimeError: no luck\n"


ENDINGS = [
    (["missing.py"], "error: missing.py: no such file\n"),
    (["."], "is a folder; give a script"),
    (["-"], "a script on disk is needed"),
    ([], "Missing argument 'SCRIPT'"),
    (["train.py", "--epochs", "1"], "No such option"),
    (["train.py", "--time", "0"], "--time"),
    (["train.py", "--batch", "--diff"], "--batch changes nothing, so there is no --diff of it"),
    (["train.py", "--select", "AA999"], "AA999"),
]


@pytest.mark.parametrize(("arguments", "message"), ENDINGS, ids=lambda value: str(value)[:40])
def test_what_ends_before_anything_runs(
    run: Run, script: Path, stage: Stage, arguments: list[str], message: str
) -> None:
    result = run("tune", *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert message in result.stderr
    assert stage.asked == []


def test_a_script_that_fails(run: Run, script: Path, stage: Stage) -> None:
    script.write_text("import torch\ncrash(timid(1))\n")
    result = run("tune", "train.py", *BRAVE)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "NameError" in result.stderr


def test_a_rewrite_that_fails_when_it_is_timed(run: Run, script: Path, stage: Stage) -> None:
    stage.fails = "rewritten"
    result = run("tune", "train.py", *BRAVE)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "error: rewritten: " in result.stderr
    assert script.read_text() == GOOD
    assert not RECORD.exists()


def test_a_script_that_was_changed_meanwhile(
    run: Run, script: Path, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = procedure.bench

    def bench(*arguments: Any) -> Any:
        report = plain(*arguments)
        script.write_text("import torch\ny = 3\n")
        return report

    monkeypatch.setattr(procedure, "bench", bench)
    result = run("tune", "train.py", *BRAVE)
    assert result.exit_code == 2
    assert "train.py: left alone, it was changed while it was being verified" in result.stderr
    assert script.read_text() == "import torch\ny = 3\n"
    assert not RECORD.exists()


def test_a_copy_of_the_project_is_tuned_as_well(run: Run, script: Path, stage: Stage, folder: Path) -> None:
    script.write_text(BOTH)
    run("tune", "train.py")
    shutil.copytree(folder, folder / "copy", ignore=shutil.ignore_patterns("copy"))
    assert run("rewrite", "copy/train.py", "--check").exit_code == 0
