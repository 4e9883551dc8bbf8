"""Comments that tell the tool to leave code alone.

`# autoaccel: ignore[AA201] reason` on the line of a statement or above it; `# autoaccel: off` … `# autoaccel: on`;
`# autoaccel: file-ignore[AA3]`; `# noqa: AA201`. Without codes they speak of every rule; codes may be prefixes or
names.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from autoaccel.rewriting.finding import Finding
from autoaccel.rewriting.places import Places
from autoaccel.rewriting.plan import touched

_COMMENT = re.compile(
    r"#\s*autoaccel\s*:\s*(?P<word>file-ignore|ignore|off|on)\b\s*(?:\[(?P<codes>[^\]]*)\])?"
    r"|#\s*noqa\s*:\s*(?P<noqa>[A-Za-z]+[0-9]+(?:[\s,]+[A-Za-z]+[0-9]+)*)",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Suppression:
    """One comment: which rules it silences (empty: all) on which lines. `line` and `column` (from 1) are its place."""

    line: int
    column: int
    selectors: tuple[str, ...]
    first: int
    last: int
    above: bool = False
    """Whether it stands on a line of its own, above the statement that it speaks of."""

    def names(self, finding: Finding) -> bool:
        rule = finding.rule
        return not self.selectors or any(
            rule.code.startswith(selector.upper()) or selector.lower() == rule.name for selector in self.selectors
        )


def suppressions(places: Places) -> tuple[Suppression, ...]:
    """The suppressing comments of a text, in order."""
    lowered = places.text.lower()
    if "autoaccel" not in lowered and "noqa" not in lowered:
        return ()
    found: list[Suppression] = []
    switched: tuple[int, int, tuple[str, ...]] | None = None
    for (line, column), comment in places.comments.items():
        for match in _COMMENT.finditer(comment):
            word = (match["word"] or "noqa").lower()
            selectors = tuple(re.findall(r"[\w-]+", match["codes"] or match["noqa"] or ""))
            place = line, column + match.start() + 1
            if word == "on":
                if switched is not None:
                    found.append(Suppression(*switched[:2], switched[2], switched[0], line))
                switched = None
            elif word == "off":
                switched = switched or (*place, selectors)
            elif word == "file-ignore":
                found.append(Suppression(*place, selectors, 1, len(places.lines)))
            else:
                above = word == "ignore" and not places.lines[line - 1][:column].strip()
                found.append(
                    Suppression(*place, selectors, line, _statement_below(places, line) if above else line, above)
                )
    if switched is not None:
        found.append(Suppression(*switched[:2], switched[2], switched[0], len(places.lines)))
    return tuple(sorted(found, key=lambda each: (each.line, each.column)))


def suppressing(finding: Finding, known: tuple[Suppression, ...], places: Places) -> Suppression | None:
    """The comment that silences a finding: one beside any statement that the finding speaks of or would edit."""
    relevant = [each for each in known if each.names(finding)]
    if not relevant:
        return None
    for low, high in _lines_of(finding, places):
        for each in relevant:
            if each.first <= high and low <= each.last:
                return each
    return None


def _lines_of(finding: Finding, places: Places) -> Iterator[tuple[int, int]]:
    """The lines of the statements that a finding touches, without the blocks inside them."""
    for node in touched(finding):
        statement = places.statement(node)
        if statement is not None:
            yield places.first_line(statement), places.header_end(statement)
            if node is not statement and isinstance(node, ast.expr) and node.end_lineno is not None:
                yield node.lineno, node.end_lineno


def _statement_below(places: Places, line: int) -> int:
    """The line of the statement below a comment; comments and blank lines may come between."""
    for number in range(line + 1, len(places.lines) + 1):
        text = places.lines[number - 1].strip()
        if text and not text.startswith("#"):
            return number
    return line
