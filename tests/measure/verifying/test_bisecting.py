"""Which changes are to blame, and in how many runs that is found out."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, log2

import pytest

from autoaccel.measure.verifying.bisecting import bisect


class Runs:
    """Says what is wrong with a set of letters: each of `bad` is, and each pair of `pairs` is together."""

    def __init__(self, bad: str = "", pairs: Sequence[str] = (), needs: dict[str, str] | None = None) -> None:
        self.bad = bad
        self.pairs = pairs
        self.wanted = needs or {}
        self.asked: list[str] = []

    def probe(self, items: Sequence[str]) -> str:
        chosen = "".join(items)
        for item in items:
            assert set(self.wanted.get(item, "")) <= set(items), f"{item} without what it needs"
        self.asked.append(chosen)
        wrong = [each for each in self.bad if each in items]
        wrong += [pair for pair in self.pairs if set(pair) <= set(items)]
        return ", ".join(wrong)

    def needs(self, item: str) -> str:
        return self.wanted.get(item, "")

    def found(self, items: str = "abcdefgh") -> tuple[list[str], str]:
        found = bisect(items, self.probe, self.needs)
        return [each.item + "".join(each.company) for each in found.culprits], "".join(found.fine)


def test_nothing_is_wrong() -> None:
    runs = Runs()
    assert runs.found() == ([], "abcdefgh")
    assert runs.asked == ["abcdefgh"]


@pytest.mark.parametrize("bad", "abcdefgh")
def test_one_culprit(bad: str) -> None:
    runs = Runs(bad)
    assert runs.found() == ([bad], "abcdefgh".replace(bad, ""))
    # All, the search, the culprit alone, the rest.
    assert len(runs.asked) <= 1 + ceil(log2(8)) + 2


@pytest.mark.parametrize("bad", ["ab", "ah", "cf", "bcd", "gh", "abcdefgh"])
def test_several_culprits(bad: str) -> None:
    found, fine = Runs(bad).found()
    assert found == list(bad)
    assert fine == "".join(each for each in "abcdefgh" if each not in bad)


def test_what_is_wrong_is_said_of_the_culprit_alone() -> None:
    found = bisect("abcd", Runs("bd").probe, lambda _: "")
    assert [(each.item, each.verdict) for each in found.culprits] == [("b", "b"), ("d", "d")]


@pytest.mark.parametrize(("pair", "expected"), [("ab", "ba"), ("bg", "gb"), ("ah", "ha"), ("gh", "hg")])
def test_two_that_are_wrong_only_together(pair: str, expected: str) -> None:
    """The later one is left out; what it takes to be wrong is said."""
    found, fine = Runs(pairs=[pair]).found()
    assert found == [expected]
    assert fine == "abcdefgh".replace(expected[0], "")


def test_a_culprit_beside_a_pair() -> None:
    assert Runs("e", pairs=["bg"]).found() == (["e", "gb"], "abcdfh")


def test_what_needs_a_culprit_goes_with_it() -> None:
    runs = Runs("b", needs={"d": "b", "f": "d", "g": "a"})
    assert runs.found() == (["b"], "aceg" + "h")


def test_what_a_culprit_needs_is_applied_with_it() -> None:
    runs = Runs("f", needs={"f": "bd", "d": "b"})
    assert runs.found() == (["f"], "abcdegh")
    assert "bdf" in runs.asked


def test_what_is_known_to_be_wrong_is_not_asked_again() -> None:
    runs = Runs("c")
    bisect("abc", runs.probe, runs.needs, wrong="c")
    assert runs.asked[0] != "abc"


def test_nothing_to_search() -> None:
    assert bisect("", lambda _: "", lambda _: "").fine == ()


# -- what cannot be run


class Partners(Runs):
    """Each of these pairs fails where only one of the two is there."""

    def __init__(self, bad: str, partners: Sequence[str]) -> None:
        super().__init__(bad)
        self.partners = partners

    def probe(self, items: Sequence[str]) -> str:
        said = super().probe(items)
        return "fails" if any(len({*pair} & {*items}) == 1 for pair in self.partners) else said

    def found(self, items: str = "abcdefgh") -> tuple[list[str], str]:
        found = bisect(items, self.probe, self.needs, unclear=lambda said: said == "fails")
        assert all(each.verdict != "fails" for each in found.culprits)
        assert not self.probe(found.fine)
        return [each.item + "".join(each.company) for each in found.culprits], "".join([*found.fine, *found.helpless])


@pytest.mark.parametrize("bad", "abcdefgh")
@pytest.mark.parametrize("partners", [["bg"], ["ab"], ["ah"], ["ce", "df"]])
def test_what_fails_for_want_of_another_is_not_to_blame(bad: str, partners: list[str]) -> None:
    runs = Partners(bad, partners)
    culprits, rest = runs.found()
    named = next(("".join(sorted(pair, reverse=True)) for pair in partners if bad in pair), bad)
    assert culprits == [named]
    assert sorted(rest) == [each for each in "abcdefgh" if each != named[0]]
    assert len({*runs.asked}) <= 40


def test_where_all_fail_that_is_what_is_wrong() -> None:
    found = bisect("abcd", lambda items: "fails" if "c" in items else "", lambda _: "", unclear=lambda _: True)
    assert [(each.item, each.verdict) for each in found.culprits] == [("c", "fails")]


@pytest.mark.parametrize("bad", ["e", "a", "h", "ce"])
@pytest.mark.parametrize("ends", ["bg", "ab", "dh"])
def test_the_ends_of_what_was_moved_are_not_to_blame(bad: str, ends: str) -> None:
    """One without the other makes a difference, and both together none."""

    def probe(items: Sequence[str]) -> str:
        lone = [each for each in ends if each in items]
        return "".join([*(each for each in bad if each in items), *(lone if len(lone) == 1 else "")])

    if set(bad) & set(ends):
        return
    found = bisect("abcdefgh", probe, lambda _: "")
    assert "".join(each.item for each in found.culprits) == bad
