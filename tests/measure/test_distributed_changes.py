"""What `distribute` changes, edit by edit, and calls of the runtime that are taken back."""

from __future__ import annotations

from pathlib import Path

import pytest

from autoaccel.measure import distributed_changes
from autoaccel.measure.changes import Changes
from autoaccel.rewriting import engine, registry
from benchmarks.planted_faults.running import distributing

FIXTURES = Path(__file__).parents[2] / "fixtures" / "distribute"
RULES = tuple(rule for rule in registry.rules() if rule.command)


def changes_of(text: str, folder: Path) -> tuple[Changes, Path]:
    path = folder.resolve() / "train.py"
    path.write_text(text, encoding="utf-8")
    return distributed_changes.find([path], distributing(path.parent)), path


@pytest.mark.parametrize("name", ["plain", "two_models", "trainer_class", "downloads_and_directories", "writes_files"])
def test_all_edits_together_are_what_is_written(name: str, tmp_path: Path) -> None:
    text = (FIXTURES / f"{name}.in.py").read_text(encoding="utf-8")
    changes, path = changes_of(text, tmp_path)
    assert len(changes) > 2
    assert changes.texts(changes.all)[str(path)] == engine.rewrite(text, path, RULES).after
    assert changes.texts(()) == {}
    for each in changes:  # whatever is left out, it is a program
        compile(changes.texts([other for other in changes if other is not each])[str(path)], str(path), "exec")


def test_each_edit_is_known_by_its_line_and_its_code(tmp_path: Path) -> None:
    changes, _ = changes_of((FIXTURES / "plain.in.py").read_text(encoding="utf-8"), tmp_path)
    assert [(each.record.line, each.record.message) for each in changes] == [
        (6, '`accel.device(torch.device("cuda" if torch.cuda.is_available() else "cpu"))`'),
        (11, "`accel.distribute(model)`"),
        (28, "`accel.save`"),
    ]
    assert [distributed_changes.writes_files(each) for each in changes] == [False, False, True]


DISTRIBUTED = """
import os, torch
from autoaccel import runtime as accel

device = accel.device(torch.device("cpu"))
model = accel.distribute(torch.nn.Linear(3, 1))
with accel.first():
    os.makedirs("out", exist_ok=True)
accel.first(print)("loaded")
if accel.agreed(True):
    accel.save(model.state_dict(), accel.path("out/net.pt"))
"""

PLAIN = """
import os, torch
from autoaccel import runtime as accel

device = torch.device("cpu")
model = torch.nn.Linear(3, 1)
with __import__("contextlib").nullcontext():
    os.makedirs("out", exist_ok=True)
print("loaded")
if True:
    __import__("torch").save(model.state_dict(), "out/net.pt")
"""


def test_calls_of_the_runtime_are_taken_back(tmp_path: Path) -> None:
    changes, path = changes_of(DISTRIBUTED, tmp_path)
    assert changes.texts(changes.all) == {}
    assert changes.texts(())[str(path)] == PLAIN
    kept = [each for each in changes if each.record.message.startswith("`accel.distribute")]
    assert [each.record.line for each in kept] == [6]
    assert changes.texts(kept)[str(path)].count("accel.") == 1
    assert sum(map(distributed_changes.writes_files, changes)) == 4


@pytest.mark.parametrize(
    ("fixture", "code"),
    [
        ("distribute/plain", "AA801"),
        ("distribute/writes_files", "AA801"),
        ("distribute-replicas/wrapped_if_several", "AA802"),
        ("distribute-sharded/plain", "AA804"),
        ("distribute-sharded/two_models", "AA804"),
    ],
)
def test_calls_are_known_as_those_of_the_rule_that_writes_them(fixture: str, code: str, tmp_path: Path) -> None:
    changes, _ = changes_of((FIXTURES.parent / f"{fixture}.out.py").read_text(encoding="utf-8"), tmp_path)
    assert len(changes) > 1
    assert {each.record.code for each in changes} == {code}


def test_what_is_neither_is_left_alone(tmp_path: Path) -> None:
    changes, _ = changes_of("import torch\nmodel = torch.nn.Linear(3, 1)\n", tmp_path)
    assert len(changes) == 0
