"""The states of the random generators that a program shares: to see whether somebody drew, and to put them back."""

from __future__ import annotations

import random
import sys
from typing import Any

import torch

from . import devices


class RngState:
    """The default generators of torch on the host, of Python and of NumPy, as they were when this was made.

    Args:
        cuda: Whether the one of the current CUDA device counts as well, if the program uses CUDA.
    """

    __slots__ = ("_cuda", "_numpy", "_python", "_torch")

    def __init__(self, *, cuda: bool = False) -> None:
        self._torch = torch.get_rng_state()
        # the fork-safe way to ask whether CUDA is in use: this must not initialise it
        module = devices.module_of("cuda")
        self._cuda = module.get_rng_state() if cuda and module.is_initialized() else None
        self._python = random.getstate()
        numpy = sys.modules.get("numpy.random")
        self._numpy: Any = None if numpy is None else numpy.get_state()

    def restore(self) -> None:
        """Set them again."""
        torch.set_rng_state(self._torch)
        if self._cuda is not None:
            devices.module_of("cuda").set_rng_state(self._cuda)
        random.setstate(self._python)
        if self._numpy is not None:
            sys.modules["numpy.random"].set_state(self._numpy)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RngState):
            return NotImplemented
        return (
            torch.equal(self._torch, other._torch)
            and self._python == other._python
            and _comparable(self._numpy) == _comparable(other._numpy)
        )

    __hash__ = None  # type: ignore[assignment]


def _comparable(state: Any) -> Any:
    return None if state is None else (state[0], state[1].tobytes(), *state[2:])
