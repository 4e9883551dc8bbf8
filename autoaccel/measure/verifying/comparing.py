"""Two runs, and what differs between them, in words that the owner of the script understands.

What is the same whenever the original is repeated must be the same in the rewritten script. `Reference` knows what
that is: parts that vary between equal runs of the original, such as times that it prints, are not compared.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from autoaccel.measure.observing.run_record import FAILED, Entry, Loss, RunRecord
from autoaccel.measure.verifying import printed, written_files
from autoaccel.measure.verifying.facts import (
    Difference,
    Fact,
    apart,
    differing,
    facts,
    in_order,
    named,
    tensor,
    training_modes,
)
from autoaccel.measure.verifying.printed import Masks
from autoaccel.measure.verifying.regrouping import regrouped
from autoaccel.measure.verifying.written_files import SteadyFiles
from autoaccel.reports.counting import counted, listed


@dataclass(frozen=True, slots=True)
class Reference:
    """An original run, and what of it repeats itself."""

    record: RunRecord
    varying: frozenset[Fact] = frozenset()
    """Facts that are not the same in equal runs."""
    unsteady: frozenset[str] = frozenset()
    """Of `loss`, `data`, `state` and `random` what is not bit-equal in equal runs."""
    masks: Masks = field(default_factory=Masks)
    """What varies in the lines that it prints."""
    prints: bool = True
    """Whether equal runs print the same lines, apart from that."""
    files: SteadyFiles = field(default_factory=SteadyFiles)
    """What of the files that it writes repeats itself."""

    @property
    def repeats(self) -> bool:
        """Whether it trains the same, bit for bit, whenever it is run."""
        return not self.unsteady


def reference(runs: Sequence[RunRecord]) -> Reference:
    """The first of several runs that should be equal, and what of it repeats itself in the others."""
    first, *others = runs
    known = [facts(run) for run in runs]
    names = dict.fromkeys(name for each in known for name in each)
    varying = {name for name in names if len({each.get(name) for each in known}) > 1}
    unsteady = set()
    for other in others:
        unsteady |= {"loss"} if first_loss(first.losses, other.losses) is not None else set()
        unsteady |= {"data"} if _batches(first) != _batches(other) else set()
        unsteady |= {"state"} if _digests(first) != _digests(other) else set()
        unsteady |= {"random"} if first.random != other.random else set()
    same = all(printed.shapes(first.printed) == printed.shapes(other.printed) for other in others)
    masks = printed.masks([run.printed for run in runs]) if same else Masks()
    return Reference(first, frozenset(varying), frozenset(unsteady), masks, same, written_files.steady(runs))


def less_steady(known: Reference, again: RunRecord) -> Reference:
    """With what one more run of the original has shown not to repeat itself."""
    both = reference([known.record, again])
    return Reference(
        known.record,
        known.varying | both.varying,
        known.unsteady | both.unsteady,
        known.masks.joined(both.masks),
        known.prints and both.prints,
        known.files.merged(both.files),
    )


def differences(original: Reference, other: RunRecord) -> list[Difference]:
    """All that must be the same, bit for bit, and is not; what explains the rest comes first."""
    record, other, portions = regrouped(original.record, other)
    original = replace(original, record=record)
    found = [*structure(original, other), *portions]
    steady = original.unsteady.__contains__
    if not steady("data"):
        found.extend(data(record, other))
    if not steady("loss"):
        found.extend(_losses(record.losses, other.losses))
    if not steady("state"):
        found.extend(_state(record.state, other.state))
    if not steady("random"):
        found.extend(random(record, other))
    if original.prints:
        line = printed.difference(record.printed, other.printed, original.masks)
        found.extend([] if line is None else [Difference("printed", line)])
    found.extend(written_files.differences(original.files, record, other))
    return in_order(found)


def _same_setting(before: str | None, after: str | None) -> bool:
    """Whether two settings are the same: `weight_decay=0` is `weight_decay=0.0`."""
    if before == after or before is None or after is None:
        return before == after
    try:
        return float(before) == float(after)
    except ValueError:
        return False


def structure(
    original: Reference, other: RunRecord, same: Callable[[str | None, str | None], bool] = _same_setting
) -> list[Difference]:
    """What does not depend on the values of random numbers, nor on rounding: how often, with which settings, on what;
    and whether it failed. `same` says whether two settings are."""
    record, other, _ = regrouped(original.record, other)
    statuses = record.exit_status, other.exit_status
    if other.went_wrong or (other.ending == FAILED and record.exit_status is None):
        return [Difference("failure", failed(other))]
    if None not in statuses and statuses[0] != statuses[1]:
        return [Difference("failure", f"it ends with exit status {statuses[1]} instead of {statuses[0]}")]
    more = ((phrase, times) for phrase, times in other.marks.items() if times > record.marks.get(phrase, 0))
    found = [Difference("mark", phrase if times == 1 else f"{phrase}, {times} times") for phrase, times in more]
    before, after = facts(record), facts(_as_far(record, other))
    modes = []
    kept = {(each.kind, each.name) for run in (record, other) for each in run.state if not each.is_saved}
    for fact in dict.fromkeys((*before, *after)):
        if fact in original.varying or same(before.get(fact), after.get(fact)):
            continue
        if fact in kept and (fact not in before or fact not in after):
            continue  # the other version makes it in each step; what is made of it is compared
        if fact[0] == "setting" and fact[1].endswith(".training"):
            modes.append((fact[1], after.get(fact)))
        else:
            found.append(differing(fact, before.get(fact), after.get(fact)))
    found.extend(training_modes(modes))
    return in_order(found)


def told(found: Sequence[Difference]) -> str:
    """The first difference and, where that is not one itself, the first loss that differs."""
    if not found:
        return "the same"
    loss = next((each.text for each in found[1:] if each.kind == "loss"), None)
    if found[0].kind in ("loss", "failure") or loss is None:
        return found[0].text
    return f"{found[0].text}; {loss}"


def failed(record: RunRecord) -> str:
    """How a run failed, in one phrase."""
    failure = record.failure
    if failure is None:
        return "it failed"
    where = f" ({failure.where})" if failure.where else ""
    message = failure.message if failure.message.startswith(failure.kind) else f"{failure.kind}: {failure.message}"
    return f"it fails: {message}{where}"


def _as_far(original: RunRecord, other: RunRecord) -> RunRecord:
    """The other run, without what it looked ahead for in passes that the original left before their end."""
    passes = list(other.passes)
    for at, (one, two) in enumerate(zip(original.passes, passes, strict=False)):
        if not one.complete and one.loader == two.loader and len(two.batches) >= len(one.batches):
            passes[at] = replace(two, batches=two.batches[: len(one.batches)], complete=False)
    return replace(other, passes=tuple(passes))


# -- what must be bit-equal


def first_loss(before: Sequence[Loss], after: Sequence[Loss]) -> int | None:
    """The index of the first loss that differs, or of the end of the shorter; None when all are equal."""
    for index, (one, other) in enumerate(zip(before, after, strict=False)):
        if one.exact != other.exact:
            return index
    return None if len(before) == len(after) else min(len(before), len(after))


def _losses(before: Sequence[Loss], after: Sequence[Loss]) -> Iterator[Difference]:
    index = first_loss(before, after)
    if index is None:
        return
    if index == min(len(before), len(after)):
        yield Difference("loss", f"{counted(len(after), 'loss', 'losses')} instead of {len(before)}")
    else:
        yield Difference("loss", other_loss(before, after, index))


def other_loss(before: Sequence[Loss], after: Sequence[Loss], index: int) -> str:
    """How the losses at an index differ."""
    one, other = before[index], after[index]
    amid = sum(each.step == one.step for each in before) > 1
    number = f" {sum(each.step == one.step for each in before[:index]) + 1}" if amid else ""
    which = f"loss{number} of step {one.step + 1}"
    if one.value is None or other.value is None:
        return f"{which}: other numbers"
    return f"{which}: {' instead of '.join(distinct(other.value, one.value))}"


def distinct(one: float, other: float) -> tuple[str, str]:
    """Two numbers with as many digits as it takes to tell them apart, and five at least."""
    for digits in range(5, 18):
        texts = f"{one:.{digits}g}", f"{other:.{digits}g}"
        if texts[0] != texts[1]:
            return texts
    return repr(one), repr(other)


def _batches(record: RunRecord) -> list[tuple[int, tuple[str, ...]]]:
    return [(each.loader, each.batches) for each in record.passes]


def data(before: RunRecord, after: RunRecord) -> Iterator[Difference]:
    """The first pass that got other batches. Of a pass that was left early, batches looked ahead for are no matter."""
    numbers: Counter[int] = Counter()
    for one, other in zip(before.passes, after.passes, strict=False):
        numbers[one.loader] += 1
        where = f"pass {numbers[one.loader]} over loader {one.loader + 1}"
        if one.loader != other.loader:
            others = sum(numbers.values()) - 1
            yield Difference("data", f"the pass after {others} others is over loader {other.loader + 1}")
            return
        pairs = zip(one.batches, other.batches, strict=False)
        index = next((index for index, (left, right) in enumerate(pairs) if left != right), None)
        if index is None and len(other.batches) < len(one.batches):
            index = len(other.batches)
        if index is None and one.complete and len(other.batches) > len(one.batches):
            index = len(one.batches)
        if index is not None:
            is_there = index < min(len(one.batches), len(other.batches))
            counts = f"{len(other.batches)} batches instead of {len(one.batches)}"
            yield Difference("data", f"{where}: {f'batch {index + 1} is another one' if is_there else counts}")
            return


def is_another_batch(found: Difference) -> bool:
    """Whether there are as many batches as before, and one holds something else."""
    return found.kind == "data" and found.text.endswith("is another one")


def _digests(record: RunRecord) -> dict[tuple[str, str], str]:
    return {(each.kind, each.name): each.digest for each in record.state}


def _state(before: Sequence[Entry], after: Sequence[Entry]) -> Iterator[Difference]:
    """Of each kind the tensor that is furthest off, with the number of others."""
    furthest: dict[str, list[tuple[float, Entry]]] = {}
    for entry, other in other_tensors(before, after):
        if tensor(other) == tensor(entry):
            off = apart(entry, other)
            if off is None or not off <= _DENORMAL:  # nor is what is no number
                furthest.setdefault(entry.kind, []).append(((off or 0.0) / (entry.norm or 1.0), entry))
    for kind, found in furthest.items():
        distance, entry = max(found, key=lambda each: each[0])
        others = f", and {len(found) - 1} others" if len(found) > 1 else ""
        far = f" (off by {distance:.1g} of its norm)" if distance > 0 else ""
        far = " (no numbers)" if math.isnan(distance) else far
        yield Difference(kind, f"{named(kind, entry.name)}{far}{others}")


def other_tensors(before: Sequence[Entry], after: Sequence[Entry]) -> Iterator[tuple[Entry, Entry]]:
    """Those of one name that are not bit-equal."""
    known = {(each.kind, each.name): each for each in after}
    for entry in before:
        other = known.get((entry.kind, entry.name), entry)
        if other.digest != entry.digest:
            yield entry, other


# Gradients that are too small to have all their bits have more of them while they are scaled, and 0 has two signs.
_DENORMAL = 1e-36


def random(before: RunRecord, after: RunRecord) -> Iterator[Difference]:
    streams = [name for name in before.random if after.random.get(name) != before.random[name]]
    if streams:
        yield Difference("random", f"{listed(streams)}: other random numbers were drawn")
