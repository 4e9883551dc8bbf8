"""`lint --output-format gitlab`: GitLab's Code Quality report (a subset of Code Climate's)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from autoaccel.reports.context import Context, reasons, said
from autoaccel.reports.fingerprints import digest, fingerprints
from autoaccel.reports.json import dumped
from autoaccel.rewriting.record import Report


def render(reports: Sequence[Report], context: Context) -> str:
    return dumped([issue for report in reports for issue in _issues(report, context)])


def _issues(report: Report, context: Context) -> Iterator[dict[str, Any]]:
    path = context.name(report.path)
    for number, (failure, reason) in enumerate(reasons(report)):
        code, line = failure.code, failure.line
        yield _issue(code, reason, digest(path, code, str(number)), "critical", path, line, line)
    for finding, fingerprint in fingerprints(report, context):
        message, where = f"{said(finding)} [{finding.tier}]", context.where(report.path, finding)
        yield _issue(finding.code, message, fingerprint, "minor", path, where.line, where.end_line)


def _issue(code: str, message: str, fingerprint: str, severity: str, path: str, begin: int, end: int) -> dict[str, Any]:
    return {
        "check_name": code,
        "description": f"{code}: {message}",
        "fingerprint": fingerprint,
        "location": {"lines": {"begin": begin, "end": end}, "path": path},
        "severity": severity,
        "type": "issue",
    }
