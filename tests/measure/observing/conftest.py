"""Observed runs for the tests in this folder."""

from __future__ import annotations

import dataclasses
import textwrap
from pathlib import Path

import pytest

from autoaccel.measure.observing.request import Request
from autoaccel.measure.observing.run_record import RunRecord
from tests.measure.forking import Forking
from tests.measure.observing.scripts import Observe


@pytest.fixture
def observe(forking: Forking, tmp_path: Path) -> Observe:
    def run(text: str, environment: dict[str, str] | None = None, **request: object) -> RunRecord:
        script = tmp_path / "train.py"
        script.write_text(textwrap.dedent(text))
        asked = Request(str(script), root=str(tmp_path.resolve()))
        return forking.run(dataclasses.replace(asked, **request), environment)  # type: ignore[arg-type]

    return run
