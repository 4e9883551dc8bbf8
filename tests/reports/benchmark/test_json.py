"""The report for programs: complete, plain, and without what JSON does not know."""

from __future__ import annotations

import dataclasses
import json
import math

import pytest

from autoaccel.measure.benching.report import Report
from autoaccel.reports.benchmark.json import FORMAT, render

from .sample import ADVERSARIAL, REPORTS, RICH


def test_all_is_there() -> None:
    found = json.loads(render(RICH))
    assert found.pop("format") == FORMAT
    assert set(found) == {each.name for each in dataclasses.fields(Report)}
    assert [each["name"] for each in found["columns"]] == ["original", "again", "rewritten"]
    assert found["columns"][2]["speedup"] == {"median": 1.84, "low": 1.79, "high": 1.90}
    assert found["columns"][2]["step_times"] == list(RICH.columns[2].step_times)
    assert found["break_even"] == {"steps": 412, "measured": False}


@pytest.mark.parametrize("report", REPORTS.values(), ids=REPORTS)
def test_it_is_json(report: Report) -> None:
    def fail(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    text = render(report)
    json.loads(text, parse_constant=fail)
    assert text.endswith("}\n")


def test_a_loss_that_is_no_number_is_null() -> None:
    losses = json.loads(render(ADVERSARIAL))["columns"][2]["losses"]
    rewritten = ADVERSARIAL.columns[2].losses
    assert [value is None for _, value in losses] == [math.isnan(value) for _, value in rewritten]
