"""Removes what a run created: its files, and the folders that it made for them."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Collection, Iterator
from pathlib import Path

from autoaccel.measure.observing.exchange import FILE, FOLDER, KEPT, REMOVED_FOLDER, Exchange


def remove_created(exchange: Exchange) -> None:
    """What was downloaded stays for the next run; what was moved into a new folder from elsewhere stays there."""
    try:
        began = exchange.request.stat().st_mtime
    except OSError:
        return
    entries = list(_entries(exchange))
    folders = sorted({path for kind, path in entries if kind == FOLDER}, key=len, reverse=True)
    for kind, path in entries:
        if kind == FILE:
            with contextlib.suppress(OSError):
                os.unlink(path)  # noqa: PTH108 - a link, not what it leads to
    kept = {path for kind, path in entries if kind == KEPT}
    for folder in folders:
        _empty(folder, began, kept)
        with contextlib.suppress(OSError):
            Path(folder).rmdir()
    for kind, path in entries:
        if kind == REMOVED_FOLDER:
            with contextlib.suppress(OSError):
                Path(path).mkdir(parents=True)


def _entries(exchange: Exchange) -> Iterator[tuple[str, str]]:
    try:
        lines = exchange.written.read_text(encoding="utf-8").splitlines()
    except OSError:
        return
    for line in lines:
        with contextlib.suppress(ValueError):  # the last one may be incomplete
            kind, path = json.loads(line)
            yield kind, path


def _empty(folder: str, began: float, kept: Collection[str]) -> None:
    """Remove what other programs wrote into a folder of the run, which nobody watched."""
    for place, folders, files in os.walk(folder, topdown=False):
        for name in files:
            path = Path(place, name)
            with contextlib.suppress(OSError):
                if str(path) not in kept and path.lstat().st_mtime >= began:
                    path.unlink()
        for name in folders:
            with contextlib.suppress(OSError):
                Path(place, name).rmdir()
