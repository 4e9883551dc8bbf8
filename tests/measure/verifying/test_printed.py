"""Lines that two runs print: what is compared, and what may differ for reasons of its own."""

from __future__ import annotations

import pytest

from autoaccel.measure.verifying import printed
from autoaccel.measure.verifying.printed import Bound


@pytest.mark.parametrize(
    ("equal_runs", "other"),
    [
        (("loss 0.5, 1.2 s", "loss 0.5, 1.3 s"), "loss 0.5, 9.7 s"),
        (("took 0.1 s", "took 0.1 s"), "took 0.2 s"),  # few digits: the same by chance
        (("speed 12.5 it/s", "speed 12.5 it/s"), "speed 7.1 it/s"),
        (("0:03 left", "0:03 left"), "0:04 left"),
        (("saved /tmp/a1/x.pt", "saved /tmp/b2/x.pt"), "saved /tmp/c3/x.pt"),
        (("tensor(1., grad_fn=<AddBackward0>)",) * 2, "tensor(1.)"),
    ],
)
def test_the_same(equal_runs: tuple[str, str], other: str) -> None:
    runs = [[each] for each in equal_runs]
    assert printed.difference(runs[0], [other], printed.masks(runs)) is None


@pytest.mark.parametrize(
    ("line", "other"),
    [
        ("eta 0.013452", "eta 0.013453"),  # a learning rate
        ("survival time 413.27", "survival time 413.29"),
        ("speed: 3.14159", "speed: 3.1416"),
        ("best model runs/a/best.pt", "best model runs/a/last.pt"),
        ("loss 0.5, took 0.1 s", "loss 0.6, took 0.1 s"),
    ],
)
def test_what_repeats_itself_is_compared(line: str, other: str) -> None:
    """Whatever it is called."""
    assert printed.difference([line], [other], printed.masks([[line], [line]])) is not None


def test_what_varies_in_any_two_runs_is_not_compared() -> None:
    one, two = printed.masks([["a 1 b 1"], ["a 1 b 2"]]), printed.masks([["a 1 b 1"], ["a 2 b 1"]])
    assert printed.difference(["a 1 b 1"], ["a 5 b 5"], one.joined(two)) is None
    assert printed.difference(["a 1 b 1"], ["a 5 b 5"], one) is not None


@pytest.mark.parametrize(
    ("one", "two", "bound", "same"),
    [
        ("acc 0.73", "acc 0.7300000047683716", Bound(1e-6), True),
        ("acc 0.73", "acc 0.7300000047683716", Bound(), False),
        ("seen 9999999", "seen 10000000", Bound(1e-6), False),
        ("seen 9999999", "seen 10000000", Bound(1e-6, counts=True), True),
        ("acc 0.731", "acc 0.732", Bound(1e-6), False),
        ("acc 0.731", "acc 0.732", Bound(1e-6, last_digit=True), True),
        ("acc 0.731", "acc 0.733", Bound(1e-6, last_digit=True), False),
        ("acc 0.73", "acc 0.74", Bound(1e-6, last_digit=True), False),  # one of a hundred
        ("acc 1.3e-05", "acc 1.4e-05", Bound(1e-6, last_digit=True), False),
        ("epoch 7", "epoch 8", Bound(1e-6, counts=True, last_digit=True), False),
        ("acc 0.73", "acc none", Bound(1.0, counts=True, last_digit=True), False),
    ],
)
def test_numbers_that_are_rounded(one: str, two: str, bound: Bound, same: bool) -> None:
    assert (printed.difference([one], [two], printed.Masks(), bound) is None) is same


def test_numbers_may_be_off_as_they_are_where_rounding_grows() -> None:
    before, disturbed = ["1: acc 0.50", "2: acc 0.75"], ["1: acc 0.50", "2: acc 0.76"]
    bound = Bound(grown=printed.growth(before, disturbed, 3))
    assert printed.difference(before, ["1: acc 0.52", "2: acc 0.75"], printed.Masks(), bound) is None
    assert printed.difference(before, ["1: acc 0.54", "2: acc 0.75"], printed.Masks(), bound) is not None
    assert printed.difference(before, ["2: acc 0.50", "2: acc 0.75"], printed.Masks(), bound) is not None
