"""Which of many changes make a difference, with few runs: each run tells of a whole set of changes.

The changes come in an order in which each stands after what it needs, so every beginning of the order can be applied.
Between a beginning that is fine and a longer one that is not there is a change that makes the difference, found in
log2(n) runs. It may do so only together with an earlier one; that is found out, too.

Of two versions by hand not every beginning can be run, for all that is known of what changes need: one that fails,
where all changes together do not, says nothing of what is wrong with them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Generic, TypeVar

_FEW = 2
"""So many culprits are looked for among more that were found."""

Item = TypeVar("Item")
Verdict = TypeVar("Verdict")

Probe = Callable[[Sequence[Item]], Verdict]
"""What is wrong when a set of changes is applied; empty when nothing is."""
Unclear = Callable[[Verdict], bool]
"""Whether a verdict says no more than that changes do not go together."""


@dataclass(frozen=True, slots=True)
class Culprit(Generic[Item, Verdict]):
    """A change that makes a difference; `company` are others without which it makes none."""

    item: Item
    verdict: Verdict
    """What is wrong with it, as far as possible with it alone."""
    company: tuple[Item, ...] = ()


@dataclass(frozen=True, slots=True)
class Found(Generic[Item, Verdict]):
    """All culprits, in the order in which they were found, and what is fine together."""

    culprits: tuple[Culprit[Item, Verdict], ...]
    fine: tuple[Item, ...]
    helpless: tuple[Item, ...] = ()
    """What cannot be run without a culprit."""


def bisect(
    items: Sequence[Item],
    probe: Probe[Item, Verdict],
    needs: Callable[[Item], Sequence[Item]],
    *,
    wrong: Verdict | None = None,
    unclear: Unclear[Verdict] = lambda _: False,
) -> Found[Item, Verdict]:
    """One culprit after the other, until what is left is fine. `wrong`: what is known to be wrong with all of them."""
    left = list(items)
    if not left:
        return Found((), ())
    culprits: list[Culprit[Item, Verdict]] = []
    helpless: list[Item] = []
    verdict = probe(left) if wrong is None else wrong
    if unclear(verdict):  # it is what is wrong with all of them
        unclear = _never
    start = 0  # that many of what is left are known to be fine together
    while verdict:
        start, wrong_at, blame = _between(left, start, verdict, probe, unclear)
        if wrong_at - start == 1:
            culprit = _alone(left[start], left[:start], blame, probe, needs, unclear)
        else:
            culprit = _without_which(left, range(start, wrong_at), blame, probe, needs)
        if culprits and unclear(blame):
            helpless.append(culprit.item)
        else:
            culprits.append(culprit)
        gone = {culprit.item}
        at = left.index(culprit.item)
        kept = [each for each in left[at + 1 :] if not _depends(each, gone, needs)]
        left = [*left[:at], *kept]
        if not kept and at == start:
            break
        verdict = probe(left)
    enough = _enough(items, culprits, probe, needs)
    return Found(enough, tuple(left), tuple(helpless) if len(enough) == len(culprits) else ())


def _enough(
    items: Sequence[Item],
    culprits: Sequence[Culprit[Item, Verdict]],
    probe: Probe[Item, Verdict],
    needs: Callable[[Item], Sequence[Item]],
) -> tuple[Culprit[Item, Verdict], ...]:
    """Those without which all others are fine. What only differs where another one is missing, as the two ends of what
    was moved do, is found on the way to them."""
    for size in range(1, min(len(culprits), _FEW + 1)):
        for some in combinations(culprits, size):
            gone = {each.item for each in some}
            if not probe([each for each in items if each not in gone and not _depends(each, gone, needs)]):
                return some
    return tuple(culprits)


def _never(_: object) -> bool:
    return False


def _between(
    items: Sequence[Item], start: int, verdict: Verdict, probe: Probe[Item, Verdict], unclear: Unclear[Verdict]
) -> tuple[int, int, Verdict]:
    """How many of the first are fine together, and how many are not: one more, or as many as go together only."""
    fine, wrong = start, len(items)
    while wrong - fine > 1:
        for middle in sorted(range(fine + 1, wrong), key=lambda each: abs(each - (fine + wrong) // 2)):
            said = probe(items[:middle])
            if not said:
                fine = middle
                break
            if not unclear(said):
                wrong, verdict = middle, said
                break
        else:
            break
    return fine, wrong, verdict


def _without_which(
    items: Sequence[Item],
    among: range,
    verdict: Verdict,
    probe: Probe[Item, Verdict],
    needs: Callable[[Item], Sequence[Item]],
) -> Culprit[Item, Verdict]:
    """The one without which the others are fine, or the two; the last one where there are none."""
    suspects = items[among.start : among.stop]
    for size in (1, 2):
        for some in combinations(suspects, size):
            gone = set(some)
            others = [each for each in items[: among.stop] if each not in gone and not _depends(each, gone, needs)]
            if not probe(others):
                return Culprit(some[-1], verdict, some[:-1])
    return Culprit(suspects[-1], verdict, tuple(suspects[:-1]))


def _alone(
    item: Item,
    before: Sequence[Item],
    verdict: Verdict,
    probe: Probe[Item, Verdict],
    needs: Callable[[Item], Sequence[Item]],
    unclear: Unclear[Verdict],
) -> Culprit[Item, Verdict]:
    """Whether it makes a difference without all the others, but for what it needs; else with the help of which."""
    needed = set(needs(item))
    base = [each for each in before if each in needed]
    others = [each for each in before if each not in needed]
    if not others:
        return Culprit(item, verdict)
    said = probe([*base, item])
    if said:
        return Culprit(item, verdict if unclear(said) else said)

    def beside(chosen: Sequence[Item]) -> Verdict:
        return probe([*(each for each in before if each in needed.union(chosen)), item])

    # The shortest beginning of the others with which it makes a difference ends with the one that it takes.
    _, company, verdict = _between(others, 0, verdict, beside, unclear)
    return Culprit(item, verdict, (others[company - 1],))


def _depends(item: Item, gone: set[Item], needs: Callable[[Item], Sequence[Item]]) -> bool:
    """Whether an item needs one that is gone; it is gone itself, then."""
    if gone.isdisjoint(needs(item)):
        return False
    gone.add(item)
    return True
