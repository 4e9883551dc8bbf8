"""Statements inserted, wrapped, removed and decorated."""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Callable

import pytest

from autoaccel.edits import (
    AddDecorator,
    Code,
    Edit,
    InsertAfter,
    InsertBefore,
    RemoveStatement,
    Replace,
    WrapStatements,
)
from tests.rewriting.subject import Subject

GRAD = Code("with no_grad()")


def dedent(text: str) -> str:
    return textwrap.dedent(text).lstrip("\n")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param("a\nb\n", "a\nnew()\nb\n", id="plain"),
        pytest.param("a\n\n\n# about b\nb  # beside\n", "a\n\n\nnew()\n# about b\nb  # beside\n", id="comments"),
        pytest.param(
            "a\n\n# %% c\n# about b\nb\n", "a\n\n# %% c\nnew()\n# about b\nb\n", id="cell of a percent script"
        ),
        pytest.param("if x:\n\tb\n", "if x:\n\tnew()\n\tb\n", id="tabs"),
        pytest.param("if x: b\n", "if x:\n    new()\n    b\n", id="one-line suite"),
        pytest.param("if x: a; b; c\n", "if x:\n    a\n    new()\n    b\n    c\n", id="middle of a one-line suite"),
        pytest.param("a; b  # beside\n", "a\nnew()\nb  # beside\n", id="semicolon"),
        pytest.param("if x:\r\n  b", "if x:\r\n  new()\r\n  b", id="crlf"),
        pytest.param("class C:\n    @d\n    def b(self): pass\n", None, id="decorated"),
    ],
)
def test_insert_before(before: str, after: str | None) -> None:
    under = Subject(before)
    if after is None:
        done = under.edit(InsertBefore(under.stmt("def b"), Code("new()")))
        assert done == "class C:\n    new()\n    @d\n    def b(self): pass\n"
    else:
        assert under.edit(InsertBefore(under.stmt("b"), Code("new()"))) == after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param("a\n\n# about c\nc\n", "a\nnew()\n\n# about c\nc\n", id="plain"),
        pytest.param("a  # beside\n", "a  # beside\nnew()\n", id="comment beside"),
        pytest.param("a", "a\nnew()", id="no final newline"),
        pytest.param(
            "if x:\n    a\n    # end of the block\nc\n",
            "if x:\n    a\n    new()\n    # end of the block\nc\n",
            id="end",
        ),
        pytest.param("if x: a\nelse: c\n", "if x:\n    a\n    new()\nelse: c\n", id="one-line suite"),
        pytest.param("a; c;\n", "a\nnew()\nc\n", id="semicolon"),
        pytest.param("for i in r: a  # why\n", "for i in r:\n    a  # why\n    new()\n", id="loop in one line"),
    ],
)
def test_insert_after(before: str, after: str) -> None:
    under = Subject(before)
    assert under.edit(InsertAfter(under.stmt("a"), Code("new()"))) == after


@pytest.mark.parametrize(
    ("start", "before", "after"),
    [
        pytest.param("if", "if x:\n    b\n    \nc\n", "if x:\n    b\n\nnew()\n    \nc\n", id="if"),
        pytest.param("if", "if x:\n\tb\n\t \n\n", "if x:\n\tb\n\nnew()\n\t \n\n", id="at the end of the file"),
        pytest.param("if", "if x:\n  b\n  # b\n  \nc\n", "if x:\n  b\n  # b\n\nnew()\n  \nc\n", id="below a comment"),
        pytest.param(
            "if",
            "if x:\n  b\n  \nelif y:\n  c\n  \n\nd\n",
            "if x:\n  b\n  \nelif y:\n  c\n\nnew()\n  \n\nd\n",
            id="elif",
        ),
        pytest.param(
            "for",
            "def f():\n  for i in r:\n    if x:\n      b\n      \n    \n  \n  c\n",
            "def f():\n  for i in r:\n    if x:\n      b\n\n  new()\n      \n    \n  \n  c\n",
            id="blocks in blocks",
        ),
        pytest.param(
            "try",
            "try:\n  b\nexcept E:\n  c\n  \nd\n",
            "try:\n  b\nexcept E:\n  c\n\nnew()\n  \nd\n",
            id="handler",
        ),
        pytest.param(
            "while",
            "def f():\n  while x:\n    b\n  else:\n    c\n    \n",
            "def f():\n  while x:\n    b\n  else:\n    c\n  new()\n    \n",
            id="else, end of the block",
        ),
    ],
)
def test_insert_after_goes_above_the_blank_lines_of_a_block(start: str, before: str, after: str) -> None:
    under = Subject(before)
    assert under.edit(InsertAfter(under.stmt(start), Code("new()"))) == after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param("if x:\n    b\nc\n", "if x:\n    b\nnew()\nc\n", id="dense"),
        pytest.param("if x:\n    b\n# c\nc\n", "if x:\n    b\n\nnew()\n\n# c\nc\n", id="above a comment"),
        pytest.param("if x:\n    b\nelse: c\n\nd\n", "if x:\n    b\nelse: c\nnew()\n\nd\n", id="not indented"),
        pytest.param("if x:\n    b", "if x:\n    b\n\nnew()", id="nothing below"),
        pytest.param("if x:\n    b\n\n\nc\n", "if x:\n    b\n\nnew()\n\n\nc\n", id="set apart"),
    ],
)
def test_set_apart_from_an_indented_block_as_the_file_does(before: str, after: str) -> None:
    under = Subject(before)
    assert under.edit(InsertAfter(under.stmt("if"), Code("new()"))) == after


def test_not_set_apart_above_a_comment_of_a_function() -> None:
    under = Subject("def f():\n    if x:\n        b\n    # c\n    c\n")
    assert under.edit(InsertAfter(under.stmt("if"), Code("new()"))) == (
        "def f():\n    if x:\n        b\n    new()\n    # c\n    c\n"
    )


def test_blank_lines_below_a_wrapped_loop_stay_below_it() -> None:
    under = Subject("for i in r:\n    a\n    \nb\n")
    loop = under.stmt("for")
    assert under.edit(WrapStatements(loop, loop, GRAD)) == "with no_grad():\n    for i in r:\n        a\n    \nb\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(
            "if x: a; b  # why\n", "if x:\n    a\n    with w:\n        y = 1\n    b  # why\n", id="one-line suite"
        ),
        pytest.param(
            "if x:\n  a; b; c  # why\n",
            "if x:\n  a\n  with w:\n    y = 1\n  b; c  # why\n".replace("b; c", "b\n  c"),
            id="line",
        ),
        pytest.param("\tif".strip() + " x:\n\tb\n", "if x:\n\twith w:\n\t\ty = 1\n\tb\n", id="tabs"),
    ],
)
def test_insert_a_compound_statement(before: str, after: str) -> None:
    under = Subject(before)
    assert under.edit(InsertBefore(under.stmt("b"), Code("with w:\n    y = 1"))) == after


def test_insert_below_the_comments_of_a_statement() -> None:
    under = Subject("a()\n\n# why\n# so\nb(c())  # then\n")
    call = under.expr("c()")
    moved = under.finding(
        InsertBefore(under.stmt("b"), Code("x = {0}", (call,)), below_comments=True), Replace(call, Code("x"))
    )
    assert under.rewritten(moved) == "a()\n\n# why\n# so\nx = c()\nb(x)  # then\n"


def test_insert_after_a_paragraph() -> None:
    under = Subject("# about a\na\n\nb\n")
    first = under.finding(InsertAfter(under.stmt("a"), Code("new()"), apart=True))
    second = under.finding(InsertAfter(under.stmt("a"), Code("more()")), code="AA002")
    assert under.rewritten(first, second) == "# about a\na\n\nnew()\nmore()\n\nb\n"


@pytest.mark.parametrize(("low", "above"), [(True, "# what\n\n# why\n"), (False, "# what\n\n")])
def test_the_comment_above_a_moved_statement(low: bool, above: str) -> None:
    under = Subject("a()\n\n# what\n\n# why\nb()  # then\n")
    statement = under.stmt("b")
    code = Code("def f():\n    # why\n    b()  # then")
    moved = under.finding(
        InsertBefore(under.stmt("a"), code),
        InsertBefore(statement, Code("f()"), below_comments=low),
        RemoveStatement(statement, moved=True),
    )
    assert under.rewritten(moved).partition("\na()\n\n")[2] == f"{above}f()\n"


def test_insert_with_an_expression_taken_out_of_the_statement() -> None:
    under = Subject("if x:\n  loss = f(model(a.cuda()), y)  # why\n")
    call = under.expr("model(a.cuda())")
    moved = under.finding(
        InsertBefore(under.stmt("loss"), Code("with accel.autocast():\n    output = {0}", (call,))),
        Replace(call, Code("output")),
    )
    inner = under.finding(Replace(under.expr("a.cuda()"), Code("a.cuda(0)")), code="AA002")
    assert under.rewritten(moved, inner) == (
        "if x:\n  with accel.autocast():\n    output = model(a.cuda(0))\n  loss = f(output, y)  # why\n"
    )


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(
            "a\n# about b\nb\n\nc\nd\n", "a\n# about b\nwith no_grad():\n    b\n\n    c\nd\n", id="comments and blanks"
        ),
        pytest.param(
            "a\n\n# about b\nb\n\n# about c\nc\nd\n",
            "a\n\nwith no_grad():\n    # about b\n    b\n\n    # about c\n    c\nd\n",
            id="comments of several",
        ),
        pytest.param(
            "a\n# about all\n\n# about\n# b\nb\n# about c\nc\n# about d\nd\n",
            "a\n# about all\n\nwith no_grad():\n    # about\n    # b\n    b\n    # about c\n    c\n# about d\nd\n",
            id="comments of several, and of all",
        ),
        pytest.param(
            "# ----\n# all\n# ----\nb\n# about c\nc\n",
            "# ----\n# all\n# ----\nwith no_grad():\n    b\n    # about c\n    c\n",
            id="a heading",
        ),
        pytest.param(
            "# fmt: off\nb\n# about c\nc\n# fmt: on\nd\n",
            "# fmt: off\nwith no_grad():\n    b\n    # about c\n    c\n# fmt: on\nd\n",
            id="a directive",
        ),
        pytest.param(
            "# %% cell\nb\n# about c\nc\n",
            "# %% cell\nwith no_grad():\n    b\n    # about c\n    c\n",
            id="a cell",
        ),
        pytest.param(
            "if x:\n\t# about b\n\tb\n\t# about c\n\tc\n",
            "if x:\n\twith no_grad():\n\t\t# about b\n\t\tb\n\t\t# about c\n\t\tc\n",
            id="comments of several, tabs",
        ),
        pytest.param(
            "# about b\nb\nif x:\n    # about y\n    y\nc\n",
            "# about b\nwith no_grad():\n    b\n    if x:\n        # about y\n        y\n    c\n",
            id="a comment within another",
        ),
        pytest.param(
            "a\n# about b\nb\nif x:\n    y\n# about c\nc\n# about d\nd\n",
            "a\nwith no_grad():\n    # about b\n    b\n    if x:\n        y\n    # about c\n    c\n# about d\nd\n",
            id="a comment below a block",
        ),
        pytest.param("b\nc", "with no_grad():\n    b\n    c", id="no final newline"),
        pytest.param("if x:\n\tb\n\tc\n\td\n", "if x:\n\twith no_grad():\n\t\tb\n\t\tc\n\td\n", id="tabs"),
        pytest.param(
            "if x:\n  b\n  c\n# far\nd\n", "if x:\n  with no_grad():\n    b\n    c\n# far\nd\n", id="two spaces"
        ),
        pytest.param("if x: b; c\n", "if x:\n    with no_grad():\n        b\n        c\n", id="one-line suite"),
        pytest.param("a; b; c; d\n", "a\nwith no_grad():\n    b\n    c\nd\n", id="within a line"),
        pytest.param("b; c\nd\n", "with no_grad():\n    b; c\nd\n", id="a whole line"),
        pytest.param("b\r\nc\r\n", "with no_grad():\r\n    b\r\n    c\r\n", id="crlf"),
        pytest.param(
            'b\nc = """x\n  y\n\tz"""\n', 'with no_grad():\n    b\n    c = """x\n  y\n\tz"""\n', id="text over lines"
        ),
        pytest.param("b\nc(1,\n  2)\n", "with no_grad():\n    b\n    c(1,\n      2)\n", id="call over lines"),
        pytest.param("b\nc = 1 + \\\n  2\n", "with no_grad():\n    b\n    c = 1 + \\\n  2\n", id="continuation"),
        pytest.param("b\nc\n\n\n   ", "with no_grad():\n    b\n    c\n\n\n   ", id="blanks at the end"),
    ],
)
def test_wrap(before: str, after: str) -> None:
    under = Subject(before)
    assert under.edit(WrapStatements(under.stmt("b"), under.stmt("c"), GRAD)) == after


def test_a_line_that_is_edited_and_added_to() -> None:
    under = Subject("    \nif x:\n    loss.backward(); opt.step()  # both\n")
    backward = Replace(under.expr("loss"), Code("scale(loss)"))
    update = InsertAfter(under.stmt("opt"), Code("update()"))
    assert under.edit(backward, update) == (
        "    \nif x:\n    scale(loss).backward()\n    opt.step()  # both\n    update()\n"
    )
    assert under.edit(update) == "    \nif x:\n    loss.backward(); opt.step()  # both\n    update()\n"
    assert under.edit(backward) == "    \nif x:\n    scale(loss).backward(); opt.step()  # both\n"


def test_form_feeds_and_wraps() -> None:
    under = Subject("a\n\f\nb\nc\n\f\nd\n")
    assert under.edit(WrapStatements(under.stmt("b"), under.stmt("c"), GRAD)) == (
        "a\n\f\nwith no_grad():\n    b\n    c\n\f\nd\n"
    )


def test_wrap_with_a_tail_and_a_hole() -> None:
    under = Subject("out = model(x)\ncrit(out, y).backward()\n")
    loss = under.expr("crit(out, y)")
    out = under.stmt("out")
    after = under.edit(
        WrapStatements(out, out, Code("with autocast({0})", (under.expr("x"),)), Code("loss = {0}", (loss,)))
    )
    assert after == "with autocast(x):\n    out = model(x)\n    loss = crit(out, y)\ncrit(out, y).backward()\n"


def test_everything_at_once() -> None:
    under = Subject(
        dedent(
            """
            for x in loader:
                x = x.cuda()

                # forward
                out = model(x)
                loss = crit(out)  # mean
                loss.backward()
                clip(model)
                opt.step()
            """
        )
    )
    training = under.finding(
        WrapStatements(under.stmt("out"), under.stmt("loss"), Code("with accel.autocast()")),
        InsertBefore(under.stmt("out"), Code("before()")),
        InsertAfter(under.stmt("loss ="), Code("out = out.float()")),
        Replace(under.expr("loss", 1), Code("scaler.scale({0})", (under.expr("loss", 1),))),
        InsertBefore(under.stmt("clip"), Code("scaler.unscale_(opt)")),
        Replace(under.expr("opt.step()"), Code("scaler.step(opt)")),
        InsertAfter(under.stmt("opt.step"), Code("scaler.update()")),
    )
    others = [
        under.finding(InsertBefore(under.stmt("loss ="), Code("inside()")), code="AA002"),
        under.finding(InsertBefore(under.stmt("out"), Code("first()")), code="AA003"),
        under.finding(
            Replace(under.expr("loader"), Code("accel.prefetch({0})", (under.expr("loader"),))), code="AA004"
        ),
        under.finding(Replace(under.expr("crit(out)"), Code("crit(out, 1)")), code="AA005"),
    ]
    assert under.rewritten(training, *others) == dedent(
        """
        for x in accel.prefetch(loader):
            x = x.cuda()

            before()
            # forward
            with accel.autocast():
                first()
                out = model(x)
                inside()
                loss = crit(out, 1)  # mean
            out = out.float()
            scaler.scale(loss).backward()
            scaler.unscale_(opt)
            clip(model)
            scaler.step(opt)
            scaler.update()
        """
    )


def test_wraps_nest() -> None:
    under = Subject("a\nb\nc\nd\n")
    outer = WrapStatements(under.stmt("a"), under.stmt("c"), Code("with outer"))
    inner = WrapStatements(under.stmt("b"), under.stmt("c"), Code("with inner"))
    assert under.edit(inner, outer) == "with outer:\n    a\n    with inner:\n        b\n        c\nd\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param("a\nb\nc\n", "a\nc\n", id="plain"),
        pytest.param("a\n\n# about b\nb\nc\n", "a\n\n# about b\nc\n", id="comments stay"),
        pytest.param("a\n\nb\n\nc\n", "a\n\nc\n", id="blank lines do not add up"),
        pytest.param("a\nb  # beside\nc\n", "a\n# beside\nc\n", id="comment beside stays"),
        pytest.param("if x:\n    # why\n    b\nc\n", "if x:\n    # why\n    pass\nc\n", id="only one"),
        pytest.param("if x:\n    a\n    # why\n    b\nc\n", "if x:\n    a\n    # why\nc\n", id="last one"),
        pytest.param("a; b; c\n", "a\nc\n", id="semicolon"),
        pytest.param("if x: b\n", "if x:\n    pass\n", id="one-line suite"),
        pytest.param("if x:\n    a\nelse:\n    b\nc\n", "if x:\n    a\nc\n", id="only one of an else"),
        pytest.param(
            "if x:\n    a\n\nelse:\n\n    b\n\n\nc\n", "if x:\n    a\n\n\nc\n", id="blank lines around an else"
        ),
        pytest.param(
            "if x:\n    a\nelif y:\n    c\nelse:\n    b\n", "if x:\n    a\nelif y:\n    c\n", id="else below an elif"
        ),
        pytest.param("if x:\n    a\nelif y:\n    b\n", "if x:\n    a\nelif y:\n    pass\n", id="only one of an elif"),
        pytest.param("if x: a\nelse: b\n", "if x: a\nelse:\n    pass\n", id="one-line else"),
        pytest.param(
            "for a in x:\n    c\nelse:\n    b\n", "for a in x:\n    c\nelse:\n    pass\n", id="else of a loop"
        ),
        pytest.param(
            "if x:\n    a\nelse:  # why\n    b\n", "if x:\n    a\nelse:  # why\n    pass\n", id="comment beside an else"
        ),
        pytest.param(
            "if x:\n    a\n# why\nelse:\n    b\n", "if x:\n    a\n# why\nelse:\n    pass\n", id="comment above an else"
        ),
    ],
)
def test_remove(before: str, after: str) -> None:
    under = Subject(before)
    assert under.edit(RemoveStatement(under.stmt("b"))) == after


def test_a_statement_replaced_by_others() -> None:
    under = Subject("a\n\n# why\nb(x)\nc\n")
    gone = under.stmt("b")
    finding = under.finding(RemoveStatement(gone), InsertAfter(gone, Code("p\nq({0})", (under.expr("x"),))))
    assert under.rewritten(finding) == "a\n\n# why\np\nq(x)\nc\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param("def f(): pass\n", "@no_grad()\ndef f(): pass\n", id="first"),
        pytest.param(
            "class C:\n\n    # about f\n    @d\n    # between\n    async def f(self):\n        pass\n",
            "class C:\n\n    # about f\n    @d\n    @no_grad()\n    # between\n    async def f(self):\n        pass\n",
            id="closest to def",
        ),
    ],
)
def test_decorator(before: str, after: str) -> None:
    under = Subject(before)
    function = next(
        node for node in ast.walk(under.places.tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )
    assert under.edit(AddDecorator(function, Code("no_grad()"))) == after


def test_identical_insertions_of_two_findings_appear_once() -> None:
    under = Subject("a\n")
    insert: Edit = InsertAfter(under.stmt("a"), Code("new()"))
    assert under.edit(
        insert, InsertAfter(under.stmt("a"), Code("new()")), InsertAfter(under.stmt("a"), Code("other()"))
    ) == ("a\nnew()\nother()\n")


@pytest.mark.parametrize(
    ("text", "edit", "reason"),
    [
        pytest.param(
            "if a:\n    x\nelif b:\n    y\n", lambda u: InsertBefore(u.stmt("elif"), Code("n")), "elif", id="elif"
        ),
        pytest.param("'doc'\na\n", lambda u: InsertBefore(u.stmt("'doc'"), Code("n")), "docstring", id="docstring"),
        pytest.param(
            "from __future__ import x\n", lambda u: InsertBefore(u.stmt("from"), Code("n")), "__future__", id="future"
        ),
        pytest.param("a(\n  # why\n)\n", lambda u: RemoveStatement(u.stmt("a")), "comment on line 2", id="comment"),
        pytest.param(
            "a\nif x:\n    b\n", lambda u: WrapStatements(u.stmt("a"), u.stmt("b"), GRAD), "not one run", id="no run"
        ),
        pytest.param(
            "a\n# %% c\nb\n", lambda u: WrapStatements(u.stmt("a"), u.stmt("b"), GRAD), "from one cell", id="cells"
        ),
    ],
)
def test_what_cannot_be_done_says_why(text: str, edit: Callable[[Subject], Edit], reason: str) -> None:
    under = Subject(text)
    [refusal] = under.refusals(under.finding(edit(under)))
    assert reason in refusal


def test_a_comment_at_the_end_of_a_removed_block_is_not_lost() -> None:
    under = Subject("if x:\n    a\n    # the end\n# about b\nb\n")
    assert under.refusals(under.finding(RemoveStatement(under.stmt("if")))) == ["it would drop the comment on line 3"]


def test_comments_of_removed_statements_stay_in_the_wrap() -> None:
    under = Subject("a; b  # why\n")
    wrap = WrapStatements(under.stmt("a"), under.stmt("a"), Code("with w"), Code("tail()"))
    assert under.edit(RemoveStatement(under.stmt("b")), wrap) == "with w:\n    a\n    tail()\n# why\n"


def test_a_wrap_whose_last_statement_goes_keeps_its_comment_before_the_tail() -> None:
    under = Subject("a\nb  # why\nc\n")
    wrap = WrapStatements(under.stmt("a"), under.stmt("b"), Code("with w"), Code("tail()"))
    finding = under.finding(wrap, RemoveStatement(under.stmt("b")))
    assert under.rewritten(finding) == "with w:\n    a\n    # why\n    tail()\nc\n"
