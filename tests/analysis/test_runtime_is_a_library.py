"""The runtime is a library to the analysis, also where a copy of it stands beside the script."""

from __future__ import annotations

from pathlib import Path

import pytest

from autoaccel.analysis import Project, load


@pytest.mark.parametrize(
    ("folder", "line"),
    [
        ("autoaccel_runtime", "import autoaccel_runtime as accel"),
        ("autoaccel/runtime", "from autoaccel import runtime as accel"),
    ],
)
def test_a_copy_is_not_part_of_the_project(tmp_path: Path, folder: str, line: str) -> None:
    copy = tmp_path / folder / "__init__.py"
    copy.parent.mkdir(parents=True)
    (tmp_path / folder.split("/")[0] / "__init__.py").touch()
    copy.write_text("def autocast(device=None):\n    return device\n")
    path = tmp_path / "train.py"
    script = load(f"{line}\nwith accel.autocast():\n    pass\n", path, Project([path]))
    assert script.project.imported(script, folder.replace("/", "."), 0) is None
    assert script.accel == "accel"
