"""A baseline silences everything by comments, changes nothing else, and can be taken out again."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autoaccel.analysis import Script
from autoaccel.edits import AddDecorator, Code, Finding, InsertBefore, Replace, Skipped
from autoaccel.rewriting import engine, registry
from autoaccel.rewriting.baseline import Baseline, silence
from autoaccel.rewriting.linting import lint
from autoaccel.rewriting.rule import Rule
from tests.rewriting.subject import toy
from tests.rewriting.test_properties import scripts

FIXTURES = Path(__file__).parents[2] / "fixtures"
INPUTS = sorted(
    path
    for path in (*FIXTURES.glob("*/*.in.py"), *FIXTURES.glob("scripts/*.py"))
    if "autoaccel:" not in path.read_bytes().decode()
)
[UNUSED] = (rule for rule in registry.rules() if rule.comment_function)

CALLS = toy("AA101")
DEFINITIONS = toy("AA401")


@CALLS.check
def _calls(script: Script) -> Iterator[Finding | Skipped]:
    for call in script.find(ast.Call):
        if isinstance(call.func, ast.Name) and call.func.id == "f":
            yield CALLS.finding(call, "f is slow", Replace(call.func, Code("fx")))


@DEFINITIONS.check
def _definitions(script: Script) -> Iterator[Finding | Skipped]:
    for function in script.find(ast.FunctionDef):
        if not any(isinstance(each, ast.Name) and each.id == "fx" for each in function.decorator_list):
            yield DEFINITIONS.finding(function, "not compiled", AddDecorator(function, Code("fx")))


def taken_out(text: str) -> str:
    """The text without comments of ours: whole lines, and what stands behind code."""
    text = re.sub(r"(?m)^[ \t\f]*# autoaccel: ignore\[[^\r\n]*(\r\n|\r|\n)", "", text)
    return re.sub(r"  # autoaccel: ignore\[[^\r\n]*", "", text)


def check(text: str, made: Baseline, rules: list[Rule]) -> None:
    assert not made.left
    assert taken_out(made.text) == text
    assert ast.dump(ast.parse(made.text)) == ast.dump(ast.parse(text))
    assert not lint(made.text, None, rules).findings
    result = engine.rewrite(made.text, None, rules)
    assert (result.after, result.errors) == (made.text, ())
    assert silence(made.text, None, rules) == Baseline(made.text)


@given(
    st.sampled_from(INPUTS), st.sampled_from(["", "legacy", "see #12"]), st.sampled_from(["\n", "\r\n"]), st.booleans()
)
@settings(max_examples=40)
def test_every_fixture_can_be_silenced(path: Path, reason: str, newline: str, ended: bool) -> None:
    text = path.read_bytes().decode("utf-8-sig").replace("\r\n", "\n").rstrip("\n") + ("\n" if ended else "")
    text = text.replace("\n", newline)
    rules = list(registry.rules())
    made = silence(text, None, rules, reason=reason)
    check(text, made, rules)
    found = lint(text, None, rules).findings
    assert made.silenced >= len(found)
    assert bool(found) == (made.text != text)


@given(scripts())
@settings(max_examples=80)
def test_random_scripts_can_be_silenced(text: str) -> None:
    rules = [CALLS, DEFINITIONS, UNUSED]
    check(text, silence(text, None, rules, reason="legacy"), rules)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param("f()\n", "f()  # autoaccel: ignore[AA101]\n", id="at the end of the line"),
        pytest.param("f()", "f()  # autoaccel: ignore[AA101]", id="no line end"),
        pytest.param("f()\r\n", "f()  # autoaccel: ignore[AA101]\r\n", id="CRLF"),
        pytest.param("f(); f(1)\n", "f(); f(1)  # autoaccel: ignore[AA101]\n", id="two findings of a rule"),
        pytest.param("def g(x=f()): pass\n", "def g(x=f()): pass  # autoaccel: ignore[AA101, AA401]\n", id="two rules"),
        pytest.param("f()  # note\n", "f()  # note  # autoaccel: ignore[AA101]\n", id="behind a comment"),
        pytest.param(
            "f()  # autoaccel: ignore[AA201] reason\n",
            "f()  # autoaccel: ignore[AA201, AA101, AA901] reason\n",
            id="merged",
        ),
        pytest.param(
            "# autoaccel: ignore[AA401]\ndef g(x=f()): pass\n",
            "# autoaccel: ignore[AA401, AA101]\ndef g(x=f()): pass\n",
            id="merged above",
        ),
        pytest.param("f(1,\n  2)\n", "f(1,  # autoaccel: ignore[AA101]\n  2)\n", id="within brackets"),
        pytest.param("x = f('''\n''')\n", "# autoaccel: ignore[AA101]\nx = f('''\n''')\n", id="not in a string"),
        pytest.param("if a:\n\tx = f() + \\\n\t\t1\n", "if a:\n\t# autoaccel: ignore[AA101]\n\tx = f() + \\\n\t\t1\n",
                     id="not behind a backslash"),
        pytest.param("x = '''\n'''; f()\n", "x = '''\n'''; f()  # autoaccel: ignore[AA101]\n", id="behind a string"),
        pytest.param("@d\ndef g(): pass\n", "@d\ndef g(): pass  # autoaccel: ignore[AA401]\n", id="beside def"),
        pytest.param(f"@d\ndef {'g' * 100}(): pass\n", f"# autoaccel: ignore[AA401]\n@d\ndef {'g' * 100}(): pass\n",
                     id="above decorators where it is too wide"),
        pytest.param("if a: 1\nelif f(): 2\n", "if a: 1\nelif f(): 2  # autoaccel: ignore[AA101]\n", id="elif"),
        pytest.param("try: pass\nexcept f('''\n'''): pass\n",
                     "try: pass\n# autoaccel: ignore[AA101]\nexcept f('''\n'''): pass\n", id="above except"),
        pytest.param("x = 1  # autoaccel: ignore\n", "x = 1  # autoaccel: ignore  # autoaccel: ignore[AA901]\n",
                     id="an unused comment"),
        pytest.param("x = 1  # noqa: AA101\n", "x = 1  # noqa: AA101  # autoaccel: ignore[AA901]\n", id="unused noqa"),
        pytest.param("# autoaccel: off\nx = 1\n", "# autoaccel: off  # autoaccel: ignore[AA901]\nx = 1\n", id="off"),
        pytest.param("x = 1  # autoaccel: ignore[AA101]\n", "x = 1  # autoaccel: ignore[AA101, AA901]\n", id="code"),
    ],
)  # fmt: skip
def test_where_comments_go(before: str, after: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rules = [CALLS, DEFINITIONS, UNUSED]
    monkeypatch.setattr(registry, "rules", lambda: tuple(rules))
    made = silence(before, None, rules)
    assert made.text == after
    assert not lint(after, None, rules).findings


def test_what_no_comment_reaches_is_told() -> None:
    everywhere = toy("AA101")

    @everywhere.check
    def _(script: Script) -> Iterator[Finding | Skipped]:
        yield everywhere.finding(script.tree, "no seed")

    made = silence("f()\n", None, [everywhere])
    assert (made.text, made.silenced) == ("f()\n", 0)
    assert [(record.code, record.line) for record in made.left] == [("AA101", 1)]


def test_what_surfaces_later_is_silenced_too() -> None:
    """The second rule wants the same code as the first, and gives way as long as that is not silenced."""
    second = toy("AA102")

    @second.check
    def _(script: Script) -> Iterator[Finding | Skipped]:
        for call in script.find(ast.Call):
            yield second.finding(call, "h is faster", Replace(call.func, Code("h")))

    made = silence("f()\n", None, [CALLS, second])
    assert made == Baseline("f()  # autoaccel: ignore[AA101, AA102]\n", 2)


def test_a_reason_that_would_be_a_coding_comment_is_refused() -> None:
    above = toy("AA101")

    @above.check
    def _(script: Script) -> Iterator[Finding | Skipped]:
        for each in script.find(ast.Expr):
            yield above.finding(each, "slow", InsertBefore(each, Code("fx()")))

    with pytest.raises(engine.RewriteError, match="a coding comment came into force"):
        silence("f('''\n''')\n", None, [above], reason="coding: latin-1")
