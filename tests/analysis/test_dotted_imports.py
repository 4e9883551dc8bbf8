"""Names that stand for what a package's modules hold: `import models.resnet`, `models.resnet.ResNet()`."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from autoaccel.analysis import Kind, Project, load

HOME = Path("/home/user/project")
NET = "import torch.nn as nn\n\nclass Net(nn.Module):\n    pass\n"


def kind_of_last(main: str, **files: str) -> Kind | None:
    """The kind of the expression on the last line of a script; `models__init` for `models/__init__.py`."""
    paths = {name.replace("__", "/", 1).replace("/init", "/__init__") + ".py": text for name, text in files.items()}
    texts = {HOME / path: text for path, text in {**paths, "main.py": main}.items()}
    script = load(main, HOME / "main.py", Project(texts, texts))
    last = script.tree.body[-1]
    assert isinstance(last, ast.Expr)
    return script.kind(last.value)


@pytest.mark.parametrize("package", [{}, {"models__init": ""}, {"models__init": "VERSION = 1\n"}])
@pytest.mark.parametrize(
    "main",
    [
        pytest.param("import models.net\nmodels.net.Net()\n", id="one"),
        pytest.param("import models.net\nimport models.other\nmodels.net.Net()\n", id="two of a package"),
        pytest.param("import models.net\nmake = models.net.Net\nmake()\n", id="alias"),
        pytest.param("import models.net as net\nnet.Net()\n", id="under a name"),
        pytest.param("import models.net\ngetattr(models.net, name)()\n", id="looked up"),
    ],
)
def test_a_class_of_a_module(main: str, package: dict[str, str]) -> None:
    assert kind_of_last(main, models__net=NET, models__other="", **package) is Kind.MODULE


@pytest.mark.parametrize(
    ("main", "package", "kind"),
    [
        pytest.param("import models.net\nmodels.net()\n", "from models.build import net\n", Kind.OPTIMIZER, id="bound"),
        pytest.param("import models.net\nmodels.net.Net()\n", "from .build import *\n", None, id="star that has it"),
        pytest.param("import models.net\nmodels.net.Net()\n", "from .net import *\n", Kind.MODULE, id="star"),
        pytest.param("import models.net\nmodels.other.Net()\n", "", None, id="no such module"),
        pytest.param("import models.net\nmodels.net.Other()\n", "", None, id="no such class"),
        pytest.param("import models.net\nmodels.net = load()\nmodels.net.Net()\n", "", None, id="replaced"),
        pytest.param(
            "import models\nmodels.net.Net()\n", "def __getattr__(name): return load(name)\n", None, id="asked for"
        ),
        pytest.param("import xml.dom\nxml.dom.Net()\n", "", None, id="library"),
    ],
)
def test_what_a_package_has(main: str, package: str, kind: Kind | None) -> None:
    build = "import torch\n\ndef net():\n    return torch.optim.SGD([], lr=1)\n"
    assert kind_of_last(main, models__net=NET, models__build=build, models__init=package) is kind
