"""One observed run: what is watched, and how it ends.

Nothing is ever raised through the script to stop it, since scripts catch what they like: at the last step the record is
written on the spot, and the process ends.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import signal
import sys
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

from autoaccel.measure.observing.exchange import Exchange, write_whole
from autoaccel.measure.observing.request import Request
from autoaccel.measure.observing.run_record import FAILED, RunFailure, RunRecord

if TYPE_CHECKING:
    from types import FrameType

    from torch import Tensor
    from torch.optim import Optimizer

_exit = os._exit  # a script that ends this way is told apart


Concerns: TypeAlias = "Callable[[str], bool]"
"""Whether a file, by the name that its code has, is the project's."""


class Observer:
    """One concern: hooks what it needs before the script starts, and has its say in the record at the end."""

    def install(self, observation: Observation, /) -> None:
        """Before the script starts."""

    def contribute(self) -> dict[str, Any]:
        """Fields of the record."""
        return {}


@dataclass(frozen=True)
class Batch:
    """What a loader handed out, before anything was done with it."""

    loader: int
    value: Any
    waited: float
    """Seconds that the loop waited for it."""


@dataclass
class Events:
    """What happens in the main process of the script, as the hooks on torch tell it. Parts add what is to be called."""

    before_backward: list[Callable[[list[Tensor]], None]] = field(default_factory=list)
    """With the roots, unscaled."""
    after_backward: list[Callable[[], None]] = field(default_factory=list)
    before_step: list[Callable[[Optimizer], None]] = field(default_factory=list)
    after_step: list[Callable[[Optimizer | None], None]] = field(default_factory=list)
    """After every step, those that a scaler left out, too; with None where there is no optimizer: backwards count."""
    batch: list[Callable[[Batch], None]] = field(default_factory=list)
    steps: int = 0
    backwards: int = 0
    skipped: int = 0
    optimizers: int = 0
    """How many were created."""


class Observation:
    """The run of this process."""

    def __init__(self, request: Request, exchange: Exchange, began: float) -> None:
        self.request = request
        self.exchange = exchange
        self.events = Events()
        self.marks: Counter[str] = Counter()
        self.parts: list[Observer] = []
        self.endings: list[Callable[[str, RunFailure | None], None]] = []
        """Called before the record is written."""
        self.began = began
        """When the process was started, by the monotonic clock."""
        self._process = os.getpid()
        self._ending = threading.Lock()

    @property
    def here(self) -> bool:
        """Whether this is the script's own process, and not one that was forked from it."""
        return os.getpid() == self._process

    def mark(self, phrase: str) -> None:
        """Note something that no good rewrite does."""
        self.marks[phrase] += 1

    def end(self, ending: str, failure: RunFailure | None = None) -> NoReturn:
        """Write the record and end the process; who waits for it ends what it started."""
        if self.here:
            if not self._ending.acquire(blocking=False):
                threading.Event().wait()  # another thread is about to end the process
            try:
                _undisturbed()
                self._write(ending, failure)
            finally:
                _exit(0 if failure is None else 1)  # whatever was raised: nothing of the script goes on
        flush()
        _exit(0 if failure is None else 1)

    def _write(self, ending: str, failure: RunFailure | None) -> None:
        try:
            text = self.record(ending, failure).to_json()
        except BaseException as error:
            message = f"the record could not be written: {type(error).__name__}: {error}"
            text = RunRecord(FAILED, RunFailure("died", message, traceback=traceback.format_exc())).to_json()
        write_whole(self.exchange.result, text)

    def record(self, ending: str, failure: RunFailure | None = None) -> RunRecord:
        """What was seen up to now."""
        for told in self.endings:
            told(ending, failure)
        fields: dict[str, Any] = {}
        for part in self.parts:
            fields.update(part.contribute())
        events = self.events
        return RunRecord(
            ending,
            failure,
            steps=events.steps,
            backwards=events.backwards,
            skipped_steps=events.skipped,
            seconds=time.monotonic() - self.began,
            torch=sys.modules["torch"].__version__ if "torch" in sys.modules else "",
            python=platform.python_version(),
            **fields,
        )


def flush() -> None:
    """Bring everything that is still in a buffer to the file: of Python and of the C library."""
    streams: list[Any] = [sys.stdout, sys.__stdout__, sys.stderr]
    for stream in streams:
        with contextlib.suppress(Exception):  # closed, replaced by something else, or gone
            stream.flush()
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).fflush(None)


def frames(frame: FrameType | None) -> Iterator[FrameType]:
    """A frame, and those that it was called from."""
    while frame is not None:
        yield frame
        frame = frame.f_back


def _undisturbed() -> None:
    """From here on nothing of the script shall run: no signal handler, and no limit that it may have come close to."""
    sys.setrecursionlimit(sys.getrecursionlimit() + 1000)
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    if threading.current_thread() is threading.main_thread():
        # loaders raise when a worker dies, and what the main thread blocks reaches it through another thread
        for number in signal.valid_signals():
            if callable(signal.getsignal(number)):
                signal.signal(number, signal.SIG_IGN)
