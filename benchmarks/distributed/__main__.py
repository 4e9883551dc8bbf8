"""`python -m benchmarks.distributed --corpus DIR`; see the README beside this file."""

from __future__ import annotations

import difflib
import json
import os
import shutil
import statistics
import sys
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from click.testing import CliRunner

from autoaccel.cli.main import cli
from benchmarks.distributed.rank import launch
from benchmarks.public_scripts.manifest import Run, load
from benchmarks.public_scripts.running import PROJECT, environment, limited, workspace

RESULT = PROJECT / "benchmarks" / "results" / "distributed.md"
RANKS = (2, 3)
BOUND = 1e-12


@dataclass(frozen=True, slots=True)
class Row:
    """What became of one script. `reason` is why it was left alone, or what differs."""

    script: str
    state: str
    lines: int = 0
    indented: int = 0
    losses: int = 0
    worst: float = 0.0
    reason: str = ""

    def line(self) -> str:
        """Of the table."""
        figures = (self.lines, self.indented, self.losses, f"{self.worst:.1e}" if self.losses else "")
        told = f"{self.state}: {self.reason}" if self.reason else self.state
        return f"| {self.script} | {' | '.join(str(each or '') for each in figures)} | {told} |"

    @classmethod
    def read(cls, line: str) -> Row:
        """The inverse of `line`."""
        script, *figures, told = [each.strip() for each in line.strip("| ").split(" | ")]
        lines, indented, losses, worst = [float(each or 0) for each in figures]
        state, _, reason = told.partition(": ")
        return cls(script, state, int(lines), int(indented), int(losses), worst, reason)


@click.command()
@click.option("--corpus", type=click.Path(path_type=Path), required=True, help="The repositories, side by side.")
@click.option("--only", default="", help="Scripts whose name contains this.")
@click.option("--result", type=click.Path(path_type=Path), default=RESULT, help="The table.")
@click.option("--keep", type=click.Path(path_type=Path), help="Leave what runs said there.")
def main(corpus: Path, only: str, result: Path, keep: Path | None) -> None:
    """Distribute copies of public scripts, run them, and put the table in the place of an older one."""
    if os.environ.get("PYTHONHASHSEED") != "0":
        command = [sys.executable, "-m", "benchmarks.distributed", *sys.argv[1:]]
        os.execve(sys.executable, command, {**os.environ, "PYTHONHASHSEED": "0"})
    rows = {row.script: row for row in map(Row.read, _lines_of_table(result))} if only else {}
    for run in load().runs:
        if only in run.name:
            row = rows[run.name] = tried(corpus, run, keep)
            print(f"{row.script}: {row.state} {row.reason} ({row.lines} lines, {row.worst:.1e})", flush=True)
            result.write_text(table([*rows.values()]), encoding="utf-8")


def tried(corpus: Path, run: Run, keep: Path | None) -> Row:
    """Distribute a script, and run it by one, two and three ranks beside the original."""
    with workspace(corpus, run) as repository, tempfile.TemporaryDirectory() as scratch:
        original = Path(scratch) / "original"
        shutil.copytree(repository, original)
        done = CliRunner().invoke(cli, ["distribute", "--isolated", str(repository / run.path)])
        lines, indented = changed_lines(original, repository)
        if not lines:
            return Row(run.name, "left alone", reason=reason_of(done.stderr))
        results = (keep or Path(scratch)) / run.name.replace("/", "_")
        shutil.rmtree(results, ignore_errors=True)
        first = ran(1, original, run, results / "original", Path(scratch))
        if first.problem or not first.losses:
            return Row(run.name, "not run", lines, indented, reason=first.problem or "it makes no step")
        worst = 0.0
        for ranks in (1, *RANKS):
            other = ran(ranks, repository, run, results / str(ranks), Path(scratch))
            if said := other.problem or different(first, other, ranks):
                return Row(run.name, "different", lines, indented, len(first.losses), worst, f"{ranks} ranks: {said}")
            worst = max(worst, distance(first.losses, other.losses))
        return Row(run.name, "equal", lines, indented, len(first.losses), worst)


@dataclass(frozen=True, slots=True)
class Done:
    """What a launch did."""

    problem: str
    losses: list[float]
    steps: int
    output: list[str]
    files: list[str]


def ran(ranks: int, tree: Path, run: Run, results: Path, scratch: Path) -> Done:
    """Run a copy of a tree by some ranks."""
    repository = scratch / "copy" / tree.name
    shutil.rmtree(repository.parent, ignore_errors=True)
    shutil.copytree(tree, repository)
    script = repository / run.path
    folder = script.parent if run.directory is None else repository / run.directory
    variables = environment(run, repository, {})
    for path, *arguments in run.before:
        limited([sys.executable, str(repository / path), *arguments], folder, variables, run.timeout)
    before = files_below(repository)
    options: dict[str, Any] = {
        "stop_after": run.stop_after, "count": run.count, "shims": run.shims,
        "environment": variables, "path": variables["PYTHONPATH"].split(os.pathsep),
    }  # fmt: skip
    problem = launch(ranks, script, list(run.args), folder, results, options)
    error = (results / "err.0").read_text(encoding="utf-8", errors="replace").strip().splitlines()
    records = [json.loads(each.read_text(encoding="utf-8")) for each in sorted(results.glob("record.*"))]
    if problem:
        return Done(f"{problem}: {error[-1] if error else ''}", [], 0, [], [])
    if any(each["steps"] != records[0]["steps"] for each in records):
        return Done("ranks make different numbers of steps", [], 0, [], [])
    output = (results / "out.0").read_text(encoding="utf-8", errors="replace").replace(str(repository), "").splitlines()
    losses = [float.fromhex(each) for each in records[0]["losses"] if len(each) < 40]
    return Done("", losses, records[0]["steps"], output, sorted(files_below(repository) - before))


def files_below(folder: Path) -> set[str]:
    return {str(each.relative_to(folder)) for each in folder.rglob("*") if "__pycache__" not in each.parts}


def different(first: Done, other: Done, ranks: int) -> str:
    """What differs between the original and the distributed script."""
    if len(first.losses) != len(other.losses) or first.steps != other.steps:
        return f"{other.steps} steps instead of {first.steps}"
    if ranks == 1 and first.losses != other.losses:
        return "not bit for bit"
    if (worst := distance(first.losses, other.losses)) > BOUND:
        return f"losses differ by {worst:.1e}"
    if first.files != other.files:
        return f"other files: {', '.join(sorted(set(first.files) ^ set(other.files)))}"
    if len(first.output) != len(other.output):
        return f"{len(other.output)} lines on stdout instead of {len(first.output)}"
    return ""


def distance(some: Iterable[float], others: Iterable[float]) -> float:
    """The largest relative difference."""
    return max((abs(a - b) / max(abs(a), 1e-30) for a, b in zip(some, others, strict=True) if a != b), default=0.0)


def changed_lines(before: Path, after: Path) -> tuple[int, int]:
    """Lines that the patch adds, in all files, and how many of these are only indented."""
    added: list[str] = []
    removed: list[str] = []
    for path in sorted(after.rglob("*.py")):
        old, new = (each.read_text(encoding="utf-8") for each in (before / path.relative_to(after), path))
        if old != new:
            lines = list(difflib.unified_diff(old.splitlines(), new.splitlines(), n=0, lineterm=""))[2:]
            added += [line[1:].strip() for line in lines if line.startswith("+") and line[1:].strip()]
            removed += [line[1:].strip() for line in lines if line.startswith("-")]
    return len(added), sum(line in removed for line in added)


def _lines_of_table(page: Path) -> list[str]:
    lines = page.read_text(encoding="utf-8").splitlines() if page.exists() else []
    return [line for line in lines if line.startswith("|")][2:]


def reason_of(said: str) -> str:
    reasons = [line.partition("left alone: ")[2] for line in said.splitlines() if "left alone: " in line]
    return reasons[0] if reasons else said.strip().rpartition(": ")[2]


def table(rows: list[Row]) -> str:
    """The page."""
    return "\n".join(_page(rows)) + "\n"


def _page(rows: list[Row]) -> Iterator[str]:
    done = [row for row in rows if row.state in ("equal", "different")]
    equal = sum(row.state == "equal" for row in done)
    declined = sum(row.state == "left alone" for row in rows)
    yield "# Public scripts by several processes"
    yield ""
    yield "What `autoaccel distribute` makes of the public scripts that train here. Made by"
    yield "`python -m benchmarks.distributed`; how it is measured is in [its README](../distributed/README.md)."
    yield ""
    of = f"{equal} of {len(done)} distributed scripts"
    yield f"**{of} train the same by 1, 2 and 3 ranks**; {declined} are left alone."
    if done:
        yield (
            f"Median of the lines added: {statistics.median(row.lines for row in done):g}; "
            f"without lines that are only indented: {statistics.median(row.lines - row.indented for row in done):g}."
        )
    yield ""
    yield "| script | lines | only indented | losses | largest relative difference | |"
    yield "|---|---:|---:|---:|---:|---|"
    yield from (row.line() for row in rows)


if __name__ == "__main__":
    main()
