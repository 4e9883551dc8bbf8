"""What the script prints, and what the runtime says that it decides."""

from __future__ import annotations

import logging
import os
import re
import warnings
from pathlib import Path
from typing import Any

from autoaccel.measure.observing.observation import Concerns, Observation, Observer, flush
from autoaccel.measure.observing.run_record import Decision

_MOST = 8 * 2**20  # bytes that are kept, from the start
_OF_THE_RUNTIME = "autoaccel: "


class Printing(Observer):
    """Standard output of the process and of what it starts, in order, whoever writes it and however."""

    def install(self, observation: Observation) -> None:
        self._path = observation.exchange.stdout
        flush()
        file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(file, 1)
        os.close(file)

    def contribute(self) -> dict[str, Any]:
        return {"printed": _written(self._path)}


class Errors(Observer):
    """Standard error of the process and of what it starts. Of a warning it is no matter on which line it is given, nor
    are those that other files than the project's give of themselves."""

    def __init__(self, concerns: Concerns) -> None:
        self._concerns = concerns

    def install(self, observation: Observation) -> None:
        self._path = observation.exchange.stderr
        warnings.formatwarning = self._formatted  # type: ignore[assignment]

    def contribute(self) -> dict[str, Any]:
        return {"errors": _written(self._path)}

    def _formatted(self, message: Any, category: type[Warning], filename: str, *_: Any) -> str:
        of_the_script = self._concerns(filename) and not str(message).startswith(_OF_THE_RUNTIME)
        return f"{Path(filename).name}: {category.__name__}: {message}\n" if of_the_script else ""


def _written(path: Path) -> tuple[str, ...]:
    flush()
    with path.open("rb") as file:
        return lines(file.read(_MOST).decode("utf-8", "replace"))


def lines(text: str) -> tuple[str, ...]:
    """As a terminal shows them: what a line was overwritten with after a carriage return is what it says."""
    found = text.split("\n")
    if not found[-1]:
        found.pop()
    return tuple(line.rstrip("\r").rpartition("\r")[2] for line in found)


# -- decisions, taken from the runtime's log


_VARIABLE = "AUTOACCEL_LOG"
_LINE = re.compile(r"(?P<topic>.*?): (?P<value>.*?) \((?P<reason>.*)\)", re.DOTALL)


class Decisions(Observer):
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
