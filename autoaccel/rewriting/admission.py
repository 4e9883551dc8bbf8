"""Which findings of the rules a run may apply: outside of tests, and as exact as the run and the script ask."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from autoaccel.edits import Finding, Skipped, Tier
from autoaccel.rewriting.rule import Rule, UnderDeterminism

if TYPE_CHECKING:
    from autoaccel.analysis import Script


def outside_tests(script: Script, findings: Sequence[Finding]) -> tuple[list[Finding], list[Skipped]]:
    """Tests and benchmarks are about the code as it stands: no rule has anything to gain there."""
    from autoaccel.analysis.unit_tests import reason_to_keep
    from autoaccel.dataflow.completeness import Incomplete

    reasons: dict[Finding, str | None] = {}
    for each in findings:
        try:
            reasons[each] = reason_to_keep(script, each.node)
        except Incomplete as unanswered:
            reasons[each] = f"the file was not analysed in full: {unanswered}"
    kept = [each for each, reason in reasons.items() if reason is None]
    return kept, [Skipped(each.rule, each.node, reason) for each, reason in reasons.items() if reason is not None]


def rules_kept_exact(script: Script, findings: Sequence[Finding]) -> dict[Rule, str]:
    """The rules whose findings have to be exact, for the script asks for the same results in each run, or may."""
    rules = {each.rule for each in findings}
    from autoaccel.analysis import determinism

    if not rules or not determinism.is_asked_for(script):
        return {}
    why = f"the script {'asks' if determinism.is_certain(script) else 'may ask'} for deterministic algorithms"
    unharmed = {UnderDeterminism.REPEATED, *([UnderDeterminism.OFF] if determinism.is_on_demand(script) else [])}
    everything = determinism.of_all_algorithms(script)
    return {each: why for each in rules if everything or each.under_determinism not in unharmed}


def by_tier(
    findings: Sequence[Finding], tier: Tier, exact_only: Mapping[Rule, str]
) -> tuple[list[Finding], list[Skipped]]:
    """The findings that are as exact as `tier`, or as asked of their rules, and why the others are not applied."""
    allowed: list[Finding] = []
    skipped: list[Skipped] = []
    for finding in findings:
        if finding.rule.tier is Tier.OPT_IN or finding.tier is Tier.EXACT:
            allowed.append(finding)
        elif finding.rule in exact_only:
            reason = f"{exact_only[finding.rule]}, and this is {finding.tier.label}, not exact"
            skipped.append(Skipped(finding.rule, finding.node, reason))
        elif finding.tier <= tier:
            allowed.append(finding)
        else:
            skipped.append(Skipped(finding.rule, finding.node, f"needs --tier {finding.tier.label}"))
    return allowed, skipped
