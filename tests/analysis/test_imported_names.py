"""Which names of a file other files import."""

from __future__ import annotations

from pathlib import Path

import pytest

from autoaccel.analysis import Project, load
from autoaccel.analysis.imported_names import imported_elsewhere

# By case: a file, another one, and whether that imports `Variable` from the first.
IMPORTS = {
    "by its name": ("", "from own import Variable", True),
    "under another name": ("", "from own import Variable as V", True),
    "another name": ("", "from own import helper", False),
    "the module": ("", "import own", False),
    "of another module": ("", "from torch.autograd import Variable", False),
    "all names": ("", "from own import *", True),
    "all that are listed": ("__all__ = ['helper']", "from own import *", False),
    "all that are listed, it among them": ("__all__ = ['helper', 'Variable']", "from own import *", True),
    "all of a list that grows": ("__all__ = ['helper']\n__all__ += more", "from own import *", True),
    "by its name, though it is not listed": ("__all__ = ['helper']", "from own import Variable", True),
}


@pytest.mark.parametrize("case", IMPORTS)
def test_imported_elsewhere(tmp_path: Path, case: str) -> None:
    text, other, expected = IMPORTS[case]
    own = f"from torch.autograd import Variable\n{text}\n\n\ndef helper():\n    pass\n"
    (tmp_path / "own.py").write_text(own)
    (tmp_path / "user.py").write_text(f"{other}\n")
    project = Project([tmp_path / "own.py", tmp_path / "user.py"])
    script = load(own, tmp_path / "own.py", project)
    assert imported_elsewhere(script, "Variable") is expected
