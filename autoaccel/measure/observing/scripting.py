"""TorchScript compiles functions from their files on disk, whatever text they were run from: that is told."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from typing import Any

import torch

from autoaccel.measure.observing.hooks import around
from autoaccel.measure.observing.observation import Observation
from autoaccel.runtime.environment import Decision, note


class Scripting:
    """Watches what is scripted in files that other texts stand for."""

    def install(self, observation: Observation) -> None:
        texts = observation.request.texts
        if not texts:
            return

        @around(torch.jit, "script")
        def script(plain: Callable[..., Any], scripted: Any, *args: Any, **kwargs: Any) -> Any:
            if os.path.realpath(_file_of(scripted)) in texts:
                note("torch.jit.script", Decision("in vain", "it compiles what is on disk, not what was rewritten"))
            return plain(scripted, *args, **kwargs)

    def contribute(self) -> dict[str, Any]:
        return {}


def _file_of(scripted: Any) -> str:
    """Where a function, a class or the class of a module is written; empty where that is not known."""
    written = scripted if inspect.isroutine(scripted) or inspect.isclass(scripted) else type(scripted)
    try:
        return inspect.getsourcefile(written) or ""
    except (TypeError, OSError):
        return ""
