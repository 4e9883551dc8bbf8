"""Imports whose last use a rewrite has taken: they go with it, where they do nothing but bind that name."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from autoaccel.notebooks.cells import cells
from autoaccel.rewriting.check import shares_lines
from autoaccel.rewriting.places import Places, raw_lines

if TYPE_CHECKING:
    from autoaccel.analysis import Script

# Importing them has no effect that a program may count on.
_PLAIN = frozenset({"numpy", "torch"})


def candidates(before: str, after: str) -> tuple[str, ...]:
    """The names that `before` imports at module level and uses, and `after` does not use any more."""
    if before == after or cells(before) is not None:
        return ()
    old, new = ast.parse(before), ast.parse(after)
    names = dict.fromkeys(name for _, name, _ in _imports(old))
    if not (gone := _unused(new, names)):
        return ()
    never = _unused(old, gone)
    names = {each: None for each in names if each in gone and each not in never}
    return tuple(each for each in names if not re.search(rf"#\s*type:.*\b{re.escape(each)}\b", after))


def may_go(script: Script, name: str) -> bool:
    """Whether nobody else needs a name that a script imports."""
    from autoaccel.analysis.imported_names import imported_elsewhere
    from autoaccel.dataflow.completeness import Incomplete
    from autoaccel.pytorch.introspection import name_looked_up

    if script.path is not None and script.path.name == "__init__.py":
        return False
    try:
        return not imported_elsewhere(script, name) and name_looked_up(script, name, public=True) is None
    except Incomplete:
        return False


def without(text: str, name: str) -> str:
    """The text without the import of a name; as it is where that is not one plain line without a comment."""
    places = Places(text, ast.parse(text))
    found = [(statement, alias) for statement, bound, alias in _imports(places.tree) if bound == name]
    if len(found) != 1:
        return text
    [(statement, alias)] = found
    line = places.lines[statement.lineno - 1]
    if statement.lineno != statement.end_lineno or shares_lines(places, statement) or "#" in line:
        return text
    lines = raw_lines(text)
    kept = [each for each in statement.names if each is not alias]
    if kept:
        end = lines[statement.lineno - 1][len(line) :]
        statement.names = kept
        lines[statement.lineno - 1] = ast.unparse(statement) + end
    elif len(places.tree.body) == 1:
        return text
    else:
        above, below = (
            lines[at].strip() if 0 <= at < len(lines) else "" for at in (statement.lineno - 2, statement.lineno)
        )
        del lines[statement.lineno - 1 : statement.lineno + (not above and not below)]
    return "".join(lines)


def _imports(tree: ast.Module) -> Iterator[tuple[ast.Import | ast.ImportFrom, str, ast.alias]]:
    """The imports of libraries that have no effect but to bind a name, and the name."""
    for statement in tree.body:
        match statement:
            case ast.Import(names=names):
                known = [(each, each.name) for each in names if each.asname or "." not in each.name]
            case ast.ImportFrom(module=str(module), names=names, level=0) if module != "__future__":
                known = [(each, module) for each in names if each.name != "*"]
            case _:
                continue
        for alias, module in known:
            top = module.split(".")[0]
            if alias.asname != alias.name and (top in _PLAIN or top in sys.stdlib_module_names):
                assert isinstance(statement, ast.Import | ast.ImportFrom)
                yield statement, alias.asname or alias.name, alias


def _unused(tree: ast.Module, names: Iterable[str]) -> set[str]:
    """The names of which nothing but their import may speak, texts included."""
    left = set(names)
    for node in ast.walk(tree):
        if not left:
            break
        match node:
            case ast.Name(id=used):
                left.discard(used)
            case ast.Global(names=used) | ast.Nonlocal(names=used):
                left.difference_update(used)
            case ast.Constant(value=str(value)):
                left -= {each for each in left if each in value and re.search(rf"\b{re.escape(each)}\b", value)}
    return left
