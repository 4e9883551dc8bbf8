"""From benchmarks to what is kept, and why the rest is not.

Nothing is kept that was not measured to win in the benchmark that tells the rules apart and in two of its own.
A rule is worth what the script gains by it beside all others: the speed-up of all rules by that of all but it, two
measurements whose errors have nothing to do with one another. Rules that do nothing one by one may pay together, or
stand in for one another; so where the winners are slower than all were, all but the losers are tried.

Of many rules one may seem to win by chance, and two processes of one program differ for as long as they live, which no
interval of one pair of them holds. So what was chosen is run anew against the original, by new processes, and must win
each time.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

from autoaccel.measure.benching import ablation
from autoaccel.measure.benching.procedure import REWRITTEN
from autoaccel.measure.benching.report import BenchReport, Interval
from autoaccel.measure.changes import Change, Changes

Measure = Callable[[Changes, bool], BenchReport]
"""Benchmarks changes; the second argument says whether rule by rule, too."""

CONFIRMATIONS = 2
"""Benchmarks that a choice must win. Where processes differ by five percent, which is much, and nothing is to be won,
one alone would let one run in fifteen keep something; two, less than one in a hundred."""
_NOTHING = Interval(1.0, 1.0, 1.0)


@dataclass(frozen=True, slots=True)
class RuleWorth:
    """What a rule is worth here."""

    code: str
    name: str
    changes: int
    gain: Interval | None
    """How many times as fast the script is with it as without it, all others being there; None where not measured."""
    alone: Interval | None
    """How many times as fast the script is with it alone."""
    kept: bool = False
    reason: str = ""
    """Why it is left out, or kept although it does not win by itself."""


@dataclass(frozen=True, slots=True)
class Tuning:
    """What was decided."""

    rules: tuple[RuleWorth, ...]
    kept: tuple[Change, ...]
    together: BenchReport
    """The benchmark of all changes, rule by rule."""
    confirmed: BenchReport | None
    """That of what is kept, of those the least favourable; None where nothing is."""


def tune(changes: Changes, measure: Measure) -> Tuning:
    """Measure, decide, and measure anew what was decided. `changes` are those that train the same, at least one."""
    together = measure(changes, True)
    rules = list(worths(together, changes))
    won: list[tuple[frozenset[str], tuple[Change, ...], BenchReport]] = []
    for codes in candidates(rules, wins=speedup(together).low > 1):
        chosen = with_needs(changes, codes)
        report = _confirmation(dataclasses.replace(changes, all=chosen), measure)
        if report is not None:
            won.append((codes, chosen, report))
            if speedup(report).high >= speedup(together).low:
                break
    if not won:
        said = [dataclasses.replace(each, reason=_why_not(each)) for each in rules]
        return Tuning(tuple(said), (), together, None)
    codes, kept, confirmed = max(won, key=lambda each: speedup(each[2]).low)
    present = {each.record.code for each in kept}
    return Tuning(tuple(_judged(each, present, codes) for each in rules), kept, together, confirmed)


def _confirmation(chosen: Changes, measure: Measure) -> BenchReport | None:
    """The benchmark in which a choice gains least; None as soon as it does not win."""
    reports = []
    for _ in range(CONFIRMATIONS):
        reports.append(measure(chosen, False))
        if speedup(reports[-1]).low <= 1:
            return None
    return min(reports, key=lambda each: speedup(each).low)


def speedup(report: BenchReport) -> Interval:
    """Of the rewritten script; that of nothing where it was not measured."""
    column = report.column(REWRITTEN)
    return column.speedup if column else _NOTHING


def worths(report: BenchReport, changes: Changes) -> Iterator[RuleWorth]:
    """Each rule's, from a benchmark rule by rule."""
    empty = {each.code for each in ablation.rules(changes) if not each.without}
    for each in report.contributions:
        without = _NOTHING if each.code in empty else each.without
        gain = None if without is None else ratio(speedup(report), without)
        alone = speedup(report) if each.changes == len(changes) else each.alone
        yield RuleWorth(each.code, each.name, each.changes, gain, alone)


def ratio(one: Interval, other: Interval) -> Interval:
    """Of two speed-ups that were measured apart: the squares of their errors, as logarithms, add up."""
    median = one.median / other.median
    below = math.hypot(math.log(one.median / one.low), math.log(other.high / other.median))
    above = math.hypot(math.log(one.high / one.median), math.log(other.median / other.low))
    return Interval(median, median / math.exp(below), median * math.exp(above))


def candidates(rules: Collection[RuleWorth], *, wins: bool) -> list[frozenset[str]]:
    """Codes of rules that may be kept together, the fewest first. `wins`: whether all together do."""
    winners = frozenset(each.code for each in rules if each.gain is not None and each.gain.low > 1)
    losers = frozenset(each.code for each in rules if each.gain is not None and each.gain.high < 1)
    rest = frozenset(each.code for each in rules) - losers if wins or losers else frozenset()
    return [each for each in dict.fromkeys((winners, rest)) if each]


def with_needs(changes: Changes, codes: Collection[str]) -> tuple[Change, ...]:
    """The changes of these rules, and those that they need, in their order."""
    wanted = {each for each in changes if each.record.code in codes}
    wanted |= {need for each in wanted for need in changes.needs(each)}
    return tuple(each for each in changes if each in wanted)


def _judged(rule: RuleWorth, present: Collection[str], codes: Collection[str]) -> RuleWorth:
    if rule.code not in present:
        return dataclasses.replace(rule, reason=_why_not(rule))
    if rule.gain is not None and rule.gain.low > 1:
        return dataclasses.replace(rule, kept=True)
    reason = "it pays together with the others" if rule.code in codes else "others need it"
    return dataclasses.replace(rule, kept=True, reason=reason)


def _why_not(rule: RuleWorth) -> str:
    if rule.gain is None:
        return "it could not be measured"
    if rule.gain.high < 1:
        return "it makes the script slower here"
    return "its gain was not confirmed" if rule.gain.low > 1 else "no gain was measured"
