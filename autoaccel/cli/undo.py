"""`autoaccel undo`: takes back the last rewrite, and keeps what was edited since."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from autoaccel.cli.options import output_options
from autoaccel.cli.terminal import Terminal, terminal
from autoaccel.jobs import undoing
from autoaccel.jobs.undoing import FileChange, Restored, UndoRecord
from autoaccel.reports import diff
from autoaccel.reports.context import shown
from autoaccel.reports.counting import counted
from autoaccel.sources import Source

DONE, FAILED = 0, 2

_NAMED = 3


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """One file that is written: what it was, and the text that it gets."""

    path: Path
    source: Source
    after: str

    @property
    def file(self) -> Path:
        """What is written, which git does not look for behind links."""
        return Path(os.path.realpath(self.path))

    @property
    def written(self) -> FileChange:
        return FileChange(self.file, self.source.data, self.source.encode(self.after))

    def patch(self, root: Path) -> bytes:
        """The change as a patch whose file name is relative to `root`."""
        name = self.file.relative_to(root).as_posix()
        both = self.source.data, self.source.encode(self.after)
        before, after = (each.decode(self.source.encoding) for each in both)
        return diff.encoded(diff.unified(before, after, name), self.source.encoding)


@dataclass(frozen=True, slots=True)
class Kept:
    """The record of what is written, or the reason why there is none."""

    file: Path | None
    error: str = ""

    @property
    def hint(self) -> str:
        """How to take it back."""
        if self.file is None:
            return f"To undo, use your version control (no patch could be kept: {self.error})."
        return "Undo: autoaccel undo"

    def discard(self) -> None:
        """Something else was written, or nothing."""
        if self.file is not None:
            self.file.unlink(missing_ok=True)


def keep(changes: Sequence[WrittenFile], others: Sequence[FileChange] = ()) -> Kept:
    """Keep what is to be written; `others` are files that no patch shows."""
    root = Path(os.path.commonpath([change.file.parent for change in changes]))
    patch = b"".join(change.patch(root) for change in changes)
    try:
        written = (*(change.written for change in changes), *others)
        return Kept(undoing.save(written, patch))
    except OSError as error:
        return Kept(None, str(error))


@click.command(short_help="Take back the last rewrite.")
@click.option("--list", "lists", is_flag=True, help="List what can be taken back, and do nothing.")
@output_options
def undo(lists: bool, color: str, quiet: bool, verbose: bool) -> int:
    """Take back the last rewrite that was made in this folder, or of files in it; the next time, the one before.

    What was edited since stays. Where that cannot be, nothing is changed, the lines are shown, and the exit status is
    2.
    """
    speaker = terminal(color, quiet=quiet, verbose=verbose)
    here = Path.cwd()
    records = undoing.records()
    if lists:
        speaker.product("".join(f"{_line(each, here)}\n" for each in records).encode("utf-8", "backslashreplace"))
        if not records:
            speaker.say("No rewrite is kept.")
        return DONE
    record = next((each for each in records if each.concerns(here)), None)
    if record is None:
        speaker.fail(f"{here}: no rewrite of files here is kept; `autoaccel undo --list` shows all")
        return FAILED
    return _take_back(record, here, speaker)


def _take_back(record: UndoRecord, here: Path, speaker: Terminal) -> int:
    files = undoing.restored(record)
    for each in files:
        if each.problem is not None:
            speaker.fail(f"{_name(each.path, here)}: cannot be taken back, {each.problem}")
            _show(each, speaker)
    if any(each.problem is not None for each in files):
        speaker.fail(f"nothing was changed; the rewrite as a patch: {record.file}")
        return FAILED
    undoing.unchanged(files)
    for each in files:
        if each.then != each.now:
            undoing.put(each.path, each.then)
    record.file.unlink(missing_ok=True)
    for each in files:
        if each.merged:
            speaker.say(f"{_name(each.path, here)}: taken back, what was edited since is kept")
    changed = sum(each.then != each.now for each in files)
    what = f"{counted(changed, 'file')} taken back" if changed else "Nothing was left to take back"
    speaker.say(f"{what}, of the rewrite at {_time(record)}: {_names(record, here)}.")
    return DONE


def _show(restored: Restored, speaker: Terminal) -> None:
    """Lines that both sides have changed: as they are, and as they were before the rewrite."""
    for each in restored.conflicts:
        lines = [*(f"-{_decoded(line)}" for line in each.ours), *(f"+{_decoded(line)}" for line in each.theirs)]
        speaker.fail("\n".join((f"line {each.line}:", *lines)), lines=True)


def _decoded(line: bytes) -> str:
    return line.decode("utf-8", "backslashreplace").rstrip("\r\n")


def _line(record: UndoRecord, here: Path) -> str:
    return f"{_time(record)}  {_names(record, here)}"


def _time(record: UndoRecord) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(record.when / 10**9))


def _names(record: UndoRecord, here: Path) -> str:
    names = [_name(each.path, here) for each in record.written]
    return ", ".join(names[:_NAMED]) + (f" and {counted(len(names) - _NAMED, 'other')}" if len(names) > _NAMED else "")


def _name(path: Path, here: Path) -> str:
    return shown(str(path.relative_to(here) if path.is_relative_to(here) else path))
