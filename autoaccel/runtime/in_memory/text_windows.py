"""Windows of a text as numbers: what datasets of characters give to language models.

`[self.stoi[c] for c in self.data[i : i + n]]` looks every character up, again in every window it is part of. The text
is looked up once; texts never change, and the table is watched.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import torch

from .columns import Tensors
from .mutation_guard import MutationGuard, Unsupported
from .symbolic_rows import Affine, Row, windows

LONGEST: Final = 2**22  # characters; a longer text would hold up the first batch


@dataclass(frozen=True)
class Window:
    """`length` characters of a text."""

    text: str
    start: Affine
    length: int


def numbers(window: Any, table: Any, guard: MutationGuard) -> Row:
    """The row of numbers that a table gives for a window's characters, as a list."""
    if not isinstance(window, Window) or type(table) is not dict or len(window.text) > LONGEST:
        raise Unsupported("its __getitem__ makes a list of something else")
    guard.contents(table)
    if {*map(type, guard.contents(table.values()))} != {int}:
        raise Unsupported("its __getitem__ looks characters up that are no numbers")
    try:
        encoded = torch.tensor(list(map(table.__getitem__, window.text)))
    except KeyError:
        raise Unsupported("its __getitem__ looks characters up that are not there") from None
    return Row("list", Tensors(encoded, (windows(window.length),)), 1, window.start.route())
