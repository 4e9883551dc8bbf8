"""Edits in reports are right: applied as their readers apply them, they do what `rewrite` does with that finding alone.

Fixtures of each rule, with all rules, and with the line ends that make this difficult.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from autoaccel.analysis import Project
from autoaccel.edits import Finding
from autoaccel.reports import json as as_json
from autoaccel.reports import rdjson, sarif
from autoaccel.rewriting import engine, linting, registry
from autoaccel.rewriting.engine import Analysis
from autoaccel.rewriting.linting import text_edits
from autoaccel.rewriting.record import Record, Report
from autoaccel.rewriting.recording import in_order
from tests.reports import sample
from tests.rewriting.edited_texts import applied

FIXTURES = Path(__file__).parent.parent.parent / "fixtures"
# What readers of reports make of a finding that is only reported.
NO_FIX: Final[dict[str, Any]] = {"edits": []}
NO_FIXES: Final[list[Any]] = [{"artifactChanges": [{"replacements": []}]}]
# No line ends of other systems where a file has its own to show.
VARIANTS = {
    "as it is": lambda text: text,
    "CRLF": lambda text: text if "\r" in text else text.replace("\n", "\r\n"),
    "no final line end": lambda text: text.rstrip("\r\n"),
    "not ASCII": lambda text: "# Größe 宽 𝄞\n" + text.replace("device", "dévice"),
}


def files() -> Iterator[Path]:
    """Of each folder, all or some seven, from its whole length."""
    for folder in sorted(FIXTURES.iterdir()):
        found = [
            path
            for path in sorted(folder.rglob("*.py"))
            if not path.name.startswith("noop_") and ".out." not in path.name and "expected" not in path.parts
        ]
        yield from found[:: -(-len(found) // 7) or 1]


def cases() -> list[Any]:
    """Each file in one of the forms; there are enough files to see all rules in all forms."""
    turns = zip(files(), itertools.cycle(VARIANTS), strict=False)
    return [pytest.param(path, name, id=f"{path.relative_to(FIXTURES)}-{name}") for path, name in turns]


@pytest.mark.parametrize(("path", "variant"), cases())
def test_edits_do_what_rewrite_does(path: Path, variant: str) -> None:
    text = VARIANTS[variant](path.read_bytes().decode("utf-8-sig"))
    # In no repository: what lies beside the fixtures of a rule need not be read.
    case = next(each for each in (path, *path.parents) if each.parent.parent == FIXTURES)
    beside = {
        _alone(each): each.read_text(encoding="utf-8-sig") for each in (case.rglob("*.py") if case.is_dir() else ())
    }
    path = _alone(path)
    analysis = engine.analyse(text, path, registry.rules(), project=Project([path], {**beside, path: text}))
    report = Report(str(path), tuple(in_order(linting.recorded(analysis, changes=True))))
    expected = alone(analysis)
    assert len(report.findings) == len(expected)
    rendered = read_back(report, text)
    for index, (finding, result) in enumerate(zip(report.findings, expected, strict=True)):
        assert applied(text, finding.changes) == result, f"{finding.code} on line {finding.line}"
        for name, texts in rendered.items():
            assert texts[index] == result, f"{name}: {finding.code} on line {finding.line}"


def _alone(path: Path) -> Path:
    return Path("/alone", path.relative_to(FIXTURES))


def alone(analysis: Analysis) -> list[str]:
    """What the engine makes of the text with each finding alone, in the order of the report."""
    found = [(located(each, analysis), outcome(each, analysis)) for each in analysis.findings]
    unique = dict.fromkeys(found)
    return [result for _, result in sorted(unique, key=lambda each: each[0][:3])]


def located(finding: Finding, analysis: Analysis) -> tuple[int, int, str, str]:
    line, column = analysis.places.start(finding.node)  # type: ignore[arg-type]  # findings speak of what has a place
    return line, column, finding.rule.code, finding.message


def outcome(finding: Finding, analysis: Analysis) -> str:
    return engine.apply(analysis, with_needs(finding))


def with_needs(finding: Finding) -> list[Finding]:
    return [*dict.fromkeys(each for need in finding.needs for each in with_needs(need)), finding]


def read_back(report: Report, text: str) -> dict[str, list[str]]:
    """The text as readers of reports would change it, finding by finding, by format."""
    context = sample.context(text=lambda _: text, problems=(), rules=registry.rules)
    items = json.loads(as_json.render([report], context))
    diagnostics = json.loads(rdjson.render([report], context))["diagnostics"]
    results = json.loads(sarif.render([report], context))["runs"][0]["results"]
    return {
        "json": [changed(text, [json_edit(edit) for edit in (item["fix"] or NO_FIX)["edits"]]) for item in items],
        "rdjson": [
            changed(text, [rdjson_edit(each, text) for each in item.get("suggestions", ())]) for item in diagnostics
        ],
        "sarif": [
            changed(
                text,
                [sarif_edit(each) for each in item.get("fixes", NO_FIXES)[0]["artifactChanges"][0]["replacements"]],
            )
            for item in results
        ],
    }


Edit = tuple[int, int, int, int, str]
"""Line and column, from 1 and in characters, of the start and the end, and what goes there."""


def changed(text: str, edits: Sequence[Edit]) -> str:
    starts = [0, *itertools.accumulate(len(line) for line in lines_of(text))]
    for line, column, end_line, end_column, content in sorted(edits, reverse=True):
        start, end = starts[line - 1] + column - 1, starts[end_line - 1] + end_column - 1
        assert start <= end <= len(text)
        text = text[:start] + content + text[end:]
    return text


def lines_of(text: str) -> list[str]:
    """Lines with their ends, and nothing but the ends that Python knows."""
    return [*re.findall(r"[^\r\n]*(?:\r\n|\r|\n)", text), re.split(r"\r\n|\r|\n", text)[-1]]


def json_edit(edit: dict[str, Any]) -> Edit:
    start, end = edit["location"], edit["end_location"]
    return start["row"], start["column"], end["row"], end["column"], edit["content"]


def sarif_edit(edit: dict[str, Any]) -> Edit:
    region = edit["deletedRegion"]
    places = (region[key] for key in ("startLine", "startColumn", "endLine", "endColumn"))
    return (*places, edit["insertedContent"]["text"])


def rdjson_edit(edit: dict[str, Any], text: str) -> Edit:
    """Columns are bytes of UTF-8."""
    start, end = edit["range"]["start"], edit["range"]["end"]
    return start["line"], characters(start, text), end["line"], characters(end, text), edit["text"]


def characters(place: dict[str, int], text: str) -> int:
    lines = lines_of(text)
    line = lines[place["line"] - 1] if place["line"] <= len(lines) else ""
    return len(line.encode()[: place["column"] - 1].decode()) + 1


@pytest.mark.parametrize(
    ("before", "after", "count"),
    [
        pytest.param("a\nb\n", "a\nb\n", 0, id="nothing"),
        pytest.param("a\nb\n", "a\nc\n", 1, id="a line"),
        pytest.param("a\nb", "a\nb\nc", 1, id="below the last line, which has no end"),
        pytest.param("a\nb\n", "a\nb\nc\n", 1, id="at the end"),
        pytest.param("a\nb\n", "", 1, id="everything"),
        pytest.param("", "a\n", 1, id="into nothing"),
        pytest.param("a\nb\nc\nd\n", "x\na\nb\nc\n", 2, id="two places"),
        pytest.param("a\rb\r\nc\n", "a\rb\r\nd\n", 1, id="mixed line ends"),
        pytest.param("\fa\x85b\u2028\nc", "\fa\x85b\u2028\nd", 1, id="characters that only seem to end lines"),
    ],
)
def test_text_edits(before: str, after: str, count: int) -> None:
    edits = text_edits(before, after)
    assert len(edits) == count
    assert applied(before, edits) == after


def test_edits_of_repeated_lines_are_those_that_differ() -> None:
    """Without shortcuts: in long files the comparison is coarse, but what is alike at both ends is left out."""
    before = "x\n" * 5000
    edits = text_edits(before, "x\n" * 2500 + "y\n" + "x\n" * 2500)
    (edit,) = edits
    assert len(edit.content) < 10
    assert applied(before, edits) == "x\n" * 2500 + "y\n" + "x\n" * 2500


def test_without_changes_there_are_no_edits() -> None:
    record: Record = linting.lint('import torch\nx = torch.zeros(2).to("cuda")\n', None, registry.rules()).findings[0]
    assert record.changes == ()
    assert record.fix == ('`torch.zeros(2).to("cuda")` -> `torch.zeros(2, device="cuda")`',)
