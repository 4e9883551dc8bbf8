"""What the eager steps of a module or function tell: where they begin, how long they take, and with what arguments."""

from __future__ import annotations

import itertools
from collections import Counter, deque
from collections.abc import Callable, Collection, Hashable, Sequence
from typing import Any, Final

import torch

from ..trial.clocks import Clock

WINDOW: Final = 64  # iterations that tell what is usual
_ENDLESS: Final = 200  # calls without an update of the parameters: steps cannot be told apart


class StepDetector:
    """Tells at a call whether it is the first one since the parameters changed.

    torch counts the changes of a tensor in place, and optimizers change parameters in place; fused ones do not count
    (torch 2.13), but there gradients are seen to be taken away. Without parameters, or where nothing of this is ever
    seen, each call counts as a step of its own.
    """

    def __init__(self, parameters: Sequence[torch.Tensor]) -> None:
        self.distinguishable = True
        self._parameters = tuple(parameters)
        self._smallest = min(parameters, key=torch.numel, default=None)  # of its gradient a reference is held
        self._version: int | None = None
        self._gradient: torch.Tensor | None = None
        self._counted = False  # by versions
        self._changed = False
        self._unchanged = 0

    def is_new_step(self) -> bool:
        """Whether a step begins with this call."""
        if self._smallest is None or not self.distinguishable:
            return True
        first, changed = self._version is None, self._has_changed(self._smallest)
        if first or changed:
            self._changed, self._unchanged = changed, 0
            return True
        self._unchanged += 1
        self.distinguishable = self._changed or self._unchanged < _ENDLESS
        return not self.distinguishable

    def _has_changed(self, smallest: torch.Tensor) -> bool:
        try:
            version = sum([parameter._version for parameter in self._parameters])  # noqa: SLF001
        except RuntimeError:  # tensors made under inference mode count no versions
            version = 0
        before, self._version = self._version, version
        if before is not None and version != before:
            self._counted = True
            return True
        if self._counted:
            return False
        gradient, self._gradient = self._gradient, smallest.grad
        return gradient is not None and gradient is not smallest.grad


def sample_parameters(module: torch.nn.Module) -> tuple[torch.Tensor, ...]:
    """A few of a module's trainable parameters: the first, the last, and one between them."""
    trainable = [parameter for parameter in module.parameters() if parameter.requires_grad]
    chosen = {0, len(trainable) // 2, len(trainable) - 1} if trainable else set()
    return tuple(trainable[index] for index in sorted(chosen))


class StepTimer:
    """The last eager iterations of a target, and the time that its calls took within them."""

    def __init__(self, clock: Clock) -> None:
        self.iterations = 0  # that are over
        self._clock = clock
        self._calls = 0
        self._calls_now = 0  # in the iteration in progress
        self._seconds: deque[float] = deque(maxlen=WINDOW)
        self._kinds: deque[frozenset[Hashable]] = deque(maxlen=WINDOW)
        self._kinds_now: set[Hashable] = set()
        self._inside: list[tuple[Any, Any]] = []  # of calls: marks of the clock

    def call(self, kind: Hashable, run: Callable[[], Any]) -> Any:
        """Run the target with arguments of this kind, as part of the iteration in progress."""
        self._kinds_now.add(kind)
        self._calls_now += 1
        if self.iterations < 2 or len(self._inside) >= WINDOW:
            return run()
        start = self._clock.mark()
        result = run()
        self._inside.append((start, self._clock.mark()))
        return result

    def end_iteration(self, seconds: float) -> None:
        """The iteration in progress is over."""
        self.iterations += 1
        if self.iterations > 2:  # before, kernels are chosen and memory is asked for
            self._seconds.append(seconds)
            self._kinds.append(frozenset(self._kinds_now))
        self._calls += self._calls_now
        self.discard_iteration()

    def discard_iteration(self) -> None:
        """The iteration in progress does not count."""
        self._kinds_now.clear()
        self._calls_now = 0

    @property
    def step(self) -> float:
        """The seconds of a usual iteration."""
        return _median(self._seconds) if self._seconds else 0.0

    @property
    def calls_per_iteration(self) -> float:
        """How often an iteration calls the target."""
        return self._calls / max(1, self.iterations)

    def usual_kinds(self) -> tuple[frozenset[Hashable], float]:
        """The kinds of arguments that at least half of the iterations have, and the share that has no others."""
        counted = Counter(itertools.chain.from_iterable(self._kinds))
        usual = frozenset(kind for kind, count in counted.items() if 2 * count >= len(self._kinds))
        alone = sum(kinds <= usual for kinds in self._kinds) if usual else 0
        return usual, alone / max(1, len(self._kinds))

    def variety(self) -> str:
        """How many kinds of arguments there were, in words."""
        kinds = len(frozenset().union(*self._kinds))
        return f"{kinds} kinds of arguments in {len(self._kinds)} steps"

    def share(self, backward: float) -> float:
        """The share of an iteration that the target takes: its calls, and `backward` times as much for the way back."""
        known = self._measured()
        if not known or not self.step:
            return 1.0
        per_iteration = _median(known) * self.calls_per_iteration
        return min(1.0, per_iteration * (1 + backward) / self.step)

    def _measured(self) -> list[float]:
        marked = [(start, end) for start, end in self._inside if start is not None and end is not None]
        return [seconds for each in marked if (seconds := self._clock.seconds(*each)) is not None]


def _median(values: Collection[float]) -> float:
    ordered = sorted(values)  # importing statistics takes longer than a small run
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2
