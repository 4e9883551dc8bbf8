"""How every run ends, as one table: exit status, what is on stdout and on stderr, and that files are left alone.

0 nothing to report or everything done, 1 findings remain or a change is pending, 2 the job could not be done.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import Result

from tests.cli import observing
from tests.measure.checkup.machines import VIRTUAL, record

Run = Callable[..., Result]

SLOW = b"import torch\nx = slow(1)\n"
FAST = b"import torch\nx = fast(1)\n"
FILES = {
    "clean.py": b"import torch\nx = 1\n",
    "slow.py": SLOW,
    "declined.py": b"import torch\nx = slow(*y)\n",
    "suppressed.py": b"import torch\nx = slow(1)  # autoaccel: ignore[AA190] measured\n",
    "broken.py": b"import torch\nx = slow(1\n",
    "off.py": b"x = (\n",
    "latin.py": b"import torch\nx = slow('\xe9')\n",
    "excluded/slow.py": SLOW,
    "notes/todo.txt": b"",
    "bad.toml": b"selct = []\n",
    "brace.toml": b"select = [\n",
    "newer.toml": b'required-version = ">=1000"\n',
    "per-file.toml": b'per-file-ignores = {"slow.py" = ["fast-call"]}\n',
    "unknown.toml": b'per-file-ignores = {"other.py" = ["AA777"]}\n',
    "exclude.toml": b'force-exclude = true\nextend-exclude = ["excluded/"]\n',
}

COLUMNS = (
    "lint",
    "lint --exit-zero",
    "rewrite",
    "rewrite --diff",
    "rewrite --check",
    "verify",
    "bench",
    "tune",
    "doctor --root healthy",
    "lint -",
    "rewrite -",
)

# A cell is the exit status and what is on stdout: findings, a patch, the text rewritten or as it came, a report on how
# it trains, figures on how fast, which rules pay, a table of the machine, or nothing. `·`: the row has no such column.
# The row's arguments are on the left; columns of stdin read the row's first file. Without paths `lint` looks at the
# whole folder and `rewrite` at nothing. To `verify`, `bench` and `tune` all paths but the first are arguments of the
# script, which is not really run; the rewritten one calls `fast`, which does not exist: it trains differently, and
# cannot be timed. `doctor` looks at a healthy machine.
MATRIX = """
                                    | lint       | lint --exit-zero | rewrite   | rewrite --diff | rewrite --check | verify    | bench     | tune      | doctor --root healthy | lint -     | rewrite -
clean.py                            | 0 nothing  | 0 nothing        | 0 nothing | 0 nothing      | 0 nothing       | 0 report  | 0 figures | 0 choice  | 0 table   | 0 nothing  | 0 as it came
declined.py                         | 0 nothing  | 0 nothing        | 0 nothing | 0 nothing      | 0 nothing       | 0 report  | 0 figures | 0 choice  | 0 table   | 0 nothing  | 0 as it came
suppressed.py                       | 0 nothing  | 0 nothing        | 0 nothing | 0 nothing      | 0 nothing       | 0 report  | 0 figures | 0 choice  | 0 table   | 0 nothing  | 0 as it came
slow.py                             | 1 findings | 0 findings       | 0 nothing | 1 patch        | 1 nothing       | 1 report  | 2 nothing | 0 choice  | 0 table   | 1 findings | 0 rewritten
slow.py clean.py                    | 1 findings | 0 findings       | 0 nothing | 1 patch        | 1 nothing       | 1 report  | 2 nothing | 0 choice  | 2 nothing | ·          | ·
broken.py                           | 2 nothing  | 2 nothing        | 2 nothing | 2 nothing      | 2 nothing       | 2 nothing | 2 nothing | 2 nothing | 2 nothing | 2 nothing  | 2 as it came
off.py                              | 2 nothing  | 2 nothing        | 2 nothing | 2 nothing      | 2 nothing       | 2 nothing | 2 nothing | 2 nothing | 2 nothing | 2 nothing  | 2 as it came
latin.py                            | 2 nothing  | 2 nothing        | 2 nothing | 2 nothing      | 2 nothing       | 2 nothing | 2 nothing | 2 nothing | 2 nothing | 2 nothing  | 2 as it came
unreadable.py                       | 2 nothing  | 2 nothing        | 2 nothing | 2 nothing      | 2 nothing       | 2 nothing | 2 nothing | 2 nothing | 2 nothing | ·          | ·
missing.py                          | 2 nothing  | 2 nothing        | 2 nothing | 2 nothing      | 2 nothing       | 2 nothing | 2 nothing | 2 nothing | 2 nothing | ·          | ·
notes                               | 0 nothing  | 0 nothing        | 0 nothing | 0 nothing      | 0 nothing       | 2 nothing | 2 nothing | 2 nothing | 2 nothing | ·          | ·
broken.py slow.py                   | 2 findings | 2 findings       | 2 nothing | 2 patch        | 2 nothing       | 2 nothing | 2 nothing | 2 nothing | 2 nothing | ·          | ·
unreadable.py slow.py               | 2 findings | 2 findings       | 2 nothing | 2 patch        | 2 nothing       | 2 nothing | 2 nothing | 2 nothing | 2 nothing | ·          | ·
missing.py slow.py                  | 2 findings | 2 findings       | 2 nothing | 2 patch        | 2 nothing       | 2 nothing | 2 nothing | 2 nothing | 2 nothing | ·          | ·
notes slow.py                       | 1 findings | 0 findings       | 0 nothing | 1 patch        | 1 nothing       | 2 nothing | 2 nothing | 2 nothing | 2 nothing | ·          | ·
slow.py --config per-file.toml      | 0 nothing  | 0 nothing        | 0 nothing | 0 nothing      | 0 nothing       | 0 report  | 0 figures | 0 choice  | 2 nothing | 0 nothing  | 0 as it came
excluded/slow.py                    | 1 findings | 0 findings       | 0 nothing | 1 patch        | 1 nothing       | 1 report  | 2 nothing | 0 choice  | 0 table   | 1 findings | 0 rewritten
excluded/slow.py --config exclude.toml | 0 nothing | 0 nothing      | 0 nothing | 0 nothing      | 0 nothing       | 1 report  | 2 nothing | 0 choice  | 2 nothing | 0 nothing  | 0 as it came
slow.py --config none.toml          | 2 nothing  | 2 nothing        | 2 nothing | 2 nothing      | 2 nothing       | 2 nothing | 2 nothing | 2 nothing | 2 nothing | 2 nothing  | 2 nothing
slow.py --config bad.toml           | 2 nothing  | 2 nothing        | 2 nothing | 2 nothing      | 2 nothing       | 2 nothing | 2 nothing | 2 nothing | 2 nothing | 2 nothing  | 2 nothing
slow.py --config brace.toml         | 2 nothing  | 2 nothing        | 2 nothing | 2 nothing      | 2 nothing       | 2 nothing | 2 nothing | 2 nothing | 2 nothing | 2 nothing  | 2 nothing
slow.py --config newer.toml         | 2 nothing  | 2 nothing        | 2 nothing | 2 nothing      | 2 nothing       | 2 nothing | 2 nothing | 2 nothing | 2 nothing | 2 nothing  | 2 nothing
slow.py --config unknown.toml       | 2 nothing  | 2 nothing        | 2 nothing | 2 nothing      | 2 nothing       | 2 nothing | 2 nothing | 2 nothing | 2 nothing | 2 nothing  | 2 nothing
slow.py --config tier=1             | 2 nothing  | 2 nothing        | 2 nothing | 2 nothing      | 2 nothing       | 2 nothing | 2 nothing | 2 nothing | 2 nothing | 2 nothing  | 2 nothing
slow.py --config bad.toml --isolated | 2 nothing | 2 nothing        | 2 nothing | 2 nothing      | 2 nothing       | 2 nothing | 2 nothing | 2 nothing | 2 nothing | 2 nothing  | 2 nothing
slow.py --select AA999              | 2 nothing  | 2 nothing        | 2 nothing | 2 nothing      | 2 nothing       | 2 nothing | 2 nothing | 2 nothing | 2 nothing | 2 nothing  | 2 nothing
notes --select AA999                | 2 nothing  | 2 nothing        | 2 nothing | 2 nothing      | 2 nothing       | 2 nothing | 2 nothing | 2 nothing | 2 nothing | ·          | ·
slow.py --set courage=9             | 1 findings | 0 findings       | 0 nothing | 1 patch        | 1 nothing       | 1 report  | 2 nothing | 0 choice  | 2 nothing | 1 findings | 0 rewritten
slow.py --set courage=1             | 2 nothing  | 2 nothing        | 2 nothing | 2 nothing      | 2 nothing       | 2 nothing | 2 nothing | 2 nothing | 2 nothing | 2 nothing  | 2 nothing
slow.py --set curage=9              | 2 nothing  | 2 nothing        | 2 nothing | 2 nothing      | 2 nothing       | 2 nothing | 2 nothing | 2 nothing | 2 nothing | 2 nothing  | 2 nothing
slow.py --set courage               | 2 nothing  | 2 nothing        | 2 nothing | 2 nothing      | 2 nothing       | 2 nothing | 2 nothing | 2 nothing | 2 nothing | 2 nothing  | 2 nothing
notes --set curage=9                | 2 nothing  | 2 nothing        | 2 nothing | 2 nothing      | 2 nothing       | 2 nothing | 2 nothing | 2 nothing | 2 nothing | ·          | ·
slow.py --tier opt-in               | 2 nothing  | 2 nothing        | 2 nothing | 2 nothing      | 2 nothing       | 2 nothing | 2 nothing | 2 nothing | 2 nothing | 2 nothing  | 2 nothing
slow.py --frobnicate                | 2 nothing  | 2 nothing        | 2 nothing | 2 nothing      | 2 nothing       | 2 nothing | 2 nothing | 2 nothing | 2 nothing | 2 nothing  | 2 nothing
slow.py --fail-on exact             | 1 findings | 2 nothing        | 2 nothing | 2 nothing      | 2 nothing       | 2 nothing | 2 nothing | 2 nothing | 2 nothing | 1 findings | 2 nothing
slow.py --fail-on exat              | 2 nothing  | 2 nothing        | 2 nothing | 2 nothing      | 2 nothing       | 2 nothing | 2 nothing | 2 nothing | 2 nothing | 2 nothing  | 2 nothing
slow.py --ranks 2                   | 2 nothing  | 2 nothing        | 2 nothing | 2 nothing      | 2 nothing       | 2 nothing | 2 nothing | 2 nothing | 2 nothing | 2 nothing  | 2 nothing
slow.py --shard                     | 2 nothing  | 2 nothing        | 2 nothing | 2 nothing      | 2 nothing       | 2 nothing | 2 nothing | 2 nothing | 2 nothing | 2 nothing  | 2 nothing
slow.py -                           | 2 nothing  | 2 nothing        | 2 nothing | 2 nothing      | 2 nothing       | 1 report  | 2 nothing | 0 choice  | 2 nothing | ·          | ·
slow.py --stdin-filename x.py       | 2 nothing  | 2 nothing        | 2 nothing | 2 nothing      | 2 nothing       | 2 nothing | 2 nothing | 2 nothing | 2 nothing | ·          | ·
--isolated                          | 2 findings | 2 findings       | 2 nothing | 2 nothing      | 2 nothing       | 2 nothing | 2 nothing | 2 nothing | 2 nothing | ·          | ·
"""  # noqa: E501 - a table


def cells() -> Iterator[tuple[str, str, int, str]]:
    for line in MATRIX.strip("\n").splitlines()[1:]:
        row, *said = [part.strip() for part in line.split("|")]
        for column, cell in zip(COLUMNS, said, strict=True):
            if cell != "·":
                status, _, stdout = cell.partition(" ")
                yield row, column, int(status), stdout


@pytest.mark.parametrize(
    ("row", "column", "status", "stdout"), [pytest.param(*cell, id=f"{cell[1]} {cell[0]}") for cell in cells()]
)
def test_how_it_ends(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch, row: str, column: str, status: int, stdout: str
) -> None:
    observing.install(monkeypatch)
    if "healthy" in column:
        record(folder / "healthy", VIRTUAL)
    for name, content in FILES.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(content)
    if "unreadable.py" in row:
        unreadable(folder)
    arguments, data = row.split(), b""
    if column.endswith("-"):
        data = FILES[arguments[0]]
        arguments[:1] = ["--stdin-filename", arguments[0]]

    result = run(*column.split(), *arguments, input=data)

    assert result.exit_code == status, result.output
    assert kind(result.stdout_bytes, data) == stdout
    assert "Traceback" not in result.output
    is_error = any(line.startswith(("error: ", "Error: ")) for line in result.stderr.splitlines())
    assert (status == 2) == is_error, result.stderr
    if status < 2 and "doctor" not in column:
        assert ("notes" in row) == ("warning: notes: no Python files found" in result.stderr)
    written = [name for name, content in FILES.items() if (folder / name).read_bytes() != content]
    # Other files are done, whatever is wrong with the first; a run that is itself in error does nothing.
    ran = " -" not in f" {row}".replace(" --set courage=9", "")
    assert written == [name for name in FILES if column == "rewrite" and ran and name in arguments and "slow" in name]
    assert all((folder / name).read_bytes() == FAST for name in written)


def kind(stdout: bytes, data: bytes) -> str:
    if not stdout:
        return "nothing"
    if stdout == data:
        return "as it came"
    if stdout == FAST:
        return "rewritten"
    if stdout.startswith(b"--- a/") and b"\n+++ b/" in stdout:
        return "patch"
    if b"train the same" in stdout or b"nothing to verify" in stdout:
        return "report"
    if b"nothing to tune" in stdout or b"on this machine" in stdout:
        return "choice"
    if b"Figures" in stdout:
        return "figures"
    if b"what it costs" in stdout:
        return "table"
    return "findings" if b"AA190" in stdout else f"something else: {stdout.decode()}"


def unreadable(folder: Path) -> None:
    """A file that nobody can read, not even root, from whom no mode keeps anything."""
    if not Path("/proc/self/mem").exists():
        pytest.skip("no file here that root cannot read")
    (folder / "unreadable.py").symlink_to("/proc/self/mem")


def test_every_cell_is_there() -> None:
    lines = MATRIX.strip("\n").splitlines()
    assert tuple(part.strip() for part in lines[0].split("|"))[1:] == COLUMNS
    assert {line.count("|") for line in lines} == {len(COLUMNS)}


# `undo` looks at no paths, but at what became of a rewrite; a cell says what is in the files then, too.
UNDONE = """
                          | undo                | undo --list
slow.py                   | 0 nothing slow slow | 0 lines fast slow
slow.py clean.py          | 0 nothing slow slow | 0 lines fast slow
clean.py                  | 2 nothing slow slow | 0 nothing slow slow
slow.py excluded/slow.py  | 0 nothing slow slow | 0 lines fast fast
slow.py --diff            | 2 nothing slow slow | 0 nothing slow slow
slow.py --output x.py     | 2 nothing slow slow | 0 nothing slow slow
edited slow.py            | 0 nothing slow slow | 0 lines fast slow
conflicting slow.py       | 2 nothing fast slow | 0 lines fast slow
gone slow.py              | 2 nothing gone slow | 0 lines gone slow
slow.py / --frobnicate    | 2 nothing fast slow | 2 nothing fast slow
slow.py / slow.py         | 2 nothing fast slow | 2 nothing fast slow
"""


@pytest.mark.parametrize("column", ["undo", "undo --list"])
@pytest.mark.parametrize("row", UNDONE.strip("\n").splitlines()[1:], ids=lambda row: row.partition("|")[0].strip())
def test_how_undo_ends(
    run: Run,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path_factory: pytest.TempPathFactory,
    row: str,
    column: str,
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
    for name in ("clean.py", "slow.py", "excluded/slow.py"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(FILES[name])
    given, *cells = (each.strip() for each in row.split("|"))
    status, stdout, *expected = cells["undo --list" in column].split()
    rewritten, _, options = given.partition(" / ")
    words = rewritten.split()
    run("rewrite", *(word for word in words if word not in ("edited", "conflicting", "gone")))
    if words[0] == "edited":
        (folder / "slow.py").write_bytes(b"import os\n" + FAST)
    elif words[0] == "conflicting":
        (folder / "slow.py").write_bytes(FAST.replace(b"1", b"2"))
    elif words[0] == "gone":
        (folder / "slow.py").unlink()

    result = run(*column.split(), *options.split())

    assert result.exit_code == int(status), result.output
    assert (stdout == "lines") is bool(result.stdout)
    assert "Traceback" not in result.output
    assert (status == "2") == ("rror: " in result.stderr), result.stderr
    assert [state(folder / name) for name in ("slow.py", "excluded/slow.py")] == expected


def state(path: Path) -> str:
    return "gone" if not path.exists() else "fast" if b"fast" in path.read_bytes() else "slow"


# `server` and `mcp` are started by others, and look at nothing before they are asked to. Without its extra a command
# says what to install.
SERVERS = """
                                     | server | mcp
--help                               | 0 help | 0 help
                                     | 0      | 0
slow.py                              | 2      | 2
notes                                | 2      | 0
missing                              | 2      | 2
--allow-run --allow-write            | 2      | 0
--select AA190 --tier exact          | 0      | 2
--select AA999                       | 2      | 2
--tier exat                          | 2      | 2
--config per-file.toml               | 0      | 2
--config bad.toml                    | 2      | 2
--config bad.toml --isolated         | 2      | 2
--frobnicate                         | 2      | 2
(without its extra)                  | 2      | 2
"""


@pytest.mark.parametrize("column", ["server", "mcp"])
@pytest.mark.parametrize(
    "row", SERVERS.strip("\n").splitlines()[1:], ids=lambda row: row.partition("|")[0].strip() or "nothing"
)
def test_how_servers_end(run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch, row: str, column: str) -> None:
    pytest.importorskip("pygls" if column == "server" else "mcp")
    for name, content in FILES.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(content)
    started: list[object] = []
    monkeypatch.setattr("autoaccel.servers.language_server.serve", lambda *given: started.append(given))
    monkeypatch.setattr("autoaccel.servers.agent_tools.serve", started.append)
    given, *cells = (each.strip() for each in row.split("|"))
    status, _, stdout = cells[column == "mcp"].partition(" ")
    if "extra" in given:
        monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
        given = ""

    result = run(column, *given.split())

    assert result.exit_code == int(status), result.output
    assert (stdout == "help") == ("Usage: " in result.stdout)
    assert "Traceback" not in result.output
    assert bool(started) == (status == "0" and stdout == "")
    assert (status == "2") == any(line.startswith(("error: ", "Error: ")) for line in result.stderr.splitlines())


@pytest.mark.parametrize(("command", "extra"), [("server", "editor"), ("mcp", "mcp")])
def test_a_missing_extra_is_a_line(run: Run, monkeypatch: pytest.MonkeyPatch, command: str, extra: str) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    result = run(command)
    library = "pygls" if command == "server" else "mcp"
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == f"error: this command needs {library}: pip install 'autoaccel[{extra}]'\n"
