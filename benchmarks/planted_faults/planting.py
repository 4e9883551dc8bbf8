"""Wrong findings: a finding of a rule whose edits are altered, or one of a rule that nobody should write.

A fault is planted into what the rules said about one file, so everything after that (plans, subsets, bisection) works
on it as on a finding of a real rule.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from autoaccel.edits import (
    AddArguments,
    AddDecorator,
    AddImport,
    Code,
    Edit,
    Finding,
    InsertAfter,
    InsertBefore,
    Replace,
    Tier,
    WrapStatements,
)
from autoaccel.rewriting import registry
from autoaccel.rewriting.engine import Analysis
from autoaccel.rewriting.plan import codes, plan
from autoaccel.rewriting.rule import Rule

_Node = TypeVar("_Node", bound=ast.AST)


def alone(path: Path) -> Path:
    """Where a script has nothing to do with the repository that it is kept in."""
    return Path("/planted", path.name)


class UnplantableError(Exception):
    """A fault does not fit the script, or no longer does; the message says what was looked for."""


@dataclass(frozen=True, slots=True)
class Scene:
    """What the rules said about one file, and the ways to speak of its places: by their source text."""

    analysis: Analysis

    def finding(self, code: str, text: str = "", nth: int = 0) -> Finding:
        """The finding of a rule whose statement contains `text`."""
        found = [
            each for each in self.analysis.findings if each.rule.code == code and text in self.statement_text(each.node)
        ]
        if len(found) <= nth:
            raise UnplantableError(f"no finding of {code} at {text!r}")
        return found[nth]

    def rule(self, code: str) -> Rule:
        """A rule, whether or not it has something to say here."""
        return next(each for each in registry.rules() if each.code == code)

    def statement(self, text: str, nth: int = 0) -> ast.stmt:
        """A statement by the beginning of its text."""
        every = [node for node in ast.walk(self._tree) if isinstance(node, ast.stmt)]
        every.sort(key=lambda node: (node.lineno, node.col_offset))
        return self._only([node for node in every if self.source(node).startswith(text)], text, nth)

    def expression(self, text: str, nth: int = 0) -> ast.expr:
        """An expression by its whole text."""
        every = [node for node in ast.walk(self._tree) if isinstance(node, ast.expr)]
        every.sort(key=lambda node: (node.lineno, node.col_offset))
        return self._only([node for node in every if self.source(node) == text], text, nth)

    def call(self, text: str, nth: int = 0) -> ast.Call:
        node = self.expression(text, nth)
        assert isinstance(node, ast.Call)
        return node

    def function(self, name: str) -> ast.FunctionDef:
        for node in ast.walk(self._tree):
            if isinstance(node, ast.FunctionDef) and node.name == name:
                return node
        raise UnplantableError(f"no function {name}")

    def source(self, node: ast.stmt | ast.expr) -> str:
        return self.analysis.places.slice(*self.analysis.places.span(node))

    def statement_text(self, node: ast.AST) -> str:
        statement = node if isinstance(node, ast.stmt) else self.analysis.places.statement(node)
        return "" if statement is None else self.source(statement)

    @property
    def _tree(self) -> ast.Module:
        return self.analysis.places.tree

    @staticmethod
    def _only(found: list[_Node], text: str, nth: int) -> _Node:
        if len(found) <= nth:
            raise UnplantableError(f"nothing reads {text!r}")
        return found[nth]

    def spelled(self, edit: Edit) -> str:
        """The new code of an edit, with the file's own in its holes."""
        return "\n".join(code.text.format(*(self.source(hole) for hole in code.holes)) for code in codes(edit))


@dataclass(frozen=True, slots=True)
class Planted:
    """A wrong finding, and the right one whose place it takes, if there is one."""

    wrong: Finding
    right: Finding | None = None


# -- ways to be wrong


def without(scene: Scene, finding: Finding, *texts: str) -> Planted:
    """The finding less the edits whose code contains one of these texts; each text must be there."""
    for text in texts:
        if not any(text in scene.spelled(edit) for edit in finding.edits):
            raise UnplantableError(f"no edit with {text!r}")
    kept = [edit for edit in finding.edits if not any(text in scene.spelled(edit) for text in texts)]
    return Planted(replace(finding, edits=tuple(kept)), finding)


def reworded(finding: Finding, old: str, new: str) -> Planted:
    """The finding with other words in its new code (holes are not looked into)."""
    edits = tuple(_reworded(edit, old, new) for edit in finding.edits)
    if all(ours is theirs for ours, theirs in zip(edits, finding.edits, strict=True)):
        raise UnplantableError(f"no edit reads {old!r}")
    return Planted(replace(finding, edits=edits), finding)


def _reworded(edit: Edit, old: str, new: str) -> Edit:
    match edit:
        case Replace() | InsertBefore() | InsertAfter() | AddDecorator() if old in edit.code.text:
            return replace(edit, code=_other(edit.code, old, new))
        case WrapStatements() if old in edit.header.text:
            return replace(edit, header=_other(edit.header, old, new))
        case AddArguments() if any(old in code.text for _, code in edit.arguments):
            return replace(edit, arguments=tuple((name, _other(code, old, new)) for name, code in edit.arguments))
        case _:
            return edit


def _other(code: Code, old: str, new: str) -> Code:
    return Code(code.text.replace(old, new), code.holes)


def instead(finding: Finding, *edits: Edit) -> Planted:
    """The finding with other edits; imports stay."""
    imports = tuple(edit for edit in finding.edits if isinstance(edit, AddImport))
    return Planted(replace(finding, edits=(*imports, *edits)), finding)


def also(planted: Planted | Finding, *edits: Edit) -> Planted:
    """With further edits."""
    if isinstance(planted, Finding):
        planted = Planted(planted, planted)
    return Planted(replace(planted.wrong, edits=(*planted.wrong.edits, *edits)), planted.right)


def made_up(rule: Rule, node: ast.AST, message: str, *edits: Edit, tier: Tier | None = None) -> Planted:
    """A finding where the rule has none."""
    return Planted(rule.finding(node, message, *edits, tier=tier))


RUNTIME = AddImport("autoaccel", "runtime", "accel")


def plant(analysis: Analysis, fault: Callable[[Scene], Planted]) -> tuple[Analysis, Finding]:
    """The analysis with the fault in it, and the wrong finding. Raises `UnplantableError`."""
    planted = fault(Scene(analysis))
    settled = plan(list(_findings(analysis, planted)), analysis.places)
    if settled.skipped:
        lost = "; ".join(f"{each.rule.code}: {each.reason}" for each in settled.skipped)
        raise UnplantableError(f"it does not go with what was found: {lost}")
    return replace(analysis, findings=settled.findings), planted.wrong


def _findings(analysis: Analysis, planted: Planted) -> Iterator[Finding]:
    """In the order of before, the wrong one in the place of the right one or first; what needed that one needs it."""
    new: dict[Finding, Finding] = {}
    if planted.right is None:
        yield planted.wrong
    else:
        new[planted.right] = planted.wrong
    for each in analysis.findings:
        if each not in new and any(need in new for need in each.needs):
            new[each] = replace(each, needs=tuple(new.get(need, need) for need in each.needs))
        yield new.get(each, each)
