"""Which branches of constructors no call takes."""

from __future__ import annotations

import ast

import pytest

from autoaccel.analysis.constructor_branches import is_never_run
from autoaccel.analysis.script import load

_DERIVED = "class Own(Trainer):\n    def __init__(self):\n        super().__init__()\n"
_BRANCHES = "if length is None:\n    a = 1\nelse:\n    b = 2"


@pytest.mark.parametrize(
    ("parameters", "body", "uses", "expected"),
    [
        ("length=None", _BRANCHES, "Trainer()", True),
        ("length=None", _BRANCHES, "Trainer()\nTrainer(length=None)", True),
        ("length=None", _BRANCHES, "Trainer()\nTrainer(3)", False),
        ("length=None", _BRANCHES, "Trainer(**options)", False),
        ("length=None", _BRANCHES, "", False),
        (
            "length=None",
            _BRANCHES,
            "class Own(Trainer):\n    pass\nOwn(3)",
            False,
        ),
        ("length", _BRANCHES, "Trainer(given)", False),
        ("length=None", f"length = length or 3\n{_BRANCHES}", "Trainer()", False),
        ("length=None", "b = 2", "Trainer()", False),
        ("length=None", _BRANCHES, "t = Trainer()\nt.__init__(3)", False),
        ("length=None", _BRANCHES, "t = Trainer()\ntype(t)(3)", False),
        ("length=None", _BRANCHES, "t = Trainer()\nprint(type(t).__name__)", True),
        ("length=None", _BRANCHES, "t = Trainer()\nprint(t.__class__.__name__)", True),
        ("length=None", _BRANCHES, "t = Trainer()\nt.__class__(3)", False),
        (
            "length=None",
            _BRANCHES,
            f"{_DERIVED}Own()",
            True,
        ),
        ("length=None", _BRANCHES, "class Own(Other, Trainer):\n    pass\nOwn()", False),
    ],
)
def test_never_run(parameters: str, body: str, uses: str, expected: bool) -> None:
    lines = "".join(f"        {line}\n" for line in body.splitlines())
    script = load(f"class Trainer:\n    def __init__(self, {parameters}):\n{lines}\n{uses}\n")
    [statement] = [each for each in script.find(ast.Assign) if script.source(each) == "b = 2"]
    assert is_never_run(script, statement) is expected
