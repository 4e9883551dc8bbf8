"""`python -m benchmarks.same_script`; see the README beside this file."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from benchmarks.same_script.reporting import Run, table

PROJECT = Path(__file__).resolve().parents[2]
RESULT = PROJECT / "benchmarks" / "results" / "same_script.md"


@dataclass(frozen=True, slots=True)
class Subject:
    """A script that goes on for longer than it is watched."""

    name: str
    arguments: tuple[str, ...] = ()


SUBJECTS = (
    Subject("mnist.py"),
    Subject("vae.py", ("--epochs", "1000")),
    Subject("dcgan.py", ("--epochs", "1000")),
    Subject("mnist_functions.py", ("--epochs", "1000")),
)


@click.command()
@click.option("--runs", default=20, show_default=True, help="Benchmarks, of one script after the other.")
@click.option("--time", "seconds", default=8.0, show_default=True, help="Seconds that each contender is timed.")
@click.option("--result", type=click.Path(path_type=Path), default=RESULT, help="The table.")
def main(runs: int, seconds: float, result: Path) -> None:
    """Measure scripts against themselves, and put the result in the place of an older one."""
    done: list[Run] = []
    for number in range(runs):
        begun = time.monotonic()
        subject = SUBJECTS[number % len(SUBJECTS)]
        report = bench(subject, seconds)
        run = Run.of(subject.name, report)
        done.append(run)
        print(
            f"{number + 1:2} {run.script}: {run.median:.3f} ({run.low:.3f} to {run.high:.3f}, {run.blocks} blocks)"
            f"{'' if run.is_right else '  NOT 1.00'}, {time.monotonic() - begun:.0f} s",
            flush=True,
        )
        machine = report["machine"] | {"date": time.strftime("%Y-%m-%d")}
        # After every run: a series that is cut short is one, too.
        result.write_text(table(done, machine, report["level"]), encoding="utf-8")


def bench(subject: Subject, seconds: float) -> dict[str, Any]:
    """The report of one benchmark in which nothing is rewritten."""
    options = ["--isolated", "--ignore", "AA", "--time", str(seconds), "--json", "-"]
    script = PROJECT / "fixtures" / "scripts" / subject.name
    command = [sys.executable, "-m", "autoaccel", "bench", *options, str(script), "--", *subject.arguments]
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(command, cwd=folder, env=_environment(), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise click.ClickException(f"{subject.name}: {done.stderr.strip()}")
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def _environment() -> dict[str, str]:
    paths = (PROJECT, PROJECT / "codemods", PROJECT / "tests" / "standins")
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(map(str, paths)),
        "STANDIN_SAMPLES": "50000",
        "STANDIN_TEST_SAMPLES": "100",
    }


if __name__ == "__main__":
    main()
