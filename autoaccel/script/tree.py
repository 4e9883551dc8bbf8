"""The syntax tree of a script with what `ast` leaves out: parents, blocks, source order, exact source text."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TypeVar

Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
Loop = ast.For | ast.AsyncFor | ast.While
Node = TypeVar("Node", bound=ast.AST)

_BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")


class Tree:
    """Parents, blocks and source of one module, computed in a single pass."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.module = ast.parse(text)
        self._parents: dict[ast.AST, ast.AST] = {}
        self._blocks: dict[ast.stmt, list[ast.stmt]] = {}
        self._by_type: dict[type[ast.AST], list[ast.AST]] = {}
        self._lines: list[bytes] | None = None
        self._index()

    def _index(self) -> None:
        parents, by_type = self._parents, self._by_type
        pending: list[ast.AST] = [self.module]
        while pending:
            node = pending.pop()
            by_type.setdefault(type(node), []).append(node)
            children = list(ast.iter_child_nodes(node))
            for child in children:
                parents[child] = node
            for field in _BLOCKS:
                block = getattr(node, field, None)
                if isinstance(block, list):
                    for statement in block:
                        if isinstance(statement, ast.stmt):
                            self._blocks[statement] = block
            pending.extend(reversed(children))

    def find(self, *types: type[Node]) -> Iterator[Node]:
        """Every node of exactly these types, depth first; in source order when one type is asked for."""
        for wanted in types:
            yield from self._by_type.get(wanted, ())  # type: ignore[misc]

    def parent(self, node: ast.AST) -> ast.AST | None:
        return self._parents.get(node)

    def ancestors(self, node: ast.AST) -> Iterator[ast.AST]:
        """From the parent up to the module."""
        current = self._parents.get(node)
        while current is not None:
            yield current
            current = self._parents.get(current)

    def inside(self, node: ast.AST, outer: ast.AST) -> bool:
        """Whether `node` is `outer` or lies within it."""
        return node is outer or any(ancestor is outer for ancestor in self.ancestors(node))

    def statement(self, node: ast.AST) -> ast.stmt:
        """The innermost statement that holds `node`; the node itself when it is a statement."""
        current: ast.AST | None = node
        while current is not None and not isinstance(current, ast.stmt):
            current = self._parents.get(current)
        assert current is not None, "every expression of a module sits in a statement"
        return current

    def block(self, statement: ast.stmt) -> list[ast.stmt]:
        """The list of siblings in which a statement sits."""
        return self._blocks[statement]

    def function(self, node: ast.AST) -> Function | None:
        """The nearest function or lambda whose body holds `node`; decorators and defaults belong outside."""
        child = node
        for ancestor in self.ancestors(node):
            if isinstance(ancestor, ast.FunctionDef | ast.AsyncFunctionDef):
                if isinstance(child, ast.stmt) and child in ancestor.body:
                    return ancestor
            elif isinstance(ancestor, ast.Lambda) and child is ancestor.body:
                return ancestor
            child = ancestor
        return None

    def enclosing_class(self, node: ast.AST) -> ast.ClassDef | None:
        """The class of whose body or methods `node` is a part."""
        for ancestor in self.ancestors(node):
            if isinstance(ancestor, ast.ClassDef):
                return ancestor
        return None

    def loops(self, node: ast.AST) -> list[Loop]:
        """The loops whose body repeats `node`, within the same function, innermost first."""
        found: list[Loop] = []
        child = node
        for ancestor in self.ancestors(node):
            if isinstance(ancestor, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
                break
            if (
                isinstance(ancestor, ast.For | ast.AsyncFor)
                and child is not ancestor.iter
                and child not in ancestor.orelse
            ):
                found.append(ancestor)
            elif isinstance(ancestor, ast.While) and child not in ancestor.orelse:
                found.append(ancestor)
            child = ancestor
        return found

    def bound_name(self, value: ast.AST) -> ast.Name | None:
        """The plain name that an assignment gives to exactly this expression: `xs = []`, `xs, ys = [], []`."""
        parent = self._parents.get(value)
        match parent:
            case ast.Assign(targets=[ast.Name() as target], value=bound) if bound is value:
                return target
            case ast.AnnAssign(target=ast.Name() as target, value=bound) if bound is value:
                return target
            case ast.Tuple(elts=values):
                match self._parents.get(parent):
                    case ast.Assign(targets=[ast.Tuple(elts=targets)], value=whole) if whole is parent:
                        target_of = dict(zip(values, targets, strict=False)) if len(values) == len(targets) else {}
                        found = target_of.get(value)  # type: ignore[call-overload]
                        return found if isinstance(found, ast.Name) else None
        return None

    def source(self, node: ast.AST) -> str:
        """The exact source text of a node (multi-line text keeps its line ends as they are)."""
        if self._lines is None:
            self._lines = _split_lines(self.text)
        assert isinstance(node, ast.expr | ast.stmt | ast.arg | ast.keyword | ast.alias | ast.excepthandler)
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        first, last = node.lineno - 1, node.end_lineno - 1
        start, end = node.col_offset, node.end_col_offset
        if first == last:
            return self._lines[first][start:end].decode("utf-8")
        middle = self._lines[first + 1 : last]
        return b"".join([self._lines[first][start:], *middle, self._lines[last][:end]]).decode("utf-8")


def _split_lines(text: str) -> list[bytes]:
    """Lines as Python's tokenizer counts them: form feeds and vertical tabs do not end a line."""
    lines: list[bytes] = []
    for piece in text.replace("\r\n", "\n").replace("\r", "\n").split("\n"):
        lines.append(piece.encode("utf-8") + b"\n")
    return lines


def walk_scope(node: ast.AST) -> Iterator[ast.AST]:
    """`node` and its descendants, without the bodies of nested functions, lambdas and classes."""
    pending: list[ast.AST] = [node]
    while pending:
        current = pending.pop()
        yield current
        if current is not node and isinstance(
            current, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef
        ):
            continue
        pending.extend(reversed(list(ast.iter_child_nodes(current))))
