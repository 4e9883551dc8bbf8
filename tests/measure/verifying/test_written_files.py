"""Files that runs write: their names, and what is in them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from autoaccel.measure.observing.run_record import RunRecord, Written
from autoaccel.measure.verifying import comparing, written_files
from autoaccel.measure.verifying.leeway import Leeway
from tests.measure.verifying.made import RECORD, entry

SAVED = Written("/p/a.pt", "/p/t.py:9", ("w: float32 of 2", "group.foreach: NoneType"), ("h1", "h2"))
LOG = Written("/p/log.csv", "/p/t.py:8", (), ("epoch,loss,took", "1,0.25,0.3 s"), is_text=True)
PICTURE = Written("/p/a.png", "/p/t.py:7", (), ("h3",))

OTHER_WEIGHT = "/p/a.pt: `w: float32 of 2` is another one"


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
        (changed(SAVED, contents=("h9", "h2")), [OTHER_WEIGHT]),
        (changed(SAVED, contents=("h1", "h9")), []),  # which kernel updates is decided anew
        (changed(SAVED, holds=("v: float32 of 2",), contents=("h1",)), ["/p/a.pt: `w: float32 of 2` is not there"]),
        (changed(SAVED, holds=(*SAVED.holds, "v: int"), contents=("h1", "h2", "h3")), ["/p/a.pt: holds `v: int`, too"]),
        (
            changed(LOG, contents=("epoch,loss,took", "1,0.5,0.3 s")),
            ["written '1,0.5,0.3 s' instead of"],
        ),
        (changed(LOG, contents=("epoch,loss,took", "1,0.25,0.9 s")), []),
        (changed(PICTURE, contents=("h9",)), ["/p/a.png: its bytes are others"]),
        (run(*ORIGINAL.written, Written("/p/a.tmp", "/p/t.py:9", is_gone=True)), []),
        (changed(PICTURE, is_gone=True), ["/p/a.png is not written"]),
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


# -- within a leeway

WEIGHT, STEPS, LR = "w: float32 of 2", "steps: int64 of 2", "group.lr: float"


def saved(weight: float, steps: int = 3, lr: float = 0.1, *, holds: tuple[str, ...] = (WEIGHT, STEPS, LR)) -> Written:
    numbers = tuple(entry(each, "saved", value) for each, value in ((WEIGHT, weight), (LR, lr)))
    return Written("/p/a.pt", "", holds, tuple(map(str, (weight, steps, lr)))[: len(holds)], numbers=numbers)


LEEWAY = Leeway(1e-5, 1e-5)


@pytest.mark.parametrize(
    ("other", "leeway", "said"),
    [
        (saved(1.000001), LEEWAY, []),
        (saved(1.000001), Leeway(), [OTHER_WEIGHT]),
        (saved(1.001), LEEWAY, [OTHER_WEIGHT]),
        (saved(1.001), replace(LEEWAY, disturbed=run(saved(1.0002)), times=10), []),
        (saved(1.001), replace(LEEWAY, disturbed=run(saved(1.0)), times=10), [OTHER_WEIGHT]),
        (saved(1.0, steps=4), LEEWAY, ["/p/a.pt: `steps: int64 of 2` is another one"]),
        (saved(1.0, lr=0.1000001), LEEWAY, []),
        (saved(1.0, lr=0.11), LEEWAY, ["/p/a.pt: `group.lr: float` is another one"]),
        (saved(1.0, holds=(WEIGHT, STEPS)), LEEWAY, ["/p/a.pt: `group.lr: float` is not there"]),
        (
            replace(saved(1.0), holds=(), contents=("h",)),
            replace(LEEWAY, in_bytes=True),
            ["/p/a.pt: its bytes are others"],
        ),
    ],
)
def test_checkpoints_that_are_rounded(other: Written, leeway: Leeway, said: list[str]) -> None:
    known = written_files.steady([run(saved(1.0))])
    assert [each.text for each in written_files.differences(known, run(saved(1.0)), run(other), leeway)] == said


def logged(line: str) -> Written:
    return replace(LOG, contents=(LOG.contents[0], line))


@pytest.mark.parametrize(
    ("line", "leeway", "same"),
    [
        ("1,0.2500001,0.3 s", LEEWAY, True),
        ("1,0.2501,0.3 s", LEEWAY, False),
        ("1.00001,0.25,0.3 s", LEEWAY, True),
        ("2,0.25,0.3 s", LEEWAY, False),
        ("1,0.2501,0.3 s", replace(LEEWAY, disturbed=run(logged("1,0.25002,0.3 s")), times=10), True),
        ("1,0.2501,0.3 s", replace(LEEWAY, disturbed=run(LOG), times=10), False),
        ("1,0.25,0.3 s,2", LEEWAY, False),
    ],
)
def test_texts_that_are_rounded(line: str, leeway: Leeway, same: bool) -> None:
    known = written_files.steady([run(LOG)])
    assert (not [*written_files.differences(known, run(LOG), run(logged(line)), leeway)]) is same


def test_bytes_may_be_others_where_numbers_in_them_are() -> None:
    known = written_files.steady([run(PICTURE)])
    other = run(replace(PICTURE, contents=("h9",)))
    assert not [*written_files.differences(known, run(PICTURE), other, Leeway(in_bytes=True))]
    assert [*written_files.differences(known, run(PICTURE), run(), Leeway(in_bytes=True))]
