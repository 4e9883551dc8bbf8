"""The table on a terminal: every figure is in its place. The JSON: complete, plain, without what JSON does not know."""

from __future__ import annotations

import dataclasses
import json
import math

import click
import pytest

from autoaccel.measure.benching.report import BenchReport
from autoaccel.reports.benchmark import text

from .sample import ADVERSARIAL, BARE, NOTHING, REPORTS, RICH, SAME, replaced, without

ALL = pytest.mark.parametrize("report", REPORTS.values(), ids=REPORTS)


def plain(report: BenchReport) -> str:
    return click.unstyle(text.table(report))


def section(report: BenchReport, title: str) -> list[str]:
    """The lines of a section."""
    after = plain(report).split(f"\n{title}\n", 1)
    return [] if len(after) == 1 else after[1].split("\n\n")[0].splitlines()


def cells(report: BenchReport, title: str) -> dict[str, dict[str, str]]:
    """Rows by their first cell, cells by the head above them: numbers end where their head ends."""
    head, *rows = section(report, title)
    # Two spaces or more part cells, one parts words.
    names = [each.strip() for each in head.split("  ") if each.strip()]
    ends = [head.index(name) + len(name) for name in names]
    found = {}
    for row in rows:
        parts = [row[start:end].strip() for start, end in zip([None, *ends], [*ends, None], strict=True)]
        name, _, first = parts[0].partition("  ")
        found[name.strip()] = dict(zip(names, [first.strip(), *parts[1:]], strict=False))
    return found


def test_figures() -> None:
    rows = cells(RICH, "Figures")
    assert list(rows) == ["original", "again", "rewritten"]
    assert rows["rewritten"]["step"] == "8.10 ms"
    assert rows["rewritten"]["speed-up"] == "1.84×"
    assert rows["rewritten"]["99 % interval"] == "1.79 to 1.90"
    assert rows["rewritten"]["first step"] == "5.90 s"
    assert rows["rewritten"]["loader"] == "2.0 %"
    assert rows["rewritten"]["busy"] == "81 %"
    assert (rows["original"]["speed-up"], rows["original"]["99 % interval"]) == ("1×", "")


def test_time_to_the_last_step_that_all_have_made() -> None:
    rewritten = RICH.column("rewritten")
    assert rewritten is not None
    # It made forty steps more: what those took is left out.
    longer = dataclasses.replace(
        rewritten,
        total_steps=rewritten.total_steps + 40,
        total_seconds=rewritten.total_seconds + 4.0,
        step_times=(*rewritten.step_times, *[0.1] * 40),
    )
    report = dataclasses.replace(RICH, columns=(*RICH.columns[:2], longer))
    assert cells(report, "Figures")["rewritten"]["260 steps"] == cells(RICH, "Figures")["rewritten"]["260 steps"]


def test_contributions() -> None:
    rows = cells(RICH, "Rule by rule")
    assert rows["AA201 loader-workers"]["alone"] == "1.38×"
    assert rows["AA202 prefetch"]["alone"] == "–"
    assert rows["AA202 prefetch"]["all but it"] == "1.77×"
    assert section(without(SAME, "again"), "Rule by rule") == []


def test_what_binds_comes_before_the_figures() -> None:
    shown = plain(RICH)
    assert RICH.diagnosis is not None
    assert shown.index(RICH.diagnosis.sentence[:40]) < shown.index("samples/s")
    assert "What binds" not in plain(dataclasses.replace(RICH, diagnosis=None))


def test_break_even() -> None:
    assert "412 steps" in " ".join(section(RICH, "Break-even"))
    assert section(SAME, "Break-even") == ["  No gain was measured that could make up for a slower start."]
    assert section(BARE, "Break-even") == []


def test_decisions_and_notes() -> None:
    assert "  amp             bfloat16 (compute capability 9.0 has bfloat16)" in section(
        RICH, "What the runtime decided"
    )
    assert section(RICH, "Notes")[0] == f"  - {RICH.notes[0]}"
    assert "Notes" not in plain(dataclasses.replace(RICH, notes=()))


def test_columns_without_figures_are_left_out() -> None:
    head = section(SAME, "Figures")[0]
    assert "samples/s" in head
    bare = replaced(SAME, "again", samples_per_second=None, device_memory=0, device_busy=None)
    for name in ("original", "rewritten"):
        bare = replaced(bare, name, samples_per_second=None, device_busy=None)
    head = section(bare, "Figures")[0]
    assert not any(title in head for title in ("samples/s", "device", "busy"))


@ALL
def test_every_report_can_be_shown(report: BenchReport) -> None:
    shown = plain(report)
    assert shown.endswith("\n")
    assert "nan" not in shown.lower().replace(report.script.lower(), "")
    for each in report.columns:
        assert each.name in shown


def test_nothing_measured() -> None:
    assert "Figures" not in plain(NOTHING)


def test_lines_stay_readable() -> None:
    assert max(map(len, plain(RICH).splitlines())) <= 130


def test_the_rewritten_script_stands_out_and_the_noise_stays_back() -> None:
    styles = {click.unstyle(line).split()[0]: line for line in text.table(RICH).splitlines() if "ms" in line}
    assert [name for name, line in styles.items() if "\x1b[1m" in line] == ["rewritten"]
    assert [name for name, line in styles.items() if "\x1b[2m" in line] == ["again"]


def test_control_characters_stay_out_of_terminals() -> None:
    shown = plain(dataclasses.replace(RICH, script="\x1b[2Jtrain\r.py"))
    assert "\x1b" not in shown
    assert "\r" not in shown


# -- JSON


def test_all_is_in_the_json() -> None:
    found = json.loads(text.json(RICH))
    assert found.pop("format") == text.FORMAT
    assert set(found) == {each.name for each in dataclasses.fields(BenchReport)}
    assert [each["name"] for each in found["columns"]] == ["original", "again", "rewritten"]
    assert found["columns"][2]["speedup"] == {"median": 1.84, "low": 1.79, "high": 1.90}
    assert found["columns"][2]["step_times"] == list(RICH.columns[2].step_times)
    assert found["break_even"] == {"steps": 412, "measured": False}


@ALL
def test_it_is_json(report: BenchReport) -> None:
    def fail(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    rendered = text.json(report)
    json.loads(rendered, parse_constant=fail)
    assert rendered.endswith("}\n")


def test_a_loss_that_is_no_number_is_null() -> None:
    losses = json.loads(text.json(ADVERSARIAL))["columns"][2]["losses"]
    rewritten = ADVERSARIAL.columns[2].losses
    assert [value is None for _, value in losses] == [math.isnan(value) for _, value in rewritten]
