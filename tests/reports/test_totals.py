"""What `lint` says beside its report."""

from __future__ import annotations

import dataclasses

import click

from autoaccel.reports.totals import in_order, left_alone, summary
from autoaccel.rewriting.record import Failure, Report
from tests.reports import sample


def said(*reports: Report, verbose: bool = False) -> list[str]:
    return [click.unstyle(line) for line in summary(reports, verbose=verbose)]


def test_summary() -> None:
    assert said(*sample.REPORTS, verbose=True) == [
        "Found 3 findings in 2 files (2 exact, 1 equivalent). Run `autoaccel rewrite` to apply them.",
        "1 finding suppressed by comments.",
        "1 opportunity left alone, for the reasons above.",
        "1 file could not be looked at.",
    ]


def test_clean() -> None:
    assert said(Report("a.py"), Report("b.py", skipped=(sample.DECLINED,))) == ["All clean: 2 files looked at."]
    broken = Report("c.py", failures=(Failure("c.py: cannot read: no"),))
    assert said(Report("a.py"), broken) == ["Nothing found in 1 file.", "1 file could not be looked at."]
    assert said(broken) == ["1 file could not be looked at."], "nothing is clean that nobody saw"
    assert said() == []


def test_findings_for_people_to_mend() -> None:
    """`rewrite` is not promised to do what it cannot."""
    by_hand = dataclasses.replace(sample.MOVED, fix=())
    assert said(Report("a.py", (by_hand,))) == ["Found 1 finding in 1 file (1 exact)."]
    assert said(Report("a.py", (by_hand, sample.FETCHED))) == [
        "Found 2 findings in 1 file (2 exact). Run `autoaccel rewrite` to apply 1 of them."
    ]


def test_order() -> None:
    reports = [Report("b.py", (sample.MOVED, sample.FETCHED)), Report("a/z.py"), Report("a.py")]
    ordered = in_order(reports)
    assert [report.path for report in ordered] == ["a.py", "a/z.py", "b.py"]
    assert ordered[2].findings == (sample.FETCHED, sample.MOVED)


def test_left_alone() -> None:
    assert [click.unstyle(line) for line in left_alone(sample.REPORTS)] == [
        "src/train.py:5:9: AA301 autocast: left alone: the loss is not known"
    ]
