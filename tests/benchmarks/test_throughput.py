"""The throughput benchmark measures what it says, of whoever runs to the end."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from benchmarks.throughput.__main__ import main
from benchmarks.throughput.measuring import measure
from benchmarks.throughput.reporting import report
from benchmarks.throughput.trees import survey


def test_children_count(tmp_path: Path) -> None:
    burn = "import time\nwhile time.process_time() < 0.3: pass"
    code = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {burn!r}]); print('a'); print('b')"
    cost = measure([sys.executable, "-c", code], tmp_path, os.environ)
    assert cost.cpu >= 0.3
    assert (cost.status, cost.lines) == (0, 2)


def test_a_run_that_was_cut_short_is_no_result(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="exit 1"):
        measure([sys.executable, "-c", "1 / 0"], tmp_path, os.environ)


def test_trees_are_surveyed(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("import torch\n")
    (tmp_path / "b.py").write_text("x\n")
    (tmp_path / "c.txt").write_text("torch\n")
    tree = survey("tree", tmp_path)
    assert (tree.files, tree.size, tree.with_torch, tree.revision) == (2, 15, 1, "")


def test_results_of_other_trees_are_kept(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "a.py").write_text("import torch\nx = torch.zeros(3).to('cuda')\n")
    (tmp_path / "throughput.json").write_text(
        json.dumps(
            {"other": {"facts": {"files": 1, "size": 1, "with_torch": 0, "revision": ""}, "versions": {}, "runs": []}}
        )
    )
    done = CliRunner().invoke(main, [f"mine={tree}", "--rounds", "1", "--results", str(tmp_path)])
    assert done.exit_code == 0, done.output
    known = json.loads((tmp_path / "throughput.json").read_text())
    assert list(known) == ["other", "mine"]
    assert [run["contender"] for run in known["mine"]["runs"]] == [
        "autoaccel full, cold", "autoaccel full, warm", "autoaccel concise, cold", "autoaccel concise, warm"
    ]  # fmt: skip
    assert {run["lines"] for run in known["mine"]["runs"][:2]} == {known["mine"]["runs"][0]["lines"]}
    assert str(tree) not in json.dumps(known), "paths of this machine are nobody's business"


def test_the_table(tmp_path: Path) -> None:
    def run(contender: str, cpu: float) -> dict[str, object]:
        return {"contender": contender, "cpu": cpu, "wall": cpu, "memory": 1, "status": 0, "lines": 1}

    facts = {"files": 90, "size": 1_500_000, "with_torch": 50, "revision": "abc"}
    runs = [run("torchfix", 18.0), run("autoaccel full, warm", 0.2), run("autoaccel full, warm", 0.1)]
    text = report({"tree": {"facts": facts, "versions": {"python": "3.11"}, "runs": runs}})
    assert "90 Python files at abc, 1.5 MB, 50 mention torch. python 3.11." in text
    assert "| torchfix | 18.00 | 18.00 | 18.00 | 1 | 5.0 |  |" in text
    assert "| autoaccel full, warm | 0.10 | 0.15 | 0.10 | 2 | 900.0 | 180x |" in text
