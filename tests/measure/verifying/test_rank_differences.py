"""What counts as a difference between one process and several. Records are made by hand; no process runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from autoaccel.measure.launching import WITH_OTHERS
from autoaccel.measure.observing.run_record import FAILED, Decision, Loss, RunFailure, RunRecord, Written
from autoaccel.measure.verifying import rank_differences
from autoaccel.measure.verifying.comparing import reference
from autoaccel.measure.verifying.tolerances import DOUBLE, SINGLE, Tolerances
from tests.measure.verifying.made import RECORD, entry, losses, one_pass

JOINED = (Decision("distribute", "2 ranks", "this is rank 1, on cpu"),)
ONE = replace(RECORD, written=(Written("/p/net.pt", "/p/train.py:9", ("weight: torch.float64 of 3",)),))
FIRST = replace(ONE, decisions=JOINED)
OTHER = replace(FIRST, written=(), printed=())


def found(first: RunRecord, other: RunRecord, relative: float = DOUBLE, grown: Sequence[float] = ()) -> list[str]:
    differences = rank_differences.differences(
        reference([ONE, ONE]), ONE, (first, other), Tolerances(relative, (*grown,))
    )
    return [each.text for each in differences]


def off(by: float) -> tuple[Loss, ...]:
    """The losses, the third of which is off by a part of itself."""
    values = [0.9, 0.8, 0.7 * (1 + by), 0.6]
    return tuple(replace(each, where="/p/train.py:5") for each in losses(values))


def test_what_is_right() -> None:
    assert found(FIRST, OTHER) == []


@pytest.mark.parametrize(
    ("by", "relative", "grown", "is_same"),
    [
        (1e-15, DOUBLE, (), True),
        (3e-12, DOUBLE, (), False),
        (3e-12, DOUBLE, (0.0, 1e-13, 0.0), True),
        (3e-12, DOUBLE, (0.0, 0.0, 0.0, 1e-13), False),
        (1e-5, DOUBLE, (1.0,), False),
        (1e-7, SINGLE, (), True),
        (1e-3, SINGLE, (), False),
        (0.1, SINGLE, (1.0,), False),
    ],
)
def test_rounding(by: float, relative: float, grown: Sequence[float], is_same: bool) -> None:
    said = found(replace(FIRST, losses=off(by)), replace(OTHER, losses=off(by)), relative, grown)
    assert (said == []) is is_same
    assert is_same or said[0].startswith("/p/train.py:5: loss of step 3: 0.7")


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"losses": losses([0.9, 0.8, 0.7])}, []),  # how often it went backward says that
        ({"steps": 3}, ["3 steps instead of 4"]),
        ({"passes": (one_pass("a b c"), one_pass("b c b"))}, ["pass 2 over loader 1: batch 3 is another one"]),
        ({"random": {"python": "p", "torch": "u"}}, ["torch: other random numbers were drawn"]),
        ({"settings": {**ONE.settings, "optimizer group 1.lr": "0.10000000000000002"}}, []),
        (
            {"settings": {**ONE.settings, "optimizer group 1.lr": "0.05"}},
            ["optimizer group 1's lr: 0.05 instead of 0.1"],
        ),
        (
            {"state": (entry("model.fc.weight", value=1.1), *ONE.state[1:])},
            ["parameter model.fc.weight is off by 0.1"],
        ),
        ({"state": (entry("model.fc.weight", value=1 + 1e-9), *ONE.state[1:])}, []),
        ({"state": ONE.state[1:]}, ["no parameter model.fc.weight"]),
    ],
)
def test_numbers_of_a_rank(changed: dict[str, Any], said: list[str]) -> None:
    assert [
        each for each in found(replace(FIRST, **changed), OTHER) if "repeat" not in each and "came" not in each
    ] == said
    on_the_other = [f"{each} on rank 1" for each in said]
    again = [each for each in found(FIRST, replace(OTHER, **changed)) if "repeat" not in each and "came" not in each]
    assert again == on_the_other


def test_what_all_do_is_said_once() -> None:
    assert found(replace(FIRST, steps=3), replace(OTHER, steps=3)) == ["3 steps instead of 4"]


def test_state_in_low_precision_is_not_compared() -> None:
    changed = (entry("model.fc.weight", value=1.1), *ONE.state[1:])
    assert found(replace(FIRST, state=changed), OTHER, SINGLE) == []


def test_what_is_printed() -> None:
    almost = ("epoch 1: acc 0.50000000000001", "epoch 2: acc 0.75, 9.2 s")
    assert found(replace(FIRST, printed=almost), OTHER) == []
    assert found(replace(FIRST, printed=("epoch 1: acc 0.51", *FIRST.printed[1:])), OTHER) == [
        "printed 'epoch 1: acc 0.51' instead of 'epoch 1: acc 0.50'"
    ]
    lines = replace(OTHER, printed=FIRST.printed[:1])
    assert found(FIRST, lines) == []
    assert list(rank_differences.notes((FIRST, lines))) == [
        "the first 1 line of what is printed come from every process, before they join"
    ]
    assert found(FIRST, replace(lines, decisions=())) == ["rank 1 prints 'epoch 1: acc 0.50', too"]


def test_a_model_that_is_not_shared_is_told_of() -> None:
    whole = Decision("distribute Net", "False", "its outputs hang on all rows of a batch")
    assert list(rank_differences.notes((replace(FIRST, decisions=(*JOINED, whole)), OTHER))) == [
        "each process computes all of what Net does: its outputs hang on all rows of a batch"
    ]


# -- files


@pytest.mark.parametrize(
    ("first", "other", "said"),
    [
        ((), ONE.written, []),
        ((), (), ["/p/net.pt is not written"]),
        (
            ONE.written,
            (replace(ONE.written[0], where="/p/train.py:8"),),
            ["/p/train.py:8: /p/net.pt is written by ranks 0 and 1"],
        ),
        (
            ONE.written,
            (Written("/p/log.1", "/p/train.py:3"),),
            ["/p/train.py:3: /p/log.1 is written by rank 1, and not by one process"],
        ),
        (
            (replace(ONE.written[0], holds=("module.weight: torch.float64 of 3",)),),
            (),
            [
                (
                    "/p/train.py:9: /p/net.pt holds `module.weight: torch.float64 of 3` instead of "
                    "`weight: torch.float64 of 3`"
                )
            ],
        ),
        (
            (replace(ONE.written[0], holds=(*ONE.written[0].holds, "bias: torch.float64 of 3")),),
            (),
            ["/p/train.py:9: /p/net.pt holds `bias: torch.float64 of 3`, too"],
        ),
    ],
)
def test_files(first: tuple[Written, ...], other: tuple[Written, ...], said: list[str]) -> None:
    assert found(replace(FIRST, written=first), replace(OTHER, written=other)) == said


def test_files_with_names_of_their_own_are_not_missed() -> None:
    by_time = [replace(ONE, written=(Written(f"/p/{name}", "/p/train.py:9"),)) for name in ("10:31", "10:32", "10:33")]
    one, alone, first = by_time
    assert rank_differences.files(one, alone, (first, OTHER)) == []


# -- failures


def failing(kind: str, message: str, seconds: float) -> RunRecord:
    return RunRecord(FAILED, RunFailure(kind, message, "/p/train.py:3"), seconds=seconds)


@pytest.mark.parametrize(
    ("ranks", "said"),
    [
        ((FIRST, failing("ValueError", "no", 3.0)), "rank 1: fails: ValueError: no (/p/train.py:3)"),
        (
            (failing("RuntimeError", "rank 1 has failed with ValueError: no", 3.2), failing("ValueError", "no", 3.0)),
            "rank 1: fails: ValueError: no (/p/train.py:3)",
        ),
        (
            (failing("RuntimeError", "rank 1 has gone", 3.0), failing("signal", "killed by signal 9 (SIGKILL)", 3.6)),
            "rank 1: fails: signal: killed by signal 9 (SIGKILL) (/p/train.py:3)",
        ),
        (
            (failing(WITH_OTHERS, "was ended", 1.0), failing("ValueError", "no", 3.0)),
            "rank 1: fails: ValueError: no (/p/train.py:3)",
        ),
    ],
)
def test_the_rank_that_failed_itself_is_told(ranks: tuple[RunRecord, RunRecord], said: str) -> None:
    assert found(*ranks) == [said]
