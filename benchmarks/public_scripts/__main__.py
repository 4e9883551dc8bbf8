"""`python -m benchmarks.public_scripts baseline|run|survey`; see the README beside this file."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

import click

from benchmarks.public_scripts import inputs, manifest
from benchmarks.public_scripts.comparing import compare, stable_output
from benchmarks.public_scripts.manifest import Run
from benchmarks.public_scripts.running import OBSERVE, PROJECT, STANDINS, Outcome, execute, skip_large

# How the rewritten script is run: what must be exact on a CPU, and everything switched off.
_BUT_FOR = ("--ignore", "AA307")
"""What no mode switches off: a fused activation rounds otherwise, by the text of the script alone."""
MODES = {"a": {"AUTOACCEL_DISABLE": "amp,channels_last,compile,fused,workers"}, "b": {"AUTOACCEL_DISABLE": "all"}}

folder = click.Path(file_okay=False, path_type=Path)


def chosen(only: tuple[str, ...]) -> list[Run]:
    runs = manifest.load().runs
    return [run for run in runs if not only or any(part in run.name for part in only)]


def slug(run: Run) -> str:
    return run.name.replace("/", "__").replace(" ", "_")


@cache
def surroundings() -> str:
    """A hash of what an outcome depends on besides the script: the observer, the inputs, the stand-ins."""
    sources = [OBSERVE, Path(inputs.__file__), *sorted(STANDINS.rglob("*.py"))]
    return hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()[:16]


def reference_of(run: Run, corpus: Path, out: Path, *, fresh: bool) -> tuple[Outcome, str]:
    """The original's outcome and how it differs from itself (`equal` for a deterministic script); kept in `out`."""
    kept = out / "baseline" / f"{slug(run)}.json"
    described = f"{run!r} {surroundings()}"
    if kept.exists() and not fresh:
        content = json.loads(kept.read_text(encoding="utf-8"))
        if content["run"] == described:
            return Outcome.from_json(json.dumps(content["outcome"])), content["itself"]
    first, second = execute(corpus, run), execute(corpus, run)
    stable = stable_output(first, second)
    itself = str(compare(stable, second))
    kept.parent.mkdir(parents=True, exist_ok=True)
    content = {"run": described, "itself": itself, "outcome": asdict(stable)}
    kept.write_text(json.dumps(content, indent=1), encoding="utf-8")
    return stable, itself


@click.group()
def main() -> None:
    """Public training scripts, as they are and rewritten."""


@main.command()
@click.option("--corpus", type=folder, required=True, help="Folder with the repositories, side by side.")
@click.option("--out", type=folder, required=True, help="Where results are kept.")
@click.option("--only", multiple=True, help="Scripts whose name contains this.")
@click.option("--fresh", is_flag=True, help="Run again what was already run.")
def baseline(corpus: Path, out: Path, only: tuple[str, ...], fresh: bool) -> None:
    """Run every original twice and compare it with itself."""
    trained = exact = 0
    for run in chosen(only):
        outcome, itself = reference_of(run, corpus, out, fresh=fresh)
        trained += outcome.trained
        exact += outcome.trained and itself == "equal"
        click.echo(
            f"{run.name:95} {outcome.status:9} {len(outcome.losses):5} losses {outcome.steps:5} steps "
            f"{outcome.seconds:6.1f} s  {itself}  {outcome.error[:100]}"
        )
    click.echo(f"{trained} trained, {exact} of them equal to themselves")


def rewrite_tree(corpus: Path, target: Path, repositories: set[str]) -> None:
    """Copy the repositories and rewrite the copies in place with the command line."""
    path = os.pathsep.join([str(PROJECT), str(PROJECT / "codemods")])
    state = {"XDG_STATE_HOME": str(target / "state"), "XDG_CACHE_HOME": str(target / "cache")}
    for name in sorted(repositories):
        shutil.rmtree(target / name, ignore_errors=True)
        shutil.copytree(corpus / name, target / name, ignore=skip_large)
        command = [sys.executable, "-m", "autoaccel", "rewrite", *_BUT_FOR, str(target / name)]
        variables = {**os.environ, **state, "PYTHONPATH": path}
        done = subprocess.run(command, cwd=target, env=variables, capture_output=True, text=True, check=False)
        log = done.stdout + done.stderr
        (target / f"{name}.log").write_text(log, encoding="utf-8")
        click.echo(f"rewrite {name}: exit status {done.returncode}: {''.join(log.splitlines()[-1:])}", err=True)


@main.command()
@click.option("--corpus", type=folder, required=True, help="Folder with the repositories, side by side.")
@click.option("--out", type=folder, required=True, help="Where results and the rewritten tree are kept.")
@click.option("--rewritten", type=folder, help="An already rewritten tree; made in OUT otherwise.")
@click.option("--only", multiple=True, help="Scripts whose name contains this.")
@click.option(
    "--mode", "modes", multiple=True, type=click.Choice(list(MODES)), default=list(MODES), help="a, b or both."
)
def run(corpus: Path, out: Path, rewritten: Path | None, only: tuple[str, ...], modes: tuple[str, ...]) -> None:
    """Run the rewritten scripts and compare them with the originals. Exit status 1 on a difference."""
    runs = chosen(only)
    if rewritten is None:
        rewritten = out / "rewritten"
        rewrite_tree(corpus, rewritten, {each.repository for each in runs})
    kept = out / "results.json"
    rows: dict[str, dict[str, Any]] = json.loads(kept.read_text(encoding="utf-8")) if kept.exists() else {}
    equal = trained = different = 0
    for each in runs:
        start = time.perf_counter()
        reference, itself = reference_of(each, corpus, out, fresh=False)
        changed = (corpus / each.path_in_tree).read_bytes() != (rewritten / each.path_in_tree).read_bytes()
        verdicts = {mode: str(compare(reference, execute(rewritten, each, MODES[mode]))) for mode in modes}
        same = all(verdict == "equal" for verdict in verdicts.values())
        trained += reference.trained
        equal += reference.trained and same
        different += itself == "equal" and not same
        rows[each.name] = {
            "trained": reference.trained,
            "status": reference.status,
            "steps": reference.steps,
            "losses": len(reference.losses),
            "itself": itself,
            "changed": changed,
            **verdicts,
            "seconds": round(time.perf_counter() - start, 1),
        }
        kept.write_text(json.dumps(rows, indent=1), encoding="utf-8")
        said = "  ".join(f"{mode}: {verdict}" for mode, verdict in verdicts.items())
        click.echo(
            f"{each.name:95} {'changed' if changed else 'same   '} {reference.status:9} {reference.steps:5} steps  "
            f"itself: {itself}  {said}"
        )
    click.echo(f"{trained} scripts train on this machine, {equal} of them the same after the rewrite")
    sys.exit(1 if different else 0)


@main.command()
@click.option("--json", "as_json", is_flag=True, help="Every finding and skip as JSON.")
@click.argument("paths", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
def survey(paths: tuple[Path, ...], as_json: bool) -> None:
    """Rewrite every .py file below PATHS in memory and tabulate what each rule did and declined."""
    from benchmarks.public_scripts import surveying

    result = surveying.survey(paths)
    click.echo(surveying.to_json(result) if as_json else surveying.table(result))
    sys.exit(1 if result.problems else 0)


@main.command()
@click.option("--corpus", type=folder, required=True, help="Folder with the repositories, side by side.")
@click.option(
    "--truth", type=click.Path(exists=True, path_type=Path), required=True, help="What a reader found, as JSON."
)
def judge(corpus: Path, truth: Path) -> None:
    """Compare what the rules find with what a reader of the same scripts found."""
    from benchmarks.public_scripts import judging, surveying

    expected = json.loads(truth.read_text(encoding="utf-8"))
    result = surveying.survey(sorted({corpus / script.split("/")[0] for script in expected}))
    click.echo(judging.table(judging.judge(expected, result.files, corpus)))


if __name__ == "__main__":
    main()
