"""`rewrite --interactive`: each finding with its own diff, and the user's word on it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from autoaccel.cli.terminal import Terminal, colour_diff
from autoaccel.notebooks.cells import cells
from autoaccel.reports import diff
from autoaccel.sources import Source

if TYPE_CHECKING:
    from autoaccel.edits import Finding
    from autoaccel.rewriting.engine import Analysis

HELP = (
    "y: apply this change; n: leave it; a: apply it and all that follow in this file; q: leave it and all that follow"
)


class Chooser:
    """Asks about findings, file by file, until the user has heard enough."""

    def __init__(self, terminal: Terminal) -> None:
        self.terminal = terminal
        self.stopped = False
        self.declined = 0
        """How many findings the user did not want, those that were not shown any more included."""

    def choose(self, analysis: Analysis, name: Path, source: Source) -> list[Finding]:
        """The findings that the user accepts. One that needs a declined one is not offered."""
        from autoaccel.edits import CannotApplyError
        from autoaccel.rewriting.engine import apply

        accepted: list[Finding] = []
        text = analysis.places.text
        everything = False
        for finding in analysis.findings:
            if self.stopped or any(need not in accepted for need in finding.needs):
                self.declined += 1
                continue
            try:
                after = apply(analysis, [*accepted, finding])
            except CannotApplyError:
                continue
            if not everything:
                self._show(finding, name, diff.of_source(source, text, after, name.as_posix()), text)
                answer = self._answer()
                everything = answer == "a"
                self.stopped = answer == "q"
                if answer in ("n", "q"):
                    self.declined += 1
                    continue
            accepted.append(finding)
            text = after
        return accepted

    def _show(self, finding: Finding, name: Path, patch: str, text: str) -> None:
        colour = self.terminal.colour_err
        click.echo(colour_diff(patch) if colour else patch, err=True, nl=False, color=colour)
        place = click.style(f"{name}:{_line(finding, text)}:", bold=True)
        rule = click.style(f"{finding.rule.code} {finding.rule.name}", fg="green")
        click.echo(f"{place} {rule}: {finding.message} [{finding.tier.label}]", err=True, color=colour)

    def _answer(self) -> str:
        while True:
            question = click.style("Apply this change [y,n,a,q,?]? ", fg="cyan")
            click.echo(question, err=True, nl=False, color=self.terminal.colour_err)
            line = sys.stdin.readline()
            if not line:
                click.echo(err=True)
                return "q"
            answer = line.strip().lower()[:1]
            if answer in ("y", "n", "a", "q"):
                return answer
            click.echo(HELP, err=True)


def _line(finding: Finding, text: str) -> str:
    line = getattr(finding.node, "lineno", 1)
    notebook = cells(text)
    return str(line) if notebook is None else "cell {}:{}".format(*notebook.at(line))
