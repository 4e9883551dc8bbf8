"""The trees that are looked at, and what is in them."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Tree:
    """A named folder: its `*.py` files, their bytes, and those that mention torch."""

    name: str
    path: Path
    files: int
    size: int
    with_torch: int
    revision: str


def survey(name: str, path: Path) -> Tree:
    contents = [file.read_bytes() for file in sorted(path.rglob("*.py")) if file.is_file()]
    return Tree(
        name,
        path,
        len(contents),
        sum(map(len, contents)),
        sum(b"torch" in content for content in contents),
        revision(path),
    )


def revision(path: Path) -> str:
    """The commit of a repository; empty elsewhere."""
    done = subprocess.run(["git", "-C", path, "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
    return done.stdout.strip()[:12]
