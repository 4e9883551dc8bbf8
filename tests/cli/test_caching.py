"""Where `lint` keeps what it said, and when it does not."""

from __future__ import annotations

import io
import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from autoaccel.jobs import cache, cache_files

Run = Callable[..., Result]


@pytest.fixture
def script(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("AUTOACCEL_NO_CACHE")
    monkeypatch.setattr(cache, "_TICK", 0)  # answers are kept although the file was written a moment ago
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
    assert caches(folder) == ["from_the_environment/lint", "given", "src/configured"]


def test_one_folder_for_everything_that_is_remembered(
    run: Run, folder: Path, script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`lint` and rewritten scripts understand its name alike, and keep apart what is theirs."""
    from autoaccel.runtime.trial import decision_cache

    monkeypatch.setenv("HOME", str(folder / "home"))
    monkeypatch.setenv("AUTOACCEL_CACHE_DIR", "~/known")
    run("lint", "src")
    assert caches(folder) == ["home/known/lint"]
    assert decision_cache.folder() == folder / "home" / "known" / "decisions"


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


def test_another_setting_of_a_rule_is_another_question(run: Run, script: Path) -> None:
    script.write_text("x = timid(1)\n")
    arguments = ("lint", "--output-format", "full", "--select", "AA690", "src")
    texts = [run(*arguments, *("--set", f"courage={number}") * (number != 4)).stdout for number in (4, 5, 6, 5, 4)]
    assert [re.findall(r"`(brave\d?)\(1\)`", text) for text in texts] == [
        ["brave"],
        ["brave5"],
        ["brave6"],
        ["brave5"],
        ["brave"],
    ]


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


def git(folder: Path, *arguments: str) -> None:
    subprocess.run(["git", "-c", "user.name=n", "-c", "user.email=e", *arguments], cwd=folder, check=True)


@pytest.mark.parametrize("index", ["2", "3", "4", "split", "sha256", "worktree"])
def test_what_git_tracks_is_not_trusted(run: Run, folder: Path, script: Path, index: str) -> None:
    """A change that brings its own cache along cannot say with it that nothing is to be found."""
    git(folder, "init", "-q", *(["--object-format=sha256"] if index == "sha256" else []))
    (folder / ".autoaccel_before").write_text("")
    cleaned = script.read_text().replace("slow(1)", "1")
    dirty = script.read_text()
    script.write_text(cleaned)
    assert run("lint", "src").exit_code == 0
    (stored,) = (folder / ".autoaccel_cache").glob("lint-*.json")
    forge(stored, cleaned, dirty)
    script.write_text(dirty)
    assert run("lint", "src").exit_code == 0, "the forgery works: this test could fail"

    git(folder, "add", "-f", ".")
    if index in ("3", "4"):
        git(folder, "update-index", "--index-version", index)
        git(folder, "update-index", "--skip-worktree", ".autoaccel_before")
    elif index == "split":
        git(folder, "update-index", "--split-index")
    elif index == "worktree":
        git(folder, "commit", "-qm", "all")
        git(folder, "worktree", "add", "-q", "other")
        os.chdir(folder / "other")
    result = run("lint", "src")
    assert result.exit_code == 1
    assert "warning: " in result.stderr and ".autoaccel_cache: not used, git tracks it" in result.stderr


def test_what_git_does_not_track_is_used(run: Run, folder: Path, script: Path) -> None:
    (folder / "x" / ".autoaccel_cache").mkdir(parents=True)
    (folder / "x" / ".autoaccel_cache" / "lint.json").write_text("")
    git(folder, "init", "-q")
    git(folder, "add", "-f", ".")
    assert "not used" not in run("lint", "src").stderr
    assert caches(folder) == [".autoaccel_cache"]


def forge(stored: Path, known: str, other: str) -> None:
    """Say of one content what was said of another one."""
    body = stored.read_bytes().partition(b"\n")[2]
    old, new = (cache_files.digest(each.encode()).encode() for each in (known, other))
    changed = body.replace(old, new)
    assert changed != body
    stored.write_bytes(cache_files.heading(io.BytesIO(changed)) + b"\n" + changed)
