"""`lint --output-format github`: workflow commands, which GitHub shows beside the lines of a pull request."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from autoaccel.reports.context import Context, reasons
from autoaccel.rewriting.record import Record, Report


def render(reports: Sequence[Report], context: Context) -> str:
    lines = [_command(problem, title="autoaccel") for problem in context.problems]
    lines += [line for report in reports for line in _lines(report, context)]
    return "".join(line + "\n" for line in lines)


def _lines(report: Report, context: Context) -> Iterator[str]:
    file = context.name(report.path)
    for failure, reason in reasons(report):
        line, column, title = failure.line, failure.column, f"autoaccel ({failure.code})"
        yield _command(f"{file}:{line}:{column}: {reason}", title=title, file=file, line=line, col=column)
    for each in report.findings:
        where, title = context.where(report.path, each), f"autoaccel ({each.code} {each.name})"
        place = {"line": where.line, "col": where.column, "endLine": where.end_line, "endColumn": where.end_column}
        yield _command(_message(each, file), title=title, file=file, **place)


def _message(finding: Record, file: str) -> str:
    head = f"{file}:{finding.place}: {finding.code} {finding.message} [{finding.tier}]"
    return "\n".join([head, *(f"  fix: {line}" for line in finding.fix)])


def _command(message: str, **properties: str | int) -> str:
    given = ",".join(f"{key}={_property(str(value))}" for key, value in properties.items())
    return f"::error {given}::{_data(message)}"


def _data(text: str) -> str:
    """Escaped as `@actions/core` does it."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
