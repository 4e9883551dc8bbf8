"""What is said of files does not depend on who looks at them, in which company, and after what."""

from __future__ import annotations

import random
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from autoaccel.config import Configuration, Settings
from autoaccel.jobs import conversion, inspection
from autoaccel.rewriting.record import Report

PLAN = Configuration(Settings())


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Some of the scripts of several files, and some of one; but none that imports by computed names: it would share
    its objects with all the others, which is more than is looked at."""
    fixtures, project = Path(__file__).parents[2] / "fixtures", tmp_path_factory.mktemp("project")
    folders = sorted(fixtures.glob("*/*/"))
    for folder in folders[:: len(folders) // 20]:
        texts = [each.read_text(encoding="utf-8") for each in folder.rglob("*.py")]
        computed = any(word in text for text in texts for word in ("import_module", "__import__", "runpy", "exec("))
        if list(folder.glob("*.py")) and folder.parent.name != "unused-suppression" and not computed:
            shutil.copytree(folder, project / folder.parent.name / folder.name)
    for script in sorted((fixtures / "scripts").glob("m*.py")):
        shutil.copy(script, project / script.name)
    found = sorted(project.rglob("*.py"))
    assert len(found) > 40
    return found


@pytest.fixture(scope="module")
def expected(files: list[Path]) -> list[Report]:
    """What is said when one process looks at all of them in their order."""
    return [*inspection.inspect(files, PLAN, jobs=1)]


def partition(files: Sequence[Path], chance: random.Random) -> list[list[Path]]:
    """All files in some order, in parts of some size."""
    rest = chance.sample(list(files), len(files))
    parts = []
    while rest:
        size = chance.randint(1, 9)
        parts.append(rest[:size])
        rest = rest[size:]
    return parts


@pytest.mark.parametrize("seed", range(3))
def test_any_order_and_company(
    files: list[Path], expected: list[Report], monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    assert [report.path for report in expected] == [str(path) for path in files]
    assert sum(len(report.findings) for report in expected) > 20 and any(report.skipped for report in expected)
    chance = random.Random(seed)
    monkeypatch.setattr(inspection, "shards", lambda concerned: partition(concerned, chance))
    assert inspection.inspect(files, PLAN, jobs=1) == expected


def test_each_file_on_its_own_in_several_processes(files: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    counts: list[int] = []
    expected = inspection.inspect(files, PLAN, jobs=1, changes=True, progress=counts.append)
    assert sum(counts) == len(files), "progress counts every file once"
    monkeypatch.setattr(inspection, "_SHARD", 1)
    assert inspection.inspect(files, PLAN, jobs=3, changes=True) == expected


@pytest.mark.parametrize(("texts", "every"), [(True, 1), (False, 4)])
def test_rewriting(files: list[Path], monkeypatch: pytest.MonkeyPatch, texts: bool, every: int) -> None:
    counts: list[int] = []
    files = files[::every]
    expected = conversion.rewrite_files(files, PLAN, texts=texts, jobs=1, progress=counts.append)
    assert sum(counts) == len(files), "progress counts every file once"
    assert [outcome.path for outcome in expected] == files
    monkeypatch.setattr(inspection, "_SHARD", 2)
    assert conversion.rewrite_files(files, PLAN, texts=texts, jobs=2) == expected


def test_a_file_that_is_gone_is_a_failure(tmp_path: Path) -> None:
    (report,) = inspection.inspect([tmp_path / "gone.py"], PLAN)
    assert [failure.code for failure in report.failures] == ["unreadable"]
    (outcome,) = conversion.rewrite_files([tmp_path / "gone.py"], PLAN, texts=False)
    assert isinstance(outcome, conversion.Refused)


def test_a_defect_concerns_its_file_alone(
    files: list[Path], expected: list[Report], monkeypatch: pytest.MonkeyPatch
) -> None:
    from autoaccel.rewriting import linting

    whole = linting.lint
    bad = next(path for path in files if path.name == "mnist.py")

    def fails(text: str, path: Path, *rest: object, **more: object) -> object:
        if path == bad:
            raise ZeroDivisionError("by accident")
        return whole(text, path, *rest, **more)  # type: ignore[arg-type]

    right = {report.path: report for report in expected}
    monkeypatch.setattr(linting, "lint", fails)
    for report in inspection.inspect(files, PLAN, jobs=1):
        if report.path == str(bad):
            (failure,) = report.failures
            assert failure.message == f"{bad}: internal error, the file is left alone: ZeroDivisionError: by accident"
            assert "raise ZeroDivisionError" in failure.traceback
        else:
            assert report == right[report.path]
