"""Which findings can be applied together."""

from __future__ import annotations

import pytest

from autoaccel.edits import (
    AddArguments,
    Code,
    Edit,
    InsertAfter,
    RemoveArgument,
    RemoveStatement,
    Replace,
    WrapStatements,
)
from tests.rewriting.subject import Subject

CONFLICT = "conflicts with AA001 on line 1"


def replace(under: Subject, source: str, *holes: str) -> Edit:
    return Replace(under.expr(source), Code("h({0})" if holes else "h", tuple(under.expr(hole) for hole in holes)))


def wrap(under: Subject, first: str, last: str) -> Edit:
    return WrapStatements(under.stmt(first), under.stmt(last), Code("with w"))


def add(under: Subject, call: str, name: str = "k") -> Edit:
    return AddArguments(under.call(call), ((name, Code("1")),))


@pytest.mark.parametrize(
    ("text", "make", "composes"),
    [
        pytest.param("f(g(x))", lambda u: (replace(u, "g(x)"), replace(u, "g(x)")), False, id="same node"),
        pytest.param("f(g(x))", lambda u: (replace(u, "f(g(x))"), replace(u, "x")), False, id="inside a replaced node"),
        pytest.param("f(g(x))", lambda u: (replace(u, "x"), replace(u, "f(g(x))")), False, id="around a replaced node"),
        pytest.param("f(g(x))", lambda u: (replace(u, "f(g(x))", "g(x)"), replace(u, "x")), True, id="through a hole"),
        pytest.param("f(g(x))", lambda u: (replace(u, "x"), replace(u, "f(g(x))", "g(x)")), True, id="hole afterwards"),
        pytest.param("f(g(x))", lambda u: (replace(u, "g(x)", "g(x)"), add(u, "g(x)")), True, id="its own hole"),
        pytest.param("f(g(x))", lambda u: (replace(u, "g(x)"), add(u, "g(x)")), False, id="arguments of what is gone"),
        pytest.param(
            "f(g(x))", lambda u: (add(u, "g(x)"), replace(u, "g(x)")), False, id="replacing what has arguments"
        ),
        pytest.param("f(x)", lambda u: (add(u, "f(x)"), add(u, "f(x)", "m")), True, id="arguments of two findings"),
        pytest.param("f(x)", lambda u: (add(u, "f(x)"), add(u, "f(x)")), False, id="the same argument twice"),
        pytest.param(
            "f(x, g(y))",
            lambda u: (RemoveArgument(u.call("f(x, g(y))"), u.expr("g(y)")), replace(u, "y")),
            False,
            id="inside a removed argument",
        ),
        pytest.param(
            "f(x, k=g(y))",
            lambda u: (replace(u, "g(y)"), RemoveArgument(u.call("f(x, k=g(y))"), u.call("f(x, k=g(y))").keywords[0])),
            False,
            id="removing what is edited",
        ),
        pytest.param("a\nb\nc", lambda u: (wrap(u, "a", "b"), wrap(u, "b", "c")), False, id="crossing wraps"),
        pytest.param("a\nb\nc", lambda u: (wrap(u, "a", "b"), wrap(u, "a", "b")), False, id="the same run"),
        pytest.param("a\nb\nc", lambda u: (wrap(u, "a", "c"), wrap(u, "a", "b")), True, id="nested wraps"),
        pytest.param("a\nb\nc", lambda u: (wrap(u, "a", "a"), wrap(u, "b", "c")), True, id="wraps side by side"),
        pytest.param(
            "a\nif b:\n    c", lambda u: (wrap(u, "a", "if"), wrap(u, "c", "c")), True, id="wraps of two blocks"
        ),
        pytest.param("a\nb", lambda u: (RemoveStatement(u.stmt("a")), wrap(u, "a", "b")), False, id="edge of a wrap"),
        pytest.param("a(x)", lambda u: (RemoveStatement(u.stmt("a")), replace(u, "x")), False, id="in what is removed"),
        pytest.param(
            "a", lambda u: (RemoveStatement(u.stmt("a")), InsertAfter(u.stmt("a"), Code("n"))), False, id="beside it"
        ),
        pytest.param(
            "a(x)",
            lambda u: (replace(u, "a(x)"), InsertAfter(u.stmt("a"), Code("n({0})", (u.expr("x"),)))),
            False,
            id="a hole in what is gone",
        ),
    ],
)
def test_two_findings(text, make, composes) -> None:  # type: ignore[no-untyped-def]
    under = Subject(text + "\n")
    first, second = make(under)
    one, other = under.finding(first), under.finding(second, code="AA002")
    if composes:
        under.rewritten(one, other)
    else:
        planned = under.plan(one, other)
        assert planned.findings == (one,)
        assert [(skipped.rule.code, skipped.reason) for skipped in planned.skipped] == [("AA002", CONFLICT)]


def test_all_edits_of_a_finding_or_none() -> None:
    under = Subject("f(x)\ng(y)\n")
    one = under.finding(replace(under, "x"))
    other = under.finding(replace(under, "x"), replace(under, "y"), code="AA002")
    assert under.rewritten(*under.plan(one, other).findings) == "f(h)\ng(y)\n"


def test_a_rejected_finding_blocks_nobody() -> None:
    under = Subject("f(x)\ng(y)\n")
    one = under.finding(replace(under, "x"))
    loser = under.finding(replace(under, "x"), replace(under, "y"), code="AA002")
    third = under.finding(replace(under, "y"), code="AA003")
    assert under.plan(one, loser, third).findings == (one, third)


def test_needs() -> None:
    under = Subject("f(x)\ng(y)\n")
    winner = under.finding(replace(under, "x"))
    loser = under.finding(replace(under, "x"), code="AA002")
    dependent = under.finding(replace(under, "y"), code="AA003", needs=(loser,))
    reasons = under.refusals(dependent, winner, loser)
    # A need is decided when it is first asked for: the loser came first, through its dependent.
    assert under.plan(dependent, winner, loser).findings == (dependent, loser)
    assert reasons == ["conflicts with AA002 on line 1"]
    assert under.refusals(winner, loser, dependent) == [CONFLICT, "needs AA002 on line 1, which is not applied"]
    assert under.refusals(dependent) == ["needs AA002 on line 1, which is not to be applied"]


def test_a_finding_that_contradicts_itself() -> None:
    under = Subject("f(x)\n")
    assert under.refusals(under.finding(replace(under, "f(x)"), replace(under, "x"))) == ["its own edits overlap"]
