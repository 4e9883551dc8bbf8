"""What a file imports, by dotted names: they tell what kind of file it is. And who imports a name from it."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from autoaccel.analysis.namespaces import taken_by_star
from autoaccel.analysis.script import Script
from autoaccel.dataflow.query import once_all


@once_all
def imported(script: Script) -> Iterator[str]:
    """`a.b` for `import a.b`, `a.b.c` for `from a.b import c`; anywhere in the file, relative imports excluded."""
    for plain in script.find(ast.Import):
        yield from (alias.name for alias in plain.names)
    for node in script.find(ast.ImportFrom):
        if not node.level:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def imported_elsewhere(script: Script, local: str) -> bool:
    """Whether another file of the project imports a name, or all names of which it is one, from this one. Raises
    `Incomplete`.

    Files that import all names count whether they say this one or not: a rewrite of theirs may take it out of them, and
    would change the answer of the next run."""
    wanted = {local, "*"} if taken_by_star(script, local) else {local}
    for other in script.project.importers(script):
        for node in other.find(ast.ImportFrom):
            for alias in node.names:
                if alias.name in wanted:
                    target = ".".join(filter(None, (node.module, local)))
                    found = script.project.imported(other, target, node.level)
                    if found is not None and found[0] is script:
                        return True
    return False
