"""Arguments of a call, in the layout that the call has."""

from __future__ import annotations

import ast

import pytest

from autoaccel.edits import AddArguments, Code, RemoveArgument
from tests.rewriting.subject import Subject


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param("f()", "f(k=1, m=2)", id="empty"),
        pytest.param("f(a)", "f(a, k=1, m=2)", id="one"),
        pytest.param("f(a, b,)", "f(a, b, k=1, m=2,)", id="trailing comma"),
        pytest.param("f(a, **o)", "f(a, k=1, m=2, **o)", id="before unpacked keywords"),
        pytest.param("f(**o)", "f(k=1, m=2, **o)", id="only unpacked keywords"),
        pytest.param("f(*a)", "f(*a, k=1, m=2)", id="after unpacked positionals"),
        pytest.param("f(x = 1)", "f(x = 1, k = 1, m = 2)", id="spaces around the equal sign"),
        pytest.param("f(i for i in r)", "f((i for i in r), k=1, m=2)", id="generator"),
        pytest.param("f(\n    a,\n    b,\n)", "f(\n    a,\n    b,\n    k=1,\n    m=2,\n)", id="one a line"),
        pytest.param(
            "f(\n    a,\n    b\n)", "f(\n    a,\n    b,\n    k=1,\n    m=2\n)", id="one a line, no trailing comma"
        ),
        pytest.param("f(a,\n  b)", "f(a,\n  b,\n  k=1,\n  m=2)", id="aligned"),
        pytest.param("f(a, b,\n  c=1)", "f(a, b,\n  c=1, k=1, m=2)", id="filled lines"),
        pytest.param("f(\n    a,\n)", "f(\n    a,\n    k=1,\n    m=2,\n)", id="one on its line"),
        pytest.param("f(\n    a\n)", "f(\n    a, k=1, m=2\n)", id="one on its line without a comma"),
        pytest.param(
            "f(\n    a,\n    b,  # why\n)", "f(\n    a,\n    b,  # why\n    k=1,\n    m=2,\n)", id="comment of the last"
        ),
        pytest.param(
            "f(\n    a,\n    b  # why\n)", "f(\n    a,\n    b,  # why\n    k=1,\n    m=2\n)", id="comment without comma"
        ),
        pytest.param(
            "f(\n    a,\n    **o,\n)", "f(\n    a,\n    k=1,\n    m=2,\n    **o,\n)", id="one a line before unpacked"
        ),
        pytest.param(
            "f(\n    a,  # first\n    b,\n)",
            "f(\n    a,  # first\n    b,\n    k=1,\n    m=2,\n)",
            id="comments are not copied",
        ),
        pytest.param("f(a, lambda: 0)", "f(a, lambda: 0, k=1, m=2)", id="after a lambda"),
    ],
)
def test_add(before: str, after: str) -> None:
    under = Subject(f"x = {before}\n")
    assert under.edit(AddArguments(under.call(before), (("k", Code("1")), ("m", Code("2"))))) == f"x = {after}\n"


@pytest.mark.parametrize(
    ("before", "argument", "after"),
    [
        pytest.param("f(a)", 0, "f()", id="only"),
        pytest.param("f(\n    a,\n)", 0, "f()", id="only, over lines"),
        pytest.param("f(a, b)", 0, "f(b)", id="first"),
        pytest.param("f(a, b)", 1, "f(a)", id="last"),
        pytest.param("f(a, b,)", 1, "f(a,)", id="last with a trailing comma"),
        pytest.param("f(\n    a,\n    b,\n)", 1, "f(\n    a,\n)", id="last line"),
        pytest.param("f(\n    a,\n    b\n)", 0, "f(\n    b\n)", id="first line"),
        pytest.param("f(a, k=b, *c)", 2, "f(a, k=b)", id="positional written after a keyword"),
    ],
)
def test_remove(before: str, argument: int, after: str) -> None:
    from autoaccel.rewriting.plan import arguments_of

    under = Subject(f"x = {before}\n")
    call = under.call(before)
    removed = arguments_of(under.places, call)[argument]
    assert under.edit(RemoveArgument(call, removed)) == f"x = {after}\n"


def test_remove_and_add_compose() -> None:
    under = Subject("f(a, device=b)\n")
    call = under.call("f(a, device=b)")
    after = under.rewritten(
        under.finding(RemoveArgument(call, call.keywords[0]), AddArguments(call, (("device", Code("c")),))),
        under.finding(AddArguments(call, (("k", Code("x, y")),)), code="AA002"),
    )
    assert after == "f(a, device=c, k=(x, y))\n"


def test_an_argument_that_is_passed_already_is_refused() -> None:
    under = Subject("f(a, k=2)\n")
    edit = AddArguments(under.call("f(a, k=2)"), (("k", Code("1")),))
    assert under.refusals(under.finding(edit)) == ["the call already passes k"]


def test_the_comment_of_a_removed_argument_is_not_lost() -> None:
    text = "f(\n    a,  # why\n    b,\n)"
    under = Subject(text + "\n")
    call = under.call(text)
    assert under.refusals(under.finding(RemoveArgument(call, call.args[0]))) == ["it would drop the comment on line 2"]


LONG = (("first_new_argument", Code("some_value()")), ("second_new_argument", Code("another_value()")))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(
            "loader = make(dataset_of_everything, batch_size=100)\n",
            "loader = make(dataset_of_everything, batch_size=100, first_new_argument=some_value(),\n"
            "              second_new_argument=another_value())\n",
            id="goes on below the first argument",
        ),
        pytest.param(
            "if c:\n\tloader = make(dataset_of_everything, batch_size=100)\n",
            "if c:\n\tloader = make(dataset_of_everything, batch_size=100, first_new_argument=some_value(),\n"
            "\t\tsecond_new_argument=another_value())\n",
            id="behind tabs",
        ),
        pytest.param(
            "if f(a,\n     b):\n\tf(a,\n\t  b)\nif c:\n\tloader = make(dataset_of_everything, batch_size=100)\n",
            "if f(a,\n     b):\n\tf(a,\n\t  b)\n"
            "if c:\n\tloader = make(dataset_of_everything, batch_size=100, first_new_argument=some_value(),\n"
            "\t              second_new_argument=another_value())\n",
            id="behind tabs, where the file aligns behind them",
        ),
        pytest.param(
            "some_long_name_of_an_object.some_attribute.another_attribute[key] = make(dataset)\n",
            "some_long_name_of_an_object.some_attribute.another_attribute[key] = make(dataset,\n"
            "        first_new_argument=some_value(), second_new_argument=another_value())\n",
            id="hanging where little room is left",
        ),
        pytest.param(
            "loader = make(\n    dataset_of_everything, batch_size=100)\n",
            "loader = make(\n    dataset_of_everything, batch_size=100, first_new_argument=some_value(),\n"
            "    second_new_argument=another_value())\n",
            id="on the lines that it has",
        ),
        pytest.param(
            "x = 1  " + "#" * 112 + "\nloader = make(dataset, batch_size=100, first=1)\n",
            "x = 1  " + "#" * 112 + "\nloader = make(dataset, batch_size=100, first=1, "
            "first_new_argument=some_value(), second_new_argument=another_value())\n",
            id="as wide as the file is",
        ),
    ],
)
def test_lines_that_would_get_too_long(before: str, after: str) -> None:
    subject = Subject(before)
    calls = (node for node in ast.walk(subject.places.tree) if isinstance(node, ast.Call))
    call = next(each for each in calls if isinstance(each.func, ast.Name) and each.func.id == "make")
    assert subject.edit(AddArguments(call, LONG)) == after


def test_a_short_argument_stays_on_the_line() -> None:
    before = "image, label = batch['image'].to(device), batch['label_of_the_image'].to(device), batch['more'].to(d)\n"
    subject = Subject(before)
    call = subject.call("batch['more'].to(d)")
    assert subject.edit(AddArguments(call, (("non_blocking", Code("True")),))) == before.replace(
        ".to(d)", ".to(d, non_blocking=True)"
    )
