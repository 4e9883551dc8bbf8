"""Of what the classes of a project are made, and which files share their objects."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from autoaccel.analysis import Kind, Project, Script, load
from autoaccel.analysis.classes import class_info, external_lineage, instance_kind, is_lent, lineage
from autoaccel.dataflow.bounds import Bounds
from autoaccel.dataflow.completeness import Incomplete

HEAD = "import torch\nfrom torch import nn\n"
# By case: a file, the classes of the project that `T` is made of, those from elsewhere, and the kind of its objects.
MADE_OF = {
    "nothing": ("class T: ...\n", "T", [], Kind.OBJECT),
    "a module": ("class T(nn.Module): ...\n", "T", ["torch.nn.Module"], Kind.MODULE),
    "a class of the project": ("class A(nn.Module): ...\nclass T(A): ...\n", "T A", ["torch.nn.Module"], Kind.MODULE),
    "two": ("class A: ...\nclass B(nn.Module): ...\nclass T(A, B): ...\n", "T A B", ["torch.nn.Module"], Kind.MODULE),
    "two of one": (
        "class A: ...\nclass B(A): ...\nclass C(A): ...\nclass T(B, C): ...\n",
        "T B C A",
        [],
        Kind.OBJECT,
    ),
    "two of which one has a base": (
        "class A: ...\nclass B(A): ...\nclass C: ...\nclass T(B, C): ...\n",
        "T B A C",
        [],
        Kind.OBJECT,
    ),
    "two that agree on no order": (
        "class A: ...\nclass B(A): ...\nclass T(A, B): ...\n",
        "T A B",
        [],
        Kind.OBJECT,
    ),
    "a loss": ("class MyLoss(nn.Module): ...\nclass TLoss(MyLoss): ...\n", "TLoss MyLoss", ["torch.nn.Module"], "loss"),
    "a data set": (
        "from torch.utils.data import Dataset\nclass T(Dataset): ...\n",
        "T",
        ["torch.utils.data.Dataset"],
        Kind.DATASET,
    ),
    "object": ("class T(object): ...\n", "T", ["builtins.object"], Kind.OBJECT),
    "a class under another name": (
        "class A(nn.Module): ...\nB = A\nclass T(B): ...\n",
        "T A",
        ["torch.nn.Module"],
        None,
    ),
    "a class of an unknown library": ("import lib\nclass T(lib.Base): ...\n", "T", ["lib.Base"], Kind.UNKNOWN),
    "what a function makes": ("class T(make()): ...\n", "T", ["?"], Kind.UNKNOWN),
    "what is not in sight": ("class T(Base): ...\n", "T", ["?"], Kind.UNKNOWN),
    "itself": ("class T(T): ...\n", "T", ["?"], Kind.UNKNOWN),
    "one of two": (
        "class A: ...\nclass B(nn.Module): ...\nC = A if c else B\nclass T(C): ...\n",
        "T A B",
        ["torch.nn.Module"],
        Kind.MODULE,
    ),
}
ATTRIBUTES = {
    "none": ("pass", "", []),
    "of the class": ("x = 3", "x", ["3"]),
    "of an object": ("def f(self):\n        self.x = 3", "f x", ["3"]),
    "of both": ("x = 3\n    def f(self):\n        self.x = 4", "f x", ["3", "4"]),
    "with an annotation": ("def f(self):\n        self.x: int = 3", "f x", ["3"]),
    "annotated alone": ("def f(self):\n        self.x: int", "f", []),
    "unpacked": ("def f(self):\n        self.x, self.y = 3, 4", "f x y", ["3"]),
    "unpacked from one": ("def f(self):\n        self.y, self.x = g()", "f x y", ["g()[1]"]),
    "under another name of the object": ("def f(me):\n        me.x = 3", "f x", ["3"]),
    "of something else": ("def f(self, other):\n        other.x = 3", "f", []),
    "in a function within": ("def f(self):\n        def g():\n            self.x = 3", "f", []),
}


def class_named(script: Script, name: str) -> ast.ClassDef:
    return next(each for each in script.find(ast.ClassDef) if each.name == name)


@pytest.mark.parametrize("case", MADE_OF)
def test_lineage(case: str) -> None:
    text, classes, external, kind = MADE_OF[case]
    script = load(HEAD + text)
    ref = script.class_ref(class_named(script, classes.split()[0]))
    assert [each.node.name for each in lineage(ref)] == classes.split()
    assert [*external_lineage(ref)] == external
    expected = {"loss": Kind.LOSS_FUNCTION, None: Kind.MODULE}.get(kind, kind)  # type: ignore[call-overload]
    assert instance_kind(ref) is expected


@pytest.mark.parametrize("case", ATTRIBUTES)
def test_attributes(case: str) -> None:
    body, names, bound = ATTRIBUTES[case]
    script = load(f"class T:\n    {body}\n")
    found = class_info(script.class_ref(class_named(script, "T"))).attributes
    assert sorted(found) == names.split()
    values = ((each if isinstance(each, ast.expr) else each.value, path) for each, path in found.get("x", ()))
    assert [script.source(value) + "".join(f"[{step}]" for step in path) for value, path in values if value] == bound


LENT = {
    "nobody": ("T().run()\n", False),
    "an object of the class": ("T.run(T())\n", False),
    "an object of a class that derives": ("class U(T): ...\nT.run(U())\n", False),
    "an object of another class": ("class U: ...\nT.run(U())\n", True),
    "an unknown object": ("def f(proxy):\n    T.run(proxy)\n", True),
    "under another name": ("run = T.run\nrun(1)\n", True),
    "another method": ("class U: ...\nT.stop(U())\n", False),
    "a method of another class": ("class U:\n    def run(self): ...\nU.run(1)\n", False),
    "an attribute of another class": ("class U: ...\nU.run = T.run\n", True),
}


@pytest.mark.parametrize("case", LENT)
def test_methods_that_get_other_objects(case: str) -> None:
    text, expected = LENT[case]
    script = load("class T:\n    def run(self): ...\n    def stop(self): ...\n" + text)
    assert is_lent(script.class_ref(class_named(script, "T")), "run") == expected


SHOP = {
    "net.py": "class Net: ...\n",
    "engine.py": "def train(net):\n    net.loss = 1\n",
    "main.py": "import engine\nfrom net import Net\nengine.train(Net())\n",
    "apart.py": "loss = 1\n",
}


def shop(folder: Path, name: str = "net.py", bounds: Bounds | None = None, **more: str) -> Script:
    files = {**SHOP, **{f"{stem}.py": text for stem, text in more.items()}}
    for file, text in files.items():
        (folder / file).write_text(text)
    project = Project([folder / file for file in files], bounds=bounds)
    return load(files[name], folder / name, project)


def names(scripts: tuple[Script, ...]) -> list[str]:
    return [each.path.name for each in scripts if each.path]


@pytest.mark.parametrize(
    ("name", "related", "importers", "loss"),
    [
        ("net.py", ["net.py", "engine.py", "main.py"], ["main.py"], ["net.py", "engine.py"]),
        ("engine.py", ["engine.py", "main.py", "net.py"], ["main.py"], ["engine.py"]),
        ("main.py", ["main.py", "engine.py", "net.py"], [], ["main.py", "engine.py"]),
        ("apart.py", ["apart.py"], [], ["apart.py"]),
    ],
)
def test_files_that_share_objects(
    tmp_path: Path, name: str, related: list[str], importers: list[str], loss: list[str]
) -> None:
    script = shop(tmp_path, name)
    project = script.project
    assert names(project.related(script)) == related
    assert names(project.importers(script)) == importers
    assert names(project.with_word(script, "loss")) == loss
    assert [*project.texts_with_word(script, "loss")] == [SHOP[each] for each in loss]


@pytest.mark.parametrize("bounds", [Bounds(related=1), Bounds(related_characters=10), Bounds(file=10)])
def test_what_cannot_be_looked_at_is_said(tmp_path: Path, bounds: Bounds) -> None:
    script = shop(tmp_path, bounds=bounds)
    with pytest.raises(Incomplete):
        script.project.related(script)
    assert script.project.known_related(script) == (script,)


def test_too_many_files_are_not_looked_at(tmp_path: Path) -> None:
    users = {f"user{number}": "import net\nloss = 1\n" for number in range(3)}
    script = shop(tmp_path, bounds=Bounds(mentioning=3), **users)
    assert len(script.project.importer_paths(script)) == 4
    for ask in (script.project.importers, lambda each: script.project.with_word(each, "loss")):
        with pytest.raises(Incomplete):
            ask(script)
    assert len([*script.project.texts_with_word(script, "loss")]) == 5  # of these none is parsed


def test_a_file_that_does_not_parse_is_said(tmp_path: Path) -> None:
    script = shop(tmp_path, user="import net\nprint 'loss'\n")
    with pytest.raises(Incomplete, match=r"user\.py"):
        script.project.with_word(script, "loss")
    assert script.project.script(tmp_path / "user.py") is None


STARS = {
    "a function": ("from a import *\n", "f", "a.py"),
    "another name": ("from a import *\n", "g", None),
    "of a file between": ("from b import *\n", "f", "b.py"),
    "of a library": ("from torch import *\n", "f", None),
    "no star": ("import a\n", "f", None),
    "of itself": ("from main import *\n", "f", None),
    "what is listed": ("from c import *\n", "g", "c.py"),
    "what is not listed": ("from c import *\n", "f", None),
    "what is not listed by the last of two": ("from a import *\nfrom c import *\n", "f", "a.py"),
    "what is private": ("from c import *\nfrom d import *\n", "_h", None),
    "what a list that grows may hold": ("from e import *\n", "f", "e.py"),
}


@pytest.mark.parametrize("case", STARS)
def test_what_a_star_brings(tmp_path: Path, case: str) -> None:
    text, name, expected = STARS[case]
    files = {
        "a.py": "def f(): ...\nfrom b import *\n",
        "b.py": "from a import *\n",
        "c.py": "__all__ = ['g']\ndef f(): ...\ndef g(): ...\n",
        "d.py": "def _h(): ...\n",
        "e.py": "__all__ = ['g']\ndef f(): ...\n__all__ += ['f']\n",
        "main.py": text,
    }
    for file, content in files.items():
        (tmp_path / file).write_text(content)
    script = load(text, tmp_path / "main.py", Project([tmp_path / file for file in files]))
    found = script.project.star_import(script, name)
    assert (None if found is None or found[0].path is None else found[0].path.name) == expected


DIAMOND = """\
class A:
    def f(self): return 1
class B(A):
    {left}
class C(A):
    def f(self): return "c"
class T(B, C):
    def g(self): return super().f()
T().f()
T().g()
"""


@pytest.mark.parametrize(
    ("left", "call", "expected"),
    [
        ("pass", "f", {Kind.STRING}),
        ("def f(self): return 1", "f", {Kind.NUMBER}),
        ("def f(self): return super().f()", "f", {Kind.STRING, Kind.NUMBER}),
        ("pass", "g", {Kind.STRING, Kind.NUMBER}),
    ],
)
def test_which_method_is_meant(left: str, call: str, expected: set[Kind]) -> None:
    script = load(DIAMOND.format(left=left))
    found = next(each for each in script.syntax_index.calls_named(call) if script.function(each) is None)
    assert script.values(found).kinds == expected


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("from one import *\nfrom two import *\n", {Kind.STRING}),
        ("from two import *\nfrom one import *\n", {Kind.NUMBER}),
        ("x = None\nfrom one import *\n", {Kind.NUMBER, Kind.NONE}),
        ("from one import *\nx = None\n", {Kind.NONE}),
        ("from torch import x\nfrom three import *\n", {Kind.EXTERNAL}),
    ],
)
def test_names_of_star_imports(tmp_path: Path, text: str, kinds: set[Kind]) -> None:
    texts = {"one": "x = 1\n", "two": "x = 'a'\n", "three": "from four import *\n", "four": "from torch import x\n"}
    for name, each in (*texts.items(), ("main", f"{text}x\n")):
        (tmp_path / f"{name}.py").write_text(each)
    path = tmp_path / "main.py"
    script = load(path.read_text(), path, Project(sorted(tmp_path.glob("*.py"))))
    read = next(each for each in script.find(ast.Name) if isinstance(each.ctx, ast.Load))
    assert script.values(read).kinds == kinds
    assert (script.qualname(read) == "torch.x") is (Kind.EXTERNAL in kinds)
