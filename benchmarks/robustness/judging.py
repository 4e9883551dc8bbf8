"""One file through `lint` and `rewrite`, in memory, and everything that must not happen."""

from __future__ import annotations

import ast
import dataclasses
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from autoaccel import sources
from autoaccel.analysis import Project
from autoaccel.rewriting import engine, linting
from autoaccel.rewriting.places import raw_lines
from autoaccel.rewriting.record import Failure, TextEdit
from autoaccel.rewriting.rule import Rule
from benchmarks.public_scripts.surveying import changed_elsewhere
from benchmarks.robustness import probing


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of one file. Every entry of `problems` is a kind and a line of text."""

    path: str
    size: int
    parsable: bool
    """Whether this Python can parse it: what it cannot, the tool need not."""
    searched: bool = False
    """Whether a rule's needle was found: without one the tool does not parse a file."""
    analysed: bool = False
    """Whether every rule was run, needle or not."""
    findings: int = 0
    changed: bool = False
    probed: bool = False
    refused: str = ""
    """Why the file cannot be read or edited, where that is no defect."""
    problems: tuple[tuple[str, str], ...] = ()
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Depth:
    """How far a file is examined beyond what the tool does with it."""

    all_rules: bool = False
    """Every rule looks at the file, whatever its words."""
    probes: bool = False


def judge(path: Path, rules: Sequence[Rule], project: Project, depth: Depth, seed: int = 0) -> Verdict:
    """Lint and rewrite one file, twice where it changes. Raises what the tool must not raise."""
    start = time.process_time()
    data = path.read_bytes()
    parsable = _parsable(data)
    verdict = Verdict(str(path), len(data), parsable)
    try:
        source = sources.decode(data, path)
    except sources.SourceError as error:
        unread = (("unread", str(error)),) if parsable else ()
        return dataclasses.replace(verdict, refused=str(error), problems=unread)
    text = source.text
    speaking = {rule.code for rule in engine.concerned(text, rules)}
    problems: list[tuple[str, str]] = []
    asked = [dataclasses.replace(rule, needles=(), pattern="") for rule in rules] if depth.all_rules else rules
    report = linting.lint(text, path, asked, project=project, changes=True)
    problems += _failed(report.failures, parsable)
    problems += [
        ("needle", f"{each.code} finds in line {each.line} what its needles do not")
        for each in report.findings
        if each.code not in speaking
    ]
    for each in report.findings:
        if each.changes and not _parsable(_edited(text, each.changes).encode()):
            problems.append(("unparsable", f"the fix of {each.code} in line {each.line}"))
    result = engine.rewrite(text, path, rules, project=project)
    problems += [("crash" if result.traceback else "error", error) for error in result.errors if parsable]
    problems += _wrong(path, source, result, rules, project)
    probed = depth.probes and parsable
    refused = ""
    for said in probing.problems(text, seed) if probed else ():
        kind, _, detail = said.partition(": ")
        if kind == "cannot edit":
            refused = said
        else:
            problems.append((f"probe: {kind}", detail))
    return dataclasses.replace(
        verdict,
        searched=bool(speaking),
        analysed=depth.all_rules or bool(speaking),
        findings=len(report.findings),
        changed=result.changed,
        probed=probed,
        refused=refused,
        problems=tuple(dict.fromkeys(problems)),
        seconds=round(time.process_time() - start, 3),
    )


def _parsable(data: bytes) -> bool:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            ast.parse(data)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return False
    return True


def _failed(failures: Sequence[Failure], parsable: bool) -> Iterator[tuple[str, str]]:
    for each in failures:
        if each.traceback:
            yield "crash", each.message
        elif parsable:
            yield "error", each.message


def _wrong(
    path: Path, source: sources.Source, result: engine.Result, rules: Sequence[Rule], project: Project
) -> Iterator[tuple[str, str]]:
    if not result.changed:
        return
    written = source.encode(result.after)
    if not _parsable(written):
        yield "unparsable", "the rewritten file"
    for line in changed_elsewhere(result):
        yield "elsewhere", f"line {line} was changed although no edit speaks of it"
    renewed = Project(project.files, {path: result.after})
    again = engine.rewrite(sources.decode(written, path).text, path, rules, project=renewed)
    if again.changed or again.errors:
        yield "second run", "; ".join(again.errors) or ", ".join(sorted({each.code for each in again.applied}))


def _edited(text: str, changes: Sequence[TextEdit]) -> str:
    """The text with a finding's own changes, carried out by whoever reads a report."""
    lines = raw_lines(text)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    for each in reversed(changes):
        start = starts[each.where.line - 1] + each.where.column - 1
        end = starts[each.where.end_line - 1] + each.where.end_column - 1
        text = text[:start] + each.content + text[end:]
    return text
