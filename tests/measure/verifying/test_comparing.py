"""What differs between two runs, in words; and what is not a difference because the original varies in it, too."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from autoaccel.measure.observing.run_record import FAILED, Loss, RunFailure, RunRecord, Written
from autoaccel.measure.verifying import comparing
from autoaccel.measure.verifying.comparing import differences, reference, structure, told
from autoaccel.measure.verifying.rounding_differences import COARSE, is_rounding, is_rounding_in_double, runs_in_double
from tests.measure.verifying.made import RECORD, entry, losses, one_pass

SETTINGS = RECORD.settings
MOMENTUM = RECORD.state[2]
ROUNDED = losses([0.9, 0.8, 0.7000001, 0.61])
LOG = Written("/p/log", "", (), ("acc 0.5000",), is_text=True)


def texts(original: RunRecord, other: RunRecord) -> list[str]:
    return [each.text for each in differences(reference([original, original]), other)]


def test_equal_runs() -> None:
    assert texts(RECORD, replace(RECORD, seconds=7.0)) == []
    assert told([]) == "the same"


FAILURE = RunFailure("RuntimeError", "shapes differ", "train.py:12", "Traceback …")

CASES: dict[str, tuple[dict[str, Any], list[str]]] = {
    "a failure says it all": (
        {"ending": FAILED, "failure": FAILURE, "steps": 0},
        ["it fails: RuntimeError: shapes differ (train.py:12)"],
    ),
    "a mark": (
        {"marks": {"a backward ran inside an autocast region": 3}},
        ["a backward ran inside an autocast region, 3 times"],
    ),
    "a loss": (
        {"losses": losses([0.9, 0.8, 0.7000001, 0.6])},
        ["loss of step 3: 0.7000001 instead of 0.7"],
    ),
    "fewer losses": ({"losses": RECORD.losses[:3]}, ["3 losses instead of 4"]),
    "steps": (
        {"steps": 3, "backwards": 3},
        ["3 steps instead of 4", "3 backwards instead of 4"],
    ),
    "steps left out": (
        {"skipped_steps": 2},
        ["2 steps left out because gradients overflowed instead of 0"],
    ),
    "weight decay": (
        {"settings": {**SETTINGS, "optimizer group 1.weight_decay": "0"}},
        ["optimizer group 1's weight_decay: 0 instead of 0.01"],
    ),
    "a scheduler is gone": (
        {"settings": {"model.training": "True", "model.bn.training": "True"}},
        [
            "optimizer group 1's lr: not there instead of 0.1",
            "optimizer group 1's weight_decay: not there instead of 0.01",
        ],
    ),
    "evaluation mode": (
        {"settings": {**SETTINGS, "model.training": "False", "model.bn.training": "False"}},
        ["model and model.bn are in evaluation mode"],
    ),
    "a part in evaluation mode": (
        {"settings": {**SETTINGS, "model.bn.training": "False"}},
        ["model.bn is in evaluation mode"],
    ),
    "a parameter": (
        {"state": (entry("model.fc.weight", value=1.5), *RECORD.state[1:])},
        ["parameter model.fc.weight (off by 0.5 of its norm)"],
    ),
    "a buffer": (
        {"state": (RECORD.state[0], entry("model.bn.running_mean", "buffer", 0.6), RECORD.state[2])},
        ["buffer model.bn.running_mean (off by 0.2 of its norm)"],
    ),
    "a state of the optimizer": (
        {"state": (*RECORD.state[:2], replace(RECORD.state[2], digest="other", sketch=()))},
        ["optimizer: model.fc.weight momentum_buffer"],
    ),
    "no number": (
        {"state": (entry("model.fc.weight", value=math.nan), *RECORD.state[1:])},
        ["parameter model.fc.weight (no numbers)"],
    ),
    "another type of numbers": (
        {"state": (replace(RECORD.state[0], dtype="torch.bfloat16"), *RECORD.state[1:])},
        ["parameter model.fc.weight: bfloat16 of 2 x 3 instead of float32 of 2 x 3"],
    ),
    "a parameter too few": ({"state": RECORD.state[1:]}, ["no parameter model.fc.weight"]),
    "a parameter too many": (
        {"state": (*RECORD.state, entry("model.extra"))},
        ["parameter model.extra, which the original does not have"],
    ),
    "random numbers": ({"random": {"python": "p", "torch": "x"}}, ["torch: other random numbers were drawn"]),
    "a printed metric": (
        {"printed": ("epoch 1: acc 0.50", "epoch 2: acc 0.70, 1.2 s")},
        ["printed 'epoch 2: acc 0.70, 1.2 s' instead of 'epoch 2: acc 0.75, 1.2 s'"],
    ),
    "a line too few": ({"printed": RECORD.printed[:1]}, ["'epoch 2: acc 0.75, 1.2 s' is not printed"]),
    "a line too many": ({"printed": (*RECORD.printed, "done")}, ["'done' is printed, too"]),
    "the last batch is dropped": (
        {"passes": (one_pass("a b", length=2), one_pass("b c", length=2))},
        [
            "2 batches in a complete pass of loader 1 instead of 3",
            "2 batches per pass of loader 1 instead of 3",
            "pass 1 over loader 1: 2 batches instead of 3",
        ],
    ),
    "a pass too few": ({"passes": RECORD.passes[:1]}, ["1 pass over loader 1 instead of 2"]),
    "no shuffling": (
        {"passes": (one_pass("a b c"), one_pass("a b c"))},
        [
            "1 pass over loader 1 repeat an earlier one, not 0",
            "pass 2 over loader 1: batch 1 is another one",
        ],
    ),
    "other batches": (
        {"passes": (one_pass("a x c"), RECORD.passes[1])},
        ["pass 1 over loader 1: batch 2 is another one"],
    ),
    "every worker has all items": (
        {"passes": (one_pass("a a b b c c"), one_pass("b b c c a a"))},
        [
            "6 batches of loader 1 came again in the same pass",
            "6 batches in a complete pass of loader 1 instead of 3",
            "pass 1 over loader 1: batch 2 is another one",
        ],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("changed", "expected"), CASES.values(), ids=CASES.keys())
def test_what_differs(changed: dict[str, Any], expected: list[str]) -> None:
    assert sorted(texts(RECORD, replace(RECORD, **changed))) == sorted(expected)


def test_denormal_numbers_may_have_more_bits_while_they_are_scaled() -> None:
    tiny = replace(RECORD.state[2], digest="other", sketch=(0.1 + 0.0, 0.1), norm=0.1)
    assert texts(RECORD, replace(RECORD, state=(*RECORD.state[:2], tiny))) == []


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({}, True),
        ({"losses": losses([0.9, 0.8, 0.7000001, 0.61])}, True),
        ({"losses": losses([0.9, 0.8, 0.7001, 0.6])}, False),
        ({"losses": losses([0.9, 0.8, math.nan, 0.6])}, False),
        ({"losses": losses([0.9, 0.8])}, False),
        ({"state": (entry("model.fc.weight", value=1.000001), *RECORD.state[1:])}, True),
        ({"state": (entry("model.fc.weight", value=1.01), *RECORD.state[1:])}, False),
        ({"losses": ROUNDED, "state": (entry("model.fc.weight", value=1.001), *RECORD.state[1:])}, True),
        ({"losses": ROUNDED, "state": (entry("model.fc.weight", value=1.01), *RECORD.state[1:])}, False),
        ({"losses": ROUNDED, "state": (*RECORD.state[:2], replace(MOMENTUM, digest="x", sketch=(0.1001, 0.1)))}, True),
        ({"losses": ROUNDED, "state": (*RECORD.state[:2], replace(MOMENTUM, digest="x", sketch=(0.2, 0.2)))}, False),
        ({"losses": ROUNDED, "state": (replace(RECORD.state[0], dtype="torch.float16"), *RECORD.state[1:])}, False),
        ({"losses": ROUNDED, "state": (replace(RECORD.state[0], shape=(6,)), *RECORD.state[1:])}, False),
        ({"losses": ROUNDED, "state": RECORD.state[1:]}, False),
        ({"printed": ("other",)}, False),
        ({"printed": ("epoch 1: acc 0.500001", RECORD.printed[1])}, True),
        ({"printed": ("epoch 1: acc 0.501", RECORD.printed[1])}, False),
        ({"losses": ROUNDED, "printed": ("epoch 1: acc 0.51", RECORD.printed[1])}, False),
        ({"losses": ROUNDED, "printed": ("epoch 2: acc 0.50", RECORD.printed[1])}, False),
        ({"random": {}}, False),
        ({"steps": 5}, False),
    ],
)
def test_rounding(changed: dict[str, Any], expected: bool) -> None:
    """The parameter went from 0.5 to 1; a rounding of the state is measured by that, not by the parameter."""
    start = replace(RECORD, state=(entry("model.fc.weight", value=0.5), *RECORD.state[1:]))
    assert is_rounding(reference([RECORD]), replace(RECORD, **changed), lambda: start) is expected


@pytest.mark.parametrize(
    ("later", "disturbed", "expected"),
    [
        (1 + 5e-6, 1.0, True),
        (1 + 1e-3, 1.0, False),  # the first loss that differs is as near as rounding, and then it strays
        (1 + 1e-3, 1 + 1e-6, False),
        (1 + 1e-3, 1 + 1e-3, True),  # as the original does of one rounding
    ],
)
def test_rounding_over_the_trajectory(later: float, disturbed: float, expected: bool) -> None:
    other = replace(RECORD, losses=losses([0.9, 0.8 * (1 + 1e-7), 0.7, 0.6 * later]))
    pushed = replace(RECORD, losses=losses([0.9, 0.8, 0.7, 0.6 * disturbed]))
    assert is_rounding(reference([RECORD]), other, lambda: RECORD, lambda: pushed) is expected


@pytest.mark.parametrize(("pushed", "expected"), [(1.0, False), (1.0001, False), (1.1, True), (math.inf, False)])
def test_a_state_that_strays_as_far_as_a_rounding_grows(pushed: float, expected: bool) -> None:
    """As in a game of two networks; with nothing known of the push nothing is allowed."""

    def at(value: float) -> RunRecord:
        far = replace(entry("model.fc.weight", value=value), sketch=() if math.isinf(value) else (value, value))
        return replace(RECORD, losses=ROUNDED, state=(far, *RECORD.state[1:]))

    start = replace(RECORD, state=(entry("model.fc.weight", value=0.5), *RECORD.state[1:]))
    known = reference([replace(RECORD, losses=losses([0.9, 0.8, 0.7, 0.61]))])
    assert is_rounding(known, at(1.2), lambda: start, lambda: replace(at(pushed), losses=ROUNDED)) is expected
    same = replace(at(1.2), losses=known.record.losses)  # gradients that are nothing but rounding, under Adam
    assert is_rounding(known, same, lambda: start, lambda: replace(at(pushed), losses=ROUNDED)) is expected


@pytest.mark.parametrize("values", [RECORD.losses, ROUNDED], ids=["the same losses", "rounded ones"])
@pytest.mark.parametrize(
    ("dtype", "by", "pushed", "expected"),
    [
        ("torch.float32", 1e-6, 0.0, True),
        ("torch.int64", 1e-6, 0.0, False),
        ("torch.bool", 1e-6, 0.0, False),
        ("torch.int64", 1e-6, 1e-6, True),  # a count of what was rounded, as the original's is
        ("torch.float32", 0.1, 1e-3, False),
    ],
)
def test_what_counts_is_not_rounded(
    values: tuple[Loss, ...], dtype: str, by: float, pushed: float, expected: bool
) -> None:
    def at(value: float) -> RunRecord:
        return replace(RECORD, losses=values, state=(*RECORD.state, entry("model.seen", "buffer", value, dtype=dtype)))

    original = replace(at(1.0), losses=RECORD.losses)
    assert is_rounding(reference([original]), at(1 + by), lambda: original, lambda: at(1 + pushed)) is expected


def test_files_are_judged_beside_losses_that_are_rounded() -> None:
    original = replace(RECORD, written=(LOG,))

    def is_near(line: str, pushed: str, **other: Any) -> bool:
        rounded = losses([0.9, 0.8, 0.7000001, 0.6])
        run = replace(original, losses=rounded, written=(replace(LOG, contents=(line,)),))
        disturbed = replace(original, written=(replace(LOG, contents=(pushed,)),))
        return is_rounding(reference([original, original]), run, lambda: original, lambda: disturbed, **other)

    assert is_near("acc 0.5001", "acc 0.5000")
    assert not is_near("acc 0.5003", "acc 0.5000")
    assert is_near("acc 0.5003", "acc 0.5001")
    assert is_near("acc 0.5003", "acc 0.5000", strictness=COARSE)
    assert not is_near("acc 0.5300", "acc 0.5000", strictness=COARSE)


DOUBLED = replace(RECORD, losses=losses([0.9, 0.8, 0.7, 0.6]))


@pytest.mark.parametrize(
    ("by", "grown", "changed", "expected"),
    [
        (0.0, 0.0, {}, True),
        (1e-14, 0.0, {}, True),
        (1e-10, 0.0, {}, None),  # of parts that stay in float32, it may be
        (1e-10, 1e-11, {}, True),
        (1e-6, 1e-12, {}, False),
        (1e-4, 1.0, {}, False),
        (0.0, 0.0, {"printed": ("epoch 1: acc 0.51", RECORD.printed[1])}, False),
        (0.0, 0.0, {"steps": 5}, False),
        (1e-14, 0.0, {"written": (replace(LOG, contents=("acc 0.5001",)),)}, False),
        (1e-14, 0.0, {"written": (replace(LOG, contents=("acc 0.50000000001",)),)}, True),
        (1e-14, 0.0, {"settings": {**SETTINGS, "scheduler.best": "0.1"}}, False),
        (0.0, 0.0, {"ending": FAILED, "failure": FAILURE}, None),
    ],
)
def test_rounding_in_float64(by: float, grown: float, changed: dict[str, Any], expected: bool | None) -> None:
    def off(part: float) -> RunRecord:
        return replace(RECORD, losses=losses([0.9, 0.8, 0.7 * (1 + part), 0.6]), written=(LOG,))

    known, other = reference([off(0.0), off(0.0)]), replace(off(by), **changed)
    assert is_rounding_in_double(known, other, lambda: off(grown)) is expected


@pytest.mark.parametrize(("dtype", "expected"), [("torch.float64", True), ("torch.int64", False)])
def test_what_counts_is_not_rounded_in_float64_either(dtype: str, expected: bool) -> None:
    def at(value: float) -> RunRecord:
        return replace(RECORD, state=(*RECORD.state, entry("model.seen", "buffer", value, dtype=dtype)))

    assert is_rounding_in_double(reference([at(1.0)]), at(1 + 1e-7), lambda: at(1.0)) is expected


def test_whether_a_run_is_in_float64() -> None:
    single = replace(RECORD, losses=losses([0.5, 0.25, 0.125, 0.0]))
    assert runs_in_double(single, RECORD)
    assert not runs_in_double(single, single)  # the script has seen to its types
    assert not runs_in_double(single, replace(RECORD, steps=3))
    assert not runs_in_double(single, replace(RECORD, ending=FAILED, failure=FAILURE))


def test_an_infinite_mask_makes_nothing_near() -> None:
    mask = entry("model.bn.mask", "buffer", 0.5, norm=math.inf)
    other_mask = entry("model.ln.mask", "buffer", 0.6, norm=math.inf)
    original = replace(RECORD, state=(*RECORD.state, mask))
    assert not is_rounding(
        reference([original]),
        replace(original, losses=ROUNDED, state=(*RECORD.state, replace(other_mask, name=mask.name))),
        lambda: original,
    )


def test_states_of_optimizers_are_measured_by_others_of_their_name() -> None:
    """Steps are counted in the dozens; that must not make a moment of another magnitude look alike."""
    moment = entry("optimizer: model.fc.weight exp_avg", "optimizer", 0.001)
    original = replace(RECORD, state=(*RECORD.state, moment, entry("optimizer: model.fc.weight step", "optimizer", 40)))
    wrong = replace(moment, digest="x", sketch=(1.0, 1.0))
    other = replace(original, losses=ROUNDED, state=(*RECORD.state, wrong, original.state[-1]))
    assert not is_rounding(reference([original]), other, lambda: original)


def test_what_explains_the_rest_comes_first() -> None:
    other = replace(
        RECORD,
        losses=losses([0.9, 0.85, 0.7, 0.6]),
        settings={**SETTINGS, "optimizer group 1.weight_decay": "0"},
        random={"python": "x", "torch": "x"},
    )
    found = differences(reference([RECORD, RECORD]), other)
    assert [each.kind for each in found] == ["setting", "loss", "random"]
    assert told(found) == ("optimizer group 1's weight_decay: 0 instead of 0.01; loss of step 2: 0.85 instead of 0.8")
    assert told(found[1:]) == "loss of step 2: 0.85 instead of 0.8"


def test_losses_of_one_step_are_numbered() -> None:
    original = replace(RECORD, losses=losses([3, 2, 1, 0], per_step=2))
    assert texts(original, replace(original, losses=losses([3, 2, 1, 9], per_step=2))) == [
        "loss 2 of step 2: 9 instead of 0"
    ]


def test_backwards_of_the_same_sum() -> None:
    twice = replace(RECORD, losses=losses([0.5, 0.4, 0.5, 0.3, 0.5, 0.2, 0.5, 0.1], per_step=2), backwards=8)
    assert texts(RECORD, twice) == ["2 backwards a step instead of 1, of the same sum of losses"]
    assert texts(twice, RECORD) == ["1 backward a step instead of 2, of the same sum of losses"]
    half = replace(twice, losses=losses([0.5, 0.5, 0.5, 0.3, 0.5, 0.2, 0.5, 0.1], per_step=2))
    assert "8 backwards instead of 4" in texts(RECORD, half)
    unlike = replace(twice, losses=(*twice.losses[:2], replace(twice.losses[2], value=None), *twice.losses[3:]))
    assert "8 backwards instead of 4" in texts(RECORD, unlike)
    later = replace(twice, losses=(*twice.losses[:-1], replace(twice.losses[-1], value=0.5, exact="x")))
    assert texts(RECORD, later)[1] == "loss of step 4: 1 instead of 0.6"


def test_the_same_samples_in_other_batches() -> None:
    many, few = one_pass("a b c", samples="s"), one_pass("x", length=1, samples="s")
    original = replace(RECORD, passes=(RECORD.passes[0], many))
    said = ["pass 2 over loader 1: the same samples in 1 batch instead of 3, and nothing was trained on them"]
    assert texts(original, replace(RECORD, passes=(RECORD.passes[0], few))) == said
    for other in (replace(few, samples="t"), replace(few, samples=""), replace(few, loader=1)):
        found = texts(original, replace(RECORD, passes=(RECORD.passes[0], other)))
        assert found
        assert not any("the same samples" in each for each in found)


def test_batches_that_were_only_looked_ahead_for_do_not_matter() -> None:
    original = replace(RECORD, passes=(one_pass("a b", complete=False),))
    assert texts(original, replace(RECORD, passes=(one_pass("a b c"),))) == []
    assert texts(original, replace(RECORD, passes=(one_pass("a b b", complete=False),))) == []
    two = replace(RECORD, passes=(one_pass("a b c"), one_pass("b a", complete=False)))
    assert texts(two, replace(RECORD, passes=(one_pass("a b c"), one_pass("b a b")))) == []
    assert texts(original, replace(RECORD, passes=(one_pass("a"),))) != []
    whole = replace(RECORD, passes=(one_pass("a b c"),))
    assert texts(whole, replace(RECORD, passes=(one_pass("a b c d", complete=False),))) != []


def test_what_equal_runs_do_not_share_is_not_compared() -> None:
    again = replace(
        RECORD,
        losses=losses([0.9, 0.8, 0.71, 0.6]),
        random={"python": "x", "torch": "t"},
        settings={**SETTINGS, "scheduler.best": "0.7"},
    )
    known = reference([RECORD, again])
    assert not known.repeats
    assert known.unsteady == {"loss", "random"}
    other = replace(RECORD, losses=losses([1, 2, 3, 4]), random={}, settings={**SETTINGS, "scheduler.best": "0.8"})
    assert differences(known, other) == []
    fewer = replace(other, steps=3)
    assert told(differences(known, fewer)) == "3 steps instead of 4"


def test_marks_of_the_original_itself_are_its_own_affair() -> None:
    original = replace(RECORD, marks={"a backward ran inside an autocast region": 4})
    assert texts(original, original) == []
    assert texts(original, replace(original, marks={"a backward ran inside an autocast region": 5})) != []


def test_numbers_may_differ_where_only_the_structure_is_compared() -> None:
    state = (entry("model.fc.weight", value=3.0), *RECORD.state[1:])
    other = replace(RECORD, losses=losses([9, 9, 9, 9]), random={}, printed=(), state=state)
    assert structure(reference([RECORD]), other) == []


PRINTED: dict[str, tuple[str, str, str, bool]] = {
    "a time that varies": ("took 1.23 of all", "took 1.31 of all", "took 9.99 of all", True),
    "a metric beside a time that varies": ("acc 0.5 took 1.2", "acc 0.5 took 1.3", "acc 0.6 took 1.2", False),
    "a time that happened to be equal": ("0.5, 1.2 s", "0.5, 1.2 s", "0.5, 1.3 s", True),
    "a metric beside a time": ("0.5, 1.2 s", "0.5, 1.2 s", "0.6, 1.2 s", False),
    "a rate": ("7, 12.5 it/s", "7, 12.5 it/s", "7, 11 it/s", True),
    "a time in words": ("Time: 1.25 acc 3", "Time: 1.25 acc 3", "Time: 1.26 acc 3", True),
    "minutes": ("1.5 min 20 s", "1.5 min 20 s", "1.6 min 21 s", True),
    "a mean before a minimum": ("mean 0.53 min 0.1", "mean 0.53 min 0.1", "mean 0.54 min 0.1", False),
    "a mean before a minimum with a colon": ("0.53 min: 1", "0.53 min: 1", "0.54 min: 1", False),
    "a clock": ("at 12:30:01", "at 12:30:01", "at 12:30:02", True),
    "an address": ("<Net at 0x7f01>", "<Net at 0x7f02>", "<Net at 0x7f03>", True),
    "a graph that no_grad does not build": (
        "tensor(1.5, grad_fn=<MulBackward0>)", "tensor(1.5, grad_fn=<MulBackward0>)", "tensor(1.5)", True,
    ),
    "a copy of the folder": ("saved /tmp/a1/x.pt", "saved /tmp/b22/x.pt", "saved /tmp/zz/x.pt", True),
    "a metric beside a fraction and a time": (
        "[3/40] loss 0.53 acc 55.1 1.2s", "[3/40] loss 0.53 acc 55.1 1.3s", "[3/40] loss 0.54 acc 55.1 1.2s", False,
    ),
    "a metric beside a rate": ("12 it/s loss 0.5", "13 it/s loss 0.5", "12 it/s loss 0.6", False),
    "a metric beside a path": ("/tmp/a1/x.pt 0.5", "/tmp/b22/x.pt 0.5", "/tmp/c/x.pt 0.6", False),
    "a file of another name": ("saved out/a.pt", "saved out/a.pt", "saved out/b.pt", False),
    "a metric": ("acc 0.5", "acc 0.5", "acc 0.25", False),
    "words": ("saved", "saved", "lost", False),
}  # fmt: skip


@pytest.mark.parametrize(("first", "second", "other", "same"), PRINTED.values(), ids=PRINTED.keys())
def test_printed_lines(first: str, second: str, other: str, same: bool) -> None:
    known = reference([replace(RECORD, printed=(first,)), replace(RECORD, printed=(second,))])
    assert (differences(known, replace(RECORD, printed=(other,))) == []) is same


def test_a_word_that_varies_in_one_line_varies_in_all_like_it() -> None:
    one = replace(RECORD, printed=("batch 1 took 0.5", "batch 2 took 0.7"))
    two = replace(RECORD, printed=("batch 1 took 0.5", "batch 2 took 0.6"))
    known = reference([one, two])
    assert differences(known, replace(RECORD, printed=("batch 1 took 0.9", "batch 2 took 0.9"))) == []
    assert differences(known, replace(RECORD, printed=("batch 1 took 0.9", "batch 3 took 0.9"))) != []


def test_lines_that_are_not_even_as_many() -> None:
    known = reference([RECORD, replace(RECORD, printed=())])
    assert differences(known, replace(RECORD, printed=("anything",))) == []


def test_as_many_digits_as_it_takes() -> None:
    assert comparing.distinct(0.5, 0.25) == ("0.5", "0.25")
    assert comparing.distinct(0.69314718, 0.69314719) == ("0.69314718", "0.69314719")
