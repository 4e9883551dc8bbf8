"""All formats of `lint` on one small run. `AUTOACCEL_UPDATE=1 pytest` writes the expected reports anew."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import click
import pytest

from autoaccel import __version__
from autoaccel.config.settings import OUTPUT_FORMATS
from autoaccel.reports import formats
from tests.reports import sample

GOLDEN = Path(__file__).with_name("golden")
UPDATE = os.environ.get("AUTOACCEL_UPDATE") == "1"
SUFFIXES = {"json": "json", "sarif": "json", "gitlab": "json", "rdjson": "json", "junit": "xml"}


@pytest.mark.parametrize("name", OUTPUT_FORMATS)
def test_golden(name: str) -> None:
    text = formats.renderer(name)(sample.REPORTS, sample.context())
    text = click.unstyle(text) if name in formats.FOR_PEOPLE else text
    text = text.replace(f'"{__version__}"', '"VERSION"')
    path = GOLDEN / f"{name}.{SUFFIXES.get(name, 'txt')}"
    if UPDATE:
        path.write_bytes(text.encode())
    assert text == path.read_bytes().decode()


@pytest.mark.parametrize("name", OUTPUT_FORMATS)
def test_nothing_to_report(name: str) -> None:
    """Readers of machine formats get a document all the same; people get none."""
    text = formats.renderer(name)([], sample.context(problems=()))
    if SUFFIXES.get(name) == "json":
        document = json.loads(text)
        assert not (document if isinstance(document, list) else document.get("diagnostics"))
    elif name == "junit":
        assert 'tests="0" failures="0" errors="0"' in text
    else:
        assert text == ""


@pytest.mark.parametrize("name", OUTPUT_FORMATS)
def test_reports_end_in_a_line_end_and_differ_in_nothing_by_repetition(name: str) -> None:
    render = formats.renderer(name)
    first, second = (render(sample.REPORTS, sample.context()) for _ in range(2))
    assert first == second
    assert first.endswith("\n")
    assert not first.endswith("\n\n")


def test_nothing_heavy_is_imported(repository: Path) -> None:
    """A run that is answered by the cache renders without rules, analysis and LibCST."""
    program = (
        "import sys, importlib\n"
        f"for name in {OUTPUT_FORMATS!r}: importlib.import_module('autoaccel.reports.' + name)\n"
        "heavy = 'libcst', 'autoaccel.analysis', 'autoaccel_codemods'\n"
        "print([name for name in sys.modules if name.startswith(heavy)])"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=repository, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
