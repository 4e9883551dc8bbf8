"""`autoaccel env`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

Run = Callable[..., Result]


def test_a_torch_in_the_working_directory_is_not_torch(run: Run, folder: Path) -> None:
    torch = pytest.importorskip("torch")
    (folder / "torch.py").write_text("raise ImportError('not torch')\n")
    result = run("env")
    assert result.exit_code == 0
    assert torch.__version__ in result.stdout
