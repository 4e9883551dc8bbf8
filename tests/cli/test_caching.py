"""Where `lint` keeps what it said, and when it does not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

Run = Callable[..., Result]


@pytest.fixture
def script(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("AUTOACCEL_NO_CACHE")
    (folder / "src").mkdir()
    path = folder / "src" / "train.py"
    path.write_text("x = slow(1)\n")
    return path


def caches(folder: Path) -> list[str]:
    return sorted(str(path.parent.relative_to(folder)) for path in folder.rglob("*-*.json"))


def test_in_the_working_directory(run: Run, folder: Path, script: Path) -> None:
    assert run("lint", "src").exit_code == 1
    assert caches(folder) == [".autoaccel_cache"]
    assert run("lint", "src").exit_code == 1


def test_beside_the_configuration(run: Run, folder: Path, script: Path) -> None:
    (folder / "src" / "autoaccel.toml").write_text("")
    assert run("lint", "src").exit_code == 1
    assert caches(folder) == ["src/.autoaccel_cache"]


def test_where_it_is_told(run: Run, folder: Path, script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "src" / "autoaccel.toml").write_text("cache-dir = 'configured'\n")
    run("lint", "src")
    monkeypatch.setenv("AUTOACCEL_CACHE_DIR", "from_the_environment")
    run("lint", "src")
    run("lint", "--cache-dir", "given", "src")
    assert caches(folder) == ["from_the_environment", "given", "src/configured"]


def test_one_folder_for_several_projects(run: Run, folder: Path, script: Path) -> None:
    for project in ("one", "two"):
        (folder / project).mkdir()
        (folder / project / "autoaccel.toml").write_text("")
        (folder / project / "train.py").write_text("x = slow(1)\n" if project == "one" else "x = 1\n")
        assert run("lint", "--cache-dir", "shared", project).exit_code == (1 if project == "one" else 0)
    assert caches(folder) == ["shared", "shared"]
    assert run("lint", "--cache-dir", "shared", "one").exit_code == 1


def test_nowhere(run: Run, folder: Path, script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run("lint", "--no-cache", "src")
    run("lint", "-", input=script.read_bytes())
    run("rewrite", "--diff", "src")
    run("lint", "--show-settings", "src")
    monkeypatch.setenv("AUTOACCEL_NO_CACHE", "1")
    run("lint", "src")
    assert not (folder / ".autoaccel_cache").exists()


def test_what_is_suppressed_since_is_not_reported(run: Run, script: Path) -> None:
    assert run("lint", "src").exit_code == 1
    script.write_text("x = slow(1)  # autoaccel: ignore\n")
    assert run("lint", "src").exit_code == 0
    assert run("lint", "src").exit_code == 0
    assert (
        run("lint", "--ignore", "AA190", "src").exit_code
        == run("lint", "--no-cache", "--ignore", "AA190", "src").exit_code
    )


def test_findings_from_the_cache_are_counted_and_shown_alike(run: Run, script: Path) -> None:
    (script.parent / "broken.py").write_text("slow(\n")
    for output_format in ("full", "concise", "json", "sarif", "github", "gitlab", "junit", "rdjson"):
        cold = run("lint", "--output-format", output_format, "src")
        warm = run("lint", "--output-format", output_format, "src")
        assert (warm.exit_code, warm.stdout, warm.stderr) == (cold.exit_code, cold.stdout, cold.stderr)
        assert cold.exit_code == 2
    assert run("lint", "--statistics", "src").stdout == run("lint", "--no-cache", "--statistics", "src").stdout


def test_a_folder_of_others_stays_theirs(run: Run, folder: Path, script: Path) -> None:
    """Neither is it hidden from git, nor is anything in it taken for an old cache."""
    theirs = [folder / f"part-{number}.json" for number in range(12)]
    for path in theirs:
        path.write_text("{}")
    for _ in range(2):
        assert run("lint", "--cache-dir", ".", "src").exit_code == 1
    assert all(path.exists() for path in theirs)
    assert not (folder / ".gitignore").exists()
    assert not (folder / "CACHEDIR.TAG").exists()
    assert len(list(folder.glob("lint-*.json"))) == 1


def test_not_in_a_folder_without_a_name(run: Run, folder: Path, script: Path) -> None:
    result = run("lint", "--cache-dir", "", "src")
    assert result.exit_code == 2
    assert "the name of a file is empty" in result.stderr
    assert caches(folder) == []
