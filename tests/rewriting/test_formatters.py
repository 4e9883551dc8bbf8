"""What configuration files say of the layout of a project's code."""

from __future__ import annotations

from pathlib import Path

import pytest

from autoaccel.rewriting.formatters import layout_of
from autoaccel.rewriting.places import LineLayout


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("pyproject.toml", "[tool.black]\nline-length = 100\n", LineLayout(100, True)),
        ("pyproject.toml", "[tool.black]\n", LineLayout(88, True)),
        ("pyproject.toml", '[tool.black]\nextend-exclude = "train"\n', LineLayout()),
        ("pyproject.toml", "[tool.ruff]\nline-length = 79\n", LineLayout(79)),
        ("pyproject.toml", "[tool.ruff]\nline-length = 79\n[tool.ruff.format]\n", LineLayout(79, True)),
        ("pyproject.toml", '[tool.ruff.format]\nquote-style = "single"\n', LineLayout(88)),
        ("pyproject.toml", '[tool.ruff]\nextend-exclude = ["scripts"]\n[tool.ruff.format]\n', LineLayout()),
        ("pyproject.toml", "[tool.isort]\n", LineLayout()),
        ("pyproject.toml", "[tool.black\n", LineLayout()),
        ("pyproject.toml", "[tool]\nblack = 3\n", LineLayout()),
        ("ruff.toml", "line-length = 110\n[format]\n", LineLayout(110, True)),
        ("setup.cfg", "[flake8]\nmax-line-length = 99\n", LineLayout(99)),
        ("setup.cfg", "[flake8]\nmax-line-length = wide\n", LineLayout()),
        ("tox.ini", "[pycodestyle]\nmax-line-length = 3\n", LineLayout()),
        (".editorconfig", "[*]\nmax_line_length = 80\n[*.py]\nmax_line_length = 90\n", LineLayout(90)),
        (".editorconfig", "[*.{js,py}]\nmax_line_length = 90\n[*.md]\nmax_line_length = 70\n", LineLayout(90)),
        (".editorconfig", "[*.md]\nmax_line_length = 70\n", LineLayout()),
        (".editorconfig", "[*]\nmax_line_length = off\n", LineLayout()),
    ],
)
def test_a_file(tmp_path: Path, name: str, text: str, expected: LineLayout) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / name).write_text(text)
    path = tmp_path / "scripts" / "train.py"
    layout, asked = layout_of(path)
    assert layout == expected
    assert tmp_path / name in asked
    assert path.parent / name in asked  # what is not there may come


def test_the_nearest_counts_and_a_repository_ends_the_search(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.black]\n")
    inner = tmp_path / "inner"
    inner.mkdir()
    assert layout_of(inner / "train.py")[0] == LineLayout(88, True)
    (inner / "setup.cfg").write_text("[flake8]\nmax-line-length = 99\n")
    assert layout_of(inner / "train.py")[0] == LineLayout(88, True)
    (inner / ".git").mkdir()
    assert layout_of(inner / "train.py")[0] == LineLayout(99)
