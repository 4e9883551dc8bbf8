"""The runs of a verification: each is made once, told while it goes on, and noted."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from autoaccel.measure.changes import Change, Changes
from autoaccel.measure.observing.request import Request
from autoaccel.measure.observing.run_record import RunFailure, RunRecord
from autoaccel.measure.verifying.comparing import Reference, told
from autoaccel.measure.verifying.facts import Difference
from autoaccel.measure.verifying.report import RunSummary

# Kinds of failures of ours: before the script has begun, or while the record is made.
_UNOBSERVED = ("died", "cannot start")


class CannotVerifyError(ValueError):
    """Nothing can be said about this script. The message is one line; `failure` is why, if a run failed."""

    def __init__(self, message: str, failure: RunFailure | None = None) -> None:
        super().__init__(message)
        self.failure = failure


Runner = Callable[[Request, Mapping[str, str]], RunRecord]
"""Makes one run; the mapping is put on top of the environment."""
RanksRunner = Callable[[Request, Mapping[str, str], int], tuple[RunRecord, ...]]
"""Makes one run by so many processes that train together."""


@dataclass(slots=True)
class Trials:
    """Makes runs of one script."""

    request: Request
    runner: Runner
    tell: Callable[[str], None]
    changes: Changes = field(default_factory=Changes)
    noted: list[RunSummary] = field(default_factory=list)
    launcher: RanksRunner | None = None
    _known: dict[object, tuple[RunRecord, ...]] = field(default_factory=dict)

    def original(self, name: str, **asked: Any) -> RunRecord:
        """A run of the script as it is; `asked` are fields of `Request`. Made anew each time."""
        return self._run(name, replace(self.request, texts={}, **asked), {}, 1)[0]

    def rewritten(
        self, name: str, chosen: Collection[Change], environment: Mapping[str, str], **asked: Any
    ) -> RunRecord:
        """A run with some changes applied; the same question is not asked twice, but for another `repetition`."""
        return self.by_ranks(name, chosen, environment, 1, **asked)[0]

    def by_ranks(
        self,
        name: str,
        chosen: Collection[Change],
        environment: Mapping[str, str],
        count: int,
        *,
        repetition: int = 0,
        **asked: Any,
    ) -> tuple[RunRecord, ...]:
        """The same by so many processes that train together: a record of each."""
        key = (frozenset(chosen), tuple(sorted(environment.items())), tuple(sorted(asked.items())), repetition, count)
        if key not in self._known:
            request = replace(self.request, texts=self.changes.texts(chosen), **asked)
            self._known[key] = self._run(name, request, environment, count)
        return self._known[key]

    def note_result(self, result: str) -> None:
        """What came of the run before."""
        if self.noted and not self.noted[-1].result:
            self.noted[-1] = replace(self.noted[-1], result=result)

    def concluded(self, found: Sequence[Difference]) -> Sequence[Difference]:
        """What was found in the run before, once that is noted as its result."""
        self.note_result(told(found))
        return found

    def _run(self, name: str, request: Request, environment: Mapping[str, str], count: int) -> tuple[RunRecord, ...]:
        """What goes wrong with the observation says nothing about the script. Raises `CannotVerifyError`."""
        for _ in range(2):
            self.tell(name)
            began = time.monotonic()
            if count == 1 or self.launcher is None:
                records: tuple[RunRecord, ...] = (self.runner(request, environment),)
            else:
                records = self.launcher(request, environment, count)
            self.noted.append(RunSummary(name, records[0].steps, time.monotonic() - began, ""))
            failures = [each.failure for each in records if each.failure is not None]
            failure = next((each for each in failures if each.kind in _UNOBSERVED), None)
            if failure is None:
                return records
            self.note_result("it could not be observed")
        assert failure is not None
        raise CannotVerifyError(f"a run could not be observed: {failure.message}", failure)


@dataclass(slots=True)
class View:
    """One way to run the script, and what it does then."""

    name: str
    asked: Mapping[str, Any]
    reference: Reference
    reached: Mapping[str, Collection[int]]

    @property
    def cut(self) -> bool:
        """Whether passes are cut short."""
        return self.asked.get("pass_batches") is not None

    @property
    def ends(self) -> bool:
        """Whether the script comes to its end."""
        return self.reference.record.exit_status is not None
