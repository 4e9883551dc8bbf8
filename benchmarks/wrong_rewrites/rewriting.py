"""The rewritten forms of a program, all of whose files lie in memory."""

from __future__ import annotations

import ast
import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from autoaccel.analysis import Project
from autoaccel.edits import Tier
from autoaccel.rewriting import engine, registry
from autoaccel.rewriting.rule import Rule

_FOLDER = Path("/wrong-rewrites")
RULES = tuple(rule for rule in registry.rules() if rule.tier is not Tier.OPT_IN)
"""What is looked at: opt-in rules change what a program computes, and are meant to."""

Texts = Mapping[str, str]


@dataclass(slots=True)
class Forms:
    """A program rewritten."""

    exact: dict[str, str]
    default: dict[str, str]
    fired: Counter[str] = field(default_factory=Counter)
    """Findings by rule."""
    declined: Counter[str] = field(default_factory=Counter)
    rounds: bool = False
    """Whether what it does without the runtime is computed in another order: an evaluation of a layer that has another
    kernel where no gradients are recorded (`nn.LSTM` on a CPU), which AA501 says to be equivalent."""
    problems: list[str] = field(default_factory=list)
    """What is wrong with the rewrite as a text."""

    @property
    def low(self) -> bool:
        """Whether anything may be computed in low precision."""
        return any("accel.autocast" in text for text in self.default.values())


def default_form(texts: Texts, rules: Sequence[Rule] | None = None, *, backwards: bool = False) -> dict[str, str]:
    """What `autoaccel rewrite` makes of the files of a program; the order of files and rules must not matter."""
    rules = list(rules or RULES)
    paths = {_FOLDER / name: text for name, text in texts.items()}
    if backwards:
        rules.reverse()
        paths = dict(reversed(paths.items()))
    project = Project(paths, paths)
    found = {}
    for path, text in paths.items():
        result = engine.rewrite(text, path, rules, project=project.fresh())
        found[str(path.relative_to(_FOLDER))] = "\n".join(result.errors) if result.errors else result.after
    return {name: found[name] for name in texts}


def digest(texts: Texts) -> str:
    return hashlib.sha256(repr(sorted(texts.items())).encode()).hexdigest()


def forms(texts: Texts, rules: Sequence[Rule] | None = None, *, thorough: bool = True, exact: bool = True) -> Forms:
    """Both forms, with everything that is looked at in the text.

    `thorough` asks for a second rewrite: the engine itself looks at each file again as long as the others are as they
    were. Without `exact`, that form is the program itself where it would be another than the default one.
    """
    rules = list(rules or RULES)
    paths = {_FOLDER / name: text for name, text in texts.items()}
    project = Project(paths, paths)
    made = Forms({}, {})
    for path, text in paths.items():
        name = str(path.relative_to(_FOLDER))
        result = engine.rewrite(text, path, rules, project=project.fresh())
        made.problems += result.errors
        made.fired.update(record.code for record in result.applied)
        made.declined.update(record.code for record in result.skipped)
        made.rounds |= any(record.code == "AA501" and record.tier != Tier.EXACT.label for record in result.applied)
        made.default[name] = made.exact[name] = result.after
        if any(record.tier != Tier.EXACT.label for record in result.applied):
            made.exact[name] = text
            if not exact:
                continue
            partly = engine.rewrite(text, path, rules, tier=Tier.EXACT, project=project.fresh())
            made.problems += partly.errors
            made.exact[name] = partly.after
        for after in {made.default[name], made.exact[name]}:
            try:
                ast.parse(after)
            except SyntaxError as error:
                made.problems.append(f"{name} does not parse: {error}")
    if thorough and made.default != dict(texts) and not made.problems:
        again = default_form(made.default, rules)
        made.problems += [f"a second rewrite changes {name}" for name in texts if again[name] != made.default[name]]
    return made
