"""The scaffolder writes a rule that works and passes the linter, or nothing."""

from __future__ import annotations

import re
import subprocess
import sys
import types
from pathlib import Path

import pytest

from autoaccel.rewriting import engine
from autoaccel.rewriting.rule import Rule
from tools import new_rule

MODULE = "codemods/autoaccel_codemods/fused_sgd.py"
EXAMPLE = "fixtures/fused-sgd/example.in.py"
NOOP = "fixtures/fused-sgd/noop_arguments_not_visible.py"


@pytest.fixture
def written(tmp_path: Path) -> Path:
    new_rule.main(["AA609", "fused-sgd", "--tier", "opt-in"], tmp_path)
    return tmp_path


@pytest.fixture
def rule(written: Path, monkeypatch: pytest.MonkeyPatch) -> Rule:
    module = types.ModuleType("autoaccel_codemods.fused_sgd")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec(compile((written / MODULE).read_text(encoding="utf-8"), MODULE, "exec"), module.__dict__)
    found = module.RULE
    assert isinstance(found, Rule)
    return found


def test_it_says_what_it_wrote_and_what_comes_next(capsys: pytest.CaptureFixture[str], written: Path) -> None:
    files = sorted(path.relative_to(written).as_posix() for path in written.rglob("*") if path.is_file())
    assert files == [MODULE, EXAMPLE, NOOP]
    said, errors = capsys.readouterr()
    assert said.splitlines()[:3] == files
    assert "-k fused-sgd" in said
    assert errors == ""


def test_what_it_says_comes_next_is_what_contributing_says(
    repository: Path, capsys: pytest.CaptureFixture[str], written: Path
) -> None:
    commands = re.findall(r"AUTOACCEL_UPDATE=1 .*", capsys.readouterr().out)
    contributing = (repository / "CONTRIBUTING.md").read_text(encoding="utf-8")
    assert len(commands) == 2
    assert [command for command in commands if command not in contributing] == []


def test_the_rule_works(written: Path, rule: Rule) -> None:
    assert (rule.code, rule.name, rule.tier.label) == ("AA609", "fused-sgd", "opt-in")
    before = (written / EXAMPLE).read_text(encoding="utf-8")
    assert engine.rewrite(before, None, [rule]).after == before.replace("lr=1e-3", "lr=1e-3, fused=True")


def test_the_rule_skips_what_it_does_not_see(written: Path, rule: Rule) -> None:
    text = (written / NOOP).read_text(encoding="utf-8")
    result = engine.rewrite(text, None, [rule])
    assert result.after == text
    assert [f"# skip: {record.message}" for record in result.skipped] == [text.splitlines()[0]]


def test_its_docstring_is_in_the_order_that_the_pages_need(rule: Rule) -> None:
    parts = ["what the rewrite does", "why that is faster", "Left alone:", "Before:", "After:"]
    places = [rule.explanation.index(part) for part in parts]
    assert places == sorted(places)


def test_the_linter_has_nothing_to_say(written: Path, repository: Path) -> None:
    for command in (["check"], ["format", "--check"]):
        options = ["--no-cache", "--config", str(repository / "pyproject.toml"), str(written / MODULE)]
        done = subprocess.run([sys.executable, "-m", "ruff", *command, *options], capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        pytest.param("AA201 fused-sgd --tier exact", "AA201 is taken: AA201 loader-workers", id="taken code"),
        pytest.param("AA609 prefetch --tier exact", "prefetch is taken: AA202 prefetch", id="taken name"),
        pytest.param("A602 fused-sgd --tier exact", "A602 is not a code", id="no code"),
        pytest.param("AA609 fused_sgd --tier exact", "fused_sgd is not in kebab case", id="underscore"),
        pytest.param("AA609 Fused --tier exact", "Fused is not in kebab case", id="capital"),
        pytest.param("AA609 ../fused --tier exact", "../fused is not in kebab case", id="path"),
        pytest.param("AA609 fused --tier safe", "safe is not a tier: exact, equivalent", id="unknown tier"),
        pytest.param("AA609 fused", "the following arguments are required: --tier", id="no tier"),
    ],
)
def test_bad_input_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: str, error: str) -> None:
    refused(arguments, tmp_path, capsys, error)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("path", [MODULE, EXAMPLE, NOOP, f"{MODULE.removesuffix('.py')}/__init__.py"])
def test_what_exists_is_not_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str], path: str) -> None:
    (tmp_path / path).parent.mkdir(parents=True)
    (tmp_path / path).write_text("mine", encoding="utf-8")
    exists = path.removesuffix("/__init__.py")
    refused("AA609 fused-sgd --tier exact", tmp_path, capsys, f"{exists} exists\n")
    assert [each.read_text(encoding="utf-8") for each in tmp_path.rglob("*") if each.is_file()] == ["mine"]


def refused(arguments: str, root: Path, capsys: pytest.CaptureFixture[str], error: str) -> None:
    with pytest.raises(SystemExit) as ended:
        new_rule.main(arguments.split(), root)
    said, errors = capsys.readouterr()
    assert (ended.value.code, said) == (2, "")
    assert errors.startswith(f"error: {error}")
    assert errors.count("\n") == 1
