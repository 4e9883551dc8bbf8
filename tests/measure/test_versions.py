"""Hunks between two versions of a script: what is one, what needs what, and what any choice of them makes."""

from __future__ import annotations

import ast
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoaccel import sources
from autoaccel.measure import versions
from autoaccel.measure.versions import Versions

BASE = """\
import torch


def train(net, opt, data):
    for x, y in data:
        loss = net(x, y)
        opt.zero_grad()
        loss.backward()
        opt.step()


net = Net()
opt = torch.optim.SGD(net.parameters(), lr=0.1)
train(net, opt, data)
"""
# By case: what is replaced in the script, and the first line of each hunk.
HUNKS = {
    "one line": ([("lr=0.1", "lr=0.2")], [13]),
    "far from each other": ([("lr=0.1", "lr=0.2"), ("        opt.zero_grad()\n", "")], [7, 13]),
    "a name with its uses": ([("loss", "cost")], [6]),
    "a parameter, and its use": ([("net, opt, data)", "net, opt, data, clip)"), ("y)\n", "y) + clip\n")], [4, 6]),
    "a function with its calls": ([("def train", "def fit"), ("\ntrain(", "\nfit(")], [4]),
    "a line that is moved": (
        [("        opt.zero_grad()\n", ""), ("        opt.step()\n", "        opt.step()\n        opt.zero_grad()\n")],
        [7],
    ),
    "an import, and what it serves": (
        [("import torch\n", "import torch\nimport math\n"), ("lr=0.1", "lr=math.pi")],
        [2, 13],
    ),
    "a header with what it indents": (
        [("        loss.backward()\n", "        if loss > 0:\n            loss.backward()\n")],
        [8],
    ),
    "comments": ([("        opt.step()\n", "        opt.step()  # now\n")], []),
}


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "train.py"
    path.write_text(BASE, encoding="utf-8")
    return path


def between(script: Path, text: str) -> Versions:
    other = script.with_name("other.py")
    other.write_text(text, encoding="utf-8")
    return versions.between([script], versions.in_file(script, other), "other.py")


@pytest.mark.parametrize("case", HUNKS)
def test_hunks(script: Path, case: str) -> None:
    replaced, lines = HUNKS[case]
    text = BASE
    for old, new in replaced:
        assert old in text
        text = text.replace(old, new)
    found = between(script, text)
    assert sorted(each.record.where.line for each in found) == lines
    made = found.texts()
    assert not lines or ast.dump(ast.parse(made[str(script)])) == ast.dump(ast.parse(text))


def test_layout_is_said_and_not_compared(script: Path) -> None:
    found = between(script, BASE.replace("x, y in data:", "x, y in data:  # batches"))
    assert (found.all, found.problems) == ((), ("1 more hunk changes comments or layout alone",))


def test_each_comes_after_those_that_it_needs(script: Path) -> None:
    text = BASE.replace("import torch\n", "import torch\nimport math\n").replace("lr=0.1", "lr=math.pi")
    text = text.replace("        opt.step()\n", "        opt.step()\n        print(math.e)\n")
    found = between(script, text)
    for at, each in enumerate(found.all):
        assert set(found.needs(each)) <= set(found.all[:at])
    assert any(found.needs(each) for each in found)
    assert all("math." not in made for each in found for made in found.texts(found.closed([each])).values())


def test_the_other_version_does_not_parse(script: Path) -> None:
    with pytest.raises(sources.SourceError, match=r"other.py:1: cannot parse train.py: "):
        between(script, "def f(:\n")


_LINES = st.lists(
    st.sampled_from(["a = 1", "b = a", "if a:\n    b = 2", "def f(a):\n    return a", "print(f(b))", "# words", ""]),
    max_size=8,
)


@given(old=_LINES, new=_LINES)
def test_any_two_versions(tmp_path_factory: pytest.TempPathFactory, old: list[str], new: list[str]) -> None:
    """All hunks together are the other version; each choice of them parses."""
    script = tmp_path_factory.mktemp("versions") / "train.py"
    before, after = ("\n".join([*each, ""]) for each in (old, new))
    script.write_text(before, encoding="utf-8")
    found = between(script, after)
    made = found.texts().get(str(script), before)
    assert ast.dump(ast.parse(made)) == ast.dump(ast.parse(after))
    for each in found:
        for text in found.texts([*found.needs(each), each]).values():
            ast.parse(text)


@pytest.mark.parametrize(
    "bound", ["net.scale = 2", 'net.register_buffer("scale", two)', "net.register_parameter(\n    'scale', two)"]
)
def test_what_uses_a_new_attribute_needs_what_makes_it(script: Path, bound: str) -> None:
    made = BASE.replace("net = Net()\n", f"net = Net()\n{bound}\n")
    found = between(script, made.replace("loss.backward()", "(loss * net.scale).backward()"))
    uses, binds = sorted(found, key=lambda each: each.record.where.line)
    assert found.needs(uses) == (binds,)
    assert found.needs(binds) == ()


def _git(folder: Path, *arguments: str) -> None:
    who = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    subprocess.run(["git", "-C", str(folder), *who, *arguments], check=True, capture_output=True)


def test_a_revision_has_the_files_that_are_imported_too(script: Path) -> None:
    folder = script.parent
    (folder / "nets.py").write_text("width = 3\n", encoding="utf-8")
    _git(folder, "init")
    _git(folder, "add", ".")
    _git(folder, "commit", "-m", "first")
    script.write_text(BASE.replace("0.1", "0.2"), encoding="utf-8")
    (folder / "nets.py").write_text("width = 4\n", encoding="utf-8")
    (folder / "new.py").write_text("", encoding="utf-8")
    text_of = versions.in_revision(script, "HEAD")
    found = versions.between([script, folder / "nets.py", folder / "new.py"], text_of, "HEAD")
    assert found.texts() == {str(script): BASE, str(folder / "nets.py"): "width = 3\n"}
    assert [each.partition("new.py ")[2] for each in found.problems] == ["is not in HEAD, and stays as it is"]


@pytest.mark.parametrize("tracked", [True, False])
def test_no_such_version(script: Path, tracked: bool) -> None:
    if tracked:
        _git(script.parent, "init")
        _git(script.parent, "commit", "--allow-empty", "-m", "nothing")
    with pytest.raises(versions.NoVersionError, match="is not in HEAD" if tracked else "neither a file nor a revision"):
        versions.in_revision(script, "HEAD")
