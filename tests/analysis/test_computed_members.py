"""What is looked up by a name that a program computes: one of all that a module has, or anything."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from autoaccel.analysis import Project, load
from autoaccel.dataflow.bounds import Bounds
from autoaccel.dataflow.completeness import Incomplete

NETS = """\
import math
import torch
import torch.nn as nn
import torch.nn.functional as F


class Net(nn.Module):
    def __init__(self, classes=10):
        super().__init__()
        self.fc = nn.Linear(2, classes)


class Deep(Net):
    pass


def make(classes=10, **kwargs):
    return Deep(classes)
"""
ORDERED = "from collections import OrderedDict\n"
SHOWN = "def show():\n    print(Net())\n"
SWISH = "def swish(x):\n    return x * torch.sigmoid(x)\n"
OF_PACKAGE = "from .nets import *\n"
OF_CONFIG = """\
class Config:
    def __init__(self, known):
        self.known = known

    def make(self, name, module, *args):
        kind = self.known[name]["type"]
        return getattr(module, kind)(*args, **self.known[name]["args"])
"""
MAKE = "from config import Config\nimport nets\nimport torch\n"
ALL = ["Deep", "Net"]

# By case: the last line's expression, what stands before it, the files around, and what it may be; None: anything.
MEMBERS = {
    "getattr": ("getattr(nets, name)(classes=3)", "import nets\n", {"nets.py": NETS}, ALL),
    "the table of a module": ("nets.__dict__[name](classes=3)", "import nets\n", {"nets.py": NETS}, ALL),
    "vars": ("vars(nets)[name](classes=3)", "import nets\n", {"nets.py": NETS}, ALL),
    "a package": ("getattr(models, name)(3)", "import models\n", {"models/nets.py": NETS}, ALL),
    "a name that is told": ("getattr(nets, name)(3)", "import nets\nname = 'Net'\n", {"nets.py": NETS}, ["Net"]),
    "one of two that are told": (
        "getattr(nets, name)(3)",
        "import nets\nname = 'Net' if x else 'Deep'\n",
        {"nets.py": NETS},
        ALL,
    ),
    "a name that is there not": ("getattr(nets, name)(3)", "import nets\nname = 'New'\n", {"nets.py": NETS}, None),
    "what does not take the arguments": (
        "getattr(nets, name)(classes=3)",
        "import nets\n",
        {"nets.py": NETS + SWISH},
        ALL,
    ),
    "what takes them": ("getattr(nets, name)(3)", "import nets\n", {"nets.py": NETS + SWISH}, [*ALL, "tensor"]),
    "what raises without a function": (
        "getattr(nets, name)(classes=3)",
        "import nets\n",
        {"nets.py": "from functools import partial\n" + NETS},
        ALL,
    ),
    "what may be given one": (
        "getattr(nets, name)(other)",
        "import nets\n",
        {"nets.py": "from functools import partial\n" + NETS},
        None,
    ),
    "what gives nothing": ("getattr(nets, name)()", "import nets\n", {"nets.py": NETS + SHOWN}, [*ALL, "none"]),
    "a plain object": (
        "getattr(nets, name)()",
        "import nets\n",
        {"nets.py": NETS + ORDERED},
        [*ALL, "collections.OrderedDict"],
    ),
    "no plain object, as it is moved": (
        "model",
        "import nets\nmodel = getattr(nets, name)()\nmodel.cuda()\n",
        {"nets.py": NETS + ORDERED},
        ALL,
    ),
    "moved by one branch": (
        "model",
        "import nets\nmodel = getattr(nets, name)()\nif x:\n    model.cuda()\n",
        {"nets.py": NETS + ORDERED},
        [*ALL, "collections.OrderedDict"],
    ),
    "code out of sight": (
        "getattr(nets, name)(3)",
        "import nets\n",
        {"nets.py": NETS + "from timm import create\n"},
        None,
    ),
    "a value that is not known": ("getattr(nets, name)(3)", "import nets\n", {"nets.py": NETS + "best = f()\n"}, None),
    "a name given from outside": (
        "getattr(nets, name)(3)",
        "import nets\nclass Own: ...\nnets.Own = lambda classes: Own()\n",
        {"nets.py": NETS},
        None,
    ),
    "a class given from outside": (
        "getattr(nets, name)(classes=3)",
        "import nets\nclass Own:\n    def __init__(self, classes): ...\nnets.Own = Own\n",
        {"nets.py": NETS},
        [*ALL, "Own"],
    ),
    "names given from outside": (
        "getattr(nets, name)(3)",
        "import nets, own\nfor name in dir(own):\n    nets.__dict__[name] = getattr(own, name)\n",
        {"nets.py": NETS, "own.py": ""},
        None,
    ),
    "names by setattr": ("getattr(nets, name)(3)", "import nets\nsetattr(nets, key, value)\n", {"nets.py": NETS}, None),
    "names that it makes itself": (
        "getattr(nets, name)(3)",
        "import nets\n",
        {"nets.py": NETS + "for size in (1, 2):\n    globals()[f'Net{size}'] = make\n"},
        None,
    ),
    "names that it only reads": (
        "getattr(nets, name)(classes=3)",
        "import nets\n",
        {"nets.py": NETS + "def build(name):\n    return globals()[name]()\n"},
        ALL,
    ),
    "names on demand": (
        "getattr(nets, name)(3)",
        "import nets\n",
        {"nets.py": NETS + "def __getattr__(n): ...\n"},
        None,
    ),
    "text that is run": ("getattr(nets, name)(3)", "import nets\n", {"nets.py": NETS + "exec(source)\n"}, None),
    "a star import of a library": (
        "getattr(nets, name)(3)",
        "import nets\n",
        {"nets.py": NETS + "from timm.models import *\n"},
        None,
    ),
    "names that are not listed": (
        "getattr(models, name)(3)",
        "import models\n",
        {"models/nets.py": NETS + SWISH + "__all__ = ['Net']\n"},
        ["Net"],
    ),
    "a list that grows": (
        "getattr(models, name)(3)",
        "import models\n",
        {"models/nets.py": NETS + SWISH + "__all__ = ['Net']\n__all__ += more\n"},
        [*ALL, "tensor"],
    ),
    "a private name": (
        "getattr(nets, name)(3)",
        "import nets\n",
        {"nets.py": NETS + SWISH.replace("swish", "_f")},
        [*ALL, "tensor"],
    ),
    "a default": ("getattr(nets, name, None)(3)", "import nets\n", {"nets.py": NETS}, None),
    "a member of an object": ("getattr(nets.Net(), name)(3)", "import nets\n", {"nets.py": NETS}, None),
    "the parameter of a helper": (
        "Config(known).make('arch', nets)",
        MAKE,
        {"nets.py": NETS, "config.py": OF_CONFIG},
        ALL,
    ),
    "another module for the same helper": (
        "Config(known).make('optimizer', torch.optim.lr_scheduler, x)",
        MAKE + "model = Config(known).make('arch', nets)\n",
        {"nets.py": NETS, "config.py": OF_CONFIG},
        ["scheduler"],
    ),
    "a helper that is handed what is not known": (
        "Config(known).make('arch', module)",
        MAKE,
        {"nets.py": NETS, "config.py": OF_CONFIG},
        None,
    ),
    "a helper whose parameter is bound anew": (
        "Config(known).make('arch', nets)",
        MAKE,
        {
            "nets.py": NETS,
            "config.py": OF_CONFIG.replace("        kind", "        module = find(module)\n        kind"),
        },
        None,
    ),
    "a model of torchvision": (
        "models.__dict__[name](pretrained=True)",
        "from torchvision import models\n",
        {},
        ["torchvision.models.<any>"],
    ),
    "models that a program adds": (
        "models.__dict__[name](pretrained=True)",
        "from torchvision import models\nimport own\nfor k in dir(own):\n    models.__dict__[k] = getattr(own, k)\n",
        {"own.py": ""},
        None,
    ),
    "a model that a program adds": (
        "models.__dict__[name]()",
        "from torchvision import models\nmodels.own = make\n",
        {},
        None,
    ),
    "names of another library": ("getattr(timm, name)()", "import timm\n", {}, None),
}
IMPORT = "from importlib import import_module\n"
BY_IMPORT = "import importlib\nx = importlib.import_module({})\n"
SHALLOW = {"models/shallow.py": NETS.replace("Deep", "Shallow"), "models/parts.py": SWISH}
TWO = {"models/nets.py": NETS, **SHALLOW}
OTHER = {"data/nets.py": "class Deep:\n    pass\n"}
IMPORTED = {
    "a sum": ("x.Deep()", BY_IMPORT.format("'models.' + name"), TWO, ["Deep"]),
    "of both": ("x.make()", BY_IMPORT.format("'models.' + name"), TWO, ["Deep", "Shallow"]),
    "a formatted text": ("x.Deep()", BY_IMPORT.format("f'models.{name}'"), TWO, ["Deep"]),
    "a template": ("x.Deep()", BY_IMPORT.format("'models.{}'.format(name)"), TWO, ["Deep"]),
    "an old template": ("x.Deep()", BY_IMPORT.format("'models.%s' % name"), TWO, ["Deep"]),
    "a longer start": ("x.Net()", BY_IMPORT.format("'models.sh' + name"), TWO, ["Net"]),
    "a text with a name": ("x.Deep()", "place = 'models.' + name\n" + BY_IMPORT.format("place"), TWO, ["Deep"]),
    "within a package": ("x.Deep()", BY_IMPORT.format("'.' + name, package='models'"), TWO, ["Deep"]),
    "at once": ("import_module('models.' + name).Deep()", IMPORT, TWO, ["Deep"]),
    "and a lookup": ("getattr(import_module('models.' + name), 'Deep')()", IMPORT, TWO, ["Deep"]),
    "no other package": ("x.Deep()", BY_IMPORT.format("'models.' + name"), {**TWO, **OTHER}, ["Deep"]),
    "any module": ("x.Deep()", BY_IMPORT.format("name"), TWO, None),
    "any package": ("x.Deep()", BY_IMPORT.format("'models' + name"), TWO, None),
    "what begins with a name": ("x.Deep()", BY_IMPORT.format("kind + '.' + name"), TWO, None),
    "of a package that is computed": ("x.Deep()", BY_IMPORT.format("'.' + name, package=kind"), TWO, None),
    "of the package above": ("x.Deep()", BY_IMPORT.format("'..' + name, package='models'"), TWO, None),
    "a library's": ("x.Deep()", BY_IMPORT.format("'timm.' + name"), TWO, None),
    "one that may have any name": (
        "x.Deep()",
        BY_IMPORT.format("'models.' + name"),
        {**TWO, "models/more.py": "globals().update(found)\n"},
        None,
    ),
    "by another name": (
        "x.Deep()",
        "from importlib import import_module as load\nx = load('models.' + name)\n",
        TWO,
        None,
    ),
    "a module that gets another name": (
        "x.Deep()",
        BY_IMPORT.format("'models.' + name"),
        {**TWO, "models/more.py": "import sys\nsys.modules[__name__ + '.new'] = new\n"},
        None,
    ),
    "a package of several folders": (
        "x.Deep()",
        BY_IMPORT.format("'models.' + name"),
        {**TWO, "models/more.py": "from models import __path__\n__path__.append('plugins')\n"},
        None,
    ),
    "one that another file gives the name": (
        "x.Deep()",
        "import models.parts\nmodels.parts.Deep = make\n" + BY_IMPORT.format("'models.' + name"),
        TWO,
        None,
    ),
}


@pytest.mark.parametrize("case", MEMBERS)
def test_what_a_lookup_gives(tmp_path: Path, case: str) -> None:
    expression, before, files, expected = MEMBERS[case]
    assert said(tmp_path, f"{before}{expression}\n", files) == (None if expected is None else sorted(expected))


@pytest.mark.parametrize("case", IMPORTED)
def test_what_an_import_gives(tmp_path: Path, case: str) -> None:
    expression, before, files, expected = IMPORTED[case]
    assert said(tmp_path, f"{before}{expression}\n", files) == (None if expected is None else sorted(expected))


def test_more_names_than_are_looked_at(tmp_path: Path) -> None:
    text = "import nets\ngetattr(nets, name)(classes=3)\n"
    assert said(tmp_path, text, {"nets.py": NETS}, Bounds(members=7)) == sorted(ALL)
    with pytest.raises(Incomplete, match="among more than are looked at"):
        said(tmp_path, text, {"nets.py": NETS}, Bounds(members=6))


def said(folder: Path, text: str, files: dict[str, str], bounds: Bounds | None = None) -> list[str] | None:
    """The classes, libraries' names or kinds of the expression on the last line; None where it may be anything."""
    texts = {"main.py": text, **files}
    if "models/nets.py" in files:
        texts["models/__init__.py"] = OF_PACKAGE
    for name, each in texts.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(each)
    script = load(text, folder / "main.py", Project(sorted(folder.rglob("*.py")), bounds=bounds))
    last = script.tree.body[-1]
    assert isinstance(last, ast.Expr)
    values = script.values(last.value)
    if any(each.kind.value == "unknown" for each in values):
        return None
    of_optim = {each.kind.value for each in values} & {"scheduler", "optimizer"}
    return sorted(of_optim or {each.cls.node.name if each.cls else each.name or each.kind.value for each in values})
