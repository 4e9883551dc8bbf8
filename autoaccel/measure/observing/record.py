"""What was seen of one run: plain data, which comes from its process as JSON."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass, field
from typing import Any

FINISHED, STOPPED, FAILED = "finished", "stopped", "failed"


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a run failed: one line for the user, and the traceback as Python would have printed it."""

    kind: str
    """The exception's type, `exit status`, `signal`, `timeout`, `overwrites` (a protected file), or `died`."""
    message: str
    where: str = ""
    """`file:line` of the innermost frame that is the project's own."""
    traceback: str = ""


@dataclass(frozen=True, slots=True)
class Loss:
    """One root of one backward, unscaled. `exact` is without rounding: hexadecimal, or a hash of several numbers."""

    exact: str
    value: float | None
    """None where the root is not a single number."""
    step: int
    """How many optimizer steps had been made."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One tensor of the state after the last step."""

    name: str
    kind: str
    """parameter, buffer, or optimizer."""
    dtype: str
    shape: tuple[int, ...]
    digest: str
    """Of its bytes: equal digests are equal bits."""
    norm: float
    """Euclidean, in float64."""
    sketch: tuple[float, ...]
    """Projections on fixed random directions of length one per element, which depend on the number of elements alone:
    the mean square of two tensors' differences here estimates the square of the norm of their difference."""


@dataclass(frozen=True, slots=True)
class Pass:
    """One iteration over a DataLoader in the process of the script."""

    loader: int
    """Which loader, in the order in which they were first iterated."""
    length: int | None
    """`len(loader)`, None where it has none."""
    batches: tuple[str, ...]
    """A hash of each batch that the loop got, before anything was done with it."""
    complete: bool
    """Whether the loader ran out of batches of its own."""
    draws: tuple[str, ...] = ()
    """Streams that the dataset drew random numbers from, as far as it works in this process: python, numpy, torch."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What the runtime decided, and why."""

    topic: str
    value: str
    reason: str


@dataclass(frozen=True, slots=True)
class Profile:
    """Where the time of a step goes."""

    shares: dict[str, float]
    """By class (`loader`, `transfer`, `launch`, `compute`, `optimizer`, `sync`, `evaluation`, `other`), in this order;
    they add up to 1, and what is missing has none."""
    seconds: float
    """Of a step, as it is without a profiler."""
    steps: int
    """How many were timed."""
    uncertainty: float = 0.0
    """By how much a share may be off: one standard error, 0 to 1."""


@dataclass(frozen=True, slots=True)
class RunRecord:
    """One run."""

    ending: str
    failure: Failure | None = None
    losses: tuple[Loss, ...] = ()
    steps: int = 0
    """Optimizer steps, those that a scaler left out included."""
    backwards: int = 0
    skipped_steps: int = 0
    """Steps that a scaler left out because gradients overflowed."""
    optimizers: int = 0
    state: tuple[Entry, ...] = ()
    settings: dict[str, str] = field(default_factory=dict)
    """What else is state, by name, exactly spelled: groups of optimizers (lr, weight decay …), schedulers, and whether
    modules are in training mode."""
    random: dict[str, str] = field(default_factory=dict)
    """Where each stream of random numbers stands, as a hash: python, numpy, torch, cuda:0 …"""
    passes: tuple[Pass, ...] = ()
    printed: tuple[str, ...] = ()
    """The lines of the script's standard output."""
    marks: dict[str, int] = field(default_factory=dict)
    """How often something was seen that no good rewrite does; the key is a phrase for the user."""
    decisions: tuple[Decision, ...] = ()
    files: tuple[str, ...] = ()
    """The project's files that were run or imported, by real path, the script first."""
    reached: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """Lines of the files as they are on disk that were run, by real path."""
    seconds: float = 0.0
    """Since the process was started."""
    device: str = "cpu"
    """The type of device that parameters of the optimizers are on."""
    torch: str = ""
    python: str = ""
    profile: Profile | None = None
    """Of a run in the mode `profile`: None also there, if it was too short."""

    def to_json(self) -> str:
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def from_json(cls, text: str) -> RunRecord:
        values: dict[str, Any] = json.loads(text)
        failure, profile = values.pop("failure"), values.pop("profile")
        return cls(
            **{
                **values,
                "failure": None if failure is None else Failure(**failure),
                "losses": tuple(Loss(**each) for each in values["losses"]),
                "state": tuple(
                    Entry(**{**each, "shape": tuple(each["shape"]), "sketch": tuple(each["sketch"])})
                    for each in values["state"]
                ),
                "passes": tuple(
                    Pass(**{**each, "batches": tuple(each["batches"]), "draws": tuple(each["draws"])})
                    for each in values["passes"]
                ),
                "printed": tuple(values["printed"]),
                "profile": None if profile is None else Profile(**profile),
                "decisions": tuple(Decision(**each) for each in values["decisions"]),
                "files": tuple(values["files"]),
                "reached": {path: tuple(lines) for path, lines in values["reached"].items()},
            }
        )
