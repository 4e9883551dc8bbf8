"""The real `libcst.tool` runs the rules, and makes of a file what `autoaccel rewrite` makes of it."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from autoaccel import codemod
from autoaccel.cli.main import cli
from autoaccel.config import known_rules

SCRIPT = """\
import torch
from torch.utils.data import DataLoader

device = torch.device("cuda")
loader = DataLoader(data, batch_size=8)  # Größe
for images, labels in loader:
\timages, labels = images.to(device), labels.to(device)
\tloss = criterion(model(images), labels)
mask = torch.zeros(3).to(device)\x0c
"""
TEXTS = {
    "plain": SCRIPT.encode(),
    "crlf": SCRIPT.replace("\n", "\r\n").encode(),
    "no-final-newline": SCRIPT.rstrip().encode(),
    "bom": b"\xef\xbb\xbf" + SCRIPT.encode(),
    "latin-1": b"# coding: latin-1\n" + SCRIPT.encode("latin-1"),
}


@pytest.fixture(autouse=True)
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run_libcst(repository: Path, command: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    roots = os.pathsep.join([str(repository), str(repository / "codemods")])
    line = [sys.executable, "-m", "libcst.tool", "codemod", "--no-format", "-x", f"autoaccel.codemod.{command}"]
    return subprocess.run(
        [*line, *arguments], env={**os.environ, "PYTHONPATH": roots}, capture_output=True, text=True, check=False
    )


def rewritten(data: bytes, *arguments: str) -> bytes:
    """What `autoaccel rewrite` makes of it."""
    Path("expected.py").write_bytes(data)
    result = CliRunner().invoke(cli, ["rewrite", "--quiet", *arguments, "expected.py"])
    assert result.exit_code == 0, result.output
    after = Path("expected.py").read_bytes()
    Path("expected.py").unlink()
    return after


@pytest.mark.parametrize("name", TEXTS)
def test_rewrite(repository: Path, name: str) -> None:
    expected = rewritten(TEXTS[name])
    assert expected != TEXTS[name]
    Path("train.py").write_bytes(TEXTS[name])
    result = run_libcst(repository, "Rewrite", "train.py")
    assert (result.returncode, "Transformed 1 files successfully" in result.stderr) == (0, True), result.stderr
    assert Path("train.py").read_bytes() == expected


def test_arguments(repository: Path) -> None:
    data = TEXTS["plain"]
    expected = rewritten(data, "--select", "AA1", "--tier", "exact", "--ignore", "AA101")
    Path("train.py").write_bytes(data)
    run_libcst(repository, "Rewrite", "--select", "AA1", "--tier", "exact", "--ignore", "create-on-device", "train.py")
    assert Path("train.py").read_bytes() == expected
    assert expected.count(b"non_blocking=True") == 2
    assert b"device=device" not in expected


def test_one_rule_over_a_folder_in_several_processes(repository: Path) -> None:
    Path("src").mkdir()
    for number in range(3):
        Path(f"src/train{number}.py").write_bytes(TEXTS["plain"])
    Path("src/broken.py").write_text("for\n", encoding="utf-8")
    expected = rewritten(TEXTS["plain"], "--select", "AA103")
    result = run_libcst(repository, "NonBlocking", "--jobs", "2", "src")
    assert (result.returncode, "Failed to codemod 1 files" in result.stderr) == (1, True), result.stderr
    assert [path.read_bytes() for path in sorted(Path("src").glob("train*"))] == [expected] * 3


def test_configuration_counts(repository: Path) -> None:
    Path("autoaccel.toml").write_text('select = ["AA101"]\n', encoding="utf-8")
    expected = rewritten(TEXTS["plain"], "--select", "AA101")
    Path("train.py").write_bytes(TEXTS["plain"])
    run_libcst(repository, "Rewrite", "train.py")
    assert Path("train.py").read_bytes() == expected


def test_what_is_left_alone_is_a_warning(repository: Path) -> None:
    Path("train.py").write_text(
        "from torch.utils.data import DataLoader\nloader = DataLoader(data, **options)\n", encoding="utf-8"
    )
    result = run_libcst(repository, "LoaderWorkers", "train.py")
    assert result.returncode == 0
    assert "1 warnings were generated" in result.stderr
    assert "train.py:2: AA201 loader-workers left alone: " in result.stderr


def test_standard_input(repository: Path) -> None:
    result = subprocess.run(
        [sys.executable, "-m", "libcst.tool", "codemod", "--no-format", "-x", "autoaccel.codemod.NonBlocking", "-"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(repository), str(repository / "codemods")])},
        input=SCRIPT.replace("\x0c", ""),
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.stdout.count("non_blocking=True") == 2


def test_every_rule_has_its_class() -> None:
    names = {rule.code: "".join(word.capitalize() for word in rule.name.split("-")) for rule in known_rules()}
    for code, name in names.items():
        command = getattr(codemod, name)
        assert command.DESCRIPTION.startswith(f"{code}: ")
        # Worker processes get it by its name.
        assert pickle.loads(pickle.dumps(command)) is command
        assert name in dir(codemod)


def test_no_other_names_are_made_up() -> None:
    assert not hasattr(codemod, "Nothing")
