"""Notebooks as several programs write them, before and after. `AUTOACCEL_UPDATE=1 pytest` writes the results anew."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from autoaccel import notebooks
from autoaccel.cli.main import cli
from autoaccel.notebooks.documents import Notebook

GOLDEN = Path(__file__).with_name("golden")
UPDATE = os.environ.get("AUTOACCEL_UPDATE") == "1"
NAMES = sorted(path.name.removesuffix(".in.ipynb") for path in GOLDEN.glob("*.in.ipynb"))


def rewritten(data: bytes, folder: Path) -> bytes:
    path = folder / "n.ipynb"
    path.write_bytes(data)
    result = CliRunner().invoke(cli, ["rewrite", "--isolated", str(path)])
    assert result.exit_code == 0, result.output
    return path.read_bytes()


@pytest.mark.parametrize("name", NAMES)
def test_rewrite(name: str, tmp_path: Path) -> None:
    before = (GOLDEN / f"{name}.in.ipynb").read_bytes()
    after = rewritten(before, tmp_path)
    expected = GOLDEN / f"{name}.out.ipynb"
    if UPDATE:
        expected.write_bytes(after)
    assert after == expected.read_bytes()
    assert after != before
    assert rewritten(after, tmp_path) == after
    assert with_cells_of(after, before) == before


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("side", ["in", "out"])
def test_nothing_changed_is_nothing_written(name: str, side: str) -> None:
    path = GOLDEN / f"{name}.{side}.ipynb"
    source = notebooks.read(path)
    assert source.encode(source.text) == path.read_bytes()


def with_cells_of(data: bytes, other: bytes) -> bytes:
    """A notebook with the bytes of another's changed cells in the place of its own: nothing else may differ."""
    one, two = (notebooks.decode(each, "n.ipynb") for each in (data, other))
    assert isinstance(one, Notebook)
    assert isinstance(two, Notebook)
    parts, position = [], 0
    text, wanted = data.decode("utf-8"), other.decode("utf-8")
    for mine, theirs in zip(one.cells, two.cells, strict=True):
        assert mine.number == theirs.number
        if mine.source != theirs.source:
            parts += [text[position : mine.start], wanted[theirs.start : theirs.end]]
            position = mine.end
    return "".join([*parts, text[position:]]).encode("utf-8")
