"""What is said of each change in the end: passed, failed or not verified, and why."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from autoaccel.edits import Tier
from autoaccel.measure.changes import HUNK, Change, Changes, known_as
from autoaccel.measure.verifying import comparing
from autoaccel.measure.verifying.facts import Difference
from autoaccel.measure.verifying.report import Numerics, Outcome, Verdict
from autoaccel.measure.verifying.trials import View

LOW = (Tier.NUMERICS, Tier.OPT_IN)
"""Changes that may compute in lower precision."""


@dataclass(slots=True)
class VerificationState:
    """What is known so far of each change."""

    good: tuple[Change, ...]
    failed: dict[Change, tuple[Sequence[Difference], tuple[Change, ...]]] = field(default_factory=dict)
    helpless: set[Change] = field(default_factory=set)
    """Changes that fail without one of those."""
    random: dict[Change, str] = field(default_factory=dict)
    """Changes that draw other random numbers, and what shows it."""
    rounding_only: dict[Change, str] = field(default_factory=dict)
    """Changes that round otherwise, or do the same in other portions, and what is said of it."""
    proven: set[Change] = field(default_factory=set)
    """Those of them of which it is known that they do no more than that."""
    notes: list[str] = field(default_factory=list)


def outcomes(
    changes: Changes,
    state: VerificationState,
    views: Sequence[View],
    numerics: Numerics | None,
    lines: Callable[[View, Sequence[Change]], Mapping[str, Collection[int]]],
) -> tuple[Outcome, ...]:
    """What is said of each. `lines` are those that are reached with some changes, of the texts that they make."""
    before, after = _joined(view.reached for view in views), None
    if views and changes.lead_on(state.good):
        after = _joined(lines(view, state.good) for view in views)
    return tuple(
        dataclasses.replace(said, never_ran=changes.idle(each, state.good, before, after))
        if said.verdict is Verdict.PASSED
        else said
        for each in changes
        for said in [outcome(each, changes, state, views, numerics)]
    )


def outcome(
    change: Change, changes: Changes, state: VerificationState, views: Sequence[View], numerics: Numerics | None
) -> Outcome:
    """What is said of a change, which was reached in some of these views or in none."""
    verdict, reason, found = _verdict(change, changes, state, views, numerics)
    said = change.record
    return Outcome(
        str(known_as(change.path)), said.where, said.code, said.name, change.tier.label, said.message,
        verdict, reason, tuple(each.text for each in found),
    )  # fmt: skip


def _verdict(
    change: Change, changes: Changes, state: VerificationState, views: Sequence[View], numerics: Numerics | None
) -> tuple[Verdict, str, Sequence[Difference]]:
    if change in state.failed:
        found, company = state.failed[change]
        together = f", together with {_names(company)}" if company else ""
        needed = changes.needs(change) if change.record.code == HUNK else ()  # in which the mistake may be
        with_these = f", with {_names(needed)} that it needs" if needed else ""
        return Verdict.FAILED, f"{comparing.told(found)}{together}{with_these}", found
    if change not in state.good:
        lost = [each for each in changes.needs(change) if each in state.failed] or [*state.failed]
        return Verdict.NOT_VERIFIED, f"it needs {_names(lost)}", ()
    seen = [view for view in views if change.is_reached(view.reached)]
    if not seen:
        missed = min((change.missed(view.reached) for view in views), key=len)  # by the one that came furthest
        return Verdict.NOT_REACHED, f"line {', '.join(map(str, missed))} was not reached", ()
    if change in state.random:
        return Verdict.PASSED, f"other random numbers, equally distributed: {state.random[change]}", ()
    if not any(view.reference.repeats for view in seen):
        return Verdict.PASSED, "within the spread of the original's own runs under one seed", ()
    if change in state.rounding_only:
        return Verdict.PASSED, state.rounding_only[change], ()
    if change.tier in LOW and numerics is not None:
        return Verdict.PASSED, "bit for bit in float32; in low precision within the spread", ()
    return Verdict.PASSED, "bit for bit", ()


def _names(changes: Iterable[Change]) -> str:
    return " and ".join(f"{each.record.code} on line {each.record.line}" for each in changes)


def _joined(reached: Iterable[Mapping[str, Collection[int]]]) -> dict[str, set[int]]:
    """Lines that were reached in one way or another."""
    found: dict[str, set[int]] = {}
    for each in reached:
        for path, lines in each.items():
            found.setdefault(path, set()).update(lines)
    return found
