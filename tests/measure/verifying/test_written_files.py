"""Files that runs write: their names, and what is in them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from autoaccel.measure.observing.run_record import RunRecord, Written
from autoaccel.measure.verifying import comparing
from tests.measure.verifying.made import RECORD

SAVED = Written("/p/a.pt", "/p/t.py:9", ("w: float32 of 2", "group.fused: NoneType"), ("h1", "h2"))
LOG = Written("/p/log.csv", "/p/t.py:8", (), ("epoch,loss,took", "1,0.25,0.3 s"), is_text=True)
PICTURE = Written("/p/a.png", "/p/t.py:7", (), ("h3",))


def run(*written: Written) -> RunRecord:
    return replace(RECORD, written=written)


ORIGINAL = run(SAVED, LOG, PICTURE)


def told(other: RunRecord, *equal: RunRecord) -> list[str]:
    known = comparing.reference([ORIGINAL, *(equal or (ORIGINAL,))])
    return [each.text for each in comparing.differences(known, other)]


def changed(written: Written, **fields: Any) -> RunRecord:
    return run(*(replace(each, **fields) if each is written else each for each in ORIGINAL.written))


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        (ORIGINAL, []),
        (run(LOG, PICTURE), ["/p/a.pt is not written"]),
        (run(SAVED, LOG, PICTURE, replace(LOG, path="/p/b.csv")), ["/p/b.csv is written, too"]),
        (changed(SAVED, contents=("h9", "h2")), ["/p/a.pt: `w: float32 of 2` is another one"]),
        (changed(SAVED, contents=("h1", "h9")), []),  # which kernel updates is decided anew
        (changed(SAVED, holds=("v: float32 of 2",), contents=("h1",)), ["/p/a.pt: `w: float32 of 2` is not there"]),
        (changed(SAVED, holds=(*SAVED.holds, "v: int"), contents=("h1", "h2", "h3")), ["/p/a.pt: holds `v: int`, too"]),
        (
            changed(LOG, contents=("epoch,loss,took", "1,0.5,0.3 s")),
            ["written '1,0.5,0.3 s' instead of"],
        ),
        (changed(LOG, contents=("epoch,loss,took", "1,0.25,0.9 s")), []),
        (changed(PICTURE, contents=("h9",)), ["/p/a.png: its bytes are others"]),
    ],
)
def test_what_equal_runs_agree_on(other: RunRecord, expected: list[str]) -> None:
    found = told(other)
    assert len(found) == len(expected)
    assert all(text in each for text, each in zip(expected, found, strict=True))


def test_what_varies_is_not_compared() -> None:
    vary = run(replace(SAVED, contents=("x", "y")), LOG, replace(PICTURE, path="/p/0417.png"))
    assert told(run(replace(SAVED, contents=("z", "y")), LOG, replace(PICTURE, path="/p/0418.png")), vary) == []
    assert told(run(SAVED, PICTURE), vary) == ["/p/log.csv is not written"]
