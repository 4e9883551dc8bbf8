"""Answers that know what they have not seen."""

from __future__ import annotations

import pytest

from autoaccel.dataflow.completeness import Answer, Incomplete


def test_all_that_was_seen() -> None:
    answer = Answer((1, 2))
    assert answer.all() == (1, 2) == tuple(answer)
    assert len(answer) == 2
    assert not Answer(), "nothing at all is an answer, too"


def test_a_part_is_not_all() -> None:
    made = Incomplete.made
    answer = Answer((1,), "there are more files")
    assert [*answer] == [1]
    assert Incomplete.made == made, "a part may be all that is wanted"
    with pytest.raises(Incomplete, match="there are more files"):
        answer.all()
    assert Incomplete.made == made + 1
