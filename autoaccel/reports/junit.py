"""`lint --output-format junit`: a test case for each file, a failure for each finding in it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from autoaccel.reports.context import reasons

if TYPE_CHECKING:
    from autoaccel.reports.context import Context
    from autoaccel.rewriting.record import Record, Report

# XML has no place for these, escaped or not.
_UNSPEAKABLE = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_ESCAPES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "\t": "&#9;", "\n": "&#10;", "\r": "&#13;"}


def render(reports: Sequence[Report], context: Context) -> str:
    return "".join(line + "\n" for line in _lines(reports, context))


def _lines(reports: Sequence[Report], context: Context) -> Iterator[str]:
    failures = sum(bool(report.findings) and not report.failures for report in reports)
    errors = sum(bool(report.failures) for report in reports) + len(context.problems)
    tests = len(reports) + len(context.problems)
    counts = f'name="autoaccel" tests="{tests}" failures="{failures}" errors="{errors}"'
    yield '<?xml version="1.0" encoding="UTF-8"?>'
    yield f"<testsuites {counts}>"
    yield f'  <testsuite {counts} skipped="0" time="0">'
    for problem in context.problems:
        yield '    <testcase name="paths" classname="autoaccel" time="0">'
        yield _element("error", problem, "no-file", problem)
        yield "    </testcase>"
    for report in reports:
        path = context.name(report.path)
        yield f'    <testcase name="{_escaped(path)}" classname="autoaccel" time="0">'
        for failure, reason in reasons(report):
            place = f"{path}:{failure.line}:{failure.column}"
            yield _element("error", reason, failure.code, f"{place}: {reason}")
        for finding in report.findings:
            yield _element("failure", finding.message, f"{finding.code} {finding.name}", _detail(path, finding))
        yield "    </testcase>"
    yield "  </testsuite>"
    yield "</testsuites>"


def _detail(path: str, finding: Record) -> str:
    head = f"{path}:{finding.line}:{finding.column}: {finding.code} {finding.name}: {finding.message} [{finding.tier}]"
    return "\n".join([head, *(f"fix: {line}" for line in finding.fix)])


def _element(name: str, message: str, kind: str, text: str) -> str:
    # Lines of text stay lines; in attributes they would become blanks.
    content = "\n".join(_escaped(line) for line in text.split("\n"))
    return f'      <{name} message="{_escaped(message)}" type="{_escaped(kind)}">{content}</{name}>'


def _escaped(text: str) -> str:
    return "".join(_ESCAPES.get(each, each) for each in _UNSPEAKABLE.sub("�", text))
