"""Patterns for paths mean what they mean to git."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autoaccel.patterns import Matcher, PatternError, Patterns, forgiving, place_in, spelled_out

NAMES = st.sampled_from(["a", "b", "ab", "a.py", "build", ".env", "é", "a b", "x!#", "*"])
PLACES = st.lists(NAMES, min_size=1, max_size=4).map("/".join)
PARTS = st.sampled_from(
    [
        "a", "b", "ab", "*.py", "a*", "*", "**", "build", ".env", "?", "é", "\\a", "a b", "\\*", "x!#",
        "[ab]", "[!a]", "[^b]", "[a-c]", "[!a-c]b", "[]a]", "[[:alpha:]]b", "[![:digit:]]", "[z-a]", "[\\a-c]",
        "[-a]", "[a-]", "[[:nonsense:]]", "a*b", "*a*", "*a*b*", "a*a", "*.*y", "*?b", "b*[a-c]*y", "**",
    ]
)  # fmt: skip
LINES = st.builds(
    lambda lead, parts, tail: lead + "/".join(parts) + tail,
    st.sampled_from(["", "", "/", "**/"]),
    st.lists(PARTS, min_size=1, max_size=3),
    st.sampled_from(["", "", "/", "/**", " ", "[", "[]", "[!]", "\\"]),
)
MAYBE_BACK = st.builds(str.__add__, st.sampled_from(["", "", "!"]), LINES)


def parents(place: str) -> list[str]:
    parts = place.split("/")
    return ["/".join(parts[:count]) for count in range(1, len(parts))]


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("repository")
    subprocess.run(["git", "init", "-q", "."], cwd=folder, check=True)
    return folder


@settings(max_examples=120)
@given(st.lists(MAYBE_BACK, max_size=5), PLACES, st.booleans())
def test_the_answer_is_that_of_git(repository: Path, lines: list[str], place: str, is_folder: bool) -> None:
    # git knows bytes, not characters: `?` is half an é.
    place, lines = place.replace("é", "e"), [line.replace("é", "e") for line in lines]
    matcher = forgiving(lines)
    top = repository / "x"
    (top / place).parent.mkdir(parents=True)
    (top / place).mkdir() if is_folder else (top / place).touch()
    (top / ".gitignore").write_text("\n".join(lines) + "\n")
    asked = [*parents(place), place]
    command = ["git", "check-ignore", "--no-index", "-v", "-n", "--", *asked]
    said = subprocess.run(command, cwd=top, capture_output=True, text=True, check=False).stdout.splitlines()
    shutil.rmtree(top)
    for each, line in zip(asked, said, strict=True):
        pattern = line.split("\t")[0].split(":", 2)[2]
        verdict = None if not pattern else not pattern.startswith("!")
        name = each.rsplit("/", 1)[-1]
        assert matcher.verdict(each, name, is_folder=is_folder or each != place) == verdict, each
        if verdict:
            break


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
        ("x[a-c].py", "xb.py", True),
        ("x[[:digit:]].py", "x1.py", True),
        ("x[[:digit:]].py", "xb.py", False),
    ],
)
def test_files_that_patterns_cover(pattern: str, place: str, expected: bool) -> None:
    assert Matcher(spelled_out([pattern])).covers(place) == expected


@pytest.mark.parametrize(
    ("lines", "place", "expected"),
    [
        (["*.py", "!a.py"], "x/a.py", False),
        (["*.py", "!a.py"], "x/b.py", True),
        (["!a.py", "*.py"], "a.py", True),
        (["x/**", "!x/a.py"], "x/a.py", False),
        (["x/**", "!x/a.py"], "x/b.py", True),
        (["x/", "!x/a.py"], "x/a.py", True),  # what lies in a folder that is left out cannot be taken back
        (["*", "!*/", "!*.py"], "x/a.py", False),
        (["*", "!*/", "!*.py"], "x/a.txt", True),
    ],
)
def test_what_is_taken_back(lines: list[str], place: str, expected: bool) -> None:
    assert Matcher(lines).covers(place) == expected


def test_braces_are_alternatives() -> None:
    assert spelled_out(["{a,b}/{c,d}.py", "{x}", "y"]) == ["a/c.py", "a/d.py", "b/c.py", "b/d.py", "{x}", "y"]
    assert set(spelled_out(["{c,d{1,2}}"])) == {"c", "d1", "d2"}


def test_patterns_without_a_place_hold_elsewhere() -> None:
    lines = ("build/", "!keep.py", "**/gen/", "**/a", "/top", "a/b", "!/c", "docs/**", "*.py", "**/a/b")
    assert Patterns(lines, "/x").elsewhere("/y") == Patterns(("build/", "!keep.py", "**/gen/", "**/a", "*.py"), "/y")


def test_what_is_no_pattern() -> None:
    with pytest.raises(PatternError, match="'!'"):
        Matcher(["a", "!"])
    with pytest.raises(PatternError, match=r"'x\[a' ends within brackets"):
        Matcher(["a", "x[a"])
    assert forgiving(["!", "x[", "a", "b\\"]).verdict("a", "a", is_folder=False)


def test_places() -> None:
    assert place_in("/a/b", "/a/b/c/d.py") == "c/d.py"
    assert place_in("/", "/a.py") == "a.py"
    assert place_in("/a/b", "/a/bc/d.py") is None


HOPELESS = """
from autoaccel.patterns import Matcher, spelled_out
for pattern, place in (
    ("*a" * 40 + "b", "a" * 250),
    ("x/" + "*a" * 40 + "b", "x/" + "a" * 250),
    ("/".join(["**", "*a*"] * 40) + "/b", "/".join("a" * 100)),
    ("**/" * 60 + "b", "/".join("a" * 100)),
    ("a/" * 3 + "**/a/" * 40 + "**/b", "/".join("a" * 100)),
    ("{a,b}" * 9, "c" * 9),
    ("[!b]*" * 40 + "b", "a" * 250),
    ("*" * 1000 + "b", "a" * 250),
):
    assert not Matcher(spelled_out([pattern])).covers(place), pattern
"""


def test_no_pattern_takes_long(repository: Path) -> None:
    """Tried in every way, each would take longer than there is time."""
    subprocess.run([sys.executable, "-c", HOPELESS], check=True, timeout=120)


@pytest.mark.parametrize(
    ("pattern", "problem"),
    [
        ("{a,b}" * 30, "stands for more than 1,000 patterns"),
        ("x" * 2001, "is longer than 2,000 characters"),
    ],
)
def test_absurd_patterns(pattern: str, problem: str) -> None:
    with pytest.raises(PatternError, match=problem) as caught:
        Matcher(spelled_out([pattern]))
    assert len(str(caught.value)) < 150
    assert caught.value.line == pattern
