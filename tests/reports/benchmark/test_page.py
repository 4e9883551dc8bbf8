from __future__ import annotations

import dataclasses
from xml.etree import ElementTree

import pytest

from autoaccel.measure.benching.report import BenchReport, BreakEven, Contribution
from autoaccel.reports.benchmark.page import page

from .reading import Seen, drawings, read, section, words
from .sample import BARE, CONTRIBUTIONS, NASTY, NOTHING, REPORTS, RICH, SAME, replaced, without

ALL = pytest.mark.parametrize("report", REPORTS.values(), ids=REPORTS)


def _named(elements: list[Seen], name: str) -> list[Seen]:
    return [each for each in elements if each.name == name]


def _table(report: BenchReport, title: str) -> dict[str, list[str]]:
    """The rows of the first table of a section, by their first cell."""
    text = section(page(report), title).split("</table>")[0] + "</table>"
    rows: dict[str, list[str]] = {}
    for each in read(text[text.index("<table") :]):
        if each.name == "th" and each.attributes.get("scope") == "row":
            rows[each.text] = []
        elif each.name == "td" and rows:
            rows[list(rows)[-1]].append(each.text.replace("\xa0", " "))
    return rows


@ALL
def test_the_page_is_a_document_that_needs_nothing_else(report: BenchReport) -> None:
    text = page(report)
    elements = read(text)
    assert text.startswith("<!DOCTYPE html>\n<html lang=")
    assert len(_named(elements, "h1")) == len(_named(elements, "main")) == 1
    assert not {each.name for each in elements} & {"script", "img", "iframe", "object", "form", "input"}
    assert not [each for each in elements if any(name.startswith("on") for name in each.attributes)]
    assert [each.name for each in elements if {"href", "src"} & each.attributes.keys()] == ["link", "a"]
    assert "url(" not in text and "@import" not in text
    names = [each.attributes["id"] for each in elements if "id" in each.attributes]
    assert len(set(names)) == len(names)
    text.encode("utf-8")


@ALL
def test_it_is_the_same_each_time(report: BenchReport) -> None:
    assert page(report) == page(dataclasses.replace(report))


@ALL
def test_pictures_are_sound_named_and_stay_inside(report: BenchReport) -> None:
    for picture in drawings(page(report)):
        title, description = picture[0], picture[1]
        assert (title.tag, description.tag) == ("title", "desc") and title.text and description.text
        assert picture.get("aria-labelledby") == f"{title.get('id')} {description.get('id')}"
        assert picture.get("role") == "img"
        _, _, width, height = map(float, (picture.get("viewBox") or "").split())
        for x, y in (place for each in picture.iter() for place in _places(each)):
            assert -1 <= x <= width + 1 and -1 <= y <= height + 1, ElementTree.tostring(picture)[:300]


def _places(each: ElementTree.Element) -> list[tuple[float, float]]:
    def value(name: str) -> float:
        return float(each.get(name, "0"))

    match each.tag:
        case "rect":
            return [(value("x"), value("y")), (value("x") + value("width"), value("y") + value("height"))]
        case "line":
            return [(value("x1"), value("y1")), (value("x2"), value("y2"))]
        case "circle":
            return [(value("cx"), value("cy"))]
        case "text":
            return [(value("x"), value("y"))]
        case "path":
            pairs = (each.get("d") or "").strip("MZ").split(" ")
            return [(float(x), float(y)) for x, y in (pair.split(",") for pair in pairs)]
    return []


def test_a_picture_for_each_question() -> None:
    assert len(drawings(page(RICH))) == 5


def test_the_order_of_what_is_said() -> None:
    assert [each.text for each in _named(read(page(RICH)), "h2")] == [
        "What binds",
        "Figures",
        "How long steps take",
        "When it pays off",
        "Rule by rule",
        "Loss",
        "What the runtime decided",
        "Notes",
        "How it was measured",
        "Machine",
        "Repeat it",
    ]


def test_without_a_rewritten_column_the_notes_come_first_and_what_compares_is_left_out() -> None:
    titles = [each.text for each in _named(read(page(BARE)), "h2")]
    assert titles == [
        "Notes",
        "What binds",
        "Figures",
        "How long steps take",
        "Loss",
        "How it was measured",
        "Machine",
        "Repeat it",
    ]


def test_nothing_at_all_is_said_in_words() -> None:
    text = page(NOTHING)
    for sentence in ("Nothing was measured.", "No steps were timed.", "No losses were seen.", "Not known."):
        assert sentence in text
    assert not drawings(text)


def test_whatever_things_are_called_they_stay_text() -> None:
    text = page(NASTY)
    elements = read(text)
    assert _named(elements, "title")[0].text.startswith("script>��.py: ")
    shown = {each.name: each.text for each in elements if each.name in ("header", "main")}
    assert "</title><script>alert('x')</script>��.py" in shown["header"]
    for piece in (
        "<script>alert(2)</script> binds",
        "</svg><script>",
        "</td><script>alert(1)</script>",
        "]]><!-- & -->",
    ):
        assert piece in shown["main"]
    assert '"><svg onload=alert(1)>' in _named(elements, "dd")[0].text
    assert _named(elements, "pre")[-1].text == NASTY.command


def test_the_figures_in_the_table() -> None:
    rows = _table(RICH, "Figures")
    assert rows["Time of a step"] == ["14.9 ms14.7 to 15.2 ms", "14.9 ms14.7 to 15.2 ms", "8.10 ms7.98 to 8.24 ms"]
    assert rows["Samples per second"][2] == "7,9017,778 to 8,000"
    assert rows["Speed-up"] == ["1×", "1.00×0.99 to 1.01", "1.84×1.79 to 1.90"]
    assert rows["Start to first step"] == ["3.10 s", "3.10 s", "5.90 s"]
    assert rows["Start to step 260"] == ["7.07 s", "7.13 s", "8.05 s"]
    assert rows["Peak memory, host"] == ["812 MiB"] * 3
    assert rows["Peak memory, device"] == ["1.40 GiB"] * 3
    assert rows["Waiting for the loader"] == ["41 %", "41 %", "2.0 %"]
    assert rows["Device busy"] == ["37 %", "37 %", "81 %"]


def test_rows_without_a_figure_are_left_out_and_cells_without_one_say_so() -> None:
    rows = _table(replaced(SAME, "rewritten", samples_per_second=None, device_busy=None), "Figures")
    assert "Peak memory, device" not in rows
    assert rows["Samples per second"][2] == rows["Device busy"][2] == "–"
    assert not {"Speed-up", "Start to step 0"} & _table(BARE, "Figures").keys()


def test_the_time_to_a_step_is_to_one_that_all_have_made() -> None:
    rows = _table(replaced(RICH, "rewritten", total_steps=150, step_times=RICH.columns[2].step_times[:130]), "Figures")
    assert "–" not in rows["Start to step 150"]


def test_decisions_are_a_table_with_reasons() -> None:
    assert _table(RICH, "What the runtime decided")["amp"] == ["bfloat16", "compute capability 9.0 has bfloat16"]
    assert "No decisions were seen." in page(replaced(RICH, "rewritten", decisions=()))


def test_parts_of_a_step_unknown_ones_too() -> None:
    assert RICH.diagnosis is not None
    assert _table(RICH, "What binds")["loader"] == ["41 %", "waiting for the next batch"]
    odd = dataclasses.replace(RICH.diagnosis.shares[0], name="weather")
    changed = dataclasses.replace(RICH.diagnosis, shares=(odd, *RICH.diagnosis.shares[1:]))
    assert _table(dataclasses.replace(RICH, diagnosis=changed), "What binds")["weather"] == ["41 %", ""]
    assert "What binds the original script was not measured." in page(dataclasses.replace(RICH, diagnosis=None))


def test_the_title_says_which_script_and_what_came_out() -> None:
    assert _named(read(page(RICH)), "title")[0].text == "train.py: 1.84 times as fast after rewriting"


def test_the_intervals_are_as_sure_as_the_report_says() -> None:
    text = page(dataclasses.replace(RICH, level=0.95)).replace("\xa0", " ")
    assert "(95 % interval)" in text and "its 95 % interval is" in text


def test_the_policy_of_the_page_forbids_to_load_anything() -> None:
    policy = next(each for each in read(page(RICH)) if "http-equiv" in each.attributes)
    assert policy.attributes["content"].startswith("default-src 'none'; style-src 'unsafe-inline'")


def test_without_noise_measured_nothing_is_said_of_it() -> None:
    text = page(without(RICH, "again"))
    assert "against itself" not in text and "original again" not in text


def test_break_even_steps_are_in_the_text_and_in_the_picture() -> None:
    report = dataclasses.replace(RICH, break_even=BreakEven(100, measured=True))
    assert page(report).count("even after 100 steps") == 1


def test_no_difference_is_a_mark_on_the_axis_of_speed_ups() -> None:
    for report in (RICH, REPORTS["huge"], SAME):
        wide = drawings(page(report))[0]
        place = next(each.get("x1") for each in wide.iter("line") if each.get("class") == "reference")
        marks = [each.text or "" for each in wide.iter("text") if each.get("x") == place]
        assert [float(each) for each in marks] == [1.0]


def test_rules_that_were_not_measured_have_a_line_in_the_table() -> None:
    report = dataclasses.replace(
        RICH, contributions=(*CONTRIBUTIONS, Contribution("AA999", "unmeasured", 1, None, None))
    )
    assert _table(report, "Rule by rule")["AA999 unmeasured"] == ["1", "–", "–"]
    assert _table(report, "Rule by rule")["AA201 loader-workers"] == ["1", "1.38×1.33 to 1.43", "1.31×1.27 to 1.35"]


def test_without_ablation_it_is_advised() -> None:
    report = dataclasses.replace(RICH, contributions=())
    assert words(section(page(report), "Rule by rule")) == (
        "What each rule is worth was not measured; --ablate does so."
    )


def test_parts_of_a_step_have_bars_as_long_as_they_are() -> None:
    bars = [each for each in read(page(RICH)) if each.attributes.get("class") == "share"]
    assert RICH.diagnosis is not None
    assert [each.attributes["style"] for each in bars] == [
        f"width: {each.share * 100:.1f}%" for each in RICH.diagnosis.shares
    ]
