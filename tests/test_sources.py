"""Text is read and written faithfully."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autoaccel import sources


@pytest.mark.parametrize(
    ("data", "text", "encoding"),
    [
        pytest.param("x = 'é'\r\n".encode(), "x = 'é'\r\n", "utf-8", id="utf-8 and crlf"),
        pytest.param(b"\xef\xbb\xbfx = 1\n", "x = 1\n", "utf-8", id="byte order mark"),
        pytest.param(b"# coding: latin-1\n'\xe9'\n", "# coding: latin-1\n'é'\n", "iso-8859-1", id="coding comment"),
        pytest.param(
            b"\n# vim: fileencoding=cp1252 :\n'\x80'", "\n# vim: fileencoding=cp1252 :\n'€'", "cp1252", id="vim"
        ),
        pytest.param(b"1\r\n2\n\x0c3\r4", "1\r\n2\n\x0c3\r4", "utf-8", id="mixed endings"),
        pytest.param(b"", "", "utf-8", id="empty"),
    ],
)
def test_decoding_is_faithful(data: bytes, text: str, encoding: str) -> None:
    source = sources.decode(data, "train.py")
    assert (source.text, source.encoding) == (text, encoding)
    assert source.encode(source.text) == data


PIECES = st.sampled_from(
    [
        b"x = 1", b"\n", b"\n", b"\r\n", b"\r", b"\x0c", b" ", b"\t", b"#", b"# -*- coding: ", b"coding=", b"utf-8",
        b"latin-1", b"utf-16", b"klingon", b"\xef\xbb\xbf", b"\xe9", "é€".encode(), "\U0001f600".encode(),
        b"\x00", b"\xed\xa0\x80", b"'",
    ]
)  # fmt: skip


@settings(max_examples=400)
@given(st.lists(PIECES | st.binary(max_size=3), max_size=9).map(b"".join))
def test_the_short_cut_changes_nothing(data: bytes) -> None:
    def attempt(decode: Callable[[bytes, str], sources.Source]) -> sources.Source | str:
        try:
            return decode(data, "train.py")
        except sources.SourceError as error:
            return str(error)

    assert attempt(sources.decode) == attempt(sources._decode_declared)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"import torch\n# b\nx = '\xe9'\n", "train.py:3: not utf-8 text"),
        (b"# coding: klingon\n", "train.py:1: cannot decode: unknown encoding"),
        (b"x = '\xe9'\n", "train.py:1: cannot decode: invalid or missing encoding declaration"),
        (b"# coding: rot13\n", "train.py:1: cannot decode: rot13 is no encoding of text"),
        (b"# coding: utf-7\n", "train.py:1: cannot be written as it was read: utf-7"),
        (b"# coding: unicode_escape\n", "train.py:1: cannot be written as it was read: unicode_escape"),
        (b"# coding: utf-16\nx = 12\n", "train.py:1: cannot be written as it was read: utf-16"),
    ],
)
def test_undecodable(data: bytes, message: str) -> None:
    with pytest.raises(sources.SourceError) as caught:
        sources.decode(data, "train.py")
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


def test_unreadable(tmp_path: Path) -> None:
    with pytest.raises(sources.SourceError, match="cannot read: is a directory"):
        sources.read(tmp_path)


def test_write_keeps_mode_and_follows_links(tmp_path: Path) -> None:
    path = tmp_path / "real.py"
    path.write_text("a")
    path.chmod(0o750)
    link = tmp_path / "link.py"
    link.symlink_to(path)
    sources.write(link, sources.read(link), "b")
    assert link.is_symlink()
    assert (path.read_text(), path.stat().st_mode & 0o777) == ("b", 0o750)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["link.py", "real.py"]


def test_write_keeps_hard_links(tmp_path: Path) -> None:
    path, other = tmp_path / "train.py", tmp_path / "copy.py"
    path.write_text("longer")
    path.chmod(0o640)
    other.hardlink_to(path)
    sources.write(path, sources.read(path), "b")
    assert (other.read_text(), other.stat().st_mode & 0o777, path.samefile(other)) == ("b", 0o640, True)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["copy.py", "train.py"]


def test_a_write_in_place_that_fails_leaves_everything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, other = tmp_path / "train.py", tmp_path / "copy.py"
    path.write_text("whole")
    other.hardlink_to(path)
    source, write = sources.read(path), Path.write_bytes

    def interrupted(self: Path, data: bytes) -> int:
        write(self, data[:2])
        if data == b"better":
            raise OSError(28, "No space left on device")
        return write(self, data)

    monkeypatch.setattr(Path, "write_bytes", interrupted)
    with pytest.raises(sources.SourceError, match="cannot write: no space left on device"):
        sources.write(path, source, "better")
    assert (path.read_text(), other.read_text()) == ("whole", "whole")


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only the superuser can give files away")
@pytest.mark.parametrize(
    ("owner", "error"),
    [
        pytest.param(1234, None, id="given to the new file"),
        pytest.param(1234, PermissionError(1, "Operation not permitted"), id="not allowed"),
        pytest.param(1234, OSError(22, "Invalid argument"), id="unknown in a container"),
        pytest.param(sources._NOBODY, None, id="shown for an owner from outside of the container"),
    ],
)
def test_write_keeps_owner_and_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, owner: int, error: OSError | None
) -> None:
    path = tmp_path / "train.py"
    path.write_text("a")
    os.chown(path, owner, 2345)
    path.chmod(0o660)
    before = path.stat()
    if error is not None:
        monkeypatch.setattr(os, "chown", Mock(side_effect=error))
    sources.write(path, sources.read(path), "b")
    after = path.stat()
    assert (after.st_uid, after.st_gid, after.st_mode & 0o777, path.read_text()) == (owner, 2345, 0o660, "b")
    assert (after.st_ino != before.st_ino) is (owner == 1234 and error is None)


def test_what_is_no_file_is_not_replaced_by_one(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(sources.SourceError, match="cannot write: not a regular file"):
        sources.write(pipe, sources.decode(b"", "x"), "x = 1\n")
    assert [each.name for each in tmp_path.iterdir()] == ["pipe"]
    assert pipe.is_fifo()


def test_write_makes_folders_and_obeys_umask(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b.py"
    mask = os.umask(0o027)
    try:
        sources.write(path, sources.decode(b"", "x"), "é\r\n")
    finally:
        os.umask(mask)
    assert path.read_bytes() == "é\r\n".encode()
    assert path.stat().st_mode & 0o777 == 0o640


def test_failed_write_leaves_everything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "train.py"
    path.write_text("a")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(sources.SourceError, match=r"train.py: cannot write: no space left on device"):
        sources.write(path, sources.read(path), "b")
    assert [(each.name, each.read_text()) for each in tmp_path.iterdir()] == [("train.py", "a")]


def test_a_file_that_somebody_else_changed_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text("a")
    source = sources.read(path)
    path.write_text("theirs")
    with pytest.raises(sources.SourceError, match="changed while"):
        sources.replace(path, source, "ours")
    assert path.read_text() == "theirs"
