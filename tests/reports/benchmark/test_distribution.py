from __future__ import annotations

import re

import pytest

from autoaccel.reports.benchmark.distribution import distribution

from .reading import drawings, words
from .sample import BARE, FEW, HUGE, RICH, column, replaced, times


def test_medians_are_named_and_outliers_said_in_words() -> None:
    usual = tuple(0.01 + each * 1e-5 for each in range(198))
    one = replaced(replaced(RICH, "original", step_times=(*usual, 0.3, 0.5)), "rewritten", step_times=usual)
    text = words(distribution((one.columns[0], one.columns[2])))
    assert "original: median 11.0 ms" in text and "rewritten: median 11.0 ms" in text
    assert "Not drawn: 2 steps of 200 of the original script beyond 12.0 ms, up to 500 ms." in text
    assert "of the rewritten script" not in text


def test_every_step_that_is_not_an_outlier_is_in_a_bar() -> None:
    pair = (RICH.columns[0], RICH.columns[2])
    markup = distribution(pair)
    wide = drawings(markup)[0]
    for each in pair:
        bars = [bar for bar in wide.iter("rect") if bar.get("class") == f"bar {each.name}"]
        counted = sum(int("".join(bar.itertext()).rsplit(" ", 2)[1]) for bar in bars)
        missing = re.search(rf"Not drawn: (\d+) steps of 240 of the {each.name} script", words(markup))
        assert counted + int(missing[1] if missing else 0) == each.steps == 240


def test_columns_far_from_each_other_share_a_logarithmic_axis() -> None:
    assert "The axis is logarithmic." in words(distribution((HUGE.columns[0], HUGE.columns[2])))
    assert "logarithmic" not in words(distribution((RICH.columns[0], RICH.columns[2])))


def test_few_steps_are_dots() -> None:
    markup = distribution((FEW.columns[0], FEW.columns[2]))
    assert len(list(drawings(markup)[0].iter("circle"))) == 6
    assert "A dot for each of 3 steps." in words(markup)


@pytest.mark.parametrize("step_times", [(), (0.0,), (float("nan"),)], ids=str)
def test_no_steps(step_times: tuple[float, ...]) -> None:
    assert distribution(BARE.columns) == ""
    assert distribution((replaced(RICH, "original", step_times=step_times).columns[0],)) == ""


def test_steps_that_all_take_the_same() -> None:
    one = replaced(RICH, "original", step_times=(0.01,) * 50).columns[0]
    assert "original: median 10.0 ms" in words(distribution((one,)))


def test_quantiles_are_times_that_were_measured() -> None:
    one = column("original", 0.01)
    text = words(distribution((one,)).split("<details>")[1].replace("</details>", ""))
    ordered = sorted(times(0.01, 240, seed=1))
    assert f"fastest{ordered[0] * 1e3:.2f} ms" in text
    assert f"99 %{ordered[237] * 1e3:.1f} ms" in text
