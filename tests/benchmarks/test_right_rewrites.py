"""Which right rewrites are verified, and how their verdicts are told."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.right_rewrites.cases import PARTS, Case, UnpreparedError, cases
from benchmarks.right_rewrites.reporting import page
from benchmarks.right_rewrites.verifying import Verdict, keep, known, verified

SAME = Verdict(
    "a/train.py | all rules", "same", 20.0, counts=(("passed", 3),), steps=40, runs=7, reasons=("bit for bit",)
)


def test_there_are_enough_cases() -> None:
    every = cases()
    assert len({each.key for each in every}) == len(every)
    assert len(every) >= 100
    public = [each.public for each in every if each.public is not None]
    assert len({run.path_in_tree for run in public}) >= 40
    assert len({run.repository for run in public}) >= 6


def test_cases_are_chosen_by_part_of_their_key() -> None:
    chosen = cases(("mnist.py | exact", "vae.py | AA301"))
    assert [each.key for each in chosen] == ["fixtures/scripts/mnist.py | exact", "fixtures/scripts/vae.py | AA301"]


def test_parts_are_the_same_on_the_command_line_and_in_settings() -> None:
    assert PARTS["exact"].options == ["--tier", "exact"]
    assert PARTS["exact"].settings.tier == "exact"
    part = PARTS["AA103, AA201, AA202"]
    assert part.options[2:] == ["--select", "AA103", "--select", "AA201", "--select", "AA202"]
    assert part.settings.selections[0].select == ("AA103", "AA201", "AA202")


def test_a_script_is_prepared_in_a_folder_of_its_own() -> None:
    (project,) = (each for each in cases(("project/main.py | all rules",)))
    with project.prepared(None) as prepared:
        assert sorted(path.name for path in prepared.folder.iterdir()) == [
            "data.py",
            "engine.py",
            "main.py",
            "models.py",
            "setup.cfg",
        ]
        assert prepared.script == "main.py"
    assert not prepared.folder.exists()


def test_public_scripts_need_their_repositories() -> None:
    public = next(each for each in cases() if each.public is not None)
    with pytest.raises(UnpreparedError), public.prepared(None):
        pass
    assert verified(public, None).status == "unprepared"


def test_verdicts_are_kept(tmp_path: Path) -> None:
    state = tmp_path / "state.jsonl"
    keep(replace(SAME, status="unknown", said="it fails"), state)
    keep(SAME, state)
    assert known(state, forked=False) == {SAME.key: SAME}
    assert known(state, forked=True) == {}


def test_only_what_was_verified_counts() -> None:
    alarm = replace(SAME, key="b/train.py | all rules", status="different", said="AA301 line 3: loss", seconds=70.0)
    nothing = replace(SAME, key="c/train.py | exact", status="nothing", counts=(), reasons=())
    unreached = replace(SAME, key="d/train.py | exact", counts=(("not reached", 2),), reasons=())
    assert [each.counted for each in (SAME, alarm, nothing, unreached)] == [True, True, False, False]
    forks = [replace(each, forked=True, seconds=2.0) for each in (SAME, alarm, nothing, unreached)]
    said = page(forks, {SAME.key: SAME, alarm.key: alarm})
    assert "**2 verifications of 2 scripts: 1 false alarms.**" in said
    assert "median 45 s, longest 70 s" in said
    assert "- c/train.py, exact: no rule has anything to change" in said
    assert "- d/train.py, exact: no change was reached" in said
    assert "**differs**: AA301 line 3: loss" in said


def test_a_case_names_its_script_and_its_rules() -> None:
    assert Case("a/train.py", "exact").key == "a/train.py | exact"
