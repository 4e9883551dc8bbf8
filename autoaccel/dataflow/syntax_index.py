"""The syntax tree of a script with what `ast` leaves out: parents, blocks, source order, exact source text."""

from __future__ import annotations

import ast
import itertools
import re
from bisect import bisect_left
from collections import deque
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TypeVar

from autoaccel.dataflow.child_nodes import BY_TYPE, children

Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
Loop = ast.For | ast.AsyncFor | ast.While
Node = TypeVar("Node", bound=ast.AST)

NEWLINE = re.compile(r"\r\n|\r|\n")
"""What ends a line of a script: form feeds and Unicode separators, at which `str.splitlines` splits, do not."""

CELL = re.compile(r"#[ \t]*%%")
"""Where a cell of a percent script begins."""
_HEADING = re.compile(r"#\W{3,}$")
_DIRECTIVE = re.compile(r"#.*:\s*(off|disable)\b")
_BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)


def position(node: ast.AST | None) -> tuple[int, int]:
    """Line and column where a node begins; a comprehension's are those of its target, a module's come first."""
    place = node.target if isinstance(node, ast.comprehension) else node
    return getattr(place, "lineno", 0), getattr(place, "col_offset", 0)


def last_name(expression: ast.AST | None) -> str:
    """`step` for `step`, `optimizer.step` and `self.optimizer.step`; empty for what ends in no name."""
    return expression.attr if isinstance(expression, ast.Attribute) else getattr(expression, "id", "")


def is_constant(expression: ast.AST | None, value: bool | None) -> bool:
    """Whether an expression is `True`, `False` or `None`, as written."""
    return isinstance(expression, ast.Constant) and expression.value is value


class _Row:
    """Nodes in preorder with their positions: a part of the tree is a run of the row."""

    __slots__ = ("nodes", "positions")

    def __init__(self, nodes: list[ast.AST], positions: list[int]) -> None:
        self.nodes = nodes
        self.positions = positions

    def run(self, start: int, end: int) -> list[ast.AST]:
        """The nodes between two positions."""
        return self.nodes[bisect_left(self.positions, start) : bisect_left(self.positions, end)]


class Parents:
    """What holds the nodes of a tree."""

    parents: dict[ast.AST, ast.AST]

    def parent(self, node: ast.AST) -> ast.AST | None:
        """None for the module."""
        return self.parents.get(node)

    def ancestors(self, node: ast.AST) -> Iterator[ast.AST]:
        """From the parent up to the module."""
        current = self.parents.get(node)
        while current is not None:
            yield current
            current = self.parents.get(current)

    def block(self, statement: ast.stmt) -> list[ast.stmt]:
        """The list of siblings in which a statement sits."""
        parent = self.parents[statement]
        for field in _BLOCKS:
            block = getattr(parent, field, None)
            if isinstance(block, list) and statement in block:
                return block
        raise KeyError(statement)


class SyntaxIndex(Parents):
    """Parents, blocks and source of one module. Nodes are numbered in preorder, so that what lies within a node is a
    run of numbers and never has to be walked for."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.module = ast.parse(text)
        self.parents = {}
        self._owners: dict[ast.AST, ast.AST] = {}  # the function, lambda or class around a node, decorators included
        self._positions: dict[ast.AST, int] = {}
        self._ends: dict[ast.AST, int] = {}
        self._bodies: dict[ast.AST, tuple[int, int]] = {}
        self._by_type: dict[type[ast.AST], list[ast.AST]] = {}
        self._rows: dict[type[ast.AST] | tuple[type[ast.AST], ...], _Row] = {}
        self._by_owner: dict[type[ast.AST], dict[ast.AST, _Row]] = {}
        self._lines: list[bytes] | None = None
        self._sources: dict[ast.AST, str] = {}
        self._index()

    def _index(self) -> None:
        parents, owners, positions, by_type = self.parents, self._owners, self._positions, self._by_type
        owners[self.module] = self.module
        pending: list[ast.AST] = [self.module]
        while pending:
            node = pending.pop()
            positions[node] = len(positions)
            kind = type(node)
            alike = by_type.get(kind)
            if alike is None:
                by_type[kind] = [node]
            else:
                alike.append(node)
            inner = BY_TYPE[kind](node)
            if inner:
                owner = node if kind in _SCOPES else owners[node]
                for child in inner:
                    parents[child] = node
                    owners[child] = owner
                inner.reverse()
                pending.extend(inner)

    def calls_named(self, *names: str) -> list[ast.Call]:
        """Calls of what ends in one of these names: `step` for `optimizer.step()`, in preorder."""
        return self._named(self._calls_by_last_name, names)

    def mentions(self, *names: str) -> list[ast.Name | ast.Attribute]:
        """The names and attributes that are spelled so: `f`, `module.f`, `self.f`; in preorder."""
        return self._named(self._mentions, names)

    def _named(self, known: dict[str, list[Node]], names: tuple[str, ...]) -> list[Node]:
        if len(names) == 1:
            return known.get(names[0], [])
        found = [known[name] for name in dict.fromkeys(names) if name in known]
        return found[0] if len(found) == 1 else self.in_order([each for nodes in found for each in nodes])

    def stored(self, name: str) -> list[ast.Attribute]:
        """The targets that store an attribute of this name, in preorder."""
        return self._stored.get(name, [])

    @cached_property
    def _mentions(self) -> dict[str, list[ast.Name | ast.Attribute]]:
        found: dict[str, list[ast.Name | ast.Attribute]] = {}
        for name in self.find(ast.Name):
            found.setdefault(name.id, []).append(name)
        both = set()
        for attribute in self.find(ast.Attribute):
            if attribute.attr in found:
                both.add(attribute.attr)
            found.setdefault(attribute.attr, []).append(attribute)
        for each in both:
            found[each] = self.in_order(found[each])
        return found

    @cached_property
    def _stored(self) -> dict[str, list[ast.Attribute]]:
        found: dict[str, list[ast.Attribute]] = {}
        for attribute in self.find(ast.Attribute):
            if isinstance(attribute.ctx, ast.Store):
                found.setdefault(attribute.attr, []).append(attribute)
        return found

    @cached_property
    def _calls_by_last_name(self) -> dict[str, list[ast.Call]]:
        found: dict[str, list[ast.Call]] = {}
        for call in self.find(ast.Call):
            function = call.func
            if isinstance(function, ast.Attribute):
                found.setdefault(function.attr, []).append(call)
            elif isinstance(function, ast.Name):
                found.setdefault(function.id, []).append(call)
        return found

    def find(self, *types: type[Node]) -> Iterator[Node]:
        """Every node of exactly these types, depth first; in source order when one type is asked for."""
        rows = [self._by_type[wanted] for wanted in types if wanted in self._by_type]
        return iter(rows[0] if len(rows) == 1 else itertools.chain(*rows))  # type: ignore[arg-type]

    def within(self, outer: ast.AST, kind: type[Node]) -> Sequence[Node]:
        """`outer` and what lies anywhere within it, in preorder: of exactly this type, or all for `ast.AST`."""
        if outer not in self._positions:  # of another tree: an annotation that was a string
            return [each for each in ast.walk(outer) if kind is ast.AST or type(each) is kind]  # type: ignore[misc]
        row = self._row(kind)
        return row.run(*self._extent(outer)) if row is not None else ()  # type: ignore[return-value]

    def within_any(self, outer: ast.AST, kinds: tuple[type[ast.AST], ...]) -> Sequence[ast.AST]:
        """The same for several types: `outer` and what lies within it of exactly these, in preorder."""
        if outer not in self._positions:
            return [each for each in ast.walk(outer) if type(each) in kinds]
        row = self._rows.get(kinds)
        if row is None:
            nodes = self.in_order([each for kind in kinds for each in self._by_type.get(kind, ())])
            row = self._rows[kinds] = _Row(nodes, [self._positions[node] for node in nodes])
        return row.run(*self._extent(outer))

    def in_scope(self, outer: ast.AST, kind: type[Node]) -> Sequence[Node]:
        """The same without the insides of nested functions, lambdas and classes, as `walk_scope`."""
        if outer not in self._positions:  # of another tree: an annotation that was a string
            return [each for each in walk_scope(outer) if kind is ast.AST or type(each) is kind]  # type: ignore[misc]
        scoped = isinstance(outer, _SCOPES)
        row = self._rows_of(kind).get(outer if scoped else self._owners[outer])
        found = row.run(*self._extent(outer)) if row is not None else []
        if scoped and (kind is ast.AST or type(outer) is kind):
            found.insert(0, outer)
        return found  # type: ignore[return-value]

    def _row(self, kind: type[ast.AST]) -> _Row | None:
        row = self._rows.get(kind)
        if row is None:
            nodes = list(self._positions) if kind is ast.AST else self._by_type.get(kind)
            if nodes is None:
                return None
            row = self._rows[kind] = _Row(nodes, [self._positions[node] for node in nodes])
        return row

    def _rows_of(self, kind: type[ast.AST]) -> dict[ast.AST, _Row]:
        """The nodes of a type by the scope that owns them."""
        rows = self._by_owner.get(kind)
        if rows is None:
            rows = self._by_owner[kind] = {}
            whole = self._row(kind)
            for node, position in zip(whole.nodes, whole.positions, strict=True) if whole is not None else ():
                owner = self._owners[node]
                row = rows.get(owner)
                if row is None:
                    row = rows[owner] = _Row([], [])
                row.nodes.append(node)
                row.positions.append(position)
        return rows

    def _extent(self, node: ast.AST) -> tuple[int, int]:
        """The first position of a node's part of the tree, and the one after its last."""
        end = self._ends.get(node)
        if end is None:
            last = node
            while inner := children(last):
                last = inner[-1]
            end = self._ends[node] = self._positions[last] + 1
        return self._positions[node], end

    def in_order(self, nodes: Sequence[Node]) -> list[Node]:
        """Nodes put in preorder."""
        return sorted(nodes, key=self._positions.__getitem__)

    def shallowest(self, nodes: Sequence[ast.AST]) -> ast.AST | None:
        """The node that lies least deep, of several the first: what `ast.walk` would meet before the others."""
        if len(nodes) < 2:
            return nodes[0] if nodes else None
        return min(nodes, key=lambda node: (self._depth(node), self._positions[node]))

    def by_depth(self, nodes: Sequence[Node]) -> list[Node]:
        """Nodes in preorder put in the order of `ast.walk`."""
        return sorted(nodes, key=self._depth) if len(nodes) > 1 else [*nodes]

    def _depth(self, node: ast.AST) -> int:
        depth, parent = 0, self.parents.get(node)
        while parent is not None:
            depth, parent = depth + 1, self.parents.get(parent)
        return depth

    def call_of(self, function: ast.AST | None) -> ast.Call | None:
        """The call of which an expression is the function: `f(x)` for its `f`; None where it is used otherwise."""
        parent = None if function is None else self.parents.get(function)
        return parent if isinstance(parent, ast.Call) and parent.func is function else None

    def inside(self, node: ast.AST, outer: ast.AST) -> bool:
        """Whether `node` is `outer` or lies within it."""
        if node is outer:
            return True
        position = self._positions.get(node)
        if position is None or outer not in self._positions:
            return False
        start, end = self._extent(outer)
        return start < position < end

    def statement(self, node: ast.AST) -> ast.stmt:
        """The innermost statement that holds `node`; the node itself when it is a statement."""
        current: ast.AST | None = node
        while current is not None and not isinstance(current, ast.stmt):
            current = self.parents.get(current)
        assert current is not None, "every expression of a module sits in a statement"
        return current

    def function(self, node: ast.AST) -> Function | None:
        """The nearest function or lambda whose body holds `node`; decorators and defaults belong outside."""
        position = self._positions.get(node, -1)
        owner = self._owners.get(node, self.module)
        while owner is not self.module:
            start, end = self._body(owner)
            if start <= position < end:
                return owner  # type: ignore[return-value]
            owner = self._owners[owner]
        return None

    def _body(self, owner: ast.AST) -> tuple[int, int]:
        """The positions of a function's body, without its decorators and defaults; empty for a class."""
        known = self._bodies.get(owner)
        if known is None:
            known = 0, 0
            if isinstance(owner, ast.Lambda):
                known = self._extent(owner.body)
            elif isinstance(owner, ast.FunctionDef | ast.AsyncFunctionDef):
                known = self._positions[owner.body[0]], self._extent(owner.body[-1])[1]
            self._bodies[owner] = known
        return known

    def enclosing_class(self, node: ast.AST) -> ast.ClassDef | None:
        """The class of whose body or methods `node` is a part."""
        owner = self._owners.get(node, self.module)
        while owner is not self.module:
            if isinstance(owner, ast.ClassDef):
                return owner
            owner = self._owners[owner]
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

    def source(self, node: ast.AST) -> str:
        """The exact source text of a node (multi-line text keeps its line ends as they are)."""
        known = self._sources.get(node)
        if known is None:
            known = self._sources[node] = self._source(node)
        return known

    def _source(self, node: ast.AST) -> str:
        if self._lines is None:
            self._lines = [f"{line}\n".encode() for line in split_lines(self.text)]
        assert isinstance(node, ast.expr | ast.stmt | ast.arg | ast.keyword | ast.alias | ast.excepthandler)
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        first, last = node.lineno - 1, node.end_lineno - 1
        start, end = node.col_offset, node.end_col_offset
        if first == last:
            return self._lines[first][start:end].decode("utf-8")
        middle = self._lines[first + 1 : last]
        return b"".join([self._lines[first][start:], *middle, self._lines[last][:end]]).decode("utf-8")


def split_lines(text: str) -> list[str]:
    """Lines without their ends, as Python's tokenizer counts them."""
    return NEWLINE.split(text) if "\r" in text else text.split("\n")


def is_heading(line: str) -> bool:
    """Whether a line is one of those above and below a heading: `# -----`."""
    return _HEADING.match(line.strip()) is not None


def comment_above(lines: Sequence[str], *, headings: bool = False) -> int:
    """How many of the last of some lines are a comment that may speak of what follows alone: no directive such as
    `# fmt: off`, no beginning of a cell, and no heading unless these count, also above a blank line."""
    count = 0
    if headings and len(lines) > 1 and not lines[-1].strip() and is_heading(lines[-2]):
        count = 1
    while count < len(lines) and (line := lines[-1 - count].lstrip()).startswith("#") and not CELL.match(line):
        if _DIRECTIVE.match(line) or (is_heading(line) and not headings):
            return 0
        count += 1
    return count


def breadth_first(node: ast.AST) -> Iterator[ast.AST]:
    """`node` and its descendants as `ast.walk` gives them, without contexts and operators."""
    pending = deque([node])
    while pending:
        current = pending.popleft()
        yield current
        pending.extend(children(current))


def walk_scope(node: ast.AST) -> Iterator[ast.AST]:
    """`node` and its descendants, without the bodies of nested functions, lambdas and classes."""
    pending: list[ast.AST] = [node]
    while pending:
        current = pending.pop()
        yield current
        if current is not node and isinstance(current, _SCOPES):
            continue
        inner = children(current)
        inner.reverse()
        pending.extend(inner)
