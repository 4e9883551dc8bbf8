"""Replacing expressions: holes, parentheses, comments, positions."""

from __future__ import annotations

import ast

import pytest

from autoaccel.edits import AddArguments, Code, Replace
from tests.rewriting.subject import Subject


@pytest.mark.parametrize(
    ("text", "target", "template", "holes", "expected"),
    [
        pytest.param(
            "loss.backward()\n", "loss", "scaler.scale({0})", ["loss"], "scaler.scale(loss).backward()\n", id="itself"
        ),
        pytest.param(
            "(a + b).to(d)\n", "(a + b).to(d)", "move({0})", ["a + b"], "move(a + b)\n", id="drops parentheses"
        ),
        pytest.param("x = f(a)\n", "f(a)", "{0} * 2", ["a"], "x = a * 2\n", id="bare"),
        pytest.param(
            "x = f(a + b)\n", "f(a + b)", "{0} * 2", ["a + b"], "x = (a + b) * 2\n", id="precedence in template"
        ),
        pytest.param("x = f(a) ** 2\n", "f(a)", "a + b", [], "x = (a + b) ** 2\n", id="precedence outside"),
        pytest.param("x = f(a) + 2\n", "f(a)", "a * b", [], "x = a * b + 2\n", id="no needless parentheses"),
        pytest.param("f(a).b\n", "f(a)", "-c", [], "(-c).b\n", id="attribute of an operation"),
        pytest.param(
            "x = a if b else c\n", "b", "p if q else r", [], "x = a if (p if q else r) else c\n", id="conditional"
        ),
        pytest.param("x = a, b\n", "a, b", "f({0})", ["a, b"], "x = f((a, b))\n", id="bare tuple"),
        pytest.param(
            "x = (a, b)\n", "(a, b)", "f({0})", ["(a, b)"], "x = f((a, b))\n", id="tuple with its parentheses"
        ),
        pytest.param("x = (a, b)\n", "(a, b)", "c", [], "x = c\n", id="tuple replaced"),
        pytest.param("x = ((a, b))\n", "(a, b)", "c", [], "x = (c)\n", id="tuple in more parentheses"),
        pytest.param(
            "g = (i for i in r)\n",
            "(i for i in r)",
            "list({0})",
            ["(i for i in r)"],
            "g = list((i for i in r))\n",
            id="generator",
        ),
        pytest.param("x = (f)(a)\n", "f", "g.h", [], "x = (g.h)(a)\n", id="parentheses stay"),
        pytest.param("f(lambda x: g(x))\n", "g(x)", "x + 1", [], "f(lambda x: x + 1)\n", id="in a lambda"),
        pytest.param("f(*g(x))\n", "g(x)", "a or b", [], "f(*a or b)\n", id="starred"),
        pytest.param("x[g(i)] = 1\n", "g(i)", "i + 1", [], "x[i + 1] = 1\n", id="subscript of a target"),
        pytest.param(
            "s = 'ä', f(x), 'é'\n", "f(x)", "g({0})", ["x"], "s = 'ä', g(x), 'é'\n", id="wide characters before"
        ),
        pytest.param(
            "async def f():\n    x = await g(a)\n", "g(a)", "h", [], "async def f():\n    x = await h\n", id="await"
        ),
        pytest.param("x = f(a)\n", "f(a)", '{{"k": {0}}}', ["a"], 'x = {"k": a}\n', id="literal braces"),
        pytest.param(
            "x = 'a', 'b', f(a)\n", "f(a)", 'g("cuda")', [], "x = 'a', 'b', g('cuda')\n", id="the file's quotes"
        ),
        pytest.param('x = "a", f(a)\n', "f(a)", 'g("it\'s")', [], 'x = "a", g("it\'s")\n', id="quotes inside"),
        pytest.param(
            "for x in f(a):\n    pass\n", "f(a)", "g({0})", ["f(a)"], "for x in g(f(a)):\n    pass\n", id="loop"
        ),
        pytest.param("@f(a)\ndef g(): pass\n", "f(a)", "h", [], "@h\ndef g(): pass\n", id="decorator"),
        pytest.param("if a: b\nelif f(a): c\n", "f(a)", "h", [], "if a: b\nelif h: c\n", id="elif"),
        pytest.param("x = f(a)\n", "f(a)", "{0} + {0}", ["a"], "x = a + a\n", id="a hole twice"),
        pytest.param("while f(a): pass\n", "f(a)", "(y := {0})", ["a"], "while (y := a): pass\n", id="walrus"),
        pytest.param("assert f(a), m\n", "f(a)", "a, b", [], "assert (a, b), m\n", id="tuple in a list of expressions"),
        pytest.param(
            "\tx = 1\n".strip("\t") + "if y:\n\tx = f(a)\n", "f(a)", "h", [], "x = 1\nif y:\n\tx = h\n", id="tabs"
        ),
    ],
)
def test_replace(text: str, target: str, template: str, holes: list[str], expected: str) -> None:
    under = Subject(text)
    node = under.expr(target)
    code = Code(template, tuple(under.expr(hole) for hole in holes))
    after = under.edit(Replace(node, code))
    assert after == expected
    ast.parse(after)


def test_a_hole_over_several_lines_keeps_its_layout() -> None:
    under = Subject("x = f(\n    a\n    + b,  # why\n)\n")
    after = under.edit(Replace(under.expr("a\n    + b"), Code("g({0})", (under.expr("a\n    + b"),))))
    assert after == "x = f(\n    g(a\n    + b),  # why\n)\n"


def test_a_hole_that_leaves_its_parentheses_gets_new_ones() -> None:
    under = Subject("f(a\n  + b)\n")
    after = under.edit(Replace(under.expr("f(a\n  + b)"), Code("{0}", (under.expr("a\n  + b"),))))
    assert after == "(a\n  + b)\n"


def test_edits_inside_holes_compose() -> None:
    under = Subject("torch.zeros(n.cuda(), k(1)).to(device)\n")
    whole, inner = under.expr("torch.zeros(n.cuda(), k(1)).to(device)"), under.call("torch.zeros(n.cuda(), k(1))")
    device = AddArguments(inner, (("device", Code("{0}", (under.expr("device"),))),))
    after = under.rewritten(
        under.finding(Replace(whole, Code("{0}", (inner,))), device),
        under.finding(Replace(under.expr("n.cuda()"), Code("n")), code="AA002"),
        under.finding(AddArguments(under.call("k(1)"), (("j", Code("2")),)), code="AA003"),
    )
    assert after == "torch.zeros(n, k(1, j=2), device=device)\n"


def test_the_hole_of_the_same_finding_is_without_its_replacement() -> None:
    under = Subject("y = f(m(x))\n")
    inner = under.expr("m(x)")
    other = under.finding(Replace(under.expr("x"), Code("z")), code="AA002")
    own = under.finding(Replace(under.expr("f(m(x))"), Code("f({0}, {1})", (inner, inner))))
    assert under.rewritten(own, other) == "y = f(m(z), m(z))\n"


@pytest.mark.parametrize(
    ("text", "target", "reason"),
    [
        pytest.param("x = f'{g(a)}'\n", "g(a)", "it would edit inside an f-string", id="f-string"),
        pytest.param(
            "x = f(i for i in r)\n",
            "(i for i in r)",
            "it would edit a generator expression that shares the parentheses of a call",
            id="generator",
        ),
        pytest.param(
            "x = f(\n    a,  # important\n    b,\n)\n",
            "f(\n    a,  # important\n    b,\n)",
            "it would drop the comment on line 2",
            id="comment",
        ),
    ],
)
def test_what_cannot_be_replaced_says_why(text: str, target: str, reason: str) -> None:
    under = Subject(text)
    assert under.refusals(under.finding(Replace(under.expr(target), Code("h")))) == [reason]


def test_a_number_sign_in_a_string_is_no_comment() -> None:
    under = Subject("x = f(\n    '# not',\n)\n")
    assert under.edit(Replace(under.expr("f(\n    '# not',\n)"), Code("h"))) == "x = h\n"


def test_a_comment_in_a_hole_survives() -> None:
    under = Subject("x = f(g(\n    a,  # important\n))\n")
    inner = under.expr("g(\n    a,  # important\n)")
    assert under.edit(Replace(under.expr("f(g(\n    a,  # important\n))"), Code("h({0})", (inner,)))) == (
        "x = h(g(\n    a,  # important\n))\n"
    )


def test_no_edits_no_change() -> None:
    assert Subject("x = 1 \n\n\n   ").rewritten() == "x = 1 \n\n\n   "


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("x = 1\r\ny = f(a)\r\n", "x = 1\r\ny = h\r\n", id="crlf"),
        pytest.param("x = 1\r\ny = f(a)\nz = 2\r\n", "x = 1\r\ny = h\nz = 2\r\n", id="mixed line ends"),
        pytest.param("x = 1\ry = f(a)\rz = 2\r", "x = 1\ry = h\rz = 2\r", id="carriage returns"),
        pytest.param("\fx = 1\n\f\ny = f(a)\n\f\nz = 2", "\fx = 1\n\f\ny = h\n\f\nz = 2", id="form feeds"),
        pytest.param("\fy = f(a)\n", "y = h\n", id="form feed on the edited line"),
        pytest.param("y = f(a)\n\n\n   ", "y = h\n\n\n   ", id="blanks at the end"),
        pytest.param("y = f(a)", "y = h", id="no final newline"),
        pytest.param("y = \\\n  f(a) \\\n  + 1\n", "y = \\\n  h \\\n  + 1\n", id="continuation"),
        pytest.param("y = f(a); z = f(a)\n", "y = h; z = f(a)\n", id="semicolon"),
        pytest.param("if x: y = f(a)  # why\n", "if x: y = h  # why\n", id="one-line suite"),
        pytest.param(
            "# -*- coding: latin-1 -*-\ns = 'é'; y = f(a)\n", "# -*- coding: latin-1 -*-\ns = 'é'; y = h\n", id="cookie"
        ),
    ],
)
def test_the_rest_of_the_text_is_untouched(text: str, expected: str) -> None:
    under = Subject(text)
    assert under.edit(Replace(under.expr("f(a)"), Code("h"))) == expected
