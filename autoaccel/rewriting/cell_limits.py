"""What edits may not do in a notebook: reach beyond a cell, change lines for IPython, change what a cell shows, keep
what is out of date when a cell has run again."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Sequence

from autoaccel.edits import Edit, Finding, InsertAfter, InsertBefore, RemoveStatement, Skipped, WrapStatements
from autoaccel.notebooks.cells import Cells, cells
from autoaccel.rewriting.places import Places
from autoaccel.rewriting.plan import anchors, codes

# Statements whose value is None, which no cell shows, by what they call.
_SHOWING_NOTHING = frozenset(("backward", "print", "step", "zero_grad"))
# Verbs of the runtime that give back what they are given, as these methods of a module do.
_GIVING_BACK = re.compile(r"\w+\.(?:compile|channels_last)\((?P<what>[\w.]+)[,)]")
_ASSIGNED = re.compile(r"^(?P<name>\w+) = (?P<value>.+)$", re.MULTILINE)
_RETURNING_SELF = frozenset(("apply", "cpu", "cuda", "eval", "float", "to", "train"))


def parted(findings: Sequence[Finding], places: Places) -> tuple[list[Finding], list[Skipped]]:
    """The findings that can be carried out in a notebook, and the others with the reason; all of them elsewhere."""
    notebook = cells(places.text)
    if notebook is None:
        return [*findings], []
    reasons = {each: _obstacle(each, places, notebook) for each in findings}
    left = [Skipped(each.rule, each.node, reason) for each, reason in reasons.items() if reason is not None]
    return [each for each, reason in reasons.items() if reason is None], left


def _obstacle(finding: Finding, places: Places, notebook: Cells) -> str | None:
    removed = {notebook.at(edit.statement.lineno)[0] for edit in finding.edits if isinstance(edit, RemoveStatement)}
    for edit in finding.edits:
        touched = _cells_of(edit, notebook)
        if len(touched) > 1 or (removed and touched - removed):
            return "it would move code from one cell to another"
        if any(line in notebook.markers for line in _lines(edit)):
            outer = places.tree.body[0 if isinstance(edit, InsertBefore) else -1]
            if not isinstance(edit, InsertAfter | InsertBefore) or edit.statement is outer:
                return "it would move code from one cell to another"
        if not isinstance(edit, InsertAfter | InsertBefore | WrapStatements) and _is_for_ipython(anchors(edit), places):
            return "it would change a line for IPython"
        if _hides_value(edit, places, notebook):
            return "the cell shows the value of this line, which has to stay its last"
    return _out_of_date(finding, places, notebook)


def _out_of_date(finding: Finding, places: Places, notebook: Cells) -> str | None:
    """New names hold what is made of others: they are bound in the cell that binds those, or used in one cell alone."""
    for edit in finding.edits:
        if not isinstance(edit, InsertAfter | InsertBefore) or edit.statement not in places.tree.body:
            continue
        [cell] = _cells_of(edit, notebook)
        of_holes = {each.id for hole in edit.code.holes for each in ast.walk(hole) if isinstance(each, ast.Name)}
        for made in _ASSIGNED.finditer(edit.code.text):
            if _users(made["name"], edit, finding, notebook) <= {cell}:
                continue
            for word in sorted({*re.findall(r"\w+", made["value"]), *of_holes}):
                if _binding_cells(word, places, notebook) - {cell}:
                    return f"`{made['name']}` would be out of date when the cell that binds `{word}` runs again"
    return None


def _users(name: str, made: Edit, finding: Finding, notebook: Cells) -> set[int]:
    """The cells in which other edits of a finding say a new name."""
    said = re.compile(rf"\b{name}\b")
    edits = (each for each in finding.edits if each is not made and any(said.search(code.text) for code in codes(each)))
    lines = (getattr(node, "lineno", None) for each in edits for node in anchors(each))
    return {notebook.at(line)[0] for line in lines if line is not None}


def _binding_cells(name: str, places: Places, notebook: Cells) -> set[int]:
    """The cells that bind a name of the module, other than by import."""
    bound = (node for node in ast.walk(places.tree) if isinstance(node, ast.Name) and node.id == name)
    stores = [node for node in bound if isinstance(node.ctx, ast.Store)]
    functions = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
    outside = (each for each in stores if not any(isinstance(up, functions) for up in places.ancestors(each)))
    return {notebook.at(each.lineno)[0] for each in outside}


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
