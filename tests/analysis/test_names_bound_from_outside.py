"""What other files put in the place of a module's functions and of a class's methods."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from autoaccel.analysis import Project, Script, load
from autoaccel.analysis.bound_receivers import is_bound
from autoaccel.analysis.files import Files

ENGINE = """\
def log(x):
    pass


class Loop:
    def note(self, x):
        pass

    def run(self, x):
        log(x)
        self.note(x)
"""

# By case: another file that imports `engine`, and the functions that `log(x)` may enter then; None where any may be.
LOG = {
    "nobody": ("import engine\nprint(engine.log)\n", ["log"]),
    "an attribute of the module": ("import engine\ndef mine(x): ...\nengine.log = mine\n", ["log", "mine"]),
    "one of several": ("import engine\ndef mine(x): ...\nengine.log, x = mine, 1\n", ["log", "mine"]),
    "one of several over lines": (
        "import engine\ndef mine(x): ...\n(\n    engine.log,\n    x,\n) = (mine, 1)\n",
        ["log", "mine"],
    ),
    "by a loop": ("import engine\ndef mine(x): ...\nfor engine.log in [mine]: pass\n", ["log", "mine"]),
    "by a loop over pairs": (
        "import engine\ndef mine(x): ...\nfor i, engine.log in [(1, mine)]: pass\n",
        ["log", "mine"],
    ),
    "by a context": ("import engine\nimport tools\nwith tools.opened('x') as engine.log: pass\n", None),
    "one of the arguments": ("import engine\nprint(\n    engine.log, sep='')\n", ["log"]),
    "under another name": ("import engine as e\ndef mine(x): ...\ne.log = mine\n", ["log", "mine"]),
    "by setattr": ("import engine\ndef mine(x): ...\nsetattr(engine, 'log', mine)\n", ["log", "mine"]),
    "by a computed name": ("import engine\ndef mine(x): ...\nfor n in dir():\n    setattr(engine, n, mine)\n", None),
    "a module that is handed on": (
        "import engine\ndef mine(x): ...\ndef install(module):\n    module.log = mine\ninstall(engine)\n",
        ["log", "mine"],
    ),
    "an object out of sight": (
        "import engine\ndef mine(x): ...\ndef install(unknown):\n    unknown.log = mine\n",
        ["log"],
    ),
    "an attribute of something else": ("import engine\nclass A: ...\nA.log = print\nA().log = print\n", ["log"]),
    "an attribute that only looks alike": ("import engine\nengine.log == 1\nengine.logs = 2\n", ["log"]),
}
NOTE = {
    "nobody": ("import engine\n", [("note", True)]),
    "an attribute of the class": (
        "import engine\ndef mine(self, x): ...\nengine.Loop.note = mine\n",
        [("note", True), ("mine", True)],
    ),
    "an attribute of an instance": (
        "import engine\ndef mine(x): ...\nloop = engine.Loop()\nloop.note = mine\n",
        [("note", True), ("mine", False)],
    ),
}


def engine(folder: Path, other: str) -> Script:
    files = {"engine.py": ENGINE, "other.py": other}
    for name, text in files.items():
        (folder / name).write_text(text)
    paths = [folder / name for name in files]
    return load(ENGINE, paths[0], Project(Files(paths)))


def call_of(script: Script, source: str) -> ast.Call:
    return next(each for each in script.find(ast.Call) if script.source(each.func) == source)


@pytest.mark.parametrize("case", LOG)
def test_functions(tmp_path: Path, case: str) -> None:
    other, names = LOG[case]
    script = engine(tmp_path, other)
    call = call_of(script, "log")
    if names is None:
        assert any(value.kind.name == "UNKNOWN" for value in script.inference.possible(call.func))
    else:
        assert [function.name for _, function in script.callees(call)] == names


@pytest.mark.parametrize("case", NOTE)
def test_methods(tmp_path: Path, case: str) -> None:
    other, expected = NOTE[case]
    script = engine(tmp_path, other)
    call = call_of(script, "self.note")
    bound = [(each.name, is_bound(home, each, script, call)) for home, each in script.callees(call)]
    assert bound == expected
