"""What a script reads: names in its text, how much there is, and how fast it can be read."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from autoaccel.measure.checkup import data_files
from autoaccel.measure.checkup.data_files import DataFiles, measured, named_in, read_rate
from autoaccel.measure.checkup.readings import NotApplicableError, NotReadableError

HERE = Path("/")
NAMES = [
    ("load('data')", ["data"]),
    ("load('./data/')", ["data"]),
    ("load('data/a.bin', 'data')", ["data/a.bin", "data"]),
    ("parser.add_argument('--root', default='data')", ["data"]),
    ("load(f'data/{name}')", ["data"]),
    ("load(folder / 'a.bin')", []),
    ("load('DATA')", []),
    ("load('', '.', '..', '/', 'data\\0', 'a' * 5, 'script.py', b'data', 3)", []),
    ("'''" + "x" * 5000 + "'''", []),
    ("load('~')", ["home"]),
    ("load('more.bin')", ["scripts/more.bin"]),
]


@pytest.mark.parametrize(("source", "expected"), NAMES)
def test_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, expected: list[str]) -> None:
    for name in ("data/a.bin", "scripts/more.bin", "script.py", "home/x"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    found = named_in(source, [tmp_path, tmp_path / "scripts"], HERE)
    assert found == [tmp_path / each for each in expected]


def test_names_on_a_recorded_machine(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    assert named_in("load('/data', '/etc', 'data')", [Path("/work")], tmp_path) == [Path("/data")]


def test_what_is_no_script() -> None:
    with pytest.raises(SyntaxError):
        named_in("load('data'", [], HERE)


def test_sizes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").mkdir()
    for number in range(5):
        (tmp_path / "a" / f"{number}").write_bytes(bytes(10))
    (tmp_path / "gone").symlink_to(tmp_path / "nothing")
    assert measured(tmp_path, HERE) == DataFiles(tmp_path, 50, True)
    assert measured(tmp_path / "a" / "3", HERE) == DataFiles(tmp_path / "a" / "3", 10, True)
    assert measured(Path("/a"), tmp_path).size == 50
    monkeypatch.setattr(data_files, "_MOST_FILES", 3)
    assert not measured(tmp_path, HERE).complete


def rate_of(place: Path) -> float:
    try:
        return read_rate(place)
    except NotReadableError as error:
        pytest.skip(str(error))


def test_a_rate(tmp_path: Path) -> None:
    for number in range(3):
        (tmp_path / f"{number}").write_bytes(os.urandom(2**20 + 5))
    before = {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in tmp_path.iterdir()}
    assert rate_of(tmp_path) > 0
    assert rate_of(tmp_path / "1") > 0
    assert {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in tmp_path.iterdir()} == before


def test_a_rate_of_many_small_files(tmp_path: Path) -> None:
    for number in range(2500):
        (tmp_path / f"{number}").write_bytes(b"x")
    with pytest.raises(NotApplicableError):  # a sample of them is too little
        rate_of(tmp_path)


@pytest.mark.parametrize("content", [None, b""])
def test_no_rate_of_nothing(tmp_path: Path, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / "x").write_bytes(content)
    with pytest.raises(NotApplicableError):
        rate_of(tmp_path)


def test_a_file_that_is_gone(tmp_path: Path) -> None:
    (tmp_path / "gone").symlink_to(tmp_path / "nothing")
    with pytest.raises(NotApplicableError):
        rate_of(tmp_path)


def test_a_file_system_with_no_way_past_its_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(path: Path, start: int, buffer: object) -> int:
        raise OSError(22, "Invalid argument")

    (tmp_path / "x").write_bytes(b"x")
    monkeypatch.setattr(data_files, "_read", refuses)
    with pytest.raises(NotReadableError, match=r"x: cannot be read past the cache: .*Invalid argument"):
        read_rate(tmp_path)


def test_blocks_are_from_everywhere(tmp_path: Path) -> None:
    with (tmp_path / "large").open("wb") as file:
        file.truncate(200 * 2**20)
    (tmp_path / "small").write_bytes(b"x")
    blocks = data_files._blocks(tmp_path)
    assert len(set(blocks)) == len(blocks) == 65
    assert {start % 2**20 for _, start in blocks} == {0}
    assert max(start for _, start in blocks) > 150 * 2**20
    assert (tmp_path / "small", 0) in blocks
