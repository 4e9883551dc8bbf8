"""Which files mention a word, those included that came later or have another text."""

from __future__ import annotations

from pathlib import Path

import pytest

from autoaccel.analysis.file_sets import members
from autoaccel.analysis.files import Files
from autoaccel.analysis.project_index import ProjectIndex

TEXTS = {
    "a.py": "def known(x):\n    return x.field\n",
    "b.py": "from a import known\nfield = loose\n",
    "c.py": "loose\n",
}


@pytest.fixture
def files(tmp_path: Path) -> Files:
    for name, text in TEXTS.items():
        (tmp_path / name).write_text(text)
    return Files(sorted(tmp_path.iterdir()))


def mentioning(index: ProjectIndex, word: str) -> list[int]:
    words = index._words
    found = [*members(words.mentioning(0b111, word))]
    assert found == [number for number in range(3) if words.mentions(number, word)]
    return found


@pytest.mark.parametrize(
    ("word", "found"),
    [
        pytest.param("known", [0, 1], id="a name that is defined"),
        pytest.param("loose", [1, 2], id="a name that is neither defined nor imported"),
        pytest.param("field", [0, 1], id="an attribute, or a name"),
        pytest.param("absent", [], id="in no file"),
    ],
)
def test_who_mentions_a_word(files: Files, word: str, found: list[int]) -> None:
    assert mentioning(files.index, word) == found


def test_another_text_counts_instead(files: Files, tmp_path: Path) -> None:
    before = files.index
    after = files.changed(tmp_path / "c.py", "known(absent)\n").index
    assert [mentioning(after, word) for word in ("known", "loose", "absent")] == [[0, 1, 2], [1], [2]]
    assert [mentioning(before, word) for word in ("known", "loose", "absent")] == [[0, 1], [1, 2], []]
