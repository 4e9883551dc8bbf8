"""What the benchmark of scripts by several processes holds against each other, and how it launches ranks."""

from __future__ import annotations

import os
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.distributed import launches, launching
from benchmarks.distributed.__main__ import Done, Row, _lines_of_table, changed_lines, different, own_scripts, table
from benchmarks.distributed.launching import launch

DONE = Done("", [1.0, 2.0], 2, ["epoch 1: 0.5", "took 3.2 s"], ["net.pt"], [])


@pytest.mark.parametrize(
    ("other", "ranks", "said"),
    [
        (DONE, 1, ""),
        (replace(DONE, losses=[1.0, 2.0 + 1e-15]), 2, ""),
        (replace(DONE, losses=[1.0, 2.0 + 1e-15]), 1, "not bit for bit"),
        (replace(DONE, losses=[1.0, 2.0 + 1e-10]), 2, "losses differ by 5.0e-11"),
        (replace(DONE, losses=[1.0], steps=1), 2, "1 steps instead of 2"),
        (replace(DONE, output=["epoch 1: 0.5", "took 4.7 s"]), 2, ""),
        (replace(DONE, output=["epoch 1: 0.6", "took 4.7 s"]), 2, "printed 'epoch 1: 0.6' instead of 'epoch 1: 0.5'"),
        (replace(DONE, output=["epoch 1: 0.5"]), 2, "'took 3.2 s' is not printed"),
        (replace(DONE, files=["net.pt", "log.txt"]), 2, "other files: log.txt"),
        (replace(DONE, twice=["net.pt"]), 2, "written by several ranks: net.pt"),
    ],
)
def test_what_differs(other: Done, ranks: int, said: str) -> None:
    assert different(DONE, lambda: DONE, other, ranks) == said


def test_names_and_lines_that_the_original_varies_do_not_count() -> None:
    again = replace(DONE, files=["net_17.pt"], output=["epoch 1: 0.5", "seed 8"])
    first = replace(DONE, files=["net_16.pt"], output=["epoch 1: 0.5", "seed 7"])
    other = replace(DONE, files=["net_19.pt"], output=["epoch 1: 0.5", "seed 9"])
    assert different(first, lambda: again, other, 2) == ""
    assert different(first, lambda: again, replace(other, files=["of_19.pt"]), 2) == "other files: net_#.pt, of_#.pt"
    assert "0.7" in different(first, lambda: again, replace(other, output=["epoch 1: 0.7", "seed 9"]), 2)


def test_the_table_can_be_read_again(tmp_path: Path) -> None:
    rows = [
        Row("some/train.py [seeded]", "equal", 7, 2, 12, 2e-16),
        Row("suite/of/train.py", "left alone", reason="it asks its user: in line 4"),
        Row("a/b.py", "different", 9, 0, 4, 1e-13, "2 ranks: 3 steps instead of 4"),
    ]
    page = tmp_path / "page.md"
    page.write_text(table(rows), encoding="utf-8")
    assert [Row.read(line) for line in _lines_of_table(page)] == rows
    assert "**1 of 2 distributed scripts train the same by 1, 2 and 3 ranks**; 1 are left alone." in table(rows)
    assert "| all | 2 | 8 | 0 | 7 | 1 |" in table(rows)


def test_lines_of_a_patch(tmp_path: Path) -> None:
    for name, text in (("before", "a\nb\nc\n"), ("after", "a\nwith x:\n    b\nc\nd\n")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "train.py").write_text(text)
    assert changed_lines(tmp_path / "before", tmp_path / "after") == (3, 1)


def test_own_scripts_stand_alone(tmp_path: Path) -> None:
    runs = list(own_scripts(tmp_path))
    assert len({run.name for run in runs}) == len(runs) >= 30
    assert all((tmp_path / run.repository / run.path).is_file() for run in runs)
    files = {run.name: sorted(path.name for path in (tmp_path / run.repository).iterdir()) for run in runs}
    assert {name: found for name, found in files.items() if len(found) > 1} == {
        "suite/cifar/train.py": ["models.py", "train.py"],
        "suite/lstm/train.py": ["data.py", "model.py", "train.py"],
        "suite/mnist/train.py": ["model.py", "train.py"],
    }


# -- launches


def test_what_ranks_print_and_how_they_end(tmp_path: Path) -> None:
    def be_a_rank(rank: int) -> None:
        os.write(1, f"{os.environ['RANK']} of {os.environ['WORLD_SIZE']}\n".encode())
        if rank == 1:
            raise ValueError("as planned")
        if rank == 2:
            sys.exit(3)

    ended = launch(3, be_a_rank, tmp_path)
    assert ended.statuses == {0: 0, 1: 1, 2: 3}
    assert ended.problem == "rank 1: exit status 1; rank 2: exit status 3"
    assert [(tmp_path / f"out.{rank}").read_text() for rank in range(3)] == [f"{rank} of 3\n" for rank in range(3)]


def test_what_hangs_is_ended_and_what_is_left_behind_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launching, "_GRACE", 0.1)

    def be_a_rank(rank: int) -> None:
        if rank == 0:
            time.sleep(60)
        if os.fork() == 0:
            (tmp_path / "left").write_text(str(os.getpid()))
            time.sleep(60)
            os._exit(0)
        while not (tmp_path / "left").exists():
            time.sleep(0.01)

    ended = launch(2, be_a_rank, tmp_path, limit=1.0)
    assert ended.hung == (0,)
    assert ended.orphans == 1
    assert not launching.left_behind(int((tmp_path / "left").read_text()))


@pytest.mark.parametrize(
    ("kind", "statuses", "wrong"),
    [
        (launches.END, {0: 0, 1: 0}, ""),
        (launches.END, {0: 0, 1: 1}, "rank 1: exit status 1"),
        (launches.KILLED, {0: 1, 1: -signal.SIGKILL}, ""),
        (launches.KILLED, {0: None, 1: -signal.SIGKILL}, "rank 0: over 60 s; rank 1: exit status -9"),
        (launches.RAISES, {0: 0, 1: 1}, "others than rank 1 came to their end: {0: 0}"),
    ],
)
def test_what_is_wrong_with_a_launch(kind: str, statuses: dict[int, int | None], wrong: str) -> None:
    ended = launching.Launch(statuses, 1.0, 0, 60.0)
    assert launches.wrong_with(kind, 1, ended) == wrong


def test_launches_are_told_by_kind() -> None:
    found = [
        launches.Outcome(launches.END, "", 2.0, hung=False, orphans=0),
        launches.Outcome(launches.KILLED, "rank 0: over 60 s", 60.0, hung=True, orphans=0),
        launches.Outcome(launches.KILLED, "", 3.0, hung=False, orphans=0, named=True),
    ]
    page = launches.page(found, 0)
    assert "**3 launches: 1 hung, 0 processes left behind.**" in page
    assert "| a rank is killed | 2 | 1 | 0 | 0 | 60 | 1 |" in page
    assert "- 2, a rank is killed: rank 0: over 60 s" in page
