"""Remove idle suppressions.

A comment that has outlived its reason tells readers of a trap that is not there, and silences the next slow pattern
that is written on its line. `rewrite` takes it away with its reason, or just the codes that are not needed; no
statement changes, and each removal is reported. `ignore = ["AA901"]` keeps all of them, as does `ignore[AA901]` beside
a single one.

Left alone:
- codes of rules that did not run on the file: not selected, ignored for it, or less exact than `--tier` allows; a
  comment without codes is judged only when all default rules ran;
- codes of other tools: of `# noqa: E501, AA201` only `AA201` is judged, of `# noqa` nothing;
- codes that no rule has: they are reported, with what was probably meant, and stay, for they may belong to a newer
  version or to a pack of rules that is not installed here.

Before:
    loader = DataLoader(data, num_workers=8)  # autoaccel: ignore[AA201, AA402] slow disk

After:
    loader = DataLoader(data, num_workers=8)  # autoaccel: ignore[AA201] slow disk
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from autoaccel.config import did_you_mean
from autoaccel.edits import Comment, EditComment, Finding, Skipped, Tier
from autoaccel.rewriting.rule import Rule
from autoaccel.rewriting.suppression import NOQA, ON, Account, Mention, Selector, Suppression, without

RULE = Rule(
    code="AA901",
    name="unused-suppression",
    tier=Tier.EXACT,
    needles=(b"utoaccel", b"utoAccel", b"noqa", b"NOQA"),
    pattern=r"(?i)#\s*(?:autoaccel\s*:\s*(?:file-ignore|ignore|off|on)\b|noqa\s*:[^#\n]*\bAA\d)",
    order=100,
)


@dataclass(frozen=True, slots=True)
class _Verdict:
    """What is unused in one suppression: some of its selectors, or all of it; `reasons` say why, one for each."""

    gone: frozenset[Selector]
    whole: bool
    reasons: tuple[str, ...]


@RULE.check_comments
def check(account: Account) -> Iterator[Finding | Skipped]:
    verdicts = {each: _verdict(each, account) for each in account.suppressions}
    gone = {(each, selector) for each, verdict in verdicts.items() for selector in verdict.gone}
    whole = {each for each, verdict in verdicts.items() if verdict.whole}
    # An `on` goes with the last `off` that it ends.
    needed = {each.closed_by for each in account.suppressions if each not in whole}
    ends = {
        each.closed_by: each
        for each in account.suppressions
        if each in whole and each.closed_by is not None and each.closed_by not in needed
    }
    whole |= set(ends)
    told: set[Comment] = set()
    for each in account.suppressions:
        for unknown in _unknown(each, account):
            yield RULE.finding(each.place, unknown)
        if each.comment in told or not verdicts[each].reasons:
            continue
        comments = _together(each.comment, ends)
        told.update(comments)
        unused = [other for other in account.suppressions if other.comment in comments]
        reasons = [reason for other in unused for reason in verdicts[other].reasons]
        edits = [EditComment(one, without(one, gone, whole, account.suppressions)) for one in comments]
        yield RULE.finding(each.place, "; ".join(reasons), *edits)


def _together(comment: Comment, ends: Mapping[Suppression, Suppression]) -> list[Comment]:
    """A comment, and those in which an `on` goes with an `off` in it."""
    comments = [comment]
    for each in comments:
        further = dict.fromkeys(on.comment for on, off in ends.items() if off.comment is each)
        comments += [other for other in further if other not in comments]
    return comments


def _verdict(each: Suppression, account: Account) -> _Verdict:
    if each.kind == ON:
        # With words behind it, it may be prose.
        stray = all(each is not off.closed_by for off in account.suppressions) and _is_bare(each)
        return _whole("this comment ends no `off`" if stray else None)
    if each.blanket:
        return _whole(_why((each, None), account, "this comment silences nothing: no rule has anything to say here"))
    if not each.selectors:
        return _whole("this comment silences nothing: it names no rule")
    reasons = {selector: _why((each, selector), account, "") for selector in each.selectors}
    lost = frozenset(selector for selector, reason in reasons.items() if reason is not None)
    silent = [selector for selector in each.selectors if reasons[selector] == ""]
    told = [f"{_listed(silent)} {'silence' if len(silent) > 1 else 'silences'} nothing here"] if silent else []
    told += [reason for reason in reasons.values() if reason]
    return _Verdict(lost, len(lost) == len(each.selectors), tuple(told))


def _whole(reason: str | None) -> _Verdict:
    return _Verdict(frozenset(), reason is not None, () if reason is None else (reason,))


def _why(mention: Mention, account: Account, nothing: str) -> str | None:
    """Why a mention of rules is not used; None if it is, or if nobody can tell."""
    if mention in account.used or not account.did_run(mention):
        return None
    skipped = account.skipped.get(mention)
    return f"`{skipped.rule.code}` is left alone here anyway: {skipped.reason}" if skipped else nothing


def _is_bare(each: Suppression) -> bool:
    return not each.comment.text[each.start : each.end].partition(":")[2].strip().lower().removeprefix("on")


def _unknown(each: Suppression, account: Account) -> Iterator[str]:
    """Words that mean no rule; a code of `noqa` may be that of any other tool."""
    if each.kind == NOQA:
        return
    names = [name for rule in account.known for name in (rule.code, rule.name)]
    for selector in each.selectors:
        if selector.word.upper() != "ALL" and not any(selector.means(rule) for rule in account.known):
            yield f"unknown rule `{selector.word}`{did_you_mean(selector.word, names)}"


def _listed(selectors: Sequence[Selector]) -> str:
    *first, last = (f"`{each.word}`" for each in selectors)
    return f"{', '.join(first)} and {last}" if first else last
