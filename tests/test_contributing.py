"""The rule that CONTRIBUTING writes as an example is a rule that works."""

from __future__ import annotations

import re
import sys
import textwrap
import types
from pathlib import Path

import pytest

from autoaccel.rewriting import engine


def test_the_example_rule(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (repository / "CONTRIBUTING.md").read_text(encoding="utf-8")
    example = re.search(r" *```python\n(.*?) *```", text, re.DOTALL)
    assert example is not None
    module = types.ModuleType("fused_optimizer")
    monkeypatch.setitem(sys.modules, "fused_optimizer", module)
    exec(compile(textwrap.dedent(example[1]), "fused_optimizer.py", "exec"), module.__dict__)

    script = "from torch import optim\na = optim.Adam(p, lr=1e-3)\nb = optim.Adam(p, **options)\n"
    result = engine.rewrite(script, Path("train.py"), [module.RULE])
    assert result.after == script.replace("lr=1e-3", "lr=1e-3, fused=True")
    assert [record.line for record in result.applied] == [2]
    assert [record.message for record in result.skipped] == ["the arguments are not visible here (**kwargs)"]
