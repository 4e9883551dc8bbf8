"""What tests of types say: the classes behind `issubclass`, and what is none of a tensor."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.analysis.test_computed_members import said

BASE = "class Base: ...\nclass Near(Base): ...\nclass Far(Near): ...\nclass Other: ...\n"
FIND = "{before}def find(library, name):\n    {body}\nfind(library, name)\n"
LOOP = "for key, cls in library.__dict__.items():\n        "
BELOW = ["Base", "Far", "Near"]

# By case: the body of the function whose result is asked for, and the classes that this may be; None: anything.
CASES = {
    "the table of a module": (LOOP + "if key == name and issubclass(cls, Base):\n            return cls", BELOW),
    "a name for what is found": (
        f"found = None\n    {LOOP}if issubclass(cls, Base):\n            found = cls\n    return found",
        [*BELOW, "none"],
    ),
    "vars": (
        "for key, cls in vars(library).items():\n        if issubclass(cls, Near):\n            return cls",
        ["Far", "Near"],
    ),
    "an expression": ("return library if issubclass(library, Near) else Other", ["Far", "Near", "Other"]),
    "a comprehension": (
        "return [cls for key, cls in vars(library).items() if isinstance(cls, type) and issubclass(cls, Near)][0]",
        ["Far", "Near"],
    ),
    "another branch": (
        LOOP + "if issubclass(cls, Base):\n            pass\n        else:\n            return cls",
        None,
    ),
    "no test": (LOOP + "if key == name:\n            return cls", None),
    "one of two tests": (LOOP + "if key == name or issubclass(cls, Base):\n            return cls", None),
    "the opposite": (LOOP + "if not issubclass(cls, Base):\n            return cls", None),
    "another name": (LOOP + "if issubclass(key, Base):\n            return cls", None),
    "several classes": (LOOP + "if issubclass(cls, (Base, Other)):\n            return cls", None),
    "a class of a library": (LOOP + "if issubclass(cls, lib.Base):\n            return cls", None),
    "bound anew": (LOOP + "if issubclass(cls, Base):\n            cls = wrap(cls)\n            return cls", None),
    "bound anew in a branch": (
        LOOP + "if issubclass(cls, Base):\n            if key: cls = wrap(cls)\n            return cls",
        None,
    ),
    "bound anew before the next turn": (
        "cls = library\n    while True:\n        if issubclass(cls, Near): return cls\n        cls = wrap(cls)",
        ["Far", "Near"],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_classes_behind_a_test(tmp_path: Path, case: str) -> None:
    body, expected = CASES[case]
    assert said(tmp_path, FIND.format(before=BASE, body=body), {}) == expected


def test_classes_in_other_files(tmp_path: Path) -> None:
    text = FIND.format(before="from base import Base\n", body=CASES["the table of a module"][0])
    files = {"base.py": "class Base: ...\n", "own.py": "from base import Base\nclass Own(Base): ...\n"}
    assert said(tmp_path, text, files) == ["Base", "Own"]


def test_classes_that_are_made_while_it_runs(tmp_path: Path) -> None:
    text = FIND.format(before=BASE + "made = type('Made', (Base,), {})\n", body=CASES["the table of a module"][0])
    assert said(tmp_path, text, {}) is None


SCALE = "import numpy as np\nimport torch\ndef scale(x):\n    return {expression}\nscale({given})\n"


@pytest.mark.parametrize(
    ("expression", "given", "expected"),
    [
        ("x.float() if torch.is_tensor(x) else x", "np.ones(3)", ["numpy.ones"]),
        ("torch.zeros(3) if isinstance(x, torch.Tensor) else x", "np.ones(3)", ["numpy.ones"]),
        ("torch.zeros(3) if torch.is_tensor(x) else x", "torch.ones(3)", ["torch.ones", "torch.zeros"]),
        ("torch.zeros(3) if torch.is_tensor(x) else x", "unknown", None),
        ("torch.zeros(3) if isinstance(x, np.ndarray) else x", "np.ones(3)", ["numpy.ones", "torch.zeros"]),
        ("torch.zeros(3) if torch.is_tensor(x) else x", "np.ones(3))\nscale(unknown", None),
    ],
)
def test_what_is_no_tensor(tmp_path: Path, expression: str, given: str, expected: list[str] | None) -> None:
    assert said(tmp_path, SCALE.format(expression=expression, given=given), {}) == expected
