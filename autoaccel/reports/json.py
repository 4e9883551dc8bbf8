"""`lint --output-format json`: the keys of ruff's JSON, whose readers need not learn another, plus `tier`."""

from __future__ import annotations

import dataclasses
import enum
import json
import math
from collections.abc import Iterator, Sequence
from typing import Any

from autoaccel.reports.context import Context, reasons
from autoaccel.rewriting.record import Range, Record, Report, TextEdit


def render(reports: Sequence[Report], context: Context) -> str:
    return dumped([item for report in reports for item in _items(report, context)])


def dumped(value: object) -> str:
    """JSON as all our reports have it."""
    return json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def plain(value: Any) -> Any:
    """Our data as what JSON can say: dataclasses by field, enums by value, and no infinity, which becomes null."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    match value:
        case enum.Enum():
            return value.value
        case dict():
            return {key: plain(each) for key, each in value.items()}
        case list() | tuple():
            return [plain(each) for each in value]
        case float() if not math.isfinite(value):
            return None
        case _:
            return value


def _items(report: Report, context: Context) -> Iterator[dict[str, Any]]:
    filename = context.absolute(report.path)
    for failure, reason in reasons(report):
        where = Range(failure.line, failure.column, failure.line, failure.column)
        yield _item(filename, failure.code, failure.code, reason, where)
    for each in report.findings:
        yield _item(filename, each.code, each.name, each.message, each.where) | {
            "cell": each.cell,
            "fix": _fix(each) if each.changes else None,
            "noqa_row": each.line,
            "tier": each.tier,
            "url": each.url,
        }


def _item(filename: str, code: str, name: str, message: str, where: Range) -> dict[str, Any]:
    return {
        "cell": None,
        "code": code,
        "end_location": _location(where.end_line, where.end_column),
        "filename": filename,
        "fix": None,
        "location": _location(where.line, where.column),
        "message": message,
        "name": name,
        "noqa_row": None,
        "severity": "error",
        "tier": None,
        "url": None,
    }


def _fix(finding: Record) -> dict[str, Any]:
    return {
        "applicability": "safe" if finding.tier == "exact" else "unsafe",
        "edits": [_edit(each) for each in finding.changes],
        "message": "; ".join(finding.fix) or None,
    }


def _edit(edit: TextEdit) -> dict[str, Any]:
    return {
        "content": edit.content,
        "end_location": _location(edit.where.end_line, edit.where.end_column),
        "location": _location(edit.where.line, edit.where.column),
    }


def _location(row: int, column: int) -> dict[str, int]:
    return {"column": column, "row": row}
