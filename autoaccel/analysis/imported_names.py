"""What a file imports, by dotted names: they tell what kind of file it is."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from autoaccel.analysis.script import Script


def imported(script: Script) -> Iterator[str]:
    """`a.b` for `import a.b`, `a.b.c` for `from a.b import c`; anywhere in the file, relative imports excluded."""
    for plain in script.find(ast.Import):
        yield from (alias.name for alias in plain.names)
    for node in script.find(ast.ImportFrom):
        if not node.level:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
