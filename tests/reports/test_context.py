"""Names of files, as each kind of reader knows them."""

from __future__ import annotations

from pathlib import Path

import pytest

from autoaccel.reports.context import reasons, shown
from autoaccel.rewriting.record import Failure, Report
from tests.reports import sample

HERE = Path("/home/me/repo/src")


@pytest.mark.parametrize(
    ("path", "absolute", "name", "local"),
    [
        pytest.param("a.py", "/home/me/repo/src/a.py", "src/a.py", "a.py", id="here"),
        pytest.param("./x/../a.py", "/home/me/repo/src/a.py", "src/a.py", "a.py", id="here, the long way"),
        pytest.param(
            "../lib/a.py", "/home/me/repo/lib/a.py", "lib/a.py", "../lib/a.py", id="elsewhere in the repository"
        ),
        pytest.param("/home/me/repo/lib/a.py", "/home/me/repo/lib/a.py", "lib/a.py", "../lib/a.py", id="in full"),
        pytest.param("/tmp/a.py", "/tmp/a.py", "/tmp/a.py", "../../../../tmp/a.py", id="outside"),
        pytest.param("<stdin>", "<stdin>", "<stdin>", "<stdin>", id="stdin"),
    ],
)
def test_names(path: str, absolute: str, name: str, local: str) -> None:
    context = sample.context(here=HERE)
    assert (context.absolute(path), context.name(path), context.local(path)) == (absolute, name, local)


def test_shown() -> None:
    assert shown("déjà 宽 \udce9.py") == "déjà 宽 \udce9.py"
    assert shown("a\nb\x1b[2J\x7f\u2028\x9b") == "a\\nb\\x1b[2J\\x7f\\u2028\\x9b"


@pytest.mark.parametrize(
    ("path", "message", "expected"),
    [
        pytest.param("a.py", "a.py:3: cannot parse: bad", "cannot parse: bad", id="with a line"),
        pytest.param("a.py", "a.py: cannot read: no", "cannot read: no", id="without"),
        pytest.param("a.py", "a.py:3:7: odd: b", "odd: b", id="with a column"),
        pytest.param("a.py", "something: else", "something: else", id="of another shape"),
        pytest.param("x: y.py", "x: y.py: cannot read: no", "cannot read: no", id="a name like a message"),
    ],
)
def test_reasons_leave_the_place_out(path: str, message: str, expected: str) -> None:
    failure = Failure(message)
    assert list(reasons(Report(path, failures=(failure,)))) == [(failure, expected)]
