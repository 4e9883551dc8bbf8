"""The counts of a run, as text and as the page that is kept."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from benchmarks.robustness.judging import Verdict

# In the order of the page; what the rows mean is said in README.md.
_LABELS = {
    "files": "different texts",
    "parsable": "that Python parses",
    "with a rule's words": "with a rule's words, so analysed",
    "all rules run": "analysed by at least one rule, words or not",
    "with findings": "with findings",
    "changed": "rewritten",
    "probed": "edited at random places",
}
KINDS = ("crash", "timeout", "error", "unread", "unparsable", "second run", "elsewhere", "needle")


@dataclass(slots=True)
class Tally:
    """Sums over files."""

    files: Counter[str] = field(default_factory=Counter)
    problems: Counter[str] = field(default_factory=Counter)
    refusals: Counter[str] = field(default_factory=Counter)
    examples: dict[str, list[str]] = field(default_factory=dict)
    seconds: float = 0.0
    size: int = 0

    def add(self, verdict: Verdict) -> None:
        self.seconds += verdict.seconds
        self.size += verdict.size
        counted = {
            "files": True,
            "parsable": verdict.parsable,
            "with a rule's words": verdict.searched,
            "all rules run": verdict.analysed,
            "with findings": bool(verdict.findings),
            "changed": verdict.changed,
            "probed": verdict.probed,
        }
        self.files.update(name for name, holds in counted.items() if holds)
        if verdict.refused:
            self.refusals[_kind(verdict)] += 1
        for kind, text in verdict.problems:
            self.problems[kind] += 1
            self.examples.setdefault(kind, []).append(f"{verdict.path}: {text}")


def _kind(verdict: Verdict) -> str:
    return verdict.refused.partition(": ")[2].split(" (")[0] or verdict.refused


def tally(verdicts: Iterable[Verdict]) -> Tally:
    result = Tally()
    for each in verdicts:
        result.add(each)
    return result


def text(result: Tally, most: int = 20) -> str:
    lines = [f"{count:8} {name}" for name, count in result.files.items()]
    lines += [f"{result.size / 1e6:8.0f} MB, {result.seconds:.0f} CPU-s"]
    for kind, count in sorted(result.problems.items()):
        lines += ["", f"{kind}: {count}", *(f"  {each}" for each in result.examples[kind][:most])]
    if result.refusals:
        lines += ["", "left alone because:", *(f"{count:8} {why}" for why, count in result.refusals.most_common(most))]
    return "\n".join(lines)


def page(result: Tally) -> str:
    """The counts in Markdown."""
    lines = ["| files | |", "|---|---|"]
    lines += [f"| {_LABELS.get(name, name)} | {count:,} |" for name, count in result.files.items()]
    lines += ["", "| what must not happen | files |", "|---|---|"]
    probes = sorted(kind for kind in result.problems if kind not in KINDS)
    lines += [f"| {kind} | {result.problems[kind]} |" for kind in (*KINDS, *probes)]
    if not probes:
        lines.append("| anything of these after probes | 0 |")
    return "\n".join(lines) + "\n"
