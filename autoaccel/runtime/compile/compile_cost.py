"""Whether compiling pays: what it costs against what it saves. Arithmetic over seconds, without clocks and torch.

It pays if `left * step * share * (1 - 1 / speedup) > 1.5 * cost`. Where nothing tells how many steps are left, there
may be as many as there were so far: then at any moment the run has lost no more than a bounded share of its time, and
takes no more than about twice as long as if the better choice had been made at once (the doubling rule, as in renting
or buying skis). No attempt is made before its whole cost is a small share of the time that is spent anyway, so that a
run which gains nothing, or ends the moment after, loses little; and never so early that the first hundred steps
suffer by more than a tenth.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

MARGIN: Final = 1.5
PATIENCE: Final = 0.1  # the share of the time of the first hundred steps that compiling may take
EARLY: Final = 100  # steps
_COMPARED: Final = 4  # steps that may be lost on top, when what was compiled turns out to be slower


@dataclass(frozen=True, slots=True)
class Prior:
    """What compiling for a kind of device is expected to cost and to bring, before anything was measured.

    speedup: of the compiled part, on average, models that are reverted counted as 1.  cold, warm: seconds for the
    first graph and for each leaf module in it, without and with Inductor's cache on disk.  stake: the share of the
    run's time that may be lost if nothing is gained.  smallest: seconds; shorter steps are all overhead.
    """

    speedup: float
    cold: tuple[float, float]
    warm: tuple[float, float]
    stake: float
    smallest: float

    def cost(self, leaves: int, graphs: int = 1, *, warm: bool) -> float:
        """Seconds to compile a module of so many leaf modules, once for each kind of arguments."""
        first, each = self.warm if warm else self.cold
        return first + graphs * each * leaves


_ACCELERATOR: Final = Prior(speedup=1.3, cold=(15.0, 0.3), warm=(3.0, 0.03), stake=PATIENCE, smallest=0.0)
# CPU, measured on two cores with torch 2.13: 8 to 19 s cold, 3 to 6 s warm; 0.9 to 1.3 times as fast in float32, less
# in bfloat16. Gains are rare there, so little is staked on them.
PRIORS: Final[Mapping[str, Prior]] = {
    "cuda": _ACCELERATOR,
    "xpu": _ACCELERATOR,
    "cpu": Prior(speedup=1.1, cold=(8.0, 0.6), warm=(3.0, 0.1), stake=0.03, smallest=0.001),
}


@dataclass(frozen=True, slots=True)
class TrainingRun:
    """What is known of a run.

    done, left: steps so far and to come, None where nothing tells.  step: seconds of one.  share: of a step's time
    that compiling can speed up.  spent: seconds that compiling took so far in this process, whatever for.
    """

    done: int
    step: float
    left: int | None = None
    share: float = 1.0
    spent: float = 0.0


@dataclass(frozen=True, slots=True)
class CostDecision:
    """Whether it pays, why, and whether that is the last word: nothing to come can make it pay."""

    pays: bool
    reason: str
    final: bool = False


def worth(run: TrainingRun, cost: float, prior: Prior) -> CostDecision:
    """Whether to compile now, for so many seconds."""
    if run.step < prior.smallest:
        return CostDecision(False, f"steps of {duration(run.step)} are too short to gain by it", run.done >= EARLY)
    ahead = run.done if run.left is None else run.left
    gain = ahead * run.step * run.share * (1 - 1 / max(prior.speedup, 1.0))
    known = _known(run)
    if gain <= MARGIN * cost:
        saves = f"{known}: compiling takes about {duration(cost)} and would save about {duration(gain)}"
        return CostDecision(False, saves, run.left is not None)
    staked = run.spent + cost
    whole = run.done + (run.left or 0)
    if staked > prior.stake * whole * run.step:
        return CostDecision(False, f"{known}: too little to stake {duration(staked)} on it", run.left is not None)
    if run.done < EARLY and staked > (PATIENCE * EARLY - _COMPARED) * run.step:
        return CostDecision(False, f"{known}: the first {EARLY} steps would suffer")
    return CostDecision(True, f"{known}: compiling pays")


def _known(run: TrainingRun) -> str:
    sofar = f"{duration(run.done * run.step)} of steps so far"
    left = "" if run.left is None else f", {run.left} left"
    return f"{sofar}{left} at {duration(run.step)}"


def duration(seconds: float) -> str:
    """Seconds with three digits, in the unit that suits them."""
    for factor, unit in ((1.0, "s"), (1e3, "ms")):
        if seconds * factor >= 0.995:
            scaled = seconds * factor
            return f"{scaled:.3g} {unit}" if scaled < 999.5 else f"{scaled:.0f} {unit}"
    return f"{seconds * 1e6:.3g} µs"
