"""The edits of a finding in words, a line each.

They are made of `ast` nodes and source text alone: LibCST would cost too much for what is only read.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

from autoaccel.dataflow.child_nodes import children
from autoaccel.dataflow.syntax_index import breadth_first
from autoaccel.edits import (
    AddArguments,
    AddDecorator,
    Code,
    Edit,
    EditComment,
    Finding,
    InsertAfter,
    InsertBefore,
    RemoveArgument,
    RemoveStatement,
    Replace,
    WrapStatements,
)
from autoaccel.rewriting import imports
from autoaccel.rewriting.places import Places, Position
from autoaccel.rewriting.record import AMONG_IMPORTS

_LONG = 80  # characters of code that still read well in a line of words
_MOST_PLACES = 6  # that are named one by one

_ABOVE, _AROUND, _ON, _BELOW = "above", "around", "on", "below"
_SIDES = {_AROUND: 0, _ABOVE: 1, _ON: 2, _BELOW: 3}

_Lines = tuple[int, int]
"""First and last."""

_COMMENT = re.compile(r"""^((?:[^'"#]|'[^']*'|"[^"]*")*)#.*$""")
_ATOMS = (ast.Name, ast.Attribute, ast.Call, ast.Subscript, ast.Constant, ast.List, ast.Dict, ast.Set)


def wording(finding: Finding, places: Places) -> tuple[str, ...]:
    """What a finding would do, in the order of the file, imports last; equal edits of several places are one line."""
    said: dict[tuple[str, str], list[_Lines]] = {}
    for lines, side, words in sorted(_Words(finding, places).all(), key=lambda each: (each[0][0], _SIDES[each[1]])):
        said.setdefault((words, side), []).append(lines)
    own = getattr(finding.node, "lineno", 0)
    return (
        *(words + _where(side, lines, own) for (words, side), lines in said.items()),
        *_imported(finding, places),
        *dict.fromkeys(_needed(each) for each in finding.needs),
    )


def _where(side: str, where: Sequence[_Lines], own: int) -> str:
    """The lines of an edit, if there is anything to say that the place of the finding does not."""
    if side == _ON and set(where) == {(own, own)}:
        return ""
    if len(where) > _MOST_PLACES:
        return f" {side} {len(where)} places, lines {where[0][0]} to {where[-1][1]}"
    names = [str(start) if start == end else f"{start}-{end}" for start, end in dict.fromkeys(where)]
    if len(names) == 1:
        return f" {side} line{'s' if '-' in names[0] else ''} {names[0]}"
    return f" {side} lines {', '.join(names[:-1])} and {names[-1]}"


def _imported(finding: Finding, places: Places) -> Iterator[str]:
    before = imports.first_use(places, [finding])
    for wanted in imports.missing(places.tree, [finding], before):
        yield f"`{imports.text_of(wanted)}` {AMONG_IMPORTS}"


def _needed(need: Finding) -> str:
    return f"needs {need.rule.code} {need.rule.name} on line {getattr(need.node, 'lineno', 1)}"


class _Words:
    """The words for one finding's edits. Lines are 0 where an edit has no place that is worth naming."""

    def __init__(self, finding: Finding, places: Places) -> None:
        self._finding = finding
        self._places = places
        self._replaced: dict[ast.AST, Code] = {}
        self._added: dict[ast.AST, list[tuple[str, Code]]] = {}
        self._dropped: set[ast.AST] = set()
        self._cut: set[ast.AST] = set()
        for edit in finding.edits:
            match edit:
                case Replace(node=node, code=code):
                    self._replaced[node] = code
                case AddArguments(call=call, arguments=arguments):
                    self._added.setdefault(call, []).extend(arguments)
                case RemoveArgument(call=call, argument=argument):
                    self._dropped.add(argument)
                    self._cut.add(call)
        self._edited = {*self._replaced, *self._added, *self._cut}

    def all(self) -> Iterator[tuple[_Lines, str, str]]:
        """Lines, on which side of them something happens, and what."""
        for edit in self._finding.edits:
            yield from self._beside(edit)
        for node in self._shown():
            yield (node.lineno, node.lineno), _ON, self._changed(node)

    # -- statements

    def _beside(self, edit: Edit) -> Iterator[tuple[_Lines, str, str]]:
        match edit:
            case WrapStatements(first=first, last=last, header=header, tail=tail):
                ending = "" if tail is None else f", ended by `{self._statements(tail)}`,"
                lines = self._places.first_line(first), last.end_lineno or last.lineno
                yield lines, _AROUND, f"`{self._statements(header)}:`{ending}"
            case InsertBefore(statement=statement, code=code):
                line = self._places.first_line(statement)
                yield (line, line), _ABOVE, f"`{self._statements(code)}`"
            case InsertAfter(statement=statement, code=code):
                line = statement.end_lineno or statement.lineno
                yield (line, line), _BELOW, f"`{self._statements(code)}`"
            case RemoveStatement(statement=statement):
                text = self._short(_one_line(self._places.slice(*self._places.span(statement))))
                yield (statement.lineno, statement.lineno), _ON, f"without `{text}`"
            case AddDecorator(function=function, code=code):
                name = f"`@{self._short(self._code(code))}` above `def {function.name}`"
                yield (function.lineno, function.lineno), _ON, name
            case EditComment(comment=comment, text=text):
                old, line = self._short(comment.text), comment.lineno
                yield (line, line), _ON, f"`{old}` -> `{self._short(text)}`" if text else f"without `{old}`"

    def _statements(self, code: Code) -> str:
        filled = [self._text(hole, kept=True) for hole in code.holes]
        lines = code.text.format(*filled).strip().split("\n")
        return self._short(" ".join(line.strip() + ("" if line.rstrip().endswith(":") else ";") for line in lines)[:-1])

    # -- expressions

    def _shown(self) -> list[ast.expr]:
        """The expressions to show before and after: each edited one, with enough around it to be recognised."""
        roots = {self._context(node) for node in self._edited if isinstance(node, ast.expr)}
        outermost = [root for root in roots if not any(each in roots for each in self._places.ancestors(root))]
        return sorted(outermost, key=self._places.start)

    def _context(self, node: ast.expr) -> ast.expr:
        """A name alone says little: the call in which it stands says more."""
        if not isinstance(node, ast.Name | ast.Attribute | ast.Subscript):
            return node
        for ancestor in self._places.ancestors(node):
            if not isinstance(ancestor, ast.expr | ast.keyword):
                break
            if isinstance(ancestor, ast.Call):
                return ancestor if len(self._source(ancestor)) <= _LONG else node
        return node

    def _changed(self, node: ast.expr) -> str:
        before, after = self._source(node), self._text(node)
        if len(after) > _LONG and isinstance(node, ast.Call) and node not in self._replaced:
            function = self._short(self._source(node.func))
            inner = any(each in self._edited for each in breadth_first(node) if each is not node)
            if not inner and node not in self._cut:
                return f"`{', '.join(self._arguments(node))}` added to `{function}(…)`"
        return f"`{self._short(before)}` -> `{self._short(after)}`"

    def _source(self, node: ast.expr | ast.keyword) -> str:
        return _one_line(self._places.slice(*self._places.span(node)))

    def _text(self, node: ast.AST, *, kept: bool = False) -> str:
        """The new text of a node; `kept` in a hole, without what replaces it."""
        if node in self._replaced and not kept:
            return self._code(self._replaced[node])
        parts: list[str] = []
        assert isinstance(node, ast.expr | ast.keyword)
        position, end = self._places.span(node)
        for child in sorted(self._nearest(node), key=self._places.start):
            parts.append(self._places.slice(position, self._places.start(child)))
            position = self._places.end(child)
            if child not in self._dropped:
                parts.append(self._text(child))
            elif parts[-1].rstrip().endswith(","):
                parts[-1] = parts[-1].rstrip().removesuffix(",")
            else:
                position = self._past_comma(position, end)
        text = _one_line("".join([*parts, self._places.slice(position, end)]))
        return self._with_arguments(text, node) if node in self._added else text

    def _past_comma(self, position: Position, end: Position) -> Position:
        """Where the next argument begins, for one that goes from the front."""
        rest = self._places.slice(position, end)
        skipped = rest[: len(rest) - len(rest.lstrip(", \n\t"))]
        lines = skipped.split("\n")
        return position[0] + len(lines) - 1, len(lines[-1]) + (position[1] if len(lines) == 1 else 0)

    def _with_arguments(self, text: str, call: ast.AST) -> str:
        assert isinstance(call, ast.Call)
        added = ", ".join(self._arguments(call))
        for keyword in call.keywords:
            if keyword.arg is None and (place := text.rfind(self._source(keyword))) >= 0:
                return f"{text[:place]}{added}, {text[place:]}"
        head = text.removesuffix(")").rstrip().removesuffix(",")
        return head + ("" if head.endswith("(") else ", ") + added + ")"

    def _arguments(self, call: ast.Call) -> list[str]:
        return [f"{name}={self._code(code)}" for name, code in self._added[call]]

    def _nearest(self, node: ast.AST) -> Iterator[ast.expr | ast.keyword]:
        """What is edited in a node, the outermost of it."""
        waiting = children(node)  # not recursive: a sum of a thousand terms is a thousand levels deep
        while waiting:
            child = waiting.pop()
            if isinstance(child, ast.expr | ast.keyword) and (child in self._edited or child in self._dropped):
                yield child
            else:
                waiting.extend(children(child))

    def _code(self, code: Code) -> str:
        # What the finding itself puts in the place of a hole is not in it.
        filled = [self._text(hole, kept=True) for hole in code.holes]
        text = code.text.format(*filled)
        if not all(isinstance(hole, _ATOMS) for hole in code.holes):
            safe = code.text.format(*(f"({each})" for each in filled))
            text = text if _same(text, safe) else safe
        return _one_line(text)

    def _short(self, text: str) -> str:
        return text if len(text) <= 2 * _LONG else f"{text[: _LONG + 20]} … {text[-_LONG + 23 :]}"


def _same(one: str, other: str) -> bool:
    try:
        return ast.dump(ast.parse(one)) == ast.dump(ast.parse(other))
    except SyntaxError:
        return True  # a header, which holds its expressions apart by itself
    except (ValueError, RecursionError, MemoryError):
        return False


def _one_line(text: str) -> str:
    """An expression on one line: line breaks are blanks, or nothing beside a bracket or a dot; comments go."""
    lines = [_COMMENT.sub(r"\1", line).strip() if "\n" in text else line for line in text.split("\n")]
    lines = [line for line in lines if line]
    joined = lines[0] if lines else ""
    for line in lines[1:]:
        tight = joined.endswith(("(", "[", "{", ".")) or line.startswith((")", "]", "}", "."))
        joined += line if tight else f" {line}"
    return joined
