"""Inductor's cache of compiled code: in the user's cache folder, where the next run finds it.

torch's own default is a folder under /tmp, which machines empty and containers lose. The variable has to be set before
Inductor looks for the first time. (Since torch 2.6 the cache itself is on by default.)
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final

from . import remembering

VARIABLE: Final = "TORCHINDUCTOR_CACHE_DIR"


def settle() -> None:
    """Choose the folder, unless the user or torch has chosen one."""
    if os.environ.get(VARIABLE) or "torch._inductor.codecache" in sys.modules:
        return
    folder = _folder()
    if folder is not None:
        os.environ[VARIABLE] = str(folder)


def _folder() -> Path | None:
    """A folder of the user's that can be written to, beside what is remembered; None where there is none."""
    try:
        folder = remembering.folder().parent.absolute() / "inductor"
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError):  # a home that cannot be written to, or no home at all
        return None
    return folder if os.access(folder, os.W_OK | os.X_OK) else None
