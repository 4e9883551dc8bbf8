"""Which files belong to a script's project, and that each of them is one script to all."""

from __future__ import annotations

import ast
import gc
import itertools
from pathlib import Path

import pytest

from autoaccel.analysis import Kind, Project, load
from autoaccel.analysis.classes import derived_classes
from autoaccel.analysis.files import Files
from autoaccel.rewriting import engine, registry
from autoaccel_codemods.compile.trained_models import trained_models

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
        ("shop", "setup.cfg", True),
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
    _, *others = script.project.related(script)
    assert {each.path: each.project for each in others} == {
        training: script.project,
        training.parent / "__init__.py": script.project,
    }


def test_a_library_sees_itself_as_everybody_does(tmp_path: Path) -> None:
    package = tmp_path / "torch" / "nn"
    package.mkdir(parents=True)
    for folder in (package, package.parent):
        (folder / "__init__.py").write_text("def zeros(n):\n    return 'text'\nclass Linear:\n    pass\n")
    text = "import torch\nfrom . import Linear\nfrom .. import zeros\ntorch.zeros(1)\nLinear(1, 1)\nzeros(1)\n"
    script = load(text, package / "extra.py")
    assert [script.kind(call) for call in script.find(ast.Call)] == [Kind.TENSOR, Kind.MODULE, Kind.TENSOR]
    assert script.project.consulted.texts == set()


def test_installed_packages_are_libraries_to_one_another(tmp_path: Path) -> None:
    home = tmp_path / "site-packages"
    for name in ("first", "second"):
        (home / name).mkdir(parents=True)
        (home / name / "__init__.py").write_text("")
        (home / name / "made.py").write_text("import torch\nnet = torch.nn.Linear(1, 1)\n")
    for name, kind in (("first", Kind.MODULE), ("second", Kind.EXTERNAL)):
        script = load("from first.made import net\nprint(net)\n", home / name / "use.py")
        (call,) = script.find(ast.Call)
        assert script.kind(call.args[0]) is kind


SHOP = {
    "models.py": "import torch\nclass Net(torch.nn.Module):\n    def forward(self, x):\n        return x\n",
    "data.py": "from torch.utils.data import DataLoader\ndef loader(files):\n"
    "    return DataLoader(files, batch_size=4)\n",
    "engine.py": "from models import Net\ndef train(net, batches, optimizer, device):\n    for x, y in batches:\n"
    "        loss = net(x.to(device)).sum()\n        loss.backward()\n        optimizer.step()\n"
    "def evaluate(net, batches, device):\n    net.eval()\n"
    "    return sum(net(x.to(device)).sum().item() for x, y in batches)\n",
    "main.py": "import torch\nfrom models import Net\nfrom data import loader\nimport engine\nnet = Net()\n"
    "optimizer = torch.optim.SGD(net.parameters(), lr=0.1)\nbatches = loader([])\nfor epoch in range(9):\n"
    "    engine.train(net, batches, optimizer, 'cuda')\nprint(engine.evaluate(net, batches, 'cuda'))\n",
    "again.py": "from main import net, batches\nfrom engine import evaluate\nevaluate(net, batches, 'cuda')\n",
}


def said(project: Project, path: Path) -> list[tuple[str, int, str]]:
    analysis = engine.analyse(path.read_text(), path, registry.rules(), project=project)
    found = [(each.rule.code, each.message, each.node) for each in analysis.findings]
    found += [(each.rule.code, each.reason, each.node) for each in (*analysis.skipped, *analysis.waiting)]
    return sorted((code, getattr(node, "lineno", 0), text) for code, text, node in found)


def test_what_is_said_of_a_file_does_not_depend_on_what_was_analysed_before(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in SHOP]
    for path in paths:
        path.write_text(SHOP[path.name])
    alone = {path: said(Project(paths), path) for path in paths}
    assert {code for each in alone.values() for code, _, _ in each} >= {"AA103", "AA201", "AA401"}
    for order in itertools.islice(itertools.permutations(paths), 0, None, 11):
        shared = Project(paths)
        assert {path: said(shared, path) for path in order} == alone


def test_what_an_analysis_leans_on_is_noted(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in SHOP]
    for path in paths:
        path.write_text(SHOP[path.name])
    (tmp_path / "beside.py").write_text("import data\n")
    shared = Project(paths)
    said(shared, tmp_path / "data.py")
    noted = shared.consulted
    assert ("related", tmp_path / "data.py", "") in noted.asked
    assert tmp_path / "main.py" in noted.texts
    assert str(tmp_path) in noted.folders
    assert shared.disk.index.outside == [str(tmp_path / "beside.py")]


def test_nothing_of_an_analysis_waits_for_the_garbage_collector(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in SHOP]
    for path in paths:
        path.write_text(SHOP[path.name])
    said(Project(paths), paths[0])  # what is made a single time
    gc.collect()
    gc.disable()
    try:
        for path in paths:
            said(Project(paths), path)
        assert gc.collect() < 500  # the trees have thousands of objects
    finally:
        gc.enable()


def test_a_process_that_ends_soon_leaves_the_first_analyses_as_they_are(tmp_path: Path) -> None:
    path, text = tmp_path / "train.py", "import torch\n"
    files = Files([path])
    files.spare(2 * len(text))
    kept = []
    for _ in range(3):
        script = load(text, path, Project(files))
        script.release()
        kept.append(hasattr(script, "tree"))
    assert kept == [True, True, False]


def test_a_class_that_goes_by_another_name_has_derived_classes(tmp_path: Path) -> None:
    (tmp_path / "base.py").write_text("class Base:\n    pass\n\n\nOld = Base\n\n\nclass Other:\n    pass\n")
    (tmp_path / "user.py").write_text(
        "from base import Base, Old, Other\n"
        "class D(Old):\n    pass\nclass E(Base):\n    pass\nclass F(Other):\n    pass\n"
    )
    files = [tmp_path / "base.py", tmp_path / "user.py"]
    script = load(files[0].read_text(), files[0], Project(files))
    cls = next(each for each in script.find(ast.ClassDef) if each.name == "Base")
    assert [each.node.name for each in derived_classes(script.class_ref(cls)) or ()] == ["D", "E"]
