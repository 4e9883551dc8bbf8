"""Findings, which hold on to syntax trees and rules, as records, which are plain data."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from autoaccel.rewriting.finding import Finding, Skipped
from autoaccel.rewriting.places import Places
from autoaccel.rewriting.plan import anchors
from autoaccel.rewriting.record import Range, Record


def records(said: Iterable[Finding | Skipped], places: Places, number: int) -> list[Record]:
    return list(dict.fromkeys(record(each, places, number) for each in said))


def record(said: Finding | Skipped, places: Places, number: int) -> Record:
    """What a rule said in a round, located in the text of that round."""
    where = range_of(said.node, places)
    rule = said.rule
    if isinstance(said, Skipped):
        return Record(rule.code, rule.name, rule.tier.label, said.reason, where, number)
    edits = tuple(dict.fromkeys(range_of(node, places) for edit in said.edits for node in anchors(edit)))
    return Record(rule.code, rule.name, said.tier.label, said.message, where, number, edits)


def range_of(node: ast.AST, places: Places) -> Range:
    if not isinstance(node, ast.expr | ast.stmt | ast.keyword | ast.arg | ast.alias | ast.excepthandler):
        return Range(1, 1, 1, 1)
    (line, column), (end_line, end_column) = places.span(node)
    return Range(line, column + 1, end_line, end_column + 1)


def in_order(found: Iterable[Record]) -> list[Record]:
    """Each once, by round and place."""
    return sorted(dict.fromkeys(found), key=lambda each: (each.round, each.line, each.column, each.code))
