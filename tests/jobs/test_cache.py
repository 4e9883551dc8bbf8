"""The cache says what a run without it would say, whatever was edited in between, and whatever became of its file."""

from __future__ import annotations

import io
import json
import multiprocessing
import random
import shutil
import sys
from collections.abc import Callable, Sequence
from multiprocessing.synchronize import Event
from pathlib import Path

import pytest

from autoaccel.analysis.files import Files
from autoaccel.analysis.project_index import KnownFiles
from autoaccel.config import Configuration, Settings
from autoaccel.config.selection import Selection
from autoaccel.jobs import cache as caches
from autoaccel.jobs import cache_files, inspection
from autoaccel.jobs.cache import FOLDER, Cache
from autoaccel.rewriting.record import Failure, Range, Record, Report, TextEdit

PLAN = Configuration(Settings())

STEPPING = """\
import torch

def step(net, samples, opt, device):
    for x, y in samples:
        x = x.to(device)
        y = y.to(device)
        opt.zero_grad()
        loss = (net(x) - y).pow(2).mean()
        loss.backward()
        opt.step()
"""

MAIN = """\
import torch
from torch import nn
from torch.utils.data import DataLoader
from stepping import step
from models import Net

net = Net()
opt = torch.optim.SGD(net.parameters(), lr=0.1)
step(net, DataLoader(range(10000)), opt, "cuda")
noise = torch.zeros(3).to("cuda")
"""

MODELS = """\
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 1))

    def forward(self, x):
        return self.layers(x)
"""

ENGINE = """\
import numpy as np
import torch

def load():
    return np.zeros(3)

batch = torch.tensor([load(), load()])
"""

OTHER = """\
import engine

def other():
    return 1

engine.save = other
"""

CONTENTS = {
    "stepping": (
        STEPPING,
        STEPPING,
        STEPPING.replace("x.to(device)", "x.cuda()"),
        STEPPING + "\n" + MAIN.split("\n\n")[1].replace("Net()", "torch.nn.Linear(3, 1)"),
        "",
    ),
    "main": (
        MAIN,
        MAIN,
        MAIN.replace("from stepping", "from package.stepping"),
        MAIN.replace("from stepping", "from package"),
        MAIN.replace("from models", "from package.models"),
        MAIN.replace("SGD", "LBFGS"),
        MAIN.replace("DataLoader(range(10000))", "[]"),
        MAIN.replace("from stepping import step", "import stepping").replace("step(net", "stepping.step(net"),
        MAIN + "    oh no\n",
        "import torch\n",
    ),
    "models": (
        MODELS,
        MODELS.replace("class Net(nn.Module)", "class Net"),
        MODELS.replace("return self", "print(x.item())\n        return self"),
        "from package.models import Net\n",
        "class (\n",
    ),
    "__init__": ("", "from .stepping import step\n", "from .stepping import *\nfrom .models import Net\n", STEPPING),
    "pyproject": ("",),
    "setup": ("",),
}

NAMES = (
    "main.py", "models.py", "stepping.py", "pyproject.toml", "package/__init__.py", "package/main.py",
    "package/models.py", "package/stepping.py", "scripts/main.py", "scripts/stepping.py", "setup.py",
)  # fmt: skip


def lint(
    folder: Path, *, cached: bool, configuration: Configuration = PLAN, names: Sequence[str] = NAMES
) -> list[Report]:
    files = [folder / name for name in names if name.endswith(".py") and (folder / name).exists()]
    cache = Cache(folder / FOLDER, folder, files, changes=False) if cached else None
    return inspection.inspect(files, configuration, cache=cache, jobs=1)


@pytest.fixture(autouse=True)
def _no_haste(monkeypatch: pytest.MonkeyPatch) -> None:
    """Answers are kept although the files were written a moment ago."""
    monkeypatch.setattr(caches, "_TICK", 0)


EVALUATES = """\
import torch


def features(model, images):
    model.eval()
    return model(images)


if __name__ == "__main__":
    print(features(torch.nn.Linear(3, 3), torch.ones(3)))
"""
LOOP = """\
import torch
from features import features

net = torch.nn.Linear(3, 3)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(9):
    optimizer.zero_grad()
    features(net, torch.randn(8, 3)).sum().backward()
    optimizer.step()
"""


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The files whose answers came from the cache, but for those to which no rule had a word to say."""
    found: list[Path] = []
    ask = Cache.report

    def asked(self: Cache, path: Path, choice: str) -> Report | None:
        report = ask(self, path, choice)
        if report is not None and self._answers[choice][self._names[path]][3] not in (False, True):
            found.append(path)
        return report

    monkeypatch.setattr(Cache, "report", asked)
    return found


def write(folder: Path, name: str, content: str) -> None:
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_text(content)


def content(name: str, chance: random.Random) -> str:
    return chance.choice(CONTENTS[Path(name).stem])


def edit(folder: Path, chance: random.Random) -> None:
    there = [name for name in NAMES if (folder / name).exists()]
    match chance.choice(["write", "write", "write", "delete", "rename", "touch"]):
        case "write":
            name = chance.choice(NAMES)
            write(folder, name, content(name, chance))
        case "delete" if there:
            (folder / chance.choice(there)).unlink()
        case "rename" if there:
            target = folder / chance.choice(NAMES)
            target.parent.mkdir(exist_ok=True)
            (folder / chance.choice(there)).replace(target)
        case "touch" if there:
            (folder / chance.choice(there)).touch()


@pytest.mark.parametrize("seed", range(4))
def test_after_every_edit_it_says_what_a_run_without_it_says(tmp_path: Path, answers: list[Path], seed: int) -> None:
    chance = random.Random(seed)
    for name in NAMES:
        write(tmp_path, name, content(name, chance))
    for _ in range(15):
        edit(tmp_path, chance)
        # Sometimes only some of the files are asked about: the others lie beside them.
        names = NAMES if chance.random() < 0.7 else chance.sample(NAMES, 4)
        assert lint(tmp_path, cached=True, names=names) == lint(tmp_path, cached=False, names=names)
    assert answers, "nothing was answered by the cache: this test could not fail"


@pytest.mark.parametrize(
    ("files", "asked", "name", "content"),
    [
        pytest.param(
            {"stepping.py": STEPPING, "main.py": MAIN}, ["stepping.py"], "main.py", MAIN.replace("SGD", "LBFGS"),
            id="text of a caller",
        ),
        pytest.param(
            {"stepping.py": STEPPING, "main.py": "\n"}, ["stepping.py"], "main.py", MAIN, id="imports of a neighbour"
        ),
        pytest.param(
            {"stepping.py": STEPPING, "main.py": "\n"}, ["main.py", "stepping.py"], "main.py", MAIN,
            id="imports within the project",
        ),
        pytest.param({"stepping.py": STEPPING}, ["stepping.py"], "main.py", MAIN, id="a new neighbour"),
        pytest.param(
            {"engine.py": ENGINE, "other.py": OTHER}, ["engine.py"], "other.py", OTHER.replace(".save", ".load"),
            id="a name that another file binds",
        ),
        pytest.param(
            {"stepping.py": STEPPING, "main.py": MAIN}, ["stepping.py"], "main.py", None, id="a neighbour is gone"
        ),
    ],
)  # fmt: skip
def test_what_an_answer_leans_on(
    tmp_path: Path, answers: list[Path], files: dict[str, str], asked: list[str], name: str, content: str | None
) -> None:
    for each, text in files.items():
        write(tmp_path, each, text)
    before = lint(tmp_path, cached=True, names=asked)
    assert lint(tmp_path, cached=True, names=asked) == before
    assert len(answers) == sum(bool(files[each].strip()) for each in asked)
    if content is None:
        (tmp_path / name).unlink()
    else:
        write(tmp_path, name, content)
    after = lint(tmp_path, cached=True, names=asked)
    assert after == lint(tmp_path, cached=False, names=asked)
    assert after != before, "the edit changes nothing: this test could not fail"


def test_files_outside_of_the_root_are_asked_about_by_their_own_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another spelling of a path would be another file to the index, beside the project."""
    asked: set[Path] = set()
    ask = Files.ask

    def noted(self: Files, question: str, path: Path, name: str = "") -> KnownFiles:
        asked.add(path)
        return ask(self, question, path, name)

    monkeypatch.setattr(Files, "ask", noted)
    for name, text in (("stepping.py", STEPPING), ("main.py", MAIN), ("models.py", MODELS)):
        write(tmp_path / "project", name, text)
    files = sorted((tmp_path / "project").glob("*.py"))
    cache = Cache(tmp_path / FOLDER, tmp_path / "here", files, changes=False)
    inspection.inspect(files, PLAN, cache=cache, jobs=1)
    assert asked
    assert asked <= {*files}


def test_the_first_file_is_part_of_the_question(tmp_path: Path) -> None:
    """Imports are also looked for where the first file of the project lies."""
    write(tmp_path, "loading.py", "from torch.utils.data import DataLoader\n\nloader = DataLoader(range(10000))\n")
    (tmp_path / "work").mkdir()
    write(tmp_path, "top.py", "")
    write(tmp_path, "work/other/top.py", "")
    write(tmp_path, "work/scripts/main.py", "from loading import loader\n\nfor x in loader:\n    x = x.to('cuda')\n")
    said = []
    for first in ("top.py", "work/other/top.py", "top.py"):
        names = [first, "work/scripts/main.py"]
        said.append(lint(tmp_path, cached=True, names=names)[1])
        assert said[-1] == lint(tmp_path, cached=False, names=names)[1]
    assert said[0] != said[1], "the first file makes no difference: this test could not fail"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder that was linted once, with findings, an empty file, and one that cannot be parsed."""
    folder = tmp_path / "project"
    folder.mkdir()
    for name, text in (("stepping.py", STEPPING), ("main.py", MAIN), ("models.py", "class Net(\n    .to(\n")):
        write(folder, name, text)
    write(folder, "package/__init__.py", "")
    reports = lint(folder, cached=True)
    assert any(report.findings for report in reports) and any(report.failures for report in reports)
    return folder


def stored(project: Path) -> Path:
    (file,) = (project / FOLDER).glob("lint-*.json")
    return file


def test_an_answer_is_what_was_said(project: Path, answers: list[Path]) -> None:
    assert lint(project, cached=True) == lint(project, cached=False)
    assert [path.name for path in answers] == ["main.py", "models.py", "stepping.py"]


def damaged(data: bytes, chance: random.Random) -> bytes:
    place = chance.randrange(len(data))
    match chance.choice(["flip", "cut", "drop", "insert", "empty", "swap"]):
        case "flip":
            return data[:place] + bytes([data[place] ^ (1 << chance.randrange(8))]) + data[place + 1 :]
        case "cut":
            return data[:place]
        case "drop":
            return data[place:]
        case "insert":
            return data[:place] + chance.randbytes(3) + data[place:]
        case "swap":
            return data[place:] + data[:place]
        case _:
            return b""


@pytest.mark.parametrize("seed", range(4))
def test_damage_is_no_answer(project: Path, answers: list[Path], seed: int) -> None:
    chance = random.Random(seed)
    expected = lint(project, cached=False)
    file = stored(project)
    data = file.read_bytes()
    for _ in range(10):
        worse = damaged(data, chance)
        file.write_bytes(worse)
        answers.clear()
        assert lint(project, cached=True) == expected
        assert not answers or worse == data
        assert stored(project).read_bytes() == data, "a damaged cache is replaced"


def signed(body: bytes) -> bytes:
    return cache_files.heading(io.BytesIO(body)) + b"\n" + body


@pytest.mark.parametrize(
    "body",
    [
        b"", b"null", b"[]", b"{}", b"7", b'"facts"', b"[" * 100_000,
        b'{"facts":1,"trees":{},"answers":{}}', b'{"facts":[],"trees":[],"answers":[]}',
        b'{"facts":[],"trees":{},"answers":{"x":{"main.py":["a","main.py",[7],[]]}}}',
        b'{"facts":[],"trees":{},"answers":{"x":{"main.py":["a","main.py",[]]}}}',
        b'{"facts":[],"trees":{},"answers":{"x":7}}',
        b'{"facts":[],"trees":{},"answers":{"x":[]}}',
    ],
)  # fmt: skip
def test_what_others_wrote_is_no_answer(project: Path, body: bytes) -> None:
    stored(project).write_bytes(signed(body))
    assert lint(project, cached=True) == lint(project, cached=False)


def test_reports_of_another_shape_are_no_answers(project: Path, answers: list[Path]) -> None:
    file = stored(project)
    body = file.read_bytes().partition(b"\n")[2]
    changed = body.replace(b'"exact"', b'"exact","more"')
    assert changed != body
    file.write_bytes(signed(changed))
    assert lint(project, cached=True) == lint(project, cached=False)


def a_folder(place: Path) -> None:
    place.mkdir(parents=True)


def a_file(place: Path) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text("no folder")


def a_link_to_nowhere(place: Path) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    place.symlink_to("nowhere/at/all")


def a_locked_folder(place: Path) -> None:
    place.mkdir()
    place.chmod(0o500)


@pytest.mark.parametrize("obstacle", [a_file, a_link_to_nowhere, a_locked_folder])
def test_a_folder_that_cannot_be_used(project: Path, obstacle: Callable[[Path], None]) -> None:
    shutil.rmtree(project / FOLDER)
    obstacle(project / FOLDER)
    expected = lint(project, cached=False)
    assert lint(project, cached=True) == expected
    assert lint(project, cached=True) == expected


def test_a_file_that_cannot_be_used(project: Path) -> None:
    file = stored(project)
    file.unlink()
    a_folder(file)
    assert lint(project, cached=True) == lint(project, cached=False)
    assert not list((project / FOLDER).glob(".*.tmp"))


def test_another_version_of_the_tool(project: Path, answers: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(caches, "fingerprint", lambda: "another")
    assert lint(project, cached=True) == lint(project, cached=False)
    assert not answers


def test_another_choice_of_rules(project: Path, answers: list[Path]) -> None:
    few = Configuration(Settings(selections=(Selection(select=("AA103",)),)))
    reports = lint(project, cached=True, configuration=few)
    assert not answers
    assert {record.code for report in reports for record in report.findings} == {"AA103"}
    assert lint(project, cached=True, configuration=few) == reports and answers
    answers.clear()
    assert lint(project, cached=True) == lint(project, cached=False)
    assert answers, "the answers for the first choice are kept"


def test_choices_of_earlier_runs_make_room(project: Path, answers: list[Path]) -> None:
    codes = [f"AA{number}" for number in (101, 102, 103, 104, 201, 202, 301, 302, 401, 501)]
    plans = [Configuration(Settings(selections=(Selection(select=("AA103", code)),))) for code in codes]
    for configuration in plans:
        lint(project, cached=True, configuration=configuration)
    for configuration, kept in ((plans[-1], True), (plans[1], True), (plans[0], False)):
        answers.clear()
        lint(project, cached=True, configuration=configuration)
        assert bool(answers) is kept


def test_changes_are_kept_apart(project: Path) -> None:
    files = [project / "stepping.py", project / "main.py"]
    for _ in range(2):
        cache = Cache(project / FOLDER, project, files, changes=True)
        reports = inspection.inspect(files, PLAN, cache=cache, changes=True, jobs=1)
        assert reports == inspection.inspect(files, PLAN, changes=True, jobs=1)
    assert any(record.changes for report in reports for record in report.findings)
    assert not any(record.changes for report in lint(project, cached=True) for record in report.findings)


def test_a_project_that_moves_keeps_its_answers(
    project: Path, tmp_path_factory: pytest.TempPathFactory, answers: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a build server restores it: under another path, with everything written anew."""
    write(project, "pyproject.toml", "")
    monkeypatch.chdir(project)
    files = [Path("main.py"), Path("stepping.py")]
    here = Path.cwd()
    inspection.inspect(files, PLAN, cache=Cache(here / FOLDER, here, files, changes=False), jobs=1)
    target = tmp_path_factory.mktemp("elsewhere") / "project"
    shutil.copytree(project, target)
    monkeypatch.chdir(target)
    here = Path.cwd()
    inspection.inspect(files, PLAN, cache=Cache(here / FOLDER, here, files, changes=False), jobs=1)
    assert answers == files


@pytest.mark.parametrize("package", [False, True], ids=["scripts", "a package"])
@pytest.mark.parametrize("marker", [".git", "pyproject.toml"])
def test_what_is_above_the_project_is_no_part_of_it(
    tmp_path: Path, answers: list[Path], marker: str, package: bool
) -> None:
    top = tmp_path / "outer" / "project"
    top.mkdir(parents=True)
    write(top, f"{marker}/index" if marker == ".git" else marker, "")
    for name, text in (("stepping.py", STEPPING), ("main.py", MAIN), ("models.py", MODELS)):
        write(top, name, text)
    if package:
        write(top, "__init__.py", "")
    before = lint(top, cached=True)
    (tmp_path / "outer" / "sibling").mkdir()
    write(tmp_path, "outer/other.py", MAIN)
    write(tmp_path, "outer/__init__.py", "")
    write(tmp_path, "setup.py", "")
    assert lint(top, cached=True) == before == lint(top, cached=False)
    assert [path.name for path in answers] == ["main.py", "stepping.py"]  # models are only looked through


@pytest.mark.parametrize("marker", [".git", "pyproject.toml", ""])
def test_a_project_that_is_copied_keeps_its_answers(
    project: Path, answers: list[Path], monkeypatch: pytest.MonkeyPatch, marker: str
) -> None:
    """To another name, and among other files; these may belong to what nothing marks as a project."""
    if marker:
        write(project, f"{marker}/index" if marker == ".git" else marker, "")
    write(project, "main.py", MAIN + "\n")
    copies = [project, project.parent / "deep" / "er" / "Copy"]
    for folder in copies:
        if folder != project:
            shutil.copytree(project, folder)
            write(folder.parent, "beside.py", "import os\n")
        monkeypatch.chdir(folder)
        files = [Path("main.py"), Path("stepping.py")]
        here = Path.cwd()
        inspection.inspect(files, PLAN, cache=Cache(here / FOLDER, here, files, changes=False), jobs=1)
    assert answers == (files if marker else [])


def test_who_trains_through_it_comes_to_lie_elsewhere_in_the_repository(tmp_path: Path) -> None:
    """What is not looked at, and is no neighbour, may import the file that is."""
    for name in (".git/HEAD", "lib/__init__.py", "engine/__init__.py"):
        write(tmp_path, name, "")
    write(tmp_path, "lib/features.py", EVALUATES)
    files = [tmp_path / "lib" / "features.py"]
    found = []
    for loop in ("", "import os\n", LOOP.replace("from features", "from lib.features")):
        write(tmp_path, "engine/loop.py", loop)
        cache = Cache(tmp_path / FOLDER, tmp_path, files, changes=False)
        (report,) = inspection.inspect(files, PLAN, cache=cache, jobs=1)
        found.append([each.code for each in report.findings])
    assert found == [["AA501"], ["AA501"], []]


LOOP_AFAR = LOOP.replace("from features", "from lib.features")
# By case: what there is beside the file, and what of it comes to be another.
IN_SIGHT = {
    "no longer ignored": ({".gitignore": "old/\n", "old/loop.py": LOOP_AFAR}, {".gitignore": ""}),
    "no longer ignored by the repository": (
        {".git/info/exclude": "old/\n", "old/loop.py": LOOP_AFAR},
        {".git/info/exclude": ""},
    ),
    "a notebook": (
        {"engine/other.py": ""},
        {"engine/loop.ipynb": json.dumps({"cells": [{"cell_type": "code", "source": LOOP_AFAR}], "nbformat": 4})},
    ),
    "in a folder that no import can name": ({}, {"my-scripts/loop.py": LOOP_AFAR}),
}


@pytest.mark.parametrize("case", IN_SIGHT)
def test_who_trains_through_it_comes_into_sight(tmp_path: Path, case: str) -> None:
    before, after = IN_SIGHT[case]
    files = [tmp_path / "lib" / "features.py"]
    found = []
    for changes in ({".git/HEAD": "", "lib/__init__.py": "", "lib/features.py": EVALUATES, **before}, {}, after):
        for name, text in changes.items():
            write(tmp_path, name, text)
        cache = Cache(tmp_path / FOLDER, tmp_path, files, changes=False)
        (report,) = inspection.inspect(files, PLAN, cache=cache, jobs=1)
        found.append([each.code for each in report.findings])
    assert found == [["AA501"], ["AA501"], []]


def test_what_is_gone_is_forgotten(project: Path) -> None:
    assert b'"stepping.py"' in stored(project).read_bytes()
    (project / "stepping.py").unlink()
    write(project, "main.py", MAIN + "\n")
    lint(project, cached=True)
    assert b'"stepping.py"' not in stored(project).read_bytes().partition(b'"answers"')[2]


def test_what_is_named_is_parsed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No rule has a word to say about either file: only that one is no Python, and that to those who name it."""
    write(tmp_path, "plain.py", "x = 1\n")
    write(tmp_path, "broken.py", "def (\n")
    files, parse, parsed = [tmp_path / "plain.py", tmp_path / "broken.py"], inspection.syntax_report, list[str]()

    def noted(data: bytes, path: Path) -> Report:
        parsed.append(path.name)
        return parse(data, path)

    def failing(named: Sequence[Path]) -> list[str]:
        cache = Cache(tmp_path / FOLDER, tmp_path, files, changes=False)
        reports = inspection.inspect(files, PLAN, named=named, cache=cache, jobs=1)
        return [Path(report.path).name for report in reports if report.failures]

    monkeypatch.setattr(inspection, "syntax_report", noted)
    assert [failing(named) for named in ((), files, files, ())] == [[], ["broken.py"], ["broken.py"], []]
    assert parsed == ["plain.py", "broken.py", "broken.py"]


def test_what_is_not_asked_about_is_remembered(project: Path, answers: list[Path]) -> None:
    write(project, "main.py", MAIN.replace("0.1", "0.2"))
    lint(project, cached=True, names=["main.py"])
    answers.clear()
    lint(project, cached=True)
    assert project / "models.py" in answers


def test_what_was_touched_during_the_run_is_not_kept(
    project: Path, answers: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody knows which text of a neighbour the analysis has seen."""
    shutil.rmtree(project / FOLDER)
    monkeypatch.setattr(caches, "_TICK", 60 * 10**9)
    lint(project, cached=True)
    lint(project, cached=True)
    assert answers == [project / "models.py"], "which has no neighbours, because it cannot be parsed"


def test_the_folder_is_left_alone_by_git_and_backups(project: Path) -> None:
    assert (project / FOLDER / ".gitignore").read_text().splitlines()[-1] == "*"
    assert (project / FOLDER / "CACHEDIR.TAG").read_text().startswith("Signature: 8a477f597d28d172789f06886806bc55")


def test_old_caches_make_room(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(20):
        monkeypatch.setattr(caches, "fingerprint", lambda number=number: f"version {number}")
        lint(project, cached=True)
    assert len(list((project / FOLDER).glob("lint-*.json"))) == cache_files._MOST_CACHES


def write_again_and_again(file: Path, body: bytes, stop: Event) -> None:
    while not stop.is_set():
        cache_files.write(file, io.BytesIO(body))


def test_runs_at_the_same_time_see_whole_caches(tmp_path: Path) -> None:
    """Whoever replaces it last wins; nobody reads half of one."""
    file = tmp_path / FOLDER / "lint-1.json"
    documents = [
        {
            "facts": [],
            "trees": {},
            "answers": {"all": {f"{letter}{index}.py": ["0", "", [], False] for index in range(1000)}},
        }
        for letter in "ab"
    ]
    bodies = [json.dumps(document).encode() for document in documents]
    cache_files.write(file, io.BytesIO(bodies[0]))
    start = multiprocessing.get_context("fork" if sys.platform == "linux" else None)
    stop = start.Event()
    writers = [start.Process(target=write_again_and_again, args=(file, body, stop)) for body in bodies]
    for writer in writers:
        writer.start()
    seen: list[int] = []
    try:
        while len(seen) < 60 or set(seen) != {0, 1}:
            seen.append(documents.index(cache_files.load(file)))
            assert len(seen) < 20_000, "one of them never wins"
    finally:
        stop.set()  # else the end of the tests waits for the writers
    for writer in writers:
        writer.join()
        assert writer.exitcode == 0
    assert [each.name for each in file.parent.glob("*lint*")] == [file.name]


def test_every_part_of_a_report_survives(tmp_path: Path) -> None:
    """Fields that are added to reports have to be restored, too."""
    where = Range(1, 2, 3, 4)
    record = Record("AA101", "name", "exact", "message", where)
    parts = {name: getattr(record, name) for name in Record.__slots__}
    for name, value in parts.items():
        if value == ():
            parts[name] = {"fix": ("a", "b"), "edits": (where,), "changes": (TextEdit(where, "x"),)}[name]
        elif value is None:
            parts[name] = "text"
    record = Record(**parts)
    report = Report("a.py", (record,), (record, record), 3, (Failure("m", 1, 2, "", "c"),))
    restored = cache_files.built(Report, json.loads(json.dumps(cache_files.plain(report))))
    assert restored == report and hash(restored) == hash(report)


@pytest.mark.parametrize(("module", "kept"), [("shop.engine", False), ("other.engine", True)])
def test_the_name_of_the_root_matters_where_imports_say_it(
    tmp_path: Path, answers: list[Path], monkeypatch: pytest.MonkeyPatch, module: str, kept: bool
) -> None:
    """`import shop.engine` leads nowhere: it may mean a file of the folder that is called so."""
    write(tmp_path, "shop/engine.py", ENGINE)
    write(tmp_path, "shop/beside.py", OTHER.replace("import engine", f"import {module} as engine"))
    (tmp_path / "shop" / ".git").mkdir()
    files = [Path("engine.py"), Path("beside.py")]
    for name in ("shop", "moved"):
        monkeypatch.chdir(tmp_path / name)
        here = Path.cwd()
        seen = inspection.inspect(files, PLAN, cache=Cache(here / FOLDER, here, files, changes=False), jobs=1)
        assert seen == inspection.inspect(files, PLAN, jobs=1)
        if name == "shop":
            shutil.copytree(here, tmp_path / "moved")
    assert (files[0] in answers) is kept
