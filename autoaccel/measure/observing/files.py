"""Which files of the project took part."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from autoaccel.measure.observing.observation import Observation
from autoaccel.measure.rewriter import Rewriter


class Files:
    """The script and the project's modules that are imported when the run ends, in the order of their import."""

    def __init__(self, script: Path, rewriter: Rewriter) -> None:
        self._script = script
        self._rewriter = rewriter

    def install(self, observation: Observation) -> None:
        self._guarded = bool(observation.request.protected)

    def contribute(self) -> dict[str, Any]:
        paths = [str(self._script)]
        paths += [
            path for module in list(sys.modules.values()) if isinstance(path := vars(module).get("__file__"), str)
        ]
        real = dict.fromkeys(os.path.realpath(path) for path in paths if self._rewriter.concerns(Path(path)))
        return {"files": tuple(real), "written": self._written()}

    def _written(self) -> tuple[str, ...]:
        if not self._guarded:
            return ()
        from autoaccel.measure.observing import guarding

        return guarding.written()
