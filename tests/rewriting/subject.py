"""A text with the means to edit it in a test: nodes by their source, findings of toy rules, plan, apply, self-check."""

from __future__ import annotations

import ast
from typing import TypeVar

from autoaccel.edits import Edit, Finding, Tier
from autoaccel.rewriting import check
from autoaccel.rewriting.apply import apply
from autoaccel.rewriting.places import Places
from autoaccel.rewriting.plan import Plan, plan
from autoaccel.rewriting.rule import Rule


def toy(code: str = "AA001", tier: Tier = Tier.EXACT) -> Rule:
    return Rule(code=code, name=f"toy-{code.lower()}", tier=tier, needles=())


Node = TypeVar("Node", ast.expr, ast.stmt)


class Subject:
    """One text under edit."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.places = Places(text, ast.parse(text))

    def expr(self, source: str, nth: int = 0) -> ast.expr:
        """The nth expression with this source, in source order, outermost first."""
        found = [node for node in self._nodes(ast.expr) if self._source(node) == source]
        return found[nth]

    def call(self, source: str) -> ast.Call:
        node = self.expr(source)
        assert isinstance(node, ast.Call)
        return node

    def stmt(self, start: str, nth: int = 0) -> ast.stmt:
        """The nth statement whose source begins like this."""
        found = [node for node in self._nodes(ast.stmt) if self._source(node).startswith(start)]
        return found[nth]

    def finding(self, *edits: Edit, code: str = "AA001", needs: tuple[Finding, ...] = ()) -> Finding:
        node = next(iter(self.places.tree.body), self.places.tree)
        return toy(code).finding(node, "toy", *edits, needs=needs)

    def plan(self, *findings: Finding) -> Plan:
        return plan(findings, self.places)

    def refusals(self, *findings: Finding) -> list[str]:
        return [skipped.reason for skipped in self.plan(*findings).skipped]

    def edit(self, *edits: Edit) -> str:
        """The text with edits that must not conflict, each made by a finding of its own."""
        return self.rewritten(*(self.finding(edit, code=f"AA{number:03}") for number, edit in enumerate(edits)))

    def rewritten(self, *findings: Finding) -> str:
        planned = self.plan(*findings)
        assert not planned.skipped, [skipped.reason for skipped in planned.skipped]
        after = apply(self.places, planned.findings)
        assert check.problem(self.places, planned.findings, after) is None, after
        return after

    def _nodes(self, kind: type[Node]) -> list[Node]:
        nodes = [node for node in ast.walk(self.places.tree) if isinstance(node, kind)]
        return sorted(nodes, key=lambda node: (self.places.start(node), [-part for part in self.places.end(node)]))

    def _source(self, node: ast.expr | ast.stmt) -> str:
        return self.places.slice(*self.places.span(node))
