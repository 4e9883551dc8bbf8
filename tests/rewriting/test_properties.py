"""Random scripts, random edits: what comes out parses, and what was not edited survives byte for byte."""

from __future__ import annotations

import ast
import random
from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from autoaccel.edits import (
    AddArguments,
    AddDecorator,
    AddImport,
    Code,
    Edit,
    Finding,
    InsertAfter,
    InsertBefore,
    RemoveArgument,
    RemoveStatement,
    Replace,
    WrapStatements,
)
from autoaccel.rewriting import check
from autoaccel.rewriting.apply import apply
from autoaccel.rewriting.places import Places, raw_lines
from autoaccel.rewriting.plan import plan
from tests.rewriting.subject import toy

SIMPLE = (
    "x = f(a, b)",
    "x = y = g(a)(b).c[d]",
    "f(*args, k=1, **options)",
    "loss = crit(model(x.cuda()), y)  # forward",
    "x, y = x.to(device), y.to(device)",
    "x = f(\n    a,\n    b=2,  # two\n)",
    "x = f(a,\n      b)",
    'text = """first\n  second\n\n\tthird"""',
    "s = 'é' + f'{x!r:>{width}} {g(y)}'",
    "total = a + b * (c - d) ** 2",
    "x = a if b else (c, d)",
    "g = sum(i * i for i in range(3))",
    "h = lambda x, *y: f(x)",
    "a; b = c(); d",
    "x = 1; y = f(2)  # two in a line",
    "x = 1 + \\\n    f(2)",
    "del x[f(1):2, ...]",
    "assert f(x), 'text'",
    "pass",
    "x = {**a, 'k': [f(b), *c]}",
    "if x: f(y); g(z)",
    "x: int = (yield_ := f(3))",
)
BLOCKS = (
    "for i, (x, y) in enumerate(loader, 0):",
    "while f(x) > 2:",
    "if a and f(b):",
    "with f(a) as b, c:",
    "def f(a, b=g(1), *, c):",
    "@dec(f(1))\n@other\nclass C(Base):",
    "async def h():",
    "@dec\ndef g(self) -> f(1):",
)
HEADS = ("#!/usr/bin/env python\n", '"""Doc."""\n', "import os\nimport torch\n", "\f\n", "\f# page\n")
BETWEEN = ("\f\n", "", "\n", "# comment\n", "\n\n# two\n\n", "   \n")


@st.composite
def scripts(draw: st.DrawFn) -> str:
    unit = draw(st.sampled_from(["    ", "  ", "\t"]))
    lines: list[str] = []
    if draw(st.booleans()):
        lines.extend(
            draw(
                st.sampled_from(["#!/usr/bin/env python\n", '"""Doc."""\n', "import os\nimport torch\n", "\f\n"])
            ).split("\n")[:-1]
        )

    def block(depth: int) -> None:
        for _ in range(draw(st.integers(1, 4))):
            for line in draw(st.sampled_from(BETWEEN)).split("\n")[:-1]:
                lines.append(unit * depth + line if line.strip() else line)
            if depth < 3 and draw(st.integers(0, 2)) == 0:
                header = draw(st.sampled_from(BLOCKS))
                lines.extend(unit * depth + line for line in header.split("\n"))
                block(depth + 1)
                if header.startswith(("for", "if", "while")) and draw(st.booleans()):
                    lines.append(unit * depth + "else:")
                    block(depth + 1)
            else:
                first, *rest = draw(st.sampled_from(SIMPLE)).split("\n")
                lines.append(unit * depth + first)
                # What follows inside brackets may stand anywhere; strings must not be touched.
                lines.extend(rest)

    block(0)
    newline = draw(st.sampled_from(["\n", "\n", "\r\n", "\r"]))
    end = draw(st.sampled_from(["", newline, newline + newline + "  "]))
    return newline.join(lines) + end


def replaceable(node: ast.expr, places: Places) -> bool:
    """Whether any expression may stand where this one does, for Python's grammar."""
    if isinstance(node, ast.Starred) or not isinstance(getattr(node, "ctx", ast.Load()), ast.Load):
        return False
    return not isinstance(places.parent(node), ast.FormattedValue | ast.AnnAssign)


def edits(tree: ast.Module, places: Places, chance: random.Random) -> list[Edit]:
    """One finding's worth of edits somewhere in a script."""
    expressions = [node for node in ast.walk(tree) if isinstance(node, ast.expr) and replaceable(node, places)]
    statements = [node for node in ast.walk(tree) if isinstance(node, ast.stmt)]
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    functions = [node for node in statements if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    made: list[Edit] = []
    for _ in range(chance.randint(1, 3)):
        kind = chance.randrange(9)
        statement = chance.choice(statements)
        template = Code(chance.choice(["new()", "with new():\n    pass", "new = 1\nnew()"]))
        if kind <= 1 and expressions:
            node = chance.choice(expressions)
            inside = [each for each in ast.walk(node) if each in expressions]
            hole = chance.choice(inside)
            assert isinstance(hole, ast.expr)
            made.append(
                Replace(node, chance.choice([Code("new"), Code("new({0})", (hole,)), Code("{0} + 1", (hole,))]))
            )
        elif kind == 2 and calls:
            call = chance.choice(calls)
            made.append(AddArguments(call, (("extra", Code("1")),)))
        elif kind == 3 and calls:
            call = chance.choice(calls)
            arguments: Sequence[ast.expr | ast.keyword] = [*call.args, *call.keywords]
            if arguments:
                made.append(RemoveArgument(call, chance.choice(arguments)))
        elif kind == 4:
            run = places.block(statement)
            last = chance.randrange(run.index(statement), len(run))
            made.append(WrapStatements(statement, run[last], Code("with new()"), chance.choice([None, Code("tail()")])))
        elif kind == 5:
            made.append(InsertBefore(statement, template))
        elif kind == 6:
            made.append(InsertAfter(statement, template))
        elif kind == 7:
            made.append(RemoveStatement(statement) if chance.random() < 0.5 else AddImport("accel"))
        elif kind == 8 and functions:
            made.append(AddDecorator(chance.choice(functions), Code("new")))
    return made


@given(scripts(), st.integers(0, 2**32))
@settings(max_examples=150)
def test_random_edits(text: str, seed: int) -> None:
    tree = ast.parse(text)
    places = Places(text, tree)
    assert apply(places, []) == text
    chance = random.Random(seed)
    findings: list[Finding] = []
    for number in range(chance.randint(1, 4)):
        made = edits(tree, places, chance)
        if made:
            findings.append(toy(f"AA{number:03}").finding(tree.body[0], "toy", *made))
    planned = plan(findings, places)
    after = apply(places, planned.findings)
    problem = check.problem(places, planned.findings, after)
    assert problem is None, f"{problem}\n{after}"
    # Any subset applies as well.
    some = [finding for finding in planned.findings if chance.random() < 0.5]
    problem = check.problem(places, some, apply(places, some))
    assert problem is None, problem


@given(scripts())
@settings(max_examples=60)
def test_untouched_lines_survive(text: str) -> None:
    tree = ast.parse(text)
    places = Places(text, tree)
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and node.lineno == node.end_lineno]
    calls = [call for call in calls if not places.in_format_string(call)]
    if not calls:
        return
    after = apply(places, [toy().finding(tree, "toy", AddArguments(calls[0], (("extra", Code("1")),)))])
    before, now = raw_lines(text), raw_lines(after)
    assert len(before) == len(now)
    assert [number for number, pair in enumerate(zip(before, now, strict=True), 1) if pair[0] != pair[1]] == [
        calls[0].lineno
    ]
