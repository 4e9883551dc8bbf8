"""Comments that tell the tool to leave code alone, and the account of what they silenced.

`# autoaccel: ignore[AA201] reason` on the line of a statement or above it; `# autoaccel: off` … `# autoaccel: on`;
`# autoaccel: file-ignore[AA3]`; `# noqa: AA201`. Without codes they speak of every rule; codes may be prefixes or
names.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from autoaccel.edits import AddDecorator, Comment, Finding, Skipped, WrapStatements
from autoaccel.rewriting.places import Places
from autoaccel.rewriting.plan import touched

if TYPE_CHECKING:
    from autoaccel.rewriting.rule import Rule

_COMMENT = re.compile(
    r"#\s*autoaccel\s*:\s*(?P<word>file-ignore|ignore|off|on)(?![\w-])"
    r"(?:\s*\[(?P<codes>[^\]#]*)\]?|\s*:?\s*(?P<bare>AA[0-9]+(?:[\s,]+AA[0-9]+)*)\b)?"
    r"|#\s*noqa\s*:\s*(?P<noqa>[A-Z]+[0-9]+\b(?:[\s,]+[A-Z]+[0-9]+\b)*)",
    re.IGNORECASE,
)
_SELECTOR = re.compile(r"[\w-]+")
_CODE = re.compile(r"([A-Z]+)([0-9]*)")
# Where the reason of one comment ends and another comment on the line begins: not at `#12`, which is an issue.
_NEXT_COMMENT = re.compile(r"\s+#(?=\s*[A-Za-z%])")

FILE, IGNORE, OFF, ON, NOQA = "file-ignore", "ignore", "off", "on", "noqa"


@dataclass(frozen=True, slots=True)
class Selector:
    """A code, a prefix or a name in a comment, and where it stands in the comment's text."""

    word: str
    start: int
    end: int

    def means(self, rule: Rule) -> bool:
        word = self.word.upper()
        if word == "ALL" or self.word.lower().replace("_", "-") == rule.name:
            return True
        match, code = _CODE.fullmatch(word), _CODE.fullmatch(rule.code)
        # A prefix names the whole family of codes: the `A` of another tool does not speak of AA201.
        return bool(match and code and match[1] == code[1] and code[2].startswith(match[2]))


@dataclass(frozen=True, slots=True)
class Suppression:
    """One suppression: which rules it silences on which lines; `start` and `end` are its place in the comment's text,
    its reason included. `on` silences nothing."""

    kind: str
    comment: Comment
    start: int
    end: int
    selectors: tuple[Selector, ...]
    blanket: bool
    """Whether it speaks of every rule."""
    first: int = 1
    last: int = 0
    above: bool = False
    """Whether it stands on a line of its own, above the statement that it speaks of."""
    closed_by: Suppression | None = None
    """The `on` that ends an `off`."""

    @property
    def line(self) -> int:
        return self.comment.lineno

    @property
    def place(self) -> Comment:
        """Itself, without what else stands in the comment."""
        return self.comment.part(self.start, self.end)

    @property
    def column(self) -> int:
        """From 1, in characters."""
        return self.comment.column + self.start + 1

    def speaking_of(self, rule: Rule) -> list[Selector | None]:
        """Those of its selectors that mean a rule; None stands for all rules."""
        if self.blanket:
            return [None]
        return [each for each in self.selectors if each.means(rule)]

    def covers(self, low: int, high: int) -> bool:
        return self.first <= high and low <= self.last


Mention = tuple[Suppression, Selector | None]
"""A selector of a comment; None for all rules."""


@dataclass(frozen=True, slots=True)
class Account:
    """What the comments of one script did in a run, for rules that judge comments."""

    suppressions: tuple[Suppression, ...]
    used: Set[Mention]
    """What silenced something, or would have under a less exact `--tier`."""
    skipped: Mapping[Mention, Skipped]
    """Where the rule has seen the opportunity, and leaves it alone of its own accord."""
    ran: Set[str]
    """Codes of the rules that had their say on this file."""
    known: tuple[Rule, ...]

    def did_run(self, mention: Mention) -> bool:
        """Whether all that a selector silences by default has run: else nothing can be said about its use."""
        selector = mention[1]
        meant = [rule for rule in self.known if selector is None or selector.means(rule)]
        default = [rule for rule in meant if rule.by_default]
        return bool(meant) and all(rule.code in self.ran for rule in default or meant)


def suppressions(places: Places) -> tuple[Suppression, ...]:
    """The suppressing comments of a text, in order."""
    lowered = places.text.lower()
    if "autoaccel" not in lowered and "noqa" not in lowered:
        return ()
    found: list[Suppression] = []
    switched: list[Suppression] = []
    for each in _written(places):
        match each.kind:
            case "off":
                switched.append(each)
            case "on":
                closed = [other for other in switched if _closes(each, other)]
                switched = [other for other in switched if other not in closed]
                found.extend(replace(other, last=each.line, closed_by=each) for other in closed)
                found.append(each)
            case _:
                found.append(each)
    found.extend(replace(other, last=len(places.lines)) for other in switched)
    return tuple(sorted(found, key=lambda each: (each.line, each.column)))


def account(
    known: Sequence[Suppression],
    places: Places,
    found: Sequence[Finding],
    skipped: Sequence[Skipped],
    ran: Sequence[Rule],
) -> Account:
    """What these comments did about what rules found and skipped."""
    from autoaccel.rewriting import registry

    rules = {rule.code: rule for rule in (*registry.rules(), *ran)}
    used = {mention for each in found for mention in mentions(each, known, places)}
    left = {mention: each for each in skipped for mention in mentions(each, known, places)}
    return Account(tuple(known), used, left, {rule.code for rule in ran}, tuple(rules.values()))


def suppressing(finding: Finding, known: Sequence[Suppression], places: Places) -> Suppression | None:
    """The comment that silences a finding: one beside any statement that the finding speaks of or would edit."""
    return next((each for each, _ in mentions(finding, known, places)), None)


def mentions(said: Finding | Skipped, known: Sequence[Suppression], places: Places) -> list[Mention]:
    """All that comments say about the rule in the places of which a finding speaks, nearest statement first."""
    relevant = [(each, selector) for each in known for selector in each.speaking_of(said.rule)]
    if not relevant:
        return []
    found: dict[Mention, None] = {}
    for low, high in _lines_of(said, places):
        found.update((mention, None) for mention in relevant if mention[0].covers(low, high))
    for low, high in _governed(said) if isinstance(said, Finding) else ():
        found.update(
            ((each, selector), None)
            for each, selector in relevant
            if selector is not None and selector.word.upper() != "ALL" and each.covers(low, high)
        )
    return list(found)


def suppressing_remark(finding: Finding, known: Sequence[Suppression]) -> Suppression | None:
    """The comment that silences a finding about comments; one that speaks of all rules (also as `ALL` or `AA`) does
    not speak of itself."""
    line = getattr(finding.node, "lineno", 1)
    for each in known:
        spoken = each.speaking_of(finding.rule)
        if each.line == line:
            spoken = [selector for selector in spoken if selector is not None and not selector.word.isalpha()]
        if not spoken:
            continue
        if each.covers(line, line) or (each.above and each.line <= line < each.last):
            return each
    return None


def without(comment: Comment, gone: Set[Mention], whole: Set[Suppression], written: Sequence[Suppression]) -> str:
    """The text of a comment less some of its selectors, and less whole suppressions; empty if nothing is left."""
    text = comment.text
    for each in sorted((one for one in written if one.comment is comment), key=lambda one: -one.start):
        lost = {selector for suppression, selector in gone if suppression == each}
        if each in whole or (each.selectors and lost >= set(each.selectors)):
            rest = text[each.end :].lstrip()
            text = text[: each.start] + rest if rest else text[: each.start].rstrip()
        elif lost:
            text = _less(text, each.selectors, lost)
    return text


def _less(text: str, selectors: Sequence[Selector], lost: Set[Selector | None]) -> str:
    """The text without some of its selectors; those that stay keep what separates them from the one before."""
    kept = [each for each in selectors if each not in lost]
    middle = text[kept[0].start : kept[0].end]
    for each in kept[1:]:
        middle += text[selectors[selectors.index(each) - 1].end : each.end]
    return text[: selectors[0].start] + middle + text[selectors[-1].end :]


def _written(places: Places) -> Iterator[Suppression]:
    """Suppressions as they are written, before `on` has ended any `off`."""
    for (line, column), text in places.comments.items():
        matches = list(_COMMENT.finditer(text))
        alone = not places.lines[line - 1][:column].strip()
        if not matches or (alone and matches[0].start() > 0):
            continue  # a comment that was commented out together with its code speaks of nothing
        comment = Comment(text, line, column, places.lines[line - 1])
        for match in matches:
            kind = (match["word"] or NOQA).lower()
            group = next((name for name in ("codes", "bare", "noqa") if match[name] is not None), None)
            inner = match[group] if group else ""
            offset = match.start(group) if group else 0
            selectors = tuple(
                Selector(each[0], offset + each.start(), offset + each.end()) for each in _SELECTOR.finditer(inner)
            )
            following = _NEXT_COMMENT.search(text, match.end())
            end = following.start() if following else len(text)
            above = kind == IGNORE and alone
            first, last = _range(kind, line, _statement_below(places, line) if above else line, len(places.lines))
            yield Suppression(kind, comment, match.start(), end, selectors, group is None, first, last, above)


def _range(kind: str, line: int, target: int, end: int) -> tuple[int, int]:
    match kind:
        case "file-ignore":
            return 1, end
        case "on":
            return 1, 0
        case "off":
            return line, end
        case _:
            return target, target


def _closes(on: Suppression, off: Suppression) -> bool:
    words = {each.word.lower() for each in on.selectors}
    return on.blanket or (not off.blanket and {each.word.lower() for each in off.selectors} <= words)


def _lines_of(said: Finding | Skipped, places: Places) -> Iterator[tuple[int, int]]:
    """The lines of the statements that a finding touches, without the blocks inside them."""
    for node in touched(said) if isinstance(said, Finding) else (said.node,):
        statement = places.statement(node)
        if statement is not None:
            yield places.first_line(statement), _code_end(statement, places)
            if node is not statement and isinstance(node, ast.expr) and node.end_lineno is not None:
                yield node.lineno, node.end_lineno


def _governed(finding: Finding) -> Iterator[tuple[int, int]]:
    """The lines that run otherwise because of what stands around them; a comment there that names the rule means it."""
    for edit in finding.edits:
        if isinstance(edit, AddDecorator):
            yield edit.function.lineno, edit.function.end_lineno or edit.function.lineno
        elif isinstance(edit, WrapStatements):
            yield edit.first.lineno, edit.last.end_lineno or edit.last.lineno


def _code_end(statement: ast.stmt, places: Places) -> int:
    """The last line of a statement without its blocks, and without the comments above the first of them."""
    line = places.header_end(statement)
    while line > statement.lineno and _is_no_code(places.lines[line - 1]):
        line -= 1
    return line


def _is_no_code(line: str) -> bool:
    text = line.strip()
    return not text or text.startswith("#")


def _statement_below(places: Places, line: int) -> int:
    """The line of the statement below a comment; comments and blank lines may come between."""
    for number in range(line + 1, len(places.lines) + 1):
        if not _is_no_code(places.lines[number - 1]):
            return number
    return line
