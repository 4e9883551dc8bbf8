"""`--vendor`: the runtime as a folder beside the script, so that it runs where autoaccel is not installed."""

from __future__ import annotations

import ast
import os
import re
from importlib import resources
from pathlib import Path

from autoaccel.jobs.undoing import FileChange
from autoaccel.sources import SourceError

FOLDER = "autoaccel_runtime"
IMPORT = "from autoaccel import runtime as"

_IMPORT = re.compile(r"^from autoaccel import runtime as (\w+)(?=[ \t]*(?:#|\r|\n|$))")


def import_vendored(text: str) -> str:
    """The same script, importing the runtime from the folder beside it."""
    if IMPORT not in text:
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


def runtime_files(folder: Path) -> list[FileChange]:
    """What the runtime is in `folder`, and what was there: files that an older version had go, what else is there is
    not the tool's. Raises `SourceError`."""
    target = Path(os.path.realpath(folder / FOLDER))
    try:
        if target.exists() and not target.is_dir():
            raise NotADirectoryError(20, "not a folder")
        with resources.as_file(resources.files("autoaccel") / "runtime") as source:
            runtime = {target / path.relative_to(source): path.read_bytes() for path in source.rglob("*.py")}
        there = {path: path.read_bytes() for path in target.rglob("*.py")}
    except OSError as error:
        raise SourceError(f"{target}: cannot copy the runtime: {error}") from error
    names = sorted({*runtime, *there})
    written = (FileChange(name, there.get(name), runtime.get(name)) for name in names)
    return [each for each in written if each.before != each.after]
