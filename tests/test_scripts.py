"""Whole scripts, trained before and after: all losses, parameters and printed lines are the same, bit for bit.

On a CPU the runtime makes none of the changes that are not exact, but for autocast where the CPU computes in bfloat16.
The scripts run in processes of their own, under observation as by `verify`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from autoaccel import sources
from autoaccel.analysis import Project
from autoaccel.edits import Tier
from autoaccel.measure.observing.request import Request
from autoaccel.measure.observing.run_record import FINISHED, RunRecord
from autoaccel.rewriting import engine, registry
from tests.measure.forking import REPOSITORY, Forking

SCRIPTS = REPOSITORY / "fixtures" / "scripts"

NAMES = [*sorted(path.stem for path in SCRIPTS.glob("*.py")), "project/main"]
# Datasets that draw random numbers themselves: workers draw others.
DRAWING = frozenset({"project/main"})

# Opt-in rules change what a script computes, and are meant to.
RULES = [rule for rule in registry.rules() if rule.tier is not Tier.OPT_IN]
MODES = {
    "all off": {"AUTOACCEL_DISABLE": "all"},
    "all but what rounds": {"AUTOACCEL_DISABLE": "amp,channels_last,fused"},
}


def script_folder(name: str) -> Path:
    """The folder of a script that consists of several files, or the folder of all others."""
    return (SCRIPTS / name).parent


def files(name: str) -> list[Path]:
    folder = script_folder(name)
    return sorted(folder.glob("*.py")) if folder != SCRIPTS else [SCRIPTS / f"{name}.py"]


@cache
def rewritten(name: str, rule: str = "") -> dict[str, bytes]:
    """The files of a script after all rules, or this one, by file name; files that no rule changes included."""
    rules = [each for each in registry.rules() if each.name == rule] or RULES
    contents = {path: sources.read(path) for path in files(name)}
    # In no repository: others of this one mention their names.
    texts = {Path("/alone", path.name): source.text for path, source in contents.items()}
    project = Project(texts, texts)
    after = {}
    for path, source in contents.items():
        result = engine.rewrite(source.text, Path("/alone", path.name), rules, project=project)
        assert not result.errors
        after[path.name] = source.encode(result.after)
    return after


@dataclass(frozen=True)
class Training:
    """Runs scripts before and after; what the untouched ones did is remembered."""

    forking: Forking
    folder: Path
    known: dict[str, RunRecord] = field(default_factory=dict)

    def before(self, name: str) -> RunRecord:
        if name not in self.known:
            contents = {path.name: path.read_bytes() for path in files(name)}
            self.known[name] = self._run(name, contents, "before", {})
        return self.known[name]

    def after(self, name: str, variables: dict[str, str], rule: str = "") -> RunRecord:
        label = "-".join(["after", *filter(None, [rule]), *variables.values()])
        return self._run(name, rewritten(name, rule), label, variables)

    def _run(self, name: str, contents: dict[str, bytes], label: str, variables: dict[str, str]) -> RunRecord:
        folder = self.folder / name / label
        folder.mkdir(parents=True)
        for file_name, content in contents.items():
            (folder / file_name).write_bytes(content)
        script = folder / f"{Path(name).name}.py"
        return self.forking.run(Request(str(script), root=str(folder)), variables)


def same_training(record: RunRecord) -> dict[str, Any]:
    """What must be equal for two runs to have trained the same."""
    return {
        name: getattr(record, name)
        for name in ("ending", "losses", "steps", "optimizers", "state", "settings", "random", "printed")
    }


@pytest.fixture(scope="module")
def training(forking: Forking, tmp_path_factory: pytest.TempPathFactory) -> Training:
    return Training(forking, tmp_path_factory.mktemp("scripts"))


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", NAMES)
def test_trains_the_same(name: str, mode: str, training: Training) -> None:
    before = training.before(name)
    assert before.ending == FINISHED
    assert len(before.losses) >= 8
    assert before.steps >= 8
    assert before.printed
    after = training.after(name, MODES[mode])
    assert same_training(after) == same_training(before)


@pytest.mark.slow
def test_weights_are_the_same_by_another_cross_entropy(training: Training) -> None:
    """Its value is rounded otherwise, its gradients are not."""
    assert "accel.binary_cross_entropy(" in rewritten("vae", "binary-cross-entropy")["vae.py"].decode()
    before, after = training.before("vae"), training.after("vae", {}, "binary-cross-entropy")
    assert (after.state, after.optimizers, after.random) == (before.state, before.optimizers, before.random)
    assert [each.value for each in after.losses] == pytest.approx([each.value for each in before.losses], rel=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mnist", "nested_batches", "table", "transfer_learning", "vae"])
def test_trains_the_same_with_its_step_lifted(name: str, training: Training) -> None:
    assert rewritten(name, "captured-step") != rewritten(name, "as-tensor")
    after = training.after(name, {}, "captured-step")
    assert same_training(after) == same_training(training.before(name))


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_trains_in_lower_precision(name: str, training: Training) -> None:
    before = training.before(name)
    after = training.after(name, {"AUTOACCEL_AMP_DTYPE": "bfloat16"})
    assert after.steps == before.steps
    losses = [[loss.value for loss in record.losses] for record in (before, after)]
    assert losses[1] == pytest.approx(losses[0], rel=0.1, abs=0.02)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mnist", "dcgan", "trainer", "seq2seq", "semi_supervised", "project/main"])
def test_trains_the_same_with_workers(name: str, training: Training) -> None:
    before = training.before(name)
    # with enough steps the fused kernel is adopted where this machine is busy, and rounds otherwise
    after = training.after(name, {"AUTOACCEL_DISABLE": "amp,fused", "AUTOACCEL_NUM_WORKERS": "1"})
    if name in DRAWING:
        assert len(after.losses) == len(before.losses)
        assert after.random != before.random, "the augmentation drew in the training process"
    else:
        assert same_training(after) == same_training(before)


@pytest.mark.parametrize("name", NAMES)
def test_every_script_is_rewritten(name: str) -> None:
    before = {path.name: path.read_bytes() for path in files(name)}
    after = rewritten(name)
    assert any(b"accel." in content for content in after.values())
    for file_name, content in after.items():
        assert content.startswith(b"\xef\xbb\xbf") == before[file_name].startswith(b"\xef\xbb\xbf")
        only_crlf = b"\n" not in before[file_name].replace(b"\r\n", b"")
        assert (b"\n" not in content.replace(b"\r\n", b"")) == only_crlf
        assert (b"\t" in content) == (b"\t" in before[file_name])


@pytest.mark.parametrize("name", NAMES)
def test_scripts_stay_small(name: str) -> None:
    assert sum(len(path.read_bytes().splitlines()) for path in files(name)) < 150
