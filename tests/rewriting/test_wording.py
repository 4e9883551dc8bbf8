"""Edits in words: what a reader is told, for every kind of edit."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from autoaccel.analysis import Project
from autoaccel.edits import (
    AddArguments,
    AddDecorator,
    AddImport,
    Code,
    Comment,
    EditComment,
    InsertAfter,
    InsertBefore,
    RemoveArgument,
    RemoveStatement,
    Replace,
    WrapStatements,
)
from autoaccel.rewriting import engine, registry
from autoaccel.rewriting.wording import wording
from tests.rewriting.subject import Subject

FIXTURES = Path(__file__).parent.parent.parent / "fixtures"

TEXT = """\
import torch

def step(x, y):
    out = model(x)
    loss = criterion(out, y)
    loss.backward()
    return loss

loader = DataLoader(data, 4)
for batch in loader: step(batch.to(device), batch.to(device, copy=True))
# why
total = compute(a + b,  # the first
    c)
"""


@pytest.fixture
def subject() -> Subject:
    return Subject(TEXT)


def words(subject: Subject, *edits: object) -> tuple[str, ...]:
    """For a finding that speaks of the first statement, so that all lines are named."""
    return wording(subject.finding(*edits), subject.places)  # type: ignore[arg-type]


def test_replace_shows_the_call_around_a_name(subject: Subject) -> None:
    loss = subject.expr("loss", 1)
    assert words(subject, Replace(loss, Code("scaler.scale({0})", (loss,)))) == (
        "`loss.backward()` -> `scaler.scale(loss).backward()` on line 6",
    )


def test_replace_of_a_name_that_stands_alone(subject: Subject) -> None:
    loader = subject.expr("loader", 1)
    assert words(subject, Replace(loader, Code("accel.prefetch({0})", (loader,)))) == (
        "`loader` -> `accel.prefetch(loader)` on line 10",
    )


def test_several_edits_of_one_call_are_shown_together(subject: Subject) -> None:
    out, y = subject.expr("out", 1), subject.expr("y", 0)
    edits = [Replace(each, Code("{0}.float()", (each,))) for each in (out, y)]
    assert words(subject, *edits) == ("`criterion(out, y)` -> `criterion(out.float(), y.float())` on line 5",)


def test_edits_inside_of_what_is_kept(subject: Subject) -> None:
    inner = subject.call("model(x)")
    edits = [AddArguments(inner, (("fast", Code("True")),)), Replace(inner, Code("accel.run({0})", (inner,)))]
    assert words(subject, *edits) == ("`model(x)` -> `accel.run(model(x, fast=True))` on line 4",)


def test_parentheses_where_precedence_asks_for_them(subject: Subject) -> None:
    both = subject.expr("a + b")
    assert words(subject, Replace(both, Code("{0}.float()", (both,)))) == ("`a + b` -> `(a + b).float()` on line 12",)
    assert words(subject, Replace(both, Code("f({0})", (both,)))) == ("`a + b` -> `f(a + b)` on line 12",)


def test_arguments(subject: Subject) -> None:
    first = subject.call("batch.to(device)")
    second = subject.call("batch.to(device, copy=True)")
    assert words(subject, AddArguments(first, (("non_blocking", Code("True")),))) == (
        "`batch.to(device)` -> `batch.to(device, non_blocking=True)` on line 10",
    )
    assert words(subject, RemoveArgument(second, second.keywords[0])) == (
        "`batch.to(device, copy=True)` -> `batch.to(device)` on line 10",
    )
    assert words(subject, RemoveArgument(first, first.args[0])) == ("`batch.to(device)` -> `batch.to()` on line 10",)
    assert words(
        subject,
        RemoveArgument(second, second.args[0]),
        AddArguments(second, (("device", Code("{0}", (second.args[0],))),)),
    ) == ("`batch.to(device, copy=True)` -> `batch.to(copy=True, device=device)` on line 10",)


def test_arguments_go_before_mappings() -> None:
    subject = Subject("f(1, **kwargs)\ng(**{'a': 1})\n")
    for text, expected in (("f(1, **kwargs)", "f(1, k=2, **kwargs)"), ("g(**{'a': 1})", "g(k=2, **{'a': 1})")):
        (line,) = words(subject, AddArguments(subject.call(text), (("k", Code("2")),)))
        assert line.startswith(f"`{text}` -> `{expected}`")


def test_what_is_added_to_a_long_call_stands_alone(subject: Subject) -> None:
    call = subject.call("DataLoader(data, 4)")
    long = tuple((f"argument_{number}", Code(f"value_{number}")) for number in range(5))
    (line,) = words(subject, AddArguments(call, long))
    assert line.startswith("`argument_0=value_0, argument_1=value_1, ")
    assert line.endswith("` added to `DataLoader(…)` on line 9")


def test_code_of_several_lines_is_one_line_without_comments(subject: Subject) -> None:
    call = next(each for each in ast.walk(subject.places.tree) if isinstance(each, ast.Call) and each.lineno == 12)
    assert words(subject, AddArguments(call, (("d", Code("1")),))) == (
        "`compute(a + b, c)` -> `compute(a + b, c, d=1)` on line 12",
    )


def test_statements(subject: Subject) -> None:
    out, loss = subject.stmt("out ="), subject.stmt("loss =")
    step, loader = subject.stmt("def step"), subject.stmt("loader =")
    assert isinstance(step, ast.FunctionDef)
    assert words(subject, WrapStatements(out, loss, Code("with accel.autocast({0})", (subject.expr("device"),)))) == (
        "`with accel.autocast(device):` around lines 4-5",
    )
    assert words(subject, WrapStatements(out, out, Code("with a"), Code("x = 1\ny = 2"))) == (
        "`with a:`, ended by `x = 1; y = 2`, around line 4",
    )
    assert words(subject, InsertBefore(loader, Code("a = 1"))) == ("`a = 1` above line 9",)
    assert words(subject, InsertAfter(loader, Code("if a:\n    b = 1\nc = 2"))) == (
        "`if a: b = 1; c = 2` below line 9",
    )
    assert words(subject, RemoveStatement(loader)) == ("without `loader = DataLoader(data, 4)` on line 9",)
    assert words(subject, AddDecorator(step, Code("torch.no_grad()"))) == (
        "`@torch.no_grad()` above `def step` on line 3",
    )


def test_comments(subject: Subject) -> None:
    comment = Comment("# why", 11, 0, "# why")
    assert words(subject, EditComment(comment, "")) == ("without `# why` on line 11",)
    assert words(subject, EditComment(comment, "# how")) == ("`# why` -> `# how` on line 11",)


def test_imports_are_last_and_only_those_that_are_missing(subject: Subject) -> None:
    loader = subject.stmt("loader =")
    edits = [AddImport("torch"), AddImport("a", "b", "c"), InsertBefore(loader, Code("x = 1"))]
    assert words(subject, *edits) == ("`x = 1` above line 9", "`from a import b as c` among the imports")


def test_equal_edits_are_said_once() -> None:
    subject = Subject("".join(f"f(x{number % 2})\n" for number in range(20)))
    calls = [each for each in ast.walk(subject.places.tree) if isinstance(each, ast.Call)]
    edits = [AddArguments(call, (("fast", Code("True")),)) for call in calls]
    assert words(subject, *edits[:5]) == (
        "`f(x0)` -> `f(x0, fast=True)` on lines 1, 3 and 5",
        "`f(x1)` -> `f(x1, fast=True)` on lines 2 and 4",
    )
    assert words(subject, *edits) == (
        "`f(x0)` -> `f(x0, fast=True)` on 10 places, lines 1 to 19",
        "`f(x1)` -> `f(x1, fast=True)` on 10 places, lines 2 to 20",
    )


def test_words_follow_the_text() -> None:
    """Whatever the order in which a rule thought of its edits, and wherever nodes lie in memory."""
    subject = Subject("f(x), g(x), h(x)\n")
    edits = [AddArguments(subject.call(text), (("k", Code("1")),)) for text in ("h(x)", "f(x)", "g(x)")]
    assert [line.split("`")[1] for line in words(subject, *edits)] == ["f(x)", "g(x)", "h(x)"]


def test_the_line_of_the_finding_is_not_repeated() -> None:
    subject = Subject("f(x)\nf(y)\n")
    assert words(subject, AddArguments(subject.call("f(x)"), (("k", Code("1")),))) == ("`f(x)` -> `f(x, k=1)`",)


def test_needs(subject: Subject) -> None:
    need = subject.finding(InsertBefore(subject.stmt("loader ="), Code("a = 1")))
    finding = subject.finding(InsertBefore(subject.stmt("loader ="), Code("b = 1")), code="AA002", needs=(need,))
    assert wording(finding, subject.places) == ("`b = 1` above line 9", "needs AA001 toy-aa001 on line 1")


def test_very_long_code_is_shortened(subject: Subject) -> None:
    call = subject.call("model(x)")
    (line,) = words(subject, Replace(call, Code("f(" + ", ".join(map(str, range(200))) + ")")))
    assert len(line) < 250
    assert " … " in line


def test_deep_expressions() -> None:
    deep = " + ".join(["x"] * 2500)
    subject = Subject(f"f({deep})\n")
    (call,) = (each for each in ast.walk(subject.places.tree) if isinstance(each, ast.Call))
    (line,) = words(subject, Replace(call, Code("{0}.g()", (call.args[0],))))
    assert line.startswith("`f(x + x + ")
    assert line.split(" -> ")[1].startswith("`(x + x + ")


@pytest.mark.parametrize("path", sorted(FIXTURES.glob("scripts/*.py")), ids=lambda path: path.stem)
def test_real_findings_are_said_in_single_lines(path: Path) -> None:
    text = path.read_bytes().decode("utf-8-sig")
    analysis = engine.analyse(text, path, registry.rules(), project=Project([path], {path: text}))
    for finding in analysis.findings:
        lines = wording(finding, analysis.places)
        assert bool(lines) == bool(finding.edits)
        for line in lines:
            assert line.isprintable()
            assert line.count("`") % 2 == 0
