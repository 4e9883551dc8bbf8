"""What lies between two versions of a script: hunks of their difference, any of which can be left out.

What belongs together is one hunk: a function whose parameters change with its calls, a name with its uses.
"""

from __future__ import annotations

import ast
import difflib
import re
import subprocess
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType

from autoaccel import sources
from autoaccel.dataflow.syntax_index import split_lines
from autoaccel.edits import Tier
from autoaccel.measure.changes import HUNK, Change, Changes, Lines, bodies, known_as, spans
from autoaccel.measure.observing.coverage import lines_of
from autoaccel.rewriting.places import Places
from autoaccel.rewriting.record import Range, Record

_WORD = re.compile(r"[A-Za-z_]\w*")
_BOUND = re.compile(
    r"\b(?:def|class|as|import|for|global|nonlocal)\s+([A-Za-z_]\w*)|^\s*([A-Za-z_]\w*(?:\s*,\s*[A-Za-z_]\w*)*)\s*=[^=]"
    r"|,\s*([A-Za-z_]\w*)\s+in\b|\bimport\s+\w+\s*,\s*(.*)$"
)
_ATTRIBUTE = re.compile(r"\.[A-Za-z_]\w*")
_ATTRIBUTE_BOUND = re.compile(
    r"^[ \t]*\w+\.([A-Za-z_]\w*)[ \t]*=[^=]|\b(?:register_(?:buffer|parameter|module)|add_module)\(\s*[\"'](\w+)[\"']",
    re.MULTILINE,
)
_SIGNATURE = re.compile(r"\bdef\s+([A-Za-z_]\w*)\s*\(")
_SHOWN = 60  # characters of a line in a message

TextOf = Callable[[Path], "str | None"]
"""The text of a file in the other version; None where it has no such file. Raises `SourceError`."""


class NoVersionError(ValueError):
    """There is no such version; the message is one line."""


@dataclass(frozen=True, slots=True)
class _Piece:
    """Lines of one file that are others in the other version: those from `start` to `end`, counted from 0."""

    path: Path
    start: int
    end: int
    old: tuple[str, ...]
    new: tuple[str, ...]
    first: int
    """Where the new lines begin in the other version."""


_Pieces = tuple[_Piece, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Hunk(Change):
    """Pieces that make sense only together."""

    pieces: _Pieces


@dataclass(frozen=True, slots=True)
class Versions(Changes):
    """What makes the other version of the one that is on disk."""

    lines: Mapping[Path, Sequence[str]] = field(default_factory=dict)
    """Of the files on disk."""
    required: Mapping[Change, tuple[Change, ...]] = field(default_factory=dict)
    name: str = ""
    """What the other version is called."""

    def texts(self, chosen: Collection[Change] | None = None) -> dict[str, str]:
        pieces = self._pieces(chosen)
        paths = dict.fromkeys(each.path for each in pieces)
        return {str(path): _applied(self.lines[path], [each for each in pieces if each.path == path]) for path in paths}

    def _pieces(self, chosen: Collection[Change] | None) -> _Pieces:
        hunks = (each for each in self.all if isinstance(each, Hunk) and (chosen is None or each in chosen))
        return tuple(piece for each in hunks for piece in each.pieces)

    def idle(
        self,
        change: Change,
        chosen: Collection[Change],
        before: Mapping[str, Collection[int]],
        after: Mapping[str, Collection[int]] | None,
    ) -> tuple[str, ...]:
        found = list(Changes.idle(self, change, chosen, before, after))
        texts = self.texts(chosen)
        if after is None or not isinstance(change, Hunk):
            return tuple(found)
        for piece in change.pieces:
            path, start = str(piece.path), self._start(piece, chosen)
            name = self.name if Path(self.name).is_file() else f"{self.name}:{known_as(piece.path)}"
            idle = runnable(texts[path], path).difference(after.get(path, ()))
            found += spans(name, (line + piece.first - start for line in idle.intersection(_lines(piece, start))))
        return tuple(found)

    def lead_on(self, chosen: Collection[Change]) -> bool:
        texts = self.texts(chosen)
        trees = {path: ast.parse(text) for path, text in texts.items()}
        return any(
            not new.isdisjoint(range(body[0].lineno, (body[-1].end_lineno or 0) + 1))
            for piece in self._pieces(chosen)
            for new in [set(_lines(piece, self._start(piece, chosen)))]
            for each in ast.walk(trees[str(piece.path)])
            if isinstance(body := getattr(each, "body", None), list) and getattr(each, "lineno", 0) in new
        )

    def _start(self, piece: _Piece, chosen: Collection[Change]) -> int:
        """Where its new lines begin, counted from 0, if the chosen changes are made."""
        earlier = [each for each in self._pieces(chosen) if each.path == piece.path and each.start < piece.start]
        return piece.start + sum(len(each.new) - len(each.old) for each in earlier)

    def needs(self, change: Change) -> tuple[Change, ...]:
        return self.required.get(change, ())


def in_file(script: Path, other: Path) -> TextOf:
    """Another file in the place of the script; all other files are the same."""
    script, text = script.resolve(), sources.read(other).text
    return lambda path: text if path == script else sources.read(path).text


def in_revision(script: Path, revision: str) -> TextOf:
    """The files as git has them in a revision. Raises `NoVersionError`."""

    def text_of(path: Path) -> str | None:
        shown = _git(path.parent, "show", f"{revision}:./{path.name}")
        return None if shown is None else sources.decode(shown, f"{revision}:{known_as(path)}").text

    folder = script.resolve().parent
    if _git(folder, "rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}") is None:
        raise NoVersionError(f"{revision}: neither a file nor a revision that git knows")
    if text_of(script.resolve()) is None:
        raise NoVersionError(f"{script}: is not in {revision}")
    return text_of


def _git(folder: Path, *arguments: str) -> bytes | None:
    try:
        done = subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, check=False)
    except OSError:
        return None
    return done.stdout if done.returncode == 0 else None


def between(paths: Iterable[Path], text_of: TextOf, name: str) -> Versions:
    """What is to be changed in these files to get the other version, which is called `name`. Raises `SourceError`."""
    places: dict[Path, Places] = {}
    problems: list[str] = []
    groups: list[_Pieces] = []
    layout = 0
    for path in dict.fromkeys(each.resolve() for each in paths):
        other, here = text_of(path), sources.read(path).text
        if other is None:
            problems.append(f"{known_as(path)} is not in {name}, and stays as it is")
            continue
        if split_lines(other) == split_lines(here):
            continue
        if (wrong := _unparsable(other)) is not None:
            raise sources.SourceError(f"{name}:{wrong.lineno}: cannot parse {path.name}: {wrong.msg}")
        places[path] = Places(here, ast.parse(here))
        found = list(_parsable(places[path].lines, list(_pieces(path, places[path].lines, split_lines(other)))))
        groups += (each for each in found if not _is_layout(places[path].lines, each))
        layout += sum(_is_layout(places[path].lines, each) for each in found)
    if layout:
        problems.append(f"{layout} more {'hunks change' if layout > 1 else 'hunk changes'} comments or layout alone")
    hunks, required = _together(groups, places, name)
    lines = {path: each.lines for path, each in places.items()}
    return Versions(hunks, (), tuple(problems), (), lines, required, name)


def _lines(piece: _Piece, start: int) -> range:
    """Its new lines, where they begin after so many others."""
    return range(start + 1, start + len(piece.new) + 1)


def runnable(text: str, path: str) -> set[int]:
    """The lines of a text that a run may come to."""
    found: set[int] = set()
    pending = [compile(text, path, "exec", dont_inherit=True)]
    while pending:
        code = pending.pop()
        found |= lines_of(code)
        pending += [each for each in code.co_consts if isinstance(each, CodeType)]
    return found


# -- pieces


def _pieces(path: Path, old: Sequence[str], new: Sequence[str]) -> Iterator[_Piece]:
    for tag, start, end, first, last in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag != "equal":
            yield _Piece(path, start, end, tuple(old[start:end]), tuple(new[first:last]), first)


def _parsable(lines: Sequence[str], pieces: Sequence[_Piece]) -> Iterator[_Pieces]:
    """Runs of pieces that can be applied alone and after all before them: `if x:` goes with what it indents."""
    done: list[_Piece] = []
    pending: _Pieces = ()
    for piece in pieces:
        pending = (*pending, piece)
        if all(_unparsable(_applied(lines, each)) is None for each in (pending, (*done, *pending))):
            yield pending
            done += pending
            pending = ()
    assert not pending, "all together are the other version"


def _applied(lines: Sequence[str], pieces: Iterable[_Piece]) -> str:
    found = list(lines)
    for each in sorted(pieces, key=lambda piece: -piece.start):
        found[each.start : each.end] = each.new
    return "\n".join(found)


def _unparsable(text: str) -> SyntaxError | None:
    try:
        ast.parse(text)
    except SyntaxError as error:
        return error
    return None


def _is_layout(lines: Sequence[str], pieces: _Pieces) -> bool:
    """Whether nothing but comments and the arrangement of lines is changed."""
    return ast.dump(ast.parse(_applied(lines, pieces))) == ast.dump(ast.parse("\n".join(lines)))


# -- what belongs together


def _together(
    groups: Sequence[_Pieces], places: Mapping[Path, Places], name: str
) -> tuple[tuple[Hunk, ...], dict[Change, tuple[Change, ...]]]:
    """Hunks, each after those that it needs; pieces that need one another are one hunk."""
    words = [_HunkWords(each) for each in groups]
    needs = {at: {to for to in range(len(groups)) if to != at and one.needs(words[to])} for at, one in enumerate(words)}
    reached = {at: _reachable(at, needs) for at in needs}
    sets = dict.fromkeys(frozenset({at, *(to for to in reached[at] if at in reached[to])}) for at in needs)
    made = {each: _hunk(tuple(piece for at in sorted(each) for piece in groups[at]), places, name) for each in sets}
    required: dict[Change, tuple[Change, ...]] = {}
    placed: dict[frozenset[int], None] = {}

    def place(members: frozenset[int]) -> None:
        below = [each for each in sets if each != members and any(each <= reached[at] for at in members)]
        for each in below:
            if each not in placed:
                place(each)
        placed.setdefault(members)
        required[made[members]] = tuple(made[each] for each in placed if each in below)

    for each in sets:
        place(each)
    return tuple(made[each] for each in placed), required


def _reachable(start: int, edges: Mapping[int, set[int]]) -> set[int]:
    found: set[int] = set()
    pending = [start]
    while pending:
        fresh = edges[pending.pop()] - found
        found |= fresh
        pending.extend(fresh)
    return found


class _HunkWords:
    """What a run of pieces binds and uses, before and after, as far as words tell."""

    def __init__(self, pieces: _Pieces) -> None:
        old, new = ([line for each in pieces for line in each.old], [line for each in pieces for line in each.new])
        self._old, self._new = _words(old), _words(new)
        self._unbound, self._bound = _bound(old) - _bound(new), _bound(new) - _bound(old)
        self._gone, self._come = _statements_in(old) - _statements_in(new), _statements_in(new) - _statements_in(old)
        signatures = [{line.strip() for line in side if _SIGNATURE.search(line)} for side in (old, new)]
        self._signatures = {found[1] for line in signatures[0] ^ signatures[1] if (found := _SIGNATURE.search(line))}

    def needs(self, other: _HunkWords) -> bool:
        """Whether it makes no sense without the other: it uses what that binds, or takes away what that still uses."""
        uses = not (self._new - self._old).isdisjoint(other._bound)
        takes_away = not self._unbound.isdisjoint(other._old - other._new)
        calls = not other._signatures.isdisjoint(self._new) or not self._signatures.isdisjoint(other._new)
        moved = not self._gone.isdisjoint(other._come) or not self._come.isdisjoint(other._gone)
        return uses or takes_away or calls or moved


def _words(lines: Iterable[str]) -> set[str]:
    """Names, and attributes with their dot, too: a variable may have the name of one."""
    code = [line.partition("#")[0] for line in lines]
    return {word for line in code for kind in (_WORD, _ATTRIBUTE) for word in kind.findall(line)}


def _statements_in(lines: Iterable[str]) -> set[str]:
    """Lines that do something, wherever they stand: what is gone here and has come there was moved."""
    stripped = (line.partition("#")[0].strip() for line in lines)
    return {each for each in stripped if "(" in each or "=" in each}


def _bound(lines: Sequence[str]) -> set[str]:
    attributes = _ATTRIBUTE_BOUND.findall("\n".join(lines))
    found = {f".{name}" for names in attributes for name in names if name}
    for line in lines:
        code = line.partition("#")[0]
        groups = [group for match in _BOUND.finditer(code) for group in match.groups() if group]
        groups += [code.partition("(")[2]] if _SIGNATURE.search(code) else []
        found.update(word for group in groups for word in _WORD.findall(group))
    return found


def _hunk(pieces: _Pieces, places: Mapping[Path, Places], name: str) -> Hunk:
    first = pieces[0]
    own = [each for each in pieces if each.path == first.path]
    old, new = (next((line.strip() for line in side if line.strip()), "") for side in (first.old, first.new))
    message = f"`{old[:_SHOWN]}` is `{new[:_SHOWN]}` in {name}"
    if not old or not new:
        message = f"`{old[:_SHOWN]}` is not in {name}" if old else f"{name} has `{new[:_SHOWN]}`"
    where = Range(first.start + 1, 1, max(first.end, first.start + 1) + 1, 1)
    witnesses = dict.fromkeys(lines for each in own for lines in _witnesses(each, places[each.path]))
    record = Record(HUNK, f"of {name}", Tier.EQUIVALENT.label, message, where)
    edited = [each for piece in own for each in _touched(piece, places[piece.path])]
    known = bodies(edited, places[first.path])
    return Hunk(first.path, record, Tier.EQUIVALENT, tuple(witnesses), pieces, bodies=known)


def _witnesses(piece: _Piece, places: Places) -> Iterator[Lines]:
    """The statements that a piece changes; where it only adds some, the one beside them in their block."""
    statements = [(each.lineno, places.header_end(each)) for each in _statements(places)]
    touched = sorted((each.lineno, places.header_end(each)) for each in _touched(piece, places))
    if touched:
        yield from touched
        return
    added = next((line for line in piece.new if line.strip()), "")
    depth = len(added) - len(added.lstrip())
    before = [each for each in statements if each[1] <= piece.start]
    after = [each for each in statements if each[0] > piece.start]
    beside = [*([max(before)] if before else []), *([min(after)] if after else [])]
    alike = [each for each in beside if _depth(places.lines[each[0] - 1]) == depth]
    yield from (alike or beside)[:1]


def _statements(places: Places) -> Iterator[ast.stmt]:
    return (each for each in ast.walk(places.tree) if isinstance(each, ast.stmt))


def _touched(piece: _Piece, places: Places) -> Iterator[ast.stmt]:
    """The statements whose lines, or those of their headers, are others or gone."""
    for each in _statements(places) if piece.old else ():
        if each.lineno <= piece.end and places.header_end(each) > piece.start:
            yield each


def _depth(line: str) -> int:
    return len(line) - len(line.lstrip())
