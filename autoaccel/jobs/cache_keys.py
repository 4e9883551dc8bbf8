"""What all answers of a cache follow from beside the project: this tool, its rules, and the Python that parses."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from hashlib import blake2b
from importlib.machinery import PathFinder

from autoaccel import __version__
from autoaccel.rewriting.packs import GROUP, announced


def fingerprint() -> str:
    """Another text whenever the same file might be judged otherwise."""
    own = (f"{name} {_sources(name)}" for name in ("autoaccel", "autoaccel_codemods"))
    packs = (f"{name} {text} {' '.join(map(_sources, _packages(text)))}" for name, text in announced())
    # Who built this Python, and when, makes no difference.
    return "\n".join((__version__, sys.implementation.name, sys.version.split()[0], *own, *sorted(packs)))


def _sources(package: str) -> str:
    """The state of a package's files. What is in them need not be read: those of a release have their sizes, and only
    those of a checkout are edited."""
    spec = PathFinder.find_spec(package)
    if spec is None:
        return ""
    state = blake2b(digest_size=16)
    for place in spec.submodule_search_locations or [spec.origin or ""]:
        above = os.path.dirname(place)
        is_checkout = any(os.path.isfile(os.path.join(each, "pyproject.toml")) for each in (above, f"{above}/.."))
        for name, status in sorted(_files(place, ""), key=lambda found: found[0]):
            time = status.st_mtime_ns if is_checkout else 0
            state.update(f"{name} {status.st_size} {time}\n".encode(errors="surrogateescape"))
    return state.hexdigest()


def _files(path: str, name: str) -> Iterator[tuple[str, os.stat_result]]:
    if not os.path.isdir(path):
        yield name, os.stat(path)
        return
    with os.scandir(path) as entries:
        for entry in entries:
            if entry.name.endswith(".py"):
                yield f"{name}/{entry.name}", entry.stat()
            elif entry.is_dir() and entry.name.isidentifier() and entry.name != "__pycache__":
                yield from _files(entry.path, f"{name}/{entry.name}")


def _packages(entry_points: str) -> list[str]:
    """The packages that the rules of a distribution lie in."""
    section = entry_points.partition(f"[{GROUP}]")[2].partition("\n[")[0]
    values = [line.partition("=")[2].strip() for line in section.splitlines() if "=" in line]
    return [value.partition(":")[0].partition(".")[0] for value in values]
