"""`--vendor`: the runtime as a folder beside the script, so that it runs where autoaccel is not installed."""

from __future__ import annotations

import ast
import contextlib
import os
import re
import shutil
from importlib import resources
from pathlib import Path

from autoaccel.sources import SourceError

FOLDER = "autoaccel_runtime"

_IMPORT = re.compile(r"^from autoaccel import runtime as (\w+)(?=[ \t]*(?:#|\r|\n|$))")


def import_vendored(text: str) -> str:
    """The same script, importing the runtime from the folder beside it."""
    if "from autoaccel import runtime as" not in text:
        return text
    from autoaccel.rewriting.places import raw_lines

    lines = raw_lines(text)
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return text
    for statement in tree.body:  # not the lines of strings that look the same
        if isinstance(statement, ast.ImportFrom):
            line = lines[statement.lineno - 1]
            lines[statement.lineno - 1] = _IMPORT.sub(rf"import {FOLDER} as \1", line)
    return "".join(lines)


def is_vendored(text: str) -> bool:
    """Whether a script imports the runtime from the folder beside it."""
    return f"import {FOLDER}" in text


def home(source: Path, destination: Path) -> Path:
    """Where a script that goes from one path to another looks for the runtime: in its own folder or, for a module of a
    package, in the one that holds the package.
    """
    here, target = Path(os.path.abspath(source)).parent, Path(os.path.abspath(destination)).parent
    while (here / "__init__.py").exists() and target != target.parent:
        here, target = here.parent, target.parent
    return target


def copy_runtime(folder: Path) -> Path:
    """Put the runtime into `folder`, in the place of an older copy. Raises `SourceError`."""
    target = folder / FOLDER
    try:
        with resources.as_file(resources.files("autoaccel") / "runtime") as source:
            shutil.copytree(source, target, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__", "*.pyc"))
            _remove_stale(source, target)
    except OSError as error:
        raise SourceError(f"{target}: cannot copy the runtime: {error}") from error
    return target


def _remove_stale(source: Path, target: Path) -> None:
    """Modules and packages that an older version had; what else is in the folder is not the tool's."""
    stale = [path for path in target.rglob("*.py") if not (source / path.relative_to(target)).is_file()]
    for path in stale:
        path.unlink()
    for folder in sorted({path.parent for path in stale}, reverse=True):
        if not (source / folder.relative_to(target)).is_dir():
            shutil.rmtree(folder / "__pycache__", ignore_errors=True)
            with contextlib.suppress(OSError):  # something is left in it
                folder.rmdir()
