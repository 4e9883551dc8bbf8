"""Whole scripts, trained before and after: all losses, parameters and printed lines are the same, bit for bit.

On a CPU the runtime makes none of the changes that are not exact, but for autocast where the CPU computes in bfloat16.
The scripts run in processes of their own, under the observer of `benchmarks/public_scripts`, which records each
backward and each step.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from autoaccel import sources
from autoaccel.rewriting import engine, registry
from autoaccel.script import Project

REPOSITORY = Path(__file__).resolve().parent.parent
SCRIPTS = REPOSITORY / "fixtures" / "scripts"
OBSERVER = REPOSITORY / "benchmarks" / "public_scripts" / "observe.py"
STANDINS = REPOSITORY / "tests" / "standins"

NAMES = [*sorted(path.stem for path in SCRIPTS.glob("*.py")), "project/main"]
# Datasets that draw random numbers themselves: workers draw others.
DRAWING = frozenset({"project/main"})

MODES = {
    "all off": {"AUTOACCEL_DISABLE": "all"},
    "only what is exact": {"AUTOACCEL_DISABLE": "amp,compile,workers"},
    "all but autocast": {"AUTOACCEL_DISABLE": "amp"},
}


@dataclass(frozen=True)
class Run:
    """What one run did: `record` is what the observer wrote down."""

    record: dict[str, Any]
    output: str
    errors: str

    def same_training(self) -> dict[str, Any]:
        return {key: value for key, value in self.record.items() if key != "seconds"}


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


def observed(folder: Path, script: Path, variables: dict[str, str]) -> Run:
    """Run a script that lies in `folder`."""
    record = folder / "record.json"
    options = {"stop_after": 10_000, "count": "step", "shims": []}
    inherited = {key: value for key, value in os.environ.items() if not key.startswith("AUTOACCEL_")}
    process = subprocess.run(
        [sys.executable, str(OBSERVER), str(record), json.dumps(options), str(script)],
        cwd=folder,
        env={
            **inherited,
            "PYTHONPATH": os.pathsep.join([str(STANDINS), str(REPOSITORY)]),
            "CUDA_VISIBLE_DEVICES": "",
            "OMP_NUM_THREADS": "1",
            "STANDIN_SAMPLES": "256",
            "STANDIN_TEST_SAMPLES": "100",
            **variables,
        },
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    return Run(json.loads(record.read_text(encoding="utf-8")), process.stdout, process.stderr)


@cache
def reference(name: str, folder: Path) -> Run:
    """The untouched script."""
    folder.mkdir()
    for path in files(name):
        shutil.copyfile(path, folder / path.name)
    return observed(folder, folder / f"{Path(name).name}.py", {})


@pytest.fixture(scope="module")
def references(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("references")


def trained(name: str, references: Path) -> Run:
    return reference(name, references / name.replace("/", "-"))


def run_rewritten(name: str, folder: Path, variables: dict[str, str]) -> Run:
    for file_name, content in rewritten(name).items():
        (folder / file_name).write_bytes(content)
    return observed(folder, folder / f"{Path(name).name}.py", variables)


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", NAMES)
def test_trains_the_same(name: str, mode: str, references: Path, tmp_path: Path) -> None:
    before = trained(name, references)
    assert before.record["status"] == "finished"
    assert len(before.record["losses"]) >= 8
    assert before.record["steps"] >= 8
    after = run_rewritten(name, tmp_path, MODES[mode])
    assert after.same_training() == before.same_training()
    assert after.output == before.output


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_trains_in_lower_precision(name: str, references: Path, tmp_path: Path) -> None:
    before = trained(name, references).record
    after = run_rewritten(name, tmp_path, {"AUTOACCEL_AMP_DTYPE": "bfloat16"}).record
    assert after["steps"] == before["steps"]
    losses = [[float.fromhex(loss) for loss in record["losses"]] for record in (before, after)]
    assert losses[1] == pytest.approx(losses[0], rel=0.1, abs=0.02)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mnist", "dcgan", "trainer", "seq2seq", "project/main"])
def test_trains_the_same_with_workers(name: str, references: Path, tmp_path: Path) -> None:
    before = trained(name, references)
    after = run_rewritten(name, tmp_path, {"AUTOACCEL_DISABLE": "amp", "AUTOACCEL_NUM_WORKERS": "1"})
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
