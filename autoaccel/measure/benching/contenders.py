"""Runs of the script in processes of their own; contenders stand still while others have their turn."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import select
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from autoaccel.measure import fork_server, launching, scratch
from autoaccel.measure.observing import turns
from autoaccel.measure.observing.request import Request
from autoaccel.measure.observing.run_record import FAILED, RunRecord
from autoaccel.measure.observing.turns import Turn

_PACE = 0.5  # s between two looks at a run that says nothing
_LEAVING = 30.0  # s to write down what was seen and to end


@dataclass(frozen=True, slots=True)
class Processes:
    """Starts the runs of a benchmark."""

    python: str
    folder: Path
    """The working directory."""
    timeout: float | None = None
    """How many seconds may go by without a step; None waits for ever."""

    def observe(self, request: Request) -> RunRecord:
        """Run to the end of what is asked for, and return what was seen."""
        with scratch.copy(self.folder, Path(request.root)) as copy:
            record = launching.observe(
                copy.request(request), python=self.python, environment={}, folder=copy.folder, timeout=self.timeout
            )
            return copy.record(record)

    @contextlib.contextmanager
    def contender(self, name: str, request: Request) -> Iterator[Observed]:
        """A run that takes turns, not yet started; at the end nothing of it is left."""
        with scratch.copy(self.folder, Path(request.root)) as copy:
            server = fork_server.server_for(self.python, launching.run_environment({}), copy.folder)
            start = partial(launching.Started, python=self.python, environment={}, folder=copy.folder, server=server)
            asked = copy.request(request)
            with Observed(name, asked, start, timeout=self.timeout, told=copy.told, server=server) as run:
                yield run


class Observed:
    """One run of the script in turns; a context manager."""

    def __init__(
        self,
        name: str,
        request: Request,
        start: Callable[[Request], launching.Started],
        *,
        timeout: float | None,
        told: Callable[[str], str] = str,
        server: fork_server.ForkServer | None = None,
    ) -> None:
        """`start` makes the process. `timeout` is how many seconds may go by without a step; None waits for ever.
        `told` makes of what it says, as JSON, what the user is told. A fork of a `server` is as old as that was when it
        had imported torch."""
        self.name = name
        self._server = server
        self._start, self._timeout, self._told = start, timeout, told
        self._request = dataclasses.replace(request, mode="turns", steps=None)
        self._run: launching.Started | None = None
        self._read = b""
        self._waits = False

    def __enter__(self) -> Observed:
        return self

    def __exit__(self, *error: object) -> None:
        if self._run is not None:
            self._run.kill()

    def start(self) -> Turn:
        if self._server is not None:
            with contextlib.suppress(OSError):  # else it is started
                self._server.wait()
        self._run = self._start(self._request)
        turn = self._turn(self._run)
        imported = self._server.ready if self._server is not None and self._run.is_forked else None
        # Its own clock begins when Python runs and torch is imported.
        return dataclasses.replace(turn, seconds=time.monotonic() - self._run.began + (imported or 0.0))

    def run(self, steps: int, *, busy: bool = False) -> Turn:
        assert self._run is not None
        # Said first, so that the clock runs from the moment on at which anything of it runs again.
        self._say(self._run, {"run": steps, "busy": busy})
        self._run.resume()
        return self._turn(self._run)

    def end(self) -> RunRecord | None:
        """End the script, and return what was seen of it; None where it left nothing."""
        if self._run is None:
            return None
        if self._waits:
            self._say(self._run, {"end": True})
        self._run.resume()
        self._run.wait(_LEAVING)
        record = self._run.record()
        self._run.kill()
        return record

    def _say(self, run: launching.Started, command: Mapping[str, Any]) -> None:
        self._waits = False
        with contextlib.suppress(BrokenPipeError):  # it has died; the events say so
            os.write(run.commands, json.dumps(command).encode() + b"\n")

    def _turn(self, run: launching.Started) -> Turn:
        """Wait for the end of the turn; the run stands still afterwards."""
        while b"\n" not in self._read:
            data = self._listen(run)
            if not data:
                return self._lost(run, self._timeout if data is None else None)
            self._read += data
        line, _, self._read = self._read.partition(b"\n")
        turn = Turn.from_json(self._told(line.decode()))
        if turn.state == turns.WAITING:
            self._waits = True
            run.pause()
        return turn

    def _listen(self, run: launching.Started) -> bytes | None:
        """What it says next: nothing where it is gone, None where it hangs."""
        steps, since = run.steps(), time.monotonic()
        while not select.select([run.events], [], [], _PACE)[0]:
            # Its workers may live on for a while, and with them the pipe.
            if run.poll() is not None:
                return b""
            if run.steps() != steps:
                steps, since = run.steps(), time.monotonic()
            elif self._timeout is not None and time.monotonic() - since > self._timeout:
                run.ask_where()
                return None
        return os.read(run.events, 1 << 16)

    def _lost(self, run: launching.Started, hung_for: float | None) -> Turn:
        failure = None
        if hung_for is None:
            run.wait(_LEAVING)
            record = run.record()
            failure = record.failure if record is not None else None
        lost = Turn(FAILED, 0.0, failure=failure or run.lost(hung_for))
        return Turn.from_json(self._told(lost.to_json()))
