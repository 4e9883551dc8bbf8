"""Carries out a plan: one LibCST transformer, one traversal, whatever the number of rules.

Rules name places by `ast` node; the nodes of the concrete tree are found by position. Expressions are edited from the
inside out, so that what a replacement keeps in its holes arrives already edited. Statements are inserted, wrapped and
removed by the block that holds them, after everything inside has been done.
"""

from __future__ import annotations

import ast
import bisect
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

import libcst as cst

from autoaccel.edits import (
    AddArguments,
    AddDecorator,
    AddImport,
    CannotApplyError,
    Code,
    EditComment,
    Finding,
    InsertAfter,
    InsertBefore,
    RemoveArgument,
    RemoveStatement,
    Replace,
    WrapStatements,
)
from autoaccel.rewriting import arguments, blocks, disguise, imports
from autoaccel.rewriting.fragments import Fragments, bare, code_of, parenthesized, preferred_quote, same_meaning
from autoaccel.rewriting.layout import Layout, Statement, UnfaithfulError
from autoaccel.rewriting.places import Places, Position
from autoaccel.rewriting.plan import anchors, arguments_of, codes

_ALIGNED = re.compile(r"\t+ +\S")  # behind tabs
# What has parentheses for its own sake: not needed by a call or a name in its place.
_LOOSE = cst.BinaryOperation | cst.BooleanOperation | cst.Comparison | cst.IfExp | cst.NamedExpr | cst.UnaryOperation


def apply(places: Places, findings: Sequence[Finding]) -> str:
    """The text with the edits of these findings, which a plan has found to fit together. Raises `CannotApplyError`."""
    return Concrete(places).edited(findings) if findings else places.text


class Concrete:
    """A text as LibCST sees it: parsed once, edited any number of times. Raises `CannotApplyError`."""

    def __init__(self, places: Places) -> None:
        self._places = places
        self._dressed = disguise.light(places.text)
        self._layout = Layout(self._dressed.text, places)

    def edited(self, findings: Sequence[Finding]) -> str:
        """`apply`, for this text."""
        while True:
            try:
                transformer = _Transformer(self._places, self._layout, findings, self._dressed.shifts)
                return self._dressed.reveal(self._layout.code(transformer.result()))
            except UnfaithfulError:
                self._look_closer()

    def _look_closer(self) -> None:
        """After `UnfaithfulError`: as one piece, and then with all that LibCST would lose hidden from it."""
        if self._layout.whole:
            dressed = disguise.full(self._places.text)
            if dressed == self._dressed:
                raise UnfaithfulError
            self._dressed = dressed
        self._layout = Layout(self._dressed.text, self._places, whole=True)


@dataclass(slots=True)
class _ExpressionEdits:
    """What happens to one expression, in this order: arguments dropped, arguments added, the whole replaced."""

    node: ast.expr
    dropped: set[int] = field(default_factory=set)
    added: list[tuple[str, Code, Finding]] = field(default_factory=list)
    replacement: tuple[Code, Finding] | None = None


class _Transformer(cst.CSTTransformer):
    def __init__(
        self,
        places: Places,
        layout: Layout,
        findings: Sequence[Finding],
        shifts: dict[int, int],
    ) -> None:
        super().__init__()
        self._places = places
        self._layout = layout
        self.default_indent = layout.module.default_indent
        self._shifts = shifts
        self._fragments = Fragments(preferred_quote(places.text))
        self._expressions: dict[cst.CSTNode, _ExpressionEdits] = {}
        self._decorators: dict[cst.CSTNode, list[tuple[Code, Finding]]] = {}
        self._beside = blocks.StatementEdits()
        self._held: set[cst.CSTNode] = set()
        self._contents: dict[cst.CSTNode, cst.BaseExpression] = {}
        self._finals: dict[cst.CSTNode, cst.BaseExpression] = {}
        self._top: list[str] = []
        self._replaced_nodes = {edit.node for each in findings for edit in each.edits if isinstance(edit, Replace)}
        self._enter(findings)
        self._lines = sorted(self._edited_lines(findings))

    def result(self) -> cst.Module:
        edited = self._layout.module.visit(self)
        assert isinstance(edited, cst.Module)
        return blocks.with_top_imports(edited, [self._fragments.statements(Code(text), [])[0] for text in self._top])

    # -- from ast nodes to the nodes of the concrete tree

    def _shifted(self, position: Position) -> Position:
        return position[0], position[1] - self._shifts.get(position[0], 0)

    def _expression(self, node: ast.expr) -> cst.BaseExpression:
        start, end = self._places.span(node)
        found = self._layout.expression(self._shifted(start), self._shifted(end))
        if found is None:
            raise CannotApplyError(f"no expression found at line {start[0]}, column {start[1] + 1}")
        return found

    def _statement(self, node: ast.stmt) -> Statement:
        start = self._places.start(node)
        found = self._layout.statement(self._shifted(start))
        if found is None:
            raise CannotApplyError(f"no statement found at line {start[0]}, column {start[1] + 1}")
        return found

    # -- the plan, by node

    def _enter(self, findings: Sequence[Finding]) -> None:
        self._enter_imports(findings)
        for finding in findings:
            for edit in finding.edits:
                self._held.update(self._expression(hole) for code in codes(edit) for hole in code.holes)
                match edit:
                    case Replace(node=node, code=code):
                        self._edits_of(node).replacement = code, finding
                    case AddArguments(call=call, arguments=added):
                        self._edits_of(call).added.extend((name, code, finding) for name, code in added)
                    case RemoveArgument(call=call, argument=argument):
                        self._edits_of(call).dropped.add(arguments_of(self._places, call).index(argument))
                    case AddDecorator(function=function, code=code):
                        self._decorators.setdefault(self._statement(function), []).append((code, finding))
                    case WrapStatements(first=first, last=last, header=header, tail=tail):
                        self._beside.wrap(self._statement(first), self._statement(last), header, tail, finding)
                    case InsertBefore(statement=statement, code=code, below_comments=low):
                        self._beside.insert_before(self._statement(statement), code, finding, low=low)
                    case InsertAfter(statement=statement, code=code, apart=apart):
                        self._beside.insert_after(self._statement(statement), code, finding)
                        if apart:
                            self._beside.set_apart(self._statement(statement))
                    case RemoveStatement(statement=statement, moved=moved, with_heading=heading):
                        self._beside.remove(self._statement(statement), moved=moved, heading=heading)
                    case AddImport() | EditComment():
                        pass

    def _enter_imports(self, findings: Sequence[Finding]) -> None:
        before = imports.first_use(self._places, findings)
        wanted = imports.missing(self._places.tree, findings, before)
        if not wanted:
            return
        anchor = imports.anchor(self._places, before)
        owner = next(each for each in findings if any(isinstance(edit, AddImport) for edit in each.edits))
        for each in wanted:
            if anchor is None:
                self._top.append(imports.text_of(each))
            else:
                at = imports.fitting_anchor(self._places, each, anchor)
                self._beside.insert_after(self._statement(at), Code(imports.text_of(each)), owner)
        if anchor is not None and not isinstance(anchor, ast.Import | ast.ImportFrom | ast.Try | ast.If):
            self._beside.set_apart(self._statement(anchor))

    def _edits_of(self, node: ast.expr) -> _ExpressionEdits:
        return self._expressions.setdefault(self._expression(node), _ExpressionEdits(node))

    def _edited_lines(self, findings: Sequence[Finding]) -> set[int]:
        lines: set[int] = set()
        for finding in findings:
            for edit in finding.edits:
                nodes = (*anchors(edit), *(hole for code in codes(edit) for hole in code.holes))
                lines.update(node.lineno for node in nodes if isinstance(node, ast.expr | ast.stmt | ast.keyword))
        return lines

    # -- the traversal

    def on_visit(self, node: cst.CSTNode) -> bool:
        if isinstance(node, cst.SimpleStatementLine | cst.BaseSmallStatement | cst.BaseCompoundStatement):
            where = self._layout.ranges.get(node)
            if where is None:
                return False  # nothing in this part of the file has been asked for
            if isinstance(node, cst.FunctionDef | cst.ClassDef) and node.decorators:
                return True
            following = bisect.bisect_left(self._lines, where.start.line)
            return following < len(self._lines) and self._lines[following] <= where.end.line
        return not isinstance(node, cst.BaseParenthesizableWhitespace | cst.TrailingWhitespace | cst.EmptyLine)

    def on_leave(  # type: ignore[override]  # one function for all node types
        self, original_node: cst.CSTNode, updated_node: cst.CSTNode
    ) -> cst.CSTNode:
        if original_node in self._expressions or original_node in self._held:
            assert isinstance(original_node, cst.BaseExpression)
            assert isinstance(updated_node, cst.BaseExpression)
            return self._leave_expression(original_node, updated_node)
        if isinstance(original_node, cst.FunctionDef) and original_node in self._decorators:
            assert isinstance(updated_node, cst.FunctionDef)
            return self._decorated(original_node, updated_node)
        if isinstance(original_node, blocks.BLOCKS) and self._beside.concern(original_node):
            assert isinstance(updated_node, blocks.BLOCKS)
            return blocks.edited(original_node, updated_node, self._beside, self)
        if isinstance(original_node, cst.If):
            assert isinstance(updated_node, cst.If)
            return blocks.without_empty_else(original_node, updated_node, self._beside)
        return updated_node

    def _leave_expression(self, original: cst.BaseExpression, updated: cst.BaseExpression) -> cst.BaseExpression:
        edits = self._expressions.get(original)
        if edits is None:
            self._contents[original] = self._finals[original] = updated
            return updated
        if isinstance(updated, cst.Call):
            if edits.dropped:
                updated = arguments.without(updated, edits.dropped)
            if edits.added:
                keywords = [(name, self._argument(code, finding)) for name, code, finding in edits.added]
                grown = arguments.last_width(updated) - arguments.last_width(cst.ensure_type(original, cst.Call))
                updated = arguments.with_keywords(updated, keywords, self._room(edits.node, grown))
        self._contents[original] = updated
        if edits.replacement is not None:
            updated = self._replaced(edits.node, original, *edits.replacement)
        self._finals[original] = updated
        return updated

    def _room(self, call: ast.expr, grown: int) -> arguments.Room | None:
        """Where the lines of a call may be broken, the last of which has `grown` by other edits; None where nothing is
        known, or breaking would look odd."""
        if not isinstance(call, ast.Call) or not (call.args or call.keywords):
            return None
        if any(each in self._replaced_nodes for each in (call, *self._places.ancestors(call))):
            return None  # what stands around it changes too
        lines = self._places.lines
        line, column = self._places.start(call.args[0] if call.args else call.keywords[0])
        end_line, end = self._places.end(call)
        statement = self._places.statement(call)
        assert statement is not None
        indent = len(lines[statement.lineno - 1]) - len(lines[statement.lineno - 1].lstrip())
        return arguments.Room(
            limit=self._places.widest,
            used=end - 1 + grown,
            tail=len(lines[end_line - 1].rstrip()) - end,
            column=column,
            indent=indent,
            may_break=line == end_line and grown > 0,
            tabs=self.default_indent == "\t" and not any(map(_ALIGNED.match, lines)),
        )

    def _argument(self, code: Code, finding: Finding) -> cst.BaseExpression:
        value = self._fragments.expression(code, self.filled(code, finding))
        bare_tuple = isinstance(value, cst.Tuple | cst.NamedExpr | cst.GeneratorExp | cst.Yield) and not value.lpar
        return parenthesized(value) if bare_tuple else value

    def _replaced(
        self, node: ast.expr, original: cst.BaseExpression, code: Code, finding: Finding
    ) -> cst.BaseExpression:
        new = self._fragments.expression(code, self.filled(code, finding))
        own = 1 if original.lpar and isinstance(original, cst.Tuple | cst.GeneratorExp) else 0
        outer_left, outer_right = original.lpar[: len(original.lpar) - own], original.rpar[own:]
        if isinstance(original, _LOOSE) and isinstance(new, cst.Call | cst.Name) and self._is_apart(node, original):
            return new
        if outer_left:
            # The parentheses around the old expression stay, with the line breaks and comments in them.
            return parenthesized(bare(new) if not isinstance(new, cst.Tuple) else new, outer_left, outer_right)
        parent = self._places.parent(node)
        if isinstance(parent, ast.For) and parent.target is node and not original.lpar:
            return new  # `for i, batch in …`
        return new if self._fits_bare(node, code_of(new)) else parenthesized(new)

    def _is_apart(self, node: ast.expr, original: cst.BaseExpression) -> bool:
        """Whether an expression stands in one pair of parentheses that holds no space and keeps no word apart."""
        bounds = [
            *(each.whitespace_after for each in original.lpar),
            *(each.whitespace_before for each in original.rpar),
        ]
        line, column = self._places.start(node)
        before = self._places.lines[line - 1][: column - 1] if column else ""
        return len(bounds) == 2 and all(each.empty for each in bounds) and not before[-1:].isidentifier()

    def _fits_bare(self, node: ast.expr, new: str) -> bool:
        """Whether `new` means the same in the place of `node` with and without parentheses."""
        top = self._places.outermost_expression(node)
        if top is node:
            tree_text = f"_ = [{new}\n]" if "\n" not in new else new
            return same_meaning(tree_text, tree_text.replace(new, f"({new}\n)", 1))
        before = self._places.slice(self._places.start(top), self._places.start(node))
        after = self._places.slice(self._places.end(node), self._places.end(top))
        return same_meaning(f"({before}{new}{after}\n)", f"({before}({new}\n){after}\n)")

    def filled(self, code: Code, finding: Finding) -> list[cst.BaseExpression]:
        """The expressions for a template's holes, edited; what `finding` itself puts in their place is not in them."""
        return [self._hole(self._expression(hole), finding) for hole in code.holes]

    def _hole(self, original: cst.BaseExpression, finding: Finding) -> cst.BaseExpression:
        edits = self._expressions.get(original)
        own = edits is not None and edits.replacement is not None and edits.replacement[1] is finding
        known = self._contents if own else self._finals
        if original not in known:
            # Further down in the file, or about to be replaced by what asks for it.
            original.visit(self)
        return known[original]

    def statements(self, code: Code, finding: Finding) -> list[blocks.Line]:
        """The statements of an insertion."""
        return self._fragments.statements(code, self.filled(code, finding))

    def compound(self, header: Code, finding: Finding) -> cst.BaseCompoundStatement:
        """The compound statement of a wrap, its body still to be put in."""
        return self._fragments.compound(header, self.filled(header, finding))

    def _decorated(self, original: cst.FunctionDef, updated: cst.FunctionDef) -> cst.FunctionDef:
        added = [
            cst.Decorator(self._fragments.expression(code, self.filled(code, finding)))
            for code, finding in self._decorators[original]
        ]
        return updated.with_changes(decorators=[*updated.decorators, *added])
