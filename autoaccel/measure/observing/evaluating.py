"""Steps of a script that trains nothing: what it does with one batch."""

from __future__ import annotations

from autoaccel.measure.observing.observation import Batch, Observation
from autoaccel.measure.observing.training import Training


class Evaluating(Training):
    """A step is over when the next batch is handed out."""

    def install(self, observation: Observation) -> None:
        super().install(observation)
        self._under_way = False
        observation.events.batch.append(self._handed_out)

    def _handed_out(self, _: Batch) -> None:
        if not self._observation.here:
            return
        if self._under_way:
            self._events.steps += 1
            self._stepped(None)
        self._under_way = True
