"""Which code belongs to tests."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from autoaccel.analysis import load
from autoaccel.analysis.unit_tests import in_unit_test

SUITE = "def test_a():\n    run()\n\n\ndef test_b():\n    pass\n\n\ndef test_c():\n    pass\n\n"
COLLECTED = "def test_shape():\n    assert run() == 1\n"


@pytest.mark.parametrize(
    ("text", "name", "expected"),
    [
        ("import pytest\n\nrun()\n", "anything.py", True),
        ("import unittest\n\nrun()\n", "anything.py", True),
        ("from unittest import TestCase\n\nrun()\n", "anything.py", True),
        ("from torch.testing._internal.common_utils import TestCase\n\nrun()\n", "anything.py", True),
        ("from unittest.mock import patch\n\nrun()\n", "train.py", False),
        ("from unittest import mock\n\nrun()\n", "train.py", False),
        ("import pytestish\n\nrun()\n", "train.py", False),
        ("from .unittest import run\n\nrun()\n", "train.py", False),
        (COLLECTED, "test_model.py", True),
        (COLLECTED, "model_test.py", True),
        (COLLECTED, "model.py", False),
        (f"{COLLECTED}\n\ntest_shape()\n", "test_model.py", False),
        (f"{SUITE}\ntest_a()\n", "net_test.py", True),
        ("def test(model):\n    run()\n", "test_model.py", False),
        ("run()\n", "test.py", False),
        (
            "def test_epoch(model):\n    run()\n\n\nfor epoch in range(3):\n    test_epoch(1)\n",
            "test_model.py",
            False,
        ),
    ],
)
def test_files(text: str, name: str, expected: bool) -> None:
    script = load(text, Path("/nowhere") / name)
    place = next(call for call in script.find(ast.Call) if isinstance(call.func, ast.Name) and call.func.id == "run")
    assert in_unit_test(script, place) is expected


def test_a_test_case_beside_a_program(tmp_path: Path) -> None:
    (tmp_path / "cases.py").write_text("import unittest\n\n\nclass Case(unittest.TestCase):\n    pass\n")
    text = "from cases import Case\n\n\nclass Check(Case):\n    def go(self):\n        run()\n\n\nrun()\n"
    script = load(text, tmp_path / "program.py")
    assert [in_unit_test(script, call) for call in script.find(ast.Call)] == [True, False]
