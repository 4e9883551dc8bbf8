"""The self-check finds what an edit must not have done."""

from __future__ import annotations

import pytest

from autoaccel.edits import AddImport, Code, InsertAfter, Replace, WrapStatements
from autoaccel.rewriting import check
from tests.rewriting.subject import Subject

TEXT = "import os\n\nx = f(a)\n# about y\ny = 2\nz = 3\n"


@pytest.mark.parametrize(
    ("after", "problem"),
    [
        pytest.param(TEXT.replace("f(a)", "h"), None, id="right"),
        pytest.param(TEXT.replace("f(a)", "h("), "the result does not parse", id="does not parse"),
        pytest.param(
            TEXT.replace("f(a)", "h").replace("z = 3", "z = 4"), "line 4 or one below it", id="another statement"
        ),
        pytest.param(TEXT.replace("f(a)", "h").replace("# about y\n", ""), "line 4", id="a comment lost"),
        pytest.param(TEXT.replace("f(a)", "h").replace("y = 2\n", "y = 2\n\n"), "line 4", id="a blank line more"),
        pytest.param(TEXT.replace("f(a)", "h").replace("z = 3\n", "z = 3\r\n"), "line 4", id="another line end"),
        pytest.param(TEXT.replace("f(a)", "h").replace("os\n\n", "os\n"), "line 1", id="a blank line less"),
    ],
)
def test_outside(after: str, problem: str | None) -> None:
    under = Subject(TEXT)
    findings = [under.finding(Replace(under.expr("f(a)"), Code("h")))]
    found = check.problem(under.places, findings, after)
    assert (found is None) if problem is None else (found is not None and problem in found)


def test_insertions_only_where_they_were_asked_for() -> None:
    under = Subject(TEXT)
    findings = [under.finding(InsertAfter(under.stmt("x"), Code("n")), AddImport("accel"))]
    right = "import os\nimport accel\n\nx = f(a)\nn\n# about y\ny = 2\nz = 3\n"
    assert check.problem(under.places, findings, right) is None
    only = [under.finding(InsertAfter(under.stmt("x"), Code("n")))]
    assert check.problem(under.places, only, right) is not None


@pytest.mark.parametrize(
    ("after", "problem"),
    [
        pytest.param('with w:\n    a\n    s = """x\n  y"""\n', None, id="right"),
        pytest.param('with w:\n    a\n    s = """x\n      y"""\n', "line 2", id="text in a string moved"),
        pytest.param("with w:\n    a\n", "line 2", id="statement lost"),
    ],
)
def test_wrapped_statements_stay_what_they_are(after: str, problem: str | None) -> None:
    under = Subject('a\ns = """x\n  y"""\n')
    findings = [under.finding(WrapStatements(under.stmt("a"), under.stmt("s"), Code("with w")))]
    found = check.problem(under.places, findings, after)
    assert (found is None) if problem is None else (found is not None and problem in found)
