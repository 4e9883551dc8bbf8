"""The command as a whole: its options are frozen, it starts light, and unusual endings have their status."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from click.testing import Result

from autoaccel import __version__
from autoaccel.cli.main import COMMANDS, cli

Run = Callable[..., Result]

OPTIONS = {
    "rewrite": [
        "--bench", "--check", "--color", "--commits", "--config", "--diff", "--exclude", "--extend-exclude",
        "--extend-select", "--force-exclude", "--help", "--ignore", "--interactive", "--isolated", "--jobs",
        "--no-force-exclude", "--no-respect-gitignore", "--output", "--quiet", "--respect-gitignore", "--select",
        "--set", "--show-settings", "--stdin-filename", "--summary", "--tier", "--vendor", "--verbose", "--verified",
        "-h", "-i", "-j", "-o", "-q", "-v",
    ],
    "lint": [
        "--add-ignore", "--cache-dir", "--color", "--config", "--exclude", "--exit-zero", "--extend-exclude",
        "--extend-select", "--fail-on", "--force-exclude", "--help", "--ignore", "--isolated", "--jobs", "--no-cache",
        "--no-force-exclude", "--no-respect-gitignore", "--output-file", "--output-format", "--quiet",
        "--respect-gitignore", "--select", "--set", "--show-settings", "--statistics", "--stdin-filename", "--tier",
        "--verbose", "-h", "-j", "-q", "-v",
    ],
    "verify": [
        "--against", "--color", "--config", "--extend-select", "--help", "--ignore", "--isolated", "--json", "--python",
        "--quiet", "--ranks", "--scratch", "--seeds", "--select", "--set", "--shard", "--stderr", "--steps", "--tier",
        "--timeout", "--verbose", "-h", "-m", "-q", "-v",
    ],
    "run": [
        "--color", "--config", "--extend-select", "--help", "--ignore", "--isolated", "--quiet", "--select", "--set",
        "--tier", "--verbose", "-h", "-m", "-q", "-v",
    ],
    "bench": [
        "--ablate", "--color", "--config", "--extend-select", "--help", "--html", "--ignore", "--isolated", "--json",
        "--python", "--quiet", "--scratch", "--select", "--set", "--steps", "--tier", "--time", "--timeout",
        "--verbose", "-h", "-m", "-q", "-v",
    ],
    "distribute": [
        "--color", "--config", "--diff", "--help", "--isolated", "--quiet", "--shard", "--verbose", "-h", "-q", "-v",
    ],
    "undo": ["--color", "--help", "--list", "--quiet", "--verbose", "-h", "-q", "-v"],
    "tune": [
        "--batch", "--color", "--config", "--diff", "--extend-select", "--help", "--ignore", "--isolated", "--python",
        "--quiet", "--scratch", "--select", "--set", "--tier", "--time", "--timeout", "--verbose", "-h", "-m", "-q",
        "-v",
    ],
    "doctor": [
        "--color", "--data", "--help", "--json", "--python", "--quiet", "--root", "--verbose", "-h", "-q", "-v",
    ],
    "server": [
        "--color", "--config", "--extend-select", "--help", "--ignore", "--isolated", "--quiet", "--select", "--set",
        "--tier", "--verbose", "-h", "-q", "-v",
    ],
    "mcp": ["--allow-run", "--allow-write", "--help", "-h"],
    "rule": ["--help", "--output-format", "-h"],
    "rules": ["--help", "--output-format", "-h"],
    "env": ["--help", "--output-format", "-h"],
}  # fmt: skip


def test_options_are_frozen() -> None:
    """Scripts and CI jobs of users depend on these: a change here is a change of the public interface."""
    found = {}
    context = click.Context(cli, info_name="autoaccel")
    for name in COMMANDS:
        command = cli.get_command(context, name)
        assert command is not None
        inner = click.Context(command, parent=context, help_option_names=["-h", "--help"])
        parameters = [each for each in command.get_params(inner) if isinstance(each, click.Option)]
        found[name] = sorted(flag for each in parameters for flag in (*each.opts, *each.secondary_opts))
    assert found == OPTIONS


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["-h"],
        ["rewrite", "-h"],
        ["rule", "-h"],
        ["rules", "-h"],
        ["env", "-h"],
        ["doctor", "-h"],
        ["server", "-h"],
        ["mcp", "-h"],
    ],
)
def test_help(run: Run, arguments: list[str]) -> None:
    result = run(*arguments)
    assert (result.exit_code, result.stderr) == (0, "")
    assert "Usage: autoaccel" in result.stdout


def test_version(run: Run) -> None:
    result = run("--version")
    assert (result.exit_code, result.stdout) == (0, f"autoaccel {__version__}\n")


def test_unknown_command(run: Run) -> None:
    result = run("rewrit", "x.py")
    assert result.exit_code == 2
    assert "did you mean 'rewrite'?" in result.stderr
    assert result.stdout == ""


def python(code: str, *, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], cwd=cwd, capture_output=True, text=True, check=False)


HEAVY = ["libcst", "torch", "autoaccel.analysis", "autoaccel.rewriting.engine"]
TABLE = "fixtures/scripts/table.py"

IMPORTED = """
import sys
sys.argv = ["autoaccel", *{arguments!r}]
from autoaccel.cli.main import cli
try:
    cli.main()
finally:
    print([name for name in {heavy!r} if name in sys.modules])
"""


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        pytest.param(["--help"], [], id="help imports nothing of the tool's engine"),
        pytest.param(["rewrite", "--help"], [], id="nor does a command's help"),
        pytest.param(["server", "--help"], [], id="nor that of a server"),
        pytest.param(["rewrite", "--diff", TABLE], ["libcst", *HEAVY[2:]], id="rewriting imports no torch"),
    ],
)
def test_what_is_imported(repository: Path, arguments: list[str], expected: list[str]) -> None:
    done = python(IMPORTED.format(arguments=arguments, heavy=HEAVY), cwd=repository)
    assert done.stdout.splitlines()[-1] == str(expected), done.stderr


def test_an_unexpected_error_is_one_line(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails() -> None:
        raise RuntimeError("out of\nluck")

    monkeypatch.setattr("autoaccel.rewriting.registry.rules", fails)
    result = run("rules")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == "error: internal error: RuntimeError: out of\n"
    assert "(-v shows the traceback)" in run("rewrite", ".").stderr
    verbose = run("rewrite", "-v", ".")
    assert (verbose.exit_code, verbose.stdout) == (2, "")
    assert verbose.stderr.startswith("Traceback (most recent call last):\n")
    assert verbose.stderr.endswith("error: internal error: RuntimeError: out of\n")


def test_a_rule_pack_that_cannot_be_used(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    from autoaccel.rewriting import registry

    def fails() -> None:
        raise registry.PackError("rule pack 'mine' cannot be imported")

    monkeypatch.setattr(registry, "rules", fails)
    result = run("rules")
    assert (result.exit_code, result.stderr) == (2, "error: rule pack 'mine' cannot be imported\n")


INTERRUPTED = """
import runpy, sys

class Impatient:
    def find_spec(self, name, path=None, target=None):
        if name == "autoaccel.cli.main":
            raise KeyboardInterrupt

sys.meta_path.insert(0, Impatient())
runpy.run_module("autoaccel", run_name="__main__")
"""


def test_interrupted_while_it_starts(repository: Path) -> None:
    done = python(INTERRUPTED, cwd=repository)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_a_module_beside_the_script_is_not_the_tools(tmp_path: Path, repository: Path) -> None:
    (tmp_path / "train.py").write_text("import torch\n")
    (tmp_path / "click.py").write_text("raise SystemExit('not the library')\n")
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(repository), str(repository / "codemods")])}
    command = [sys.executable, "-m", "autoaccel", "lint", "train.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, env=environment)
    assert (done.returncode, done.stderr) == (0, "All clean: 1 file looked at.\n")
