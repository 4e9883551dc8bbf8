"""What binds a script, in one sentence: where the time of its steps goes, and which rules address that."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from autoaccel.measure.benching.report import Diagnosis, TimeShare
from autoaccel.reports.counting import listed
from autoaccel.rewriting.rule import Rule

# Two shares closer than this bind together, unless the second is a small one.
_MARGIN = 0.10
_SMALL = 0.20
# What is below is not worth a word.
_WORTH_SAYING = 0.005
# No rule is made for it; single findings may make it shorter.
_ANYTHING = "other"

_NAMES = {
    "loader": "the loader",
    "transfer": "the transfer to the device",
    "launch": "launching",
    "compute": "computing",
    "optimizer": "the optimizer",
    "sync": "synchronisation",
    "evaluation": "evaluation",
    "other": "the script's own Python",
}
# What becomes of that share of a step.
_MEANINGS = {
    "loader": "waits for the next batch",
    "transfer": "copies data to the device",
    "launch": "goes into starting operators, not into what they compute",
    "compute": "computes forwards and backwards",
    "optimizer": "updates parameters",
    "sync": "waits for results of the device",
    "evaluation": "goes into passes that do not train",
    "other": "is Python between operators",
}


def diagnose(shares: Mapping[str, float], rules: Iterable[Rule], found: Collection[str]) -> Diagnosis | None:
    """What binds a script whose steps divide so, where that is known. `found`: codes of the rules that change something
    in it."""
    if not shares:
        return None
    ranked = sorted(shares, key=shares.__getitem__, reverse=True)
    binding = ranked[:1] + [each for each in ranked[1:2] if shares[each] >= max(_SMALL, shares[ranked[0]] - _MARGIN)]
    # Those that change something in the script first, then those made for what binds.
    addressing = [
        rule
        for name in binding
        for rule in sorted(
            (rule for rule in rules if name in rule.addresses), key=lambda each: each.addresses.index(name)
        )
    ]
    addressing = sorted(dict.fromkeys(addressing), key=lambda rule: rule.code not in found)
    sentence = f"{_shares_clause(binding, ranked, shares)}; {_rules_clause(binding, addressing, found)}."
    parts = tuple(TimeShare(name, share) for name, share in shares.items())
    return Diagnosis(sentence[0].upper() + sentence[1:], parts, tuple(rule.code for rule in addressing))


def _shares_clause(binding: Sequence[str], ranked: Sequence[str], shares: Mapping[str, float]) -> str:
    said = [f"{_percent(shares[name])}{' of a step' * (at == 0)} {_MEANINGS[name]}" for at, name in enumerate(binding)]
    rest = [name for name in ranked if name not in binding and shares[name] >= _WORTH_SAYING]
    aside = ", ".join(f"{name} {_percent(shares[name])}" for name in rest)
    subject, verb = " and ".join(_NAMES[name] for name in binding), "binds" if len(binding) == 1 else "bind"
    return f"{subject} {verb}: {' and '.join(said)}" + (f" ({aside})" if aside else "")


def _rules_clause(binding: Sequence[str], addressing: Sequence[Rule], found: Collection[str]) -> str:
    what, ending = "it" if len(binding) == 1 else "both", ("and is", "and are", "among the changes")
    said = [rule for rule in addressing if rule.code in found]
    if not said:
        ending = "but finds", "but find", "nothing to change here"
        said = [rule for rule in addressing if rule.addresses[0] in binding and rule.addresses[0] != _ANYTHING]
    if not said:
        return f"no rule here addresses {what}"
    several, names = len(said) > 1, listed([f"{rule.code} {rule.name}" for rule in said], len(said))
    return f"{names} address{'' if several else 'es'} {what}, {ending[several]} {ending[2]}"


def _percent(share: float) -> str:
    return f"{round(100 * share)} %"
