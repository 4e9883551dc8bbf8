"""What reports on many files need beside the findings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from autoaccel.rewriting.rule import Rule


@dataclass(frozen=True, slots=True)
class Context:
    """`root` is the folder that names in machine-readable reports are relative to: the repository's, else the working
    directory. `text` gives the text of a file that was reported on, `rules` all rules that there are."""

    root: Path
    text: Callable[[str], str]
    rules: Callable[[], Sequence[Rule]]
