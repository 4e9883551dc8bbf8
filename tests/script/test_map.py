"""The map of the analysis, for newcomers, names every room and no other."""

from __future__ import annotations

import re
from pathlib import Path

import autoaccel.script


def test_the_map_names_every_module() -> None:
    folder = Path(autoaccel.script.__file__).parent
    modules = {path.stem for path in folder.glob("*.py")} - {"__init__"}
    assert set(re.findall(r"^    (\w+) {2,}", autoaccel.script.__doc__ or "", re.MULTILINE)) == modules
