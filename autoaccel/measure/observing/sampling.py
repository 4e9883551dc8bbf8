"""How much of the time goes into making batches where no DataLoader does it: generators, `dataset[i]` in the loop.

Hooks cannot tell that from the rest of the script's Python; looking at the stack every few milliseconds can.
"""

from __future__ import annotations

import inspect
import sys
import threading
from types import FrameType
from typing import Final

from autoaccel.measure.observing.regions import Regions

_INTERVAL: Final = 0.004
# The other thread gets its look this soon, also while the script runs Python.
_SWITCH: Final = 0.0005
# Their generators are around a loop, or around a statement, and make no batches.
_LIBRARIES: Final = ("torch", "tqdm", "rich", "contextlib")
_METHODS: Final = frozenset({"__next__", "__getitem__", "__getitems__"})


class Sampler:
    """Looks at the main thread while it is switched on."""

    def __init__(self, regions: Regions, root: str) -> None:
        self._looks = self._iterating = 0
        self._regions, self._root = regions, root
        self._main = threading.get_ident()
        self._on = threading.Event()
        self._over = False
        self._thread = threading.Thread(target=self._run, name="autoaccel sampler", daemon=True)
        self._interval = sys.getswitchinterval()

    def start(self) -> None:
        if not self._thread.is_alive():
            self._thread.start()
        self._looks = self._iterating = 0
        sys.setswitchinterval(_SWITCH)
        self._on.set()

    def stop(self) -> tuple[int, int]:
        """How many looks it took, and how many of these found the script making a batch outside of all regions."""
        if self._on.is_set():
            self._on.clear()
            sys.setswitchinterval(self._interval)
            return self._looks, self._iterating
        return 0, 0

    def close(self) -> None:
        self._over = True
        self._on.set()

    def _run(self) -> None:
        pause = threading.Event()
        while self._on.wait() and not self._over:
            pause.wait(_INTERVAL)
            if self._on.is_set():
                self._look(sys._current_frames().get(self._main))  # noqa: SLF001

    def _look(self, frame: FrameType | None) -> None:
        self._looks += 1
        if not self._regions.names and makes_batches(frame, self._regions, self._root):
            self._iterating += 1


def makes_batches(frame: FrameType | None, regions: Regions, root: str) -> bool:
    """Whether a stack is inside something that is iterated or indexed, and that does not itself train."""
    while frame is not None and frame.f_code not in regions.training_code:
        code = frame.f_code
        if code.co_name in _METHODS and code.co_filename.startswith(root):
            return True
        generates = code.co_flags & inspect.CO_GENERATOR and code.co_name != "<genexpr>"
        if generates and str(frame.f_globals.get("__name__", "")).split(".")[0] not in _LIBRARIES:
            return True
        frame = frame.f_back
    return False
