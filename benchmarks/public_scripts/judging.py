"""Findings against what a reader of the scripts found: transfers, evaluation passes, decisions about autocast.

The truth is a JSON file, made by hand, that maps `repository/path` to

- `transfers`: lines with a move of a loader's batch; `already_non_blocking`: those of them with nothing left to do;
- `training_loops`: `line`, `also` (other lines by which the loop may be named, such as the `def` that holds its step),
  `autocast` (`apply` or `decline`), `why`, and `either` where both are right;
- `eval_without_no_grad`, `inference_without_no_grad`: lines of passes that build a graph for nothing, with `eval_also`
  and `inference_also` for other lines by which they may be named.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autoaccel.rewriting.record import Record
from benchmarks.public_scripts.surveying import Surveyed

TRANSFER, AUTOCAST, NO_GRAD = "AA103", "AA301", "AA501"


@dataclass(frozen=True, slots=True)
class Verdict:
    """One question about one place, and whether the tool answers it as the reader did."""

    question: str
    script: str
    line: int
    right: bool
    said: str


def spans(text: str) -> dict[int, list[tuple[int, int]]]:
    """For the first line of each statement: the lines that it covers, decorators included."""
    found: dict[int, list[tuple[int, int]]] = {}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.stmt):
            found.setdefault(node.lineno, []).append((node.lineno, node.end_lineno or node.lineno))
    return found


def covered(lines: Iterable[int], text: str) -> set[int]:
    """All lines of the statements that begin on `lines`, and the one above each, where a decorator goes."""
    by_line = spans(text)
    return {
        inner
        for line in lines
        for start, end in by_line.get(line, [(line, line)])
        for inner in range(start - 1, end + 1)
    }


def said_at(records: Iterable[Record], code: str, lines: set[int]) -> list[Record]:
    return [
        record
        for record in records
        if record.code == code
        and record.round == 1
        and (record.line in lines or any(edit.line in lines for edit in record.edits))
    ]


def judge_script(script: str, truth: Mapping[str, Any], found: Surveyed, text: str) -> Iterator[Verdict]:
    moved = {edit.line for record in found.applied if record.code == TRANSFER for edit in (record.where, *record.edits)}
    for line in truth["transfers"]:
        if line not in truth["already_non_blocking"]:
            declined = said_at(found.skipped, TRANSFER, {line})
            said = "applied" if line in moved else declined[0].message if declined else "not seen"
            yield Verdict("transfer", script, line, line in moved, said)
    for loop in truth["training_loops"]:
        lines = covered([loop["line"], *loop["also"]], text)
        applied, declined = said_at(found.applied, AUTOCAST, lines), said_at(found.skipped, AUTOCAST, lines)
        said = "applied" if applied else declined[0].message if declined else "not seen"
        right = loop["either"] or (loop["autocast"] == "apply") == bool(applied)
        yield Verdict("autocast", script, loop["line"], right, f"{said} (should {loop['autocast']} {loop['why']})")
    for kind, question in (("eval", "evaluation"), ("inference", "inference")):
        for line in truth[f"{kind}_without_no_grad"]:
            lines = covered([line, *truth[f"{kind}_also"].get(str(line), [])], text)
            applied, declined = said_at(found.applied, NO_GRAD, lines), said_at(found.skipped, NO_GRAD, lines)
            said = "applied" if applied else declined[0].message if declined else "not seen"
            yield Verdict(question, script, line, bool(applied), said)


def judge(truth: Mapping[str, Mapping[str, Any]], files: Iterable[Surveyed], corpus: Path) -> list[Verdict]:
    """All verdicts about the scripts that the truth names."""
    by_path = {each.path.resolve(): each for each in files}
    verdicts: list[Verdict] = []
    for script, expected in truth.items():
        path = (corpus / script).resolve()
        verdicts += judge_script(script, expected, by_path[path], path.read_text(encoding="utf-8-sig"))
    return verdicts


def table(verdicts: list[Verdict]) -> str:
    lines = []
    for question in dict.fromkeys(verdict.question for verdict in verdicts):
        asked = [verdict for verdict in verdicts if verdict.question == question]
        right = sum(verdict.right for verdict in asked)
        lines.append(f"{question:12} {right:4} of {len(asked):4}  {100 * right / len(asked):5.1f} %")
    lines += ["", *(f"{v.question:12} {v.script}:{v.line}  {v.said}" for v in verdicts if not v.right)]
    return "\n".join(lines)
