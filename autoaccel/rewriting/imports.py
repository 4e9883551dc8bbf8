"""Where an import belongs: at module level, after the script's own leading imports, before what uses it."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator

from autoaccel.edits import AddImport, Finding, InsertAfter
from autoaccel.notebooks.cells import cells
from autoaccel.rewriting.places import Places
from autoaccel.rewriting.plan import anchors

_SETTINGS = ("sys.path.", "os.environ", "matplotlib.", "mpl.", "warnings.", "site.", "logging.")


def text_of(wanted: AddImport) -> str:
    """The statement that makes an import."""
    alias = f" as {wanted.alias}" if wanted.alias else ""
    if wanted.name is None:
        return f"import {wanted.module}{alias}"
    return f"from {wanted.module} import {wanted.name}{alias}"


def missing(tree: ast.Module, findings: Iterable[Finding], before: int) -> list[AddImport]:
    """The imports that findings ask for and that the first `before` module-level statements do not make, each once,
    `import a` before `from a import b`."""
    wanted: dict[AddImport, None] = {}
    for finding in findings:
        for edit in finding.edits:
            if isinstance(edit, AddImport) and not any(_makes(statement, edit) for statement in tree.body[:before]):
                wanted[edit] = None
    return sorted(wanted, key=lambda edit: edit.name is not None)


def first_use(places: Places, findings: Iterable[Finding]) -> int:
    """The index of the first module-level statement in which new code may need its imports."""
    order = {statement: index for index, statement in enumerate(places.tree.body)}
    first = len(order)
    for finding in findings:
        if not any(isinstance(edit, AddImport) for edit in finding.edits):
            continue
        after = {edit.statement for edit in finding.edits if isinstance(edit, InsertAfter)}
        for node in (node for edit in finding.edits for node in anchors(edit)):
            for ancestor in (node, *places.ancestors(node)):
                if ancestor in order:
                    assert isinstance(ancestor, ast.stmt)
                    first = min(first, order[ancestor] + (1 if node in after else 0))
    return first


def anchor(places: Places, before: int) -> ast.stmt | None:
    """The statement after which imports go: the last leading import, else the docstring; None for the top.

    In a notebook: the last import of the first cell that imports torch; else there is always the marker of a cell."""
    tree, notebook = places.tree, cells(places.text)
    if notebook is not None:
        found = notebook.last_import(filter(_is_import, tree.body[:before])) or _leading(tree, before)
        return found or notebook.top(tree.body[:before], places.lines)
    return _leading(tree, before)


def _leading(tree: ast.Module, before: int) -> ast.stmt | None:
    found: ast.stmt | None = None
    for index, statement in enumerate(tree.body[:before]):
        if _is_import(statement) or (index == 0 and _is_text(statement)):
            found = statement
        elif not _is_preamble(statement):
            break
    return found


def fitting_anchor(places: Places, wanted: AddImport, last: ast.stmt) -> ast.stmt:
    """The statement after which an import of a library goes, where those of torch stand above `last`.

    Among those of torch, where every section of imports is sorted as isort sorts it: plain imports, then names from
    modules. Else below all but the imports of the project's own files that end the imports.

    It never comes before an import that used to come before torch's, for some libraries have to be first, nor before
    one that may bind any name.
    """
    blocks = list(_import_blocks(places))
    torch = next((block for block in blocks if any(_is_torch(each) for each in block)), None)
    body = places.tree.body
    between = body[body.index(torch[0]) : body.index(last) + 1] if torch else []
    if torch is None or not between or not all(isinstance(each, ast.Import | ast.ImportFrom) for each in between):
        return last
    if all(map(_is_sorted, blocks)) and (len(blocks) > 1 or not any(_is_of_another_section(places, e) for e in torch)):
        key = (int(wanted.name is not None), wanted.module.lower())
        before = [each for each in torch if (_sorting_key(each) or key) < key]
        # `import torch` loads nothing sooner right above what is taken from it
        beside = before and wanted.module == "torch" and _is_torch(torch[torch.index(before[-1]) + 1])
        if any(map(_is_torch, before)) or beside:
            return before[-1]
    while places.is_local(between[-1]) and not _is_star(between[-1]) and len(between) > 1:
        between.pop()
    return between[-1] if any(map(_is_torch, between)) and not places.is_local(between[-1]) else last


def _is_of_another_section(places: Places, statement: ast.stmt) -> bool:
    """Whether isort puts an import elsewhere than those of libraries: the standard library's, and the project's."""
    key = _sorting_key(statement)
    return key is None or key[1].split(".")[0] in sys.stdlib_module_names or places.is_local(statement)


def _is_sorted(block: list[ast.stmt]) -> bool:
    keys = [_sorting_key(each) for each in block]
    known = [key for key in keys if key is not None]
    return len(known) == len(keys) and known == sorted(known)


def _import_blocks(places: Places) -> Iterator[list[ast.stmt]]:
    """Runs of imports at the top of the file without anything between them, comments and blank lines included."""
    run: list[ast.stmt] = []
    for statement in places.tree.body:
        alone = isinstance(statement, ast.Import | ast.ImportFrom)
        if run and (not alone or statement.lineno != (run[-1].end_lineno or 0) + 1):
            yield run
            run = []
        if alone:
            run.append(statement)
    if run:
        yield run


def _sorting_key(statement: ast.stmt) -> tuple[int, str] | None:
    match statement:
        case ast.Import(names=[name]):
            return 0, name.name.lower()
        case ast.ImportFrom(module=str(module), names=[*names]) if all(each.name != "*" for each in names):
            return 1, "." * statement.level + module.lower()
        case _:
            return None


def _is_star(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.ImportFrom) and any(each.name == "*" for each in statement.names)


def _is_torch(statement: ast.stmt) -> bool:
    key = _sorting_key(statement)
    return key is not None and key[1].split(".")[0] == "torch"


def _makes(statement: ast.stmt, wanted: AddImport) -> bool:
    match statement:
        case ast.Import(names=names) if wanted.name is None:
            return any(name.name == wanted.module and name.asname == wanted.alias for name in names)
        case ast.ImportFrom(module=module, names=names, level=0) if module == wanted.module:
            return any(name.name == wanted.name and name.asname == wanted.alias for name in names)
        case _:
            return False


def _is_import(statement: ast.stmt) -> bool:
    """An import, also one that is tried or depends on a condition, as long as nothing else happens."""
    match statement:
        case ast.Import() | ast.ImportFrom():
            return True
        case ast.Try(body=body) | ast.If(body=body):
            return any(_is_import(each) for each in body) and all(
                _is_import(each) or _is_preamble(each) for each in body
            )
        case _:
            return False


def _is_preamble(statement: ast.stmt) -> bool:
    """What scripts do between their imports: paths, environment, back ends, version strings."""
    match statement:
        case ast.Expr(value=ast.Constant()) | ast.Pass():
            return True
        case ast.Expr(value=ast.Call(func=function)):
            return ast.unparse(function).startswith(_SETTINGS)
        case ast.Assign(targets=[ast.Name(id=name)]):
            return name.startswith("__") and name.endswith("__")
        case ast.Assign(targets=[target]):
            return ast.unparse(target).startswith(_SETTINGS)
        case ast.If(body=body, orelse=[]):
            return all(_is_preamble(each) for each in body)
        case _:
            return False


def _is_text(statement: ast.stmt) -> bool:
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    )
