"""`python -m benchmarks.gpu`; see the README beside this file."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from pathlib import Path

os.environ.setdefault("AUTOACCEL_REMEMBER", "off")  # before the runtime is imported: every trial is a new one

import click
import torch

from benchmarks.gpu.measuring import Row, failed
from benchmarks.gpu.sections import SECTIONS

RESULTS = Path(__file__).resolve().parents[1] / "results" / "gpu.md"


@click.command()
@click.argument("sections", nargs=-1, type=click.Choice(list(SECTIONS)))
@click.option("--output", type=click.Path(path_type=Path, dir_okay=False), default=RESULTS, help="For the tables.")
def main(sections: tuple[str, ...], output: Path) -> None:
    """Ask the sections, all of them by default; on a CPU for want of a GPU, and then nothing is written by default."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    name = torch.cuda.get_device_name() if device.type == "cuda" else platform.processor() or platform.machine()
    lines = ["# What a GPU has to tell", "", f"{name}, torch {torch.__version__}, {os.cpu_count()} CPUs."]
    for section in sections or SECTIONS:
        lines += ["", f"## {section}", "", "| what | answer |", "|---|---|"]
        for row in _asked(section, device):
            lines.append(f"| {row.question} | {row.answer} |")
            click.echo(f"{row.answer:>14}  {row.question}")
    if device.type == "cuda" or output != RESULTS:
        output.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _asked(section: str, device: torch.device) -> Iterator[Row]:
    """The rows of a section, as far as it gets: the others are to be asked all the same."""
    try:
        yield from SECTIONS[section](device)
    except Exception as failure:
        yield Row(f"{section} ended early", failed(failure))


if __name__ == "__main__":
    main()
