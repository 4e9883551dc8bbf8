"""From the text of one script to the rewritten text: analyse, plan, apply, check.

Of files, only what the project says of the layout of its code is read, nothing is written, and LibCST is imported only
when there is something to change.
"""

from __future__ import annotations

import ast
import contextlib
import os
import re
import sys
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from autoaccel.defects import describe
from autoaccel.edits import CannotApplyError, Finding, Skipped, Tier
from autoaccel.notebooks.cells import cells
from autoaccel.rewriting import admission, cell_limits, comments, suppression
from autoaccel.rewriting.formatters import layout_of
from autoaccel.rewriting.line_origins import LineOrigins
from autoaccel.rewriting.places import LineLayout, Places, is_relative
from autoaccel.rewriting.plan import plan
from autoaccel.rewriting.record import Record
from autoaccel.rewriting.recording import in_order, record, records
from autoaccel.rewriting.rule import Rule

if TYPE_CHECKING:
    from autoaccel.analysis import Project, Script
    from autoaccel.analysis.project import Consulted
    from autoaccel.rewriting.suppression import Suppression

# Findings that wait for one another settle in two; more means that rules undo each other's work. Comments come last.
MOST_ROUNDS = 4
_FRAMES = 6_000  # of Python's stack: questions wait for one another, see `Bounds.depth`


@dataclass(frozen=True, slots=True)
class Analysis:
    """What rules say about one text. `findings` apply together; so does every subset, less what lacks its `needs`."""

    path: Path | None
    places: Places
    findings: tuple[Finding, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    waiting: tuple[Skipped, ...] = ()
    """Findings that gave way to others or cannot be carried out."""
    suppressed: tuple[tuple[Finding, Suppression], ...] = ()
    suppressions: tuple[Suppression, ...] = ()


@dataclass(frozen=True, slots=True)
class Result:
    """What became of one script. With errors, `after` is `before`."""

    path: Path | None
    before: str
    after: str
    applied: tuple[Record, ...] = ()
    skipped: tuple[Record, ...] = ()
    suppressed: tuple[Record, ...] = ()
    errors: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
    """The findings that were applied to `before` in the first round."""
    traceback: str = ""
    """Where the defect is, if the errors are defects of the tool or of a rule."""
    notes: tuple[str, ...] = ()
    """What else is to be said of the file."""

    @property
    def changed(self) -> bool:
        return self.after != self.before


class RewriteError(Exception):
    """One script cannot be rewritten; the message is one line that names the place and the rule that is to blame."""

    def __init__(self, message: str, line: int = 1, column: int = 1, code: str = "") -> None:
        super().__init__(message)
        self.line = line
        self.column = column
        self.code = code or "internal-error"
        """What reports call it in the place of a rule's code."""

    @property
    def defect(self) -> str:
        """Where the defect is, if it is one of the tool or of a rule: what cannot be parsed is no defect of ours."""
        cause = self.__cause__
        if cause is None or self.code != "internal-error":
            return ""
        import traceback

        return "".join(traceback.format_exception(cause))


def concerned(text: str, rules: Iterable[Rule]) -> list[Rule]:
    """The rules that may have something to say, by a search for their needles: without one, a file is not parsed."""
    return [rule for rule in rules if rule.concerns(text)]


def analyse(
    text: str, path: Path | None, rules: Sequence[Rule], *, tier: Tier = Tier.NUMERICS, project: Project | None = None
) -> Analysis:
    """Run the rules over a text and settle what can be applied together. Raises `RewriteError`.

    `tier` is how exact rewrites must be; opt-in rules that are handed in have been asked for. `path` serves to find
    files of the project and to name this one.
    """
    from autoaccel.analysis import load

    with _telling_of_syntax(text, path):
        script = load(text, None if path is None else Path(os.path.abspath(path)), project)
    try:
        with _high_stack(path):
            layout = partial(_layout, script.path, script.project.consulted)
            places = Places(text, script.tree, script.syntax_index, layout, _local(script))
            return _run_rules(script, path, places, rules, tier)
    finally:
        script.release()


@contextlib.contextmanager
def _high_stack(path: Path | None) -> Iterator[None]:
    """Room for deep syntax trees. Raises `RewriteError` where it is not enough."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, _FRAMES))
    try:
        yield
    except RecursionError as error:
        raise _too_deep(path) from error
    finally:
        sys.setrecursionlimit(limit)


def _too_deep(path: Path | None) -> RewriteError:
    return RewriteError(f"{path or '<text>'}: left alone, it is nested too deeply to be analysed", code="too-deep")


def check_syntax(text: str, path: Path | None) -> None:
    """Raises `RewriteError` for a text that cannot be parsed."""
    with _telling_of_syntax(text, path):
        ast.parse(text)


@contextlib.contextmanager
def _telling_of_syntax(text: str, path: Path | None) -> Iterator[None]:
    """What is wrong with a text that cannot be parsed, as `RewriteError`."""
    name = path or "<text>"
    try:
        yield
    except SyntaxError as error:
        from autoaccel.rewriting.newer_syntax import needed

        line, version = error.lineno or 1, needed(text, error.msg)
        problem = f"cannot parse: {error.msg}"
        if version is not None:
            problem = f"needs autoaccel under Python {version[0]}.{version[1]} or newer, as the script does"
        raise RewriteError(f"{name}:{line}: {problem}", line, error.offset or 1, "invalid-syntax") from error
    except (RecursionError, MemoryError) as error:
        raise _too_deep(path) from error
    except ValueError as error:
        # Python before 3.11.4 raises it for null bytes, which are no defect of the tool.
        code = "invalid-syntax" if "\0" in text else ""
        raise RewriteError(f"{name}: cannot parse: {error}", code=code) from error


def _run_rules(script: Script, path: Path | None, places: Places, rules: Sequence[Rule], tier: Tier) -> Analysis:
    from autoaccel.dataflow.completeness import Incomplete

    text, name = places.text, path or "<text>"
    unseen = Incomplete.made
    looking = sorted(concerned(text, rules), key=lambda rule: rule.precedence)
    found: list[Finding] = []
    skipped: list[Skipped] = []
    unanswered: set[Rule] = set()
    for rule in looking:
        said, complete = _run_rule(rule, partial(rule.run, script), name)
        unanswered |= set() if complete else {rule}
        found.extend(each for each in said if isinstance(each, Finding))
        skipped.extend(each for each in said if isinstance(each, Skipped))
    found, untouched = admission.outside_tests(script, found)
    exact_only = admission.rules_kept_exact(script, found)
    allowed, too_inexact = admission.by_tier(found, tier, exact_only)
    marks = suppression.suppressions(places) if found or any(rule.comment_function for rule in looking) else ()
    silenced = [(each, mark) for each in allowed if (mark := suppression.suppressing(each, marks, places)) is not None]
    silent = {each for each, _ in silenced}
    about: list[Finding] = []
    comment_rules = [rule for rule in looking if rule.comment_function]
    if marks and comment_rules:
        could, never = admission.by_tier(found, Tier.NUMERICS, exact_only)
        # A rule that has not seen everything may be silenced all the same: nothing is said against the comment.
        ran = _ran(rules, tier, unanswered) if Incomplete.made == unseen else []
        account = suppression.account(marks, places, could, (*skipped, *untouched, *never), ran)
        said = [
            each for rule in comment_rules for each in _run_rule(rule, partial(rule.run_on_comments, account), name)[0]
        ]
        remarks, _ = admission.by_tier([each for each in said if isinstance(each, Finding)], tier, {})
        pairs = [(each, suppression.suppressing_remark(each, marks)) for each in remarks]
        about = [each for each, mark in pairs if mark is None]
        silenced.extend((each, mark) for each, mark in pairs if mark is not None)
    within, beyond = cell_limits.parted([*(each for each in allowed if each not in silent), *about], places)
    planned = plan(within, places)
    skipped = [*skipped, *untouched, *too_inexact, *beyond]
    return Analysis(path, places, planned.findings, tuple(skipped), planned.skipped, tuple(silenced), marks)


def _ran(rules: Sequence[Rule], tier: Tier, unanswered: Container[Rule]) -> list[Rule]:
    """The rules whose findings this run takes; those without a needle in the text have had nothing to say."""
    ran = (rule for rule in rules if rule.function and rule not in unanswered)
    return [rule for rule in ran if rule.tier is Tier.OPT_IN or rule.tier <= tier]


def _run_rule(
    rule: Rule, run: Callable[[], Iterable[Finding | Skipped]], name: Path | str
) -> tuple[list[Finding | Skipped], bool]:
    """What a rule says of a file, and whether it has seen all that it asked for: else none of it stands."""
    from autoaccel.dataflow.completeness import Incomplete

    try:
        return list(run()), True
    except Incomplete as unanswered:
        reason = str(unanswered)
    except RecursionError:
        reason = "it is nested too deeply"
    except Exception as error:
        raise RewriteError(f"{name}: rule {rule.code} {rule.name} failed: {describe(error)}") from error
    return [Skipped(rule, ast.Module([], []), f"the file was not analysed in full: {reason}")], False


def apply(analysis: Analysis, findings: Sequence[Finding]) -> str:
    """The text with some of an analysis' findings applied; those whose `needs` are not among them are left out."""
    chosen = _with_needs(findings)
    after = analysis.places.text
    if any(each.edits_code for each in chosen):
        from autoaccel.rewriting.apply import apply as carry_out
        from autoaccel.rewriting.line_breaks import laid_out

        with _high_stack(analysis.path):
            after = laid_out(analysis.places, carry_out(analysis.places, chosen))
    return comments.edit(analysis.places, after, chosen)


def rewrite(
    text: str,
    path: Path | None,
    rules: Sequence[Rule],
    *,
    tier: Tier = Tier.NUMERICS,
    project: Project | None = None,
    accept: Callable[[Finding], bool] | None = None,
) -> Result:
    """Rewrite one script. `accept` may decline findings; without it, rewriting the result again changes nothing.

    Whatever goes wrong, the text is either rewritten and checked or returned as it was, with the reason among `errors`.
    """
    if not concerned(text, rules):
        return Result(path, text, text)
    try:
        return _rewrite(text, path, rules, tier, project, accept)
    except RecursionError:
        return Result(path, text, text, errors=(str(_too_deep(path)),))
    except RewriteError as error:
        return Result(path, text, text, errors=(str(error),), traceback=error.defect)


def _rewrite(
    text: str,
    path: Path | None,
    rules: Sequence[Rule],
    tier: Tier,
    project: Project | None,
    accept: Callable[[Finding], bool] | None,
) -> Result:
    analysis = first = analyse(text, path, rules, tier=tier, project=project)
    current = text
    applied: list[Record] = []
    taken: tuple[Finding, ...] = ()
    for_humans = [Skipped(each.rule, each.node, each.message) for each in first.findings if not each.edits]
    waiting = list(records(first.waiting, first.places, 1))
    origins: LineOrigins | None = None
    for number in range(1, MOST_ROUNDS + 3):
        chosen = [each for each in analysis.findings if accept is None or accept(each)]
        if accept is None:
            chosen = _of_this_round(chosen)
        after, done, unfit = checked(analysis, chosen)
        if not done and accept is None:
            # What LibCST cannot carry out must not keep comments from being edited.
            after, done, _ = checked(
                analysis, [each for each in analysis.findings if each.edits and not each.edits_code]
            )
        waiting.extend(records(unfit, analysis.places, number, origins))
        if not done:
            break
        if number > MOST_ROUNDS + (not any(each.edits_code for each in done)):
            raise RewriteError(
                f"{path or '<text>'}: left alone, a rewrite of the result would change it again ({_names(done)})"
            )
        applied.extend(record(each, analysis.places, number, origins) for each in done)
        taken = taken or tuple(done)
        current = after
        if accept is not None:
            break
        analysis = analyse(current, path, rules, tier=tier, project=_renewed(project, path, current))
        origins = LineOrigins(text, current)
    if accept is None and current != text:
        current = _without_freed_imports(text, current, path, project)
    settled = {record.code for record in applied if record.round > 1}
    skipped = [*records(for_humans, first.places, 1), *_left_at_last(first, analysis, number, applied, origins)]
    skipped += (each for each in waiting if each.code not in settled)
    suppressed = [record(finding, first.places, 1) for finding, _ in first.suppressed]
    return Result(path, text, current, tuple(applied), tuple(in_order(skipped)), tuple(suppressed), findings=taken)


def _without_freed_imports(before: str, after: str, path: Path | None, project: Project | None) -> str:
    """The rewritten text without the imports that only what it no longer holds has used."""
    from autoaccel.rewriting import freed_imports

    if not (names := freed_imports.candidates(before, after)):
        return after
    from autoaccel.analysis import load

    script = load(before, None if path is None else Path(os.path.abspath(path)), project)
    try:
        with _high_stack(path):
            names = tuple(each for each in names if freed_imports.may_go(script, each))
    finally:
        script.release()
    for name in names:
        after = freed_imports.without(after, name)
    return after


def _left_at_last(
    first: Analysis, last: Analysis, number: int, applied: Sequence[Record], origins: LineOrigins | None
) -> Iterator[Record]:
    """What is left alone after the last round, located where it was said in the first, if it was; and what a rule left
    out of something that it did in the first round."""
    before, after = _by_reason(first.skipped), _by_reason(last.skipped)
    done = {(each.code, each.line, each.column) for each in applied if each.round == 1}
    for key, said in after.items():
        if key in before:
            yield from records(before[key], first.places, 1)
        else:
            yield from records(said, last.places, number, origins)
    for key, said in before.items():
        partly = records(said, first.places, 1) if key not in after else []
        yield from (each for each in partly if (each.code, each.line, each.column) in done)


def _by_reason(skipped: Iterable[Skipped]) -> dict[tuple[str, str], list[Skipped]]:
    """The same reasons, whatever lines they name."""
    found: dict[tuple[str, str], list[Skipped]] = {}
    for each in skipped:
        found.setdefault((each.rule.code, re.sub(r"\d+", "", each.reason)), []).append(each)
    return found


def _of_this_round(findings: Sequence[Finding]) -> list[Finding]:
    """What to apply in a round. What makes another training comes first: others ask how many steps it has. Comments are
    edited when all else is done, for it may show what they are good for."""
    code = [each for each in findings if each.edits_code]
    training = [each for each in code if each.rule.tier is Tier.OPT_IN]
    return training or code or [each for each in findings if each.edits]


def checked(analysis: Analysis, chosen: Sequence[Finding]) -> tuple[str, list[Finding], list[Skipped]]:
    """Apply and check; findings that LibCST cannot carry out in this file are given back. Raises `RewriteError`."""
    from autoaccel.rewriting import check

    chosen = _with_needs(chosen)
    if not chosen:
        return analysis.places.text, [], []
    skipped: list[Skipped] = []
    try:
        after = apply(analysis, chosen)
    except CannotApplyError:
        able: list[Finding] = []
        for finding in chosen:
            try:
                apply(analysis, [*finding.needs, finding])
                able.append(finding)
            except CannotApplyError as error:
                skipped.append(Skipped(finding.rule, finding.node, str(error)))
        chosen = _with_needs(able)
        after = apply(analysis, chosen)
    wrong = check.problem(analysis.places, chosen, after)
    if wrong is not None:
        name, notebook = analysis.path or "<text>", cells(analysis.places.text)
        wrong = wrong if notebook is None else notebook.worded(wrong)
        raise RewriteError(f"{name}: left alone, the self-check failed: {wrong} ({_culprits(analysis, chosen)})")
    return after, chosen, skipped


def _culprits(analysis: Analysis, findings: Sequence[Finding]) -> str:
    """Which findings fail the self-check on their own; all of them when only their combination does."""
    from autoaccel.rewriting import check

    alone = [
        finding
        for finding in findings
        if check.problem(analysis.places, (*finding.needs, finding), apply(analysis, (*finding.needs, finding)))
        is not None
    ]
    return _names(alone or findings)


def _layout(path: Path | None, consulted: Consulted) -> LineLayout:
    """What the project says of the layout of its code; the answer leans on the files that say so."""
    if path is None:
        return LineLayout()
    layout, asked = layout_of(path)
    consulted.texts.update(asked)
    return layout


def _local(script: Script) -> Callable[[ast.stmt], bool]:
    """Tells of statements whether they import from the project's own files, once the script is released as well."""
    path, search, folders = script.path, script.project.disk.modules.search, script.project.consulted.folders

    def is_local(statement: ast.stmt) -> bool:
        match statement:
            case ast.Import(names=names):
                wanted = [(each.name, 0) for each in names]
            case ast.ImportFrom(module=module, level=level):
                wanted = [(module or "", level)]
            case _:
                return False
        if path is None:
            return is_relative(statement)
        return any(search(path, name, level, folders) is not None for name, level in wanted)

    return is_local


def _with_needs(findings: Sequence[Finding]) -> list[Finding]:
    """The findings whose needs, and the needs of those, are all among them."""
    present = list(findings)
    while True:
        known = set(present)
        kept = [finding for finding in present if all(need in known for need in finding.needs)]
        if len(kept) == len(present):
            return kept
        present = kept


def _renewed(project: Project | None, path: Path | None, text: str) -> Project | None:
    """The project with this file's new text: what was learned of the old one must not be asked again."""
    if project is None or path is None:
        return None
    return project.changed(path, text)


def _names(findings: Iterable[Finding]) -> str:
    rules = dict.fromkeys(f"{finding.rule.code} {finding.rule.name}" for finding in findings)
    return ", ".join(rules)
