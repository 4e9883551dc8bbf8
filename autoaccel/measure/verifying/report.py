"""What a verification found: plain data, from which the text and the JSON are made."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from autoaccel.measure.observing.run_record import Decision
from autoaccel.rewriting.record import Range


class Verdict(enum.Enum):
    """What is known of one change."""

    PASSED = "passed"
    FAILED = "failed"
    NOT_REACHED = "not reached"
    NOT_VERIFIED = "not verified"


@dataclass(frozen=True, slots=True)
class Outcome:
    """One change."""

    path: str
    """As the user knows the file."""
    where: Range
    code: str
    name: str
    tier: str
    message: str
    """What the rule says."""
    verdict: Verdict
    reason: str
    """How it is the same, what differs, or why nothing is known: a phrase."""
    differences: tuple[str, ...] = ()
    """All that differs, what explains the rest first."""
    never_ran: tuple[str, ...] = ()
    """Where it changes what then never ran, though it was reached: `file:line`, `file:first-last`."""

    @property
    def line(self) -> int:
        return self.where.line


@dataclass(frozen=True, slots=True)
class RunSummary:
    """One run."""

    name: str
    steps: int
    seconds: float
    result: str
    """How it compares: a phrase."""


@dataclass(frozen=True, slots=True)
class Numerics:
    """The loss at the end of runs under several seeds."""

    seeds: int
    original: float
    rewritten: float
    spread: float
    """Standard deviation between runs of the original."""
    what: str
    """In which the rewritten script computed: `in bfloat16`."""


@dataclass(frozen=True, slots=True)
class Verification:
    """One verification."""

    script: str
    outcomes: tuple[Outcome, ...]
    steps: int
    """Optimizer steps of each run."""
    complete: bool
    """Whether the script ran to its end."""
    repeats: bool
    """Whether the original trains the same, bit for bit, when it is run again."""
    device: str
    torch: str
    python: str
    seconds: float
    trials: tuple[RunSummary, ...]
    numerics: Numerics | None = None
    decisions: tuple[Decision, ...] = ()
    """Of the runtime, as this machine makes them."""
    notes: tuple[str, ...] = ()
    """What the reader must know to judge the verdict."""
    against: str | None = None
    """The version that it was compared with; None for its rewritten form."""
    ranks: tuple[int, ...] = ()
    """By how many processes it was run, beside one."""
    differences: tuple[str, ...] = ()
    """What differs though no change is to blame."""
    steps_per_pass: int | None = None
    """Of a run that was stopped within a pass over a loader: the steps that one whole pass takes, at this rate."""

    def of(self, verdict: Verdict) -> tuple[Outcome, ...]:
        return tuple(each for each in self.outcomes if each.verdict is verdict)

    @property
    def same(self) -> bool:
        """Whether no difference was seen."""
        return not self.of(Verdict.FAILED) and not self.differences

    @property
    def says_nothing(self) -> bool:
        """Whether there are changes, and nothing is known of any."""
        return bool(self.outcomes) and self.same and not self.of(Verdict.PASSED)
