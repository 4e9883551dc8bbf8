"""Which subsets of the changes run, and which figure belongs to which rule."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from autoaccel.config import configure
from autoaccel.measure import changes
from autoaccel.measure.benching import ablation
from autoaccel.measure.benching.ablation import Subset
from autoaccel.measure.benching.report import Interval
from autoaccel.measure.changes import Change, Changes

SCRIPTS = Path(__file__).resolve().parents[3] / "fixtures" / "scripts"


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Changes:
    """What rules find in a script of many opportunities; in no repository, whose files would be searched for each
    subset of them."""
    script = Path(shutil.copy(SCRIPTS / "mnist.py", tmp_path_factory.mktemp("alone")))
    settings = configure(script.parent, config=None, isolated=True, inline=[], overrides={})
    return changes.find([script], settings)


def test_every_rule_is_measured_alone_and_left_out(found: Changes) -> None:
    codes = {each.record.code for each in found}
    assert len(codes) >= 3
    rules = ablation.rules(found)
    assert [each.code for each in rules] == sorted(codes)
    for each in rules:
        assert {change.record.code for change in each.alone} <= {each.code}
        assert each.code not in {change.record.code for change in each.without}
        assert each.changes == sum(change.record.code == each.code for change in found)


def test_no_change_runs_without_what_it_needs(found: Changes) -> None:
    for each in ablation.subsets(found):
        assert found.closed(each.changes) == each.changes


def test_each_set_runs_once_and_never_all_or_none(found: Changes) -> None:
    sets = [frozenset(each.changes) for each in ablation.subsets(found)]
    assert len(set(sets)) == len(sets)
    assert frozenset(found.all) not in sets
    assert frozenset() not in sets


def test_subsets_have_texts_of_their_own(found: Changes) -> None:
    texts = [tuple(found.texts(each.changes).values()) for each in ablation.subsets(found)]
    assert all(texts)


def test_one_rule_needs_no_ablation(found: Changes) -> None:
    code = found.all[0].record.code
    only = replace(found, all=tuple(each for each in found if each.record.code == code and not found.needs(each)))
    assert ablation.subsets(only) == []
    worth = Interval(1.5, 1.4, 1.6)
    (contribution,) = ablation.contributions(only, {frozenset(only.all): worth})
    assert (contribution.code, contribution.alone, contribution.without) == (code, worth, None)


def test_contributions_are_in_the_order_of_their_worth(found: Changes) -> None:
    measured: dict[frozenset[Change], Interval] = {frozenset(found.all): Interval(2.0, 2.0, 2.0)}
    for number, subset in enumerate(ablation.subsets(found)):
        measured[frozenset(subset.changes)] = Interval(1.0 + number / 10, 1.0, 2.0)
    contributions = ablation.contributions(found, measured)
    worth = [each.alone.median for each in contributions if each.alone is not None]
    assert worth == sorted(worth, reverse=True)
    for each, rule in ((each, rule) for each in contributions for rule in ablation.rules(found)):
        if each.code == rule.code:
            assert each.alone == (measured[frozenset(rule.alone)] if rule.alone else None)
            assert each.without == (measured[frozenset(rule.without)] if rule.without else None)


def test_what_failed_is_not_measured(found: Changes) -> None:
    contributions = ablation.contributions(found, {})
    assert all(each.alone is None and each.without is None for each in contributions)


@pytest.mark.parametrize(
    ("candidates", "room", "sizes"),
    [(0, 4, []), (1, 4, [1]), (4, 4, [4]), (5, 4, [3, 2]), (9, 100, [3, 3, 3]), (5, 1, [1] * 5), (3, 0, [1] * 3)],
)
def test_groups_are_even(candidates: int, room: int, sizes: list[int]) -> None:
    names = [Subset(str(number), ()) for number in range(candidates)]
    groups = ablation.groups(names, room)
    assert [len(group) for group in groups] == sizes
    assert sorted(each.name for group in groups for each in group) == [each.name for each in names]


@pytest.mark.parametrize(
    ("free", "needed", "expected"),
    [(100, 10, 6), (100, 60, 1), (10, 100, 1), (0, 10, ablation.MOST_AT_A_TIME), (10, 0, ablation.MOST_AT_A_TIME)],
)
def test_room(free: int, needed: int, expected: int) -> None:
    assert ablation.room(free, needed) == expected
