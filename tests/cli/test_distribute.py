"""`autoaccel distribute`: how it ends, what it writes, and which files it looks at. The rule is a sample."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import Result

from autoaccel.analysis import Script
from autoaccel.edits import Code, Finding, Replace, Skipped, Tier
from autoaccel.rewriting import registry
from autoaccel.rewriting.rule import Rule
from tests.cli.conftest import FAST

Run = Callable[..., Result]

SHARE = Rule("AA890", "share-call", Tier.EQUIVALENT, (b"alone(",), on_request=True, command="distribute")


@SHARE.check
def _share(script: Script) -> Iterator[Finding | Skipped]:
    """`alone(x)` becomes `shared(x)`; without an argument it is declined."""
    for call in script.find(ast.Call):
        if isinstance(call.func, ast.Name) and call.func.id == "alone":
            if call.args:
                yield SHARE.finding(call, "it trains alone", Replace(call.func, Code("shared")))
            else:
                yield SHARE.skip(call, "it has no model")


FILES = {
    "plain.py": b"x = alone(1)\ny = slow(2)\n",
    "declined.py": b"x = alone()\n",
    "unconcerned.py": b"x = 1\n",
    "done.py": b"from autoaccel import runtime as accel\naccel.distribute(model)\n",
    "broken.py": b"x = alone(1\n",
    "of_two.py": b"import helper\nx = alone(1)\n",
    "helper.py": b"def save():\n    alone(2)\n",
    "pyproject.toml": b'[tool.autoaccel]\nselect = ["AA1"]\ntier = "exact"\n',
    "notes/todo.txt": b"",
}
SHARED = {"plain.py": b"x = shared(1)\ny = slow(2)\n", "of_two.py": b"import helper\nx = shared(1)\n"}

MATRIX = """
                   | distribute | distribute --diff | distribute --shard
plain.py           | 0 nothing  | 1 patch           | 2 nothing
declined.py        | 2 nothing  | 2 nothing         | 2 nothing
unconcerned.py     | 2 nothing  | 2 nothing         | 2 nothing
done.py            | 0 nothing  | 0 nothing         | 2 nothing
broken.py          | 2 nothing  | 2 nothing         | 2 nothing
of_two.py          | 0 nothing  | 1 patch           | 2 nothing
missing.py         | 2 nothing  | 2 nothing         | 2 nothing
notes              | 2 nothing  | 2 nothing         | 2 nothing
-                  | 2 nothing  | 2 nothing         | 2 nothing
plain.py helper.py | 2 nothing  | 2 nothing         | 2 nothing
plain.py --config selct=[] | 2 nothing | 2 nothing  | 2 nothing
"""


@pytest.fixture(autouse=True)
def _files(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "rules", lambda: (FAST, SHARE))
    for name, content in FILES.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(content)


def cells() -> Iterator[tuple[str, str, int, str]]:
    columns, *rows = ([part.strip() for part in line.split("|")] for line in MATRIX.strip("\n").splitlines())
    for row, *said in rows:
        for column, cell in zip(columns[1:], said, strict=True):
            status, _, stdout = cell.partition(" ")
            yield row, column, int(status), stdout


@pytest.mark.parametrize(
    ("row", "column", "status", "stdout"), [pytest.param(*cell, id=f"{cell[1]} {cell[0]}") for cell in cells()]
)
def test_how_it_ends(run: Run, folder: Path, row: str, column: str, status: int, stdout: str) -> None:
    result = run(*column.split(), *row.split())

    assert result.exit_code == status, result.output
    assert ("patch" if result.stdout.startswith("--- a/") else "nothing") == stdout
    assert (status == 2) == ("rror: " in result.stderr), result.stderr
    assert "Traceback" not in result.output
    written = [name for name, content in FILES.items() if (folder / name).read_bytes() != content]
    expected = {"plain.py": ["plain.py"], "of_two.py": ["of_two.py", "helper.py"]}.get(row, [])
    assert written == (expected if column == "distribute" else [])


def test_only_rules_of_the_command_are_applied_whatever_is_configured(run: Run, folder: Path) -> None:
    assert run("distribute", "plain.py").exit_code == 0
    assert (folder / "plain.py").read_bytes() == SHARED["plain.py"]


def test_what_is_imported_is_done_as_well(run: Run, folder: Path) -> None:
    result = run("distribute", "of_two.py")
    assert (folder / "of_two.py").read_bytes() == SHARED["of_two.py"]
    assert b"shared(2)" in (folder / "helper.py").read_bytes()
    assert (folder / "plain.py").read_bytes() == FILES["plain.py"]
    assert "2 files rewritten" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("declined.py", "error: declined.py: not distributed: for the reasons above"),
        ("unconcerned.py", "error: unconcerned.py: not distributed: no model that it trains is in sight"),
        (
            "plain.py --shard",
            "Error: --shard is not there yet: parameters cannot be spread over processes; leave it out",
        ),
        ("missing.py", "error: missing.py: no such file; a script on disk is needed"),
    ],
)
def test_it_says_why_not(run: Run, arguments: str, said: str) -> None:
    assert run("distribute", *arguments.split()).stderr.rstrip().splitlines()[-1] == said


def test_a_reason_is_told(run: Run) -> None:
    assert "declined.py:1:5: AA890 share-call: left alone: it has no model" in run("distribute", "declined.py").stderr
