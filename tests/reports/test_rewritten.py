"""The report of `rewrite` for people."""

from __future__ import annotations

from pathlib import Path

import click

from autoaccel.reports.counting import by_tier, counted
from autoaccel.reports.rewritten import lines, summary
from autoaccel.rewriting.engine import Result
from autoaccel.rewriting.record import Range, Record


def record(line: int, code: str, tier: str, message: str) -> Record:
    return Record(code, f"rule-{code}", tier, message, Range(line, 5, line, 9))


RESULT = Result(
    Path("train.py"),
    "before",
    "after",
    applied=(record(9, "AA301", "numerics", "mixed"), record(2, "AA103", "exact", "waits")),
    skipped=(record(4, "AA201", "equivalent", "not known"),),
    suppressed=(record(5, "AA101", "exact", "silenced"),),
)


def test_lines_follow_the_file() -> None:
    assert [click.unstyle(line) for line in lines(RESULT, "train.py")] == [
        "train.py:2:5: AA103 rule-AA103: waits [exact]",
        "train.py:4:5: AA201 rule-AA201: left alone: not known",
        "train.py:9:5: AA301 rule-AA301: mixed [numerics]",
    ]


def test_summary() -> None:
    unchanged = Result(None, "same", "same")
    found = [click.unstyle(line) for line in summary([RESULT, unchanged], preview=True, failed=2)]
    assert found == [
        "1 file would be rewritten: 2 changes (1 exact, 1 numerics)",
        "1 change suppressed by comments.",
        "1 opportunity left alone, for the reasons above.",
        "2 files could not be done.",
    ]
    assert next(summary([RESULT], preview=False, failed=0)).find("1 file rewritten: ") >= 0
    assert list(summary([unchanged, unchanged], preview=False, failed=0)) == ["Nothing to rewrite in 2 files."]
    assert list(summary([], preview=False, failed=0)) == []


def test_counted() -> None:
    assert [counted(number, "file") for number in (0, 1, 2)] == ["0 files", "1 file", "2 files"]


def test_by_tier() -> None:
    assert by_tier(["numerics", "exact", "exact", "house"]) == "2 exact, 1 numerics, 1 house"
