"""Where nodes lie: parents, scopes, blocks, loops, exact source."""

from __future__ import annotations

import ast
from collections.abc import Iterable

import pytest

from autoaccel.dataflow.syntax_index import SyntaxIndex, breadth_first, comment_above, walk_scope


def names(nodes: Iterable[ast.Name]) -> list[str]:
    return [node.id for node in nodes]


def marked(tree: SyntaxIndex) -> ast.Name:
    """The name `x` of a text."""
    (found,) = (each for each in tree.find(ast.Name) if each.id == "x")
    return found


NESTED = """\
@a
def f(b=c):
    d
    def g(e=h): i
    j
    k = lambda l=m: n
class C(o):
    p
    def q(self): r
s
"""


def test_within_and_in_scope() -> None:
    tree = SyntaxIndex(NESTED)
    f, cls = tree.module.body[:2]
    assert sorted(names(tree.within(f, ast.Name))) == list("acdhijkmn")
    assert sorted(names(tree.in_scope(f, ast.Name))) == list("acdjk")
    assert names(tree.in_scope(cls, ast.Name)) == list("op")
    assert names(tree.in_scope(tree.module, ast.Name)) == ["s"]
    assert [*tree.in_scope(tree.module, ast.FunctionDef)] == [f]
    assert sorted(names(each for each in walk_scope(f) if isinstance(each, ast.Name))) == list("acdjk")
    assert [*tree.within(f, ast.Await)] == []


@pytest.mark.parametrize("kinds", [(ast.Name,), (ast.FunctionDef, ast.Name, ast.arg), (ast.Await, ast.Yield)])
def test_within_of_several_types(kinds: tuple[type[ast.AST], ...]) -> None:
    tree = SyntaxIndex(NESTED)
    for outer in tree.within(tree.module, ast.AST):
        expected = [each for each in tree.within(outer, ast.AST) if isinstance(each, kinds)]
        assert [*tree.within_any(outer, kinds)] == expected


def test_a_part_of_another_tree_is_walked() -> None:
    tree = SyntaxIndex("x\n")
    annotation = ast.parse("a[b]", mode="eval").body
    assert names(tree.within(annotation, ast.Name)) == ["a", "b"]
    assert names(tree.in_scope(annotation, ast.Name)) == ["a", "b"]
    assert len(tree.within_any(annotation, (ast.Name, ast.Subscript))) == 3
    assert not tree.inside(annotation, tree.module)
    assert tree.parent(annotation) is None


@pytest.mark.parametrize(
    ("text", "function", "cls"),
    [
        pytest.param("x", None, None, id="the module"),
        pytest.param("def f(): x", "f", None, id="a function"),
        pytest.param("async def f(): x", "f", None, id="an async function"),
        pytest.param("def f(a=x): ...", None, None, id="a default"),
        pytest.param("@x\ndef f(): ...", None, None, id="a decorator"),
        pytest.param("def f() -> x: ...", None, None, id="an annotation"),
        pytest.param("def f():\n    def g(): x", "g", None, id="the inner function"),
        pytest.param("def f():\n    def g(a=x): ...", "f", None, id="a default of the inner function"),
        pytest.param("f = lambda: x", "lambda", None, id="a lambda"),
        pytest.param("f = lambda a=x: a", None, None, id="a default of a lambda"),
        pytest.param("[x for a in b]", None, None, id="a comprehension"),
        pytest.param("class C:\n    x", None, "C", id="a class"),
        pytest.param("class C:\n    def f(self): x", "f", "C", id="a method"),
        pytest.param("def f():\n    class C:\n        x", "f", "C", id="a class in a function"),
        pytest.param("class C:\n    class D:\n        x", None, "D", id="a class in a class"),
        pytest.param("class C(x): ...", None, "C", id="a base"),
    ],
)
def test_what_is_around(text: str, function: str | None, cls: str | None) -> None:
    tree = SyntaxIndex(text + "\n")
    around, owner = tree.function(marked(tree)), tree.enclosing_class(marked(tree))
    assert (None if around is None else getattr(around, "name", "lambda")) == function
    assert (None if owner is None else owner.name) == cls


@pytest.mark.parametrize(
    ("text", "loops"),
    [
        pytest.param("for a in b:\n    x", ["for"], id="its body"),
        pytest.param("for a in x: ...", [], id="what it goes over"),
        pytest.param("for x in b: ...", ["for"], id="its target"),
        pytest.param("for a in b: ...\nelse:\n    x", [], id="its else"),
        pytest.param("while x: ...", ["while"], id="a test is repeated"),
        pytest.param("while a: ...\nelse:\n    x", [], id="the else of while"),
        pytest.param("for a in b:\n    while c:\n        x", ["while", "for"], id="innermost first"),
        pytest.param("for a in b:\n    for c in x: ...", ["for"], id="what the inner one goes over"),
        pytest.param("for a in b:\n    def f(): x", [], id="another function"),
        pytest.param("for a in b:\n    if c:\n        x", ["for"], id="a branch"),
        pytest.param("[x for a in b]", [], id="no comprehension"),
    ],
)
def test_loops(text: str, loops: list[str]) -> None:
    tree = SyntaxIndex(text + "\n")
    kinds = {ast.For: "for", ast.While: "while"}
    assert [kinds[type(each)] for each in tree.loops(marked(tree))] == loops


@pytest.mark.parametrize(
    ("text", "siblings"),
    [
        ("a\nx\nb", 3),
        ("if a:\n    x\n    b\nelse:\n    c", 2),
        ("if a:\n    b\nelse:\n    x", 1),
        ("try:\n    a\nfinally:\n    x\n    b", 2),
        ("try:\n    a\nexcept E:\n    x\n    b\n    c", 3),
        ("match a:\n    case 1:\n        x\n        b", 2),
        ("with a: x", 1),
        ("def f():\n    a = [x,\n         b]\n    return a", 2),
    ],
)
def test_blocks(text: str, siblings: int) -> None:
    tree = SyntaxIndex(text + "\n")
    statement = tree.statement(marked(tree))
    assert len(tree.block(statement)) == siblings
    assert statement in tree.block(statement)
    assert tree.statement(statement) is statement


@pytest.mark.parametrize(
    ("text", "source"),
    [
        pytest.param("a = f(x,\n  1)\n", "f(x,\n  1)", id="over lines"),
        pytest.param("a = 'ä€😀', f(x)\n", "f(x)", id="behind characters of several bytes"),
        pytest.param("a = 1\r\nf(x,\r\n  1)\r\n", "f(x,\n  1)", id="behind CRLF"),
        pytest.param("a = 1\f\nb = '\x0b'\nf(x)\n", "f(x)", id="behind a form feed"),
        pytest.param("a = '\u2028'\nf(x)\n", "f(x)", id="behind a line separator of Unicode"),
        pytest.param("f(x)", "f(x)", id="without an end of line"),
    ],
)
def test_source(text: str, source: str) -> None:
    tree = SyntaxIndex(text)
    assert tree.source(next(tree.find(ast.Call))) == source


def test_names_and_calls() -> None:
    tree = SyntaxIndex("f(1)\na.f(2)\ng(f)\na.f = f\nb = a.g\ndel a.g\nf()(3)\n")
    assert [tree.source(each) for each in tree.calls_named("f")] == ["f(1)", "a.f(2)", "f()"]
    assert [tree.source(each) for each in tree.calls_named("f", "g", "f")] == ["f(1)", "a.f(2)", "g(f)", "f()"]
    assert [tree.source(each) for each in tree.mentions("f")] == ["f", "a.f", "f", "a.f", "f", "f"]
    assert [tree.source(each) for each in tree.stored("f")] == ["a.f"]
    assert [*tree.calls_named("h"), *tree.mentions("h"), *tree.stored("g")] == []


def test_order() -> None:
    tree = SyntaxIndex("a(b(c), d)\ne\n")
    found = {each.id: each for each in tree.find(ast.Name)}
    shuffled = [found[each] for each in "ecadb"]
    assert names(tree.in_order(shuffled)) == list("abcde")
    assert names(tree.by_depth([found[each] for each in "abcde"])) == list("eadbc")
    assert tree.shallowest([found["c"], found["d"]]) is found["d"]
    assert tree.shallowest([]) is None
    assert names(each for each in breadth_first(tree.module) if isinstance(each, ast.Name)) == list("eadbc")


@pytest.mark.parametrize(
    ("text", "inside"), [("f(x)", True), ("f(1), x", False), ("x, f(1)", False), ("f(g(x))", True)]
)
def test_inside(text: str, inside: bool) -> None:
    tree = SyntaxIndex(text + "\n")
    call = next(tree.find(ast.Call))
    assert tree.inside(marked(tree), call) == inside
    assert tree.inside(call, call)
    assert not tree.inside(tree.module, call)
    assert tree.module in tree.ancestors(marked(tree))


@pytest.mark.parametrize(
    ("lines", "count"),
    [
        pytest.param(["a = 1", "  # why", "  # so"], 2, id="two lines"),
        pytest.param(["# head", "", "# why"], 1, id="up to a blank line"),
        pytest.param(["# all"], 1, id="up to the beginning"),
        pytest.param(["# %% cell", "# why"], 1, id="up to a cell"),
        pytest.param(["a = 1  # beside"], 0, id="beside code"),
        pytest.param(["# why", "# -----"], 0, id="a heading"),
        pytest.param(["# fmt: off", "# why"], 0, id="a directive"),
        pytest.param(["# why", ""], 0, id="set apart"),
    ],
)
def test_comment_above(lines: list[str], count: int) -> None:
    assert comment_above(lines) == count
