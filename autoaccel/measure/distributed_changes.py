"""What `autoaccel distribute` changes, one edit at a time: so `verify --ranks` can say which line makes a difference.

Of a script that is distributed already the changes are its calls of the runtime: each can be taken back.
"""

from __future__ import annotations

import ast
import dataclasses
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from autoaccel.analysis import Script
from autoaccel.config import Configuration
from autoaccel.edits import AddImport, Code, Edit, Finding, Replace, Skipped, WrapStatements
from autoaccel.measure import changes
from autoaccel.measure.changes import Change, Changes, Rewrites
from autoaccel.rewriting import engine, registry
from autoaccel.rewriting.engine import Analysis
from autoaccel.rewriting.plan import anchors
from autoaccel.rewriting.rule import Rule

UNDONE: Final = {
    "device": "{0}",
    "distribute": "{0}",
    "agreed": "{0}",
    "path": "{0}",
    "save": '__import__("torch").save',
    "first": '__import__("contextlib").nullcontext()',
}
"""By verb, what stands in the place of its call where it is taken back: its first argument, or another function."""

_WRITES: Final = re.compile(r"^`(with )?\w+\.(save|first|path)\b")


@dataclasses.dataclass(frozen=True, slots=True)
class Verbs(Changes):
    """The calls of the runtime in files that are distributed already. A change is applied where its call stays."""

    taken_back: Rewrites = dataclasses.field(default_factory=Rewrites)

    def texts(self, chosen: Collection[Change] | None = None) -> dict[str, str]:
        return {} if chosen is None else self.taken_back.texts([each for each in self.all if each not in chosen])


def find(
    paths: Iterable[Path], configuration: Configuration, alter: Callable[[Analysis], Analysis] = lambda found: found
) -> Changes:
    """What is distributed in the files of a project, the script first. Raises `ConfigError`.

    `alter` may put other findings in the place of what was found.
    """
    paths = list(paths)
    if not any(rule.command for rule in configuration.rules):
        return Changes()
    found = changes.find(paths, configuration, lambda analysis: by_edit(alter(analysis)))
    if found.all:
        return found
    rules = [rule for rule in registry.rules() if rule.command]
    taken_back = _taken_back(paths, configuration, rules[0])
    if (rule := _written_by(taken_back, rules)) is not rules[0]:
        taken_back = _taken_back(paths, configuration, rule)
    return Verbs(taken_back.all, found.skipped, found.problems, (), taken_back)


def _taken_back(paths: Iterable[Path], configuration: Configuration, rule: Rule) -> Rewrites:
    verbs = _of_verbs(rule)

    def of_verbs(analysis: Analysis) -> Analysis:
        return engine.analyse(analysis.places.text, analysis.path, (verbs,))

    return changes.find(paths, configuration, of_verbs)


def _written_by(verbs: Rewrites, rules: Sequence[Rule]) -> Rule:
    """The rule whose work the calls look like: of those for parameters that are spread, or of those that are not, the
    one that has something to say of the text without the calls; the first where none has."""
    calls = [each.finding.node for each in verbs if isinstance(each, changes.RuleChange)]
    shard = any(keyword.arg == "shard" for call in calls if isinstance(call, ast.Call) for keyword in call.keywords)
    rules = [rule for rule in rules if ("--shard" in (rule.command or "")) == shard] or rules
    texts, project = {Path(path): text for path, text in verbs.texts().items()}, verbs.project
    for path, text in texts.items():
        project = None if project is None else project.changed(path, text)
    for rule in rules if len(rules) > 1 else ():
        if any(engine.analyse(text, path, (rule,), project=project).findings for path, text in texts.items()):
            return rule
    return rules[0]


def writes_files(change: Change) -> bool:
    """Whether a change is about who writes a file."""
    return _WRITES.search(change.record.message) is not None


def by_edit(analysis: Analysis) -> Analysis:
    """The same with a finding for each edit, as far as these make the same text together."""
    split = tuple(part for finding in analysis.findings for part in _parts(finding, analysis))
    other = dataclasses.replace(analysis, findings=split)
    same = engine.apply(other, split) == engine.apply(analysis, analysis.findings)
    return other if same else analysis


def _parts(finding: Finding, analysis: Analysis) -> Iterator[Finding]:
    imports = tuple(edit for edit in finding.edits if isinstance(edit, AddImport))
    edits = [edit for edit in finding.edits if not isinstance(edit, AddImport)]
    for edit in edits:
        node = edit.first if isinstance(edit, WrapStatements) else next(iter(anchors(edit)))
        yield dataclasses.replace(finding, node=node, message=_told(edit, analysis), edits=(edit, *imports))


def _told(edit: Edit, analysis: Analysis) -> str:
    """The new code, in one line."""
    code = getattr(edit, "code", None) or getattr(edit, "header", None)
    if not isinstance(code, Code):
        return "an edit of `distribute`"
    places = analysis.places
    return " ".join(f"`{code.text.format(*(places.slice(*places.span(hole)) for hole in code.holes))}`".split())


def _of_verbs(rule: Rule) -> Rule:
    """A rule that takes the calls of the runtime back, known as another one."""

    def check(script: Script) -> Iterator[Finding | Skipped]:
        for call in script.find(ast.Call):
            template = UNDONE.get(script.runtime_name(call.func) or "")
            if template == UNDONE["first"] and call.args:
                template = "{0}"
            if template is not None and (call.args or "{0}" not in template):
                holes = (call.args[0],) if "{0}" in template else ()
                place = call.func if template.endswith("save") else call
                yield known.finding(call, f"`{script.source(call)}`", Replace(place, Code(template, holes)))

    known = dataclasses.replace(rule, needles=(b"accel",), function=check)
    return known
