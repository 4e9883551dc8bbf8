"""Files that two runs write: which, and what is in them, as far as equal runs agree on it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from autoaccel.measure.changes import known_as
from autoaccel.measure.observing.run_record import KERNELS, RunRecord, Written
from autoaccel.measure.verifying import printed
from autoaccel.measure.verifying.facts import Difference
from autoaccel.measure.verifying.leeway import EXACTLY, Leeway
from autoaccel.measure.verifying.printed import Masks

# By which kernels an optimizer updates may be decided at run time.
_UNCOMPARED = re.compile(rf"\.({'|'.join(KERNELS)}): (?:bool|NoneType)$")
# Compared like a text that the script writes.
_STDERR = "stderr"


@dataclass(frozen=True, slots=True)
class SteadyFiles:
    """What of the files of equal runs repeats itself."""

    names: bool = False
    """Whether they write the same files."""
    alike: Mapping[str, Masks] = field(default_factory=dict)
    """Files with the same contents, by path; of texts the words that vary, of lines that are alike but for them."""

    def merged(self, other: SteadyFiles) -> SteadyFiles:
        """What repeats itself in both."""
        alike = {path: self.alike[path].joined(other.alike[path]) for path in self.alike if path in other.alike}
        return SteadyFiles(self.names and other.names, alike)


def steady(runs: Sequence[RunRecord]) -> SteadyFiles:
    """What runs that should be equal agree on."""
    tables = [_by_path(run) for run in runs]
    first = tables[0]
    alike: dict[str, Masks] = {}
    for path, written in first.items():
        others = [table[path] for table in tables if path in table]
        if len(others) == len(tables) and (masks := _masks(written, others)) is not None:
            alike[path] = masks
    return SteadyFiles(all(table.keys() == first.keys() for table in tables), alike)


def differences(
    known: SteadyFiles, before: RunRecord, after: RunRecord, leeway: Leeway = EXACTLY
) -> Iterator[Difference]:
    """Files that only one of two runs writes, and the first thing in each other one that is not as it was."""
    expected, found = _by_path(before), _by_path(after)
    for path in dict.fromkeys((*expected, *found)):
        name = known_as(Path(path))
        if path not in found:
            if known.names or path in known.alike:
                yield Difference("file", f"{name} is not written")
        elif path not in expected:
            if known.names:
                yield Difference("file", f"{name} is written, too")
        elif path in known.alike:
            what = _other(expected[path], found[path], known.alike[path], leeway)
            yield from [] if what is None else [Difference("saved", f"{name}: {what}")]


def _by_path(run: RunRecord) -> dict[str, Written]:
    """Those that are there at the end."""
    found = {each.path: each for each in run.written if not each.is_gone}
    if run.errors is not None:
        found[_STDERR] = Written(_STDERR, "", contents=run.errors, is_text=True)
    return found


def _masks(written: Written, runs: Sequence[Written]) -> Masks | None:
    """Of a text the words that vary; None where contents do not repeat themselves."""
    if all(each.is_text for each in runs):
        if any(printed.shapes(each.contents) != printed.shapes(written.contents) for each in runs):
            return None
        return printed.masks([each.contents for each in runs])
    return Masks() if all(each.contents == written.contents for each in runs) else None


def _other(before: Written, after: Written, masks: Masks, leeway: Leeway) -> str | None:
    if before.is_text and after.is_text:
        bound = leeway.of_lines(before.contents, lambda run: _lines(run, before.path))
        return printed.difference(before.contents, after.contents, masks, bound, verb="written")
    if before.holds and after.holds:
        far = {*leeway.far(before, after)}
        keys = (each for each in dict.fromkeys((*before.holds, *after.holds)) if not _UNCOMPARED.search(each))
        differing = next((each for each in keys if each in far or each not in before.holds), None)
        if differing is None:
            return None
        if differing not in before.holds:
            return f"holds `{differing}`, too"
        return f"`{differing}` {'is another one' if differing in after.holds else 'is not there'}"
    if leeway.in_bytes and not (before.is_text or after.is_text or before.holds or after.holds):
        return None
    return None if before.contents == after.contents else "its bytes are others"


def _lines(run: RunRecord, path: str) -> tuple[str, ...]:
    written = _by_path(run).get(path)
    return written.contents if written is not None and written.is_text else ()
