"""Patterns for paths: the quick answers are pathspec's answers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pathspec import GitIgnoreSpec

from autoaccel.patterns import Matcher, PatternError, forgiving, place_in, spelled_out

NAMES = st.sampled_from(["a", "b", "ab", "a.py", "build", ".env", "é"])
PLACES = st.lists(NAMES, min_size=1, max_size=4).map("/".join)
PARTS = st.sampled_from(
    ["a", "b", "ab", "*.py", "a*", "*", "**", "build", ".env", "[ab]", "[!a]", "?", "é", "\\a", "a b"]
)
LINES = st.builds(
    lambda bang, lead, parts, tail: bang + lead + "/".join(parts) + tail,
    st.sampled_from(["", "", "", "", "!"]),
    st.sampled_from(["", "", "/", "**/"]),
    st.lists(PARTS, min_size=1, max_size=3),
    st.sampled_from(["", "/", "/**", " "]),
)


@settings(max_examples=400, deadline=None)
@given(st.lists(LINES, max_size=5), PLACES, st.booleans())
def test_the_quick_answer_is_the_slow_one(lines: list[str], place: str, is_folder: bool) -> None:
    """As a walk asks: no folder above is matched, else nobody would look into it."""
    slow = GitIgnoreSpec.from_lines(lines)
    parts = place.split("/")
    if any(slow.check_file("/".join(parts[:count]) + "/").include for count in range(1, len(parts))):
        return
    expected = slow.check_file(place + "/" * is_folder).include
    assert Matcher(lines).verdict(place, parts[-1], is_folder=is_folder) == expected


@pytest.mark.parametrize(
    ("pattern", "place", "expected"),
    [
        ("tests/", "tests/deep/a.py", True),
        ("tests/**", "tests/deep/a.py", True),
        ("tests/*.py", "tests/a.py", True),
        ("tests/*.py", "tests/deep/a.py", False),
        ("__init__.py", "pkg/__init__.py", True),
        ("*.py", "pkg/a.py", True),
        ("/a.py", "pkg/a.py", False),
        ("{tests,docs}/**", "docs/a.py", True),
        ("*.{py,pyi}", "a.pyi", True),
        ("tests", "tests.py", False),
    ],
)
def test_files_that_patterns_cover(pattern: str, place: str, expected: bool) -> None:
    assert Matcher(spelled_out([pattern])).covers(place) == expected


def test_braces_are_alternatives() -> None:
    assert spelled_out(["{a,b}/{c,d}.py", "{x}", "y"]) == ["a/c.py", "a/d.py", "b/c.py", "b/d.py", "{x}", "y"]
    assert set(spelled_out(["{c,d{1,2}}"])) == {"c", "d1", "d2"}


def test_what_is_no_pattern() -> None:
    with pytest.raises(PatternError, match="'!'"):
        Matcher(["a", "!"])
    assert forgiving(["!", "a", "b\\"]).verdict("a", "a", is_folder=False)


def test_places() -> None:
    assert place_in("/a/b", "/a/b/c/d.py") == "c/d.py"
    assert place_in("/", "/a.py") == "a.py"
    assert place_in("/a/b", "/a/bc/d.py") is None


def test_common_patterns_do_without_pathspec(repository: Path) -> None:
    """It takes a fifth of a warm run to import."""
    lines = ["# c", "", "__pycache__/", "*.py[cod]", "*$py.class", "/build/", "docs/_build/", "**/gen", ".env*", "*.so"]
    code = f"import sys; from autoaccel.patterns import Matcher; Matcher({lines}); print('pathspec' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=repository, capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
