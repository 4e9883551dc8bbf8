"""What rewriting would change in the files of a project, one change at a time: any of them can be left out.

`verify` looks for the one that makes a difference, `bench` for what each is worth.
"""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from autoaccel import sources
from autoaccel.rewriting import engine
from autoaccel.rewriting.finding import AddDecorator, AddImport, Edit, Finding, Tier, WrapStatements
from autoaccel.rewriting.places import Places
from autoaccel.rewriting.plan import anchors
from autoaccel.rewriting.record import Range, Record
from autoaccel.rewriting.recording import record, records
from autoaccel.script import Project
from autoaccel.script.files import Files

if TYPE_CHECKING:
    from autoaccel.config import Plan
    from autoaccel.rewriting.engine import Analysis
    from autoaccel.rewriting.rule import Rule

Lines = tuple[int, int]
"""First and last."""

_ORDER = {tier: rank for rank, tier in enumerate((Tier.EXACT, Tier.NUMERICS, Tier.OPT_IN, Tier.EQUIVALENT))}
"""What must be bit-equal comes before what may draw other random numbers, so that it is judged without that."""


@dataclass(frozen=True, slots=True, eq=False)
class Change:
    """One finding in one file. The same finding, altered for a test of `verify`, is another change."""

    path: Path
    """The real path of the file."""
    record: Record
    tier: Tier
    finding: Finding | None
    """None for a change that no rule makes: a planted fault."""
    witnesses: tuple[Lines, ...]
    """Of each place that is edited the lines of which at least one runs when that place is reached."""
    alter: Callable[[str], str] | None = None
    """What else is done to the text of the file: a planted fault."""

    @property
    def place(self) -> str:
        return f"{self.path}:{self.record.line}"

    def missed(self, reached: Mapping[str, Collection[int]]) -> tuple[int, ...]:
        """Lines of the places that were not reached in a run; none when all were."""
        lines = set(reached.get(str(self.path), ()))
        return tuple(first for first, last in self.witnesses if lines.isdisjoint(range(first, last + 1)))

    def is_reached(self, reached: Mapping[str, Collection[int]]) -> bool:
        """Whether a run came to what the finding speaks of, and to at least one place for each of its edits."""
        return not self.missed(reached)


@dataclass(frozen=True, slots=True)
class _File:
    text: str
    analysis: Analysis | None


@dataclass(frozen=True, slots=True)
class Changes:
    """The changes of a project, in an order in which each comes after those that it needs, and what is exact first."""

    all: tuple[Change, ...] = ()
    files: dict[Path, _File] = field(default_factory=dict)
    left_alone: tuple[tuple[Path, Record], ...] = ()
    """Opportunities that rules declined, and why."""
    problems: tuple[str, ...] = ()
    """Files that stay as they are although something may be found in them; a line each."""
    later: tuple[tuple[Path, Record], ...] = ()
    """What would be found in the rewritten files, which is not among `all`."""

    def __len__(self) -> int:
        return len(self.all)

    def __iter__(self) -> Iterator[Change]:
        return iter(self.all)

    def texts(self, chosen: Collection[Change] | None = None) -> dict[str, str]:
        """The files that these changes alter, by real path; all of them by default. Changes whose needs are not among
        them are left out."""
        wanted = [each for each in self.all if chosen is None or each in chosen]
        texts = {}
        for path in dict.fromkeys(each.path for each in wanted):
            here = [each for each in wanted if each.path == path]
            text = self._applied(path, here)
            if text != self.files[path].text:
                texts[str(path)] = text
        return texts

    def _applied(self, path: Path, here: Sequence[Change]) -> str:
        file = self.files[path]
        found = [each.finding for each in here if each.finding is not None]
        text = file.text
        if found:
            assert file.analysis is not None
            text = engine.apply(file.analysis, found)
        for each in here:
            text = text if each.alter is None else each.alter(text)
        return text

    def without(self, dropped: Collection[Change]) -> tuple[Change, ...]:
        """All others that can do without these."""
        return self.closed([each for each in self.all if each not in dropped])

    def closed(self, chosen: Collection[Change]) -> tuple[Change, ...]:
        """Those of which everything that they need is chosen, too, in their order."""
        kept: list[Change] = []
        findings: set[Finding] = set()
        for each in self.all:  # what is needed comes first
            if each in chosen and (each.finding is None or findings.issuperset(each.finding.needs)):
                kept.append(each)
                findings.update(() if each.finding is None else (each.finding,))
        return tuple(kept)

    def needs(self, change: Change) -> tuple[Change, ...]:
        """What a change needs, and what that needs, in their order."""
        wanted: set[Finding] = set()
        pending = [] if change.finding is None else [*change.finding.needs]
        while pending:
            need = pending.pop()
            wanted.add(need)
            pending.extend(need.needs)
        return tuple(each for each in self.all if each.finding in wanted)

    # -- planted faults

    def mutated(self, change: Change, finding: Finding) -> Changes:
        """With another finding in the place of one; those that needed the one need the other."""
        replaced: dict[Finding, Finding] = {}
        made = []
        for each in self.all:
            new = each.finding
            if each is change:
                new = finding
            elif new is not None and not replaced.keys().isdisjoint(new.needs):
                new = dataclasses.replace(new, needs=tuple(replaced.get(need, need) for need in new.needs))
            if new is not each.finding and each.finding is not None and new is not None:
                replaced[each.finding] = new
            made.append(each if new is each.finding else dataclasses.replace(each, finding=new))
        return dataclasses.replace(self, all=tuple(made))

    def altered(self, change: Change, alter: Callable[[str], str]) -> Changes:
        """With something else done to the text of a file whenever a change is applied."""
        made = tuple(dataclasses.replace(each, alter=alter) if each is change else each for each in self.all)
        return dataclasses.replace(self, all=made)

    def planted(
        self,
        path: Path,
        line: int,
        alter: Callable[[str], str],
        *,
        code: str = "AA000",
        name: str = "planted-fault",
        tier: Tier = Tier.EXACT,
    ) -> Changes:
        """With a change that no rule makes."""
        path = path.resolve()
        files = dict(self.files)
        if path not in files:
            files[path] = _File(sources.read(path).text, None)
        said = Record(code, name, tier.label, "planted", Range(line, 1, line, 1))
        change = Change(path, said, tier, None, ((line, line),), alter)
        order = list(files)
        made = sorted((*self.all, change), key=lambda each: _rank(each, order))
        return dataclasses.replace(self, all=_needs_first(made), files=files)


def find(paths: Iterable[Path], plan: Plan) -> Changes:
    """What rules say about the files of a project, the script first. Raises `ConfigError`."""
    real = tuple(dict.fromkeys(path.resolve() for path in paths))
    project = Project(Files(real))
    files: dict[Path, _File] = {}
    found: list[Change] = []
    left_alone: list[tuple[Path, Record]] = []
    problems: list[str] = []
    later: list[tuple[Path, Record]] = []
    for path in real:
        rules, tier = plan.rules_for(path), plan.tier_for(path)
        try:
            text = sources.read(path).text
            files[path] = _File(text, None)
            if not engine.concerned(text, rules):
                continue
            here, declined, analysis = _in_file(text, path, rules, tier, project)
            files[path] = _File(text, analysis)
            found.extend(here)
            left_alone.extend((path, each) for each in declined)
            later.extend((path, each) for each in _later(here, analysis, path, rules, tier, project))
        except (sources.SourceError, engine.RewriteError) as error:
            problems.append(str(error))
    ordered = _needs_first(sorted(found, key=lambda each: _rank(each, real)))
    return Changes(ordered, files, tuple(left_alone), tuple(problems), tuple(later))


def _in_file(
    text: str, path: Path, rules: Sequence[Rule], tier: Tier, project: Project
) -> tuple[list[Change], list[Record], Analysis]:
    analysis = engine.analyse(text, path, rules, tier=tier, project=project)
    # Comments train nothing.
    _, done, refused = engine.checked(analysis, [each for each in analysis.findings if each.edits_code])
    made = [
        Change(path, record(each, analysis.places, 1), each.tier, each, witnesses(each, analysis.places))
        for each in done
    ]
    return made, records((*analysis.skipped, *analysis.waiting, *refused), analysis.places, 1), analysis


def _later(
    here: Sequence[Change], analysis: Analysis, path: Path, rules: Sequence[Rule], tier: Tier, project: Project
) -> list[Record]:
    """What would be found once all this is applied: findings that gave way to others."""
    if not here:
        return []
    text = engine.apply(analysis, [each.finding for each in here if each.finding is not None])
    after = engine.analyse(text, path, rules, tier=tier, project=project.changed(path, text))
    return records([each for each in after.findings if each.edits_code], after.places, 2)


def _rank(change: Change, paths: Sequence[Path]) -> tuple[int, int, int, int, str]:
    where = change.record.where
    return _ORDER[change.tier], paths.index(change.path), where.line, where.column, change.record.code


def _needs_first(changes: Sequence[Change]) -> tuple[Change, ...]:
    by_finding = {each.finding: each for each in changes if each.finding is not None}
    placed: dict[Change, None] = {}

    def place(change: Change) -> None:
        for need in () if change.finding is None else change.finding.needs:
            if need in by_finding and by_finding[need] not in placed:
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


def _is_docstring(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
