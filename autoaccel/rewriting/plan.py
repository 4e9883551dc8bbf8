"""Which findings can be applied together: earlier ones win, a later one that contradicts them is skipped and told why.

Edits compose wherever both can be carried out as they were meant: inside the holes of a replacement, inside a wrapped
run, on the arguments of one call. They conflict where one would destroy or move what the other edits.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from autoaccel.dataflow.syntax_index import CELL
from autoaccel.edits import (
    AddArguments,
    AddDecorator,
    AddImport,
    Code,
    Edit,
    EditComment,
    Finding,
    InsertAfter,
    InsertBefore,
    RemoveArgument,
    RemoveStatement,
    Replace,
    Skipped,
    WrapStatements,
)
from autoaccel.rewriting.places import Places, Position

CONFLICTS = "conflicts with"


@dataclass(frozen=True, slots=True)
class Plan:
    """Findings that apply together, in rule order, and those that had to give way."""

    findings: tuple[Finding, ...]
    skipped: tuple[Skipped, ...]


def plan(findings: Sequence[Finding], places: Places) -> Plan:
    """Accept findings in order, but not those that cannot be done, contradict one before, or need a dropped one."""
    board = _Board(places)
    verdicts: dict[Finding, str | None] = {}
    known = set(findings)
    for finding in findings:
        _decide(finding, known, verdicts, board, places)
    accepted = tuple(finding for finding in findings if verdicts[finding] is None)
    lost = ((finding, verdicts[finding]) for finding in findings)
    return Plan(accepted, tuple(Skipped(finding.rule, finding.node, reason) for finding, reason in lost if reason))


def _decide(
    finding: Finding, known: set[Finding], verdicts: dict[Finding, str | None], board: _Board, places: Places
) -> str | None:
    if finding in verdicts:
        return verdicts[finding]
    verdicts[finding] = "it needs itself"  # what a circle of needs will read
    reason = None
    for need in finding.needs:
        if need not in known:
            reason = f"needs {_name(need)}, which is not to be applied"
        elif _decide(need, known, verdicts, board, places) is not None:
            reason = f"needs {_name(need)}, which is not applied"
    verdicts[finding] = reason or obstacle(finding, places) or board.accept(finding)
    return verdicts[finding]


def codes(edit: Edit) -> tuple[Code, ...]:
    """The pieces of new code that an edit carries."""
    match edit:
        case Replace(code=code) | InsertBefore(code=code) | InsertAfter(code=code) | AddDecorator(code=code):
            return (code,)
        case WrapStatements(header=header, tail=tail):
            return (header,) if tail is None else (header, tail)
        case AddArguments(arguments=arguments):
            return tuple(code for _, code in arguments)
        case _:
            return ()


def anchors(edit: Edit) -> tuple[ast.AST, ...]:
    """The nodes that an edit acts on."""
    match edit:
        case Replace(node=node):
            return (node,)
        case AddArguments(call=call):
            return (call,)
        case RemoveArgument(argument=argument):
            return (argument,)
        case WrapStatements(first=first, last=last):
            return (first, last)
        case InsertBefore(statement=node) | InsertAfter(statement=node) | RemoveStatement(statement=node):
            return (node,)
        case AddDecorator(function=function):
            return (function,)
        case EditComment(comment=comment):
            return (comment,)
        case AddImport():
            return ()


def removed_argument_end(places: Places, call: ast.Call, argument: ast.expr | ast.keyword) -> Position:
    """Where the text that goes with an argument ends: at the next argument or at the closing parenthesis."""
    every = arguments_of(places, call)
    following = every[every.index(argument) + 1 :]
    return places.start(following[0]) if following else places.end(call)


def arguments_of(places: Places, call: ast.Call) -> list[ast.expr | ast.keyword]:
    """The arguments of a call as they are written: `f(*a, k=1, *b)` mixes both kinds."""
    every: list[ast.expr | ast.keyword] = [*call.args, *call.keywords]
    return sorted(every, key=places.start)


# -- what cannot be carried out at all


def obstacle(finding: Finding, places: Places) -> str | None:
    """Why a finding cannot be carried out, whatever else is applied; None when it can."""
    for edit in finding.edits:
        for node in (*anchors(edit), *(hole for code in codes(edit) for hole in code.holes)):
            if places.in_format_string(node):
                return "it would edit inside an f-string"
            if isinstance(node, ast.expr | ast.keyword) and _is_bare_generator(places, node):
                return "it would edit a generator expression that shares the parentheses of a call"
            if _is_subscript_list(places, node):
                return "it would edit the list of a subscript as a whole"
        reason = _obstacle(edit, places)
        if reason is not None:
            return reason
    return None


def _obstacle(edit: Edit, places: Places) -> str | None:
    match edit:
        case Replace(node=node, code=code):
            start, end = places.span(node)
            kept = [places.span(hole) for hole in code.holes]
            return _loses_comment(places, start, end, kept)
        case RemoveArgument(call=call, argument=argument):
            return _loses_comment(places, places.start(argument), removed_argument_end(places, call, argument), [])
        case RemoveStatement(statement=statement, moved=False):
            start = (places.first_line(statement), 0)
            return _loses_comment(places, start, _end_with_comments(places, statement), [])
        case WrapStatements(first=first, last=last):
            block = places.block(first)
            if last not in block or block.index(last) < block.index(first):
                return "it would wrap statements that are not one run"
            if any(_must_lead(places, statement) for statement in block[block.index(first) : block.index(last) + 1]):
                return "it would move a docstring or a __future__ import"
            if any(map(CELL.match, places.lines[first.lineno - 1 : last.end_lineno])):
                return "it would move code from one cell to another"
            return "it would wrap an elif branch" if places.is_elif(first) else None
        case InsertBefore(statement=statement):
            if _must_lead(places, statement):
                return "it would move a docstring or a __future__ import"
            return "it would insert a statement before an elif branch" if places.is_elif(statement) else None
        case InsertAfter(statement=statement):
            return "it would insert a statement after an elif branch" if places.is_elif(statement) else None
        case _:
            return None


def _loses_comment(places: Places, start: Position, end: Position, kept: list[tuple[Position, Position]]) -> str | None:
    for position in places.comments_within(start, end):
        if not any(first <= position < last for first, last in kept):
            return f"it would drop the comment on line {position[0]}"
    return None


def _end_with_comments(places: Places, statement: ast.stmt) -> Position:
    """The end of a statement, with the comments below it that belong to its last block by their indentation."""
    end = places.end(statement)
    if places.header_end(statement) == statement.end_lineno:
        return end
    block = places.block(statement)
    following = block[block.index(statement) + 1 :]
    limit = (places.first_line(following[0]), 0) if following else (len(places.lines) + 1, 0)
    for line, column in places.comments:
        if end < (line, column) < limit and column > places.start(statement)[1]:
            end = (line, column + 1)
    return end


def _must_lead(places: Places, statement: ast.stmt) -> bool:
    """Whether a statement means something by being first: a docstring or a `__future__` import."""
    if isinstance(statement, ast.ImportFrom) and statement.module == "__future__":
        return True
    match statement:
        case ast.Expr(value=ast.Constant(value=str())):
            owner = places.parent(statement)
            documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
            return isinstance(owner, documented) and owner.body[0] is statement
    return False


def _is_subscript_list(places: Places, node: ast.AST) -> bool:
    """Whether a node is `a, b` of `x[a, b]` or `a:b`: no expression of its own."""
    if isinstance(node, ast.Slice):
        return True
    bare = isinstance(node, ast.Tuple) and not places.slice(*places.span(node)).startswith("(")
    return bare and isinstance(places.parent(node), ast.Subscript)


def _is_bare_generator(places: Places, node: ast.expr | ast.keyword) -> bool:
    parent = places.parent(node)
    if not isinstance(node, ast.GeneratorExp) or not isinstance(parent, ast.Call):
        return False
    return places.end(node) == places.end(parent)


# -- what contradicts something


@dataclass(slots=True)
class _Board:
    """What the accepted findings do, indexed for the question whether one more fits."""

    places: Places
    accepted: list[Finding] = field(default_factory=list)
    gone: dict[ast.AST, Finding] = field(default_factory=dict)
    """Nodes that are replaced or removed: of what is in them only the holes survive."""
    holes: dict[ast.AST, set[Finding]] = field(default_factory=dict)
    keywords: dict[tuple[ast.Call, str], Finding] = field(default_factory=dict)
    dropped_keywords: set[tuple[ast.Call, str]] = field(default_factory=set)

    def accept(self, finding: Finding) -> str | None:
        """Take a finding on, or say with what it conflicts."""
        trial = self._copy()
        reason = trial.take(finding) or trial.destroyed(finding) or self.crossing(finding)
        if reason is None:
            self.gone, self.holes = trial.gone, trial.holes
            self.keywords, self.dropped_keywords = trial.keywords, trial.dropped_keywords
            self.accepted.append(finding)
        return reason

    def _copy(self) -> _Board:
        holes = {node: set(owners) for node, owners in self.holes.items()}
        return _Board(
            self.places, self.accepted, dict(self.gone), holes, dict(self.keywords), set(self.dropped_keywords)
        )

    def take(self, finding: Finding) -> str | None:
        """Enter a finding's edits; a reason when two edits want the same node."""
        for edit in finding.edits:
            for code in codes(edit):
                for hole in code.holes:
                    self.holes.setdefault(hole, set()).add(finding)
            match edit:
                case (
                    Replace(node=node)
                    | RemoveArgument(argument=node)
                    | RemoveStatement(statement=node)
                    | EditComment(comment=node)
                ):
                    if node in self.gone:
                        return _conflict(finding, self.gone[node])
                    self.gone[node] = finding
        for edit in finding.edits:
            match edit:
                case RemoveArgument(call=call, argument=ast.keyword(arg=str() as name)):
                    self.dropped_keywords.add((call, name))
        for edit in finding.edits:
            if isinstance(edit, AddArguments):
                for name, _ in edit.arguments:
                    other = self.keywords.setdefault((edit.call, name), finding)
                    if other is not finding:
                        return _conflict(finding, other)
                    passed = any(keyword.arg == name for keyword in edit.call.keywords)
                    if passed and (edit.call, name) not in self.dropped_keywords:
                        return f"the call already passes {name}"
        return None

    def destroyed(self, finding: Finding) -> str | None:
        """A reason when what one of the findings edits is lost in what another replaces or removes."""
        destroys = any(owner is finding for owner in self.gone.values())
        for other in (*(self.accepted if destroys else ()), finding):
            for edit in other.edits:
                # A replaced node is gone itself; its replacement must still have a place.
                beside = isinstance(edit, Replace | RemoveArgument | RemoveStatement | EditComment)
                for node in anchors(edit):
                    destroyer = self._destroyer(node, other, outside=beside)
                    if destroyer is not None and finding in (other, destroyer):
                        return _conflict(finding, other if destroyer is finding else destroyer)
                for code in codes(edit):
                    for hole in code.holes:
                        destroyer = self._destroyer(hole, other, outside=True)
                        if destroyer is not None and finding in (other, destroyer):
                            return _conflict(finding, other if destroyer is finding else destroyer)
        return None

    def _destroyer(self, node: ast.AST, owner: Finding, *, outside: bool) -> Finding | None:
        """The finding that replaces or removes something around `node` without keeping `node` in a hole."""
        keepers: set[Finding] = set(self.holes.get(node, ()))
        if not outside:
            taker = self.gone.get(node)
            # Beside a statement that the same finding removes is where its substitute goes.
            if taker is not None and taker not in keepers and not (taker is owner and isinstance(node, ast.stmt)):
                return taker
        for ancestor in self.places.ancestors(node):
            if ancestor in self.holes:
                keepers |= self.holes[ancestor]
            taker = self.gone.get(ancestor)
            if taker is not None and taker not in keepers:
                return taker
        return None

    def crossing(self, finding: Finding) -> str | None:
        """A reason when two wraps take the same run, or cross, or one loses an edge to a removal."""
        own_wraps = [edit for edit in finding.edits if isinstance(edit, WrapStatements)]
        for other in self.accepted:
            for theirs in other.edits:
                if not isinstance(theirs, WrapStatements):
                    continue
                if any(_runs_clash(self.places, mine, theirs) for mine in own_wraps):
                    return _conflict(finding, other)
        for one in own_wraps:
            for another in own_wraps:
                if one is not another and _runs_clash(self.places, one, another):
                    return _conflict(finding, finding)
        return None


def _runs_clash(places: Places, one: WrapStatements, other: WrapStatements) -> bool:
    block = places.block(one.first)
    if block is not places.block(other.first):
        return False
    (low, high), (start, stop) = _run(block, one), _run(block, other)
    nested = (low <= start and stop <= high) or (start <= low and high <= stop)
    disjoint = high < start or stop < low
    return (low, high) == (start, stop) or not (nested or disjoint)


def _run(block: list[ast.stmt], wrap: WrapStatements) -> tuple[int, int]:
    return block.index(wrap.first), block.index(wrap.last)


def _conflict(finding: Finding, winner: Finding) -> str:
    if winner is finding:
        return "its own edits overlap"
    return f"{CONFLICTS} {_name(winner)}"


def _name(finding: Finding) -> str:
    return f"{finding.rule.code} on line {getattr(finding.node, 'lineno', 1)}"


def touched(finding: Finding) -> Iterator[ast.AST]:
    """Every node that a finding edits or takes code from, and the node it speaks of."""
    yield finding.node
    for edit in finding.edits:
        yield from anchors(edit)
