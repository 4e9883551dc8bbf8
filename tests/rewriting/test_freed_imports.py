"""Imports that lose their last use to a rewrite."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from autoaccel.analysis import Project, Script
from autoaccel.edits import Code, Finding, Replace, Tier
from autoaccel.rewriting.engine import rewrite
from autoaccel.rewriting.rule import Rule


def rule() -> Rule:
    """Replaces every call of `math.sqrt` or `sqrt`."""
    made = Rule(code="AA001", name="toy", tier=Tier.EXACT, needles=(b"sqrt",))

    @made.check
    def check(script: Script) -> Iterator[Finding]:
        for call in script.find(ast.Call):
            if ast.unparse(call.func).endswith("sqrt"):
                yield made.finding(call, "toy", Replace(call, Code("{0} ** 0.5", (call.args[0],))))

    return made


def rewritten(before: str, path: Path) -> str:
    result = rewrite(before, path, [rule()])
    assert not result.errors
    again = rewrite(result.after, path, [rule()])
    assert again.after == result.after
    return result.after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param("import math\nimport os\n\nx = math.sqrt(y)\n", "import os\n\nx = y ** 0.5\n", id="plain"),
        pytest.param("import math\n\nimport own\n\nx = math.sqrt(y)\n", "import own\n\nx = y ** 0.5\n", id="section"),
        pytest.param("import numpy as np\nx = np.sqrt(y)\n", "x = y ** 0.5\n", id="library"),
        pytest.param("import math, os\nx = math.sqrt(y)\n", "import os\nx = y ** 0.5\n", id="one of two"),
        pytest.param(
            "from math import pi, sqrt\r\nx = sqrt(pi)\r\n", "from math import pi\r\nx = pi ** 0.5\r\n", id="a name"
        ),
    ],
)
def test_it_goes(before: str, after: str, tmp_path: Path) -> None:
    assert rewritten(before, tmp_path / "train.py") == after


@pytest.mark.parametrize(
    "head",
    [
        pytest.param("import math\nz = math.pi\n", id="used"),
        pytest.param("import math\n__all__ = ['math']\n", id="offered"),
        pytest.param("import math\nz = eval('math.pi')\n", id="in a text"),
        pytest.param("import math\nz = globals()[n]\n", id="looked up"),
        pytest.param("import math\nz = []  # type: List[math.T]\n", id="in a comment on types"),
        pytest.param("import math  # for the others\n", id="with a comment"),
        pytest.param("import math as math\n", id="offered under its own name"),
        pytest.param("import own_math as math\n", id="of an unknown library"),
        pytest.param("try:\n    import math\nexcept ImportError:\n    math = None\n", id="tried"),
        pytest.param("import math; n = 1\n", id="beside another statement"),
    ],
)
def test_it_stays(head: str, tmp_path: Path) -> None:
    assert rewritten(f"{head}x = math.sqrt(y)\n", tmp_path / "train.py") == f"{head}x = y ** 0.5\n"


def test_one_that_was_unused_before_stays(tmp_path: Path) -> None:
    before = "import math\nimport os\nfrom own import sqrt\nx = sqrt(y)\n"
    assert rewritten(before, tmp_path / "train.py") == before.replace("sqrt(y)", "y ** 0.5")


def test_a_package_may_offer_it(tmp_path: Path) -> None:
    assert rewritten("import math\nx = math.sqrt(y)\n", tmp_path / "__init__.py") == "import math\nx = y ** 0.5\n"


def test_another_file_imports_it() -> None:
    texts = {Path("/p/train.py"): "import math\nx = math.sqrt(y)\n", Path("/p/other.py"): "from train import math\n"}
    [train, _] = texts
    result = rewrite(texts[train], train, [rule()], project=Project(texts, texts))
    assert result.after == "import math\nx = y ** 0.5\n"
