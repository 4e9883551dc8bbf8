"""Which files of the project took part."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path
from typing import Any

from autoaccel.measure.observing.observation import Observation
from autoaccel.measure.observing.running import Concerns


class Files:
    """The script and the project's modules, in the order of their import: those that other texts can stand for.

    `loaded` grows. What gets into `sys.modules` another way would run as it is, and look as if rewriting it changed
    nothing.
    """

    def __init__(self, script: Path, loaded: Collection[str], concerns: Concerns) -> None:
        self._script = script
        self._loaded = loaded
        self._concerns = concerns

    def install(self, _: Observation) -> None:
        pass

    def contribute(self) -> dict[str, Any]:
        script = [os.path.realpath(self._script)] if self._concerns(str(self._script)) else []
        return {"files": tuple(dict.fromkeys([*script, *self._loaded]))}
