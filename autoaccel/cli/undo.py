"""How to take a rewrite back: a reverse patch outside of the project, true whether or not git knows the files."""

from __future__ import annotations

import os
import shlex
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from autoaccel.reports import diff
from autoaccel.sources import Source

_KEPT = 100


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """One file that was written: what it was, and the text it has now."""

    path: Path
    source: Source
    after: str

    @property
    def file(self) -> Path:
        """What was written, which git does not look for behind links."""
        return Path(os.path.realpath(self.path))

    def patch(self, root: Path) -> bytes:
        """The change as a patch whose file name is relative to `root`."""
        name = self.file.relative_to(root).as_posix()
        before, after = self.source.mark + self.source.text, self.source.mark + self.after
        return diff.encoded(diff.unified(before, after, name), self.source.encoding)


def hint(changes: Sequence[WrittenFile]) -> str:
    """Save the patch of these changes and say how to revert them; `git apply` needs no repository."""
    root = Path(os.path.commonpath([change.file.parent for change in changes]))
    try:
        patch = _save(changes, root)
    except OSError as error:
        return f"To undo, use your version control (no patch could be kept: {error})."
    here = "" if root == Path.cwd() else f"-C {shlex.quote(str(root))} "
    return f"Undo: git {here}apply -R {shlex.quote(str(patch))}"


def _save(changes: Sequence[WrittenFile], root: Path) -> Path:
    folder = state_folder() / "undo"
    folder.mkdir(parents=True, exist_ok=True)
    kept = sorted(folder.glob("*.patch"))
    for old in kept[: max(0, len(kept) - _KEPT + 1)]:
        old.unlink(missing_ok=True)
    patch = folder / f"{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}-{changes[0].path.stem}.patch"
    patch.write_bytes(b"".join(change.patch(root) for change in changes))
    return patch


def state_folder() -> Path:
    """Where the tool may keep what belongs to no project."""
    configured = Path(os.environ.get("XDG_STATE_HOME", ""))
    if configured.is_absolute():  # as the specification says: what is relative is to be ignored
        return configured / "autoaccel"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", Path.home())) / "autoaccel"
    return Path.home() / ".local" / "state" / "autoaccel"
