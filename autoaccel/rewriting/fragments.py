"""New code as LibCST nodes: templates parsed, holes filled, parentheses where the meaning asks for them.

Whether an expression needs parentheses is not read from a table of precedences: both spellings are parsed, and the bare
one is taken when it means the same. That is exact for every construct, line breaks included.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import TypeVar

import libcst as cst

from autoaccel.edits import Code

Filled = TypeVar("Filled", bound=cst.CSTNode)

_STRING = re.compile(r"""(?<![\w'"])[rRbBuUfF]{0,2}(?:"[^"'\\\n]+"(?!")|'[^"'\\\n]+'(?!'))""")
_BLANK = cst.Module([])


@lru_cache(maxsize=1)  # findings are edited into the same text one after another
def preferred_quote(text: str) -> str:
    """The quote that most short strings of a text are written with."""
    singles = doubles = 0
    for match in _STRING.finditer(text):
        if match[0].endswith("'"):
            singles += 1
        else:
            doubles += 1
    return "'" if singles > doubles else '"'


def code_of(node: cst.CSTNode) -> str:
    return _BLANK.code_for_node(node)


class Fragments:
    """Makes nodes from `Code` in the style of one file."""

    def __init__(self, quote: str) -> None:
        self._quote = quote
        # Four spaces are what rules write; as the default they become the file's own unit when they are printed.
        self._config: cst.PartialParserConfig = cst.PartialParserConfig(default_indent="    ", default_newline="\n")

    def expression(self, code: Code, holes: Sequence[cst.BaseExpression]) -> cst.BaseExpression:
        text = _with_placeholders(code)
        node = cst.parse_expression(text, config=self._config)
        return self._fill(node, text, holes)

    def statements(
        self, code: Code, holes: Sequence[cst.BaseExpression]
    ) -> list[cst.SimpleStatementLine | cst.BaseCompoundStatement]:
        text = _with_placeholders(code).strip("\n") + "\n"
        module = self._fill(cst.parse_module(text, config=self._config), text, holes)
        statements = list(module.body)
        if module.header:
            statements[0] = statements[0].with_changes(leading_lines=[*module.header, *statements[0].leading_lines])
        if isinstance(statements[0], cst.FunctionDef):
            statements[0] = _set_apart(statements[0])
        return statements

    def compound(self, header: Code, holes: Sequence[cst.BaseExpression]) -> cst.BaseCompoundStatement:
        """A compound statement with `pass` for its body."""
        [statement] = self.statements(Code(f"{header.text}:\n    pass", header.holes), holes)
        assert isinstance(statement, cst.BaseCompoundStatement)
        return statement

    def _fill(self, node: Filled, text: str, holes: Sequence[cst.BaseExpression]) -> Filled:
        filled = node.visit(_Fill(self._quote, {_placeholder(i): _fit(text, i, hole) for i, hole in enumerate(holes)}))
        assert isinstance(filled, type(node)) or isinstance(node, cst.BaseExpression)
        return filled  # type: ignore[return-value]  # an expression may become another expression


def _set_apart(function: cst.FunctionDef) -> cst.FunctionDef:
    """A function with a blank line above and below it."""
    blank = cst.EmptyLine(indent=False)
    body = function.body.with_changes(footer=[blank]) if isinstance(function.body, cst.IndentedBlock) else function.body
    return function.with_changes(leading_lines=[blank, *function.leading_lines], body=body)


class _Fill(cst.CSTTransformer):
    def __init__(self, quote: str, holes: dict[str, cst.BaseExpression]) -> None:
        super().__init__()
        self._quote = quote
        self._holes = holes

    def on_leave(  # type: ignore[override]  # one function for all node types
        self, original_node: cst.CSTNode, updated_node: cst.CSTNode
    ) -> cst.CSTNode:
        del original_node  # in a fragment every node is new
        if isinstance(updated_node, cst.Name) and updated_node.value in self._holes:
            # The same expression may fill several places, and a tree must not hold one node twice.
            hole = self._holes[updated_node.value].deep_clone()
            return parenthesized(hole, updated_node.lpar, updated_node.rpar) if updated_node.lpar else hole
        if isinstance(updated_node, cst.SimpleString):
            return self._quoted(updated_node)
        return updated_node

    def _quoted(self, string: cst.SimpleString) -> cst.SimpleString:
        """A short string with the quotes that the file prefers."""
        value = string.raw_value
        if string.quote == self._quote or len(string.quote) > 1 or "\\" in value or self._quote in value:
            return string
        return string.with_changes(value=f"{string.prefix}{self._quote}{value}{self._quote}")


def parenthesized(
    node: cst.BaseExpression, lpar: Sequence[cst.LeftParen] = (), rpar: Sequence[cst.RightParen] = ()
) -> cst.BaseExpression:
    """`node` in one more pair of parentheses, or in the given ones."""
    left, right = lpar or (cst.LeftParen(),), rpar or (cst.RightParen(),)
    changed = node.with_changes(lpar=[*left, *node.lpar], rpar=[*node.rpar, *right])
    assert isinstance(changed, cst.BaseExpression)
    return changed


def bare(node: cst.BaseExpression) -> cst.BaseExpression:
    """`node` without parentheses around it, except the pair that a tuple or a generator expression calls its own."""
    own = 1 if isinstance(node, cst.Tuple | cst.GeneratorExp) else 0
    if len(node.lpar) <= own:
        return node
    stripped = node.with_changes(lpar=node.lpar[len(node.lpar) - own :], rpar=node.rpar[:own])
    assert isinstance(stripped, cst.BaseExpression)
    return stripped


def same_meaning(one: str, other: str) -> bool:
    """Whether two pieces of code parse to the same tree; False when the first does not parse."""
    try:
        left = ast.parse(one)
    except (SyntaxError, ValueError):
        return False
    return ast.dump(left) == ast.dump(ast.parse(other))


def _fit(text: str, index: int, hole: cst.BaseExpression) -> cst.BaseExpression:
    """The hole's expression as it must stand in the template: bare if that means the same, else in parentheses."""
    stripped = bare(hole)
    # Comments inside parentheses live as long as the parentheses do.
    if "#" in code_of(hole).replace(code_of(stripped), "", 1):
        return hole
    name = re.compile(rf"\b{_placeholder(index)}\b")
    source = code_of(stripped)
    plain = name.sub(lambda _: source, text)
    safe = name.sub(lambda _: f"({source}\n)", text)
    if same_meaning(plain, safe):
        return stripped
    return hole if len(hole.lpar) > len(stripped.lpar) else parenthesized(stripped)


def _placeholder(index: int) -> str:
    return f"_hole_{index}_of_template"


def _with_placeholders(code: Code) -> str:
    return code.text.format(*(_placeholder(index) for index in range(len(code.holes))))
