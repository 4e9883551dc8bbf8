"""`python -m benchmarks.distributed --corpus DIR`; see the README beside this file."""

from __future__ import annotations

import difflib
import json
import os
import re
import shutil
import statistics
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import click
from click.testing import CliRunner

from autoaccel.cli.main import cli
from autoaccel.measure.verifying import printed
from benchmarks.distributed.launching import launch
from benchmarks.distributed.rank import be_a_rank
from benchmarks.public_scripts.manifest import Input, Run, load
from benchmarks.public_scripts.running import PROJECT, environment, limited, workspace
from benchmarks.suite.catalogue import modules

RESULT = PROJECT / "benchmarks" / "results" / "distributed.md"
SUITE, FIXTURES = PROJECT / "benchmarks" / "suite" / "scripts", PROJECT / "fixtures" / "scripts"
_SUITE, _FIXTURES = "suite/", "fixtures/"
RANKS = (2, 3)
BOUND = 1e-12
_HEAD = "| script | lines |"
PRINTED = 1e-9  # of numbers that are printed: what is left of a difference may be what is rounded off


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

    @property
    def new(self) -> int:
        """Lines that are not merely indented."""
        return self.lines - self.indented

    @classmethod
    def read(cls, line: str) -> Row:
        """The inverse of `line`."""
        script, *figures, told = [each.strip() for each in line.strip("| ").split(" | ")]
        lines, indented, losses, worst = [float(each or 0) for each in figures]
        state, _, reason = told.partition(": ")
        return cls(script, state, int(lines), int(indented), int(losses), worst, reason)


@click.command()
@click.option("--corpus", type=click.Path(path_type=Path), help="The public repositories, side by side.")
@click.option("--only", default="", help="Scripts whose name contains this.")
@click.option("--result", type=click.Path(path_type=Path), default=RESULT, help="The table.")
@click.option("--keep", type=click.Path(path_type=Path), help="Leave what runs said there.")
@click.option("--go-on", is_flag=True, help="Keep the rows that there are.")
def main(corpus: Path | None, only: str, result: Path, keep: Path | None, go_on: bool) -> None:
    """Distribute copies of scripts, run them, and put the table in the place of an older one."""
    if os.environ.get("PYTHONHASHSEED") != "0":
        command = [sys.executable, "-m", "benchmarks.distributed", *sys.argv[1:]]
        os.execve(sys.executable, command, {**os.environ, "PYTHONHASHSEED": "0"})
    known = [Row.read(line) for line in _lines_of_table(result)] if only or go_on else []
    rows = {row.script: row for row in known}
    with tempfile.TemporaryDirectory() as own:
        runs = [(Path(own), run) for run in own_scripts(Path(own))]
        runs += [(corpus, run) for run in load().runs] if corpus else []
        for tree, run in runs:
            if only in run.name and not (go_on and run.name in rows):
                row = rows[run.name] = tried(tree, run, keep)
                print(f"{row.script}: {row.state} {row.reason} ({row.lines} lines, {row.worst:.1e})", flush=True)
                result.write_text(table([*rows.values()]), encoding="utf-8")


def own_scripts(tree: Path) -> Iterator[Run]:
    """The suite's plain scripts and those of the fixtures, each in a folder of its own below `tree`."""
    for script in sorted(SUITE.glob("*/original.py")):
        folder = tree / "suite" / script.parent.name
        folder.mkdir(parents=True)
        shutil.copy(script, folder / "train.py")
        for module in modules(script):
            shutil.copy(module, folder)
        pictures = Input("pictures", "data/imagenet", {"classes": 4, "count": 8, "size": [96, 80]})
        inputs = (pictures,) if folder.name == "imagenet" else ()
        yield Run(
            f"{_SUITE}{folder.name}", "train.py", args=("--steps", "6", "--seed", "0"), inputs=inputs, samples=128
        )
    for script in sorted(FIXTURES.glob("*.py")):
        folder = tree / "fixtures" / script.stem
        folder.mkdir(parents=True)
        shutil.copy(script, folder)
        yield Run(f"{_FIXTURES}{script.stem}", script.name, samples=256, test_samples=100)


def tried(corpus: Path, run: Run, keep: Path | None) -> Row:
    """Distribute a script, and run it by one, two and three ranks beside the original."""
    with workspace(corpus, run) as repository, tempfile.TemporaryDirectory() as scratch:
        original = Path(scratch) / "original"
        shutil.copytree(repository, original)
        done = CliRunner().invoke(cli, ["distribute", "--isolated", str(repository / run.path)])
        lines, indented = changed_lines(original, repository)
        if not lines:
            return Row(run.name, "left alone", reason=reason_of(done.stderr))
        results = (keep or Path(scratch)).absolute() / run.name.replace("/", "_")
        shutil.rmtree(results, ignore_errors=True)
        first = ran(1, original, run, results / "original", Path(scratch))
        again = cache(lambda: ran(1, original, run, results / "again", Path(scratch)))
        if first.problem or not first.losses:
            return Row(run.name, "not run", lines, indented, reason=first.problem or "it makes no step")
        worst = 0.0
        for ranks in (1, *RANKS):
            other = ran(ranks, repository, run, results / str(ranks), Path(scratch))
            if said := other.problem or different(first, again, other, ranks):
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
    """Those that are there in the end, and were not before."""
    twice: list[str]
    """Those that several ranks have written."""


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
    ended = launch(ranks, lambda rank: be_a_rank(rank, script, list(run.args), folder, results, options), results)
    error = (results / "err.0").read_text(encoding="utf-8", errors="replace").strip().splitlines()
    records = [json.loads(each.read_text(encoding="utf-8")) for each in sorted(results.glob("record.*"))]
    if ended.problem:
        return Done(f"{ended.problem}: {error[-1] if error else ''}", [], 0, [], [], [])
    if any(each["steps"] != records[0]["steps"] for each in records):
        return Done("ranks make different numbers of steps", [], 0, [], [], [])
    output = (results / "out.0").read_text(encoding="utf-8", errors="replace").replace(str(repository), "").splitlines()
    losses = [float.fromhex(each) for each in records[0]["losses"] if len(each) < 40]
    files = sorted(files_below(repository) - before)
    written = Counter(path for each in records for path in each["written"])
    twice = [each for each in files if written[os.path.realpath(repository / each)] > 1]
    return Done("", losses, records[0]["steps"], output, files, twice)


def files_below(folder: Path) -> set[str]:
    return {str(each.relative_to(folder)) for each in folder.rglob("*") if "__pycache__" not in each.parts}


def different(first: Done, again: Callable[[], Done], other: Done, ranks: int) -> str:
    """What differs between the original, which is run again where it may vary, and the distributed script."""
    if len(first.losses) != len(other.losses) or first.steps != other.steps:
        return f"{other.steps} steps instead of {first.steps}"
    if ranks == 1 and first.losses != other.losses:
        return "not bit for bit"
    if (worst := distance(first.losses, other.losses)) > BOUND:
        return f"losses differ by {worst:.1e}"
    if other.twice:
        return f"written by several ranks: {', '.join(other.twice)}"
    if first.files != other.files:
        named = (lambda name: name) if first.files == again().files else (lambda name: re.sub(r"\d+", "#", name))
        mine, theirs = (Counter(map(named, each.files)) for each in (first, other))
        if odd := (mine - theirs) + (theirs - mine):
            return f"other files: {', '.join(sorted(odd))}"
    bound = printed.Bound(0.0 if ranks == 1 else PRINTED, counts=True)
    said = printed.difference(first.output, other.output, printed.masks([first.output]), bound)
    if said is None or len(first.output) != len(again().output):
        return ""
    return printed.difference(first.output, other.output, printed.masks([first.output, again().output]), bound) or ""


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


def _few(lines: list[int]) -> str:
    return f"{statistics.median(lines) if lines else 0:g} | {sum(each <= 6 for each in lines)}"


def _lines_of_table(page: Path) -> list[str]:
    lines = page.read_text(encoding="utf-8").splitlines() if page.exists() else []
    start = next((number for number, line in enumerate(lines) if line.startswith(_HEAD)), len(lines))
    return [line for line in lines[start + 2 :] if line.startswith("|")]


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
    yield "# Scripts by several processes"
    yield ""
    yield "What `autoaccel distribute` makes of public scripts that train here, of the suite's and the fixtures'."
    yield "Made by `python -m benchmarks.distributed`; how it is measured is in [its README](../distributed/README.md)."
    yield ""
    of = f"{equal} of {len(done)} distributed scripts"
    yield f"**{of} train the same by 1, 2 and 3 ranks**; {declined} are left alone."
    yield f"Of these, {len(RANKS) * equal} launches of several ranks came to their end and left no process behind."
    yield ""
    if done:
        yield "| lines added | scripts | median | at most 6 | without indented ones: median | at most 6 |"
        yield "|---|---:|---:|---:|---:|---:|"
        public = [row for row in done if not row.script.startswith((_SUITE, _FIXTURES))]
        for name, some in (("all", done), ("public scripts", public)):
            figures = _few([row.lines for row in some]), _few([row.new for row in some])
            yield f"| {name} | {len(some)} | {' | '.join(figures)} |"
        yield ""
    yield f"{_HEAD} only indented | losses | largest relative difference | |"
    yield "|---|---:|---:|---:|---:|---|"
    yield from (row.line() for row in rows)


if __name__ == "__main__":
    main()
