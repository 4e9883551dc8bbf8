"""`python -m benchmarks.throughput NAME=TREE... [--torchfix EXECUTABLE]`; see the README beside this file."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from benchmarks.throughput.measuring import measure
from benchmarks.throughput.reporting import report
from benchmarks.throughput.trees import Tree, revision, survey

PROJECT = Path(__file__).resolve().parents[2]
RESULTS = PROJECT / "benchmarks" / "results"

# Everybody looks at the same files.
ALL_FILES = ["--isolated", "--no-respect-gitignore", "--exclude", "/there/is/none"]


@click.command()
@click.argument("trees", nargs=-1, required=True, metavar="NAME=TREE...")
@click.option("--torchfix", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Its executable.")
@click.option("--rounds", default=5, show_default=True, help="Turns of each contender.")
@click.option("--torchfix-rounds", default=1, show_default=True, help="Turns of TorchFix, which take long.")
@click.option("--results", type=click.Path(path_type=Path), default=RESULTS, help="The folder of throughput.{json,md}.")
def main(trees: tuple[str, ...], torchfix: Path | None, rounds: int, torchfix_rounds: int, results: Path) -> None:
    """Measure, and put the results of these trees in the place of older ones."""
    surveyed = [survey(name, Path(path).resolve()) for name, _, path in (tree.partition("=") for tree in trees)]
    contenders = {"autoaccel full": "full", "autoaccel concise": "concise"}
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    environment["PYTHONPATH"] = os.pathsep.join((str(PROJECT), str(PROJECT / "codemods")))
    runs: list[dict[str, Any]] = []
    _compile(torchfix, environment)
    for number in range(max(rounds, torchfix_rounds if torchfix else 0)):
        for tree in surveyed:
            if torchfix is not None and number < torchfix_rounds:
                runs.append(_run("torchfix", [str(torchfix), "--select", "ALL", str(tree.path)], tree, environment))
            if number < rounds:
                for contender, output_format in contenders.items():
                    runs.extend(_cold_and_warm(contender, output_format, tree, environment))
    _record(surveyed, runs, _versions(torchfix), results)


def _lint(*arguments: str) -> list[str]:
    """The command as the installed script starts it."""
    start = "from autoaccel.cli.main import main; main()"
    return [sys.executable, "-c", start, "lint", *ALL_FILES, *arguments]


def _compile(torchfix: Path | None, environment: dict[str, str]) -> None:
    """The tools' own bytecode is there before anything is measured."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "x.py").write_text("import torch\ny = torch.zeros(3).to('cuda')\n")
        for command in (
            _lint("--no-cache", folder),
            *([[str(torchfix), "--select", "ALL", folder]] if torchfix else []),
        ):
            measure(command, PROJECT, environment)


def _cold_and_warm(contender: str, output_format: str, tree: Tree, environment: dict[str, str]) -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as cache:
        command = _lint("--output-format", output_format, "--cache-dir", cache, str(tree.path))
        return [_run(f"{contender}, {state}", command, tree, environment) for state in ("cold", "warm")]


def _run(contender: str, command: list[str], tree: Tree, environment: dict[str, str]) -> dict[str, Any]:
    cost = measure(command, tree.path, environment)
    print(f"{tree.name}: {contender}: {cost.cpu:.2f} CPU-s, {cost.wall:.2f} s, exit {cost.status}", flush=True)
    return {"tree": tree.name, "contender": contender, **asdict(cost)}


def _versions(torchfix: Path | None) -> dict[str, str]:
    from autoaccel import __version__

    versions = {
        "autoaccel": f"{__version__} ({revision(PROJECT)})",
        "python": platform.python_version(),
        "machine": f"{os.cpu_count()} cores, {_processor()}",
        "date": time.strftime("%Y-%m-%d"),
    }
    if torchfix is not None:
        code = "import importlib.metadata as m, platform; "
        code += (
            "print(m.version('torchfix'), '(LibCST', m.version('libcst') + ', Python', platform.python_version() + ')')"
        )
        done = subprocess.run([torchfix.parent / "python", "-c", code], capture_output=True, text=True, check=False)
        versions["torchfix"] = done.stdout.strip()
    return versions


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")


def _record(trees: list[Tree], runs: list[dict[str, Any]], versions: dict[str, str], results: Path) -> None:
    file = results / "throughput.json"
    known = json.loads(file.read_text()) if file.exists() else {}
    for tree in trees:
        facts = {key: value for key, value in asdict(tree).items() if key not in ("name", "path")}
        mine = [{key: run[key] for key in run if key != "tree"} for run in runs if run["tree"] == tree.name]
        known[tree.name] = {"facts": facts, "versions": versions, "runs": mine}
    results.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(known, indent=1) + "\n")
    (results / "throughput.md").write_text(report(known))


if __name__ == "__main__":
    main()
