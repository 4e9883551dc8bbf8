"""Answers that know what they have not seen.

An answer that did not look everywhere is not an answer. Where a part of what was asked for can still be of use, the
answer carries the reason why there may be more (`Callers.missing`); where nothing can be said, `Incomplete` is raised,
and whoever asked takes it as "it may be anything".
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from autoaccel.analysis.script import Script

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
class Callers:
    """The call sites of a function. `missing` is None where these are surely all, else why there may be more."""

    sites: tuple[CallSite, ...] = ()
    missing: str | None = None

    def __iter__(self) -> Iterator[CallSite]:
        return iter(self.sites)

    def __len__(self) -> int:
        return len(self.sites)
