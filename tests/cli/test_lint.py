"""`autoaccel lint`: what it says on both streams, and where its report goes."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import IO
from xml.etree import ElementTree

import pytest
from click.testing import Result

from autoaccel.cli import reporting
from autoaccel.config.settings import OUTPUT_FORMATS
from autoaccel.edits import Tier
from autoaccel.reports.formats import DEFAULT
from autoaccel.rewriting import registry
from tests.cli import conftest

Run = Callable[..., Result]

SLOW = "import torch\n\n\nx = slow(1)  # kept\n"
CLEAN = "import torch\nx = 1\n"
DECLINED = "import torch\nx = slow(*y)\n"
BROKEN = "import torch\nx = slow(1\n"
FULL = """\
train.py:4:5: AA190 fast-call: slow() is fast() now [exact]
  |
4 | x = slow(1)  # kept
  |     ^^^^^^^
  = fix: `slow(1)` -> `fast(1)`
"""
SUMMARY = "Found 1 finding in 1 file (1 exact). Run `autoaccel rewrite` to apply it.\n"


@pytest.fixture
def train(folder: Path) -> Path:
    path = folder / "train.py"
    path.write_text(SLOW)
    return path


def test_full_is_the_default(run: Run, train: Path) -> None:
    result = run("lint", "train.py")
    assert DEFAULT == "full"
    assert (result.exit_code, result.stdout, result.stderr) == (1, FULL, SUMMARY)
    assert train.read_text() == SLOW


def test_concise(run: Run, train: Path) -> None:
    result = run("lint", "--output-format", "concise", "train.py")
    assert result.stdout == "train.py:4:5: AA190 fast-call: slow() is fast() now [exact]\n"


@pytest.mark.parametrize("name", OUTPUT_FORMATS)
def test_every_format_from_stdin(run: Run, name: str) -> None:
    result = run("lint", "--output-format", name, "--stdin-filename", "new/train.py", "-", input=SLOW)
    assert result.exit_code == 1
    assert "new/train.py" in result.stdout
    assert "AA190" in result.stdout
    assert result.stderr == SUMMARY


def test_summary_counts_what_there_is(run: Run, folder: Path) -> None:
    (folder / "a.py").write_text(SLOW + "y = slow(2)\n")
    (folder / "b.py").write_text(SLOW + "y = slow(2)  # autoaccel: ignore[AA190]\n")
    (folder / "c.py").write_text(CLEAN)
    (folder / "d.py").write_text(DECLINED)
    assert run("lint", "-q", ".").stderr == ""
    assert run("lint", ".").stderr == (
        "Found 3 findings in 2 files (3 exact). Run `autoaccel rewrite` to apply them.\n"
        "1 finding suppressed by comments.\n"
    )
    assert run("lint", "c.py", "d.py").stderr == "All clean: 2 files looked at.\n"


def test_verbose_says_what_was_left_alone(run: Run, folder: Path) -> None:
    (folder / "declined.py").write_text(DECLINED)
    result = run("lint", "-v", "declined.py")
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == (
        "declined.py:2:5: AA190 fast-call: left alone: the arguments are not visible here\n"
        "All clean: 1 file looked at.\n"
        "1 opportunity left alone, for the reasons above.\n"
    )


def test_findings_are_sorted(run: Run, folder: Path) -> None:
    (folder / "b.py").write_text("import torch\ny = timid(1), slow(1)\nslow(2)\n")
    (folder / "a.py").write_text(SLOW)
    result = run("lint", "--extend-select", "AA690", "--output-format", "concise", "b.py", "a.py")
    assert [line.split(" ")[:2] for line in result.stdout.splitlines()] == [
        ["a.py:4:5:", "AA190"],
        ["b.py:2:5:", "AA690"],
        ["b.py:2:15:", "AA190"],
        ["b.py:3:1:", "AA190"],
    ]


# -- what could not be done


@pytest.mark.parametrize("name", OUTPUT_FORMATS)
def test_failures_are_always_on_stderr(run: Run, folder: Path, name: str) -> None:
    (folder / "broken.py").write_text(BROKEN)
    (folder / "train.py").write_text(SLOW)
    result = run("lint", "-q", "--output-format", name, "broken.py", "train.py", "none.py")
    assert result.exit_code == 2
    assert "error: none.py: no such file or folder" in result.stderr
    assert "error: broken.py:2: cannot parse: " in result.stderr
    assert "AA190" in result.stdout
    has_place = name not in ("full", "concise")
    assert ("invalid-syntax" in result.stdout) == has_place
    assert ("none.py" in result.stdout) == (name in ("github", "sarif", "junit"))


def test_undecodable_stdin_is_reported_as_files_are(run: Run) -> None:
    result = run("lint", "--output-format", "json", "-", input="torch = 'é'".encode("latin-1"))
    assert result.exit_code == 2
    (item,) = json.loads(result.stdout)
    assert (item["code"], item["filename"]) == ("unreadable", "<stdin>")
    assert "cannot decode" in item["message"]


# -- paths


def test_names_are_relative_to_the_repository(run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GITHUB_WORKSPACE", raising=False)
    (folder / ".git").mkdir()
    (folder / "sub").mkdir()
    (folder / "sub/train.py").write_text(SLOW)
    monkeypatch.chdir(folder / "sub")

    def names() -> list[str]:
        github = run("lint", "--output-format", "github", "train.py").stdout.split("file=")[1].split(",")[0]
        gitlab = json.loads(run("lint", "--output-format", "gitlab", "train.py").stdout)[0]["location"]["path"]
        junit = ElementTree.fromstring(run("lint", "--output-format", "junit", "train.py").stdout).find(".//testcase")
        assert junit is not None
        return [github, gitlab, str(junit.get("name"))]

    assert names() == ["sub/train.py"] * 3
    monkeypatch.setenv("GITHUB_WORKSPACE", str(folder.parent))
    assert names() == [f"{folder.name}/sub/train.py"] * 3
    monkeypatch.setenv("GITHUB_WORKSPACE", "/somewhere/else")
    assert names() == ["sub/train.py"] * 3
    assert run("lint", "--output-format", "concise", "train.py").stdout.startswith("train.py:4:5:")


def test_json_speaks_of_full_names(run: Run, train: Path) -> None:
    (item,) = json.loads(run("lint", "--output-format", "json", "train.py").stdout)
    assert item["filename"] == str(train)
    assert item["fix"]["edits"] == [
        {
            "content": "x = fast(1)  # kept\n",
            "location": {"row": 4, "column": 1},
            "end_location": {"row": 5, "column": 1},
        }
    ]


# -- to a file


@pytest.mark.parametrize("name", OUTPUT_FORMATS)
def test_output_file(run: Run, train: Path, folder: Path, name: str) -> None:
    """The same bytes as on stdout, without colour, in a folder that is made."""
    expected = run("lint", "--output-format", name, "train.py").stdout_bytes
    result = run("lint", "--output-format", name, "--color", "always", "--output-file", "reports/of/lint", "train.py")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "Found 1 finding" in result.stderr
    assert (folder / "reports/of/lint").read_bytes() == expected


def test_output_file_is_written_when_there_is_nothing_to_say(run: Run, folder: Path) -> None:
    (folder / "clean.py").write_text(CLEAN)
    (folder / "out.txt").write_text("of an earlier run\n")
    assert run("lint", "--output-file", "out.txt", "clean.py").exit_code == 0
    assert (folder / "out.txt").read_text() == ""


def test_output_file_that_cannot_be_written(run: Run, train: Path, folder: Path) -> None:
    (folder / "taken").write_text("a file\n")
    (folder / "dir").mkdir()
    for target in ("taken/report.txt", "dir", "long" * 100):
        result = run("lint", "--output-file", target, "train.py")
        assert result.exit_code == 2
        assert f"error: {target}: cannot write: " in result.stderr
        assert result.stdout == FULL, "nothing is lost"
    assert (folder / "taken").read_text() == "a file\n"


def test_output_file_is_no_script(run: Run, train: Path, folder: Path) -> None:
    (folder / "link.py").symlink_to("train.py")
    for target in ("train.py", "./train.py", "link.py"):
        result = run("lint", "--output-file", target, "train.py")
        assert (result.exit_code, result.stdout) == (2, "")
        assert f"--output-file {Path(target)} would replace a script" in " ".join(result.stderr.split())
    assert train.read_text() == SLOW


@pytest.mark.skipif(not Path("/dev/stderr").exists(), reason="no such devices here")
def test_output_file_may_be_a_device(train: Path) -> None:
    done = _process(["--output-file", "/dev/stderr", "-q", "train.py"], train.parent)
    assert (done.returncode, done.stdout, done.stderr.decode()) == (1, b"", FULL)


@pytest.mark.skipif(not Path("/dev/stdout").exists(), reason="no such devices here")
def test_output_file_may_be_where_stdout_leads(train: Path, folder: Path) -> None:
    """A log that others write, too, is neither replaced nor overwritten."""
    log = folder / "log"
    with log.open("wb", buffering=0) as stdout:
        stdout.write(b"before\n")
        for name in ("/dev/stdout", "log"):
            assert _process(["--output-file", name, "train.py"], train.parent, stdout=stdout.fileno()).returncode == 1
        stdout.write(b"after\n")
    assert log.read_text() == f"before\n{FULL * 2}after\n"


def test_a_named_file_is_found_unreadable_by_reading_it(run: Run, train: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not before: the other files are still looked at."""
    monkeypatch.setattr(os, "access", lambda *_, **__: False)
    assert run("lint", "train.py").exit_code == 1


@pytest.mark.parametrize("command", ["lint", "rewrite"])
def test_a_name_that_is_too_long_is_one_failure(run: Run, train: Path, command: str) -> None:
    result = run(command, "long" * 100, "train.py")
    assert result.exit_code == 2
    assert f"error: {'long' * 100}: cannot read: file name too long\n" in result.stderr
    assert (result.stdout == FULL) == (command == "lint"), "the other file is looked at"
    assert (train.read_text() == SLOW) == (command == "lint")


def test_a_long_setting_is_no_name(run: Run, train: Path) -> None:
    assert run("lint", "--config", f"select = {['AA190'] * 50}", "train.py").stdout == FULL


def test_the_repository_is_not_looked_for_where_nobody_may_look() -> None:
    forbidden = Path("/", "long" * 100)
    assert reporting._root(forbidden) == forbidden


# -- statistics


def test_statistics(run: Run, folder: Path) -> None:
    (folder / "a.py").write_text(SLOW + "timid(1)\n" + "slow(2)\n" * 10)
    result = run("lint", "--extend-select", "AA690", "--statistics", ".")
    assert result.exit_code == 1
    assert result.stdout == "11  AA190  fast-call   11 exact\n 1  AA690  brave-call  1 opt-in\n"
    numbers = json.loads(run("lint", "--statistics", "--output-format", "json", ".").stdout)
    assert numbers == [
        {
            "code": "AA190",
            "count": 11,
            "fixable": True,
            "fixable_count": 11,
            "name": "fast-call",
            "tiers": {"exact": 11},
        }
    ]


def test_statistics_of_nothing(run: Run, folder: Path) -> None:
    (folder / "clean.py").write_text(CLEAN)
    assert run("lint", "--statistics", ".").stdout == ""
    assert json.loads(run("lint", "--statistics", "--output-format", "json", ".").stdout) == []


@pytest.mark.parametrize("name", [name for name in OUTPUT_FORMATS if name not in ("full", "concise", "json")])
def test_statistics_in_a_format_that_has_none(run: Run, train: Path, name: str) -> None:
    result = run("lint", "--statistics", "--output-format", name, "train.py")
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"--statistics has no {name} format; concise, full, json do" in result.stderr


# -- odd names, odd terminals


def _process(
    arguments: list[str], cwd: Path, *, stdout: IO[bytes] | int = subprocess.PIPE, **environment: str
) -> subprocess.CompletedProcess[bytes]:
    """A real process with the real rules: click's runner has streams of its own."""
    root = Path(__file__).parent.parent.parent
    path = os.pathsep.join([str(root), str(root / "codemods")])
    program = (
        "import sys; from tests.cli import conftest; from autoaccel.rewriting import registry; "
        "registry.rules = lambda: (conftest.FAST, conftest.BRAVE); from autoaccel.cli.main import main; main()"
    )
    return subprocess.run(
        [sys.executable, "-c", program, "lint", *arguments],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": path, **environment},
        stdout=stdout,
        stderr=subprocess.PIPE,
        check=False,
    )


@pytest.mark.skipif(sys.platform != "linux", reason="other systems refuse such names")
@pytest.mark.parametrize("name", OUTPUT_FORMATS)
def test_names_that_are_no_text(folder: Path, name: str) -> None:
    raw = b"caf\xe9\nau lait.py"
    (folder / os.fsdecode(raw)).write_text(SLOW + "y = '\N{SNOWMAN}', slow(2)\n")
    done = _process(["--output-format", name, "."], folder, PYTHONIOENCODING="latin-1:strict")
    assert done.returncode == 1, done.stderr
    if name in ("full", "concise"):
        assert b"caf\xe9\\nau lait.py:4:5: AA190" in done.stdout
        assert b"\\u2603" in done.stdout or name == "concise"
    else:
        text = done.stdout.decode("utf-8")
        assert "slow() is fast() now" in text
    if name == "json":
        assert os.fsencode(json.loads(done.stdout)[0]["filename"]) == os.fsencode(folder) + b"/" + raw


def test_colour(run: Run, train: Path) -> None:
    coloured = run("lint", "--color", "always", "train.py")
    assert "\x1b[" in coloured.stdout
    assert "\x1b[" in coloured.stderr
    for name in set(OUTPUT_FORMATS) - {"full", "concise"}:
        assert "\x1b[" not in run("lint", "--color", "always", "--output-format", name, "train.py").stdout


def test_reader_that_leaves(train: Path) -> None:
    """`autoaccel lint | head`: there is nobody to tell anything."""
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as stream:
        done = _process(["-q", "train.py"], train.parent, stdout=stream)
    assert (done.returncode, done.stderr) == (141, b"")


DEEP = f"import torch\nx = slow(1)\ny = {'-' * 20_000}1\n"


@pytest.mark.parametrize("command", ["lint", "rewrite"])
@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param(
            "import torch\ntype X = slow(1)\n", "train.py:2: needs autoaccel under Python 3.12 or newer", id="3.12"
        ),
        pytest.param(
            "def f[T](x):\n    slow(x)\n", "train.py:1: needs autoaccel under Python 3.12 or newer", id="types"
        ),
        pytest.param('slow(f"{d["a"]}")\n', "train.py:1: needs autoaccel under Python 3.12 or newer", id="f-string"),
        pytest.param("slow(t'{x}')\n", "train.py:1: needs autoaccel under Python 3.14 or newer", id="3.14"),
        pytest.param("print 'slow(1)'\n", "train.py:1: cannot parse: Missing parentheses", id="2.7"),
        pytest.param("slow(b'é')\n", "train.py:1: cannot parse: bytes can only contain ASCII", id="no Python"),
        pytest.param(f"slow({'(' * 3000}", "train.py:1: cannot parse: too many nested parentheses", id="parentheses"),
        pytest.param(DEEP, "train.py: left alone, it is nested too deeply to be analysed", id="deep"),
    ],
)
def test_what_cannot_be_read_is_said_clearly(run: Run, folder: Path, command: str, text: str, said: str) -> None:
    version = re.search(r"Python 3\.(\d+)", said)
    if version and sys.version_info >= (3, int(version[1])):
        pytest.skip("this Python reads it")
    (folder / "train.py").write_text(text)
    result = run(command, "train.py")
    assert result.exit_code == 2
    assert f"error: {said}" in result.stderr
    assert "internal error" not in result.output and "RecursionError" not in result.output
    assert len([line for line in result.stderr.splitlines() if line.startswith("error: ")]) == 1


def test_nesting_that_is_too_deep_is_no_internal_error(run: Run, folder: Path) -> None:
    (folder / "train.py").write_text(DEEP)
    (found,) = json.loads(run("lint", "--output-format", "json", "train.py").stdout)
    assert found["code"] == "too-deep"


@pytest.mark.parametrize("nesting", ["-" * 900 + "1", "a" + ".b()" * 400, "lambda: " * 900 + "1"])
def test_what_is_deep_is_rewritten_all_the_same(run: Run, folder: Path, nesting: str) -> None:
    (folder / "train.py").write_text(f"import torch\nx = slow(1)\ny = {nesting}\n")
    assert run("rewrite", "train.py").exit_code == 0
    assert "fast(1)" in (folder / "train.py").read_text()


def test_a_file_that_is_named_is_parsed(run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where no rule has anything to say about it; also when that was known before."""
    monkeypatch.delenv("AUTOACCEL_NO_CACHE")
    (folder / "off.py").write_text("x = (\n")
    (folder / "on.py").write_text("x = 1\n")
    for _ in range(2):
        assert run("lint", ".").exit_code == 0, "files of a folder are looked through"
        result = run("lint", "off.py", "on.py")
        assert (result.exit_code, "clean" in result.stderr) == (2, False)
        assert "error: off.py:1: cannot parse: '(' was never closed" in result.stderr
        assert run("lint", "on.py").exit_code == 0
    assert run("lint", "-", input="x = (\n").exit_code == 2


@pytest.mark.parametrize(
    ("tier", "option", "status"),
    [
        ("EXACT", "exact", 1),
        ("EQUIVALENT", "exact", 0),
        ("EQUIVALENT", "equivalent", 1),
        ("NUMERICS", "equivalent", 0),
        ("NUMERICS", "numerics", 1),
        ("OPT_IN", "numerics", 0),
    ],
)
def test_fail_on(run: Run, train: Path, monkeypatch: pytest.MonkeyPatch, tier: str, option: str, status: int) -> None:
    rule = dataclasses.replace(conftest.FAST, tier=Tier[tier])
    monkeypatch.setattr(registry, "rules", lambda: (rule,))
    monkeypatch.setattr(conftest, "FAST", rule)
    assert run("lint", "--select", "AA190", "train.py").exit_code == 1
    result = run("lint", "--select", "AA190", "--fail-on", option, "train.py")
    assert (result.exit_code, "AA190" in result.stdout) == (status, True)
    assert run("lint", "--fail-on", option, "--exit-zero", "train.py").exit_code == 2
