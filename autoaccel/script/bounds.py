"""How far an analysis looks. What lies beyond a bound is not taken for what is not there: the answer says so, and
rules take it as "it may be anything"."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Bounds:
    """Lower ones make no finding that higher ones do not make."""

    related: int = 64
    """Files that are parsed because they may call into a file or share its objects."""
    loaded: int = 2_000_000
    """Characters of other files that are parsed for one analysis: a syntax tree takes about a hundred times its text."""
    file: int = 400_000
    """Bytes of a file that is read for the sake of others."""
    beside: int = 1_000
    """Files of a folder, beside those that were asked about, whose import lines are read."""
