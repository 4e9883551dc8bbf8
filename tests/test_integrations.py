"""What other programs read of this repository: hooks of pre-commit, the action of GitHub."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest
import yaml  # type: ignore[import-untyped]

from autoaccel.cli.main import COMMANDS, Commands, cli


def load(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", ["autoaccel-lint", "autoaccel-rewrite"])
def test_hook(repository: Path, name: str) -> None:
    [hook] = [each for each in load(repository / ".pre-commit-hooks.yaml") if each["id"] == name]
    assert (hook["language"], hook["types_or"]) == ("python", ["python", "jupyter"])
    # Several processes would write into one folder, and see half of a project each.
    assert hook["require_serial"] is True
    words: list[str] = [*hook["entry"].split(), *hook["args"], "train.py"]
    program, command, *options = words
    project = tomllib.loads((repository / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert program in project["scripts"]
    assert f"autoaccel-{command}" == name
    assert command in COMMANDS
    assert isinstance(cli, Commands)
    found = cli.get_command(click.Context(cli), command)
    assert found is not None
    context = found.make_context(command, options)
    # pre-commit names files that the project excludes.
    assert context.params["force_exclude"] is True


def test_there_are_no_other_hooks(repository: Path) -> None:
    assert len(load(repository / ".pre-commit-hooks.yaml")) == 2


@pytest.fixture
def action(repository: Path) -> Any:
    return load(repository / "action.yml")


def test_action(action: Any) -> None:
    assert action["runs"]["using"] == "composite"
    for step in action["runs"]["steps"]:
        assert step["shell"] == "bash"
        # Inputs reach the shell as variables: text that was put into the program would be run.
        assert "${{" not in step["run"]
    text = str(action["runs"])
    for name, given in action["inputs"].items():
        assert given["description"]
        assert f"inputs.{name} " in text


def run_lint(
    action: Any, repository: Path, folder: Path, environment: dict[str, str]
) -> subprocess.CompletedProcess[str]:
    """The step that lints, as a runner carries it out; the tool is the one under test."""
    step = action["runs"]["steps"][1]
    defaults = {
        "PATHS": action["inputs"]["paths"]["default"],
        "ARGUMENTS": action["inputs"]["args"]["default"],
        "FORMAT": action["inputs"]["output-format"]["default"],
        "OUTPUT": action["inputs"]["output-file"]["default"],
        "PYTHONPATH": os.pathsep.join([str(repository), str(repository / "codemods")]),
    }
    assert set(step["env"]) == set(defaults)
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    return run_step(step, folder, {"PATH": path, **defaults, **environment})


def run_step(step: Any, folder: Path, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
        cwd=folder,
        env={"GITHUB_ACTIONS": "true", "GITHUB_WORKSPACE": str(folder), **environment},
        capture_output=True,
        text=True,
        check=False,
    )


# Knows the comments of one pull request: files in a folder. `--jq` is left to jq, of which it does what is asked here.
GH = """#!{python}
import json, os, pathlib, sys
words = [word for word in sys.argv[1:] if word not in ("api", "--paginate", "--silent")]
comments = pathlib.Path("comments")
if "--jq" in words:
    mark = words[words.index("--jq") + 1].split('"')[1]
    assert words[0] == "repos/me/net/issues/7/comments", words
    for each in sorted(comments.iterdir()):
        if each.read_text().startswith(mark):
            print(each.name)
    sys.exit()
method, where, field = words[words.index("--method") + 1], words[2], words[words.index("--field") + 1]
text = pathlib.Path(field.removeprefix("body=@")).read_text()
if method == "POST":
    assert where == "repos/me/net/issues/7/comments", where
    (comments / str(100 + len(list(comments.iterdir())))).write_text(text)
else:
    place = comments / where.removeprefix("repos/me/net/issues/comments/")
    assert place.exists()
    place.write_text(text)
"""


@pytest.mark.skipif(os.name != "posix", reason="runs the step with bash")
class TestComment:
    @pytest.fixture
    def comment(self, action: Any, tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
        (tmp_path / "bin").mkdir()
        (tmp_path / "bin" / "gh").write_text(GH.format(python=sys.executable))
        (tmp_path / "bin" / "gh").chmod(0o755)
        (tmp_path / "comments").mkdir()
        (tmp_path / "comments" / "3").write_text("somebody's <!-- autoaccel -->")

        def run(text: str, **environment: str) -> subprocess.CompletedProcess[str]:
            (tmp_path / "-pr.md").write_text(text)
            step = action["runs"]["steps"][2]
            given = {"COMMENT": "-pr.md", "NUMBER": "7", "REPOSITORY": "me/net", "GH_TOKEN": "x"}
            assert set(step["env"]) == set(given)
            path = os.pathsep.join([str(tmp_path / "bin"), os.environ["PATH"]])
            return run_step(step, tmp_path, {"PATH": path, **given, **environment})

        return run

    def test_one_comment_is_kept_up_to_date(
        self, comment: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
    ) -> None:
        for text in ("# first\n", "# second\n"):
            result = comment(text)
            assert result.returncode == 0, result.stderr
            assert (tmp_path / "comments" / "101").read_text() == f"<!-- autoaccel -->\n{text}"
        assert len(list((tmp_path / "comments").iterdir())) == 2

    def test_without_a_pull_request(self, comment: Callable[..., subprocess.CompletedProcess[str]]) -> None:
        result = comment("text", NUMBER="")
        assert (result.returncode, result.stdout.startswith("::notice::")) == (0, True)

    def test_without_the_file(self, comment: Callable[..., subprocess.CompletedProcess[str]]) -> None:
        result = comment("text", COMMENT="missing.md")
        assert (result.returncode, result.stdout.startswith("::error::")) == (2, True)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "src dir").mkdir()
    (tmp_path / "src dir" / "train.py").write_text(
        'import torch\ndevice = torch.device("cuda")\nmask = torch.zeros(3).to(device)\n', encoding="utf-8"
    )
    # A module of the project that is named as one of ours.
    (tmp_path / "click.py").write_text("raise SystemExit(99)\n", encoding="utf-8")
    return tmp_path


@pytest.mark.skipif(os.name != "posix", reason="runs the step with bash")
class TestStep:
    def test_findings_annotate_and_fail(self, action: Any, repository: Path, project: Path) -> None:
        result = run_lint(action, repository, project, {})
        assert result.returncode == 1, result.stderr
        [line] = [line for line in result.stdout.splitlines() if line.startswith("::")]
        assert "file=src dir/train.py" in line
        assert "line=3" in line

    def test_arguments_are_words_of_a_shell(self, action: Any, repository: Path, project: Path) -> None:
        environment = {"ARGUMENTS": "--select 'AA101,AA103' --exit-zero", "PATHS": "src dir\nclick.py\n"}
        result = run_lint(action, repository, project, environment)
        assert (result.returncode, "AA101" in result.stdout) == (0, True), result.stderr

    def test_report_in_a_file(self, action: Any, repository: Path, project: Path) -> None:
        result = run_lint(action, repository, project, {"FORMAT": "json", "OUTPUT": "out put.json"})
        assert result.returncode == 1, result.stderr
        assert '"AA101"' in (project / "out put.json").read_text(encoding="utf-8")

    @pytest.mark.parametrize("environment", [{"PATHS": "missing"}, {"PATHS": ""}, {"ARGUMENTS": "--no-such"}])
    def test_what_cannot_be_done(
        self, action: Any, repository: Path, project: Path, environment: dict[str, str]
    ) -> None:
        assert run_lint(action, repository, project, environment).returncode == 2

    def test_unbalanced_quotes(self, action: Any, repository: Path, project: Path) -> None:
        assert run_lint(action, repository, project, {"ARGUMENTS": "--select 'AA1"}).returncode == 2
