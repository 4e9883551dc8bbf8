"""Whether an optimizer's tensors are such that the fused kernel makes the right thing of them.

Looked at in full when they are seen for the first time. In later steps they are compared with what was found to fit, in
a few passes over lists, for a step of a small model is not much longer than a look at all of its parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import chain
from operator import attrgetter, is_
from typing import Any, Final

import torch

_contiguous = torch.Tensor.is_contiguous
_strides = torch.Tensor.stride
_is_negated = torch.Tensor.is_neg
_size = torch.Tensor.numel
_shape, _dtype = attrgetter("shape"), attrgetter("dtype")
_END: Final = object()  # of a list: what is longer or shorter is another one


class KernelFit:
    """Tells before each step of an optimizer whether the fused kernel can make it."""

    def __init__(self) -> None:
        self.updated: list[torch.Tensor] = []  # the parameters that have a gradient in this step
        self._known: _Fitting | None = None

    def problem(self, optimizer: torch.optim.Optimizer) -> str:
        """Why the fused kernel cannot make the next step; empty if it can."""
        for group in optimizer.param_groups:
            if not all(isinstance(each, int | float) for each in (group["lr"], *group["betas"])):
                return "settings are not numbers"
            if any(type(group.get(name, False)) is not bool for name in ("amsgrad", "maximize")):
                return "flags are not True or False"
            if group.get("differentiable"):
                return "its implementation is chosen since"
        if self._known is None or not self._known.is_as_it_was(optimizer):
            if problem := _problem(optimizer):
                return problem
            found = _Fitting(optimizer)
            self.updated = found.updated
            self._known = found if found.has_states else None
        return ""


class _Fitting:
    """Tensors that the kernel was found to update rightly, and what may change of them.

    That a tensor is another one is seen by its identity, that its memory is, by its layout and size; of parameters the
    shape and the type are compared as well.
    """

    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        parameters = list(chain.from_iterable(group["params"] for group in optimizer.param_groups))
        self.updated = [each for each in parameters if each.grad is not None]
        self._idle = [each for each in parameters if each.grad is None]
        self._parameters = [*parameters, _END]
        self._owners, self._states = [*optimizer.state, _END], [*optimizer.state.values(), _END]
        self._used = [state for each in self.updated if (state := optimizer.state.get(each))]
        self._values = [*chain.from_iterable(map(dict.values, self._used)), _END]
        self._moments = [each for state in self._used for name, each in state.items() if name != "step"]
        tensors: list[Any] = [*self.updated, *self._moments, *(each.grad for each in self.updated)]
        self._layout: Callable[[Any], Any] = _contiguous if all(map(_contiguous, tensors)) else _strides
        self._layouts = list(map(self._layout, tensors))
        self._sizes = list(map(_size, tensors))
        self._shapes, self._dtypes = list(map(_shape, self.updated)), list(map(_dtype, self.updated))
        self.has_states = len(self._used) == len(self.updated)

    def is_as_it_was(self, optimizer: torch.optim.Optimizer) -> bool:
        state = optimizer.state
        if not (
            _are(chain.from_iterable(group["params"] for group in optimizer.param_groups), self._parameters)
            and _are(state, self._owners)
            and _are(state.values(), self._states)
            and _are(chain.from_iterable(map(dict.values, self._used)), self._values)
        ):
            return False
        gradients: list[Any] = [each.grad for each in self.updated]
        tensors = [*self.updated, *self._moments, *gradients]
        try:
            layouts, negated = list(map(self._layout, tensors)), any(map(_is_negated, gradients))
        except (TypeError, RuntimeError):  # one has no gradient now, or one that does not lie in memory value by value
            return False
        return (
            layouts == self._layouts
            and list(map(_size, tensors)) == self._sizes
            and list(map(_shape, self.updated)) == self._shapes
            and list(map(_dtype, self.updated)) == self._dtypes
            and not negated
            and all(each.grad is None for each in self._idle)
        )


def _are(these: Iterable[Any], those: list[Any]) -> bool:
    """Whether these are the very objects of a list, which has an end."""
    return all(map(is_, chain(these, (_END,)), those))


def _problem(optimizer: torch.optim.Optimizer) -> str:
    """Looks at all tensors: those of the state have the parameter's strides where that is dense."""
    counts: set[int] = set()
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            gradient = parameter.grad
            if gradient is None:
                continue
            state = optimizer.state.get(parameter)
            if gradient.layout is not torch.strided or gradient.dtype is not torch.float32:
                return "gradients are not plain float32"
            if parameter.dtype is not torch.float32:
                return f"{parameter.dtype} parameters"
            if not _in_same_order(gradient, parameter):
                return "gradients are laid out otherwise than parameters"
            if _is_negated(gradient) or _is_negated(parameter):
                return "values are to be negated when they are read"
            if not state:
                if not _in_same_order(torch.empty_like(parameter, device="meta"), parameter):
                    return "a parameter is laid out otherwise than its state will be"
            elif not _fits(state, parameter):
                return "the state is laid out otherwise than parameters"
            elif id(state["step"]) in counts:
                return "parameters share a count of steps"
            else:
                counts.add(id(state["step"]))
    return ""


def _in_same_order(one: torch.Tensor, two: torch.Tensor) -> bool:
    """Whether the values of two tensors of a shape lie in memory in the same order, with the same gaps.

    Of a dimension with a single value the stride says nothing: that of a gradient may be another one.
    """
    if one.shape != two.shape:
        return False
    strides = zip(two.shape, one.stride(), two.stride(), strict=True)
    return one.stride() == two.stride() or all(here == there for size, here, there in strides if size > 1)


def _fits(state: dict[str, Any], parameter: torch.Tensor) -> bool:
    """Whether the state of a parameter is one that the fused kernel can go on with."""
    step = state.get("step")
    if not isinstance(step, torch.Tensor) or step.dtype is not torch.float32:
        return False
    moments = [each for name, each in state.items() if name != "step"]
    return all(
        isinstance(each, torch.Tensor) and _in_same_order(each, parameter) and not _is_negated(each) for each in moments
    )
