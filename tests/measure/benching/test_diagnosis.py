"""The sentence about what binds a script."""

from __future__ import annotations

import pytest

from autoaccel.config import known_rules
from autoaccel.edits import Tier
from autoaccel.measure.benching.diagnosis import diagnose
from autoaccel.measure.benching.report import Diagnosis, TimeShare
from autoaccel.measure.observing.timelines import CLASSES
from autoaccel.rewriting.rule import BINDING, Rule


def rule(code: str, name: str, *addresses: str) -> Rule:
    return Rule(code, name, Tier.EXACT, (), addresses=addresses)


STACK = rule("AA104", "stack", "other", "loader")
WORKERS = rule("AA201", "workers", "loader", "transfer")
AHEAD = rule("AA202", "ahead", "transfer", "loader")
LOW = rule("AA301", "low", "compute")
FUSE = rule("AA401", "fuse", "launch", "compute")
RULES = (STACK, WORKERS, AHEAD, LOW, FUSE)


def judged(found: set[str], **shares: float) -> Diagnosis:
    diagnosis = diagnose(shares, RULES, found)
    assert diagnosis is not None
    return diagnosis


def test_one_rule_among_the_changes() -> None:
    diagnosis = judged({"AA201", "AA401"}, loader=0.71, launch=0.06, compute=0.18, optimizer=0.05)
    assert diagnosis.sentence == (
        "The loader binds: 71 % of a step waits for the next batch (compute 18 %, launch 6 %, optimizer 5 %); "
        "AA201 workers addresses it, and is among the changes."
    )
    assert diagnosis.shares[0] == TimeShare("loader", 0.71)
    assert diagnosis.rules == ("AA201", "AA104", "AA202")


def test_what_changes_something_comes_first() -> None:
    diagnosis = judged({"AA104", "AA202"}, loader=1.0)
    assert diagnosis.sentence.endswith("; AA104 stack and AA202 ahead address it, and are among the changes.")
    assert diagnosis.rules == ("AA104", "AA202", "AA201")


def test_a_rule_without_findings_is_said_to_have_none() -> None:
    diagnosis = judged({"AA301"}, launch=0.9, compute=0.1)
    assert diagnosis.sentence.endswith("; AA401 fuse addresses it, but finds nothing to change here.")


def test_no_rule_at_all() -> None:
    diagnosis = judged({"AA301"}, optimizer=0.9, compute=0.1)
    assert diagnosis.sentence == (
        "The optimizer binds: 90 % of a step updates parameters (compute 10 %); no rule here addresses it."
    )
    assert diagnosis.rules == ()


def test_no_rule_is_made_for_the_scripts_own_python() -> None:
    assert judged(set(), other=1.0).sentence.endswith("; no rule here addresses it.")
    assert judged({"AA104"}, other=1.0).sentence.endswith("; AA104 stack addresses it, and is among the changes.")


def test_two_that_are_close_are_both_named() -> None:
    diagnosis = judged({"AA201", "AA301"}, loader=0.38, compute=0.44, launch=0.18)
    assert diagnosis.sentence == (
        "Computing and the loader bind: 44 % of a step computes forwards and backwards and 38 % waits for the next "
        "batch (launch 18 %); AA301 low and AA201 workers address both, and are among the changes."
    )
    assert diagnosis.rules == ("AA301", "AA201", "AA401", "AA104", "AA202")


def test_one_rule_for_both() -> None:
    assert judged({"AA401"}, launch=0.5, compute=0.5).sentence.endswith(
        "; AA401 fuse addresses both, and is among the changes."
    )


@pytest.mark.parametrize(("second", "both"), [(0.44, True), (0.34, False)])
def test_a_margin_decides_whether_two_bind(second: float, both: bool) -> None:
    sentence = judged(set(), loader=0.46, compute=second, other=0.54 - second).sentence
    assert (" and " in sentence.split(":")[0]) == both


def test_nothing_is_said_without_a_profile() -> None:
    assert diagnose({}, RULES, ()) is None


def test_rules_speak_of_what_is_measured() -> None:
    assert BINDING == CLASSES
    with pytest.raises(ValueError, match="AA999 addresses memory: none of loader, "):
        rule("AA999", "odd", "memory")


def test_every_rule_that_makes_scripts_faster_says_what_it_addresses() -> None:
    assert {each.code for each in known_rules() if not each.addresses} == {
        "AA302",
        "AA304",
        "AA502",
        "AA604",
        "AA605",
        "AA801",
        "AA802",
        "AA803",
        "AA804",
        "AA901",
    }
