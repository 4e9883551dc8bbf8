"""Faults that are planted, and what `verify` says of a few of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from autoaccel import sources
from autoaccel.analysis import Project
from autoaccel.edits import Code, RemoveStatement, Replace
from autoaccel.measure.verifying.originals import Limits
from autoaccel.rewriting import engine, registry
from autoaccel.rewriting.engine import Analysis
from benchmarks.planted_faults import judging
from benchmarks.planted_faults.__main__ import shown
from benchmarks.planted_faults.by_hand import STYLE
from benchmarks.planted_faults.catalogue import Fault, faults
from benchmarks.planted_faults.introduction import HYPOTHETICAL
from benchmarks.planted_faults.judging import Verdict
from benchmarks.planted_faults.planting import Planted, Scene, UnplantableError, alone, made_up, plant, without
from benchmarks.planted_faults.running import judged
from tests.measure.forking import Forking, ForkingRanks

FAULTS = {each.name: each for each in faults()}
# Six steps show what these do.
LIMITS = Limits(steps=6, at_least=0.0)
KILLED = Verdict("some/fault", "AA101 a.py:3", "wrong", "exact", "difference", ("AA101 a.py:3",), "loss of step 1", 2.0)


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_every_fault_can_be_planted(fault: Fault) -> None:
    assert shown(fault), "the fault changes nothing"


def test_the_catalogue_holds_what_a_comparison_of_losses_lets_pass() -> None:
    edits = "no-clipping no-weight-decay no-scheduler-step last-batch-dropped evaluation-mode no-shuffling"
    assert all(f"introduction/{name}" in FAULTS for name in edits.split())
    assert sum(name.startswith("introduction/") and "said-to-be" not in name for name in FAULTS) >= 8
    assert len(FAULTS) >= 35
    assert sum(each.ranks > 1 for each in FAULTS.values()) >= 40
    assert sum(name.startswith("by-hand/") for name in FAULTS) >= 25


@pytest.mark.slow
@pytest.mark.parametrize("name", ["create/ones-for-zeros", "autocast/one-backward-unscaled"])
def test_faults_are_caught_and_named(name: str, forking: Forking) -> None:
    verdict = judged(FAULTS[name], forking.run, LIMITS)
    assert verdict.caught, verdict.status
    assert verdict.named == (verdict.planted,)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["by-hand/step-by-itself", "by-hand/saved-before-the-schedule"])
def test_slips_of_the_pen_are_caught_and_named(name: str, forking: Forking) -> None:
    verdict = judged(FAULTS[name], forking.run, Limits(at_least=0.0))
    assert verdict.killed, verdict


@pytest.mark.parametrize("script", STYLE)
def test_what_is_right_beside_a_slip_is_there(script: str) -> None:
    text = next(each for each in FAULTS.values() if each.script == script).path.read_text(encoding="utf-8")
    assert all(text.count(old) == 1 and new not in text for old, new in STYLE[script])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ranks/schedule-of-all-ranks", "ranks/keys-of-a-wrapper", "ranks/file-of-each-rank"])
def test_faults_of_several_ranks_are_caught_and_named(name: str, forking: Forking, forking_ranks: ForkingRanks) -> None:
    verdict = judged(FAULTS[name], forking.run, None, forking_ranks.run)
    assert verdict.killed, verdict


@pytest.mark.slow
def test_the_right_rewrite_of_the_same_script_passes(forking: Forking) -> None:
    def nothing(scene: Scene) -> Planted:
        finding = scene.finding("AA101", "torch.zeros(x.size(0)")
        return Planted(replace(finding), finding)

    verdict = judged(replace(FAULTS["create/ones-for-zeros"], plant=nothing), forking.run, LIMITS)
    assert not verdict.caught
    assert verdict.status.startswith("passed: ")


# -- planting


def scene(name: str) -> tuple[Analysis, Scene]:
    path, text = alone(FAULTS[name].path), sources.read(FAULTS[name].path).text
    rules = [rule for rule in registry.rules() if not rule.opt_in]
    analysis = engine.analyse(text, path, rules, project=Project({path: text}, {path: text}))
    return analysis, Scene(analysis)


def test_what_needed_the_right_finding_needs_the_wrong_one() -> None:
    analysis, _ = scene("workers/shuffle-lost")
    altered, wrong = plant(analysis, FAULTS["workers/shuffle-lost"].plant)
    assert len(altered.findings) == len(analysis.findings)
    assert wrong in altered.findings
    assert wrong not in analysis.findings
    kept = [each for each in altered.findings if wrong in each.needs]
    assert kept, "persistent workers need the workers"
    assert "shuffle=False" in engine.apply(altered, altered.findings)
    assert "shuffle=False" not in engine.apply(altered, [each for each in altered.findings if each is not wrong])


def test_a_fault_that_contradicts_what_was_found_is_refused() -> None:
    def clash(scene: Scene) -> Planted:
        step = scene.statement("optimizer.step()")
        return made_up(HYPOTHETICAL, step, "it steps", RemoveStatement(step))

    analysis, _ = scene("autocast/no-update")
    with pytest.raises(UnplantableError, match="conflicts with AA990"):
        plant(analysis, clash)


def test_places_that_are_not_there_are_refused() -> None:
    _, here = scene("autocast/no-update")
    finding = here.finding("AA301")
    with pytest.raises(UnplantableError, match="no edit with 'unscale_'"):
        without(here, finding, "unscale_")
    with pytest.raises(UnplantableError, match="nothing reads 'no_such_name'"):
        here.expression("no_such_name")
    with pytest.raises(UnplantableError, match="no finding of AA501 at 'trainloader = '"):
        here.finding("AA501", "trainloader = ")
    step = here.call("optimizer.step()")
    assert Replace(step, Code("None")).node is step


# -- judging


@pytest.mark.parametrize(
    ("changed", "killed"),
    [
        ({}, True),
        ({"named": ()}, False),
        ({"named": ("AA101 a.py:4",)}, False),
        ({"named": ("AA101 a.py:3", "AA301 a.py:9")}, False),
        ({"status": "passed: the same, bit for bit", "named": ()}, False),
    ],
)
def test_a_fault_is_killed_when_it_alone_is_blamed(changed: dict[str, object], killed: bool) -> None:
    assert replace(KILLED, **changed).killed is killed  # type: ignore[arg-type]


def test_the_last_verdict_counts(tmp_path: Path) -> None:
    state = tmp_path / "state.jsonl"
    assert judging.known(state) == {}
    judging.keep(replace(KILLED, status="same", named=()), state)
    judging.keep(KILLED, state)
    judging.keep(replace(KILLED, fault="another", status="same", named=(), unseen="it needs a device"), state)
    verdicts = judging.known(state)
    assert verdicts["some/fault"] == KILLED
    assert judging.score(verdicts) == (1, 2)
    page = judging.page(verdicts)
    assert "**Mutation score: 1 of 2 (50%).**" in page
    assert "- `another`: it needs a device" in page
