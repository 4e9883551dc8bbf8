"""Finding files, and reading and writing them faithfully."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from autoaccel import sources


def tree(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("x = 1\n")


def found(folder: Path, *paths: str, **options: object) -> list[str]:
    result = sources.find([folder / path for path in paths] or [folder], root=folder, **options)  # type: ignore[arg-type]
    return [path.relative_to(folder).as_posix() for path in result.files]


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


def test_python_files_in_order_each_once(tmp_path: Path) -> None:
    tree(tmp_path, "b.py", "a/z.py", "a/y.py", "notes.txt", "c.pyc")
    assert found(tmp_path) == ["b.py", "a/y.py", "a/z.py"]
    assert found(tmp_path, "a/z.py", "a", "b.py") == ["a/z.py", "a/y.py", "b.py"]


def test_named_files_are_taken_whatever_they_are_called(tmp_path: Path) -> None:
    tree(tmp_path, "script", "build/x.py")
    assert found(tmp_path, "script", "build/x.py", exclude=["build/"]) == ["script", "build/x.py"]


def test_problems_and_barren_folders(tmp_path: Path) -> None:
    tree(tmp_path, "empty/notes.txt", "n.ipynb")
    result = sources.find([tmp_path / "none.py", tmp_path / "empty", tmp_path / "n.ipynb"])
    assert result.files == ()
    assert result.barren == (tmp_path / "empty",)
    assert result.problems == (
        f"{tmp_path / 'none.py'}: no such file or folder",
        f"{tmp_path / 'n.ipynb'}: notebooks are not supported",
    )


@pytest.mark.parametrize(
    ("patterns", "expected"),
    [
        ([], ["train.py", "lib/build/b.py", "lib/old.py", "build/a.py"]),
        (["build/"], ["train.py", "lib/old.py"]),
        (["/build/"], ["train.py", "lib/build/b.py", "lib/old.py"]),
        (["lib/*.py"], ["train.py", "lib/build/b.py", "build/a.py"]),
        (["*.py", "!train.py"], ["train.py"]),
    ],
)
def test_exclusion(tmp_path: Path, patterns: list[str], expected: list[str]) -> None:
    tree(tmp_path, "train.py", "build/a.py", "lib/build/b.py", "lib/old.py")
    assert sorted(found(tmp_path, exclude=patterns)) == sorted(expected)


def test_exclusion_is_relative_to_the_root_but_a_named_folder_is_looked_into(tmp_path: Path) -> None:
    tree(tmp_path, "project/legacy/a.py", "project/b.py")
    assert found(tmp_path, "project", exclude=["project/legacy/"]) == ["project/b.py"]
    assert found(tmp_path, "project/legacy", exclude=["legacy/"]) == ["project/legacy/a.py"]


def test_gitignore(tmp_path: Path) -> None:
    tree(tmp_path, "out/a.py", "src/b.py", "src/gen/c.py", "src/gen/keep.py", "src/d.py")
    (tmp_path / ".git" / "info").mkdir(parents=True)
    (tmp_path / ".git" / "info" / "exclude").write_text("d.py\n")
    (tmp_path / ".gitignore").write_text("/out/\n**/gen/*\n")
    (tmp_path / "src" / "gen" / ".gitignore").write_text("!keep.py\n")
    assert found(tmp_path) == ["src/b.py", "src/gen/keep.py"]
    assert found(tmp_path, "src") == ["src/b.py", "src/gen/keep.py"]
    assert found(tmp_path, "out") == ["out/a.py"]
    assert len(found(tmp_path, respect_gitignore=False)) == 5


def test_gitignore_as_forgiving_as_git(tmp_path: Path) -> None:
    tree(tmp_path, "out/a.py", "src/b.py", ".git/index")
    (tmp_path / ".gitignore").write_bytes(b"\xef\xbb\xbfout/\r\n!\r\nlost\\\r\n")
    assert found(tmp_path) == ["src/b.py"]


def test_a_path_that_cannot_be_looked_at_is_a_problem(tmp_path: Path) -> None:
    tree(tmp_path, "a.py")
    seen = sources.find([tmp_path / ("x" * 300 + ".py"), tmp_path / "a.py"])
    assert [path.name for path in seen.files] == ["a.py"]
    assert [problem.endswith(".py: cannot read: file name too long") for problem in seen.problems] == [True]


def test_a_folder_that_cannot_be_read_is_a_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree(tmp_path, "a.py", "shut/b.py")
    real = os.scandir

    def scandir(folder: str) -> object:
        if folder.endswith("shut"):
            raise PermissionError(13, "Permission denied", folder)
        return real(folder)

    monkeypatch.setattr(os, "scandir", scandir)
    seen = sources.find([tmp_path])
    assert [path.name for path in seen.files] == ["a.py"]
    assert seen.problems == (f"{tmp_path / 'shut'}: cannot read: permission denied",)


def test_exclusion_that_is_no_pattern(tmp_path: Path) -> None:
    with pytest.raises(sources.SourceError, match=r"exclude: .*'!'"):
        sources.find([tmp_path], exclude=["!"])


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_pipes_and_links_to_nowhere_are_not_read(tmp_path: Path) -> None:
    tree(tmp_path, "a.py")
    os.mkfifo(tmp_path / "pipe.py")
    (tmp_path / "dangling.py").symlink_to(tmp_path / "none")
    assert found(tmp_path) == ["a.py"]
    (problem,) = sources.find([tmp_path / "pipe.py"]).problems
    assert problem == f"{tmp_path / 'pipe.py'}: not a regular file; `-` reads stdin"


def test_a_link_and_its_target_are_one_file(tmp_path: Path) -> None:
    tree(tmp_path, "a.py")
    (tmp_path / "b.py").symlink_to(tmp_path / "a.py")
    assert found(tmp_path) == ["a.py"]


def test_links_to_folders_are_not_followed(tmp_path: Path) -> None:
    tree(tmp_path, "a/x.py")
    (tmp_path / "a" / "loop").symlink_to(tmp_path / "a", target_is_directory=True)
    assert found(tmp_path) == ["a/x.py"]
