"""What the rules find in trees of scripts: rewritten in memory, nothing is run and nothing is written."""

from __future__ import annotations

import difflib
import json
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from autoaccel.analysis import Project
from autoaccel.edits import Tier
from autoaccel.rewriting import engine, registry
from autoaccel.rewriting.engine import Result
from autoaccel.rewriting.record import Record
from autoaccel.rewriting.rule import Rule


@dataclass(frozen=True, slots=True)
class Surveyed:
    """One file: what was applied and declined, and what is wrong with the result."""

    path: Path
    applied: tuple[Record, ...] = ()
    skipped: tuple[Record, ...] = ()
    errors: tuple[str, ...] = ()
    second_run_changes: bool = False
    changed_elsewhere: tuple[int, ...] = ()  # lines that no edit speaks of and that are not in the result
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Survey:
    files: tuple[Surveyed, ...]
    unparsable: tuple[Path, ...]
    crashes: tuple[tuple[Path, str], ...] = field(default=())

    @property
    def problems(self) -> list[str]:
        """Every line is a defect of the tool."""
        found = [f"{path}: {message}" for path, message in self.crashes]
        for each in self.files:
            found += [f"{each.path}: {error}" for error in each.errors]
            found += [f"{each.path}: a second run changes it again"] * each.second_run_changes
            found += [f"{each.path}:{line}: changed although no edit speaks of it" for line in each.changed_elsewhere]
        return found


def scripts(paths: Iterable[Path]) -> Iterator[Path]:
    for path in paths:
        yield from sorted(path.rglob("*.py")) if path.is_dir() else [path]


def changed_elsewhere(result: Result) -> Iterator[int]:
    """Lines of the original that are gone although no edit of the first round touches them, white space aside.

    An independent look: the engine's own check is not used. Later rounds edit another text, so they are left out.
    """
    if any(record.round > 1 for record in result.applied):
        return
    edited = {
        line for record in result.applied for edit in record.edits for line in range(edit.line, edit.end_line + 1)
    }
    before = [line.strip() for line in result.before.splitlines()]
    after = [line.strip() for line in result.after.splitlines()]
    for tag, start, end, _, _ in difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if tag in ("replace", "delete"):
            yield from (line for line in range(start + 1, end + 1) if line not in edited and before[line - 1])


def survey_file(path: Path, text: str, rules: Sequence[Rule], project: Project) -> Surveyed:
    start = time.perf_counter()
    result = engine.rewrite(text, path, rules, project=project)
    seconds = time.perf_counter() - start
    again = False
    if result.changed:
        absolute = path.resolve()
        again = engine.rewrite(
            result.after, path, rules, project=Project(project.files, {absolute: result.after})
        ).changed
    return Surveyed(
        path, result.applied, result.skipped, result.errors, again, tuple(changed_elsewhere(result)), round(seconds, 3)
    )


def survey(paths: Iterable[Path]) -> Survey:
    """Rewrite every script below `paths` in memory, by all rules that are not opt-in.

    What today's Python cannot parse is counted, not blamed.
    """
    found = list(scripts(paths))
    rules, project = [rule for rule in registry.rules() if rule.tier is not Tier.OPT_IN], Project(found)
    files: list[Surveyed] = []
    unparsable: list[Path] = []
    crashes: list[tuple[Path, str]] = []
    for path in found:
        try:
            text = path.read_bytes().decode("utf-8-sig")
            compile(text, str(path), "exec", dont_inherit=True)
        except (SyntaxError, ValueError):
            unparsable.append(path)
            continue
        try:
            files.append(survey_file(path, text, rules, project))
        except Exception as error:  # a survey reports crashes and goes on
            crashes.append((path, f"{type(error).__name__}: {error}"))
    return Survey(tuple(files), tuple(unparsable), tuple(crashes))


def table(result: Survey) -> str:
    """Rule by rule: opportunities, applied, declined by reason; then what is wrong."""
    applied: Counter[str] = Counter()
    declined: dict[str, Counter[str]] = defaultdict(Counter)
    for each in result.files:
        applied.update(f"{record.code} {record.name}" for record in each.applied)
        for record in each.skipped:
            declined[f"{record.code} {record.name}"][record.message] += 1
    lines = [f"{'rule':28} {'seen':>5} {'applied':>7} {'declined':>8}"]
    for rule in sorted({*applied, *declined}):
        skips = declined[rule]
        lines.append(f"{rule:28} {applied[rule] + skips.total():5} {applied[rule]:7} {skips.total():8}")
        lines += [f"{'':10}{count:4} {reason}" for reason, count in skips.most_common()]
    changed = sum(bool(each.applied) for each in result.files)
    slowest = max(result.files, key=lambda each: each.seconds, default=None)
    lines += [
        "",
        f"{len(result.files)} files, {changed} changed, {len(result.unparsable)} that Python cannot parse,"
        f" {sum(each.seconds for each in result.files):.1f} s"
        + (f" (slowest {slowest.path}, {slowest.seconds:.2f} s)" if slowest else ""),
        f"{len(result.problems)} problems",
        *result.problems,
    ]
    return "\n".join(lines)


def to_json(result: Survey) -> str:
    """Every record, for other programs."""
    return json.dumps(asdict(result), indent=1, default=str)
