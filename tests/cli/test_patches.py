"""`rewrite --diff | git apply` gives what `rewrite` writes, byte for byte: with git itself and all rules."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from autoaccel.rewriting import registry

Run = Callable[..., Result]

RULES = registry.rules

SCRIPT = """\
import torch
import torch.nn as nn
from torch.utils.data import DataLoader

from data import dataset

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Linear(10, 2).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(dataset, batch_size=32)


def train(epoch):
    for inputs, labels in loader:
        inputs, labels = inputs.to(device), labels.to(device)
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(inputs), labels)  # größer
        loss.backward()
        optimizer.step()


for epoch in range(3):
    train(epoch)
print("fertig: größer")
"""
PLAIN = SCRIPT.encode()
CRLF = SCRIPT.replace("\n", "\r\n").encode()

CONTENTS = {
    "lf": PLAIN,
    "crlf": CRLF,
    "crlf and lf": SCRIPT.replace("\n", "\r\n", 12).encode(),
    "old cr": SCRIPT.replace("\n", "\r").encode(),
    "no final newline": PLAIN.rstrip(b"\n"),
    "no final newline, crlf": CRLF.rstrip(b"\r\n"),
    "one statement without newline": b"import torch\nx = torch.zeros(3).to('cuda')",
    "form feeds": SCRIPT.replace("\n\n\n", "\n\x0c\n\x0c").encode(),
    "other line breaks in text": SCRIPT.replace("fertig", "a\x0bb\x1cc\x85d\u2028e").encode(),
    "tabs": SCRIPT.replace("    ", "\t").encode(),
    "trailing blanks": SCRIPT.replace("\n", "  \n").encode(),
    "byte order mark": b"\xef\xbb\xbf" + PLAIN,
    "byte order mark, crlf": b"\xef\xbb\xbf" + CRLF,
    "byte order mark and one line": b"\xef\xbb\xbfimport torch; x = torch.zeros(3).to('cuda')",
    "latin-1": ("# -*- coding: latin-1 -*-\n" + SCRIPT).encode("latin-1"),
    "latin-1, crlf": ("# coding: latin-1\n" + SCRIPT).replace("\n", "\r\n").encode("latin-1"),
    "shift-jis": ("# coding: shift_jis\n# 表示\n" + SCRIPT.replace("ößer", "oesser")).encode("shift_jis"),
    "lines like a patch": ('r"""\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-x\n\\ No newline\n"""\n' + SCRIPT).encode(),
}

NAMES = [
    "train.py",
    "my train.py",
    "größer.py",
    "名前.py",
    'quo"te.py',
    "back\\slash.py",
    "tab\tbed.py",
    "new\nline.py",
    "it's.py",
    "trailing .py",
    "-dash.py",
    "#hash.py",
    "deep/er folder/train.py",
    "a b/train.py",
]


@pytest.fixture
def repository(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty repository, and nothing of the developer's own settings."""
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    monkeypatch.setattr(registry, "rules", RULES)
    git(folder, "init", "-q")
    return folder


def git(folder: Path, *arguments: str, **options: object) -> bytes:
    identity = ("-c", "user.name=x", "-c", "user.email=x@example.org")
    command = ["git", *identity, *arguments]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, **options).stdout  # type: ignore[call-overload, no-any-return]


def written(run: Run, files: dict[Path, bytes], *paths: str) -> dict[Path, bytes]:
    """What `rewrite` makes of the files, which are then as they were again."""
    for path, content in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    assert run("rewrite", *paths).exit_code == 0
    after = {path: path.read_bytes() for path in files}
    for path, content in files.items():
        assert after[path] != content, f"{path} is not rewritten"
        path.write_bytes(content)
    return after


def check_round_trip(run: Run, files: dict[Path, bytes], *paths: str, cwd: Path, apply: tuple[str, ...] = ()) -> None:
    after = written(run, files, *paths)
    git(cwd, "update-index", "-q", "--refresh")
    patch = run("rewrite", "--diff", *paths)
    assert patch.exit_code == 1
    assert {path: path.read_bytes() for path in files} == files
    git(cwd, "apply", *apply, input=patch.stdout_bytes)
    assert {path: path.read_bytes() for path in files} == after
    git(cwd, "apply", "-R", *apply, input=patch.stdout_bytes)
    assert {path: path.read_bytes() for path in files} == files


@pytest.mark.parametrize("content", [pytest.param(content, id=name) for name, content in CONTENTS.items()])
def test_any_text(run: Run, repository: Path, content: bytes) -> None:
    check_round_trip(run, {repository / "train.py": content}, "train.py", cwd=repository)


def test_any_name_and_all_in_one_patch(run: Run, repository: Path) -> None:
    contents = list(CONTENTS.values())
    files = {repository / name: contents[number % len(contents)] for number, name in enumerate(NAMES)}
    check_round_trip(run, files, ".", cwd=repository)


def test_all_texts_in_one_patch(run: Run, repository: Path) -> None:
    """Each file's lines are in its own encoding, whatever the others' are."""
    files = {repository / f"{number}.py": content for number, content in enumerate(CONTENTS.values())}
    check_round_trip(run, files, ".", cwd=repository)


@pytest.mark.parametrize("name", NAMES)
def test_any_name_that_is_given(run: Run, repository: Path, name: str) -> None:
    check_round_trip(run, {repository / name: PLAIN}, f"./{name}", cwd=repository)


@pytest.mark.parametrize("paths", [("train.py",), (".",), ("../src/train.py",)])
def test_from_a_folder_of_the_repository(
    run: Run, repository: Path, monkeypatch: pytest.MonkeyPatch, paths: tuple[str, ...]
) -> None:
    """git reads the names of a patch as relative to the folder it is called in."""
    (repository / "src").mkdir()
    monkeypatch.chdir(repository / "src")
    check_round_trip(run, {repository / "src/train.py": CRLF}, *paths, cwd=repository / "src")


@pytest.mark.parametrize("content", ["lf", "crlf", "crlf and lf", "no final newline, crlf", "byte order mark, crlf"])
@pytest.mark.parametrize(
    "setting",
    ["core.autocrlf=false", "core.autocrlf=input", "core.autocrlf=true", "core.quotepath=false", "core.eol=crlf"],
)
def test_under_any_setting_of_git(run: Run, repository: Path, content: str, setting: str) -> None:
    git(repository, "config", *setting.split("="))
    path = repository / "größer.py"
    if setting == "core.autocrlf=true" and content == "lf":
        # Asked to, git itself ends every line that it writes so.
        (after,) = written(run, {path: PLAIN}, ".").values()
        git(repository, "apply", input=run("rewrite", "--diff", ".").stdout_bytes)
        assert path.read_bytes() == after.replace(b"\n", b"\r\n")
    else:
        check_round_trip(run, {path: CONTENTS[content]}, ".", cwd=repository)


@pytest.mark.parametrize("autocrlf", ["false", "input"])
@pytest.mark.parametrize("content", ["lf", "crlf", "latin-1", "form feeds"])
def test_into_the_index(run: Run, repository: Path, content: str, autocrlf: str) -> None:
    """What is committed is what was applied."""
    files = {repository / "my größer.py": CONTENTS[content]}
    for path, text in files.items():
        path.write_bytes(text)
    git(repository, "add", ".")
    git(repository, "commit", "-qm", "before")
    git(repository, "config", "core.autocrlf", autocrlf)
    check_round_trip(run, files, ".", cwd=repository, apply=("--index",))


def test_stdin_under_its_name(run: Run, repository: Path) -> None:
    (repository / "my train.py").write_bytes(CRLF)
    patch = run("rewrite", "--diff", "--stdin-filename", "my train.py", "-", input=CRLF).stdout_bytes
    git(repository, "apply", input=patch)
    assert (repository / "my train.py").read_bytes() == run("rewrite", "-", input=CRLF).stdout_bytes
