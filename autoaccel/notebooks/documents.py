"""Notebook files (JSON): the program of their code cells, and the file with some of these cells changed.

Nothing is parsed and dumped as a whole: the text of a changed cell is put in the place of the old one, in the way in
which the file is written, and every other byte stays.

https://nbformat.readthedocs.io/en/latest/format_description.html
"""

from __future__ import annotations

import ast
import builtins
import codecs
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from autoaccel.notebooks.cells import END, marker, split
from autoaccel.notebooks.magics import Cell, Hidden, HiddenError, cell
from autoaccel.sources import Source, SourceError

_BOM = codecs.BOM_UTF8.decode("utf-8")
_SPACE = re.compile(r"[ \t\n\r]*")
_ESCAPE = re.compile(r"(?<!\\)(?:\\\\)*\\u(?!00[01])")
_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_IMPORT = re.compile(r"^[ \t]*import[ \t]+([^\n#]+)", re.MULTILINE)
_NAME = re.compile(r"[^\W\d]\w*")
_MAGIC = re.compile(r"\s*%%[^\n]*")
_OF_NO_VALUE = frozenset(("cudnn_benchmark", "matmul_precision", "update"))
"""Calls that a rewrite may put last, and whose value, None, no cell shows."""
_DECODER = json.JSONDecoder()


@dataclass(frozen=True, slots=True)
class CodeCell:
    """A code cell: its number among all cells, where its source stands in the file's text, and what it is."""

    number: int
    start: int
    end: int
    source: str
    program: str
    """What stands for it in the program of the notebook."""
    opaque: bool
    hidden: range = range(0)
    """The placeholders in it."""


@dataclass(frozen=True, slots=True)
class Notebook(Source):
    """A notebook; `text` is its program."""

    cells: tuple[CodeCell, ...] = ()
    hidden: Hidden = field(default_factory=Hidden)
    name: str = ""

    def encode(self, text: str) -> bytes:
        """The file with the cells of a new program. Raises `SourceError`."""
        document = self.data.decode("utf-8").removeprefix(self.mark)
        changed = self._changed(text)
        parts, position = [self.mark], 0
        ascii_only = document.isascii() and "\\u" in document and _ESCAPE.search(document) is not None
        for each in self.cells:
            if each.number in changed:
                parts += (
                    document[position : each.start],
                    _written(document[each.start : each.end], changed[each.number], ascii_only=ascii_only),
                )
                position = each.end
        data = "".join([*parts, document[position:]]).encode("utf-8")
        if changed:
            # NaN as a text, for it is not itself.
            before, after = (json.loads(each.decode("utf-8-sig"), parse_constant=str) for each in (self.data, data))
            if _with_sources(before, changed) != after:
                raise self._failed("more than the cells was changed")
        return data

    def parts(self, text: str) -> dict[str, str]:
        """The cells of a program as people see them, by what is said behind the name of the file."""
        cells = self._sources(text).items()
        return {f":cell {number}": source + "\n" * (not source.endswith("\n")) for number, source in cells}

    def row(self, cell: int | None, line: int) -> int:
        """The line of the file in which a line of a cell is written."""
        document = self.data.decode("utf-8").removeprefix(self.mark)
        for each in self.cells:
            if each.number == cell:
                places = _lines_in(document, each.start)
                return document.count("\n", 0, places[min(line, len(places)) - 1]) + 1
        return 1

    def _failed(self, reason: str) -> SourceError:
        return SourceError(f"{self.name}: left alone, the self-check failed: {reason}")

    def _changed(self, text: str) -> dict[int, str]:
        now = self._sources(text)
        return {each.number: now[each.number] for each in self.cells if now[each.number] != each.source}

    def _sources(self, text: str) -> dict[int, str]:
        (_, above), *cells = split(text)
        ended = not self.cells or text.endswith(f"\n{END}\n")
        if above or not ended or [number for number, _ in cells] != [each.number for each in self.cells]:
            raise self._failed("code was moved from one cell to another")
        return {each.number: self._source(each, program) for each, (_, program) in zip(self.cells, cells, strict=True)}

    def _source(self, cell: CodeCell, program: str) -> str:
        program = program.removesuffix("\n")
        if program == cell.program:
            return cell.source
        if cell.opaque:
            raise self._failed("a cell that cannot be read was to be changed")
        try:
            source = self.hidden.restored(_quiet(cell.program, program), cell.hidden)
        except ValueError as error:
            raise self._failed(str(error)) from error
        head = _MAGIC.match(cell.source)
        if head is not None and not source.startswith(head[0]):
            raise self._failed("something was put above a cell magic")
        return source


def decode(data: bytes, name: Path | str) -> Notebook:
    """Raises `SourceError` for what is no notebook."""
    mark = _BOM if data.startswith(codecs.BOM_UTF8) else ""
    try:
        document = data.decode("utf-8").removeprefix(mark)
        content = json.loads(document)
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise SourceError(f"{name}:{line}: not a notebook: not utf-8 text") from error
    except json.JSONDecodeError as error:
        raise SourceError(f"{name}:{error.lineno}:{error.colno}: not a notebook: {error.msg.lower()}") from error
    except RecursionError as error:
        raise SourceError(f"{name}: not a notebook: it is nested too deeply") from error
    found = list(_code_cells(document, content, name)) if _is_python(content) else []
    return _assembled(data, mark, found, name)


def _assembled(data: bytes, mark: str, found: Sequence[tuple[int, int, int, str]], name: Path | str) -> Notebook:
    hidden, cells, notes, problem = Hidden(), [], [], ""
    imports = (line for *_, source in found for line in _IMPORT.findall(source))
    modules = {word for line in imports for word in _NAME.findall(line)}
    for number, start, end, source in found:
        kept = len(hidden.lines)
        try:
            read, word = cell(source, hidden, modules)
        except HiddenError as error:
            problem = problem or f"{name}:cell {number}:{error}; the notebook is left alone"
            read, word = Cell("get_ipython()", opaque=True), ""
        if word:
            notes.append(f"{name}:cell {number}:{word}")
        if read is not None and read.text.strip():
            numbers = range(kept, len(hidden.lines))
            cells.append(CodeCell(number, start, end, source, read.text, read.opaque, numbers))
    if not problem and (late := _out_of_order(cells)) is not None:
        number, missing, later = late
        problem = (
            f"{name}:cell {number}:1: reads `{missing}`, which only cell {later} binds: in which order the cells run "
            "is not known; the notebook is left alone"
        )
    text = "".join(f"{marker(each.number)}\n{each.program}\n" for each in cells) + f"{END}\n" * bool(cells)
    return Notebook(data, text, "utf-8", mark, problem, tuple(notes), tuple(cells), hidden, str(name))


def _is_python(content: Any) -> bool:
    """Whether cells are Python, which is the rule where nothing is said."""
    metadata = content.get("metadata") if isinstance(content, dict) else None
    for part, key in (("language_info", "name"), ("kernelspec", "language")):
        about = metadata.get(part) if isinstance(metadata, dict) else None
        if isinstance(about, dict) and isinstance(about.get(key), str):
            return "python" in about[key].lower()
    return True


# -- where things stand in a document


def _code_cells(document: str, content: Any, name: Path | str) -> Iterator[tuple[int, int, int, str]]:
    """Number, place and source of each code cell; in files of version 3 they lie in worksheets."""
    if not isinstance(content, dict) or not ("cells" in content or "worksheets" in content):
        raise SourceError(f"{name}:1: not a notebook: it has no cells")
    number = 0
    for place in _cell_places(document, content):
        number += 1
        held, _ = _DECODER.raw_decode(document, place)
        if not isinstance(held, dict):
            raise SourceError(f"{name}:cell {number}: not a notebook: a cell is no object")
        if held.get("cell_type") != "code":
            continue
        key = "source" if "source" in held else "input"
        source = held.get(key, "")
        if isinstance(source, list) and all(isinstance(line, str) for line in source):
            source = "".join(source)
        if not isinstance(source, str):
            raise SourceError(f"{name}:cell {number}: not a notebook: the source of a cell is no text")
        if source.strip():
            start, end = _members(document, place)[key]
            yield number, start, end, source


def _cell_places(document: str, content: dict[str, Any]) -> Iterator[int]:
    top = _members(document, _SPACE.match(document).end())  # type: ignore[union-attr]  # it matches anything
    if isinstance(content.get("cells"), list):
        yield from _elements(document, top["cells"][0])
    elif isinstance(content.get("worksheets"), list):
        for sheet in _elements(document, top["worksheets"][0]):
            held, _ = _DECODER.raw_decode(document, sheet)
            if isinstance(held, dict) and isinstance(held.get("cells"), list):
                yield from _elements(document, _members(document, sheet)["cells"][0])


def _after_space(document: str, position: int) -> int:
    found = _SPACE.match(document, position)
    assert found is not None
    return found.end()


def _members(document: str, position: int) -> dict[str, tuple[int, int]]:
    """Where the values of an object stand; of a key that comes twice the last counts, as it does for readers."""
    found = {}
    position = _after_space(document, position + 1)
    while document[position] != "}":
        key, position = _DECODER.raw_decode(document, position)
        start = _after_space(document, _after_space(document, position) + 1)
        _, end = _DECODER.raw_decode(document, start)
        found[key] = start, end
        position = _next(document, end)
    return found


def _elements(document: str, position: int) -> list[int]:
    """Where the elements of an array stand."""
    found = []
    position = _after_space(document, position + 1)
    while document[position] != "]":
        found.append(position)
        _, end = _DECODER.raw_decode(document, position)
        position = _next(document, end)
    return found


def _next(document: str, end: int) -> int:
    position = _after_space(document, end)
    return _after_space(document, position + 1) if document[position] == "," else position


def _lines_in(document: str, start: int) -> list[int]:
    """Where the lines of a source are written: all in one place where it is one string."""
    if document[start] != "[":
        return [start]
    return [
        position
        for position in _elements(document, start)
        for _ in range(max(1, _DECODER.raw_decode(document, position)[0].count("\n")))
    ] or [start]


# -- how they are written


def _written(old: str, source: str, *, ascii_only: bool) -> str:
    """A source in the place of `old`, written alike; lines that were there keep their spelling."""
    if old[0] != "[":
        return json.dumps(source, ensure_ascii=ascii_only)
    places = _elements(old, 0)
    ends = [_DECODER.raw_decode(old, place)[1] for place in places]
    known: dict[str, list[str]] = {}
    for start, end in zip(places, ends, strict=True):
        known.setdefault(_DECODER.raw_decode(old, start)[0], []).append(old[start:end])
    lines = _LINE.findall(source)
    if any(len(_LINE.findall(line)) > 1 for line in known):  # not a line each: all in the one element, then
        lines = [source]
    spelt = []
    for line in lines:
        spellings = known.get(line)
        if spellings is None:
            spelt.append(json.dumps(line, ensure_ascii=ascii_only))
        else:
            spelt.append(spellings.pop(0) if len(spellings) > 1 else spellings[0])
    opening, closing = old[: places[0]], old[ends[-1] :]
    between = old[ends[0] : places[1]] if len(places) > 1 else f",{opening[1:]}"
    return f"{opening}{between.join(spelt)}{closing}"


def _with_sources(content: Any, changed: dict[int, str]) -> Any:
    """The content of a notebook with other sources, in lines where they are."""
    cells = content.get("cells")
    if not isinstance(cells, list):
        sheets = [each["cells"] for each in content["worksheets"] if isinstance(each, dict) and "cells" in each]
        cells = [each for sheet in sheets if isinstance(sheet, list) for each in sheet]
    for number, source in changed.items():
        key = "source" if "source" in cells[number - 1] else "input"
        if isinstance(old := cells[number - 1][key], str):
            cells[number - 1][key] = source
        else:
            parted = all(len(_LINE.findall(line)) <= 1 for line in old)
            cells[number - 1][key] = _LINE.findall(source) if parted else [source]
    return content


# -- what is shown and read


def _quiet(before: str, after: str) -> str:
    """The new text of a cell, whose last line shows nothing that the old one did not: a `;` at its end says so."""
    ends = [_shown(text) for text in (before, after)]
    if ends[0] is not None or ends[1] is None:
        return after
    lines = after.split("\n")
    line, offset = ends[1]
    column = len(lines[line - 1].encode()[:offset].decode())
    lines[line - 1] = f"{lines[line - 1][:column]};{lines[line - 1][column:]}"
    return "\n".join(lines)


def _shown(program: str) -> tuple[int, int] | None:
    """Where the expression ends whose value a cell shows."""
    last = ast.parse(program).body[-1:]
    if not last or not isinstance(last[0], ast.Expr):
        return None
    line, offset = last[0].end_lineno or 1, last[0].end_col_offset or 0
    match last[0].value:
        case ast.Call(func=ast.Attribute(attr=name)) if name in _OF_NO_VALUE:
            return None
    rest = program.split("\n")[line - 1].encode()[offset:].decode().lstrip()
    return None if rest.startswith((";", "#autoaccel[line")) else (line, offset)


def _out_of_order(cells: Sequence[CodeCell]) -> tuple[int, str, int] | None:
    """A cell that reads a name which only cells below bind, the name, and the first of these."""
    trees = [ast.parse(each.program) for each in cells]
    bound = [{name for node in _at_once(tree) for name in bound_names(node)} for tree in trees]
    known = set(dir(builtins))
    for index, tree in enumerate(trees):
        nodes = list(ast.walk(tree))
        if any(isinstance(node, ast.ImportFrom) and node.names[0].name == "*" for node in nodes):
            return None  # whose names are not known
        known.update(name for node in nodes for name in bound_names(node))
        reads = {node.id for node in _at_once(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
        for name in sorted(reads - known) if not cells[index].opaque else ():
            later = next((cells[at].number for at in range(index + 1, len(cells)) if name in bound[at]), None)
            if later is not None:
                return cells[index].number, name, later
    return None


def bound_names(node: ast.AST) -> list[str]:
    """The names that a node binds by itself."""
    match node:
        case ast.Name(id=name, ctx=ast.Store()) | ast.ExceptHandler(name=str(name)) | ast.arg(arg=name):
            return [name]
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return [name]
        case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)) | ast.MatchMapping(rest=str(name)):
            return [name]
        case ast.Import(names=names) | ast.ImportFrom(names=names):
            return [(each.asname or each.name).split(".")[0] for each in names]
        case ast.Global(names=named):
            return named
        case _:
            return []


def _at_once(tree: ast.Module) -> Iterator[ast.AST]:
    """What runs when the cell does: not what stands in functions."""
    pending: list[ast.AST] = [tree]
    while pending:
        node = pending.pop()
        yield node
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            pending.extend((*getattr(node, "decorator_list", ()), *node.args.defaults))
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "get_ipython":
            pass  # of what it says only some are names of the program
        else:
            pending.extend(ast.iter_child_nodes(node))
