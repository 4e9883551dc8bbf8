"""What names stand for that a file gets from libraries by the star import of another file."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from autoaccel.analysis import load

IMPORTS = "import torch\nimport numpy as np\nfrom torch.utils.data import DataLoader\n"
READ = "x = DataLoader\n"
FOLLOWED = {
    "by a star": (IMPORTS, f"from tools import *\n{READ}", "torch.utils.data.DataLoader"),
    "an attribute": (IMPORTS, "from tools import *\nx = torch.utils.data.DataLoader\n", "torch.utils.data.DataLoader"),
    "under another name": (IMPORTS, "from tools import *\nx = np.zeros\n", "numpy.zeros"),
    "in a function": (IMPORTS, f"from tools import *\ndef f():\n    {READ}", "torch.utils.data.DataLoader"),
    "listed": (f"__all__ = ['DataLoader']\n{IMPORTS}", f"from tools import *\n{READ}", "torch.utils.data.DataLoader"),
    "over two files": ("from more import *\n", f"from tools import *\n{READ}", "torch.utils.data.DataLoader"),
    "from two files": (IMPORTS, f"from other import *\nfrom tools import *\n{READ}", "torch.utils.data.DataLoader"),
}
UNKNOWN = {
    "not listed": (f"__all__ = ['torch']\n{IMPORTS}", f"from tools import *\n{READ}"),
    "bound again": (f"{IMPORTS}class DataLoader:\n    pass\n", f"from tools import *\n{READ}"),
    "imported as a fallback": (
        f"{IMPORTS}try:\n    from fast import DataLoader\nexcept ImportError:\n    pass\n",
        f"from tools import *\n{READ}",
    ),
    "deleted": (f"{IMPORTS}del DataLoader\n", f"from tools import *\n{READ}"),
    "bound by a function": (
        f"{IMPORTS}def f():\n    global DataLoader\n    DataLoader = None\n",
        f"from tools import *\n{READ}",
    ),
    "of a file of the project": ("from more import Loader as DataLoader\n", f"from tools import *\n{READ}"),
    "below a star of a library": (IMPORTS, f"from tools import *\nfrom torch.nn import *\n{READ}"),
    "the file there has a star of a library": (f"from torch.nn import *\n{IMPORTS}", f"from tools import *\n{READ}"),
    "below a star that has another": (IMPORTS, f"from tools import *\nfrom own import *\n{READ}"),
    "above a star that has another": (IMPORTS, f"from own import *\nfrom tools import *\n{READ}"),
    "bound here as well": (IMPORTS, f"from tools import *\nif x:\n    DataLoader = None\n{READ}"),
    "a parameter somewhere": (IMPORTS, f"from tools import *\ndef f(DataLoader):\n    pass\n{READ}"),
    "a conditional star": (IMPORTS, f"if x:\n    from tools import *\n{READ}"),
    "names computed there": (f"{IMPORTS}globals()[name] = x\n", f"from tools import *\n{READ}"),
    "private": ("from torch.utils.data import DataLoader as _Loader\n", "from tools import *\nx = _Loader\n"),
    "a builtin": ("from torch import sum\n", "from tools import *\nx = sum\n"),
    "a module of the project by that name": ("import local\n", "from tools import *\nx = local.zeros\n"),
}
OTHERS = {
    "more.py": f"{IMPORTS}class Loader:\n    pass\n",
    "own.py": "class DataLoader:\n    pass\n",
    "other.py": "import torch\nclass Net(torch.nn.Module):\n    pass\n",
    "local.py": "zeros = 0\n",
}


def _named(folder: Path, tools: str, text: str) -> str | None:
    for name, content in {**OTHERS, "tools.py": tools, "train.py": text}.items():
        (folder / name).write_text(content)
    script = load(text, folder / "train.py")
    *_, assigned = script.find(ast.Assign)
    return script.qualname(assigned.value)


@pytest.mark.parametrize(("tools", "text", "expected"), FOLLOWED.values(), ids=FOLLOWED)
def test_names_that_are_followed(tmp_path: Path, tools: str, text: str, expected: str) -> None:
    assert _named(tmp_path, tools, text) == expected


@pytest.mark.parametrize(("tools", "text"), UNKNOWN.values(), ids=UNKNOWN)
def test_names_that_may_be_anything(tmp_path: Path, tools: str, text: str) -> None:
    assert _named(tmp_path, tools, text) is None


def test_calls_and_spellings(tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text(IMPORTS)
    script = load("from tools import *\nx = torch.zeros(3)\ny = DataLoader(x)\n", tmp_path / "train.py")
    assert [call.lineno for call in script.calls("torch.utils.data.DataLoader")] == [3]
    assert script.spell("torch.no_grad") == ("torch.no_grad", ())
    (call,) = script.calls("torch.zeros")
    assert not script.is_project_name(call.func)
