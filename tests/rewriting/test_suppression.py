"""Comments that keep the tool away from code."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from autoaccel.analysis import Script
from autoaccel.edits import AddDecorator, Code, Finding, Replace, Skipped, Tier, WrapStatements
from autoaccel.rewriting import engine, registry
from autoaccel.rewriting.engine import Result
from autoaccel.rewriting.linting import lint
from autoaccel.rewriting.rule import Rule
from autoaccel.rewriting.suppression import suppressing, suppressions
from tests.rewriting.edited_texts import applied
from tests.rewriting.subject import Subject, toy


@pytest.mark.parametrize(
    ("text", "silent"),
    [
        pytest.param("x = f(a)\n", False, id="nothing"),
        pytest.param("x = f(a)  # autoaccel: ignore\n", True, id="all rules"),
        pytest.param("x = f(a)  # autoaccel: ignore[AA201] slow disk\n", True, id="code and reason"),
        pytest.param("x = f(a)  # autoaccel: ignore[AA2]\n", True, id="prefix"),
        pytest.param("x = f(a)  # autoaccel: ignore[toy-aa201]\n", True, id="name"),
        pytest.param("x = f(a)  # autoaccel: ignore[AA101, AA201]\n", True, id="several"),
        pytest.param("x = f(a)  # autoaccel: ignore[AA101]\n", False, id="another code"),
        pytest.param("x = f(a)  # AutoAccel:ignore[aa201]\n", True, id="spelling"),
        pytest.param("x = f(a)  # noqa: AA201\n", True, id="noqa"),
        pytest.param("x = f(a)  # noqa: E501,AA201\n", True, id="noqa with others"),
        pytest.param("x = f(a)  # noqa: E501\n", False, id="noqa of others"),
        pytest.param("x = f(a)  # noqa\n", False, id="bare noqa is for other tools"),
        pytest.param("# autoaccel: ignore[AA201]\nx = f(a)\n", True, id="above"),
        pytest.param("# autoaccel: ignore[AA201]\n# more\n\nx = f(a)\n", True, id="above, with more between"),
        pytest.param("# autoaccel: ignore[AA201]\ny = 1\nx = f(a)\n", False, id="above another statement"),
        pytest.param("y = 1  # autoaccel: ignore\nx = f(a)\n", False, id="beside another statement"),
        pytest.param("x = g(\n    b,  # autoaccel: ignore\n    f(a),\n)\n", True, id="within the statement"),
        pytest.param("if f(a):\n    y = 1  # autoaccel: ignore\n", False, id="in the block below"),
        pytest.param("# autoaccel: ignore\n@d\ndef g():\n    pass\nx = f(a)\n", False, id="above a decorator"),
        pytest.param("# autoaccel: off\nx = f(a)\n# autoaccel: on\n", True, id="switched off"),
        pytest.param("# autoaccel: off\ny = 1\n# autoaccel: on\nx = f(a)\n", False, id="switched on again"),
        pytest.param("y = 1\n# autoaccel: off[AA2]\nx = f(a)\n", True, id="switched off to the end"),
        pytest.param("x = f(a)\n# autoaccel: file-ignore[AA2]\n", True, id="whole file"),
        pytest.param("x = f(a)\n# autoaccel: file-ignore[AA1]\n", False, id="whole file, another topic"),
        pytest.param("x = f(a), '# autoaccel: ignore'\n", False, id="a string is no comment"),
        pytest.param('s = """\n# autoaccel: off\n"""\nx = f(a)\n', False, id="nor is a line of a string"),
        pytest.param("x = f(a)  # type: ignore  # autoaccel: ignore[AA201]\n", True, id="behind another pragma"),
        pytest.param("x = f(a)  # autoaccel: ignore[AA201]  # type: ignore\n", True, id="before another pragma"),
        pytest.param("x = f(a)  # autoaccel: ignore[AA1]  # noqa: AA201\n", True, id="two in one comment"),
        pytest.param("x = f(a)  # note # autoaccel: ignore\n", True, id="behind prose"),
        pytest.param("# x = 1  # autoaccel: ignore\nx = f(a)\n", False, id="commented out with its code"),
        pytest.param("x = f(a)  # autoaccel: ignore[toy_aa201]\n", True, id="name in the spelling of its module"),
        pytest.param("x = f(a)  # autoaccel: ignore[ALL]\n", True, id="all by name"),
        pytest.param("x = f(a)  # autoaccel: ignore[]\n", False, id="nobody"),
        pytest.param("x = f(a)  # autoaccel: ignore[A]\n", False, id="a letter is no prefix"),
        pytest.param("x = f(a)  # autoaccel: ignore[AA2 0]\n", True, id="words without commas"),
        pytest.param("x = f(a)  # autoaccel: ignore[AA201\n", True, id="unclosed bracket"),
        pytest.param("x = f(a)  # autoaccel: ignore AA201 slow disk\n", True, id="no brackets"),
        pytest.param("x = f(a)  # autoaccel: ignore AA101 slow disk\n", False, id="no brackets, another code"),
        pytest.param("x = f(a)  # autoaccel: ignores\n", False, id="another word"),
        pytest.param("x = f(a)  # autoaccel: off-by-one\n", False, id="a word that begins alike"),
        pytest.param("x = f(a)  # NoQA:AA201\n", True, id="spelling of noqa"),
        pytest.param("x = f(a)  # noqa: AA201, reason E501\n", True, id="noqa with a reason"),
        pytest.param("# noqa: AA201\nx = f(a)\n", False, id="noqa speaks of its own line"),
        pytest.param("x = f(a)  # autoaccel: ignore[AA201]\r\n", True, id="CRLF"),
        pytest.param("if y:\n\t# autoaccel: ignore\n\tx = f(a)\n", True, id="tabs"),
        pytest.param("# %%\n# autoaccel: ignore\n# %% [markdown]\n# text\nx = f(a)\n", True, id="cells"),
        pytest.param("x = g(\n    b,\n    # autoaccel: ignore\n    f(a),\n)\n", True, id="in the middle of a call"),
        pytest.param("x = g(\n    f(a),\n    # autoaccel: ignore\n)\n", True, id="last in a call"),
        pytest.param("x = g(\n    f(a),\n)  # autoaccel: ignore\n", True, id="behind the bracket"),
        pytest.param("# autoaccel: ignore\nx = 1; y = f(a)\n", True, id="above two statements"),
        pytest.param(
            "# autoaccel: ignore\n@d\ndef g(x=f(a)):\n    pass\n", True, id="above a decorator, of the header"
        ),
        pytest.param("@d\n# autoaccel: ignore\ndef g(x=f(a)):\n    pass\n", True, id="below a decorator"),
        pytest.param("if x:\n    pass\nelif f(a):  # autoaccel: ignore\n    pass\n", True, id="behind elif"),
        pytest.param("if x:\n    pass\n# autoaccel: ignore\nelif f(a):\n    pass\n", True, id="above elif"),
        pytest.param("if f(a):\n    pass\nelif x:  # autoaccel: ignore\n    pass\n", False, id="behind a later elif"),
        pytest.param("if f(a):\n    pass\nelse:  # autoaccel: ignore\n    pass\n", False, id="behind else"),
        pytest.param("try:\n    pass\nexcept f(a):  # autoaccel: ignore\n    pass\n", True, id="behind except"),
        pytest.param("for x in f(a):\n    # autoaccel: ignore\n    y = 1\n", False, id="above the first in a block"),
        pytest.param("for x in f(a):\n    # autoaccel: off\n    y = 1\n", False, id="off in the block"),
        pytest.param("# autoaccel: off[AA2]\n# autoaccel: off[AA1]\nx = f(a)\n", True, id="off twice"),
        pytest.param(
            "# autoaccel: off[AA2]\n# autoaccel: off[AA1]\n# autoaccel: on[AA1]\nx = f(a)\n", True, id="one on"
        ),
        pytest.param("# autoaccel: off[AA2]\n# autoaccel: on[AA2]\nx = f(a)\n", False, id="on by code"),
        pytest.param("# autoaccel: off[AA2]\n# autoaccel: on\nx = f(a)\n", False, id="on for all"),
        pytest.param("# autoaccel: on\nx = f(a)\n", False, id="on without off"),
        pytest.param("x = f(a)\n# autoaccel: off\n", False, id="off further down"),
    ],
)
def test_suppression(text: str, silent: bool) -> None:
    under = Subject(text)
    node = under.expr("f(a)")
    finding = toy("AA201").finding(node, "toy", Replace(node, Code("h")))
    assert (suppressing(finding, suppressions(under.places), under.places) is not None) is silent


def test_a_finding_that_would_edit_a_protected_statement_is_silenced() -> None:
    under = Subject("x = f(a)\ny = g(b)  # autoaccel: ignore\n")
    edits = [Replace(under.expr(source), Code("h")) for source in ("f(a)", "g(b)")]
    finding = toy().finding(under.expr("f(a)"), "toy", *edits)
    assert suppressing(finding, suppressions(under.places), under.places) is not None


@pytest.mark.parametrize(
    ("comment", "silent"),
    [
        ("# autoaccel: ignore[AA201]", True),
        ("# noqa: AA201", True),
        ("# autoaccel: ignore[AA101]", False),
        ("# autoaccel: ignore", False),  # it means the finding that is on its line
    ],
)
def test_a_comment_within_what_a_finding_governs(comment: str, silent: bool) -> None:
    under = Subject(f"def f():\n    x = 1\n    for y in x:\n        z = g(y)  {comment}\n    return z\n")
    function = under.stmt("def f")
    assert isinstance(function, ast.FunctionDef)
    around = WrapStatements(function.body[0], function.body[1], Code("with no_grad()"))
    before = WrapStatements(function.body[0], function.body[0], Code("with no_grad()"))
    for edit, meant in ((AddDecorator(function, Code("no_grad()")), silent), (around, silent), (before, False)):
        finding = toy("AA201").finding(function, "toy", edit)
        assert (suppressing(finding, suppressions(under.places), under.places) is not None) is meant


# -- comments that silence nothing


def calls(code: str, name: str, tier: Tier = Tier.EXACT) -> Rule:
    """A rule that finds calls of a function and adds an `x` to the name; starred arguments are declined."""
    rule = toy(code, tier)

    @rule.check
    def check(script: Script) -> Iterator[Finding | Skipped]:
        for call in script.find(ast.Call):
            if isinstance(call.func, ast.Name) and call.func.id == name:
                if any(isinstance(argument, ast.Starred) for argument in call.args):
                    yield rule.skip(call, "nobody knows what it gets")
                else:
                    yield rule.finding(call, f"{name} is slow", Replace(call.func, Code(f"{name}x")))

    return rule


F, G = calls("AA101", "f"), calls("AA201", "g", Tier.EQUIVALENT)
BRAVE = calls("AA690", "brave", Tier.OPT_IN)
[UNUSED] = (rule for rule in registry.rules() if rule.comment_function)


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "rules", lambda: (F, G, BRAVE, UNUSED))


def rewrite(text: str, *rules: Rule, tier: Tier = Tier.NUMERICS) -> Result:
    result = engine.rewrite(text, None, rules or (F, G, UNUSED), tier=tier)
    assert not result.errors
    again = engine.rewrite(result.after, None, rules or (F, G, UNUSED), tier=tier)
    assert again.after == result.after
    return result


@pytest.mark.usefixtures("known")
@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param("x = 1  # autoaccel: ignore[AA101]", "x = 1", id="code"),
        pytest.param("x = 1  # autoaccel: ignore[toy-aa101] why not", "x = 1", id="name and reason"),
        pytest.param("x = 1  # autoaccel: ignore", "x = 1", id="all rules"),
        pytest.param("x = 1 # keep # autoaccel: ignore", "x = 1 # keep", id="behind another comment"),
        pytest.param("x = 1  # autoaccel: ignore see #7  # keep", "x = 1  # keep", id="before another comment"),
        pytest.param("x = 1  # a  # autoaccel: ignore  # b", "x = 1  # a  # b", id="between other comments"),
        pytest.param("f()  # autoaccel: ignore[AA101, AA201] y", "f()  # autoaccel: ignore[AA101] y", id="last code"),
        pytest.param("g()  # autoaccel: ignore[AA101, AA201] y", "g()  # autoaccel: ignore[AA201] y", id="first code"),
        pytest.param(
            "f(), g()  # autoaccel: ignore[AA101, AA104, AA201]",
            "f(), g()  # autoaccel: ignore[AA101, AA104, AA201]",
            id="an unknown code stays",
        ),
        pytest.param(
            "f()  # autoaccel: ignore[ AA201 AA104,AA101 ]", "f()  # autoaccel: ignore[ AA104,AA101 ]", id="separators"
        ),
        pytest.param("x = 1  # noqa: AA201", "x = 1", id="noqa"),
        pytest.param("x = 1  # noqa: E501, AA201", "x = 1  # noqa: E501", id="noqa, last"),
        pytest.param("x = 1  # noqa: AA201,E501 long", "x = 1  # noqa: E501 long", id="noqa, first"),
        pytest.param("x = 1  # noqa: E501, AA201, F401", "x = 1  # noqa: E501, F401", id="noqa, middle"),
        pytest.param("x = 1  # noqa: AA999", "x = 1  # noqa: AA999", id="noqa, nobody's code"),
        pytest.param("x = 1  # noqa", "x = 1  # noqa", id="noqa of all tools"),
        pytest.param("f()  # autoaccel: ignore  # noqa: AA101", "f()  # autoaccel: ignore  # noqa: AA101", id="twice"),
        pytest.param("# autoaccel: off\nx = 1\n# autoaccel: on", "x = 1", id="off and on"),
        pytest.param("# autoaccel: off\nx = 1", "x = 1", id="off to the end"),
        pytest.param("# autoaccel: on\nx = 1", "x = 1", id="on without off"),
        pytest.param("# autoaccel: off\nf()\n# autoaccel: on", "# autoaccel: off\nf()\n# autoaccel: on", id="used off"),
        pytest.param(
            "# autoaccel: off[AA1, AA2]\nf()\n# autoaccel: on",
            "# autoaccel: off[AA1]\nf()\n# autoaccel: on",
            id="off, one code used",
        ),
        pytest.param(
            "# autoaccel: off[AA1]\nf()\n# autoaccel: off[AA2]\n# autoaccel: on\nx = 1",
            "# autoaccel: off[AA1]\nf()\n# autoaccel: on\nx = 1",
            id="one on for two offs",
        ),
        pytest.param("# autoaccel: file-ignore[AA2]\nf(*a)", "f(*a)", id="file"),
        pytest.param("if x:\n\t# autoaccel: ignore\n\tpass", "if x:\n\tpass", id="tabs"),
        pytest.param("x = 1  # autoaccel: ignore[AA6]", "x = 1  # autoaccel: ignore[AA6]", id="opt-in, not asked for"),
        pytest.param("x = 1  # autoaccel: ignore[ALL]", "x = 1", id="all by name"),
        pytest.param("x = 1  # autoaccel: ignore[AA]", "x = 1", id="all by prefix"),
        pytest.param("x = 1  # autoaccel: ignore[AA901]", "x = 1  # autoaccel: ignore[AA901]", id="of itself"),
        pytest.param("# autoaccel: off[AA901]\ny = 1  # noqa: AA101", "# autoaccel: off[AA901]\ny = 1  # noqa: AA101",
                     id="not wanted here"),
        pytest.param("# autoaccel: off\ny = f()  # noqa: AA201", "# autoaccel: off\ny = f()  # noqa: AA201",
                     id="where nothing is wanted"),
        pytest.param("#!/usr/bin/env python\n# autoaccel: off\n# coding: latin-1", None, id="coding comment moves up"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("end", ["\n", "\r\n", ""])
def test_unused(before: str, after: str | None, end: str) -> None:
    newline = end or "\n"
    before = before.replace("\n", newline) + end
    if after is None:
        [error] = engine.rewrite(before, None, [F, G, UNUSED]).errors
        assert "a coding comment came into force or went" in error
        return
    assert rewrite(before).after == after.replace("\n", newline) + end


@pytest.mark.usefixtures("known")
@pytest.mark.parametrize(
    ("text", "messages"),
    [
        ("x = 1  # autoaccel: ignore[AA101]\n", ["`AA101` silences nothing here"]),
        ("x = 1  # autoaccel: ignore[AA101, aa2]\n", ["`AA101` and `aa2` silence nothing here"]),
        ("x = 1  # autoaccel: ignore\n", ["this comment silences nothing: no rule has anything to say here"]),
        ("x = 1  # autoaccel: ignore[]\n", ["this comment silences nothing: it names no rule"]),
        ("x = 1  # autoaccel: on\n", ["this comment ends no `off`"]),
        ("f(*a)  # autoaccel: ignore[AA101]\n", ["`AA101` is left alone here anyway: nobody knows what it gets"]),
        ("x = 1  # autoaccel: ignore[AA1O1]\n", ["unknown rule `AA1O1`; did you mean 'AA101'?"]),
        (
            "x = 1  # autoaccel: ignore[AA101, elsewhere]\n",
            ["`AA101` silences nothing here", "unknown rule `elsewhere`"],
        ),
    ],
)
def test_what_is_said(text: str, messages: list[str]) -> None:
    report = lint(text, None, [F, G, UNUSED], changes=True)
    assert sorted(record.message for record in report.findings) == sorted(messages)
    assert {(record.code, record.line) for record in report.findings} == {("AA901", 1)}
    assert {record.column for record in report.findings} == {text.index("#") + 1}
    fixed = text
    for record in report.findings:
        fixed = applied(fixed, record.changes)
    assert fixed == rewrite(text).after


@pytest.mark.usefixtures("known")
@pytest.mark.parametrize("comment", ["ignore[AA201]", "ignore", "ignore[AA2]", "ignore[ALL]"])
def test_what_did_not_run_is_not_judged(comment: str) -> None:
    text = f"x = 1  # autoaccel: {comment}\n"
    assert rewrite(text).after == "x = 1\n"
    assert rewrite(text, F, UNUSED).after == text
    assert rewrite(text, F, G, UNUSED, tier=Tier.EXACT).after == text
    assert rewrite(text, F, G).after == text


@pytest.mark.usefixtures("known")
def test_an_opt_in_rule_is_judged_where_it_was_asked_for() -> None:
    text = "x = 1  # autoaccel: ignore[AA690]\n"
    assert rewrite(text).after == text
    assert rewrite(text, F, G, BRAVE, UNUSED).after == "x = 1\n"
    text = "brave()  # autoaccel: ignore[AA690]\n"
    assert rewrite(text, F, G, BRAVE, UNUSED).after == text


@pytest.mark.usefixtures("known")
def test_what_is_less_exact_than_asked_for_is_in_use_all_the_same() -> None:
    def check(script: Script) -> Iterator[Finding | Skipped]:
        for call in script.find(ast.Call):
            yield mixed.finding(call, "random numbers", Replace(call.func, Code("fx")), tier=Tier.EQUIVALENT)

    mixed = toy("AA101")
    mixed.check(check)
    text = "f()  # autoaccel: ignore[AA101]\n"
    assert rewrite(text, mixed, UNUSED, tier=Tier.EXACT).after == text


@pytest.mark.usefixtures("known")
def test_comments_are_judged_when_all_else_is_done() -> None:
    """`ignore[AA201]` silences what only the other rewrite brings about."""
    late = calls("AA201", "fx")
    text = "f()  # autoaccel: ignore[AA201]\n"
    assert rewrite(text, F, late, UNUSED).after == "fx()  # autoaccel: ignore[AA201]\n"


@pytest.mark.usefixtures("known")
def test_code_and_comments_together() -> None:
    text = "f()  # autoaccel: ignore[AA201]\n# autoaccel: ignore\nx = 1\n"
    result = rewrite(text)
    assert result.after == "fx()\nx = 1\n"
    assert [(record.code, record.round) for record in result.applied] == [("AA101", 1), ("AA901", 2), ("AA901", 2)]
    analysis = engine.analyse(text, None, [F, G, UNUSED])
    assert engine.apply(analysis, analysis.findings) == result.after


@pytest.mark.usefixtures("known")
def test_a_finding_without_edits_is_left_to_humans() -> None:
    result = rewrite("x = 1  # autoaccel: ignore[AA999]\n")
    assert not result.applied
    assert [record.message for record in result.skipped] == ["unknown rule `AA999`; did you mean 'AA901'?"]
    result = rewrite("f()  # autoaccel: ignore[AA999]\nx = 1  # noqa: AA101\n")
    assert [record.message for record in result.skipped] == ["unknown rule `AA999`; did you mean 'AA901'?"]


@pytest.mark.usefixtures("known")
def test_two_findings_about_one_comment() -> None:
    """The `on` goes with its `off`; what else stands in the comment is judged by itself."""
    result = rewrite("# autoaccel: off[AA1]\nx = 1\n# autoaccel: on  # autoaccel: file-ignore[AA2]\n")
    assert result.after == "x = 1\n"
    assert not result.skipped


@pytest.mark.parametrize(
    "text",
    ["# autoaccel : IGNORE\n", "# AutoAccel: off\n", "x = 1  #autoaccel:ignore[AA2]\n", "x = 1  # NOQA: E501 AA201\n"],
)
def test_files_with_suppressions_are_looked_at(text: str) -> None:
    assert UNUSED.concerns(text)
    assert UNUSED.concerns(text.encode())


@pytest.mark.parametrize(
    "text",
    ["from autoaccel import runtime as accel\n", "import os  # noqa: E402\n", "# autoaccel is a tool\n", "AA1\n"],
)
def test_files_without_are_not(text: str) -> None:
    assert not UNUSED.concerns(text)
    assert not UNUSED.concerns(text.encode())
