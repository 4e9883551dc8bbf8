"""Ranks that are stopped after a step leave together: what one of them still sends shall arrive at the others."""

from __future__ import annotations

import time
from pathlib import Path

from autoaccel.measure.observing.observation import Observation, Observer
from autoaccel.measure.observing.run_record import STOPPED, RunFailure

OVER = "over"
"""A file by which who started the ranks says that one of them will not come."""


class Meeting(Observer):
    """In the folder that the request names."""

    def install(self, observation: Observation) -> None:
        self._folder = Path(observation.request.meeting)
        self._rank, self._ranks = observation.request.rank, observation.request.ranks
        observation.endings.append(self._wait)

    def _wait(self, ending: str, failure: RunFailure | None) -> None:  # noqa: ARG002 - as all that is called at the end
        if ending != STOPPED:
            return
        (self._folder / str(self._rank)).touch()
        names = (OVER, *map(str, range(self._ranks)))
        while True:
            over, *there = ((self._folder / name).exists() for name in names)
            if over or all(there):
                return
            time.sleep(0.01)
