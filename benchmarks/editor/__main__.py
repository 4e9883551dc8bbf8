"""`python -m benchmarks.editor`; see the README beside this file."""

from __future__ import annotations

import os
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import click

from autoaccel import __version__
from autoaccel.config import configure
from autoaccel.servers import open_text
from benchmarks.editor.script import script

_SHAPES = ((250, 1, 0), (500, 1, 0), (1000, 1, 0), (1000, 1, 5), (1000, 3, 0), (1000, 10, 0))
# lines, training loops, modules of 250 lines that it imports


@click.command()
@click.option("--keys", default=60, show_default=True, help="Keystrokes for each script.")
def main(keys: int) -> None:
    """Type into scripts, and print what each answer costs, as a table."""
    print(f"autoaccel {__version__}, Python {platform.python_version()}, {os.cpu_count()} cores, {sys.platform}.\n")
    print("| lines | training loops | modules | findings | answer, fastest | median | p95 | one change | whole file |")
    print("|---:|---:|---:|---:|---:|---:|---:|---:|---:|")
    for shape in _SHAPES:
        print(_row(*shape, keys), flush=True)


def _row(lines: int, loops: int, modules: int, keys: int) -> str:
    text = script(lines, loops)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "train.py")
        for number in range(modules):
            Path(folder, f"models{number}.py").write_text(script(250, 0))
            text = f"from models{number} import Encoder0 as Other{number}\n{text}"
        path.write_text(text)
        configured, around = partial(configure, path.parent), open_text.Surroundings()

        def look(typed: str) -> open_text.OpenText:
            return open_text.inspect(typed, path, lambda _: configured(), {}, around)

        found = look(text)
        whole = [_cost(open_text.rewritten, text, path, lambda _: configured(), {}, around) for _ in range(5)]
        one = [_cost(found.with_finding, 0) for _ in range(5)]
        answers = [_cost(look, typed) for typed in _typed(text, keys)]
    high = statistics.quantiles(answers, n=20)[-1]
    figures = (min(answers), statistics.median(answers), high, statistics.median(one), statistics.median(whole))
    costs = " | ".join(f"{each * 1000:.0f} ms" for each in figures)
    return f"| {text.count(chr(10))} | {loops} | {modules} | {len(found.records)} | {costs} |"


def _typed(text: str, keys: int) -> list[str]:
    """The text as it becomes key by key: a statement in the training loop, each time one that can be parsed."""
    before, line, after = text.partition("        loss = criterion(outputs, labels)\n")
    return [f"{before}{line}        scale{'d' * number} = loss * {number}\n{after}" for number in range(keys)]


def _cost(work: Callable[..., object], *arguments: object) -> float:
    """Seconds of CPU time."""
    begin = time.process_time()
    work(*arguments)
    return time.process_time() - begin


if __name__ == "__main__":
    main()
