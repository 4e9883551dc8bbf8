"""What rewriting would change in the files of a project, one change at a time: any of them can be left out.

`verify` looks for the one that makes a difference, `bench` for what each is worth.
"""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from autoaccel import sources
from autoaccel.analysis import Project
from autoaccel.analysis.files import Files
from autoaccel.config import Configuration
from autoaccel.edits import AddDecorator, AddImport, Edit, Finding, Tier, WrapStatements
from autoaccel.rewriting import engine
from autoaccel.rewriting.engine import Analysis
from autoaccel.rewriting.line_origins import LineOrigins
from autoaccel.rewriting.places import Places
from autoaccel.rewriting.plan import anchors
from autoaccel.rewriting.record import Record
from autoaccel.rewriting.recording import record, records
from autoaccel.rewriting.rule import Rule

Lines = tuple[int, int]
"""First and last."""

_ORDER = {tier: rank for rank, tier in enumerate((Tier.EXACT, Tier.NUMERICS, Tier.OPT_IN, Tier.EQUIVALENT))}
"""What must be bit-equal comes before what may draw other random numbers, so that it is judged without that."""


@dataclass(frozen=True, slots=True, eq=False)
class Change:
    """One change in one file."""

    path: Path
    """The real path of the file."""
    record: Record
    tier: Tier
    witnesses: tuple[Lines, ...]
    """Of each place that is edited the lines of which at least one runs when that place is reached."""
    bodies: tuple[tuple[int, Lines], ...] = field(default=(), kw_only=True)
    """Of each statement with a body whose header is edited its first line and the lines of the body."""

    @property
    def place(self) -> str:
        return f"{self.path}:{self.record.line}"

    def missed(self, reached: Mapping[str, Collection[int]]) -> tuple[int, ...]:
        """Lines of the places that were not reached in a run; none when all were."""
        lines = set(reached.get(str(self.path), ()))
        return tuple(first for first, last in self.witnesses if lines.isdisjoint(range(first, last + 1)))

    def is_reached(self, reached: Mapping[str, Collection[int]]) -> bool:
        """Whether a run came to what the change speaks of, and to at least one place for each of its edits."""
        return not self.missed(reached)


@dataclass(frozen=True, slots=True, eq=False)
class RuleChange(Change):
    """One finding of a rule."""

    finding: Finding


@dataclass(frozen=True, slots=True, eq=False)
class LaterRewrite(Change):
    """All that a rule finds once the findings of the first round are carried out: some gave way to these."""

    rule: Rule
    limit: Tier
    """What may be found at most, as configured."""


HUNK = "hunk"
"""In the place of a rule's code: a change by hand."""


@dataclass(frozen=True, slots=True)
class Changes:
    """The changes of a project, in an order in which each comes after those that it needs, and what is exact first."""

    all: tuple[Change, ...] = ()
    skipped: tuple[tuple[Path, Record], ...] = ()
    """Opportunities that rules left alone, and why."""
    problems: tuple[str, ...] = ()
    """What is not compared, though it may change something; a line each."""
    later: tuple[tuple[Path, Record], ...] = ()
    """What would be found in the rewritten files and is not among `all`, since its rule finds something before, too."""

    def __len__(self) -> int:
        return len(self.all)

    def __iter__(self) -> Iterator[Change]:
        return iter(self.all)

    def texts(self, chosen: Collection[Change] | None = None) -> dict[str, str]:  # noqa: ARG002 - there are none
        """The files that these changes alter, by real path; all of them by default. Changes whose needs are not among
        them are left out."""
        return {}

    def needs(self, change: Change) -> tuple[Change, ...]:  # noqa: ARG002 - there are none
        """What a change needs, and what that needs, in their order."""
        return ()

    def without(self, dropped: Collection[Change]) -> tuple[Change, ...]:
        """All others that can do without these."""
        return self.closed([each for each in self.all if each not in dropped])

    def lead_on(self, chosen: Collection[Change]) -> bool:  # noqa: ARG002 - what they have in their bodies was there
        """Whether changes bring code that need not run where they are reached."""
        return False

    def idle(
        self,
        change: Change,
        chosen: Collection[Change],  # noqa: ARG002 - it tells of what is on disk
        before: Mapping[str, Collection[int]],
        after: Mapping[str, Collection[int]] | None,  # noqa: ARG002
    ) -> tuple[str, ...]:
        """Where a change alters what then never ran, as `file:line`: in the original, which reached the lines `before`,
        or once the chosen changes are made, which reached those `after`, if that is known."""
        lines = set(before.get(str(change.path), ()))
        idle = [line for line, (first, last) in change.bodies if lines.isdisjoint(range(first, last + 1))]
        return spans(str(known_as(change.path)), idle)

    def closed(self, chosen: Collection[Change]) -> tuple[Change, ...]:
        """Those of which everything that they need is chosen, too, in their order."""
        kept: dict[Change, None] = {}
        for each in self.all:  # what is needed comes first
            if each in chosen and all(need in kept for need in self.needs(each)):
                kept[each] = None
        return tuple(kept)


@dataclass(frozen=True, slots=True)
class Rewrites(Changes):
    """What rules find."""

    files: dict[Path, Analysis] = field(default_factory=dict)
    """Those in which something may be found."""
    project: Project | None = None
    carried_on: dict[tuple[Path, str, tuple[Rule, ...]], str] = field(default_factory=dict, compare=False, repr=False)
    """What later rounds have made of a text."""

    def texts(self, chosen: Collection[Change] | None = None) -> dict[str, str]:
        wanted = [each for each in self.all if chosen is None or each in chosen]
        texts = {}
        for path in dict.fromkeys(each.path for each in wanted):
            analysis = self.files[path]
            text = engine.apply(analysis, self.first_round(path, wanted))
            text = self.later_rounds(path, text, wanted)
            if text != analysis.places.text:
                texts[str(path)] = text
        return texts

    def first_round(self, path: Path, chosen: Collection[Change]) -> list[Finding]:
        """The chosen findings of a file's first round, in the order in which the command carries them out: arguments
        that two of them add stand in it."""
        wanted = {each.finding for each in chosen if isinstance(each, RuleChange) and each.path == path}
        return [each for each in self.files[path].findings if each in wanted]

    def later_rounds(self, path: Path, text: str, chosen: Collection[Change]) -> str:
        """A file's text after its first round, with those of the chosen changes that come after that."""
        later = [each for each in chosen if isinstance(each, LaterRewrite) and each.path == path]
        if not later:
            return text
        rules = tuple(each.rule for each in later)
        key = path, text, rules
        if key not in self.carried_on:
            project = None if self.project is None else self.project.changed(path, text)
            self.carried_on[key] = engine.rewrite(text, path, rules, tier=later[0].limit, project=project).after
        return self.carried_on[key]

    def needs(self, change: Change) -> tuple[Change, ...]:
        wanted: set[Finding] = set()
        pending = [*change.finding.needs] if isinstance(change, RuleChange) else []
        while pending:
            need = pending.pop()
            wanted.add(need)
            pending.extend(need.needs)
        return tuple(each for each in self.all if isinstance(each, RuleChange) and each.finding in wanted)


def find(
    paths: Iterable[Path], configuration: Configuration, alter: Callable[[Analysis], Analysis] | None = None
) -> Rewrites:
    """What rules say about the files of a project, the script first. Raises `ConfigError`.

    `alter` may put other findings in the place of what was found: faults, to see whether they are noticed.
    """
    real = tuple(dict.fromkeys(path.resolve() for path in paths))
    project = Project(Files(real))
    files: dict[Path, Analysis] = {}
    found: list[Change] = []
    skipped: list[tuple[Path, Record]] = []
    problems: list[str] = []
    later: list[tuple[Path, Record]] = []
    for path in real:
        rules, tier = configuration.rules_for(path), configuration.tier_for(path)
        try:
            text = sources.read(path).text
            if not engine.concerned(text, rules):
                continue
            analysis, skipped_here = _analysed(text, path, rules, tier, project)
            follow, unseen = _later(analysis, path, rules, tier, project) if alter is None else ([], [])
            later.extend((path, each) for each in unseen)
        except (sources.SourceError, engine.RewriteError) as error:
            problems.append(str(error))
            continue
        files[path] = analysis = analysis if alter is None else alter(analysis)
        mine = [_change(path, each, analysis.places) for each in analysis.findings]
        found += [*mine, *follow]
        given_way = {each.record.code for each in follow}
        skipped.extend((path, each) for each in skipped_here if each.code not in given_way)
    ordered = _needs_first(sorted(found, key=lambda each: _rank(each, real)))
    return Rewrites(ordered, tuple(skipped), tuple(problems), tuple(later), files, project)


def known_as(path: Path) -> Path:
    """A file as the user knows it: relative to the working directory, where it lies below that."""
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path


def _analysed(
    text: str, path: Path, rules: Sequence[Rule], tier: Tier, project: Project
) -> tuple[Analysis, list[Record]]:
    """What can be carried out, but for the editing of comments, which train nothing; and what was skipped."""
    analysis = engine.analyse(text, path, rules, tier=tier, project=project)
    _, done, unfit = engine.checked(analysis, [each for each in analysis.findings if each.edits_code])
    skipped = records((*analysis.skipped, *analysis.waiting, *unfit), analysis.places, 1)
    return dataclasses.replace(analysis, findings=tuple(done)), skipped


def _change(path: Path, finding: Finding, places: Places) -> RuleChange:
    edits = [each for each in finding.edits if not isinstance(each, AddDecorator)]
    edited = [statement for each in edits for statement in _statements(each, places)]
    said = record(finding, places, 1)
    return RuleChange(path, said, finding.tier, witnesses(finding, places), finding, bodies=bodies(edited, places))


def _later(
    analysis: Analysis, path: Path, rules: Sequence[Rule], tier: Tier, project: Project
) -> tuple[list[LaterRewrite], list[Record]]:
    """What is found once all this is carried out, a change for each rule; and records of what cannot be one, since the
    rule would find in the same round what was left out of the first."""
    before = {each.rule for each in analysis.findings}
    found: dict[Rule, list[tuple[Record, Tier, tuple[Lines, ...]]]] = {}
    text, number = engine.apply(analysis, analysis.findings), 1
    while number < engine.MOST_ROUNDS and text != analysis.places.text:
        number += 1
        after = engine.analyse(text, path, rules, tier=tier, project=project.changed(path, text))
        origins = LineOrigins(analysis.places.text.rstrip("\r\n"), text)
        text, done, _ = engine.checked(after, [each for each in after.findings if each.edits_code])
        for each in done:
            said = record(each, after.places, number, origins)
            seen = tuple((origins.line(first), origins.line(last)) for first, last in witnesses(each, after.places))
            found.setdefault(each.rule, []).append((said, each.tier, seen))
        if not done:
            break
    follow = [
        LaterRewrite(path, each[0][0], max(one for _, one, _ in each), _joined(each), rule, tier)
        for rule, each in found.items()
        if rule not in before
    ]
    return follow, [known for rule, each in found.items() if rule in before for known, _, _ in each]


def _joined(found: Sequence[tuple[Record, Tier, tuple[Lines, ...]]]) -> tuple[Lines, ...]:
    return tuple(dict.fromkeys(lines for _, _, each in found for lines in each))


def _rank(change: Change, paths: Sequence[Path]) -> tuple[bool, int, int, int, int, str]:
    where = change.record.where
    place = paths.index(change.path), where.line, where.column, change.record.code
    return isinstance(change, LaterRewrite), _ORDER[change.tier], *place


def _needs_first(changes: Sequence[Change]) -> tuple[Change, ...]:
    by_finding = {each.finding: each for each in changes if isinstance(each, RuleChange)}
    placed: dict[Change, None] = {}

    def place(change: Change) -> None:
        for need in change.finding.needs if isinstance(change, RuleChange) else ():
            if by_finding[need] not in placed:
                place(by_finding[need])
        placed.setdefault(change)

    for each in changes:
        place(each)
    return tuple(placed)


# -- where it shows whether a change was reached


def witnesses(finding: Finding, places: Places) -> tuple[Lines, ...]:
    """Of each place that a finding edits the lines of which at least one runs when that place is reached."""
    found: dict[Lines, None] = {}
    for edit in finding.edits:
        for statement in _statements(edit, places):
            found.setdefault(_lines(statement, places, body=isinstance(edit, AddDecorator)))
    return tuple(found)


def _statements(edit: Edit, places: Places) -> Iterator[ast.stmt]:
    # Of wrapped statements the first is reached whenever the wrapper is.
    nodes = [edit.first] if isinstance(edit, WrapStatements) else anchors(edit)
    if isinstance(edit, AddImport):
        return
    for node in nodes:
        statement = places.statement(node)
        if statement is not None:
            yield statement


def _lines(statement: ast.stmt, places: Places, *, body: bool) -> Lines:
    """Of a compound statement the header; of a function that is decorated what it does when it is called."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and body:
        does = [each for each in statement.body if not _is_docstring(each)] or statement.body
        return does[0].lineno, does[-1].end_lineno or does[-1].lineno
    return statement.lineno, places.header_end(statement)


def bodies(statements: Iterable[ast.stmt], places: Places) -> tuple[tuple[int, Lines], ...]:
    """Of those that have a body, on lines of its own: their first line, and the lines of the body."""
    found: dict[tuple[int, Lines], None] = {}
    for each in statements:
        body = getattr(each, "body", None)
        if body and body[0].lineno > places.header_end(each):
            found.setdefault((each.lineno, (body[0].lineno, body[-1].end_lineno or body[-1].lineno)))
    return tuple(found)


def spans(name: str, lines: Iterable[int]) -> tuple[str, ...]:
    """`name:3` and `name:7-9`: neighbours together."""
    found: list[list[int]] = []
    for line in sorted(set(lines)):
        if found and found[-1][1] == line - 1:
            found[-1][1] = line
        else:
            found.append([line, line])
    return tuple(f"{name}:{first}" if first == last else f"{name}:{first}-{last}" for first, last in found)


def _is_docstring(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
