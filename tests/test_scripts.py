"""Whole scripts, trained before and after: all losses, parameters and printed lines are the same, bit for bit.

On a CPU the runtime makes none of the changes that are not exact, but for autocast where the CPU computes in bfloat16.
The scripts run in processes of their own, under the observer of `benchmarks/public_scripts`, which records each
backward and each step.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from autoaccel import sources
from autoaccel.rewriting import engine, registry
from autoaccel.script import Project
from tests.observer import REPOSITORY, Observer, Run

SCRIPTS = REPOSITORY / "fixtures" / "scripts"

NAMES = [*sorted(path.stem for path in SCRIPTS.glob("*.py")), "project/main"]
# Datasets that draw random numbers themselves: workers draw others.
DRAWING = frozenset({"project/main"})

MODES = {
    "all off": {"AUTOACCEL_DISABLE": "all"},
    "only what is exact": {"AUTOACCEL_DISABLE": "amp,compile,workers"},
    "all but autocast": {"AUTOACCEL_DISABLE": "amp"},
}


def script_folder(name: str) -> Path:
    """The folder of a script that consists of several files, or the folder of all others."""
    return (SCRIPTS / name).parent


def files(name: str) -> list[Path]:
    folder = script_folder(name)
    return sorted(folder.glob("*.py")) if folder != SCRIPTS else [SCRIPTS / f"{name}.py"]


def rewritten(name: str) -> dict[str, bytes]:
    """The files of a script after all rules, by file name; files that no rule changes included."""
    contents = {path: sources.read(path) for path in files(name)}
    texts = {path: source.text for path, source in contents.items()}
    project = Project(texts, texts)
    after = {}
    for path, source in contents.items():
        result = engine.rewrite(source.text, path, registry.rules(), project=project)
        assert not result.errors
        after[path.name] = source.encode(result.after)
    return after


@dataclass(frozen=True)
class Training:
    """Runs scripts before and after; what the untouched ones did is remembered."""

    observer: Observer
    folder: Path
    known: dict[str, Run] = field(default_factory=dict)

    def before(self, name: str) -> Run:
        if name not in self.known:
            contents = {path.name: path.read_bytes() for path in files(name)}
            self.known[name] = self._run(name, contents, "before", {})
        return self.known[name]

    def after(self, name: str, variables: dict[str, str]) -> Run:
        return self._run(name, rewritten(name), "after-" + "-".join(variables.values()), variables)

    def _run(self, name: str, contents: dict[str, bytes], label: str, variables: dict[str, str]) -> Run:
        folder = self.folder / name / label
        folder.mkdir(parents=True)
        for file_name, content in contents.items():
            (folder / file_name).write_bytes(content)
        return self.observer.run(folder / f"{Path(name).name}.py", variables)


@pytest.fixture(scope="module")
def training(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Training]:
    with Observer() as observer:
        yield Training(observer, tmp_path_factory.mktemp("scripts"))


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", NAMES)
def test_trains_the_same(name: str, mode: str, training: Training) -> None:
    before = training.before(name)
    assert before.record["status"] == "finished"
    assert len(before.record["losses"]) >= 8
    assert before.record["steps"] >= 8
    after = training.after(name, MODES[mode])
    assert after.same_training() == before.same_training()
    assert after.output == before.output


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_trains_in_lower_precision(name: str, training: Training) -> None:
    before = training.before(name).record
    after = training.after(name, {"AUTOACCEL_AMP_DTYPE": "bfloat16"}).record
    assert after["steps"] == before["steps"]
    losses = [[float.fromhex(loss) for loss in record["losses"]] for record in (before, after)]
    assert losses[1] == pytest.approx(losses[0], rel=0.1, abs=0.02)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mnist", "dcgan", "trainer", "seq2seq", "project/main"])
def test_trains_the_same_with_workers(name: str, training: Training) -> None:
    before = training.before(name)
    after = training.after(name, {"AUTOACCEL_DISABLE": "amp", "AUTOACCEL_NUM_WORKERS": "1"})
    if name in DRAWING:
        assert len(after.record["losses"]) == len(before.record["losses"])
        assert after.record["random"] != before.record["random"], "the augmentation drew in the training process"
    else:
        assert after.same_training() == before.same_training()


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
