"""The questions to a GPU can be asked on a CPU, so that they work when there is one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner

from benchmarks.gpu.__main__ import RESULTS, main
from benchmarks.gpu.measuring import Row
from benchmarks.gpu.sections import SECTIONS
from benchmarks.gpu.step import Training


@pytest.mark.parametrize("section", sorted(SECTIONS))
def test_each_section_comes_to_its_end(section: str, tmp_path: Path) -> None:
    result = CliRunner().invoke(main, [section, "--output", str(tmp_path / "gpu.md")])
    assert result.exit_code == 0
    assert "failed" not in result.output
    table = (tmp_path / "gpu.md").read_text()
    assert f"## {section}" in table
    assert table.count("\n| ") > 1


def test_a_section_that_fails_keeps_what_it_has_and_leaves_the_others(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def broken(_device: torch.device) -> Iterator[Row]:
        yield Row("before", "1.0 µs")
        raise RuntimeError("no such kernel\nand more")

    monkeypatch.setitem(SECTIONS, "prices", broken)
    result = CliRunner().invoke(main, ["prices", "capture", "--output", str(tmp_path / "gpu.md")])
    assert result.exit_code == 0
    table = (tmp_path / "gpu.md").read_text()
    assert "| before | 1.0 µs |" in table
    assert "| prices ended early | failed: RuntimeError: no such kernel |" in table
    assert "losses equal, parameters equal, random state equal" in table


@pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU has something to record")
def test_figures_of_a_cpu_are_not_recorded() -> None:
    before = RESULTS.exists() and RESULTS.read_text()
    assert CliRunner().invoke(main, ["hazards"]).exit_code == 0
    assert (RESULTS.exists() and RESULTS.read_text()) == before


def test_the_step_trains() -> None:
    training = Training(torch.device("cpu"))
    first = training.step().item()
    for _ in range(10):
        last = training.step().item()
    assert last < first
