"""The changes of a project: their order, subsets, and where it shows that they were reached."""

from __future__ import annotations

import ast
import dataclasses
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from autoaccel import sources
from autoaccel.analysis import Project, Script
from autoaccel.analysis.files import Files
from autoaccel.config import Configuration, configure
from autoaccel.edits import (
    AddDecorator,
    AddImport,
    Code,
    Finding,
    InsertAfter,
    Replace,
    Skipped,
    Tier,
    WrapStatements,
)
from autoaccel.measure import changes
from autoaccel.measure.changes import Changes
from autoaccel.rewriting import engine, registry
from autoaccel.rewriting.engine import Analysis
from autoaccel.rewriting.rule import Rule

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"

FAST = Rule("AA190", "fast-call", Tier.EXACT, (b"slow(",))
LOWER = Rule("AA390", "lower", Tier.NUMERICS, (b"train(",))
WRAPS = Rule("AA590", "wraps", Tier.EXACT, (b"test(",))
DRAWS = Rule("AA290", "draws", Tier.EQUIVALENT, (b"slow(",))
AFTER = Rule("AA191", "after", Tier.EXACT, (b"fast(",))


@FAST.check
def _fast(script: Script) -> Iterator[Finding | Skipped]:
    for call in _calls(script, "slow"):
        fast = FAST.finding(call, "slow() is fast() now", Replace(call.func, Code("fast")))
        yield fast
        yield DRAWS.finding(call, "faster", AddImport("faster"), needs=(fast,))
        if call.args:
            yield FAST.skip(call, "it has arguments")


@LOWER.check
def _lower(script: Script) -> Iterator[Finding | Skipped]:
    for call in _calls(script, "train"):
        yield LOWER.finding(call, "lower", Replace(call.func, Code("lower")))


@WRAPS.check
def _wraps(script: Script) -> Iterator[Finding | Skipped]:
    for function in script.find(ast.FunctionDef):
        if function.name == "test":
            yield WRAPS.finding(function, "decorate", AddDecorator(function, Code("quiet")))
    for loop in script.find(ast.For):
        last = loop.body[-1]
        yield WRAPS.finding(
            loop, "wrap", WrapStatements(loop.body[0], last, Code("with quiet")), InsertAfter(loop, Code("done()"))
        )


@AFTER.check
def _after(script: Script) -> Iterator[Finding | Skipped]:
    for call in _calls(script, "fast"):
        yield AFTER.finding(call, "fast() is faster() now", Replace(call.func, Code("faster")))


@DRAWS.check
def _nothing(script: Script) -> Iterator[Finding | Skipped]:
    yield from ()


def _calls(script: Script, name: str) -> Iterator[ast.Call]:
    for call in script.find(ast.Call):
        if isinstance(call.func, ast.Name) and call.func.id == name:
            yield call


@pytest.fixture
def rules(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "rules", lambda: (FAST, LOWER, WRAPS, DRAWS))


@pytest.fixture
def settled(tmp_path: Path, rules: None) -> Configuration:
    return configure(tmp_path, isolated=True)


SCRIPT = """\
import helper

def test(model):
    \"\"\"Says how good it is.\"\"\"
    return model(
        1,
    )

for epoch in range(2):
    train(
        epoch,
    )
    slow(epoch)
slow()
"""


def found(folder: Path, settled: Configuration, helper: str = "slow()\n") -> Changes:
    (folder / "train.py").write_text(SCRIPT, encoding="utf-8")
    (folder / "helper.py").write_text(helper, encoding="utf-8")
    return changes.find([folder / "train.py", folder / "helper.py"], settled)


def test_what_is_exact_comes_first_and_needs_before_what_needs_them(tmp_path: Path, settled: Configuration) -> None:
    every = found(tmp_path, settled)
    assert [(each.path.name, each.record.code, each.record.line) for each in every] == [
        ("train.py", "AA590", 3), ("train.py", "AA590", 9), ("train.py", "AA190", 13), ("train.py", "AA190", 14),
        ("helper.py", "AA190", 1), ("train.py", "AA390", 10), ("train.py", "AA290", 13), ("train.py", "AA290", 14),
        ("helper.py", "AA290", 1),
    ]  # fmt: skip
    for at, each in enumerate(every):
        assert set(every.needs(each)) <= set(every.all[:at])


def test_texts(tmp_path: Path, settled: Configuration) -> None:
    every = found(tmp_path, settled)
    both = every.texts()
    assert set(both) == {str(tmp_path.resolve() / name) for name in ("train.py", "helper.py")}
    assert both[str(tmp_path.resolve() / "helper.py")] == "import faster\n\nfast()\n"
    assert every.texts([]) == {}
    helper = [each for each in every if each.path.name == "helper.py"]
    assert every.texts(helper[:1]) == {str(helper[0].path): "fast()\n"}
    # A change without what it needs is left out.
    assert every.texts(helper[1:]) == {}


def test_subsets(tmp_path: Path, settled: Configuration) -> None:
    every = found(tmp_path, settled)
    fast = [each for each in every if each.record.code == "AA190"]
    left = every.without(fast[:1])
    assert [(each.record.code, each.record.line) for each in every if each not in left] == [
        ("AA190", 13),
        ("AA290", 13),
    ]
    assert every.closed([each for each in every if each.record.code == "AA290"]) == ()
    assert every.closed(every.all) == every.all


def test_where_it_shows_that_a_place_was_reached(tmp_path: Path, settled: Configuration) -> None:
    every = {(each.path.name, each.record.code, each.record.line): each for each in found(tmp_path, settled)}
    decorated, wrapped = every["train.py", "AA590", 3], every["train.py", "AA590", 9]
    lower = every["train.py", "AA390", 10]
    assert decorated.witnesses == ((5, 7),), "a function is reached when its body is, not when it is defined"
    assert wrapped.witnesses == ((10, 12), (9, 9)), "of wrapped statements the first, of a loop the header"
    assert lower.witnesses == ((10, 12),), "any line of a statement"
    path = str(decorated.path)
    assert not decorated.is_reached({path: [3]})
    assert decorated.is_reached({path: [3, 6]})
    assert not wrapped.is_reached({path: [9]})
    assert wrapped.missed({path: [9]}) == (10,)
    assert wrapped.is_reached({path: [9, 11]})
    assert not wrapped.is_reached({})


def test_files_that_cannot_be_analysed_are_told(tmp_path: Path, settled: Configuration) -> None:
    every = found(tmp_path, settled, helper="slow(\n")
    assert {each.path.name for each in every} == {"train.py"}
    [problem] = every.problems
    assert problem.startswith(f"{tmp_path.resolve() / 'helper.py'}:1: cannot parse")


def test_what_rules_left_alone(tmp_path: Path, settled: Configuration) -> None:
    [(path, record)] = found(tmp_path, settled).skipped
    assert (path.name, record.line, record.message) == ("train.py", 13, "it has arguments")


def test_what_would_follow_is_not_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "rules", lambda: (FAST, AFTER))
    (tmp_path / "train.py").write_text("slow()\n", encoding="utf-8")
    every = changes.find([tmp_path / "train.py"], configure(tmp_path, isolated=True))
    assert [(each.record.code, each.record.round, each.record.line) for each in every] == [
        ("AA190", 1, 1), ("AA290", 1, 1), ("AA191", 2, 1)
    ]  # fmt: skip
    path, last = str((tmp_path / "train.py").resolve()), every.all[-1]
    assert every.later == ()
    assert every.needs(last) == ()
    assert every.texts([last]) == {}, "its rule finds nothing before"
    assert every.texts(every.all[:-1]) != every.texts()
    result = engine.rewrite("slow()\n", Path(path), (FAST, AFTER))
    assert every.texts() == {path: result.after}


def test_what_a_rule_finds_in_both_rounds_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Left out of the first round it would be found in the second one all the same."""
    again = Rule("AA192", "again", Tier.EXACT, (b"fast", b"quick"))

    @again.check
    def check(script: Script) -> Iterator[Finding]:
        for name in ("fast", "quick"):
            for call in _calls(script, name):
                yield again.finding(call, "more of it", Replace(call.func, Code(f"{name}er")))

    monkeypatch.setattr(registry, "rules", lambda: (FAST, again))
    (tmp_path / "train.py").write_text("slow()\nquick()\n", encoding="utf-8")
    every = changes.find([tmp_path / "train.py"], configure(tmp_path, isolated=True))
    assert [(each.record.code, each.record.line) for each in every] == [("AA190", 1), ("AA192", 2), ("AA290", 1)]
    assert [(each.code, each.round) for _, each in every.later] == [("AA192", 2)]


@pytest.mark.parametrize("script", sorted((FIXTURES / "scripts").glob("*.py")), ids=lambda path: path.stem)
def test_all_changes_together_are_what_the_command_writes(script: Path, tmp_path: Path) -> None:
    """So what is verified is what is written, however many rounds it takes."""
    # In no repository: each would be searched for files of this one that mention it.
    script = Path(shutil.copy(script, tmp_path))
    configuration = configure(script.parent, isolated=True)
    every = changes.find([script], configuration)
    if every.later:
        pytest.skip("said, and not verified")
    text = sources.read(script).text
    project = Project(Files((script.resolve(),)))
    result = engine.rewrite(text, script.resolve(), configuration.rules_for(script), project=project)
    assert every.texts().get(str(script.resolve()), text) == result.after


def test_comments_train_nothing(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("import torch\nx = 1  # autoaccel: ignore[AA101]\nloss.backward()\n", encoding="utf-8")
    assert changes.find([script], configure(tmp_path, isolated=True)).all == ()


def test_findings_can_be_altered(tmp_path: Path, settled: Configuration) -> None:
    def alter(analysis: Analysis) -> Analysis:
        wrong = tuple(
            dataclasses.replace(each, edits=(Replace(each.node.func, Code("wrong")),))  # type: ignore[attr-defined]
            for each in analysis.findings
            if each.rule is FAST
        )
        return dataclasses.replace(analysis, findings=wrong)

    (tmp_path / "train.py").write_text("slow()\n", encoding="utf-8")
    every = changes.find([tmp_path / "train.py"], settled, alter)
    assert list(every.texts().values()) == ["wrong()\n"]
