"""What `verify` found: a line for each rule, then the verdict and what it stands on; or all of it as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import click

from autoaccel import __version__
from autoaccel.measure.verifying.report import Outcome, Verdict, Verification
from autoaccel.reports.aligned_columns import aligned
from autoaccel.reports.context import shown
from autoaccel.reports.counting import TIERS, counted, listed
from autoaccel.reports.json import dumped, plain

_WORDS = {
    Verdict.PASSED: ("same", "green"),
    Verdict.FAILED: ("differs", "red"),
    Verdict.NOT_REACHED: ("not reached", "yellow"),
    Verdict.NOT_VERIFIED: ("not verified", "yellow"),
}
_SAME = "bit for bit"


def text(report: Verification, *, quiet: bool = False, verbose: bool = False) -> str:
    """For people. `quiet` leaves what differs and the verdict; `verbose` adds every change and every run."""
    lines = [*(_differing(report) if quiet else _rules(report)), *map(shown, report.differences)]
    if verbose:
        lines += ["", *_changes(report), "", *_trials(report)]
        lines += [f"runtime: {each.topic}: {each.value} ({each.reason})" for each in report.decisions]
    if lines:
        lines.append("")
    lines.append(verdict(report))
    if not quiet:
        lines.extend(basis(report))
        lines.extend(f"Note: {shown(note)}." for note in (*_standing_notes(report), *report.notes))
    return "".join(f"{line}\n" for line in lines)


def verdict(report: Verification) -> str:
    """The last word, in one sentence."""
    script = shown(report.script)
    failed, passed = report.of(Verdict.FAILED), report.of(Verdict.PASSED)
    open_ones = len(report.outcomes) - len(failed) - len(passed)
    than = "" if report.against is None else f" as {shown(report.against)}"
    by = f" by {listed([str(each) for each in (1, *report.ranks)])} processes" if report.ranks else ""
    than = f"{than}{by}"
    if report.differences and not failed:
        return click.style(f"{script} does not train the same{than}, and no change is to blame.", fg="red", bold=True)
    if not report.outcomes:
        what = "nothing would be rewritten" if report.against is None else f"the same code{than}"
        return click.style(f"{script}: {what}, so there is nothing to verify.", bold=True)
    if failed:
        what = f"{counted(len(failed), 'change')} of {len(report.outcomes)} make{'s' if len(failed) == 1 else ''}"
        return click.style(f"{script} does not train the same{than}: {what} a difference.", fg="red", bold=True)
    rest = f"; {counted(open_ones, 'change')} not reached: not verified" if open_ones else ""
    if report.says_nothing:
        return click.style(f"{script}: no change was reached, so nothing was verified.", fg="yellow", bold=True)
    number = counted(len(passed), "change") + (f" of {len(report.outcomes)}" if open_ones else "")
    than += "," if than else ""
    return click.style(f"{script} trains the same{than} with {number}{rest}.", fg="green", bold=True)


def to_json(report: Verification) -> str:
    """All that is known, for programs."""
    status = "unknown" if report.says_nothing else "same" if report.same else "different"
    return dumped({"version": 1, "autoaccel": __version__, "status": status, **plain(report)})


def failure_to_json(script: str, reason: str) -> str:
    """For programs, when nothing can be said."""
    return dumped({"version": 1, "autoaccel": __version__, "status": "unknown", "script": script, "reason": reason})


# -- lines


def _rules(report: Verification) -> list[str]:
    """A line for each rule; what differs has a line for each change."""
    rows: list[tuple[str, ...]] = []
    for code in sorted({each.code for each in report.outcomes}):
        of_rule = [each for each in report.outcomes if each.code == code]
        for result in Verdict:
            rows.extend(_rows([each for each in of_rule if each.verdict is result]))
    return aligned(rows, "<<<<<", "  ")


def _rows(outcomes: Sequence[Outcome]) -> Iterator[tuple[str, ...]]:
    if outcomes:
        groups = [[each] for each in outcomes] if outcomes[0].verdict is Verdict.FAILED else [outcomes]
        yield from map(summarised, groups)


def summarised(group: Sequence[Outcome]) -> tuple[str, str, str, str, str]:
    """Changes of one rule of which the same is known: the rule, how many, their tiers, what is known, and why."""
    first = group[0]
    tiers = ", ".join(tier for tier in TIERS if any(each.tier == tier for each in group))
    if first.verdict is Verdict.PASSED:
        # The weaker reasons are said; that some changes are exactly the same goes without saying then.
        reasons = dict.fromkeys(each.reason for each in sorted(group, key=lambda each: -TIERS.index(each.tier)))
        reason = "; ".join(each for each in reasons if each != _SAME) or _SAME
    else:
        reason = f"{shown(first.path)}:{first.line}: {shown(first.reason)}"
        reason += f" (and {len(group) - 1} more)" if len(group) > 1 else ""
    word, colour = _WORDS[first.verdict]
    return f"{first.code} {first.name}", counted(len(group), "change"), tiers, click.style(word, fg=colour), reason


def _differing(report: Verification) -> Iterator[str]:
    for each in report.of(Verdict.FAILED):
        yield f"{shown(each.path)}:{each.line}: {each.code} {each.name}: {shown(each.reason)}"


def _changes(report: Verification) -> Iterator[str]:
    """Each change with all that differs."""
    for each in sorted(report.outcomes, key=lambda each: (each.path, each.line, each.code)):
        word, colour = _WORDS[each.verdict]
        place = click.style(f"{shown(each.path)}:{each.line}:", bold=True)
        said = f"{click.style(word, fg=colour)}: {shown(each.reason)}"
        yield f"{place} {each.code} {each.name}: {said} {click.style(f'[{each.tier}]', dim=True)}"
        yield from (f"    {shown(difference)}" for difference in each.differences)


def _trials(report: Verification) -> Iterator[str]:
    width = max((len(each.name) for each in report.trials), default=0)
    for number, each in enumerate(report.trials, 1):
        figures = f"{each.steps:>4} steps  {each.seconds:5.1f} s"
        yield f"run {number:>2}  {each.name:<{width}}  {figures}  {shown(each.result)}".rstrip()


def basis(report: Verification) -> Iterator[str]:
    """What the verdict stands on."""
    numerics = report.numerics
    if numerics is not None:
        yield (
            f"Numbers {numerics.what}: loss {numerics.rewritten:.5g} instead of {numerics.original:.5g} at the end, "
            f"over {counted(numerics.seeds, 'seed')}, which spread by {_rough(numerics.spread)}."
        )
    whole = report.steps_per_pass or 0
    of_pass = f"{report.steps} of the {whole} steps of one pass"
    steps = of_pass if whole > report.steps else counted(report.steps, "step")
    steps += ", to the end of the script" if report.complete else ""
    runs = counted(len(report.trials), "run")
    yield f"{steps}; {report.device}, torch {report.torch}, Python {report.python}; {runs} in {report.seconds:.0f} s."


def _rough(number: float) -> str:
    """With two digits, and none of an exponent where the number is large."""
    return f"{number:.0f}" if 100 <= number < 1e6 else f"{number:.2g}"


def _standing_notes(report: Verification) -> Iterator[str]:
    if idle := dict.fromkeys(place for each in report.outcomes for place in each.never_ran):
        yield f"what these changed lines lead to never ran: {listed(list(idle))}"
    if not report.repeats:
        yield "the original does not repeat itself under one seed, so it was compared within its own spread"
    if report.ranks:
        yield "processes ran on the CPU over gloo; devices, and several machines, were not tried"
    elif report.device == "cpu" and report.outcomes and report.against is None:
        yield (
            "on a CPU copies do not overlap and nothing is compiled to other kernels; what leads to them was rehearsed"
        )
