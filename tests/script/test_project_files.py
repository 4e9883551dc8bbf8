"""Which files belong to a script's project, and that each of them is one script to all."""

from __future__ import annotations

from pathlib import Path

import pytest

from autoaccel.script import Project, load
from autoaccel.script.models import trained_models

TRAINER = """\
class Trainer:
    def __init__(self, model, optimizer):
        self.model, self.optimizer = model, optimizer

    def run(self, loader):
        model, optimizer = self.model, self.optimizer
        for x, y in loader:
            model(x).sum().backward()
            optimizer.step()
"""
RUN = """\
import torch
from shop.training import Trainer

model = torch.nn.Sequential(torch.nn.Linear(2, 2))
Trainer(model, torch.optim.SGD(model.parameters(), lr=0.1)).run([])
"""


def project(root: Path, home: str = "shop", marker: str | None = "setup.py") -> tuple[Path, Path]:
    """A distribution with a package and a script beside it."""
    package, scripts = root / home, root / "projects" / "first"
    for folder in (package, scripts):
        folder.mkdir(parents=True)
    if marker is not None:
        (root / marker).write_text("")
    (package / "__init__.py").write_text("")
    (package / "training.py").write_text(TRAINER)
    (scripts / "run.py").write_text(RUN)
    return package / "training.py", scripts / "run.py"


def compiled(files: tuple[Path, ...]) -> list[tuple[str, str]]:
    """File and name of every model that is trained, all files read in one project."""
    shared = Project(files)
    scripts = [load(each.read_text(), each, shared) for each in files]
    return [
        (script.path.name, script.source(each.target))
        for script in scripts
        for each in trained_models(script)
        if script.path
    ]


@pytest.mark.parametrize(
    ("home", "marker", "found"),
    [
        ("shop", "setup.py", True),
        ("shop", "pyproject.toml", True),
        ("src/shop", "pyproject.toml", True),
        ("shop", None, False),
    ],
)
def test_packages_of_the_distribution_are_found(tmp_path: Path, home: str, marker: str | None, found: bool) -> None:
    _, run = project(tmp_path, home, marker)
    assert bool(compiled((run,))) == found


def test_the_order_in_which_files_are_read_does_not_matter(tmp_path: Path) -> None:
    training, run = project(tmp_path)
    for files in ((run, training), (training, run)):
        assert compiled(files) == [("run.py", "model")]


def test_a_file_is_one_script_in_its_analysis(tmp_path: Path) -> None:
    training, run = project(tmp_path)
    script = load(RUN, run, Project((training, run)))
    assert script.project.script(run) is script
    (_, trainer) = script.project.related(script)
    assert trainer.project is script.project
