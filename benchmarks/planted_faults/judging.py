"""What became of a planted fault under `verify`, kept as one line of JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Verdict:
    """One verification of a script with a fault in it. Places are `AA301 train.py:12`."""

    fault: str
    planted: str
    wrong: str
    tier: str
    status: str
    """same, difference, or why there was no answer."""
    named: tuple[str, ...] = ()
    """The changes that were blamed."""
    first: str = ""
    """What was said to differ first."""
    seconds: float = 0.0
    unseen: str = ""
    """Why it cannot show on a CPU."""

    @property
    def caught(self) -> bool:
        return self.status == "difference"

    @property
    def killed(self) -> bool:
        """Caught, and nothing but the fault is blamed."""
        return self.caught and self.named == (self.planted,)


def keep(verdict: Verdict, state: Path) -> None:
    with state.open("a", encoding="utf-8") as file:
        file.write(json.dumps(asdict(verdict)) + "\n")


def known(state: Path) -> dict[str, Verdict]:
    """The verdicts of earlier runs, the last one for each fault."""
    if not state.exists():
        return {}
    lines = (json.loads(line) for line in state.read_text(encoding="utf-8").splitlines())
    return {each["fault"]: Verdict(**{**each, "named": tuple(each["named"])}) for each in lines}


def score(verdicts: Mapping[str, Verdict]) -> tuple[int, int]:
    """How many were killed, of how many."""
    return sum(each.killed for each in verdicts.values()), len(verdicts)


def page(verdicts: Mapping[str, Verdict]) -> str:
    """All verdicts as Markdown."""
    killed, every = score(verdicts)
    missed = [each for each in verdicts.values() if not each.killed]
    lines = [
        "# Planted faults",
        "",
        "`python -m benchmarks.planted_faults`; what is done is in [its README](../planted_faults/README.md).",
        "",
        f"**Mutation score: {killed} of {every} ({killed / every:.0%}).** Caught and the right finding named, alone.",
        f"Caught at all: {sum(each.caught for each in verdicts.values())} of {every}.",
        "",
        "| topic | killed | planted |",
        "|---|---:|---:|",
        *_topics(verdicts),
        "",
        "| fault | what is wrong | planted in | claims to be | verify says | first difference | s |",
        "|---|---|---|---|---|---|---:|",
        *(_row(each) for each in verdicts.values()),
    ]
    if missed:
        lines += ["", "## Missed", ""]
        lines += [f"- `{each.fault}`: {each.unseen or _said(each)}" for each in missed]
    return "\n".join(lines) + "\n"


def _topics(verdicts: Mapping[str, Verdict]) -> list[str]:
    topics: dict[str, list[Verdict]] = {}
    for each in verdicts.values():
        topics.setdefault(each.fault.partition("/")[0], []).append(each)
    return [f"| {topic} | {sum(each.killed for each in found)} | {len(found)} |" for topic, found in topics.items()]


def _row(each: Verdict) -> str:
    cells = (f"`{each.fault}`", each.wrong, each.planted, each.tier, _said(each), each.first, f"{each.seconds:.0f}")
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _said(each: Verdict) -> str:
    if each.killed:
        return "named"
    if each.caught:
        return f"caught; named {', '.join(each.named) or 'nothing'}"
    return f"**missed** ({each.status})"
