"""Scripts that are held against another version of themselves."""

from __future__ import annotations

import shutil
import textwrap
from functools import partial
from pathlib import Path

import pytest

from autoaccel.measure import versions
from autoaccel.measure.observing.request import Request
from autoaccel.measure.verifying import procedure
from autoaccel.measure.verifying.originals import Limits
from autoaccel.measure.verifying.report import Verification
from tests.measure.forking import Forking
from tests.measure.verifying.two_versions import LIMITS, Compare


@pytest.fixture
def compare(forking: Forking, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Compare:
    """`compare(text, (old, new), …)` holds a script against the same with other words in it."""
    monkeypatch.chdir(tmp_path)
    script, other = tmp_path.resolve() / "train.py", tmp_path.resolve() / "other.py"

    def run(text: str, *replaced: tuple[str, str], limits: Limits = LIMITS, **asked: object) -> Verification:
        text = textwrap.dedent(text)
        script.write_text(text, encoding="utf-8")
        for old, new in replaced:
            assert old in text
            text = text.replace(old, new)
        other.write_text(text, encoding="utf-8")
        request = Request("train.py", root=str(script.parent), by_kind=True, import_original=True, **asked)  # type: ignore[arg-type]
        changes = partial(versions.between, text_of=versions.in_file(script, other), name="other.py")
        report, _ = procedure.verify(
            request,
            changes,
            lambda asked, environment: forking.run(asked, environment, emptied(script.parent)),
            limits=limits,
            against="other.py",
        )
        return report

    return run


def emptied(folder: Path) -> Path:
    """A folder without what an earlier run wrote there."""
    for name in ("rows.csv", "net.pt"):
        (folder / name).unlink(missing_ok=True)
    shutil.rmtree(folder / "runs", ignore_errors=True)
    return folder
