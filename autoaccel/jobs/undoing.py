"""What rewrites have written, and how it is taken back: records outside of the project, true whether or not git knows
the files.

A record is a patch that `git apply -R` takes; in a line before it stands all that files were, and what was written.
"""

from __future__ import annotations

import ast
import base64
import builtins
import contextlib
import json
import os
import shutil
import sys
import tempfile
import time
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from autoaccel import sources
from autoaccel.jobs.merging import Conflict, merge
from autoaccel.notebooks.documents import bound_names

_KEPT = 100
_HEAD = b"autoaccel undo 1 "


@dataclass(frozen=True, slots=True)
class FileChange:
    """One file that was written: what it was, and what it became; None where there was, or is, no such file."""

    path: Path
    before: bytes | None
    after: bytes | None


@dataclass(frozen=True, slots=True)
class UndoRecord:
    """What one run has written, from the folder that it was started in. `when` is in nanoseconds."""

    file: Path
    when: int
    folder: Path
    written: tuple[FileChange, ...]

    def concerns(self, folder: Path) -> bool:
        """Whether it was made in a folder, or has written something in there."""
        return self.folder == folder or any(each.path.is_relative_to(folder) for each in self.written)


@dataclass(frozen=True, slots=True)
class Restored:
    """What becomes of one file: `now` it is, and `then` it will be. `problem` says why that cannot be."""

    path: Path
    now: bytes | None
    then: bytes | None
    merged: bool = False
    problem: str | None = None
    conflicts: tuple[Conflict, ...] = ()


# -- records


def save(written: Sequence[FileChange], patch: bytes) -> Path:
    """Keep a record, which nobody else may read: the files may be nobody else's to read. Raises `OSError`."""
    folder = state_folder() / "undo"
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o700)
    kept = sorted(folder.glob("*.patch"))
    for old in kept[: max(0, len(kept) - _KEPT + 1)]:
        old.unlink(missing_ok=True)
    when = time.time_ns()
    name = f"{time.strftime('%Y%m%d-%H%M%S')}-{when % 10**9:09}-{written[0].path.stem}.patch"
    files = [[str(each.path), _text(each.before), _text(each.after)] for each in written]
    document = {"when": when, "folder": str(Path.cwd()), "written": files}
    head = _HEAD + base64.b64encode(zlib.compress(json.dumps(document).encode())) + b"\n"
    handle, draft = tempfile.mkstemp(dir=folder)  # readable by its owner alone
    try:
        with open(handle, "wb") as file:  # noqa: PTH123 - an open descriptor
            file.write(head + patch)
        return Path(draft).replace(folder / name)
    except BaseException:
        Path(draft).unlink(missing_ok=True)
        raise


def records() -> list[UndoRecord]:
    """What is kept, the latest first. Patches of older versions have no line before them, and are left out."""
    found = []
    for file in (state_folder() / "undo").glob("*.patch"):
        with contextlib.suppress(OSError, ValueError, LookupError, TypeError, zlib.error):
            head, _, _ = file.read_bytes().partition(b"\n")
            if head.startswith(_HEAD):
                said = json.loads(zlib.decompress(base64.b64decode(head.removeprefix(_HEAD))))
                written = (
                    FileChange(Path(path), _data(before), _data(after)) for path, before, after in said["written"]
                )
                found.append(UndoRecord(file, said["when"], Path(said["folder"]), tuple(written)))
    return sorted(found, key=lambda record: record.when, reverse=True)


def state_folder() -> Path:
    """Where the tool may keep what belongs to no project."""
    configured = Path(os.environ.get("XDG_STATE_HOME", ""))
    if configured.is_absolute():  # as the specification says: what is relative is to be ignored
        return configured / "autoaccel"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", Path.home())) / "autoaccel"
    return Path.home() / ".local" / "state" / "autoaccel"


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode("latin-1")


def _data(text: str | None) -> bytes | None:
    return None if text is None else text.encode("latin-1")


# -- taking back


def restored(record: UndoRecord) -> list[Restored]:
    """What becomes of each file. Raises `SourceError`."""
    return [_restored(each) for each in record.written]


def _restored(written: FileChange) -> Restored:
    path, before, after = written.path, written.before, written.after
    now = sources.data(path) if os.path.lexists(path) else None
    if now in (after, before):
        return Restored(path, now, before)
    if now is None:
        return Restored(path, now, now, problem="it is no longer there")
    if before is None or after is None:
        return Restored(path, now, now, problem="it was changed since")
    merged, conflicts = merge(after, now, before)
    if conflicts:
        return Restored(path, now, now, problem="its lines were changed since", conflicts=conflicts)
    problem = _breaks(now, before, merged)
    return Restored(path, now, now if problem else merged, merged=True, problem=problem)


def _breaks(now: bytes, before: bytes, merged: bytes) -> str | None:
    """What would be wrong with a script that is right line by line: what was added since may lean on the rewrite."""
    try:
        known = _unbound(now).keys() | _unbound(before).keys()
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    try:
        unbound = {name: line for name, line in _unbound(merged).items() if name not in known}
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return "with what was changed since it would no longer parse"
    for name, line in unbound.items():
        return f"`{name}`, which line {line} then says, would be bound no more"
    return None


def _unbound(text: bytes) -> dict[str, int]:
    """The names that a script reads and binds nowhere, each with a line."""
    read: dict[str, int] = {}
    bound = {*vars(builtins)}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            read.setdefault(node.id, node.lineno)
        bound.update(bound_names(node))
    return {name: line for name, line in read.items() if name not in bound}


def put(path: Path, data: bytes | None) -> None:
    """Write a file whole, or remove it, with the folders that are empty then. Raises `SourceError`."""
    if data is not None:
        sources.write_data(path, data)
        return
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise sources.SourceError(f"{path}: cannot remove: {(error.strerror or str(error)).lower()}") from error
    for folder in path.parents:
        if not any(folder.glob("*.py")):
            shutil.rmtree(folder / "__pycache__", ignore_errors=True)
        try:
            folder.rmdir()
        except OSError:  # something is left in it
            return


def unchanged(files: Iterable[Restored]) -> None:
    """Raises `SourceError` for a file that is no longer as it was looked at."""
    for each in files:
        if (sources.data(each.path) if os.path.lexists(each.path) else None) != each.now:
            raise sources.SourceError(f"{each.path}: changed while it was to be taken back, nothing was written")
