"""`python -m benchmarks.suite [--device cuda]`; see the README beside this file."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import click

from benchmarks.suite import drawing, measuring, reporting, running
from benchmarks.suite.candidates import STANDINS, Setting
from benchmarks.suite.catalogue import AGAIN, COLUMNS, ORIGINAL, SUITE, WORKERS, chosen, shard
from benchmarks.suite.results import Run, joined

PROJECT = Path(__file__).resolve().parents[2]
RESULTS = PROJECT / "benchmarks" / "results"
_SAMPLES = {"small": (2_000, 500), "full": (50_000, 10_000)}  # of stand-ins for data sets: to train, to test
_SECONDS = 560.0  # of the ten minutes: what comes before and after takes some


class Shard(click.ParamType):  # type: ignore[type-arg,unused-ignore] # generic in newer versions
    """`1/3`."""

    name = "shard"

    def convert(self, value: object, _: click.Parameter | None, __: click.Context | None) -> tuple[int, int]:
        if isinstance(value, tuple):
            return value
        number, _slash, count = str(value).partition("/")
        if not (number.isdecimal() and count.isdecimal() and 1 <= int(number) <= int(count)):
            self.fail(f"{value} is not like 1/3")
        return int(number), int(count)


@click.command()
@click.option("--device", type=click.Choice(["cpu", "cuda"]), default="cpu", show_default=True)
@click.option("--size", type=click.Choice(["small", "full"]), help="Default: small on a CPU, full on a GPU.")
@click.option("--only", default="", metavar="A,B", help="These scripts.")
@click.option("--columns", default="", metavar="A,B", help=f"Of {', '.join(COLUMNS)}.")
@click.option("--shard", "part", type=Shard(), default="1/1", metavar="1/3", help="A part of the scripts.")
@click.option("--seconds", default=_SECONDS, show_default=True, help="What the run may take.")
@click.option("--replicates", type=click.IntRange(min=1),
              help="Processes of a rewritten column, where time suffices. Default: 3; on a GPU 2.")  # fmt: skip
@click.option("--fresh", is_flag=True, help="Start every run as a program of its own: slower than to fork it.")
@click.option("--data", type=click.Path(path_type=Path, file_okay=False), help="Keep generated files there.")
@click.option("--cache", type=click.Path(path_type=Path, file_okay=False), help="Keep compiled code there.")
@click.option("--output", type=click.Path(path_type=Path, file_okay=False), default=RESULTS, help="For the results.")
@click.option("--merge", "merged", multiple=True, type=click.Path(path_type=Path, exists=True), metavar="FILE",
              help="Measure nothing: make one result of these.")  # fmt: skip
def main(
    device: str,
    size: str | None,
    only: str,
    columns: str,
    part: tuple[int, int],
    seconds: float,
    replicates: int | None,
    fresh: bool,
    data: Path | None,
    cache: Path | None,
    output: Path,
    merged: tuple[Path, ...],
) -> None:
    """Measure the suite, and write `suite_DEVICE.json`, `.md` and `.svg`."""
    order = [each.id for each in SUITE]
    if merged:
        runs = [Run.from_json(path.read_text(encoding="utf-8")) for path in merged]
        try:
            whole = joined(runs, order)
            write(whole, output, _name(whole.device, (1, 1)))
        except ValueError as error:
            raise click.ClickException(str(error)) from error
        return
    begun = time.monotonic()
    size = size or ("full" if device == "cuda" else "small")
    try:
        scripts = shard(chosen(_names(only)), *part)
    except ValueError as error:
        raise click.ClickException(str(error)) from error
    wanted_columns = _names(columns) or [name for name in COLUMNS if device == "cuda" or name != WORKERS]
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(_folder(data, running.data_folder(size)))
        compiled = stack.enter_context(
            _folder(cache, Path(tempfile.gettempdir()) / f"autoaccel-suite-code-{os.getpid()}")
        )
        environment = surroundings(device, size, compiled)
        _prepare(size, folder, environment)
        wanted = running.Wanted(
            scripts,
            [ORIGINAL, AGAIN, *wanted_columns] if not columns else wanted_columns,
            Setting(size, device, folder),
            measuring.FULL if device == "cuda" else measuring.SMALL,
            seconds - (time.monotonic() - begun),
            replicates or (2 if device == "cuda" else 3),
            forks=not fresh,
        )

        def named(run: Run) -> Run:
            threads = os.environ.get("OMP_NUM_THREADS", "")
            facts = {**run.machine, "threads": threads, "commit": commit, "date": time.strftime("%Y-%m-%d")}
            machine = {name: value for name, value in facts.items() if value}
            return dataclasses.replace(
                run, machine=machine, planned_seconds=seconds, used_seconds=time.monotonic() - begun
            )

        def keep(run: Run) -> None:
            (output / f"{name}.json").write_text(named(run).to_json(), encoding="utf-8")

        commit = _commit()
        name = _name(device, part)
        output.mkdir(parents=True, exist_ok=True)
        found = named(running.run(wanted, environment, _say, keep))
    write(found, output, name)


def write(run: Run, output: Path, name: str) -> None:
    """All three files, and the short table."""
    output.mkdir(parents=True, exist_ok=True)
    (output / f"{name}.json").write_text(run.to_json(), encoding="utf-8")
    (output / f"{name}.svg").write_text(drawing.draw(run), encoding="utf-8")
    (output / f"{name}.md").write_text(reporting.page(run, picture=f"{name}.svg"), encoding="utf-8")
    print(reporting.short(run), end="")


def surroundings(device: str, size: str, compiled: Path) -> dict[str, str]:
    """The environment of all scripts: nothing of this machine's user decides."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("AUTOACCEL_", "TORCHINDUCTOR_"))}
    kept |= {"TORCHINDUCTOR_CACHE_DIR": str(compiled), "AUTOACCEL_CACHE_DIR": str(compiled)}
    if device == "cpu":
        kept["CUDA_VISIBLE_DEVICES"] = ""
    if importlib.util.find_spec("torchvision") is None:
        kept["PYTHONPATH"] = os.pathsep.join([str(STANDINS), *filter(None, [kept.get("PYTHONPATH")])])
    samples, tests = _SAMPLES[size]
    return kept | {"STANDIN_SAMPLES": str(samples), "STANDIN_TEST_SAMPLES": str(tests)}


def _prepare(size: str, folder: Path, environment: dict[str, str]) -> None:
    """Files that scripts read."""
    if importlib.util.find_spec("benchmarks.suite.data") is None:
        return
    command = [sys.executable, "-m", "benchmarks.suite.data", "--size", size, str(folder)]
    done = subprocess.run(command, cwd=PROJECT, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise click.ClickException(f"data could not be generated: {(done.stderr.strip().splitlines() or [''])[-1]}")


@contextlib.contextmanager
def _folder(given: Path | None, own: Path) -> Iterator[Path]:
    """A folder of the user's stays; one of our own does not."""
    folder = (given or own).absolute()
    folder.mkdir(parents=True, exist_ok=True)
    try:
        yield folder
    finally:
        if given is None:
            shutil.rmtree(folder, ignore_errors=True)


def _name(device: str, part: tuple[int, int]) -> str:
    number, count = part
    return f"suite_{device}" + (f"_{number}of{count}" if count > 1 else "")


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _commit() -> str:
    """What was measured; with a plus where files differ from it."""
    git = ["git", "-C", str(PROJECT)]
    try:
        commit = subprocess.run([*git, "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True)
        changed = subprocess.run([*git, "status", "--porcelain", "-uno"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return ""
    return commit.stdout.strip() + ("+" if changed.stdout.strip() else "")


def _say(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    main()
