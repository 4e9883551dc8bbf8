"""What a generated program is made of: one option for each of many independent dimensions.

A grammar asks for its dimensions by name; who answers is a plain number (each dimension is drawn from the number and
its own name, so that changing one changes no other), hypothesis, or a table. All that was answered is the program's
vector: with it the program can be made again, and smaller, by putting dimensions back to their first option.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping

Draw = Callable[[tuple[str, ...]], str]
"""Chooses one of several options, the first of which is the plainest."""

# How often a dimension is not left at its plainest option, by program: some combine little, some everything.
_WILDNESS = (0.15, 0.3, 0.5, 0.7)


Asked = Callable[[str, tuple[str, ...]], str]
"""Answers a dimension, by its name and its options."""


def by_number(seed: int) -> Asked:
    """Options drawn from a number."""
    wildness = _WILDNESS[_number(seed, "wildness") % len(_WILDNESS)]

    def answer(name: str, options: tuple[str, ...]) -> str:
        if len(options) < 2 or (not name.startswith("*") and _share(seed, f"{name}?") >= wildness):
            return options[0]
        plainest = 0 if name.startswith("*") else 1
        return options[plainest + _number(seed, name) % (len(options) - plainest)]

    return answer


def by_drawing(draw: Draw) -> Asked:
    """Options that somebody else chooses, such as hypothesis."""
    return lambda _, options: draw(options)


class Features:
    """The dimensions of one program. Names that begin with `*` have no plainest option: all are as likely."""

    def __init__(self, asked: Asked, fixed: Mapping[str, str] | None = None) -> None:
        self._asked = asked
        self._fixed = dict(fixed or {})
        self.vector: dict[str, str] = {}
        self.plainest: dict[str, str] = {}

    def pick(self, name: str, *options: str) -> str:
        """The program's option of a dimension, the same whenever it is asked for."""
        if name not in self.vector:
            fixed = self._fixed.get(name)
            self.vector[name] = fixed if fixed in options else self._asked(name, options)
            self.plainest[name] = options[0]
        return self.vector[name]

    def has(self, name: str) -> bool:
        """Whether the program has something that most have not."""
        return self.pick(name, "no", "yes") == "yes"

    @property
    def special(self) -> dict[str, str]:
        """Where it is not the plainest."""
        return {name: option for name, option in self.vector.items() if option != self.plainest[name]}


def _number(seed: int, name: str) -> int:
    return int.from_bytes(hashlib.blake2b(f"{seed} {name}".encode(), digest_size=6).digest(), "big")


def _share(seed: int, name: str) -> float:
    return _number(seed, name) / 2**48
