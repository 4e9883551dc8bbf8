"""`lint --output-format sarif`: SARIF 2.1.0, which GitHub's code scanning and many editors read.

https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote_from_bytes

from autoaccel import HOME, __version__
from autoaccel.reports.context import reasons, said
from autoaccel.reports.fingerprints import fingerprints
from autoaccel.reports.json import dumped

if TYPE_CHECKING:
    from autoaccel.reports.context import Context
    from autoaccel.rewriting.record import Range, Record, Report
    from autoaccel.rewriting.rule import Rule

_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_ROOT = "%SRCROOT%"


def render(reports: Sequence[Report], context: Context) -> str:
    found = {each.code: each for report in reports for each in report.findings}
    order = sorted(found)
    driver = {
        "informationUri": HOME,
        "name": "autoaccel",
        "rules": _rules([found[code] for code in order], context),
        "semanticVersion": __version__,
        "version": __version__,
    }
    notifications: list[Any] = [{"level": "error", "message": {"text": problem}} for problem in context.problems]
    notifications += [each for report in reports for each in _notifications(report, context)]
    run = {
        "columnKind": "unicodeCodePoints",
        "invocations": [{"executionSuccessful": not notifications, "toolExecutionNotifications": notifications}],
        "newlineSequences": ["\r\n", "\n", "\r"],
        "originalUriBaseIds": {_ROOT: {"uri": context.root.as_uri().removesuffix("/") + "/"}},
        "results": [each for report in reports for each in _results(report, context, order)],
        "tool": {"driver": driver},
    }
    return dumped({"$schema": _SCHEMA, "runs": [run], "version": "2.1.0"})


def _results(report: Report, context: Context, order: Sequence[str]) -> Iterator[dict[str, Any]]:
    artifact = _artifact(report.path, context)
    for finding, fingerprint in fingerprints(report, context):
        result: dict[str, Any] = {
            "level": "warning",
            "locations": [_location(finding, artifact, context.where(report.path, finding))],
            "message": {"text": "\n".join([said(finding), *(f"fix: {line}" for line in finding.fix)])},
            "partialFingerprints": {"autoaccelFinding/v1": fingerprint},
            "properties": {"tier": finding.tier},
            "ruleId": finding.code,
            "ruleIndex": order.index(finding.code),
        }
        if finding.changes:
            result["fixes"] = [_fix(finding, artifact)]
        yield result


def _location(finding: Record, artifact: dict[str, str], where: Range) -> dict[str, Any]:
    location: dict[str, Any] = {"physicalLocation": {"artifactLocation": artifact, "region": _region(where)}}
    if finding.cell is not None:
        location["logicalLocations"] = [{"fullyQualifiedName": f"cell {finding.cell}:{finding.line}", "kind": "module"}]
    return location


def _fix(finding: Record, artifact: dict[str, str]) -> dict[str, Any]:
    replaced = ((_region(each.where), {"text": each.content}) for each in finding.changes)
    replacements = [{"deletedRegion": region, "insertedContent": content} for region, content in replaced]
    return {
        "artifactChanges": [{"artifactLocation": artifact, "replacements": replacements}],
        "description": {"text": "; ".join(finding.fix) or finding.message},
    }


def _notifications(report: Report, context: Context) -> Iterator[dict[str, Any]]:
    for failure, reason in reasons(report):
        region = {"startColumn": failure.column, "startLine": failure.line}
        place = {"artifactLocation": _artifact(report.path, context), "region": region}
        yield {
            "descriptor": {"id": failure.code},
            "level": "error",
            "locations": [{"physicalLocation": place}],
            "message": {"text": reason},
        }


def _rules(found: Sequence[Record], context: Context) -> list[dict[str, Any]]:
    """What is to be known of the rules that found something."""
    known = {rule.code: rule for rule in context.rules()} if found else {}
    return [_rule(known[each.code]) if each.code in known else {"id": each.code, "name": each.name} for each in found]


def _rule(rule: Rule) -> dict[str, Any]:
    from autoaccel.reports.rules import explanation_markdown, explanation_text

    described = {
        "defaultConfiguration": {"level": "warning"},
        "fullDescription": {"text": rule.summary},
        "help": {"markdown": explanation_markdown(rule), "text": explanation_text(rule)},
        "id": rule.code,
        "name": rule.name,
        "properties": {
            "precision": "very-high",
            "problem.severity": "warning",
            "tags": ["performance", "pytorch"],
            "tier": rule.tier.label,
        },
        "shortDescription": {"text": rule.summary},
    }
    return described | ({"helpUri": rule.url} if rule.url else {})


def _region(where: Range) -> dict[str, int]:
    return {
        "endColumn": where.end_column,
        "endLine": where.end_line,
        "startColumn": where.column,
        "startLine": where.line,
    }


def _artifact(path: str, context: Context) -> dict[str, str]:
    name = context.name(path)
    if Path(name).is_absolute():
        return {"uri": Path(name).as_uri()}
    return {"uri": quote_from_bytes(os.fsencode(name)), "uriBaseId": _ROOT}
