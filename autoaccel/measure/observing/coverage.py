"""Which files of the project took part, and which of their lines were run."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Collection
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from autoaccel.measure.observing.observation import Concerns, Observation, Observer


class LineCoverage(Observer):
    """The script and the project's modules, in the order of their import: those that other texts can stand for.

    `loaded` grows. What gets into `sys.modules` another way would run as it is, and look as if rewriting it changed
    nothing.
    """

    def __init__(self, script: Path, loaded: Collection[str], concerns: Concerns) -> None:
        self._script = script
        self._loaded = loaded
        self._concerns = concerns

    def contribute(self) -> dict[str, Any]:
        script = [os.path.realpath(self._script)] if self._concerns(str(self._script)) else []
        return {"files": tuple(dict.fromkeys([*script, *self._loaded]))}


# -- lines; each is only waited for until it is seen


class Lines(Observer):
    """Notes lines by a trace function that leaves what it has seen."""

    def __init__(self, concerns: Concerns) -> None:
        self._concerns = concerns
        self._reached: dict[str, set[int]] = {}
        self._unseen: dict[CodeType, set[int]] = {}

    def install(self, _: Observation) -> None:
        threading.settrace(self._enter)
        sys.settrace(self._enter)
        os.register_at_fork(after_in_child=lambda: sys.settrace(None))

    def contribute(self) -> dict[str, Any]:
        reached: dict[str, set[int]] = {}
        for name, lines in self._reached.items():
            reached.setdefault(os.path.realpath(name), set()).update(lines)
        return {"reached": {path: tuple(sorted(lines)) for path, lines in reached.items()}}

    def _enter(self, frame: FrameType, event: str, _: Any) -> Callable[..., Any] | None:
        """Called for every call of a function: whether its lines are of interest."""
        code = frame.f_code
        unseen = self._unseen.get(code)
        if unseen is None:
            unseen = self._unseen[code] = lines_of(code) if self._concerns(code.co_filename) else set()
        if not unseen:
            return None
        reached = self._reached.setdefault(code.co_filename, set())

        def line(frame: FrameType, event: str, _: Any) -> Callable[..., Any] | None:
            if event == "line" and frame.f_lineno in unseen:
                reached.add(frame.f_lineno)
                unseen.discard(frame.f_lineno)
                if not unseen:
                    frame.f_trace_lines = False
                    return None
            return line

        # the line of `def` is where a call begins; what runs is told line by line
        return line(frame, event, _)


def lines_of(code: CodeType) -> set[int]:
    """The lines that the instructions of a code object come from, but for the one where its function is defined."""
    found = {line for *_, line in code.co_lines() if line}
    return found if code.co_name == "<module>" or len(found) == 1 else found - {code.co_firstlineno}
