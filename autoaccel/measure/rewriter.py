"""Which files of a project are rewritten while a script runs, and into what."""

from __future__ import annotations

import os
import sysconfig
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from autoaccel import sources
from autoaccel.discovery import PROJECT_FILES

# Where a project begins: the nearest folder above a script that holds one of these.
_ROOTS = (".git", *PROJECT_FILES)
_LIBRARIES = frozenset({"site-packages", "dist-packages"})


@dataclass(frozen=True, slots=True)
class Rewriter:
    """Rewrites the files below `root`, but for libraries that are installed there.

    `rewrite` takes a path and a text and returns the new text; new processes get it too, so it must be possible to
    pickle it. It raises `ValueError`, whose message is one line, for what it cannot do; the file stays as it is then.
    """

    root: Path
    rewrite: Callable[[Path, str], str]
    tell: Callable[[str], None]
    origin: Path | None = None
    """Another folder of the project's files."""
    own_lines: bool = False
    """Whether a new text has the lines that it has, and not those of the file that is there."""
    kept_in_imports: Path | None = None
    """A file that is imported as it is: what is run in its place is another one, which may import it."""

    def concerns(self, path: Path) -> bool:
        """Whether a file belongs to the project."""
        real = Path(os.path.realpath(path))
        if not any(real.is_relative_to(each) for each in (self.root, self.origin) if each):
            return False
        if _LIBRARIES & set(real.parts):
            return False
        return not any(real.is_relative_to(folder) for folder in _foreign())

    def rewritten(self, path: Path) -> tuple[str, str] | None:
        """The text of a file before and after; None where nothing changes."""
        try:
            before = sources.read(path).text
            after = self.rewrite(path, before)
        except ValueError as error:
            self.tell(str(error))
            return None
        return None if after == before else (after if self.own_lines else before, after)


def project_root(folder: Path) -> Path:
    """The folder that holds the project around a script's folder; that folder itself where nothing marks a project."""
    folder = Path(os.path.realpath(folder))
    for outer in (folder, *folder.parents):
        if any((outer / name).exists() for name in _ROOTS):
            return outer
    return folder


def _foreign() -> list[Path]:
    """The standard library, and this tool, whose runtime the rewritten code imports."""
    tool = Path(__file__).resolve().parent.parent
    library = Path(os.path.realpath(sysconfig.get_path("stdlib")))
    return [tool, tool.parent / "codemods", library]
