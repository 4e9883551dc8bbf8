"""`lint --output-format rdjson`: the Reviewdog Diagnostic Format, with suggestions that can be applied.

https://github.com/reviewdog/reviewdog/tree/master/proto/rdf: lines and columns from 1, columns in bytes of UTF-8.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from autoaccel import HOME
from autoaccel.reports.context import Context, reasons, said
from autoaccel.reports.json import dumped
from autoaccel.rewriting.record import Range, Record, Report


def render(reports: Sequence[Report], context: Context) -> str:
    return dumped(
        {
            "diagnostics": [item for report in reports for item in _diagnostics(report, context)],
            "severity": "WARNING",
            "source": {"name": "autoaccel", "url": HOME},
        }
    )


def _diagnostics(report: Report, context: Context) -> Iterator[dict[str, Any]]:
    path = context.local(report.path)  # reviewdog puts its own folder in front
    for failure, reason in reasons(report):
        start = {"column": failure.column, "line": failure.line}
        location = {"path": path, "range": {"start": start}}
        yield {"code": {"value": failure.code}, "location": location, "message": reason, "severity": "ERROR"}
    for finding in report.findings:
        lines = context.lines(report.path, None) if finding.cell is None else []
        yield _diagnostic(finding, path, context.where(report.path, finding), lines)


def _diagnostic(finding: Record, path: str, where: Range, lines: Sequence[str]) -> dict[str, Any]:
    code = {"value": finding.code, **({"url": finding.url} if finding.url else {})}
    return {
        "code": code,
        "location": {"path": path, "range": _range(where, lines)},
        "message": f"{finding.name}: {said(finding)} [{finding.tier}]",
        "suggestions": [{"range": _range(each.where, lines), "text": each.content} for each in finding.changes],
    }


def _range(where: Range, lines: Sequence[str]) -> dict[str, Any]:
    start, end = _position(where.line, where.column, lines), _position(where.end_line, where.end_column, lines)
    return {"end": end, "start": start}


def _position(line: int, column: int, lines: Sequence[str]) -> dict[str, int]:
    before = lines[line - 1][: column - 1] if line <= len(lines) else ""
    return {"column": max(column, len(before.encode("utf-8", "surrogatepass")) + 1), "line": line}
