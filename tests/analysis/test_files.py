"""Texts and trees of files, on disk or given."""

from __future__ import annotations

from pathlib import Path

import pytest

from autoaccel.analysis.files import Files, Parsed
from autoaccel.dataflow.bounds import Bounds


@pytest.mark.parametrize(
    ("content", "text"),
    [
        pytest.param(b"x = 1\n", "x = 1\n", id="plain"),
        pytest.param("# -*- coding: latin-1 -*-\nx = 'ä'\n".encode("latin-1"), None, id="its own encoding"),
        pytest.param(b"\xef\xbb\xbfx = 1\n", "x = 1\n", id="a byte order mark"),
        pytest.param(b"x = '\xff'\n", "", id="no text"),
        pytest.param(b"# coding: nonsense\n", "", id="an unknown encoding"),
        pytest.param(b"x = 1\n" * 20, "", id="too long"),
    ],
)
def test_texts(tmp_path: Path, content: bytes, text: str | None) -> None:
    path = tmp_path / "a.py"
    path.write_bytes(content)
    expected = content.decode("latin-1") if text is None else text
    assert (Files([path], bounds=Bounds(file=100)).text(path) or "") == expected


def test_what_is_no_file_has_no_text(tmp_path: Path) -> None:
    files = Files([tmp_path])
    assert files.text(tmp_path) is None
    assert files.text(tmp_path / "missing.py") is None
    assert files.size(tmp_path / "missing.py") == 0


def test_given_texts_stand_for_files(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_text("old = 1\n")
    files = Files([path], {path: "new = 1\n"})
    assert (files.text(path), files.size(path)) == ("new = 1\n", 8)
    assert path in files
    assert tmp_path not in files
    assert files.changed(path, "newer = 1\n").text(path) == "newer = 1\n"
    assert files.text(path) == "new = 1\n"


def test_a_text_that_changed_is_parsed_anew(tmp_path: Path) -> None:
    path, files = tmp_path / "a.py", Files()
    first = files.parse("x = 1\n", path)
    assert files.parse("x = 1\n", path) is first
    assert files.parse("x = 2\n", path) is not first
    with pytest.raises(SyntaxError):
        files.parse("print 'x'\n", path)


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("a.b = 1", ["a"]),
        ("a.b.c = 1", ["a.b"]),
        ("a.b[i] += 1", ["a"]),
        ("a[i] = 1", []),
        ("a.b.reset()", ["a.b"]),
        ("x = a.b.reset()", []),
        ("reset(a)", []),
        ("x = a.b", []),
    ],
)
def test_objects_that_may_be_written_to(text: str, written: list[str]) -> None:
    parsed = Parsed(text + "\n")
    assert [parsed.tree.source(owner) for owner, _ in parsed.written] == written
