"""Which of many changes make a difference, with few runs: each run tells of a whole set of changes.

The changes come in an order in which each stands after what it needs, so every beginning of the order can be applied.
Between a beginning that is fine and a longer one that is not there is a change that makes the difference, found in
log2(n) runs. It may do so only together with an earlier one; that is found out, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

Item = TypeVar("Item")
Verdict = TypeVar("Verdict")

Probe = Callable[[Sequence[Item]], Verdict]
"""What is wrong when a set of changes is applied; empty when nothing is."""


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


def bisect(
    items: Sequence[Item],
    probe: Probe[Item, Verdict],
    needs: Callable[[Item], Sequence[Item]],
    *,
    wrong: Verdict | None = None,
) -> Found[Item, Verdict]:
    """One culprit after the other, until what is left is fine. `wrong`: what is known to be wrong with all of them."""
    left = list(items)
    if not left:
        return Found((), ())
    culprits: list[Culprit[Item, Verdict]] = []
    verdict = probe(left) if wrong is None else wrong
    start = 0  # that many of what is left are known to be fine together
    while verdict:
        start, blame = _first(left, start, verdict, probe)
        culprit = _alone(left[start], left[:start], blame, probe, needs)
        culprits.append(culprit)
        gone = {culprit.item}
        kept = [each for each in left[start + 1 :] if not _depends(each, gone, needs)]
        left = [*left[:start], *kept]
        if not kept:
            break
        verdict = probe(left)
    return Found(tuple(culprits), tuple(left))


def _first(items: Sequence[Item], start: int, verdict: Verdict, probe: Probe[Item, Verdict]) -> tuple[int, Verdict]:
    """The index of the first item that makes a difference: those before it are fine together, and it is not."""
    fine, wrong = start, len(items)
    while wrong - fine > 1:
        middle = (fine + wrong) // 2
        said = probe(items[:middle])
        if not said:
            fine = middle
        else:
            wrong, verdict = middle, said
    return wrong - 1, verdict


def _alone(
    item: Item,
    before: Sequence[Item],
    verdict: Verdict,
    probe: Probe[Item, Verdict],
    needs: Callable[[Item], Sequence[Item]],
) -> Culprit[Item, Verdict]:
    """Whether it makes a difference without all the others, but for what it needs; else with the help of which."""
    needed = set(needs(item))
    base = [each for each in before if each in needed]
    others = [each for each in before if each not in needed]
    if not others:
        return Culprit(item, verdict)
    said = probe([*base, item])
    if said:
        return Culprit(item, said)

    def beside(chosen: Sequence[Item]) -> Verdict:
        return probe([*(each for each in before if each in needed.union(chosen)), item])

    # The shortest beginning of the others with which it makes a difference ends with the one that it takes.
    company, verdict = _first(others, 0, verdict, beside)
    return Culprit(item, verdict, (others[company],))


def _depends(item: Item, gone: set[Item], needs: Callable[[Item], Sequence[Item]]) -> bool:
    """Whether an item needs one that is gone; it is gone itself, then."""
    if gone.isdisjoint(needs(item)):
        return False
    gone.add(item)
    return True
