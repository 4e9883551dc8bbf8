"""What edits may not do in a notebook: reach beyond a cell, change lines for IPython, change what a cell shows."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable

from autoaccel.edits import Edit, Finding, InsertAfter, InsertBefore, RemoveStatement, WrapStatements
from autoaccel.notebooks.cells import Cells, cells
from autoaccel.rewriting.places import Places

# Statements whose value is None, which no cell shows, by what they call.
_SHOWING_NOTHING = frozenset(("backward", "print", "step", "zero_grad"))
# Verbs of the runtime that give back what they are given, as these methods of a module do.
_GIVING_BACK = re.compile(r"\w+\.(?:compile|channels_last)\((?P<what>[\w.]+)[,)]")
_RETURNING_SELF = frozenset(("cpu", "cuda", "eval", "float", "to", "train"))


def obstacle(finding: Finding, places: Places, anchors: Callable[[Edit], Iterable[ast.AST]]) -> str | None:
    """Why a finding cannot be carried out in a notebook; None where it can, or where there is none.

    `anchors` gives the nodes that an edit acts on."""
    notebook = cells(places.text)
    if notebook is None:
        return None
    removed = {notebook.at(edit.statement.lineno)[0] for edit in finding.edits if isinstance(edit, RemoveStatement)}
    for edit in finding.edits:
        touched = _cells_of(edit, notebook)
        if len(touched) > 1 or (removed and touched - removed):
            return "it would move code from one cell to another"
        if any(line in notebook.markers for line in _lines(edit)):
            if not isinstance(edit, InsertAfter | InsertBefore) or edit.statement is places.tree.body[0]:
                return "it would move code from one cell to another"
        if not isinstance(edit, InsertAfter | InsertBefore | WrapStatements) and _is_for_ipython(anchors(edit), places):
            return "it would change a line for IPython"
        if _hides_value(edit, places, notebook):
            return "the cell shows the value of this line, which has to stay its last"
    return None


def _lines(edit: Edit) -> tuple[int, ...]:
    """The lines of the statements that are wrapped, removed or added to."""
    match edit:
        case WrapStatements(first=first, last=last):
            return first.lineno, last.lineno
        case InsertBefore(statement=one) | InsertAfter(statement=one) | RemoveStatement(statement=one):
            return (one.lineno,)
        case _:
            return ()


def _cells_of(edit: Edit, notebook: Cells) -> set[int]:
    """The cells in which something is wrapped, removed or added; what is added above a marker ends the cell before."""
    shift = isinstance(edit, InsertBefore) and edit.statement.lineno in notebook.markers
    return {notebook.at(line - shift)[0] for line in _lines(edit)}


def _is_for_ipython(nodes: Iterable[ast.AST], places: Places) -> bool:
    statements = map(places.statement, nodes)
    return any(
        each is not None and "#autoaccel[line " in places.lines[places.header_end(each) - 1] for each in statements
    )


def _hides_value(edit: Edit, places: Places, notebook: Cells) -> bool:
    """Whether a cell would no longer end in the expression whose value it shows."""
    body = places.tree.body
    match edit:
        case InsertAfter(statement=last) | RemoveStatement(statement=last) | WrapStatements(last=last):
            pass
        case InsertBefore(statement=below) if below.lineno in notebook.markers and below is not body[0]:
            last = body[body.index(below) - 1]
        case _:
            return False
    if last not in body or not isinstance(last, ast.Expr) or not _is_shown(last, places):
        return False
    following = body[body.index(last) + 1 :]
    if following and following[0].lineno not in notebook.markers:
        return False
    return not isinstance(edit, InsertAfter | InsertBefore) or not _shows_the_same(last.value, edit.code.text)


def _is_shown(statement: ast.Expr, places: Places) -> bool:
    line, column = places.end(statement)
    if places.lines[line - 1][column:].lstrip().startswith((";", "#autoaccel[line ")):
        return False
    match statement.value:
        case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name)):
            return name not in _SHOWING_NOTHING
    return not (isinstance(statement.value, ast.Constant) and statement.value.value is None)


def _shows_the_same(shown: ast.expr, inserted: str) -> bool:
    """`model.to(device)` shows the model, and so does `accel.compile(model)` after it."""
    given = _GIVING_BACK.match(inserted.split("\n")[-1])
    match shown:
        case ast.Call(func=ast.Attribute(value=what, attr=method)) if method in _RETURNING_SELF:
            return given is not None and given["what"] == ast.unparse(what)
    return given is not None and given["what"] == ast.unparse(shown)
