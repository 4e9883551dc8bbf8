"""`lint --output-format junit`: a test case for each file, a failure for each finding in it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

from autoaccel.reports.context import Context, reasons
from autoaccel.rewriting.record import Report

# XML has no place for these, escaped or not.
_UNSPEAKABLE = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def render(reports: Sequence[Report], context: Context) -> str:
    failures = sum(bool(report.findings) and not report.failures for report in reports)
    errors = sum(bool(report.failures) for report in reports) + len(context.problems)
    counts = {"tests": len(reports) + len(context.problems), "failures": failures, "errors": errors}
    attributes = {"name": "autoaccel", **{name: str(number) for name, number in counts.items()}}
    suites = Element("testsuites", attributes)
    suite = SubElement(suites, "testsuite", attributes, skipped="0", time="0")
    for problem in context.problems:
        _add(_case(suite, "paths"), "error", problem, "no-file", problem)
    for report in reports:
        path = context.name(report.path)
        case = _case(suite, path)
        for failure, reason in reasons(report):
            _add(case, "error", reason, failure.code, f"{path}:{failure.line}:{failure.column}: {reason}")
        for each in report.findings:
            rule = f"{each.code} {each.name}"
            head = f"{path}:{each.place}: {rule}: {each.message} [{each.tier}]"
            _add(case, "failure", each.message, rule, "\n".join([head, *(f"fix: {line}" for line in each.fix)]))
    ElementTree.indent(suites)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ElementTree.tostring(suites, encoding="unicode")}\n'


def _case(suite: Element, name: str) -> Element:
    return SubElement(suite, "testcase", name=_spoken(name), classname="autoaccel", time="0")


def _add(case: Element, kind: str, message: str, rule: str, text: str) -> None:
    SubElement(case, kind, message=_spoken(message), type=_spoken(rule)).text = _spoken(text)


def _spoken(text: str) -> str:
    return _UNSPEAKABLE.sub("\N{REPLACEMENT CHARACTER}", text)
