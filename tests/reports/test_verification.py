"""What `verify` says, line by line."""

from __future__ import annotations

import json
from dataclasses import replace

import click
import pytest

from autoaccel.measure.observing.run_record import Decision
from autoaccel.measure.verifying.report import Numerics, Outcome, RunSummary, Verdict, Verification
from autoaccel.reports import verification
from autoaccel.rewriting.record import Range


def outcome(
    line: int, code: str, verdict: Verdict, reason: str, tier: str = "exact", path: str = "train.py"
) -> Outcome:
    name = {"AA103": "non-blocking", "AA301": "autocast", "AA201": "loader-workers"}[code]
    return Outcome(path, Range(line, 1, line, 9), code, name, tier, "what the rule says", verdict, reason)


REPORT = Verification(
    script="train.py",
    outcomes=(
        outcome(30, "AA201", Verdict.PASSED, "bit for bit"),
        outcome(30, "AA201", Verdict.PASSED, "other random numbers", "equivalent"),
        outcome(43, "AA103", Verdict.PASSED, "bit for bit"),
        outcome(44, "AA103", Verdict.NOT_REACHED, "line 44 was not reached"),
        outcome(47, "AA301", Verdict.PASSED, "within the spread", "numerics"),
    ),
    steps=40,
    complete=False,
    repeats=True,
    device="cpu",
    torch="2.13.0",
    python="3.11.7",
    seconds=31.4,
    trials=(RunSummary("original", 40, 3.2, ""), RunSummary("rewritten, rehearsed", 40, 4.5, "the same")),
    numerics=Numerics(3, 0.51234, 0.513, 0.02, "in bfloat16"),
    decisions=(Decision("prefetch", "0", "copies to cpu cannot overlap"),),
)
ON_A_CPU = (
    "Note: on a CPU copies do not overlap and nothing is compiled to other kernels; what leads to them was rehearsed.\n"
)
BASIS = (
    "Numbers in bfloat16: loss 0.513 instead of 0.51234 at the end, over 3 seeds, which spread by 0.02.\n"
    "40 steps; cpu, torch 2.13.0, Python 3.11.7; 2 runs in 31 s.\n" + ON_A_CPU
)


def told(report: Verification, **options: bool) -> str:
    return click.unstyle(verification.text(report, **options))


def failing(report: Verification) -> Verification:
    made = outcome(45, "AA103", Verdict.FAILED, "loss of step 3: 0.7 instead of 0.6")
    made = replace(made, differences=("loss of step 3: 0.7 instead of 0.6", "parameter fc.weight"))
    return replace(report, outcomes=(*report.outcomes, made))


def test_a_line_for_each_rule_and_the_verdict() -> None:
    assert told(REPORT) == (
        "AA103 non-blocking    1 change   exact              same         bit for bit\n"
        "AA103 non-blocking    1 change   exact              not reached  train.py:44: line 44 was not reached\n"
        "AA201 loader-workers  2 changes  exact, equivalent  same         other random numbers\n"
        "AA301 autocast        1 change   numerics           same         within the spread\n"
        "\n"
        "train.py trains the same with 4 changes of 5; 1 change not reached: not verified.\n" + BASIS
    )


def test_of_several_reasons_none_that_is_weaker_is_hidden() -> None:
    rounds = outcome(48, "AA301", Verdict.PASSED, "the same but for rounding", "numerics")
    same = outcome(49, "AA301", Verdict.PASSED, "bit for bit", "numerics")
    text = told(replace(REPORT, outcomes=(*REPORT.outcomes, rounds, same)))
    assert "AA301 autocast        3 changes  numerics           same         within the spread; the same but" in text


def test_what_differs_has_a_line_for_itself() -> None:
    text = told(failing(REPORT))
    assert (
        "AA103 non-blocking    1 change   exact              differs      "
        "train.py:45: loss of step 3: 0.7 instead of 0.6\n" in text
    )
    assert "\ntrain.py does not train the same: 1 change of 6 makes a difference.\n" in text
    twice = failing(failing(REPORT))
    assert "2 changes of 7 make a difference." in told(twice)
    assert told(twice).count("differs") == 2


def test_quiet() -> None:
    assert told(REPORT, quiet=True) == (
        "train.py trains the same with 4 changes of 5; 1 change not reached: not verified.\n"
    )
    assert told(failing(REPORT), quiet=True) == (
        "train.py:45: AA103 non-blocking: loss of step 3: 0.7 instead of 0.6\n\n"
        "train.py does not train the same: 1 change of 6 makes a difference.\n"
    )


def test_verbose() -> None:
    text = told(failing(REPORT), verbose=True)
    assert "train.py:43: AA103 non-blocking: same: bit for bit [exact]\n" in text
    assert "    parameter fc.weight\n" in text
    assert "run  1  original                40 steps    3.2 s\n" in text
    assert "run  2  rewritten, rehearsed    40 steps    4.5 s  the same\n" in text
    assert "runtime: prefetch: 0 (copies to cpu cannot overlap)\n" in text


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"outcomes": ()}, "train.py: nothing would be rewritten, so there is nothing to verify.\n"),
        ({"outcomes": REPORT.outcomes[3:4]}, "train.py: no change was reached, so nothing was verified.\n"),
        ({"outcomes": REPORT.outcomes[:1]}, "train.py trains the same with 1 change.\n"),
        ({"complete": True}, "40 steps, to the end of the script; cpu"),
        ({"steps_per_pass": 938}, "\n40 of the 938 steps of one pass; cpu"),
        ({"steps_per_pass": 20}, "\n40 steps; cpu"),
        ({"notes": ("the weather is fine",)}, "Note: the weather is fine.\n"),
        (
            {"outcomes": (replace(REPORT.outcomes[0], never_ran=("a.py:3", "b.py:7-9")),)},
            "Note: what these changed lines lead to never ran: a.py:3 and b.py:7-9.\n",
        ),
        ({"repeats": False}, "Note: the original does not repeat itself under one seed, so it was compared within its"),
        ({"script": "a\nb.py"}, "a\\nb.py trains the same"),
    ],
)
def test_what_else_is_said(changed: dict[str, object], said: str) -> None:
    assert said in told(replace(REPORT, **changed))  # type: ignore[arg-type]


def test_on_an_accelerator_there_is_no_such_note() -> None:
    assert "on a CPU" not in told(replace(REPORT, device="cuda"))


def test_json() -> None:
    content = json.loads(verification.to_json(failing(REPORT)))
    assert content["status"] == "different"
    assert content["numerics"] == {
        "original": 0.51234, "rewritten": 0.513, "seeds": 3, "spread": 0.02, "what": "in bfloat16",
    }  # fmt: skip
    assert content["outcomes"][-1]["differences"] == ["loss of step 3: 0.7 instead of 0.6", "parameter fc.weight"]
    assert [each["verdict"] for each in content["outcomes"]] == [
        "passed", "passed", "passed", "not reached", "passed", "failed",
    ]  # fmt: skip
    assert json.loads(verification.to_json(REPORT))["status"] == "same"
    nothing = replace(REPORT, outcomes=REPORT.outcomes[3:4])
    assert json.loads(verification.to_json(nothing))["status"] == "unknown"


def test_json_when_nothing_can_be_said() -> None:
    content = json.loads(verification.failure_to_json("train.py", "train.py:3: it fails"))
    assert (content["status"], content["reason"]) == ("unknown", "train.py:3: it fails")


def test_large_spreads_have_no_exponent() -> None:
    numerics = Numerics(3, 169.38, 157.56, 104.2, "in bfloat16")
    assert "which spread by 104.\n" in verification.text(replace(REPORT, numerics=numerics))


# -- by several processes

SEVERAL = replace(REPORT, outcomes=REPORT.outcomes[:1], numerics=None, ranks=(2, 3), complete=True)


def test_by_several_processes() -> None:
    assert told(SEVERAL) == (
        "AA201 loader-workers  1 change  exact  same  bit for bit\n\n"
        "train.py trains the same by 1, 2 and 3 processes, with 1 change.\n"
        "40 steps, to the end of the script; cpu, torch 2.13.0, Python 3.11.7; 2 runs in 31 s.\n"
        "Note: processes ran on the CPU over gloo; devices, and several machines, were not tried.\n"
    )


def test_what_differs_with_nobody_to_blame() -> None:
    report = replace(SEVERAL, differences=("train.py:9: log.txt is written by ranks 0 and 1, by 2 processes",))
    assert not report.same and not report.says_nothing
    assert told(report, quiet=True) == (
        "train.py:9: log.txt is written by ranks 0 and 1, by 2 processes\n\n"
        "train.py does not train the same by 1, 2 and 3 processes, and no change is to blame.\n"
    )
    assert json.loads(verification.to_json(report))["status"] == "different"
    assert "1 change of 2 makes a difference" in told(failing(report))
