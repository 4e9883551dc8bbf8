"""The survey must find defects of the tool; the judge must tell a found site from a missed one."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from autoaccel.rewriting.engine import Result
from autoaccel.rewriting.record import Range, Record
from benchmarks.public_scripts import judging, surveying
from benchmarks.public_scripts.surveying import Survey, Surveyed, changed_elsewhere, survey


def record(code: str, line: int, end: int | None = None, message: str = "") -> Record:
    where = Range(line, 1, end or line, 10)
    return Record(code, "name", "exact", message, where, 1, (where,))


@pytest.mark.parametrize(
    ("after", "lines"),
    [
        pytest.param("a = 1\nb = 20\nc = 3\n", (), id="the edited line"),
        pytest.param("a = 1\nwith x:\n    b = 2\nc = 3\n", (), id="wrapped and moved to the right"),
        pytest.param("a = 1\nb = 20\nc = 30\n", (3,), id="another line as well"),
        pytest.param("b = 20\nc = 3\n", (1,), id="a line lost"),
        pytest.param("new = 0\na = 1\nb = 2\nc = 3\n", (), id="a line more"),
    ],
)
def test_changes_outside_the_edits_are_found(after: str, lines: tuple[int, ...]) -> None:
    result = Result(None, "a = 1\nb = 2\nc = 3\n", after, applied=(record("AA103", 2),))
    assert tuple(changed_elsewhere(result)) == lines


def test_problems_name_file_and_kind() -> None:
    bad = Surveyed(Path("x.py"), errors=("x.py: rule failed",), second_run_changes=True, changed_elsewhere=(4,))
    assert Survey((bad,), (), ((Path("y.py"), "KeyError: 1"),)).problems == [
        "y.py: KeyError: 1",
        "x.py: x.py: rule failed",
        "x.py: a second run changes it again",
        "x.py:4: changed although no edit speaks of it",
    ]


def test_a_tree_is_surveyed_without_running_or_changing_it(tmp_path: Path) -> None:
    script = "import torch\ndevice = torch.device('cuda')\nx = torch.zeros(3).to(device)\nraise SystemExit(3)\n"
    (tmp_path / "good.py").write_text(script, encoding="utf-8")
    (tmp_path / "old.py").write_text("print 'python 2'\n", encoding="utf-8")
    result = survey([tmp_path])
    assert [path.name for path in result.unparsable] == ["old.py"]
    assert [(r.code, r.line) for r in result.files[0].applied] == [("AA101", 3)]
    assert result.problems == []
    assert (tmp_path / "good.py").read_text(encoding="utf-8") == script
    assert "AA101 create-on-device" in surveying.table(result)


SCRIPT = textwrap.dedent("""\
    for x, y in loader:
        x = x.to(device)
        loss = model(x)
        loss.backward()

    def test():
        model.eval()
        for x, y in loader:
            x = x.to(device)
            model(x)
    """)
TRUTH = {
    "transfers": [2, 9],
    "already_non_blocking": [],
    "training_loops": [{"line": 1, "also": [], "autocast": "apply", "why": "", "either": False}],
    "eval_without_no_grad": [6],
    "eval_also": {},
    "inference_without_no_grad": [],
    "inference_also": {},
}


@pytest.mark.parametrize(
    ("applied", "right"),
    [
        pytest.param((), [False, False, False, False], id="nothing found"),
        pytest.param((record("AA103", 2),), [True, False, False, False], id="one transfer"),
        pytest.param((record("AA301", 3, 4),), [False, False, True, False], id="a region inside the loop"),
        pytest.param((record("AA501", 8),), [False, False, False, True], id="a pass named by its loop"),
        pytest.param((record("AA501", 4),), [False, False, False, False], id="no_grad elsewhere"),
    ],
)
def test_judging(applied: tuple[Record, ...], right: list[bool]) -> None:
    verdicts = list(judging.judge_script("s.py", TRUTH, Surveyed(Path("s.py"), applied), SCRIPT))
    assert [verdict.right for verdict in verdicts] == right


def test_declining_is_right_where_the_reader_declines() -> None:
    loop = {"line": 1, "also": [], "autocast": "decline", "why": "because", "either": False}
    skipped = Surveyed(Path("s.py"), skipped=(record("AA301", 4, message="reason"),))
    [verdict] = [
        each
        for each in judging.judge_script("s.py", {**TRUTH, "training_loops": [loop]}, skipped, SCRIPT)
        if each.question == "autocast"
    ]
    assert verdict.right
    assert verdict.said == "reason (should decline because)"
