"""Gradients averaged over the ranks, by the reducer of torch's own DistributedDataParallel.

The model stays the script's: what DistributedDataParallel is made of is the list of its parameters. Its reducer is
told, when a backward pass begins, what the pass begins from, where DistributedDataParallel itself tells it, when a
forward pass ends, what that has computed. So it knows exactly which parameters will get a gradient: also those that
the loss alone reaches (a penalty on weights), those of several forward passes, and those of several backward passes
after them, which DistributedDataParallel would leave unreduced.
"""

from __future__ import annotations

import functools
import math
import weakref
from collections.abc import Sequence
from typing import Any, Final

import torch
from torch import nn

from ..execution_mode import in_backward
from . import batch_part, deferred_outputs, process_group
from .deferred_outputs import DeferredOutput

_COMPARED: Final = 3  # backward passes at whose beginning ranks compare their losses
_SAME: Final = 1e-3  # of a loss: devices round otherwise

_TWICE: Final = "gradients came out of sight of the backward pass; checkpoints in a model need use_reentrant=False"

_reductions: list[weakref.ref[GradientReduction]] = []
_passes = 0


class GradientReduction:
    """The reduction of a model's gradients, made when they are first wanted."""

    def __init__(self, model: nn.Module) -> None:
        self._model = weakref.ref(model)
        self._wrapper: nn.parallel.DistributedDataParallel | None = None
        self._known: set[int] = set()
        _reductions.append(weakref.ref(self))

    def parameters(self) -> list[nn.Parameter]:
        """What the model learns at this moment."""
        model = self._model()
        return [] if model is None else [each for each in model.parameters() if each.requires_grad]

    def prepare(self, roots: list[torch.Tensor]) -> None:
        """Expect the gradients that a backward pass from `roots` will give."""
        wanted = self.parameters()
        if not wanted:
            return
        for parameter in wanted:
            if parameter._backward_hooks or parameter._post_accumulate_grad_hooks:  # noqa: SLF001
                raise RuntimeError("accel.distribute: hooks of parameters would see gradients of one rank only")
        if self._wrapper is None or not {id(each) for each in wanted} <= self._known:
            self._wrapper = None  # its hooks go before there are others
            self._wrapper = _wrapped(wanted)
            self._known = {id(each) for each in wanted}
        self._wrapper.reducer.prepare_for_forward()
        self._wrapper.reducer.prepare_for_backward(roots)


def _wrapped(parameters: list[nn.Parameter]) -> nn.parallel.DistributedDataParallel:
    holder = nn.Module()
    holder.own = nn.ParameterList(parameters)
    # never used, so that the reducer has no reason to warn that it looks for what is not used
    holder.unused = nn.Parameter(torch.zeros_like(parameters[0].detach().flatten()[:1]))
    # without a broadcast: parameters are the same already, and a graph that has saved them waits for its backward pass
    return nn.parallel.DistributedDataParallel(holder, find_unused_parameters=True, init_sync=False)


@functools.cache
def install() -> None:
    """Be told of every backward pass; at the second call there is nothing to do."""
    original_backward, original_grad = torch.autograd.backward, torch.autograd.grad

    @functools.wraps(original_backward)
    def backward(
        tensors: Any,
        grad_tensors: Any = None,
        retain_graph: bool | None = None,
        create_graph: bool = False,
        grad_variables: Any = None,
        inputs: Any = None,
    ) -> None:
        group = process_group.current()
        tensors, grad_tensors = deferred_outputs.whole((tensors, grad_tensors))
        options = {"grad_variables": grad_variables, "inputs": inputs}
        # a checkpoint goes backward inside of the pass that was told of; in accel.first() every rank has whole batches
        if group is None or group.is_apart() or in_backward():
            return original_backward(tensors, grad_tensors, retain_graph, create_graph, **options)
        with group.naming_the_lost("in a backward pass"), batch_part.computing(None):
            _begin(tensors, inputs, create_graph, group)
            try:
                return original_backward(tensors, grad_tensors, retain_graph, create_graph, **options)
            except RuntimeError as failure:
                if "ready only once" not in str(failure):
                    raise
                raise RuntimeError(f"accel.distribute: {_TWICE}") from failure

    @functools.wraps(original_grad)
    def grad(outputs: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        listed = _listed(inputs)
        if process_group.current() is not None and _of_models(listed):
            raise RuntimeError(
                "accel.distribute: gradients that torch.autograd.grad gives of a model's parameters are those of one "
                "rank; loss.backward() averages them"
            )
        own = [each.for_gradients() if isinstance(each, DeferredOutput) else each for each in listed]
        with batch_part.computing(batch_part.current()):  # as it is now, also after an exception
            found = original_grad(deferred_outputs.whole(outputs), own, *args, **kwargs)
        pairs = zip(listed, found, strict=True)
        return tuple(
            each.of_all_rows(one) if isinstance(each, DeferredOutput) and one is not None else one
            for each, one in pairs
        )

    torch.autograd.backward = backward
    torch.autograd.grad = grad


def _live() -> list[GradientReduction]:
    return [found for each in _reductions if (found := each()) is not None]


def _begin(tensors: Any, inputs: Any, create_graph: bool, group: process_group.Group) -> None:
    global _passes
    roots = [each for each in _listed(tensors) if isinstance(each, torch.Tensor)]
    if create_graph:
        raise RuntimeError("accel.distribute: backward(create_graph=True) has no graph through the averaged gradients")
    if _passes < _COMPARED and (scalar := next((each for each in roots if each.numel() == 1), None)) is not None:
        _passes += 1
        _compare(float(scalar.detach()), group)
    given = None if inputs is None else {id(each) for each in _listed(inputs)}
    for reduction in _live():
        own = {id(each) for each in reduction.parameters()}
        if given is None or own <= given:
            reduction.prepare(roots)
        elif not own.isdisjoint(given):
            raise RuntimeError(
                "accel.distribute: backward(inputs=...) of a part of a model's parameters is not supported"
            )


def _compare(loss: float, group: process_group.Group) -> None:
    losses = [each[0] for each in group.exchange([loss], f"at backward pass {_passes}")]
    same = all(math.isclose(each, losses[0], rel_tol=_SAME, abs_tol=1e-12) or each != each for each in losses)
    if not same:
        raise RuntimeError(
            f"accel.distribute: ranks compute different losses ({', '.join(f'{each:.6g}' for each in losses)}), so "
            "they were given different batches; what a program does may not hang on its process, the clock, or the "
            "order of sets of strings (start with PYTHONHASHSEED=0)"
        )


def _of_models(inputs: Any) -> bool:
    own = {id(parameter) for reduction in _live() for parameter in reduction.parameters()}
    return any(id(each) in own for each in _listed(inputs))


def _listed(values: Any) -> Sequence[Any]:
    if isinstance(values, torch.Tensor) or not hasattr(values, "__iter__"):
        return [values]
    return list(values.values() if isinstance(values, dict) else values)
