"""Answers that know what they have not seen.

An answer that did not look everywhere is not an answer. What looks for several things answers with those that it has
seen and the reason why there may be more (`Answer.missing`). Who has no use for a part of them asks for `all()`: it
raises `Incomplete`, which whoever asked takes as "it may be anything".
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from autoaccel.analysis.script import Script

Thing = TypeVar("Thing")
CallSite = tuple["Script", ast.Call]
ScriptNode = tuple["Script", ast.AST]
"""A node, and the script that it is in."""


class Incomplete(Exception):  # noqa: N818  # no error: an answer
    """A question cannot be answered in full; the message is the reason, a sentence fragment that users read."""

    made = 0
    """How many there have been: whoever needs to know that everything was looked at compares before and after."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        Incomplete.made += 1


@dataclass(frozen=True, slots=True)
class Answer(Generic[Thing]):
    """What was seen of what was asked for. `missing` is None where that surely is all, else why there may be more."""

    seen: tuple[Thing, ...] = ()
    missing: str | None = None

    def __iter__(self) -> Iterator[Thing]:
        return iter(self.seen)

    def __len__(self) -> int:
        return len(self.seen)

    def all(self) -> tuple[Thing, ...]:
        """What was seen, where that is all. Raises `Incomplete`."""
        if self.missing is not None:
            raise Incomplete(self.missing)
        return self.seen
