"""Three versions made one: what git makes of them where both agree, and conflicts where either sees one."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

import pytest

from autoaccel.jobs.merging import Conflict, merge


@pytest.mark.parametrize(
    ("base", "ours", "theirs", "expected"),
    [
        ("a b c", "a b c", "a x c", "a x c"),
        ("a b c", "a x c", "a b c", "a x c"),
        ("a b c", "a x c", "a x c", "a x c"),
        ("a b c", "z a b c", "a b x", "z a b x"),
        ("a b c d", "a b c d e", "b c d", "b c d e"),
        ("a b c", "", "", ""),
        ("", "a", "", "a"),
    ],
)
def test_merged(base: str, ours: str, theirs: str, expected: str) -> None:
    assert merge(lines(base), lines(ours), lines(theirs)) == (lines(expected), ())


@pytest.mark.parametrize(
    ("base", "ours", "theirs", "conflict"),
    [
        ("a b c", "a x c", "a y c", Conflict(2, (b"x\n",), (b"y\n",))),
        ("a b c", "a c", "a y c", Conflict(2, (), (b"y\n",))),
        ("a c", "a x c", "a y c", Conflict(2, (b"x\n",), (b"y\n",))),
        ("a b c", "x b c", "", Conflict(1, (b"x\n", b"b\n", b"c\n"), ())),
    ],
)
def test_conflicts(base: str, ours: str, theirs: str, conflict: Conflict) -> None:
    assert merge(lines(base), lines(ours), lines(theirs))[1] == (conflict,)


def lines(text: str) -> bytes:
    return "".join(f"{each}\n" for each in text.split()).encode()


def test_what_is_merged_is_what_git_merges(tmp_path: Path) -> None:
    chance = random.Random(0)
    agreed = 0
    for number in range(60):
        base = chance.choices("abcdefghijklmnopqrstuvwxyz", k=chance.randint(5, 14))
        versions = [base, edited(base, chance), edited(base, chance)]
        texts = [lines(" ".join(each)) for each in versions]
        merged, conflicts = merge(*texts)
        for name, text in zip(("base", "ours", "theirs"), texts, strict=True):
            (tmp_path / name).write_bytes(text)
        command = ["git", "merge-file", "-p", "ours", "base", "theirs"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, check=False)
        if not conflicts and done.returncode == 0:
            agreed += 1
            assert merged == done.stdout, (number, versions)
    assert agreed > 10, "hardly anything could be merged: this test could not fail"


def edited(lines: list[str], chance: random.Random) -> list[str]:
    found = lines.copy()
    for _ in range(chance.randint(1, 2)):
        place = chance.randrange(len(found))
        found[place : place + chance.randint(0, 2)] = chance.choices("XYZ", k=chance.randint(0, 2))
    return found or lines
