"""Circles of imports: what reaches one file of a circle reaches all, and knows whom it may hand its objects to."""

from __future__ import annotations

import random

import pytest

from autoaccel.analysis.file_sets import members, set_of
from autoaccel.analysis.import_graph import circles


@pytest.mark.parametrize("numbers", [[], [0], [3, 7, 8], [64], [*range(200)]])
def test_sets_of_files(numbers: list[int]) -> None:
    assert [*members(set_of(numbers))] == numbers
    assert set_of(numbers) == sum(1 << number for number in numbers)


@pytest.mark.parametrize("seed", range(40))
def test_all_who_import_a_file_over_any_number_of_imports(seed: int) -> None:
    """As a search from each file finds them, in graphs of any shape."""
    draw = random.Random(seed)
    count = draw.randint(1, 12)
    importing = {
        number: set_of([each for each in range(count) if each != number and draw.random() < draw.choice((0.05, 0.3))])
        for number in range(count)
    }
    found = circles(importing)
    for number in range(count):
        reached, pending = {number}, [number]
        while pending:
            fresh = {*members(importing[pending.pop()])} - reached
            reached |= fresh
            pending.extend(fresh)
        assert {*members(found[number][1])} == reached
        assert found[found[number][0]] == found[number]
        assert found[number][0] in reached
