"""Findings, which hold on to syntax trees and rules, as records, which are plain data."""

from __future__ import annotations

import ast
import dataclasses
import re
from collections.abc import Iterable

from autoaccel.edits import Finding, Skipped
from autoaccel.notebooks.cells import Cells, cells
from autoaccel.rewriting.line_origins import LineOrigins
from autoaccel.rewriting.places import Places
from autoaccel.rewriting.plan import anchors
from autoaccel.rewriting.record import Range, Record


def records(
    said: Iterable[Finding | Skipped], places: Places, number: int, origins: LineOrigins | None = None
) -> list[Record]:
    """Each thing once that was said in a round."""
    return list(dict.fromkeys(record(each, places, number, origins) for each in said))


def record(said: Finding | Skipped, places: Places, number: int, origins: LineOrigins | None = None) -> Record:
    """What a rule said in a round of the text of that round, located in the file; `origins` leads there from a later
    round."""
    where = _spoken_of(said.node, places)
    rule = said.rule
    if isinstance(said, Skipped):
        made = Record(rule.code, rule.name, rule.tier.label, said.reason, where, number)
    else:
        edits = tuple(dict.fromkeys(range_of(node, places) for edit in said.edits for node in anchors(edit)))
        made = Record(rule.code, rule.name, said.tier.label, said.message, where, number, edits)
    if origins is not None:
        edits = tuple(dict.fromkeys(map(origins.place, made.edits)))
        where, message = origins.place(where), origins.worded(made.message)
        made = dataclasses.replace(made, where=where, edits=edits, message=message)
    notebook = cells(places.text if origins is None else origins.text)
    return made if notebook is None else _in_cell(made, notebook)


def _in_cell(made: Record, notebook: Cells) -> Record:
    cell, line = notebook.at(made.line)
    end_cell, end_line = notebook.at(made.end_line)
    where = Range(line, made.column, end_line if end_cell == cell else line, made.end_column)
    return dataclasses.replace(made, where=where, edits=(), cell=cell, message=notebook.worded(made.message))


def _spoken_of(node: ast.AST, places: Places) -> Range:
    """What is marked in a report: of a compound statement its header, not all that it holds."""
    whole = range_of(node, places)
    end = _header(node)
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        name = re.compile(rf"\b{re.escape(node.name)}\b").search(places.lines[whole.line - 1], whole.column - 1)
        return Range(whole.line, whole.column, whole.line, name.end() + 1) if name else whole
    if end is None:
        return whole
    line, column = places.end(end)
    return Range(whole.line, whole.column, line, column + 1)


def _header(node: ast.AST) -> ast.expr | None:
    """The last expression above the block of a compound statement."""
    match node:
        case ast.For(iter=last) | ast.AsyncFor(iter=last) | ast.While(test=last) | ast.If(test=last):
            return last
        case ast.With(items=items) | ast.AsyncWith(items=items):
            return items[-1].optional_vars or items[-1].context_expr
        case _:
            return None


def range_of(node: ast.AST, places: Places) -> Range:
    if not isinstance(node, ast.expr | ast.stmt | ast.keyword | ast.arg | ast.alias | ast.excepthandler):
        return Range(1, 1, 1, 1)
    (line, column), (end_line, end_column) = places.span(node)
    return Range(line, column + 1, end_line, end_column + 1)


def in_order(found: Iterable[Record]) -> list[Record]:
    """Each once, by round and place."""
    return sorted(dict.fromkeys(found), key=lambda each: (each.round, each.order))
