"""Where a file is, and whether it is the user's, in what every open goes through: no objects, no exceptions."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Sequence
from typing import Any

from autoaccel.measure.observing.exchange import Exchange

COPY = "autoaccel-scratch-"
"""How the folders begin that hold copies of working directories."""

# Where programs leave what they can make again. Variables name folders, the rest is below the home folder.
_FREE_VARIABLES = (
    "XDG_CACHE_HOME",
    "TORCH_HOME",
    "HF_HOME",
    "TORCHINDUCTOR_CACHE_DIR",
    "TRITON_CACHE_DIR",
    "MPLCONFIGDIR",
)
_FREE_AT_HOME = (".cache", ".triton", ".nv", ".config/matplotlib", "Library/Caches")
_FREE = ("/tmp", "/var/tmp", "/dev", "/proc", "/sys", "/run")


def places(protected: Sequence[str], exchange: Exchange) -> list[tuple[str, bool]]:
    """Folders, each with the separator at its end, and whether changes below them matter; inner ones first."""
    free = [*_FREE, tempfile.gettempdir(), *(os.environ.get(name, "") for name in _FREE_VARIABLES)]
    free += [os.path.expanduser(os.path.join("~", name)) for name in _FREE_AT_HOME]  # noqa: PTH111, PTH118
    places = {_with_separator(folder): False for folder in free if folder}
    places |= {_with_separator(folder): True for folder in protected}
    places[_with_separator(str(exchange.folder))] = False
    return sorted(places.items(), key=lambda place: len(place[0]), reverse=True)


def _with_separator(folder: str) -> str:
    return os.path.realpath(folder).rstrip(os.sep) + os.sep


def name_of(path: Any) -> str | None:
    """A path as text; None for a file that is already open."""
    if isinstance(path, int):
        return None
    try:
        return os.fsdecode(path)
    except TypeError:
        return None


def entry_of(path: Any, folder: int = -1) -> str:
    """Where an entry of a folder is: links on the way are followed, but it may be a link itself."""
    name = os.fsdecode(path)
    if folder >= 0 and not os.path.isabs(name):  # noqa: PTH117
        name = os.path.join(f"/proc/self/fd/{folder}" if sys.platform == "linux" else f"/dev/fd/{folder}", name)  # noqa: PTH118
    head, tail = os.path.split(name.rstrip(os.sep))
    return os.path.join(os.path.realpath(head or os.curdir), tail)  # noqa: PTH118
