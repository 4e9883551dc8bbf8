"""Who imports whom and who mentions what by name: all of them, however many."""

from __future__ import annotations

from pathlib import Path

import pytest

from autoaccel.analysis import Project, load
from autoaccel.analysis.files import Files
from autoaccel.analysis.project_index import KnownFiles, ProjectIndex
from autoaccel.dataflow.bounds import Bounds
from autoaccel.dataflow.completeness import Incomplete
from autoaccel.edits import Tier
from autoaccel.rewriting import engine, registry

DEFINES = "def features(model, images):\n    return model(images)\n"


def written(root: Path, files: dict[str, str]) -> list[Path]:
    paths = []
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        paths.append(path)
    return paths


def index_of(root: Path, files: dict[str, str]) -> ProjectIndex:
    return Files(written(root, files)).index


def names(found: KnownFiles, root: Path) -> list[str]:
    return [str(path.relative_to(root)) for path in found.paths]


@pytest.mark.parametrize(
    ("importing", "found"),
    [
        ("import pkg.lib.part", True),
        ("import pkg.lib.part as p", True),
        ("from pkg.lib import part", True),
        ("from pkg.lib.part import features as f", True),
        ("from pkg.lib.part import *", True),
        ("from pkg.lib.part import (\n    features,\n)", True),
        ("def late():\n    from pkg.lib.part import features", True),
        ("import importlib\nimportlib.import_module('pkg.lib.part')", True),
        ("import importlib\nimportlib.import_module(f'pkg.lib.{name}')", True),
        ("import importlib\nimportlib.import_module(f'other.{name}')", False),
        ("from elsewhere.pkg.lib import part", False),
        ("from lib.part import features", True),  # who knows the search path
        ("from pkg import lib", False),
        ("import part_of_it", False),
    ],
)
def test_importers(tmp_path: Path, importing: str, found: bool) -> None:
    index = index_of(
        tmp_path,
        {"main.py": importing, "pkg/__init__.py": "", "pkg/lib/__init__.py": "", "pkg/lib/part.py": DEFINES},
    )
    assert names(index.importers(tmp_path / "pkg/lib/part.py"), tmp_path) == ["main.py"] * found


@pytest.mark.parametrize(
    ("start", "found"),
    [("pkg.lib.", True), ("pkg.lib.p", True), ("lib.", True), ("pkg.other.", False), ("", True)],
)
def test_a_package_on_the_way_of_a_computed_import_is_imported_too(tmp_path: Path, start: str, found: bool) -> None:
    main = f"import importlib\nimportlib.import_module('{start}' + name)\n"
    index = index_of(tmp_path, {"main.py": main, "pkg/lib/__init__.py": "", "pkg/lib/part.py": DEFINES})
    assert names(index.importers(tmp_path / "pkg/lib/__init__.py"), tmp_path) == ["main.py"] * found


@pytest.mark.parametrize(
    ("importing", "target"),
    [
        ("from . import part", "pkg/sub/part.py"),
        ("from .part import features", "pkg/sub/part.py"),
        ("from .. import other", "pkg/other.py"),
        ("from ..other import x as y", "pkg/other.py"),
        ("from . import anything", "pkg/sub/__init__.py"),
        ("from ..other import x", "pkg/__init__.py"),
        ("import pkg.sub.part", "pkg/__init__.py"),
    ],
)
def test_importers_within_a_package(tmp_path: Path, importing: str, target: str) -> None:
    empty = dict.fromkeys(["pkg/__init__.py", "pkg/other.py", "pkg/sub/__init__.py", "pkg/sub/part.py"], "")
    index = index_of(tmp_path, {**empty, "pkg/sub/asks.py": importing})
    assert names(index.importers(tmp_path / target), tmp_path) == ["pkg/sub/asks.py"]


@pytest.mark.parametrize(
    ("files", "found"),
    [
        pytest.param({"a.py": "from part import features\nfeatures(m, x)"}, ["a.py"], id="by name"),
        pytest.param({"a.py": "import part\npart.features(m, x)"}, ["a.py"], id="as an attribute"),
        pytest.param({"a.py": "import part\n"}, [], id="not mentioned"),
        pytest.param({"a.py": "def features(x): ...\nfeatures(1)"}, [], id="another function of this name"),
        pytest.param({"a.py": "import part\ndef features(x): ...\nfeatures(1)"}, [], id="its own function"),
        pytest.param({"a.py": "from part import *\nfeatures(m, x)"}, ["a.py"], id="star"),
        pytest.param({"a.py": "from part import *\n"}, [], id="star, not mentioned"),
        pytest.param(
            {"pkg/__init__.py": "from part import features\n", "a.py": "from pkg import features\nfeatures(m, x)"},
            ["a.py", "pkg/__init__.py"],
            id="handed on by a package",
        ),
        pytest.param(
            {"pkg/__init__.py": "from part import *\n", "a.py": "from pkg import features\nfeatures(m, x)"},
            ["a.py"],
            id="handed on by a star",
        ),
        pytest.param(
            {"b.py": "from part import features as f\n", "a.py": "from b import f\nf(m, x)"},
            ["a.py", "b.py"],
            id="under another name",
        ),
        pytest.param(
            {"b.py": "import part\n", "a.py": "import b\nb.part.features(m, x)"}, ["a.py"], id="module of a module"
        ),
        pytest.param(
            {"a.py": "import importlib\nimportlib.import_module(name).features(m, x)"}, ["a.py"], id="computed module"
        ),
    ],
)
def test_who_may_call_a_function(tmp_path: Path, files: dict[str, str], found: list[str]) -> None:
    index = index_of(tmp_path, {"part.py": DEFINES, **files})
    assert names(index.callers(tmp_path / "part.py", "features", 64, method=False), tmp_path) == found


def test_who_may_call_a_method(tmp_path: Path) -> None:
    """Whoever gets the object need not import its class."""
    files = {
        "net.py": "class Net:\n    def features(self, x): ...\n",
        "engine.py": "def run(net, x):\n    return net.features(x)\n",
        "main.py": "import engine\nfrom net import Net\nengine.run(Net(), 1)\n",
        "alone.py": "def run(net, x):\n    return net.features(x)\n",
    }
    index = index_of(tmp_path, files)
    assert names(index.callers(tmp_path / "net.py", "features", 64, method=True), tmp_path) == ["engine.py"]
    assert names(index.related(tmp_path / "net.py", 9), tmp_path) == ["engine.py", "main.py"]


def test_a_name_that_is_not_defined_anywhere(tmp_path: Path) -> None:
    files = {f"m{number}.py": "import part\n" for number in range(600)}
    files |= {"part.py": "features = lambda x: x\n", "a.py": "import part\npart.features(1)\n"}
    index = index_of(tmp_path, files)
    assert names(index.callers(tmp_path / "part.py", "features", 64, method=False), tmp_path) == ["a.py"]


def test_another_text(tmp_path: Path) -> None:
    part, main, other = written(tmp_path, {"part.py": DEFINES, "main.py": "import part\npart.features()\n", "o.py": ""})
    files = Files([part, main, other])
    changed = files.changed(main, "import o\n").changed(other, "from part import features\nfeatures()\n")
    before, after = files.index, changed.index
    for _ in range(2):
        assert before.importers(part).paths == (main,)
        assert before.callers(part, "features", 64, method=False).paths == (main,)
        assert before.importers(other).paths == ()
    assert after.importers(part).paths == (other,)
    assert after.callers(part, "features", 64, method=False).paths == (other,)
    assert after.importers(other).paths == (main,)


def test_answers_do_not_depend_on_what_was_asked_before(tmp_path: Path) -> None:
    paths = written(
        tmp_path,
        {
            "a/main.py": "from b import part\nimport c.more\n",
            "b/part.py": DEFINES,
            "b/beside.py": "import part\npart.features()\n",
            "c/more.py": "from b.part import features\nfeatures()\n",
            "main.py": "from b.part import features\nfeatures()\n",
        },
    )

    def said(order: list[Path]) -> dict[Path, tuple[KnownFiles, KnownFiles]]:
        index = Files([paths[0], paths[-1]]).index
        return {each: (index.importers(each), index.callers(each, "features", 64, method=True)) for each in order}

    assert said(paths) == said(paths[::-1])


def test_more_than_are_looked_at_is_said(tmp_path: Path) -> None:
    paths = written(tmp_path, {"part.py": DEFINES, **{f"m{n}.py": "import part\n" for n in range(5)}})
    assert Files(paths).index.related(paths[0], 5).missing is None
    assert not Files(paths).index.related(paths[0], 4).paths
    assert Files(paths).index.related(paths[0], 4).missing is not None
    assert Files(paths[:1], bounds=Bounds(beside=4)).index.importers(paths[0]).missing is not None
    assert Files(paths[:1], bounds=Bounds(beside=5)).index.importers(paths[0]).missing is None


LIBRARY = "import torch\n\ndef features(model, images):\n    model.eval()\n    return model(images)\n"
TRAINS = """\
import torch
from library import features

net = torch.nn.Linear(3, 3)
head = torch.nn.Linear(3, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(100):
    optimizer.zero_grad()
    loss = head(features(net, torch.randn(8, 3))).sum()
    loss.backward()
    optimizer.step()
"""


def codes(project: Project, path: Path) -> set[str]:
    rules = [rule for rule in registry.rules() if rule.tier is not Tier.OPT_IN]
    return {each.rule.code for each in engine.analyse(path.read_text(), path, rules, project=project).findings}


@pytest.mark.parametrize("count", [1, 24, 25, 207])
@pytest.mark.parametrize("whole", [True, False], ids=["folder", "single file"])
def test_what_others_train_through_keeps_its_gradients(tmp_path: Path, count: int, whole: bool) -> None:
    files = {"library.py": LIBRARY, **{f"train_{number}.py": TRAINS for number in range(count)}}
    paths = written(tmp_path, files)
    assert "AA501" not in codes(Project(paths if whole else paths[:1]), paths[0])


def test_who_trains_through_it_cannot_be_read(tmp_path: Path) -> None:
    paths = written(tmp_path, {"library.py": LIBRARY, "train.py": TRAINS + "print 'done'\n"})
    assert "AA501" not in codes(Project(paths), paths[0])


def test_who_trains_through_it_gets_it_from_a_package(tmp_path: Path) -> None:
    files = {"pkg/__init__.py": "from .library import features\n", "pkg/library.py": LIBRARY}
    paths = written(tmp_path, {**files, "train.py": TRAINS.replace("from library", "from pkg")})
    assert "AA501" not in codes(Project(paths), paths[1])


EVALUATES = "import torch\nfrom library import features\nprint(features(torch.nn.Linear(3, 3), torch.ones(3)))\n"
# By case: where the file lies, what marks the project, and who trains through it.
FROM_AFAR = {
    "a folder beside it": ("lib/library.py", ".git/HEAD", {"engine/loop.py": "from lib.library"}),
    "a package beside it": (
        "lib/library.py",
        ".git/HEAD",
        {"engine/loop.py": "from lib.library", "engine/__init__.py": ""},
    ),
    "a project that git does not know": ("lib/library.py", "setup.cfg", {"engine/loop.py": "from lib.library"}),
    "no project, but a package": (
        "lib/library.py",
        "lib/__init__.py",
        {"engine/loop.py": "from lib.library", "engine/__init__.py": ""},
    ),
    "no project, but scripts above it": (
        "lib/library.py",
        "prepare.py",
        {"engine/loop.py": "from lib.library"},
    ),
    "deep below": ("lib/core/library.py", ".git/HEAD", {"a/b/c/loop.py": "from lib.core.library"}),
    "by a name of other letters": ("lib/übung.py", ".git/HEAD", {"engine/loop.py": "from lib.übung"}),
    "by its package, which hands it on": (
        "lib/library.py",
        ".git/HEAD",
        {"lib/__init__.py": "from .library import *\n", "engine/loop.py": "from lib"},
    ),
    **{
        f"in a folder called {name}": ("lib/library.py", ".git/HEAD", {f"{name}/loop.py": "from lib.library"})
        for name in ("build", "dist")
    },
    "over a third one": (
        "lib/library.py",
        ".git/HEAD",
        {"tools/hub.py": "from lib.library import features\n", "engine/loop.py": "from tools.hub"},
    ),
}


@pytest.mark.parametrize("case", FROM_AFAR)
def test_who_trains_through_it_lies_elsewhere_in_the_repository(tmp_path: Path, case: str) -> None:
    name, mark, others = FROM_AFAR[case]
    texts = {
        each: TRAINS.replace("from library", text) if each.endswith("loop.py") else text
        for each, text in others.items()
    }
    path, *_ = written(tmp_path, {name: LIBRARY, mark: "", **texts})
    path.with_name("evaluate.py").write_text(EVALUATES.replace("library", path.stem), encoding="utf-8")
    assert "AA501" not in codes(Project([path]), path)
    (tmp_path / next(each for each in others if each.endswith("loop.py"))).unlink()
    assert "AA501" in codes(Project([path]), path)


BESIDE = (
    "import library\nfrom library import *\nfrom library import features\nfrom library import features as loss_of\n"
)
# By case: how a file in another folder comes to what it trains through, and what it calls it.
WAYS = {
    "by a search path": ("from library import features", "features"),
    "by a search path, under another name": ("from library import features as f", "f"),
    "by a search path, all": ("from library import *", "features"),
    "by a search path, a module": ("import library", "library.features"),
    "by a search path, from a folder": ("from lib.library import features", "features"),
    "a module by a computed name": ("import importlib\nm = importlib.import_module(name)", "m.features"),
    "a module by a computed name, by another function": (
        "from importlib import import_module as load\nm = load(name)",
        "m.features",
    ),
    "a module by a computed name, assigned": (
        "import importlib\nfeatures = importlib.import_module(name).features",
        "features",
    ),
    "a module by its path": (
        "from importlib.machinery import SourceFileLoader as S\nm = S('m', p).load_module()",
        "m.features",
    ),
    "a module by a specification": (
        "from importlib.util import *\nspec = spec_from_file_location('m', p)\nm = module_from_spec(spec)",
        "m.features",
    ),
    "a module that is found": (
        "from importlib.util import *\nm = module_from_spec(find_spec(name))",
        "m.features",
    ),
    "by its dotted name": ("import pydoc\nf = pydoc.locate(name)", "f"),
    "a member of a module, by its name": ("import library\nf = getattr(library, name)", "f"),
    "a member of a module, out of its namespace": ("import library\nf = vars(library)[name]", "f"),
    "all members of a module": ("import inspect, library\nfor k, f in inspect.getmembers(library):\n    pass", "f"),
    "by a file beside it": ("from beside import features", "features"),
    "by a file beside it, all": ("from beside import *", "features"),
    "by a file beside it, the module": ("from beside import library", "library.features"),
    "by a file beside it, under another name": ("from beside import loss_of", "loss_of"),
    "a file that is run": ("import runpy\nnames = runpy.run_path(p)", "names['features']"),
    "a file that is run, at once": ("from runpy import run_path", "run_path(p)['features']"),
    "a module that is run": ("import runpy\nnames = runpy.run_module('lib.library')", "names.get('features')"),
    "a module that is loaded already": ("import sys\nm = sys.modules[name]", "m.features"),
    "modules of a list": ("import importlib\nfor m in map(importlib.import_module, names):\n    pass", "m.features"),
    "modules that plugins name": (
        "import pkg_resources\nfor e in pkg_resources.iter_entry_points('x'):\n    m = e.load()",
        "m.features",
    ),
    "modules of an archive": (
        "import zipimport\nm = zipimport.zipimporter(p).load_module('library')",
        "m.features",
    ),
    "by its name in a text": ("import pkgutil\nf = pkgutil.resolve_name('lib.library:features')", "f"),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("whole", [True, False], ids=["folder", "single file"])
def test_who_trains_through_it_gets_it_by_ways_that_are_not_seen(tmp_path: Path, way: str, whole: bool) -> None:
    imports, call = WAYS[way]
    loop = TRAINS.replace("from library import features", imports).replace("features(net", f"{call}(net")
    other = "from library import nothing\nfeatures = 3\n"
    texts = {"a/lib/library.py": LIBRARY, ".git/HEAD": "", "b/loop.py": loop, "b/other.py": other}
    if "beside" in imports:
        texts["b/beside.py"] = BESIDE
    paths = written(tmp_path, texts)
    path = paths[0]
    path.with_name("evaluate.py").write_text(EVALUATES)
    assert "AA501" not in codes(Project(paths if whole else [path]), path)
    (tmp_path / "b" / "loop.py").unlink()
    assert "AA501" in codes(Project([path]), path)


def test_what_hands_it_on_is_more_than_is_looked_at(tmp_path: Path) -> None:
    chain = {f"c{n}/m{n}.py": f"from c{n + 1}.m{n + 1} import x\n" for n in range(6)}
    loop = "from c0.m0 import x\nimport numpy\nfrom lib.vague import f\n"
    path, *_ = written(tmp_path, {"loop.py": loop, ".git/HEAD": "", **chain})
    for beside, anything in ((400, False), (3, True)):
        bounds = Bounds(beside=beside)
        project = Project(Files([path], bounds=bounds), bounds=bounds)
        script = project.script(path)
        assert script is not None
        assert project.is_from_elsewhere(script, "elsewhere.f") is anything
        assert not project.is_from_elsewhere(script, "numpy.f")


def test_who_trains_through_it_is_not_saved_yet(tmp_path: Path) -> None:
    path, *_ = written(tmp_path, {"lib/library.py": LIBRARY, ".git/HEAD": ""})
    path.with_name("evaluate.py").write_text(EVALUATES)
    texts = {tmp_path / "engine" / "loop.py": TRAINS.replace("from library", "from lib.library")}
    assert "AA501" in codes(Project([path]), path)
    assert "AA501" not in codes(Project([path], texts), path)


def test_a_repository_of_more_files_than_are_searched_is_said(tmp_path: Path) -> None:
    files = {"lib/library.py": LIBRARY, ".git/HEAD": "", **{f"other/m{n}.py": "" for n in range(5)}}
    path, *_ = written(tmp_path, files)
    assert Files([path], bounds=Bounds(around=5)).index.importers(path).missing is None
    assert Files([path], bounds=Bounds(around=4)).index.importers(path).missing is not None


def test_a_text_that_is_not_on_disk_imports_from_afar(tmp_path: Path) -> None:
    path, _ = written(tmp_path, {"lib/library.py": LIBRARY, ".git/HEAD": ""})
    open_text = {tmp_path / "engine" / "loop.py": TRAINS.replace("from library", "from lib.library")}
    assert names(Files([path], open_text).index.importers(path), tmp_path) == ["engine/loop.py"]


def test_more_files_that_come_upon_it_than_are_looked_at_are_said(tmp_path: Path) -> None:
    chain = {f"other/m{n}.py": f"from other.m{n + 1} import x\n" for n in range(4)}
    files = {"lib/library.py": LIBRARY, ".git/HEAD": "", **chain, "other/m4.py": "import lib.library\n"}
    path, *_ = written(tmp_path, files)
    for questions in ("importers", "related", "deriving", "callers", "patched"):
        assert Files([path], bounds=Bounds(beside=5)).ask(questions, path, "features").missing is None
        assert Files([path], bounds=Bounds(beside=4)).ask(questions, path, "features").missing is not None


def test_a_text_that_is_too_large_is_not_taken_for_one_without_the_word(tmp_path: Path) -> None:
    """Who mentions a word is told by words alone; whether the mention matters, by texts that can be read."""
    large = "import part\n" + "features = part.features\n" * 100
    paths = written(tmp_path, {"part.py": DEFINES, "large.py": large})
    project = Project(Files(paths, bounds=Bounds(file=1_000)))
    script = load(DEFINES, paths[0], project)
    for texts in (script.project.texts_with_word(script, "features"), script.project.related_texts(script)):
        with pytest.raises(Incomplete, match=r"`large\.py` cannot be read"):
            list(texts)


def test_files_that_git_ignores_are_nobody(tmp_path: Path) -> None:
    afar = TRAINS.replace("from library", "from lib.library")
    files = {
        "lib/library.py": LIBRARY,
        ".git/HEAD": "",
        ".gitignore": "old/\n",
        "old/loop.py": afar,
        "venv/loop.py": afar,
    }
    path, *_ = written(tmp_path, files)
    assert Files([path]).index.importers(path) == KnownFiles()


def test_who_computes_the_names_of_modules_from_afar(tmp_path: Path) -> None:
    """Those of packages may be meant, those of scripts in folders of their own are not."""
    computing = "import importlib\nimportlib.import_module(name)\n"
    files = {"lib/library.py": LIBRARY, "lib/__init__.py": "", "scripts/train.py": "", "tool/plugins.py": computing}
    module, _, script, *_ = written(tmp_path, {**files, "tool/__init__.py": "", ".git/HEAD": ""})
    assert names(Files([module]).index.importers(module), tmp_path) == ["tool/plugins.py"]
    assert names(Files([script]).index.importers(script), tmp_path) == []
    demo = "if __name__ == '__main__':\n    pass\n"
    run, plain, unsaved, tried = written(
        tmp_path, {"run.py": demo, "plain.py": "", "Untitled-1": "", "lib/tried.py": demo}
    )
    assert names(Files([tried]).index.importers(tried), tmp_path) == ["tool/plugins.py"]
    assert names(Files([run]).index.importers(run), tmp_path) == []
    assert names(Files([plain]).index.importers(plain), tmp_path) == ["tool/plugins.py"]
    assert names(Files([unsaved]).index.importers(unsaved), tmp_path) == []


def test_who_calls_nothing_of_it_is_not_parsed(tmp_path: Path) -> None:
    """The work for a file does not grow with the number of those that import it."""
    loaded = []
    for count in (10, 300):
        root = tmp_path / str(count)
        files = {"library.py": LIBRARY, **{f"user_{n}.py": "import library\nprint(library)\n" for n in range(count)}}
        files["main.py"] = "import torch\nfrom library import features\nfeatures(torch.nn.Linear(3, 3), 1)\n"
        paths = written(root, files)
        project = Project(paths)
        project.disk.index  # noqa: B018
        path = paths[0]
        script = load(path.read_text(), path, project)
        (function,) = [node for node in script.tree.body if getattr(node, "name", "") == "features"]
        callers = script.callers(function)
        assert len(callers) == 1 and callers.missing is None
        loaded.append(script.project.characters)
    assert loaded[0] == loaded[1]


def test_trees_are_kept_within_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "x = [1]\n" * 1000
    paths = written(tmp_path, {f"m{number}.py": text for number in range(20)})
    monkeypatch.setattr("autoaccel.analysis.files._KEPT", 3 * len(text))
    files = Files(paths)
    trees = [files.parse(text, path) for path in paths]
    again = [files.parse(text, path) for path in paths[-3:]]
    assert [id(each) for each in again] == [id(each) for each in trees[-3:]]
    assert files.parse(text, paths[0]) is not trees[0]
    assert len(files._parsed) == 3


def test_too_much_to_load_is_said(tmp_path: Path) -> None:
    paths = written(tmp_path, {"library.py": LIBRARY, "train.py": TRAINS})
    lower = Bounds(loaded=10), Bounds(mentioning=0), Bounds(related=0), Bounds(related_characters=0), Bounds(file=10)
    for bounds in lower:
        assert codes(Project(paths, bounds=bounds), paths[0]) <= codes(Project(paths), paths[0])


def test_too_much_to_load_stays_so_when_it_was_read_for_another_question(tmp_path: Path) -> None:
    """Else a question's answer depends on what was asked before it."""
    main, library = written(tmp_path, {"main.py": TRAINS, "library.py": LIBRARY})
    script = load(LIBRARY, library, Project([main, library], bounds=Bounds(loaded=len(TRAINS) * 3 // 2)))
    before = script.project.files_naming(script, "features", attribute=False)
    assert before.missing is not None
    assert len(script.project.related(script)) == 2
    assert script.project.files_naming(script, "features", attribute=False) == before


def test_files_that_share_objects_and_mention_a_word(tmp_path: Path) -> None:
    index = index_of(
        tmp_path,
        {
            "main.py": "import net, other, quiet",
            "net.py": "x = 1",
            "other.py": "import torch\nisinstance(x, torch.amp.GradScaler)",
            "quiet.py": "print('no scaler')",
            "apart.py": "from torch.amp import GradScaler",
        },
    )
    assert names(index.mentioning(tmp_path / "net.py", "GradScaler"), tmp_path) == ["other.py"]
    assert names(index.mentioning(tmp_path / "other.py", "GradScaler"), tmp_path) == []


NETWORK = """\
import torch.nn as nn


class Net{number}(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.stem = nn.Linear(20, width)
        self.blocks = nn.ModuleList([nn.Linear(width, width) for _ in range(3)])

    def forward(self, x):
        x = self.stem(x).relu()
        for block in self.blocks:
            x = block(x).relu()
        return x
"""
OF_MANY = """\
import torch
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from networks import Net3


def evaluate(model, loader, device):
    model.eval()
    right = 0
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        right += (model(x).argmax(1) == y).sum().item()
    return right


device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = Net3().to(device)
optimizer = torch.optim.Adam(model.parameters())
loader = DataLoader(TensorDataset(torch.randn(64, 20), torch.randint(10, (64,))), batch_size=8)
for epoch in range(3):
    model.train()
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(evaluate(model, loader, device))
"""


@pytest.mark.parametrize("count", [5, 100])
def test_a_collection_of_models_keeps_nothing_from_being_said(tmp_path: Path, count: int) -> None:
    files = {f"networks/net{number}.py": NETWORK.format(number=number) for number in range(count)}
    files["networks/__init__.py"] = "".join(f"from .net{number} import Net{number}\n" for number in range(count))
    paths = written(tmp_path, {"train.py": OF_MANY, **files})
    wanted = {"AA103", "AA201", "AA202", "AA301", "AA401", "AA501", "AA602", "AA603", "AA801"}
    assert codes(Project(paths), paths[0]) == wanted
