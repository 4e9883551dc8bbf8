"""`--vendor`: the runtime as a folder beside the script, so that it runs where autoaccel is not installed."""

from __future__ import annotations

import re
import shutil
from importlib import resources
from pathlib import Path

from autoaccel.sources import SourceError

FOLDER = "autoaccel_runtime"

_IMPORT = re.compile(r"^from autoaccel import runtime as (\w+)(?=[ \t]*(?:#|\r|\n|$))", re.MULTILINE)


def import_vendored(text: str) -> str:
    """The same script, importing the runtime from the folder beside it."""
    return _IMPORT.sub(rf"import {FOLDER} as \1", text)


def is_vendored(text: str) -> bool:
    """Whether a script imports the runtime from the folder beside it."""
    return f"import {FOLDER}" in text


def copy_runtime(folder: Path) -> Path:
    """Put the runtime into `folder`, over an older copy. Raises `SourceError`."""
    target = folder / FOLDER
    try:
        with resources.as_file(resources.files("autoaccel") / "runtime") as source:
            shutil.copytree(source, target, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__", "*.pyc"))
    except OSError as error:
        raise SourceError(f"{target}: cannot copy the runtime: {error}") from error
    return target
