"""Runs a script as one rank of several, or as the only process, in a fork of a process that has imported torch.

Everything is computed in float64, so that what several processes round otherwise stays far below what a mistake makes:
that is torch's default type, loaders give it, and modules are given it. Recorded are the losses that go backward, the
optimizer steps, which files the rank writes; what it prints goes to a file of its own.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import torch

from autoaccel.measure.observing import double_precision
from autoaccel.measure.observing.hooks import around
from benchmarks.public_scripts import observe


def be_a_rank(
    rank: int, script: Path, arguments: list[str], folder: Path, results: Path, options: dict[str, Any]
) -> None:
    """Run a script, and write what it did to `results`."""
    os.chdir(folder)
    os.environ.update(options["environment"])
    sys.path[:0] = ["", *options["path"]]  # the first one gives way to the folder of the script
    observation = observe.Observation(options["stop_after"], options["count"])
    double_precision.install()
    for shim in options["shims"]:
        observe.SHIMS[shim]()
    observe.install(observation)
    observe.settle(0)
    written = _watched()
    try:
        observe.execute(script, arguments)
    except observe.Stop:
        pass
    finally:
        record = {"losses": observation.losses, "steps": observation.steps, "written": sorted(written)}
        (results / f"record.{rank}").write_text(json.dumps(record), encoding="utf-8")


def _watched() -> set[str]:
    """The files that this process opens for writing from now on: by Python, and by `torch.save`."""
    found: set[str] = set()

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open" and arguments[2] & (os.O_WRONLY | os.O_RDWR) and isinstance(arguments[0], str):
            found.add(os.path.realpath(arguments[0]))

    sys.addaudithook(hook)

    @around(torch, "save")
    def save(plain: Any, obj: Any, f: Any, *args: Any, **kwargs: Any) -> None:
        plain(obj, f, *args, **kwargs)
        if isinstance(f, str | os.PathLike):
            found.add(os.path.realpath(f))

    return found
