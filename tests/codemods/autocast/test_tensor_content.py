"""Contents where ways join, and of operations with several operands."""

from __future__ import annotations

from itertools import permutations

import pytest

from autoaccel_codemods.autocast.tensor_content import Content, join, mixed

FLOATING, WHOLE, NOTHING, OPTIONAL = Content.FLOATING, Content.WHOLE, Content.NOTHING, Content.OPTIONAL


@pytest.mark.parametrize(
    ("contents", "joined"),
    [
        ([], Content.OPEN),
        ([FLOATING, Content.OPEN], FLOATING),
        ([FLOATING, NOTHING], OPTIONAL),
        ([OPTIONAL, FLOATING], OPTIONAL),
        ([FLOATING, WHOLE], Content.UNKNOWN),
        ([NOTHING, WHOLE], Content.UNKNOWN),
    ],
)
def test_joined(contents: list[Content], joined: Content) -> None:
    assert all(join(each) is joined for each in permutations(contents))


@pytest.mark.parametrize(
    ("contents", "result"),
    [
        ([Content.OPEN], Content.OPEN),
        ([FLOATING, WHOLE], FLOATING),
        ([OPTIONAL, WHOLE], FLOATING),
        ([WHOLE, Content.NUMBER], WHOLE),
        ([FLOATING, Content.UNKNOWN], FLOATING),
        ([WHOLE, Content.UNKNOWN], Content.UNKNOWN),
        ([WHOLE, Content.STRUCTURE], Content.UNKNOWN),
    ],
)
def test_mixed(contents: list[Content], result: Content) -> None:
    assert all(mixed(each) is result for each in permutations(contents))
