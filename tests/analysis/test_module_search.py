"""The files that imports lead to."""

from __future__ import annotations

from pathlib import Path

import pytest

from autoaccel.analysis.module_search import Modules, name_in_library

FILES = (
    "setup.py",
    "train.py",
    "shop/__init__.py",
    "shop/net.py",
    "shop/net/__init__.py",  # hidden by the file
    "shop/data/__init__.py",
    "shop/data/loader.py",
    "plain/part.py",
    "tools/run.py",
    "tools/train.py",
)
# By case: the file that imports, the name, the level, and the file with what is left over of the name; None elsewhere.
CASES = {
    "a file beside": ("train.py", "shop", 0, "shop/__init__.py", ()),
    "a module": ("train.py", "shop.net", 0, "shop/net.py", ()),
    "a name of a module": ("train.py", "shop.net.Net", 0, "shop/net.py", ("Net",)),
    "a name of a name": ("train.py", "shop.net.Net.make", 0, "shop/net.py", ("Net", "make")),
    "a package in a package": ("train.py", "shop.data.loader", 0, "shop/data/loader.py", ()),
    "a name of a package": ("train.py", "shop.Net", 0, "shop/__init__.py", ("Net",)),
    "a library": ("train.py", "torch.nn", 0, None, ()),
    "a folder without a module": ("train.py", "plain", 0, None, ()),
    "a module of such a folder": ("train.py", "plain.part", 0, "plain/part.py", ()),
    "itself": ("train.py", "train", 0, None, ()),
    "relative": ("shop/data/loader.py", "", 1, "shop/data/__init__.py", ()),
    "relative, a module": ("shop/net.py", "data.loader", 1, "shop/data/loader.py", ()),
    "relative, further up": ("shop/data/loader.py", "net.Net", 2, "shop/net.py", ("Net",)),
    "relative, above the project": ("shop/data/loader.py", "train", 9, None, ()),
    "relative, not there": ("shop/data/loader.py", "net", 1, "shop/data/__init__.py", ("net",)),
    "absolute from within a package": ("shop/data/loader.py", "shop.net", 0, "shop/net.py", ()),
    "of the distribution": ("tools/run.py", "shop.net", 0, "shop/net.py", ()),
    "the nearer of two": ("tools/run.py", "train", 0, "tools/train.py", ()),
    "of the same name further up": ("tools/train.py", "train", 0, "train.py", ()),
    "the runtime": ("train.py", "autoaccel.runtime", 0, None, ()),
    "a hidden name": ("train.py", ".net", 0, None, ()),
}


@pytest.fixture
def modules(tmp_path: Path) -> Modules:
    for name in FILES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    return Modules(frozenset({str(tmp_path), str(tmp_path / "tools")}))


@pytest.mark.parametrize("case", CASES)
def test_search(tmp_path: Path, modules: Modules, case: str) -> None:
    importer, target, level, expected, rest = CASES[case]
    found = modules.search(tmp_path / importer, target, level, set())
    assert found == (None if expected is None else (tmp_path / expected, rest))


def test_what_an_answer_leans_on_is_told_each_time(tmp_path: Path, modules: Modules) -> None:
    for _ in range(2):
        seen: set[str] = set()
        modules.search(tmp_path / "train.py", "shop.data.loader", 0, seen)
        assert {str(tmp_path), str(tmp_path / "shop"), str(tmp_path / "shop" / "data")} <= seen


def test_texts_that_are_not_on_disk_count(tmp_path: Path) -> None:
    modules = Modules(frozenset({str(tmp_path)}), [tmp_path / "shop" / "net.py"])
    assert modules.search(tmp_path / "train.py", "shop.net.Net", 0, set()) == (tmp_path / "shop" / "net.py", ("Net",))
    assert modules.search(tmp_path / "train.py", "shop.other", 0, set()) is None


@pytest.mark.parametrize(
    ("package", "target", "level", "expected"),
    [
        (("torch", "nn"), "torch.zeros", 0, "torch.zeros"),
        (("torch", "nn"), "functional.relu", 1, "torch.nn.functional.relu"),
        (("torch", "nn"), "zeros", 2, "torch.zeros"),
        (("torch", "nn"), "", 1, "torch.nn"),
        (("torch", "nn"), "numpy.zeros", 0, None),
        ((), "torch.zeros", 0, None),
    ],
)
def test_names_within_a_library(package: tuple[str, ...], target: str, level: int, expected: str | None) -> None:
    assert name_in_library(package, target, level) == expected


@pytest.mark.parametrize(
    ("folder", "expected"),
    [("torch/nn", ("torch", "nn")), ("torch", ("torch",)), ("shop", ()), ("shop/torch", ())],
)
def test_libraries(tmp_path: Path, folder: str, expected: tuple[str, ...]) -> None:
    for each in (tmp_path / folder, *(tmp_path / folder).parents):
        if each == tmp_path:
            break
        each.mkdir(parents=True, exist_ok=True)
        (each / "__init__.py").write_text("")
    assert Modules(frozenset()).library(str(tmp_path / folder), set()) == expected


@pytest.mark.parametrize("marker", [".git/index", "pyproject.toml", "setup.py", "setup.cfg", "autoaccel.toml"])
def test_nothing_above_the_project_is_looked_at(tmp_path: Path, marker: str) -> None:
    """Not even where the project is itself a package, whose name its files may say."""
    top = tmp_path / "project"
    for name in ("project/net.py", "project/__init__.py", f"project/{marker}", "net.py", "other.py", "__init__.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    modules, seen = Modules(frozenset({str(top)})), set[str]()

    def found(target: str, level: int) -> str | None:
        known = modules.search(top / "run.py", target, level, seen)
        return None if known is None else known[0].relative_to(tmp_path).as_posix()

    assert [found("project.net", 0), found("net", 0), found("other", 0)] == ["project/net.py", "project/net.py", None]
    assert [found("project.net", 2), found("other", 2), found("", 2), found("other", 3)] == [
        "project/net.py",
        *[None] * 3,
    ]
    assert modules.folders_near(str(top), seen) == (str(top),)
    assert {Path(each) for each in seen} >= {top}
    assert all(Path(each).is_relative_to(top) for each in seen)
