"""Which classes derive from one, and whether these are all: over files, under whatever names the class goes there."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from autoaccel.analysis import Project, load
from autoaccel.analysis.classes import derived_classes
from autoaccel.analysis.files import Files

BASE = "class Base:\n    pass\n"

# By case: what stands behind the class in its file, other files, and the classes that derive from it.
ALL = {
    "none": ("", {"user.py": "from base import Base\nBase()\n"}, []),
    "in its own file": ("class D(Base):\n    pass\n", {}, ["D"]),
    "imported": ("", {"user.py": "from base import Base\nclass D(Base):\n    pass\n"}, ["D"]),
    "imported under another name": ("", {"user.py": "from base import Base as B\nclass D(B):\n    pass\n"}, ["D"]),
    "an attribute of the module": ("", {"user.py": "import base\nclass D(base.Base):\n    pass\n"}, ["D"]),
    "assigned to another name in its file": (
        "Old = Base\n",
        {"user.py": "from base import Old\nclass D(Old):\n    pass\n"},
        ["D"],
    ),
    "assigned with an annotation": (
        "Old: type[Base] = Base  # the old one\n",
        {"user.py": "from base import Old\nclass D(Old):\n    pass\n"},
        ["D"],
    ),
    "assigned as an attribute of a module": (
        "",
        {
            "between.py": "import names\nfrom base import Base\nnames.Old = Base\n",
            "names.py": "Old = object\n",
            "user.py": "import between, names\nclass D(names.Old):\n    pass\n",
        },
        ["D"],
    ),
    "several names": (
        "One = Two = Base\n",
        {"user.py": "from base import One, Two\nclass D(One):\n    pass\nclass E(Two):\n    pass\n"},
        ["D", "E"],
    ),
    "a tuple of names": (
        "class Other:\n    pass\nOne, Two = Other, Base\n",
        {"user.py": "from base import Two\nclass D(Two):\n    pass\n"},
        ["D"],
    ),
    "one of two classes": (
        "class Other:\n    pass\nChosen = Other if __debug__ else Base\n",
        {"user.py": "from base import Chosen\nclass D(Chosen):\n    pass\n"},
        ["D"],
    ),
    "assigned in a file between": (
        "",
        {
            "between.py": "from base import Base\nOld = Base\n",
            "user.py": "import between\nclass D(between.Old): pass\n",
        },
        ["D"],
    ),
    "assigned as an attribute in a file between": (
        "",
        {"between.py": "import base\nOld = base.Base\n", "user.py": "from between import Old\nclass D(Old): pass\n"},
        ["D"],
    ),
    "assigned where a star import brings it": (
        "",
        {"between.py": "from base import *\nOld = Base\n", "user.py": "from between import Old\nclass D(Old): pass\n"},
        ["D"],
    ),
    "by way of a derived class": (
        "class D(Base):\n    pass\nOld = D\n",
        {"user.py": "from base import Old\nclass E(Old):\n    pass\n"},
        ["D", "E"],
    ),
    "a class of the same name elsewhere": (
        "",
        {"user.py": "import base\nclass Base:\n    pass\nclass D(Base):\n    pass\n"},
        [],
    ),
    "generic": (
        "",
        {"user.py": "import base\nfrom typing import Generic, TypeVar\nT = TypeVar('T')\nclass D(Generic[T]): pass\n"},
        [],
    ),
    "a base that a library makes": (
        "",
        {"user.py": "import base\nfrom collections import namedtuple\nclass D(namedtuple('D', 'a b')): pass\n"},
        [],
    ),
    "a base out of a table": (
        "KINDS = {'b': Base}\n",
        {"user.py": "from base import KINDS\nclass D(KINDS['b']): pass\n"},
        ["D"],
    ),
}
MORE = {
    "a base that a function makes": ("", {"user.py": "import base\nclass D(base.make()): pass\n"}),
    "a base by a search path": ("", {"other/user.py": "from a.base import Base\nclass D(Base): pass\n"}),
    "made by `type`": ("", {"user.py": "from base import Base\nD = type('D', (Base,), {})\n"}),
}


def derived(folder: Path, behind: str, others: dict[str, str]) -> list[str] | None:
    files = {"base.py": BASE + behind, **others}
    paths = [folder / "a" / name for name in files]
    for path, text in zip(paths, files.values(), strict=True):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    script = load(files["base.py"], paths[0], Project(Files(paths)))
    cls = next(each for each in script.find(ast.ClassDef) if each.name == "Base")
    found = derived_classes(script.class_ref(cls))
    return None if found.missing is not None else sorted(each.node.name for each in found)


@pytest.mark.parametrize("case", ALL)
def test_these_are_all(tmp_path: Path, case: str) -> None:
    behind, others, names = ALL[case]
    assert derived(tmp_path, behind, others) == names


@pytest.mark.parametrize("case", MORE)
def test_there_may_be_more(tmp_path: Path, case: str) -> None:
    assert derived(tmp_path, *MORE[case]) is None
