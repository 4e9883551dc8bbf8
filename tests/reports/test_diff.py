"""Patches are for `git apply`: whatever the text and the name, applying gives exactly the new bytes."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autoaccel.reports.diff import unified

LINES = st.lists(
    st.sampled_from(["a", "b = 1", "", "\x0c", "c\r", "-d", "+e", "@@", " f", "\u2028g", "\\ h"]), max_size=12
)


def applied(before: str, after: str, name: str) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(before.encode())
        patch = unified(before, after, name).encode()
        subprocess.run(["git", "apply", "--whitespace=nowarn", "-"], input=patch, cwd=folder, check=True)
        return path.read_bytes()


def test_no_change_is_no_patch() -> None:
    assert unified("a\n", "a\n", "x.py") == ""


@pytest.mark.parametrize(
    "name",
    ["x.py", "a folder/my script.py", 'quo"te.py', "back\\slash.py", "tab\there.py", "é.py", "esc\x1b[2J\x9b\u2028.py"],
)
def test_names(name: str) -> None:
    assert applied("a\nb\n", "a\nc\n", name) == b"a\nc\n"


@settings(max_examples=25)
@given(LINES, LINES, st.booleans(), st.booleans())
def test_any_text(before: list[str], after: list[str], ends: bool, still_ends: bool) -> None:
    old = "\n".join(["start", *before]) + "\n" * ends
    new = "\n".join(["start!", *after]) + "\n" * still_ends
    assert applied(old, new, "x.py") == new.encode()


def test_blank_lines_between_changes_stay() -> None:
    """More than 200 lines, of which many are blank: what difflib calls junk."""
    before = "x = 1\n\ny = 2\n\nz = 3\n" + "\n".join(f"a{number} = {number}\n" for number in range(150))
    after = before.replace("x = 1", "x = 2").replace("y = 2", "y = 3").replace("z = 3", "z = 4")
    assert unified(before, after, "a.py").splitlines()[3:11] == [
        "-x = 1",
        "+x = 2",
        " ",
        "-y = 2",
        "+y = 3",
        " ",
        "-z = 3",
        "+z = 4",
    ]
