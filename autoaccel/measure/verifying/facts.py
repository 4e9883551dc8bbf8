"""What can be compared between runs whose numbers differ: how often what was done, with which settings, on what.

And a difference, with the words for it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from autoaccel.measure.observing.run_record import Entry, Pass, RunRecord
from autoaccel.reports.counting import counted, listed

# The order in which differences are told: what explains others comes first.
KINDS = (
    "failure", "mark", "portion", "data", "setting", "count", "loss", "buffer", "parameter", "optimizer", "random",
    "printed", "saved", "file",
)  # fmt: skip

NUMBERS = frozenset({"loss", "buffer", "parameter", "optimizer", "printed"})
"""Those that rounding may account for."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing that is not as it was."""

    kind: str
    """One of `KINDS`."""
    text: str
    """A phrase: `loss of step 3: 0.69314 instead of 0.69301`."""


def in_order(found: Iterable[Difference]) -> list[Difference]:
    return sorted(found, key=lambda each: KINDS.index(each.kind))


def named(kind: str, name: str) -> str:
    return name if kind == "optimizer" else f"{kind} {name}"


SKIPPED = "step left out because gradients overflowed"
_SEVERAL_SKIPPED = "steps left out because gradients overflowed"
Fact = tuple[str, str]
"""A kind and a name."""


def facts(record: RunRecord) -> dict[Fact, str]:
    """How often what was done, with which settings, on which tensors."""
    found: dict[Fact, str] = {
        ("count", "step"): str(record.steps),
        ("count", "backward"): str(record.backwards),
        ("count", SKIPPED): str(record.skipped_steps),
        ("count", "optimizer"): str(record.optimizers),
    }
    for loader in dict.fromkeys(each.loader for each in record.passes):
        found.update(_facts_of_loader(loader, [each for each in record.passes if each.loader == loader]))
    found.update({("setting", name): value for name, value in record.settings.items()})
    scales = enumerate(record.scales, 1)
    found.update({("setting", f"gradient scaler {number}.scale"): f"{scale:g}" for number, scale in scales})
    found.update({(each.kind, each.name): tensor(each) for each in record.state})
    return found


def _facts_of_loader(loader: int, passes: Sequence[Pass]) -> dict[Fact, str]:
    name = f"loader {loader + 1}"
    found = {
        ("passes", name): str(len(passes)),
        ("repeated", name): str(sum(_repetitions(each) for each in passes)),
        ("again", name): str(sum(_came_before(one, passes[:at]) for at, one in enumerate(passes))),
    }
    if lengths := _several(each.length for each in passes if each.length is not None):
        found["length", name] = lengths
    if sizes := _several(len(each.batches) for each in passes if each.complete):
        found["batches", name] = sizes
    return found


def _several(numbers: Iterable[int]) -> str:
    return " or ".join(str(number) for number in sorted(set(numbers)))


def _repetitions(one: Pass) -> int:
    """How many batches of a pass were handed out before, in the same pass."""
    return len(one.batches) - len(set(one.batches))


def _came_before(one: Pass, earlier: Sequence[Pass]) -> bool:
    """Whether a pass hands out what an earlier one did, as far as both go."""
    pairs = ((one.batches, other.batches) for other in earlier if one.batches and other.batches)
    return any(all(left == right for left, right in zip(*each, strict=False)) for each in pairs)


def tensor(entry: Entry) -> str:
    return f"{entry.dtype.removeprefix('torch.')} of {' x '.join(map(str, entry.shape)) or 'one number'}"


def apart(one: Entry, other: Entry) -> float | None:
    """Between two tensors, estimated; None where nothing is known of it."""
    if not one.sketch or len(one.sketch) != len(other.sketch):
        return None
    differences = [left - right for left, right in zip(one.sketch, other.sketch, strict=True)]
    return math.hypot(*differences) / math.sqrt(len(differences))


def is_whole(entry: Entry) -> bool:
    """Whether a tensor counts something, so that no rounding is in it."""
    return not entry.dtype.removeprefix("torch.").startswith(("float", "bfloat", "complex"))


def differing(fact: Fact, before: str | None, after: str | None) -> Difference:
    kind, name = fact
    match kind:
        case "count":
            several = _SEVERAL_SKIPPED if name == SKIPPED else None
            return Difference("count", f"{counted(int(after or 0), name, several)} instead of {before}")
        case "passes":
            text = f"{counted(int(after or 0), 'pass', 'passes')} over {name} instead of {before or 0}"
        case "length":
            text = f"{after or 'an unknown number of'} batches per pass of {name} instead of {before}"
        case "batches":
            text = f"{after or 'no'} batches in a complete pass of {name} instead of {before or 'no'}"
        case "repeated":
            text = f"{counted(int(after or 0), 'batch', 'batches')} of {name} came again in the same pass"
        case "again":
            text = f"{counted(int(after or 0), 'pass', 'passes')} over {name} repeat an earlier one, not {before}"
        case "setting":
            owner, _, attribute = name.rpartition(".")
            what = f"{owner}'s {attribute}" if owner else name
            if attribute == "requires_grad":
                before, after = before or "True", after or "True"
            return Difference("setting", f"{what}: {after or 'not there'} instead of {before or 'not there'}")
        case _ if after is None:
            return Difference(kind, f"no {named(kind, name)}")
        case _ if before is None:
            return Difference(kind, f"{named(kind, name)}, which the original does not have")
        case _:
            return Difference(kind, f"{named(kind, name)}: {after} instead of {before}")
    return Difference("data", text)


def training_modes(modes: Sequence[tuple[str, str | None]]) -> Iterator[Difference]:
    """Modules in the other mode, outer ones first."""
    for value, what in (("False", "in evaluation mode"), ("True", "in training mode"), (None, "not there")):
        names = [name.removesuffix(".training") for name, after in modes if after == value]
        if names:
            yield Difference("setting", f"{listed(names)} {'are' if len(names) > 1 else 'is'} {what}")
