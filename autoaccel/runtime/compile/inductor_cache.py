"""Inductor's cache of compiled code: in the user's cache folder, where the next run finds it.

torch's own default is a folder under /tmp, which machines empty and containers lose. It puts that into the environment
when Inductor's modules are imported, which making an optimizer does; but it looks there again for everything that it
compiles, so the folder can be chosen until then. (The cache itself is on by default since torch 2.6.)
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Final

from ..trial import decision_cache

VARIABLE: Final = "TORCHINDUCTOR_CACHE_DIR"
_TORCHS_OWN: Final = "torchinductor_"  # and the user's name, in the folder for temporary files


def choose_folder() -> None:
    """Choose the folder, unless the user has chosen one. To be called before anything is compiled."""
    chosen = os.environ.get(VARIABLE)
    if chosen and not _is_torchs_own(Path(chosen)):
        return
    folder = _folder()
    if folder is not None:
        os.environ[VARIABLE] = str(folder)


def _is_torchs_own(chosen: Path) -> bool:
    return chosen.name.startswith(_TORCHS_OWN) and chosen.parent == Path(tempfile.gettempdir())


def _folder() -> Path | None:
    """A folder of the user's that can be written to, beside what is remembered; None where there is none."""
    try:
        folder = decision_cache.folder().parent.absolute() / "inductor"
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError):  # a home that cannot be written to, or no home at all
        return None
    return folder if os.access(folder, os.W_OK | os.X_OK) else None
