from __future__ import annotations

import dataclasses
import itertools

import pytest

from autoaccel.measure.benching.report import Contribution, Interval
from autoaccel.reports.benchmark.waterfall import _bars, _values, ablating, waterfall

from .reading import words
from .sample import CONTRIBUTIONS, RICH


def test_bars_lead_from_the_original_to_the_rewritten_script_without_a_gap() -> None:
    bars = _bars(0.0149, 1.84, CONTRIBUTIONS)
    assert [each.label.split()[0] for each in bars] == [
        "original",
        *("AA201", "AA301", "AA103", "AA202", "AA101", "AA501"),  # what saves most comes first
        "together",
        "rewritten",
    ]
    assert all(after.start == pytest.approx(before.end) for before, after in itertools.pairwise(bars[:-1]))
    assert bars[-2].end == bars[-1].end == pytest.approx(0.0149 / 1.84)


def test_a_bar_is_what_the_rule_saves_alone_with_its_interval() -> None:
    bars = {each.label: each for each in _bars(0.0149, 1.84, CONTRIBUTIONS)}
    workers = bars["AA201 loader-workers"]
    assert workers.change == pytest.approx(0.0149 / 1.38 - 0.0149)
    assert workers.span is not None
    assert workers.span == pytest.approx((0.0149 / 1.43, 0.0149 / 1.33))
    assert bars["AA501 compile"].kind == "lost" and bars["AA501 compile"].change > 0


def test_a_rule_that_cannot_stand_alone_is_what_is_lost_without_it() -> None:
    bars = {each.label: each for each in _bars(0.0149, 1.84, CONTRIBUTIONS)}
    assert bars["AA202 prefetch"].change == pytest.approx(0.0149 / 1.84 - 0.0149 / 1.77)
    assert "AA202 needs others and is drawn by what is lost without it." in words(waterfall(RICH))


@pytest.mark.parametrize(
    ("alone", "sentence"),
    [
        (1.3, "What the rules do together beyond that is within the noise."),
        (1.2, "Together the rules save that much more than each alone."),
        (1.9, "Together the rules overlap: that much of what each saves alone is saved only once."),
    ],
)
def test_what_rules_do_beyond_their_sum_is_said(alone: float, sentence: str) -> None:
    both = tuple(
        Contribution(code, "rule", 1, Interval(alone, alone - 0.05, alone + 0.05), None) for code in ("AA1", "AA2")
    )
    assert sentence in words(waterfall(dataclasses.replace(RICH, contributions=both)))


def test_a_rule_that_may_do_nothing_is_neither_saved_nor_lost() -> None:
    bars = {each.label: each for each in _bars(0.0149, 1.84, CONTRIBUTIONS)}
    assert bars["AA101 create-on-device"].kind == "unclear"
    assert bars["AA103 non-blocking"].kind == "saved"
    assert "Pale: the interval leaves open whether it saves anything." in words(waterfall(RICH))


def test_one_rule_is_not_together_with_anything() -> None:
    assert [each.kind for each in _bars(0.01, 1.5, CONTRIBUTIONS[2:3])] == ["original", "saved", "rewritten"]


def test_rules_that_were_not_measured_have_no_bar_but_a_line_in_the_table() -> None:
    unknown = Contribution("AA999", "unmeasured", 1, None, None)
    report = dataclasses.replace(RICH, contributions=(*CONTRIBUTIONS, unknown))
    assert "AA999" not in {each.label.split()[0] for each in _bars(0.0149, 1.84, report.contributions)}
    assert "AA999 unmeasured1––" in words(waterfall(report)).replace(" – ", "–")


def test_values_share_a_unit_and_changes_have_a_sign() -> None:
    assert _values(_bars(0.0149, 1.84, CONTRIBUTIONS)) == [
        *("14.90 ms", "−4.10 ms", "−1.60 ms", "−0.43 ms", "−0.32 ms", "−0.15 ms", "+0.30 ms", "−0.51 ms", "8.10 ms")
    ]


def test_without_ablation_the_command_for_it_is_given() -> None:
    text = words(waterfall(dataclasses.replace(RICH, contributions=(), command="autoaccel bench a.py -- --epochs 2")))
    assert text == (
        "What each rule is worth was not measured. --ablate measures it:autoaccel bench a.py --ablate -- --epochs 2"
    )


def test_an_ablation_that_gave_nothing_is_not_advised_again() -> None:
    assert words(waterfall(dataclasses.replace(RICH, contributions=()))) == "What each rule is worth was not measured."


def test_the_option_goes_before_the_arguments_of_the_script() -> None:
    assert ablating("autoaccel bench a.py") == "autoaccel bench a.py --ablate"
    assert ablating("autoaccel bench a.py -- -- x") == "autoaccel bench a.py --ablate -- -- x"
