"""What there is to say about rules, generated from their metadata and docstrings: explanations and the table."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import asdict

from autoaccel.config.refusals import Refusal
from autoaccel.reports.aligned_columns import aligned
from autoaccel.rewriting.rule import Rule

_CODE_HEADINGS = ("Before:", "After:")
# Where a tier is the rule's usual one: single findings may be less exact, and say so.
_MEANINGS = {
    "exact": "the same losses bit for bit, on the same hardware under fixed seeds",
    "equivalent": "the same mathematics; random streams or the order of reductions may differ",
    "numerics": "precision changes",
    "opt-in": "training behaviour changes; applied only when it is selected by code or name",
}


def explanation_text(rule: Rule) -> str:
    """One rule for a terminal."""
    heading = f"{rule.code} {rule.name} ({rule.tier.label})\n\n"
    return f"{heading}{rule.explanation}\n{_addressed(rule)}{_references(rule)}"


def explanation_markdown(rule: Rule) -> str:
    """One rule as a Markdown page; the examples become code blocks."""
    tier = rule.tier.label
    heading = f"# {rule.code} {rule.name}\n\nTier: `{tier}` ({_MEANINGS[tier]})"
    if rule.comment_function is not None:
        # No code is changed, no torch is needed, and by itself the rule has nothing to judge.
        return f"{heading}\n\n{_fenced(rule.explanation)}\n{_references(rule)}"
    if rule.on_request:
        heading += "; applied only when it is selected by code or name"
    heading += f"; torch {rule.min_torch} or newer\n\n"
    return f"{heading}{_fenced(rule.explanation)}\n{_addressed(rule)}{_usage(rule)}{_references(rule)}"


def explanation_json(rule: Rule) -> str:
    return json.dumps(_record(rule), indent=2, ensure_ascii=False) + "\n"


def table_text(rules: Sequence[Rule]) -> str:
    """All rules, one per line, in columns."""
    rows = [(rule.code, rule.name, rule.tier.label, rule.summary) for rule in rules]
    return "".join(f"{line}\n" for line in aligned(rows, "<<<<", "  "))


def table_markdown(rules: Iterable[Rule], pages: str | None = None) -> str:
    """The table of the README; names link to the rules' pages in the folder `pages`."""
    lines = ["rule|tier|what it does", "---|---|---"]
    for rule in rules:
        name = rule.name if pages is None else f"[{rule.name}]({pages}{rule.name}.md)"
        lines.append(f"{rule.code} {name}|{rule.tier.label}|{rule.summary.replace('|', chr(92) + '|')}")
    return "\n".join(lines) + "\n"


def table_json(rules: Iterable[Rule]) -> str:
    return json.dumps([_record(rule) for rule in rules], indent=2, ensure_ascii=False) + "\n"


def refusal(refused: Refusal, output_format: str) -> str:
    """Why something is no rule, and what helps instead."""
    if output_format == "json":
        return json.dumps({**asdict(refused), "refused": True}, indent=2, ensure_ascii=False) + "\n"
    if output_format == "markdown":
        return f"# {refused.name}\n\nRefused. {refused.reason}\n\n{refused.instead}\n"
    return f"{refused.name} (refused)\n\n" + "".join(
        f"{textwrap.fill(each, 100, break_on_hyphens=False)}\n" for each in (refused.reason, refused.instead)
    )


def refusals_markdown(refusals: Iterable[Refusal]) -> str:
    """The table of what is refused."""
    rows = "".join(f"{each.name} | {each.reason} | {each.instead}\n" for each in refusals)
    return f"asked for | why not | instead\n---|---|---\n{rows}"


def _record(rule: Rule) -> dict[str, object]:
    return {
        "code": rule.code,
        "name": rule.name,
        "tier": rule.tier.label,
        "min_torch": rule.min_torch,
        "addresses": list(rule.addresses),
        "summary": rule.summary,
        "explanation": rule.explanation,
        "references": list(rule.references),
    }


def _addressed(rule: Rule) -> str:
    return f"\nHelps where `bench` finds that this binds: {', '.join(rule.addresses)}.\n" if rule.addresses else ""


def _usage(rule: Rule) -> str:
    return (
        "\n```bash\n"
        f"autoaccel lint --select {rule.code} .                  # report\n"
        f"autoaccel rewrite --diff --select {rule.code} train.py # preview; without --diff: rewrite\n"
        "```\n\n"
        f"`# autoaccel: ignore[{rule.code}] reason`, on the line or above the statement, keeps code as it is.\n"
    )


def _references(rule: Rule) -> str:
    return "".join(["\nReferences:\n", *(f"- {link}\n" for link in rule.references)]) if rule.references else ""


def _fenced(explanation: str) -> str:
    """The indented blocks under `Before:` and `After:` as fenced Python; the rest as it is."""
    result: list[str] = []
    lines = explanation.split("\n")
    while lines:
        line = lines.pop(0)
        result.append(line)
        if line.strip() not in _CODE_HEADINGS:
            continue
        block: list[str] = []
        while lines and (not lines[0].strip() or lines[0].startswith(" ")):
            block.append(lines.pop(0))
        code = textwrap.dedent("\n".join(block)).strip("\n")
        result += ["", "```python", code, "```", ""]
    return "\n".join(result).rstrip()
