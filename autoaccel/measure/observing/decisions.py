"""What the runtime decides while the script runs, taken from its log."""

from __future__ import annotations

import logging
import os
import re
from typing import Any

from autoaccel.measure.observing.observation import Observation
from autoaccel.measure.observing.record import Decision

_VARIABLE = "AUTOACCEL_LOG"
_LINE = re.compile(r"(?P<topic>.*?): (?P<value>.*?) \((?P<reason>.*)\)", re.DOTALL)


class Decisions:
    """Listens to the runtime's log, which goes on to the user only where the user asked for it.

    Of several decisions on one topic the last one stands: what the runtime tries it may take back."""

    def install(self, _: Observation) -> None:
        self._found: dict[str, Decision] = {}
        self._asked = bool(os.environ.get(_VARIABLE, "").strip())
        if not self._asked:
            os.environ[_VARIABLE] = "info"
        logging.getLogger("autoaccel.runtime").addFilter(self._take)

    def contribute(self) -> dict[str, Any]:
        return {"decisions": tuple(self._found.values())}

    def _take(self, record: logging.LogRecord) -> bool:
        if (decision := self.read(record.getMessage())) is not None:
            self._found[decision.topic] = decision
        return self._asked

    @staticmethod
    def read(line: str) -> Decision | None:
        """A line of the log, in its parts."""
        said = _LINE.fullmatch(line)
        return None if said is None else Decision(**said.groupdict())
