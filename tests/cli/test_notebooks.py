"""Notebooks and percent scripts on the command line."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from click.testing import Result

Run = Callable[..., Result]


def notebook(*sources: str, **more: Any) -> bytes:
    """A notebook that begins with a text, so that the first code cell is the second of all."""
    listed: list[dict[str, Any]] = [{"cell_type": "markdown", "metadata": {}, "source": ["# T\n"]}]
    for source in sources:
        lines = source.splitlines(keepends=True)
        listed.append({"cell_type": "code", "execution_count": 1, "metadata": {}, "outputs": [], "source": lines})
    content = {"cells": listed, "metadata": {}, "nbformat": 4, "nbformat_minor": 5, **more}
    return (json.dumps(content, indent=1, ensure_ascii=False) + "\n").encode()


SLOW = notebook("%matplotlib inline\na = 1", "x = slow(1)  # größer\ny = slow(*x)", "!ls\nz = slow(2)")
FAST = SLOW.replace(b"slow(1)", b"fast(1)").replace(b"slow(2)", b"fast(2)")


@pytest.fixture
def slow(folder: Path) -> Path:
    path = folder / "n.ipynb"
    path.write_bytes(SLOW)
    return path


def test_rewrite_lint_and_undo(run: Run, folder: Path, slow: Path) -> None:
    result = run("lint", ".")
    assert result.exit_code == 1
    assert "no Python files" not in result.output
    result = run("rewrite", ".")
    assert result.exit_code == 0
    assert slow.read_bytes() == FAST
    assert "n.ipynb:cell 3:1:5: AA190 fast-call: slow() is fast() now [exact]" in result.stderr
    assert "n.ipynb:cell 3:2:5: AA190 fast-call: left alone: the arguments are not visible here" in result.stderr
    assert "n.ipynb:cell 4:2:5: AA190" in result.stderr
    assert run("rewrite", ".").stderr.startswith("n.ipynb:cell 3:2:5")
    assert run("lint", "n.ipynb").exit_code == 0
    [undo] = [line for line in result.stderr.splitlines() if line.startswith("Undo: ")]
    subprocess.run(undo.removeprefix("Undo: "), shell=True, check=True, cwd=folder)
    assert slow.read_bytes() == SLOW


def test_diff_is_by_cell(run: Run, slow: Path) -> None:
    result = run("rewrite", "--diff", "n.ipynb")
    assert result.exit_code == 1
    assert slow.read_bytes() == SLOW
    assert result.stdout == (
        "--- a/n.ipynb:cell 3\t\n+++ b/n.ipynb:cell 3\t\n@@ -1,2 +1,2 @@\n"
        "-x = slow(1)  # größer\n+x = fast(1)  # größer\n y = slow(*x)\n"
        "--- a/n.ipynb:cell 4\t\n+++ b/n.ipynb:cell 4\t\n@@ -1,2 +1,2 @@\n !ls\n-z = slow(2)\n+z = fast(2)\n"
    )


def test_stdin(run: Run) -> None:
    named = ("--stdin-filename", "n.ipynb", "-")
    assert run("rewrite", *named, input=SLOW).stdout_bytes == FAST
    assert "n.ipynb:cell 3:1:5" in run("lint", *named, input=SLOW).stdout
    broken = SLOW[:-9]
    result = run("rewrite", *named, input=broken)
    assert (result.exit_code, result.stdout_bytes) == (2, broken)


def test_output_is_a_notebook(run: Run, folder: Path, slow: Path) -> None:
    assert run("rewrite", slow, "-o", "other.ipynb").exit_code == 0
    assert (slow.read_bytes(), (folder / "other.ipynb").read_bytes()) == (SLOW, FAST)
    result = run("rewrite", slow, "-o", "other.py")
    assert result.exit_code == 2
    assert "a notebook stays one" in result.stderr


def test_interactive(run: Run, slow: Path) -> None:
    result = run("rewrite", "-i", slow.name, input="n\ny\n")
    assert slow.read_bytes() == SLOW.replace(b"slow(2)", b"fast(2)")
    assert "n.ipynb:cell 3:1: AA190" in result.stderr
    assert "--- a/n.ipynb:cell 4" in result.stderr


@pytest.mark.parametrize(
    "data", [b"", b'{"cells": [', b"[]", SLOW.replace(b'"n', b"n", 1), SLOW + b"}", b"\xff" + SLOW]
)
def test_bad_json_is_one_line(run: Run, folder: Path, slow: Path, data: bytes) -> None:
    bad = folder / "bad.ipynb"
    bad.write_bytes(data)
    for command in ("lint", "rewrite", "rewrite --diff", "lint --add-ignore"):
        result = run(*command.split(), "bad.ipynb")
        assert result.exit_code == 2
        [line] = [line for line in result.stderr.splitlines() if "rror" in line]
        assert line.startswith("error: bad.ipynb:")
        assert ": not a notebook: " in line
    assert bad.read_bytes() == data
    assert run("rewrite", ".").exit_code == 2
    assert slow.read_bytes() == FAST


def test_what_is_left_out_is_said(run: Run, folder: Path) -> None:
    path = folder / "n.ipynb"
    path.write_bytes(notebook("x = slow(1)", "pip install torch", "y = ("))
    for command in ("lint", "rewrite"):
        result = run(command, "n.ipynb")
        assert "warning: n.ipynb:cell 3:1: left out, cannot parse: invalid syntax" in result.stderr
        assert "warning: n.ipynb:cell 4:1: left out, cannot parse" in result.stderr
    assert b"fast(1)" in path.read_bytes()


@pytest.mark.parametrize("code", ["%run setup.py", "import os\nos._exit(0)", "later = also"])
def test_what_is_left_alone_is_said(run: Run, folder: Path, code: str) -> None:
    path = folder / "n.ipynb"
    data = notebook("x = slow(1)", code, "also = 1")
    path.write_bytes(data)
    for command in ("lint", "rewrite", "rewrite --diff"):
        result = run(*command.split(), "n.ipynb")
        assert result.exit_code == 0
        assert "warning: n.ipynb:cell 3:" in result.stderr
        assert "the notebook is left alone" in result.stderr
        assert result.stdout == ""
    assert path.read_bytes() == data


def test_indented_comments_at_the_end(run: Run, folder: Path) -> None:
    path = folder / "n.ipynb"
    data = notebook("x = slow(1)\nif x:\n    pass", "        # y = 2\n        # z = 3")
    path.write_bytes(data)
    assert run("rewrite", path).exit_code == 0
    assert path.read_bytes() == data.replace(b"slow", b"fast")


def test_suppression(run: Run, folder: Path) -> None:
    cell = "x = slow(1)  # autoaccel: ignore[AA190]\n# autoaccel: off\ny = slow(2)\n# autoaccel: on\nz = slow(3)"
    (folder / "n.ipynb").write_bytes(notebook(cell))
    result = run("lint", "--output-format", "concise", "n.ipynb")
    assert result.stdout == "n.ipynb:cell 2:5:5: AA190 fast-call: slow() is fast() now [exact]\n"
    (folder / "n.ipynb").write_bytes(notebook("# autoaccel: file-ignore[AA190]", "z = slow(3)"))
    assert run("lint", "n.ipynb").exit_code == 0


def test_add_ignore(run: Run, slow: Path) -> None:
    assert run("lint", "--add-ignore", "n.ipynb").exit_code == 0
    assert slow.read_bytes().count(b"# autoaccel: ignore[AA190]") == 2
    assert run("lint", "n.ipynb").exit_code == 0
    text = slow.read_bytes().replace(b"  # autoaccel: ignore[AA190]", b"").decode()
    assert text.encode() == SLOW


class TestFormats:
    """Cell and line where a format has a place for them, else in the message; places are those of the file itself."""

    def report(self, run: Run, name: str) -> str:
        result = run("lint", "--output-format", name, "n.ipynb")
        assert result.exit_code == 1
        return result.stdout

    def test_full(self, run: Run, slow: Path) -> None:
        assert "n.ipynb:cell 4:2:5:" in self.report(run, "full")
        assert "2 | z = slow(2)\n  |     ^^^^^^^" in self.report(run, "full")

    def test_json(self, run: Run, slow: Path) -> None:
        found = json.loads(self.report(run, "json"))
        assert [(each["cell"], each["location"]) for each in found] == [
            (3, {"row": 1, "column": 5}),
            (4, {"row": 2, "column": 5}),
        ]
        assert [each["fix"] for each in found] == [None, None]

    def test_lines_of_the_file(self, run: Run, slow: Path) -> None:
        rows = [
            number for number, line in enumerate(SLOW.decode().split("\n"), 1) if " = slow(" in line and "*" not in line
        ]
        sarif = json.loads(self.report(run, "sarif"))["runs"][0]["results"]
        assert [each["locations"][0]["physicalLocation"]["region"]["startLine"] for each in sarif] == rows
        assert sarif[1]["locations"][0]["logicalLocations"][0]["fullyQualifiedName"] == "cell 4:2"
        assert sarif[1]["message"]["text"].startswith("cell 4, line 2: ")
        gitlab = json.loads(self.report(run, "gitlab"))
        assert [each["location"]["lines"]["begin"] for each in gitlab] == rows
        assert len({each["fingerprint"] for each in gitlab}) == 2
        rdjson = json.loads(self.report(run, "rdjson"))["diagnostics"]
        assert [each["location"]["range"]["start"]["line"] for each in rdjson] == rows
        github = self.report(run, "github").splitlines()
        assert [f",line={row},col=1," in line for row, line in zip(rows, github, strict=True)] == [True, True]
        assert "n.ipynb:cell 4:2:5: AA190" in github[1]

    def test_junit(self, run: Run, slow: Path) -> None:
        texts = [each.text or "" for each in ElementTree.fromstring(self.report(run, "junit")).iter("failure")]
        assert ["n.ipynb:cell 4:2:5: AA190" in each for each in texts] == [False, True]


@pytest.mark.parametrize("command", ["run", "verify", "bench", "distribute", "rewrite --verified"])
def test_what_runs_scripts_refuses(run: Run, slow: Path, command: str) -> None:
    result = run(*command.split(), "n.ipynb")
    assert result.exit_code == 2
    assert "n.ipynb: a notebook is not run here, only rewritten and linted; give a script" in result.stderr
    assert slow.read_bytes() == SLOW


def test_answers_are_kept(run: Run, slow: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AUTOACCEL_NO_CACHE")
    first, second = (run("lint", "n.ipynb") for _ in range(2))
    assert (first.exit_code, first.output) == (second.exit_code, second.output)


PERCENT = "# %%\n!pip install it's\n%matplotlib inline\n\n# %% [markdown]\n# x\n# %%\nx = slow(1)\nif x:\n    !ls\n"


def test_percent_scripts(run: Run, folder: Path) -> None:
    path = folder / "train.py"
    path.write_text(PERCENT)
    result = run("rewrite", "--diff", "train.py")
    assert result.exit_code == 1
    assert "-x = slow(1)\n+x = fast(1)\n" in result.stdout
    assert " if x:\n     !ls\n" in result.stdout
    assert "train.py:8:5: AA190" in result.stderr
    assert run("rewrite", "train.py").exit_code == 0
    assert path.read_text() == PERCENT.replace("slow", "fast")
    path.write_text(PERCENT.replace("!ls", "%run x.py"))
    result = run("rewrite", "train.py")
    assert "warning: train.py:10: `%run` may bind or delete any name; the script is left alone" in result.stderr
    assert "slow" in path.read_text()
