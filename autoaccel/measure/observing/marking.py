"""Steps where the text of the script says that one is over: benchmarks whose scripts are the project's own.

Hooks on optimizers see no step of a script that only evaluates, of one that replays a graph, or of a step that is
compiled whole; a call in the loop is the same for all of them, and torch has nothing to break a graph around.
"""

from __future__ import annotations

import builtins
import re
from typing import Any

from torch import Tensor

from autoaccel.measure.observing.observation import Observation
from autoaccel.measure.observing.training import Training

NAME = "__step_is_over__"
LINE = re.compile(r"^(?P<counts>[ \t]+step \+= 1)(?=[ \t]*(?:#.*)?$)", re.MULTILINE)
"""The one line that is marked."""


class Marking(Training):
    """Backwards are seen as ever; steps are calls of a function that the text names."""

    def install(self, observation: Observation) -> None:
        super().install(observation)
        setattr(builtins, NAME, self.step_is_over)

    def step_is_over(self, loss: Any = None) -> None:
        """Called by the script; with a loss where nothing goes backward."""
        if not self._observation.here:
            return
        if isinstance(loss, Tensor):
            for told in self._events.before_backward:
                told([loss])
        self._events.steps += 1
        self._stepped(None)

    def _hook_optimizers(self) -> None:
        pass

    def _after_backward(self) -> None:
        self._events.backwards += 1


def marked(text: str, *, loss: str = "") -> str:
    """The same text with the call on its line, so that no number of a line changes; `loss` names a variable of it.

    Raises `ValueError` unless there is exactly one such line.
    """
    found, count = LINE.subn(rf"\g<counts>; {NAME}({loss})", text)
    if count != 1:
        raise ValueError(f"{count} lines read `step += 1`, not one")
    return found
