"""Which files are looked at."""

from __future__ import annotations

import os
import random
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from autoaccel.discovery import FileFilter, FoundFiles, find, top_of
from autoaccel.patterns import Patterns


def tree(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("x = 1\n")


def found(
    folder: Path, *paths: str, exclude: Sequence[str] = (), gitignore: bool = True, force: bool = False
) -> list[str]:
    scope = FileFilter((Patterns(tuple(exclude), str(folder)),), gitignore, force)
    result = find([folder / path for path in paths] or [folder], lambda _: scope)
    return [path.relative_to(folder).as_posix() for path in result.files]


def test_python_files_in_order_each_once(tmp_path: Path) -> None:
    tree(tmp_path, "b.py", "a/z.py", "a/y.py", "notes.txt", "c.pyc")
    assert found(tmp_path) == ["b.py", "a/y.py", "a/z.py"]
    assert found(tmp_path, "a/z.py", "a", "b.py") == ["a/z.py", "a/y.py", "b.py"]


def test_named_files_are_taken_whatever_they_are_called(tmp_path: Path) -> None:
    tree(tmp_path, "script", "build/x.py")
    assert found(tmp_path, "script", "build/x.py", exclude=["build/"]) == ["script", "build/x.py"]


def test_problems_and_barren_folders(tmp_path: Path) -> None:
    tree(tmp_path, "empty/notes.txt")
    result = find([tmp_path / "none.py", tmp_path / "empty"])
    assert result.files == ()
    assert result.barren == (tmp_path / "empty",)
    assert result.problems == (f"{tmp_path / 'none.py'}: no such file or folder",)


def test_notebooks_are_found_as_scripts_are(tmp_path: Path) -> None:
    tree(tmp_path, "n.ipynb", "b.py", "lectures/one.ipynb", ".ipynb_checkpoints/n-checkpoint.ipynb")
    assert found(tmp_path, exclude=[".ipynb_checkpoints/"]) == ["b.py", "n.ipynb", "lectures/one.ipynb"]
    only = find([tmp_path / "lectures", tmp_path / "n.ipynb"])
    files = (tmp_path / "lectures/one.ipynb", tmp_path / "n.ipynb")
    assert only == FoundFiles(files, (), (), named=frozenset({tmp_path / "n.ipynb"}))


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
    assert len(found(tmp_path, gitignore=False)) == 5


IGNORED = (
    "x.py", "*.py", "!keep.py", "gen/", "/gen", "a/*", "!a/b/", "**/build/", "b/**", "!b/a", "a/**/y.py",
    "/*/x.py", "!*.py",
)  # fmt: skip


@pytest.mark.parametrize("seed", range(8))
def test_the_files_that_git_sees(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """Patterns at all levels of a random tree, from its root and from the folders in it."""
    chance = random.Random(seed)
    for name, value in {"GIT_CONFIG_GLOBAL": os.devnull, "HOME": "/none", "XDG_CONFIG_HOME": "/none"}.items():
        monkeypatch.setenv(name, value)
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    for _ in range(25):
        place = "/".join(chance.choices(["a", "b", "gen", "build"], k=chance.randint(0, 3)))
        tree(tmp_path, f"{place or '.'}/{chance.choice(['x.py', 'y.py', 'keep.py'])}")
    folders = sorted({path.parent for path in tmp_path.rglob("*.py")} | {tmp_path})
    for folder in chance.sample(folders, min(4, len(folders))):
        (folder / ".gitignore").write_text("\n".join(chance.choices(IGNORED, k=chance.randint(1, 4))))
    (tmp_path / ".git/info/exclude").write_text(chance.choice(IGNORED))

    def git(*arguments: str) -> str:
        return subprocess.run(["git", *arguments], cwd=tmp_path, capture_output=True, text=True, check=False).stdout

    seen = git("ls-files", "-o", "--exclude-standard", "*.py").splitlines()
    assert sorted(found(tmp_path)) == sorted(seen)
    for folder in folders[1:]:
        place = folder.relative_to(tmp_path).as_posix() + "/"
        if not git("check-ignore", place):  # else it is looked into because it is named
            assert sorted(found(tmp_path, place)) == sorted(name for name in seen if name.startswith(place))


def test_gitignore_as_forgiving_as_git(tmp_path: Path) -> None:
    tree(tmp_path, "out/a.py", "src/b.py", ".git/index")
    (tmp_path / ".gitignore").write_bytes(b"\xef\xbb\xbfout/\r\n!\r\nlost\\\r\n")
    assert found(tmp_path) == ["src/b.py"]


def test_a_path_that_cannot_be_looked_at_is_a_problem(tmp_path: Path) -> None:
    tree(tmp_path, "a.py")
    seen = find([tmp_path / ("x" * 300 + ".py"), tmp_path / "a.py"])
    assert [path.name for path in seen.files] == ["a.py"]
    assert [problem.endswith(".py: cannot read: file name too long") for problem in seen.problems] == [True]


def test_a_folder_that_cannot_be_read_is_a_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree(tmp_path, "a.py", "shut/b.py")
    real = os.scandir

    def scandir(folder: str | int) -> object:
        if str(folder).endswith("shut"):
            raise PermissionError(13, "Permission denied", folder)
        return real(folder)

    monkeypatch.setattr(os, "scandir", scandir)
    seen = find([tmp_path])
    assert [path.name for path in seen.files] == ["a.py"]
    assert seen.problems == (f"{tmp_path / 'shut'}: cannot read: permission denied",)


def test_what_is_named_can_be_forced_out(tmp_path: Path) -> None:
    tree(tmp_path, "a.py", "build/b.py", "gen/c.py", "gen/deep/d.py")
    named = ["a.py", "build/b.py", "gen", "gen/deep/d.py"]
    assert found(tmp_path, *named, exclude=["build/", "/gen"]) == ["a.py", "build/b.py", "gen/c.py", "gen/deep/d.py"]
    assert found(tmp_path, *named, exclude=["build/", "/gen"], force=True) == ["a.py"]
    result = find([tmp_path / "gen"], lambda _: FileFilter((Patterns(("gen/",), str(tmp_path)),), force_exclude=True))
    assert (result.barren, result.problems) == ((), ())


def test_names_are_excluded_wherever_one_stands(tmp_path: Path) -> None:
    """`cd src; autoaccel lint .. ../lib`: what is said of names holds there, what is said of places does not."""
    tree(tmp_path, "src/venv/a.py", "src/top/b.py", "venv/c.py", "top/d.py", "lib/venv/e.py", "lib/top/f.py")
    scope = FileFilter((Patterns(("venv/", "/top/"), str(tmp_path / "src")),))

    def names(*paths: Path, scope: FileFilter = scope) -> list[str]:
        return [path.relative_to(tmp_path).as_posix() for path in find(paths, lambda _: scope).files]

    assert names(tmp_path) == ["lib/top/f.py", "top/d.py"]
    assert names(tmp_path / "lib") == ["lib/top/f.py"]
    assert names(tmp_path / "venv") == ["venv/c.py"]
    forced = FileFilter(scope.exclude, force_exclude=True)
    assert names(tmp_path / "venv/c.py", tmp_path / "lib/venv", tmp_path / "top/d.py", scope=forced) == ["top/d.py"]


def test_each_folder_has_its_own_scope(tmp_path: Path) -> None:
    tree(tmp_path, "a/x.py", "a/gen/y.py", "b/x.py", "b/gen/y.py", "b/old/z.py", "b/deep/old/z.py")
    outer = FileFilter((Patterns(("/b/x.py", "gen/"), str(tmp_path)),))
    inner = FileFilter((Patterns(("/old/",), str(tmp_path / "b")),))
    result = find([tmp_path], lambda folder: inner if folder.startswith(str(tmp_path / "b")) else outer)
    names = [path.relative_to(tmp_path).as_posix() for path in result.files]
    assert names == ["a/x.py", "b/x.py", "b/deep/old/z.py", "b/gen/y.py"]


def test_names_are_as_they_were_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree(tmp_path, "a/x.py", "y.py")
    monkeypatch.chdir(tmp_path / "a")
    assert [str(path) for path in find([Path(), Path("..")]).files] == ["x.py", "../y.py"]
    assert [str(path) for path in find([Path("../a/./")]).files] == ["../a/x.py"]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        pytest.param(".config/git/ignore", "", id="the default place"),
        pytest.param(".gitconfig", "[core]\n\texcludesFile = ~/.config/git/ignore\n", id="home"),
        pytest.param(".config/git/config", '[core]\nexcludesfile="~/my ignores"\n', id="quoted"),
    ],
)
def test_what_git_ignores_everywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, content: str) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    place = tmp_path / "home" / ("my ignores" if "my" in content else ".config/git/ignore")
    tree(tmp_path, "repo/.git/index", "repo/a.py", "repo/b.py", "repo/scratch_c.py", "plain/scratch_d.py")
    (tmp_path / "home/.config/git").mkdir(parents=True)
    (tmp_path / "home" / name).write_text(content)
    place.write_text("scratch_*\nb.py\n")
    (tmp_path / "repo/.gitignore").write_text("!b.py\n")
    assert found(tmp_path, "repo", "plain") == ["repo/a.py", "repo/b.py", "plain/scratch_d.py"]


def test_what_a_repository_ignores_in_all_its_work_trees(tmp_path: Path) -> None:
    def git(*arguments: str) -> None:
        subprocess.run(["git", "-c", "user.name=n", "-c", "user.email=e", *arguments], cwd=tmp_path / "one", check=True)

    tree(tmp_path, "one/a.py", "one/b.py", "one/c.py")
    git("init", "-q")
    git("config", "core.excludesFile", str(tmp_path / "mine"))
    (tmp_path / "mine").write_text("b.py\n")
    (tmp_path / "one/.git/info/exclude").write_text("c.py\n")
    git("commit", "-q", "--allow-empty", "-m", "begin")
    git("worktree", "add", "-q", "../two")
    tree(tmp_path, "two/a.py", "two/b.py", "two/c.py")
    assert found(tmp_path / "one") == ["a.py"]
    assert found(tmp_path / "two") == ["a.py"]


@pytest.mark.parametrize("pattern", ["sub/", "/sub", "sub/*", "su?/", "**/sub/deep/"])
def test_a_folder_that_git_ignores_is_looked_into_when_it_is_named(tmp_path: Path, pattern: str) -> None:
    tree(tmp_path, ".git/index", "sub/deep/a.py")
    (tmp_path / ".gitignore").write_text(pattern + "\n")
    assert found(tmp_path) == []
    assert found(tmp_path, "sub/deep") == ["sub/deep/a.py"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_pipes_and_links_to_nowhere_are_not_read(tmp_path: Path) -> None:
    tree(tmp_path, "a.py")
    os.mkfifo(tmp_path / "pipe.py")
    (tmp_path / "dangling.py").symlink_to(tmp_path / "none")
    assert found(tmp_path) == ["a.py"]
    (problem,) = find([tmp_path / "pipe.py"]).problems
    assert problem == f"{tmp_path / 'pipe.py'}: not a regular file; `-` reads stdin"


def test_a_link_and_its_target_are_one_file(tmp_path: Path) -> None:
    tree(tmp_path, "a.py")
    (tmp_path / "b.py").symlink_to(tmp_path / "a.py")
    assert found(tmp_path) == ["a.py"]


def test_links_to_folders_are_not_followed(tmp_path: Path) -> None:
    tree(tmp_path, "a/x.py")
    (tmp_path / "a" / "loop").symlink_to(tmp_path / "a", target_is_directory=True)
    assert found(tmp_path) == ["a/x.py"]


def test_links_that_lead_out_of_a_folder_are_not_followed_and_said(tmp_path: Path) -> None:
    tree(tmp_path, "top/a.py", "top/deep/b.py", "other/c.py", "other/d.py", "other/venv/e.py")
    links = {
        "out.py": tmp_path / "other" / "c.py",
        "relative.py": Path("..", "other", "c.py"),
        "folder": tmp_path / "other",
        "within.py": tmp_path / "top" / "deep" / "b.py",
        "inner": tmp_path / "top" / "deep",
        "venv": tmp_path / "other" / "venv",
        "text.txt": tmp_path / "other" / "c.py",
    }
    for name, target in links.items():
        (tmp_path / "top" / name).symlink_to(target)
    scope = FileFilter((Patterns(("venv",), str(tmp_path)),))

    def seen(*paths: str) -> tuple[list[str], ...]:
        result = find([tmp_path / path for path in paths], lambda _: scope)
        return tuple([path.relative_to(tmp_path).as_posix() for path in each] for each in (result.files, result.links))

    assert seen("top") == (["top/a.py", "top/within.py"], ["top/folder", "top/out.py", "top/relative.py"])
    assert seen("top/out.py") == (["top/out.py"], []), "what is named is meant"
    assert seen("top", "other/c.py") == (["top/a.py", "top/within.py", "other/c.py"], ["top/folder"])


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ([], None),
        (["a/pyproject.toml"], "a"),
        (["setup.py", "a/b/autoaccel.toml"], "a/b"),
        ([".git/index", "a/pyproject.toml"], "."),
        (["a/.git/index", ".git/index"], "a"),
        (["a/b/.git"], "a/b"),
        ([".git/index", "a/.git=gitdir: ../.git/modules/a"], "."),
    ],
)
def test_what_a_folder_belongs_to(tmp_path: Path, names: list[str], expected: str | None) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    for name in names:
        place, _, content = name.partition("=")
        (tmp_path / place).parent.mkdir(exist_ok=True)
        (tmp_path / place).write_text(content)
    assert top_of(str(tmp_path / "a" / "b")) == ("" if expected is None else str(tmp_path / expected))


def test_an_absurd_line_of_gitignore_is_a_problem(tmp_path: Path) -> None:
    tree(tmp_path, "a.py", "gen/b.py", ".git/index")
    (tmp_path / ".gitignore").write_text(f"# {'x' * 3000}\ngen/\n{'*a' * 2000}\n")
    seen = find([tmp_path])
    assert [path.name for path in seen.files] == ["a.py"]
    assert seen.problems == (f"{tmp_path}/.gitignore:3: left out, a pattern is longer than 2,000 characters",)
