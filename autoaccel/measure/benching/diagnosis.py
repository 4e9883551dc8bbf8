"""What binds a script, in one sentence: where the time of its steps goes, and which rules address that."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from autoaccel.measure.benching.report import Diagnosis, Share
from autoaccel.measure.observing.record import Profile
from autoaccel.rewriting.rule import Rule

# Two shares closer than this bind together, unless the second is a small one.
_MARGIN = 0.10
_SMALL = 0.20
# What is below is not worth a word.
_WORTH_SAYING = 0.005
# An uncertainty above this is said.
_UNCERTAIN = 0.05

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


def diagnose(profile: Profile | None, rules: Iterable[Rule], found: Collection[str]) -> Diagnosis | None:
    """What binds the script that was profiled. `found`: codes of the rules that change something in it."""
    if profile is None or not profile.shares:
        return None
    ranked = sorted(profile.shares, key=profile.shares.__getitem__, reverse=True)
    binding = ranked[:1] + [name for name in ranked[1:2] if _binds_too(name, ranked[0], profile)]
    known = list(rules)
    addressing = {name: _addressing(name, known, found) for name in binding}
    clauses = [_shares_clause(binding, ranked, profile), *_rule_clauses(addressing, found)]
    sentence = "; ".join(clauses) + "."
    codes = dict.fromkeys(rule.code for each in addressing.values() for rule in each)
    shares = tuple(Share(name, share) for name, share in profile.shares.items())
    return Diagnosis(
        sentence[0].upper() + sentence[1:], shares, tuple(sorted(codes, key=lambda code: code not in found))
    )


def _binds_too(name: str, first: str, profile: Profile) -> bool:
    share = profile.shares[name]
    return share >= _SMALL and profile.shares[first] - share < _MARGIN + profile.uncertainty


def _addressing(name: str, rules: Sequence[Rule], found: Collection[str]) -> list[Rule]:
    """Rules that address a class: those that change something in the script first, then those made for it."""
    suited = [rule for rule in rules if name in rule.addresses]
    return sorted(suited, key=lambda rule: (rule.code not in found, rule.addresses.index(name)))


def _shares_clause(binding: Sequence[str], ranked: Sequence[str], profile: Profile) -> str:
    shares = profile.shares
    subject = _enumerated([_NAMES[name] for name in binding])
    said = [f"{_percent(shares[name])}{' of a step' * (at == 0)} {_MEANINGS[name]}" for at, name in enumerate(binding)]
    rest = [name for name in ranked if name not in binding and shares[name] >= _WORTH_SAYING]
    aside = ", ".join(f"{name} {_percent(shares[name])}" for name in rest)
    if profile.uncertainty > _UNCERTAIN:
        aside += f"{'; ' if aside else ''}give or take {round(100 * profile.uncertainty)} points"
    verb = "binds" if len(binding) == 1 else "bind"
    return f"{subject} {verb}: {_enumerated(said)}" + (f" ({aside})" if aside else "")


def _rule_clauses(addressing: Mapping[str, Sequence[Rule]], found: Collection[str]) -> list[str]:
    """Which rules address what binds; one clause for all where they are the same."""
    said = {name: _rules_clause(name, rules, found) for name, rules in addressing.items()}
    if len(set(said.values())) == 1:
        return [next(iter(said.values())).format("it" if len(said) == 1 else "both")]
    return [clause.format(_NAMES[name]) for name, clause in said.items()]


def _rules_clause(name: str, rules: Sequence[Rule], found: Collection[str]) -> str:
    changing = [rule for rule in rules if rule.code in found]
    if changing:
        verb = "addresses {}, and is" if len(changing) == 1 else "address {}, and are"
        return f"{_named(changing)} {verb} among the changes"
    made_for = [rule for rule in rules if rule.addresses[0] == name != _ANYTHING]
    if made_for:
        verb = "addresses {}, but finds" if len(made_for) == 1 else "address {}, but find"
        return f"{_named(made_for)} {verb} nothing to change here"
    return "no rule here addresses {}"


def _named(rules: Sequence[Rule]) -> str:
    return _enumerated([f"{rule.code} {rule.name}" for rule in rules])


def _enumerated(words: Sequence[str]) -> str:
    return " and ".join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else words[0]


def _percent(share: float) -> str:
    return f"{round(100 * share)} %"
