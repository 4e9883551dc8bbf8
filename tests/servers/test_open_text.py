"""What is said of open texts is what `lint` says, and what they become is what `rewrite` writes, byte for byte."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from autoaccel.analysis.file_summaries import Summaries
from autoaccel.cli.main import cli
from autoaccel.config import configure
from autoaccel.edits import Finding
from autoaccel.rewriting import engine, registry
from autoaccel.rewriting.linting import text_edits
from autoaccel.servers import open_text
from autoaccel.servers.open_text import NotRewrittenError, OpenText, Surroundings
from tests.rewriting.edited_texts import applied

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
SLOW = "import torch\n\nx = torch.zeros(3).to('cuda')\n"


def scripts() -> list[Path]:
    """The whole scripts, and of each rule one of its cases."""
    found = sorted((FIXTURES / "scripts").glob("*.py"))
    for rule in registry.rules():
        found += sorted((FIXTURES / rule.name).glob("*.in.py"))[:1]
    return found


def crlf(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\n", "\r\n")


FORMS: dict[str, Callable[[str], str]] = {
    "as it is": str,
    "CRLF": crlf,
    "CRLF and a mark": lambda text: "\ufeff" + crlf(text),
    "characters beyond the first plane": lambda text: "# 😀 𝒙\n\x0c" + text,
    "no newline at the end": lambda text: text.rstrip("\n"),
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(cli, [str(each) for each in arguments])


AROUND = Surroundings()
"""The same for all tests: what one look leaves must not show in another."""


def inspect(text: str, path: Path, others: dict[Path, str] | None = None) -> OpenText:
    return open_text.inspect(text, path, lambda path: configure(path.parent), others or {}, AROUND)


def rewritten(text: str, path: Path, others: dict[Path, str] | None = None) -> str:
    return open_text.rewritten(text, path, lambda path: configure(path.parent), others or {}, AROUND)


def cases() -> list[object]:
    forms = [*FORMS]
    return [
        pytest.param(path, forms[number % len(forms)], id=f"{path.relative_to(FIXTURES)}, {forms[number % len(forms)]}")
        for number, path in enumerate(scripts())
    ]


@pytest.mark.parametrize(("script", "form"), cases())
def test_it_says_what_lint_says_and_becomes_what_rewrite_writes(folder: Path, script: Path, form: str) -> None:
    path = folder / "train.py"
    text = FORMS[form](script.read_bytes().decode("utf-8-sig"))
    path.write_bytes(text.encode())
    reported = json.loads(run("lint", "--no-cache", "--output-format", "json", path).stdout)

    found = inspect(text, path)
    after = rewritten(text, path)

    shift = text.startswith("\ufeff")
    places = [(each.line, each.column - (shift and each.line == 1), each.code, each.message) for each in found.records]
    said = [(each["location"]["row"], each["location"]["column"], each["code"], each["message"]) for each in reported]
    assert sorted(set(places)) == sorted(said)
    assert applied(text, text_edits(text, after)) == after
    assert run("rewrite", path).exit_code == 0
    assert after.encode() == path.read_bytes()


@pytest.mark.parametrize("script", ["table.py", "mnist.py"])
def test_one_finding_becomes_what_an_interactive_rewrite_makes_of_it(folder: Path, script: str) -> None:
    text = (FIXTURES / "scripts" / script).read_text(encoding="utf-8")
    found = inspect(text, folder / "train.py")
    for number, finding in enumerate(found.findings):
        wanted = {position(each) for each in with_needs([finding])}
        result = engine.rewrite(
            text,
            folder / "train.py",
            [rule for rule in registry.rules() if not rule.opt_in],  # as `inspect` has it
            accept=lambda each: position(each) in wanted,  # noqa: B023
        )
        assert found.with_finding(number) == result.after


def with_needs(findings: Sequence[Finding]) -> list[Finding]:
    return [each for finding in findings for each in (finding, *with_needs(finding.needs))]


def position(finding: Finding) -> tuple[object, ...]:
    place = getattr(finding.node, "lineno", 0), getattr(finding.node, "col_offset", 0)
    return finding.rule.code, place, finding.message


def test_lines_for_ipython_stay(folder: Path) -> None:
    text = "# %%\n%matplotlib inline\nimport torch\n# %%\nx = torch.zeros(3).to('cuda')\n!ls\n"
    assert [each.line for each in inspect(text, folder / "cells.py").records] == [5]
    assert rewritten(text, folder / "cells.py") == text.replace("zeros(3).to('cuda')", "zeros(3, device='cuda')")


def test_a_declared_encoding_is_the_files_and_not_the_editors(folder: Path) -> None:
    text = "# -*- coding: latin-1 -*-\n# é😀\n" + SLOW
    assert [each.column for each in inspect(text, folder / "train.py").records] == [5]
    assert "# é😀\n" in rewritten(text, folder / "train.py")


def test_other_open_texts_stand_in_the_place_of_files(folder: Path) -> None:
    """A helper that only evaluates, as long as nobody trains through it."""
    helper = "def features(model, images):\n    model.eval()\n    return model(images)\n"
    user = "import torch\nfrom common import features\nmodel = torch.nn.Linear(2, 2)\n"
    used = user + "print(features(model, torch.rand(1, 2)).sum().item())\n"
    trained = user + "features(model, torch.rand(1, 2)).sum().backward()\n"
    (folder / "common.py").write_text(helper)
    (folder / "main.py").write_text(used)
    path = folder / "common.py"
    assert [each.code for each in inspect(helper, path).records] == ["AA501"]
    assert inspect(helper, path, {folder / "main.py": used}).records
    assert inspect(helper, path, {folder / "main.py": crlf(trained)}).records == ()
    assert rewritten(helper, path, {folder / "main.py": trained}) == helper


def test_files_around_are_looked_at_as_they_are_at_each_look(folder: Path) -> None:
    helper = "def features(model, images):\n    model.eval()\n    return model(images)\n"
    user = "import torch\nfrom common import features\nmodel = torch.nn.Linear(2, 2)\n"
    main, path = folder / "main.py", folder / "common.py"
    path.write_text(helper)

    def codes() -> list[str]:
        return [each.code for each in inspect(helper, path).records]

    evaluating = f"{user}print(features(model, torch.rand(1, 2)).sum().item())\n"
    training = f"{user}features(model, torch.rand(1, 2)).sum().backward()\n"
    main.write_text(evaluating)
    assert codes() == ["AA501"]
    main.write_text(training)
    assert codes() == []
    main.write_text(evaluating)
    assert codes() == ["AA501"]
    (folder / "other.py").write_text(training)
    assert codes() == []
    (folder / "other.py").unlink()
    assert codes() == ["AA501"]


def test_the_configuration_of_the_project_holds(folder: Path) -> None:
    configuration = folder / "pyproject.toml"
    path = folder / "train.py"
    for said, expected in (
        ('tier = "exact"', ["AA101"]),
        ('ignore = ["AA101"]', []),
        ('per-file-ignores = {"train.py" = ["create-on-device"]}', []),
        ('extend-exclude = ["train.py"]', []),
    ):
        configuration.write_text(f"[tool.autoaccel]\n{said}\n")
        assert [each.code for each in inspect(SLOW, path).records] == expected, said
    assert inspect(SLOW.replace("\n", "  # autoaccel: file-ignore\n", 1), path).records == ()
    configuration.write_text("[tool.autoaccel]\nselct = []\n")
    ((failure, line),) = inspect(SLOW, path).problems
    assert (failure.code, line) == ("configuration", f"{configuration}: unknown key 'selct'; did you mean 'select'?")
    with pytest.raises(NotRewrittenError, match="unknown key"):
        rewritten(SLOW, path)


def test_what_cannot_be_looked_at_says_why(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = folder / "train.py"

    def said(text: str) -> list[tuple[str, int, str]]:
        return [(failure.code, failure.line, line) for failure, line in inspect(text, path).problems]

    assert said(SLOW + "y = (\n") == [("invalid-syntax", 4, "cannot parse: '(' was never closed")]
    assert said("y = (\n") == []  # no rule has a word to say about it, and others say what is wrong
    assert said(f"{SLOW}y = '\ud800'\n")[0][0] == "internal-error"
    assert said(SLOW + "y = " + "(" * 3000 + ")" * 3000 + "\n")[0][0] in ("too-deep", "invalid-syntax")
    with pytest.raises(NotRewrittenError, match="cannot parse"):
        rewritten(SLOW + "y = (\n", path)

    def fails(*_: object, **__: object) -> None:
        raise RuntimeError("out of\nluck")

    magics = "# %%\n%time x = torch.zeros(3)\nget_ipython().run_cell('')\n"
    ((code, _, line),) = said(magics)
    assert (code, "the script is left alone" in line) == ("left-alone", True)
    with pytest.raises(NotRewrittenError):
        rewritten(magics, path)

    monkeypatch.setattr(engine, "analyse", fails)
    assert said(SLOW) == [("internal-error", 1, "internal error, the file is left alone: RuntimeError: out of")]


def test_a_result_that_fails_the_self_check_is_none(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from autoaccel.rewriting import check

    monkeypatch.setattr(check, "problem", lambda *_: "it is wrong")
    found = inspect(SLOW, folder / "train.py")
    with pytest.raises(NotRewrittenError, match="self-check failed: it is wrong"):
        found.with_finding(0)
    with pytest.raises(NotRewrittenError, match="self-check failed: it is wrong"):
        rewritten(SLOW, folder / "train.py")


LIBRARY = "import torch\n\ndef features(model, images):\n    model.eval()\n    return model(images)\n"
EVALUATES = "import torch\nfrom lib.library import features\nprint(features(torch.nn.Linear(3, 3), torch.ones(3)))\n"
TRAINS = """\
import torch
from lib.library import features

net = torch.nn.Linear(3, 3)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(100):
    optimizer.zero_grad()
    features(net, torch.randn(8, 3)).sum().backward()
    optimizer.step()
"""
RENAMED = TRAINS.replace("features", "elsewhere")
# By case: files that are written, one after the other, between two keystrokes; None goes away.
WRITTEN: dict[str, list[tuple[str, str | None, bool]]] = {
    "a file": [("engine/loop.py", TRAINS, False), ("engine/loop.py", None, True)],
    "what a file holds": [("engine/loop.py", TRAINS, False), ("engine/loop.py", RENAMED, True)],
    "as much as it held": [("run.py", TRAINS, False), ("run.py", TRAINS.replace("features", "textures"), True)],
    "what git ignores": [("engine/loop.py", TRAINS, False), (".gitignore", "engine/\n", True)],
    "what it ignores by itself": [("engine/loop.py", TRAINS, False), (".git/info/exclude", "loop.py\n", True)],
    "where git looks for what it ignores": [
        ("engine/loop.py", TRAINS, False),
        ("mine", "loop.py\n", False),
        (".git/config", "[core]\n\texcludesFile = {}/mine\n", True),
    ],
    "deep below": [("a/b/c/loop.py", TRAINS, False), ("a/b/c/loop.py", "", True)],
    "where no Python file was": [("notes/text.md", "", True), ("notes/loop.py", TRAINS, False)],
}


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    for name, text in {"lib/library.py": LIBRARY, "run_once.py": EVALUATES, ".git/HEAD": "ref\n"}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def codes_in(path: Path, text: str, around: Surroundings) -> set[str]:
    found = open_text.inspect(text, path, lambda path: configure(path.parent), {}, around)
    return {each.code for each in found.records}


@pytest.mark.parametrize("waited", [False, True], ids=["at once", "later"])
@pytest.mark.parametrize("case", WRITTEN)
def test_each_look_finds_the_files_around_as_they_are(
    repository: Path, case: str, waited: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(open_text, "_TICK", -(10**15) if waited else open_text._TICK)  # as if written long ago
    path, around = repository / "lib" / "library.py", Surroundings()
    assert "AA501" in codes_in(path, LIBRARY, around)
    for number, (name, text, evaluates_alone) in enumerate(WRITTEN[case]):
        changed = repository / name
        changed.parent.mkdir(parents=True, exist_ok=True)
        changed.unlink() if text is None else changed.write_text(text.replace("{}", str(repository)))
        typed = LIBRARY + "\n" * (number + 1)
        assert ("AA501" in codes_in(path, typed, around)) is evaluates_alone
        assert ("AA501" in codes_in(path, typed, Surroundings())) is evaluates_alone


def test_a_keystroke_reads_nothing_that_is_as_it_was(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_text, "_TICK", -(10**15))
    read: list[str] = []
    really = Summaries.data_at

    def data_at(self: Summaries, name: str) -> bytes:
        read.append(name)
        return really(self, name)

    monkeypatch.setattr(Summaries, "data_at", data_at)
    path, other, around = repository / "lib" / "library.py", repository / "tools" / "other.py", Surroundings()
    other.parent.mkdir()
    other.write_text("import torch\n")
    codes_in(path, LIBRARY, around)
    assert str(other) in read
    read.clear()
    codes_in(path, LIBRARY + "\n", around)
    assert str(other) not in read
