"""`autoaccel distribute`, and `verify --ranks`: how they end, what is written, and which files are looked at.

The rule is a sample, and no script really runs.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import Result

from autoaccel.analysis import Script
from autoaccel.edits import Code, Finding, Replace, Skipped, Tier
from autoaccel.rewriting import registry
from autoaccel.rewriting.rule import Rule
from tests.cli import observing
from tests.cli.conftest import FAST

Run = Callable[..., Result]

SHARE = Rule("AA890", "share-call", Tier.EQUIVALENT, (b"alone(", b"import"), on_request=True, command="distribute")
SHARD = Rule("AA891", "shard-call", Tier.EQUIVALENT, (b"alone(",), on_request=True, command="distribute --shard")


@SHARE.check
def _share(script: Script) -> Iterator[Finding | Skipped]:
    """`alone(x)` becomes `shared(x)`; without an argument it is declined."""
    for call in script.find(ast.Call):
        if isinstance(call.func, ast.Name) and call.func.id == "alone":
            if call.args:
                yield SHARE.finding(call, "it trains alone", Replace(call.func, Code("shared")))
            else:
                yield SHARE.skip(call, "it has no model")


@SHARD.check
def _shard(script: Script) -> Iterator[Finding | Skipped]:
    """`alone(x)` becomes `sharded(x)`."""
    for call in script.find(ast.Call):
        if isinstance(call.func, ast.Name) and call.func.id == "alone" and call.args:
            yield SHARD.finding(call, "it trains alone", Replace(call.func, Code("sharded")))


FILES = {
    "plain.py": b"x = alone(1)\ny = slow(2)\n",
    "declined.py": b"x = alone()\n",
    "differs.py": b"x = alone(apart())\n",
    "fails.py": b"x = alone(crash())\n",
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
                   | distribute | distribute --diff | distribute --shard | verify --ranks 2,3
plain.py           | 0 nothing  | 1 patch           | 0 nothing          | 0 report
declined.py        | 2 nothing  | 2 nothing         | 2 nothing          | 2 nothing
unconcerned.py     | 2 nothing  | 2 nothing         | 2 nothing          | 2 nothing
done.py            | 0 nothing  | 0 nothing         | 0 nothing          | 0 report
differs.py         | 0 nothing  | 1 patch           | 0 nothing          | 1 report
fails.py           | 0 nothing  | 1 patch           | 0 nothing          | 2 nothing
broken.py          | 2 nothing  | 2 nothing         | 2 nothing          | 2 nothing
of_two.py          | 0 nothing  | 1 patch           | 0 nothing          | 0 report
missing.py         | 2 nothing  | 2 nothing         | 2 nothing          | 2 nothing
notes              | 2 nothing  | 2 nothing         | 2 nothing          | 2 nothing
-                  | 2 nothing  | 2 nothing         | 2 nothing          | 2 nothing
plain.py helper.py | 2 nothing  | 2 nothing         | 2 nothing          | 0 report
plain.py --config selct=[] | 2 nothing | 2 nothing  | 2 nothing          | 2 nothing
"""


@pytest.fixture(autouse=True)
def _files(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    observing.install(monkeypatch)
    monkeypatch.setattr(registry, "rules", lambda: (FAST, SHARE, SHARD))
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
    report = "train the same" in result.stdout or "trains the same" in result.stdout
    assert ("patch" if result.stdout.startswith("--- a/") else "report" if report else "nothing") == stdout
    assert (status == 2) == ("rror: " in result.stderr), result.stderr
    assert "Traceback" not in result.output
    written = [name for name, content in FILES.items() if (folder / name).read_bytes() != content]
    own = [row] if row in ("plain.py", "differs.py", "fails.py") else []
    expected = {"of_two.py": ["of_two.py", "helper.py"]}.get(row, own)
    assert written == (expected if column in ("distribute", "distribute --shard") else [])


def test_only_rules_of_the_command_are_applied_whatever_is_configured(run: Run, folder: Path) -> None:
    assert run("distribute", "plain.py").exit_code == 0
    assert (folder / "plain.py").read_bytes() == SHARED["plain.py"]


def test_what_is_imported_is_done_as_well(run: Run, folder: Path) -> None:
    result = run("distribute", "of_two.py")
    assert (folder / "of_two.py").read_bytes() == SHARED["of_two.py"]
    assert b"shared(2)" in (folder / "helper.py").read_bytes()
    assert (folder / "plain.py").read_bytes() == FILES["plain.py"]
    assert "2 files rewritten" in result.stderr


def test_parameters_are_spread_by_a_rule_of_their_own(run: Run, folder: Path) -> None:
    assert run("distribute", "--shard", "plain.py").exit_code == 0
    assert (folder / "plain.py").read_bytes() == b"x = sharded(1)\ny = slow(2)\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("declined.py", "error: declined.py: not distributed: for the reasons above"),
        ("unconcerned.py", "error: unconcerned.py: not distributed: no model that it trains is in sight"),
        ("unconcerned.py --shard", "error: unconcerned.py: not distributed: no model that it trains is in sight"),
        ("missing.py", "error: missing.py: no such file; a script on disk is needed"),
    ],
)
def test_it_says_why_not(run: Run, arguments: str, said: str) -> None:
    assert run("distribute", *arguments.split()).stderr.rstrip().splitlines()[-1] == said


def test_a_reason_is_told(run: Run) -> None:
    assert "declined.py:1:5: AA890 share-call: left alone: it has no model" in run("distribute", "declined.py").stderr


# -- verify --ranks


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("declined.py", "error: declined.py: not distributed: it has no model"),
        ("unconcerned.py", "error: unconcerned.py: not distributed: no model that it trains is in sight"),
        ("fails.py", "error: fails.py:2: NameError: name 'crash' is not defined"),
        ("plain.py --ranks 1", "'1': numbers of processes are wanted, from 2 to 64, as in 2,3"),
        ("plain.py --ranks 2;3", "'2;3': numbers of processes are wanted, from 2 to 64, as in 2,3"),
        ("plain.py --seeds 3", "--seeds is not for that"),
        ("plain.py --against done.py", "--against is not for that"),
        ("plain.py --extend-select AA190", "--extend-select is not for that"),
        ("-m elsewhere", "--ranks needs a script whose file is known"),
        ("plain.py --shard --seeds 3", "--seeds is not for that"),
    ],
)
def test_ranks_that_cannot_be_compared(run: Run, arguments: str, said: str) -> None:
    result = run("verify", "--ranks", "2", *arguments.split())
    assert (result.exit_code, result.stdout) == (2, "")
    assert said in result.stderr.splitlines()[-1]


def test_what_is_compared_with_what(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    observed = observing.install(monkeypatch)
    result = run("verify", "--ranks", "2,3", "--steps", "7", "plain.py", "--", "--epochs", "1")
    assert "plain.py trains the same by 1, 2 and 3 processes, with 1 change.\n" in result.stdout
    ranks = [(request.rank, request.ranks) for request in observed.requests]
    assert ranks == [(0, 1)] * 3 + [(0, 2), (1, 2)] + [(0, 3), (1, 3), (2, 3)]
    assert all(
        (each.double, each.traced, each.arguments) == (True, True, ("--epochs", "1")) for each in observed.requests
    )
    texts = [next(iter(request.texts.values()), "") for request in observed.requests]
    assert texts[:2] == ["", ""] and all("x = shared(1)" in text for text in texts[2:])


def test_parameters_that_are_spread_are_compared_with_one_process(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    observed = observing.install(monkeypatch)
    result = run("verify", "--ranks", "2", "--shard", "plain.py")
    assert "AA891 shard-call  1 change  equivalent  same  " in result.stdout, result.output
    assert [(request.rank, request.ranks) for request in observed.requests] == [(0, 1)] * 3 + [(0, 2), (1, 2)]


def test_shard_wants_ranks(run: Run) -> None:
    result = run("verify", "--shard", "plain.py")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.splitlines()[-1] == "Error: --shard is about several processes: it wants --ranks"


def test_who_is_to_blame(run: Run) -> None:
    """Without the change the same rank fails, so nobody is."""
    result = run("verify", "--ranks", "2", "differs.py", "--json", "-")
    content = json.loads(result.stdout)
    assert (result.exit_code, content["status"], content["ranks"]) == (1, "different", [2])
    assert content["differences"] == ["rank 1: fails: ValueError: it is another one (train.py:2), by 2 processes"]
    text = run("verify", "--ranks", "2", "differs.py").stdout
    assert "differs.py does not train the same by 1 and 2 processes, and no change is to blame.\n" in text
    assert content["differences"][0] in text


def test_what_is_distributed_is_run_as_it_is(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    observed = observing.install(monkeypatch)
    result = run("verify", "--ranks", "2", "done.py")
    assert "AA890 share-call  1 change  equivalent  same  " in result.stdout
    assert all(request.texts == {} for request in observed.requests)
