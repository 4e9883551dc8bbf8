"""Makes the runtime do on any machine what it does on a GPU, in a form that trains bit for bit as the script itself.

What it does by itself is asked for through its environment (`autoaccel.measure.rehearsals`). Here is what needs more:
a scale that goes up and down, copies of batches to other memory of the host, and watching what good rewrites never do.
No generator of random numbers is touched, but for one draw that loaders with kept workers leave out.
"""

from __future__ import annotations

import functools
import importlib
import os
import sys
from typing import Any

import torch
from torch.amp.grad_scaler import OptState
from torch.utils import data

from autoaccel.measure import rehearsals
from autoaccel.measure.observing import moving, precision, seeding
from autoaccel.measure.observing.marks import BACKWARD_IN_AUTOCAST, STEP_IN_AUTOCAST
from autoaccel.measure.observing.observation import Observation
from autoaccel.measure.observing.request import COMPILE, PREFETCH, SCALER, WORKERS
from autoaccel.runtime.amp.grad_scaler import Scaler
from autoaccel.runtime.compile import in_place_compile
from autoaccel.runtime.environment import Decision, note
from autoaccel.runtime.loading import persistent_workers, prefetcher

_TOO_OFTEN = "Dynamo recompile limit exceeded"

# Factors that the scale goes through, one an update: what was scaled by one of them must not be divided by another.
SCALES = (2.0**10, 2.0**12, 2.0**9, 2.0**11)


def install(observation: Observation) -> None:
    """Rehearse what the request asks for, from now on."""
    os.environ.update(rehearsals.environment(observation.request.rehearse))
    observation.events.before_step.append(precision.install(observation.mark))
    observation.events.before_backward.append(lambda _: _mark_inside(observation, BACKWARD_IN_AUTOCAST))
    observation.events.before_step.append(lambda _: _mark_inside(observation, STEP_IN_AUTOCAST))
    if SCALER in observation.request.rehearse:
        _vary_scale()
    if WORKERS in observation.request.rehearse:
        _draw_missing_seeds()
        seeding.install(observation)
    if COMPILE in observation.request.rehearse:
        _keep_checkpoints()
        observation.endings.append(lambda *_: _tell_graphs())
    if PREFETCH in observation.request.rehearse:
        moving.install()
        observation.endings.append(lambda *_: moving.look_back(observation.mark))


def depth() -> int:
    """How many autocast regions of the runtime are open; those inside compiled code are not counted."""
    return precision.Region.open


def _mark_inside(observation: Observation, phrase: str) -> None:
    if depth():
        observation.mark(phrase)


def _draw_missing_seeds() -> None:
    """Let a pass with kept workers draw the seed that it would draw with new ones.

    `accel.prefetch` does this by itself. Elsewhere the passes after the first are shuffled in another order, which is
    as good; with the draw made up for, anything else that kept workers change is not hidden behind it.
    """
    iterate, begin = data.DataLoader.__iter__, prefetcher.begin_epoch
    prefetched: list[Any] = []

    @functools.wraps(begin)
    def begun(loader: Any) -> Any:
        prefetched.append(loader)
        try:
            return begin(loader)
        finally:
            prefetched.pop()

    @functools.wraps(iterate)
    def iterated(loader: Any) -> Any:
        is_again = persistent_workers.keeps_chosen(loader) and loader._iterator is not None  # noqa: SLF001
        if is_again and not any(each is loader for each in prefetched):
            torch.empty((), dtype=torch.int64).random_(generator=loader.generator)
        return iterate(loader)

    vars(prefetcher)["begin_epoch"] = begun
    setattr(data.DataLoader, "__iter__", iterated)  # noqa: B010 - mypy does not let methods be assigned


def _keep_checkpoints() -> None:
    """Where activations are computed again, plain graphs would draw other dropout masks: autograd has to trace them."""

    def captured(graph: torch.fx.GraphModule, inputs: list[Any]) -> Any:
        if any("checkpoint" in str(node.target) for node in graph.graph.nodes):
            return importlib.import_module("torch._dynamo").lookup_backend("aot_eager")(graph, inputs)
        return graph.forward

    backend = in_place_compile._backend  # noqa: SLF001
    vars(in_place_compile)["_backend"] = lambda name: captured if name == "eager" else backend(name)


def _tell_graphs() -> None:
    """At the end: how well the graphs could be captured, as a decision."""
    dynamo = sys.modules.get("torch._dynamo.utils")
    if dynamo is None:
        return
    counters = vars(dynamo)["counters"]
    breaks = counters["graph_break"]
    found = [f"{reason.splitlines()[0]}: {times} times" for reason, times in breaks.items()]
    if any(reason.startswith(_TOO_OFTEN) for reason in counters["unimplemented"]):
        found.append("captured anew at every call until dynamo gave up")
    if captured := counters["stats"]["unique_graphs"]:
        note("graphs", Decision(captured, "; ".join(found) or "without a break"))


def _vary_scale() -> None:
    scale, update = Scaler.scale, Scaler.update

    @functools.wraps(scale)
    def first(self: Scaler, outputs: Any) -> Any:
        if self._scale is None:
            self._init_scale = SCALES[0]
        return scale(self, outputs)

    @functools.wraps(update)
    def varied(self: Scaler, new_scale: float | torch.Tensor | None = None) -> None:
        stepped = any(state["stage"] is OptState.STEPPED for state in self._per_optimizer_states.values())
        before = self.get_scale()
        update(self, new_scale)
        if self._scale is not None and stepped and new_scale is None and self.get_scale() >= before:
            at = SCALES.index(before) if before in SCALES else -1
            self._scale.fill_(SCALES[(at + 1) % len(SCALES)])

    for name, method in (("scale", first), ("update", varied)):
        setattr(Scaler, name, method)
