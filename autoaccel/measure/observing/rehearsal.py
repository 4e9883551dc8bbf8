"""Makes the runtime do on any machine what it does on a GPU, in a form that trains bit for bit as the script itself.

Gradients are scaled by powers of two, totals are kept in tensors, graphs are captured and their kernels run one by
one, workers load batches, batches are copied before the loop asks for them. What is not rehearsed and not exact is off.
What the runtime does by itself is asked for through its environment; here is what needs more: a scale that goes up and
down, copies of batches to other memory of the host, and watching what good rewrites never do (`invariants`). No
generator of random numbers is touched, but for one draw that loaders with kept workers leave out.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Collection
from typing import Any

import torch
from torch.amp.grad_scaler import OptState
from torch.utils import data

from autoaccel.measure.observing import host_prefetch, invariants
from autoaccel.measure.observing.hooks import replacing
from autoaccel.measure.observing.observation import Observation
from autoaccel.measure.observing.request import COMPILE, FUSED, PREFETCH, SCALER, WORKERS
from autoaccel.runtime import running_total
from autoaccel.runtime.amp.grad_scaler import Scaler
from autoaccel.runtime.compile import in_place_compile
from autoaccel.runtime.loading import persistent_workers, prefetcher

# Factors that the scale goes through, one an update: what was scaled by one of them must not be divided by another.
SCALES = (2.0**10, 2.0**12, 2.0**9, 2.0**11)


def install(observation: Observation) -> None:
    """Rehearse what the request asks for, from now on."""
    os.environ.update(environment(observation.request.rehearse))
    invariants.watch(observation)
    vars(running_total)["ACCUMULATING"] = frozenset({"cpu", *running_total.ACCUMULATING})
    if SCALER in observation.request.rehearse:
        _vary_scale()
    if WORKERS in observation.request.rehearse:
        _draw_missing_seeds()
        invariants.watch_seeds(observation)
    if COMPILE in observation.request.rehearse:
        _keep_checkpoints()
    if PREFETCH in observation.request.rehearse:
        host_prefetch.install()
        observation.endings.append(lambda *_: host_prefetch.look_back(observation.mark))


def environment(rehearse: Collection[str]) -> dict[str, str]:
    """What to set in the environment of a run with `Request.rehearse`; an empty value takes a user's own away."""
    return {
        "AUTOACCEL_DISABLE": "" if PREFETCH in rehearse else "prefetch",
        "AUTOACCEL_AMP_DTYPE": "float32",
        "AUTOACCEL_GRAD_SCALER": "on" if SCALER in rehearse else "",
        "AUTOACCEL_COMPILE_MODE": "eager" if COMPILE in rehearse else "off",
        "AUTOACCEL_NUM_WORKERS": "2" if WORKERS in rehearse else "0",
        "AUTOACCEL_PREFETCH_DEPTH": "",
        "AUTOACCEL_FUSED": "on" if FUSED in rehearse else "off",
        "AUTOACCEL_CHANNELS_LAST": "off",
        "AUTOACCEL_MATMUL_PRECISION": "off",
        "AUTOACCEL_CUDNN_BENCHMARK": "off",
    }


def _draw_missing_seeds() -> None:
    """Let a pass with kept workers draw the seed that it would draw with new ones.

    `accel.prefetch` does this by itself. Elsewhere the passes after the first are shuffled in another order, which is
    as good; with the draw made up for, anything else that kept workers change is not hidden behind it.
    """
    prefetched: list[Any] = []

    @replacing(prefetcher, "begin_epoch")
    def begin(plain: Callable[..., Any], loader: Any, images: Any = None) -> Any:
        prefetched.append(loader)
        try:
            return plain(loader, images)
        finally:
            prefetched.pop()

    @replacing(data.DataLoader, "__iter__")
    def iterate(plain: Callable[[Any], Any], loader: Any) -> Any:
        is_again = persistent_workers.keeps_chosen(loader) and loader._iterator is not None  # noqa: SLF001
        if is_again and not any(each is loader for each in prefetched):
            torch.empty((), dtype=torch.int64).random_(generator=loader.generator)
        return plain(loader)


def _keep_checkpoints() -> None:
    """Where activations are computed again, plain graphs would draw other dropout masks: autograd has to trace them."""

    def captured(graph: torch.fx.GraphModule, inputs: list[Any]) -> Any:
        if any("checkpoint" in str(node.target) for node in graph.graph.nodes):
            return importlib.import_module("torch._dynamo").lookup_backend("aot_eager")(graph, inputs)
        return graph.forward

    in_place_compile.BACKENDS["eager"] = captured


def _vary_scale() -> None:
    @replacing(Scaler, "scale")
    def scale(plain: Callable[..., Any], scaler: Scaler, outputs: Any) -> Any:
        if scaler._scale is None:  # noqa: SLF001
            scaler._init_scale = SCALES[0]  # noqa: SLF001
        return plain(scaler, outputs)

    @replacing(Scaler, "update")
    def update(plain: Callable[..., None], scaler: Scaler, new_scale: float | torch.Tensor | None = None) -> None:
        states = scaler._per_optimizer_states.values()  # noqa: SLF001
        stepped = any(state["stage"] is OptState.STEPPED for state in states)
        before = scaler.get_scale()
        plain(scaler, new_scale)
        if scaler._scale is not None and stepped and new_scale is None and scaler.get_scale() >= before:  # noqa: SLF001
            at = SCALES.index(before) if before in SCALES else -1
            scaler._scale.fill_(SCALES[(at + 1) % len(SCALES)])  # noqa: SLF001
