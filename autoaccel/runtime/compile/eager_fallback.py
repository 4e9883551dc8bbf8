"""A compiled callable that becomes the eager one again when compiling fails."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ..environment import Decision, note, warn_once
from ..rng_state import RngState


class EagerFallback:
    """A callable and its compiled version, which falls back to eager for good when compiling fails."""

    def __init__(self, name: str, function: Callable[..., Any], make: Callable[[], Callable[..., Any]]) -> None:
        """`make` gives the compiled version, which compiles when it is called."""
        self.given_up = False
        self.name = name
        self._function = function
        self._make = make
        self._compiled: Callable[..., Any] | None = None
        self._proven = False

    def eager(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run it as it is."""
        return self._function(*args, **kwargs)

    def prepare(self) -> bool:
        """Make a compiled version, which compiles when called; False, with a warning, where that is impossible."""
        try:
            self._compiled = self._make()
        except (RuntimeError, ImportError) as failure:  # this Python is too new for this torch, or the mode is unknown
            self._warn(failure)
            return False
        self._proven = False
        return True

    def run(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run the compiled version; or eagerly, if that fails, with `given_up` set."""
        compiled = self._compiled
        if compiled is None:
            return self._function(*args, **kwargs)
        if not self._proven:
            return self._first(compiled, args, kwargs)
        try:
            return compiled(*args, **kwargs)
        except torch._dynamo.exc.TorchDynamoException as failure:  # noqa: SLF001 - of compiling for another shape
            return self._give_up(failure, args, kwargs)

    def drop(self) -> None:
        """Forget the compiled version."""
        self._compiled = None

    def _first(self, compiled: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The first compiled call, where most of what can go wrong goes wrong: compilers, drivers, caches, the code.

        The errors have no common class. Whatever it is, eager execution starts from the same random state, and if the
        fault is the script's own it is raised again, without the compiler's frames around it.
        """
        random = RngState(cuda=True)
        try:
            result = compiled(*args, **kwargs)
        except Exception as failure:
            random.restore()
            return self._give_up(failure, args, kwargs)
        self._proven = True
        return result

    def _give_up(self, failure: Exception, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        self.drop()
        try:
            result = self._function(*args, **kwargs)
        except Exception as own:
            raise own from None
        self._warn(failure)
        return result

    def _warn(self, failure: Exception) -> None:
        self.given_up = True
        lines = str(failure).strip().splitlines()
        said = " ".join(lines[: 2 if lines and lines[0].endswith(":") else 1])  # "backend='inductor' raised:", and what
        reason = f"{type(failure).__name__}: {said}"
        note(f"compile {self.name}", Decision(False, reason))
        warn_once(f"{self.name} is not compiled and runs eagerly: {reason}")
