"""Ends what was started when the tool itself can no longer do it: a process of its own, run by its path with `-I -S`.

It reads what there is to end, a line each, and acts when its input ends: then the tool has ended, however it did. After
an orderly end nothing is left to do. What belongs to a run is known by an entry of its environment, which processes
inherit wherever they go, and by its process group, for systems without /proc.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Iterable, Iterator

MARK = "AUTOACCEL_OBSERVED_RUN"


def processes_of(run: str) -> list[int]:
    """The living processes of one run or, by the beginning of their names, of all runs of a tool. Linux only."""
    begin = f"{MARK}={run}".encode()
    return [process for process, entries in _environments() if any(entry.startswith(begin) for entry in entries)]


def signal_all(number: int, groups: Iterable[int], processes: Iterable[int]) -> None:
    """Send a signal to whoever is still there."""
    for send, targets in ((os.killpg, groups), (os.kill, processes)):
        for target in targets:
            try:
                send(target, number)
            except (ProcessLookupError, PermissionError):
                continue


def _environments() -> Iterator[tuple[int, list[bytes]]]:
    try:
        names = os.listdir("/proc")  # noqa: PTH208 - pathlib would be most of the start of the watchdog
    except OSError:
        return
    own = os.getpid()
    for name in names:
        if not name.isdigit() or int(name) == own:
            continue
        try:
            with open(f"/proc/{name}/environ", "rb") as file:  # noqa: PTH123
                content = file.read()
        except OSError:  # somebody else's, or gone
            continue
        if content:  # what is dead and waits for its parent has none
            yield int(name), content.split(b"\0")


def main(run: str) -> None:
    """Keep a list until the input ends: `group NUMBER`, `ended NUMBER`, `folder PATH`, `gone PATH`."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    groups: set[int] = set()
    folders: set[str] = set()
    for line in sys.stdin:
        kind, _, value = line.rstrip("\n").partition(" ")
        if kind == "group":
            groups.add(int(value))
        elif kind == "ended":
            groups.discard(int(value))
        elif kind == "folder":
            folders.add(value)
        elif kind == "gone":
            folders.discard(value)
    if groups or folders:
        signal_all(signal.SIGKILL, groups, processes_of(run))
        # A process that was just being started when the list was made.
        signal_all(signal.SIGKILL, (), processes_of(run))
    for folder in folders:
        _settle(folder)
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)


def _settle(folder: str) -> None:
    """See to what a run created, if that is what the folder is about."""
    # Only now: what follows takes longer to import than the watchdog takes to start.
    sys.path.insert(0, os.path.abspath(f"{__file__}/../../.."))
    from pathlib import Path

    from autoaccel.measure import scratch
    from autoaccel.measure.observing.exchange import Exchange

    scratch.settle(Exchange(Path(folder)))


if __name__ == "__main__":
    main(sys.argv[1])
