"""Where an import goes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from autoaccel.analysis import Script
from autoaccel.edits import AddImport, Code, Finding, InsertBefore, Tier
from autoaccel.rewriting.engine import rewrite
from autoaccel.rewriting.rule import Rule
from tests.rewriting.subject import Subject


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(
            "import os\nimport torch\n\nuse()\n", "import os\nimport torch\nimport accel\n\nuse()\n", id="last import"
        ),
        pytest.param("use()\n", "import accel\n\nuse()\n", id="no imports"),
        pytest.param("", "import accel\n", id="empty"),
        pytest.param('"""Doc."""\nuse()\n', '"""Doc."""\n\nimport accel\nuse()\n', id="docstring"),
        pytest.param('"""Doc."""\n\nuse()\n', '"""Doc."""\n\nimport accel\n\nuse()\n', id="docstring and blank line"),
        pytest.param('"""Doc."""', '"""Doc."""\n\nimport accel', id="only a docstring"),
        pytest.param("# only a comment\n", "# only a comment\nimport accel\n", id="only a comment"),
        pytest.param(
            "#!/usr/bin/env python\n# -*- coding: utf-8 -*-\n# License\n\n# about use\nuse()\n",
            "#!/usr/bin/env python\n# -*- coding: utf-8 -*-\n# License\n\nimport accel\n\n# about use\nuse()\n",
            id="shebang",
        ),
        pytest.param(
            '"""Doc."""\nfrom __future__ import annotations\nuse()\n',
            '"""Doc."""\nfrom __future__ import annotations\nimport accel\nuse()\n',
            id="future",
        ),
        pytest.param(
            "import os\nos.environ['A'] = '1'\nimport torch  # why\nimport matplotlib\nmatplotlib.use('Agg')\n"
            "import plt\n__version__ = '1'\nx = 1\nimport late\nuse()\n",
            "import os\nos.environ['A'] = '1'\nimport torch  # why\nimport matplotlib\nmatplotlib.use('Agg')\n"
            "import plt\nimport accel\n__version__ = '1'\nx = 1\nimport late\nuse()\n",
            id="settings between imports",
        ),
        pytest.param(
            "import a\ntry:\n    import b\nexcept ImportError:\n    b = None\n\nuse()\n",
            "import a\ntry:\n    import b\nexcept ImportError:\n    b = None\nimport accel\n\nuse()\n",
            id="tried import",
        ),
        pytest.param(
            "import a\n\ndef f():\n    import b\n    use()\n",
            "import a\nimport accel\n\ndef f():\n    import b\n    use()\n",
            id="never in a function",
        ),
        pytest.param("import a\nuse()\nimport b\n", "import a\nimport accel\nuse()\nimport b\n", id="before its use"),
        pytest.param("import accel\nuse()\n", "import accel\nuse()\n", id="made already"),
        pytest.param(
            "import accel as a\nuse()\n", "import accel as a\nimport accel\nuse()\n", id="made under another name"
        ),
        pytest.param("import a; import b\nuse()\n", "import a; import b\nimport accel\nuse()\n", id="two in a line"),
        pytest.param("import a; x = 1\nuse()\n", "import a\nimport accel\nx = 1\nuse()\n", id="more on the line"),
        pytest.param(
            "from a import (\n    b,\n    c,  # why\n)\nuse()\n",
            "from a import (\n    b,\n    c,  # why\n)\nimport accel\nuse()\n",
            id="over lines",
        ),
        pytest.param("import a\r\nuse()\r\n", "import a\r\nimport accel\r\nuse()\r\n", id="crlf"),
        pytest.param("import a\n\f\nuse()\n", "import a\nimport accel\n\f\nuse()\n", id="form feed"),
    ],
)
def test_place(before: str, after: str) -> None:
    under = Subject(before)
    edits = [AddImport("accel")]
    assert under.rewritten(under.finding(*edits), under.finding(AddImport("accel"), code="AA002")) == after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(
            "import os\n\nimport torch\nfrom torch import nn\nfrom tqdm import tqdm\n\nfrom .net import Net\n",
            "import os\n\nimport torch\nfrom a import b\nfrom torch import nn\nfrom tqdm import tqdm\n\n"
            "from .net import Net\n",
            id="among those of torch",
        ),
        pytest.param(
            "import os\n\nimport torch  # why\n\nimport own\n",
            "import os\n\nimport torch  # why\nfrom a import b\n\nimport own\n",
            id="below its section",
        ),
        pytest.param(
            "import numpy\nimport torch\nfrom torch import nn\n",
            "import numpy\nimport torch\nfrom a import b\nfrom torch import nn\n",
            id="one section",
        ),
        pytest.param(
            "import os\nimport torch\nfrom torch import nn\n",
            "import os\nimport torch\nfrom torch import nn\nfrom a import b\n",
            id="one section for all kinds",
        ),
        pytest.param(
            "import torch\nimport os\n\nfrom .net import Net\nfrom . import data\n",
            "import torch\nimport os\nfrom a import b\n\nfrom .net import Net\nfrom . import data\n",
            id="unsorted, above the package's own",
        ),
        pytest.param(
            "import torch\nimport os\nfrom .net import Net\nimport numpy\n",
            "import torch\nimport os\nfrom .net import Net\nimport numpy\nfrom a import b\n",
            id="unsorted, the package's own not at the end",
        ),
        pytest.param(
            "import torch\nimport os\n\nfrom .net import *\nfrom . import data\n",
            "import torch\nimport os\n\nfrom .net import *\nfrom . import data\nfrom a import b\n",
            id="unsorted, not before what may bind any name",
        ),
        pytest.param(
            "import os\n\nfrom . import net\nimport torch\nfrom . import data\n",
            "import os\n\nfrom . import net\nimport torch\nfrom a import b\nfrom . import data\n",
            id="unsorted, below torch",
        ),
        pytest.param(
            "import os\n\nfrom torch import nn\nimport torch\n",
            "import os\n\nfrom torch import nn\nimport torch\nfrom a import b\n",
            id="unsorted",
        ),
        pytest.param(
            "import os\n\nfrom comet_ml import x\nfrom torch import nn\n",
            "import os\n\nfrom comet_ml import x\nfrom torch import nn\nfrom a import b\n",
            id="not before torch",
        ),
        pytest.param(
            "import torch\nfrom torch import nn\n\nfrom own import *\n",
            "import torch\nfrom torch import nn\n\nfrom own import *\nfrom a import b\n",
            id="not before what may bind any name",
        ),
        pytest.param(
            "import torch\nfrom torch import nn\n\nos.environ['A'] = '1'\nimport own\n",
            "import torch\nfrom torch import nn\n\nos.environ['A'] = '1'\nimport own\nfrom a import b\n",
            id="not before settings",
        ),
    ],
)
def test_place_among_sorted_imports(before: str, after: str) -> None:
    under = Subject(f"{before}\n\nuse()\n")
    assert under.rewritten(under.finding(AddImport("a", "b"))) == f"{after}\n\nuse()\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("import numpy\nfrom torch import nn\n", "import numpy\nimport torch\nfrom torch import nn\n"),
        (
            "import numpy\nfrom a import b\nfrom torch import nn\n",
            "import numpy\nfrom a import b\nfrom torch import nn\nimport torch\n",
        ),
        (
            "import numpy\nimport yaml\nfrom torch import nn\n",
            "import numpy\nimport yaml\nfrom torch import nn\nimport torch\n",
        ),
        ("from torch import nn\nimport numpy\n", "from torch import nn\nimport numpy\nimport torch\n"),
    ],
    ids=["above what is taken from it", "not before another library", "not before its section", "unsorted"],
)
def test_place_of_torch_itself(before: str, after: str) -> None:
    under = Subject(f"{before}\n\nuse()\n")
    assert under.rewritten(under.finding(AddImport("torch"))) == f"{after}\n\nuse()\n"


def test_an_import_precedes_its_first_use() -> None:
    under = Subject("import a\nsys.path.append(f())\nimport b\nx = 1\n")
    finding = under.finding(AddImport("accel"), InsertBefore(under.stmt("sys.path"), Code("accel.g()")))
    assert under.rewritten(finding) == ("import a\nimport accel\naccel.g()\nsys.path.append(f())\nimport b\nx = 1\n")


def test_several_imports() -> None:
    """`import a` stands before `from a import b`, whatever asked first."""
    under = Subject("x = 1\n")
    finding = under.finding(
        AddImport("torch"), AddImport("autoaccel", "runtime", "accel"), AddImport("numpy", None, "np")
    )
    assert under.rewritten(finding) == (
        "import torch\nimport numpy as np\nfrom autoaccel import runtime as accel\n\nx = 1\n"
    )


def test_above_the_imports_of_files_beside_the_script(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text("from torch import nn\n\n\nclass Net(nn.Module): ...\n")
    before = "import torch\nimport argparse\nimport torch.nn as nn\n\nfrom model import Net\nnet = Net()\n"
    rule = Rule(code="AA001", name="toy", tier=Tier.EXACT, needles=(b"Net()",))

    @rule.check
    def check(script: Script) -> Iterator[Finding]:
        if "accel" not in script.used_names:
            yield rule.finding(script.tree.body[-1], "toy", *script.import_runtime)

    result = rewrite(before, tmp_path / "train.py", [rule])
    assert not result.errors
    assert result.after == before.replace("as nn\n", "as nn\nfrom autoaccel import runtime as accel\n")
