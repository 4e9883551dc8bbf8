"""What a graph has taken for constant: values of names, attributes and settings that the step's Python code has read.

Python does not run when a graph is replayed. So before each replay all that the code could have read is compared with
what it was: what `readable_values` finds, settings and state of optimizers, addresses of parameters, hooks. Numbers and
texts are compared by value, everything else by identity.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import torch
from torch import nn

from .readable_values import cells, global_names, readable
from .training_state import TrainingState

_NOTHING: Final = object()
_PLAIN: Final = frozenset({bool, int, float, complex, str, bytes, type(None)})


class Assumptions:
    """What held when a graph was captured."""

    def __init__(self, state: TrainingState, function: Callable[..., Any]) -> None:
        """Raises `UnboundedError`."""
        self._state = state
        self._own = cells(function)
        read = readable(state, function)
        self._mappings = [_Mapping(*each) for each in read.mappings]
        self._identities = _Identities(self._mappings)
        self._lists = [(each, tuple(each)) for each in read.sequences]
        self._tensors = state.tensors()
        self._places = _places(self._tensors)
        self._modes = _modes()
        self._hooks = torch.utils.hooks.RemovableHandle.next_id
        self._sizes = _sizes(state)

    def broken(self, function: Callable[..., Any]) -> str:
        """What is otherwise now, when this function is to be called; empty if nothing is."""
        if _modes() != self._modes:
            return "grad mode or autocast is another one"
        if _places(self._tensors) != self._places:
            return "parameters have moved, or need gradients otherwise"
        own = cells(function)
        if not all(map(_same, own, self._own)):
            return "a variable of the function has changed"
        if not self._identities.kept():
            for each in self._mappings:
                if name := each.changed():
                    return f"{name} has changed"
            self._identities = _Identities(self._mappings)
        if any(len(now) != len(was) or not all(map(_same, now, was)) for now, was in self._lists):
            return "a list has changed"
        if _sizes(self._state) != self._sizes:
            return "the optimizer has another state"
        if torch.utils.hooks.RemovableHandle.next_id != self._hooks:
            self._hooks = torch.utils.hooks.RemovableHandle.next_id
            return hooks(self._state)
        return ""


class _Mapping:
    """Some values of a namespace or a dictionary."""

    def __init__(self, mapping: Mapping[Any, Any], names: Iterable[Any] | None, what: str) -> None:
        self.mapping = mapping
        self.what = what
        self.values = {name: mapping.get(name, _NOTHING) for name in (mapping if names is None else names)}
        self._size = len(mapping) if names is None else None

    @property
    def is_whole(self) -> bool:
        """Whether all values count, however many there are."""
        return self._size is not None

    def renew(self) -> None:
        """Hold the objects of today, which are equal to those that were there."""
        self.values = {name: self.mapping.get(name, _NOTHING) for name in self.values}

    def changed(self) -> str:
        if self._size is not None and len(self.mapping) != self._size:
            return self.what
        for name, value in self.values.items():
            now = self.mapping.get(name, _NOTHING)
            if now is not value and not _same(now, value):
                return f"`{name}` of {self.what}"
        return ""


class _Identities:
    """Whether all values of some mappings are the very same objects, in a few calls: mostly they are.

    An object keeps its identity while it lives, and what `values` of the mappings holds does. Equal numbers may be
    other objects; whoever wants to know more than "the same" compares one by one.
    """

    def __init__(self, mappings: Sequence[_Mapping]) -> None:
        self._whole = [each.mapping.values() for each in mappings if each.is_whole]
        self._getters: list[Any] = []
        self._sources: list[Mapping[Any, Any]] = []
        self._absent: list[tuple[Any, frozenset[Any]]] = []
        for each in mappings:
            if each.is_whole:
                continue
            there = [name for name in each.values if name in each.mapping]
            if there:
                self._getters.append(operator.itemgetter(*there, there[0]))  # of one name it would give a bare value
                self._sources.append(each.mapping)
            if len(there) < len(each.values):
                self._absent.append((each.mapping.keys(), frozenset(each.values) - frozenset(there)))
        for each in mappings:
            each.renew()
        self._known = self._now()

    def kept(self) -> bool:
        try:
            return self._now() == self._known and all(keys.isdisjoint(names) for keys, names in self._absent)
        except (KeyError, RuntimeError):  # a name is gone, or another thread adds one
            return False

    def _now(self) -> list[int]:
        named = (get(source) for get, source in zip(self._getters, self._sources, strict=True))
        return list(map(id, itertools.chain(*self._whole, *named)))


def _places(tensors: Sequence[torch.Tensor]) -> tuple[list[int], list[bool]]:
    """Addresses of tensors, and whether they need gradients."""
    return list(map(torch.Tensor.data_ptr, tensors)), list(map(operator.attrgetter("requires_grad"), tensors))


def _sizes(state: TrainingState) -> list[int]:
    """Of how many parameters each optimizer keeps a state."""
    return [len(each.state) for each in state.optimizers]


def hooks(state: TrainingState) -> str:
    """The kind of hook that runs Python code in a step; empty where there is none."""
    anywhere: Callable[[], bool] = nn.modules.module._has_any_global_hook  # noqa: SLF001
    kinds = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
    if anywhere() or any(getattr(each, kind) for root in state.modules for each in root.modules() for kind in kinds):
        return "modules have hooks"
    if any(each._backward_hooks or each._post_accumulate_grad_hooks for each in state.parameters):  # noqa: SLF001
        return "parameters have hooks"
    for optimizer in state.optimizers:
        known = (*optimizer._optimizer_step_pre_hooks.values(), *optimizer._optimizer_step_post_hooks.values())  # noqa: SLF001
        if any(not _of_this_runtime(each) for each in known):
            return "the optimizer has hooks"
    return ""


def variables(function: Callable[..., Any]) -> list[Any]:
    """The values of the names that a function's own code reads from outside of it."""
    known = getattr(function, "__globals__", {})
    return [*cells(function), *(known.get(name) for name in global_names(function.__code__))]


def _of_this_runtime(hook: Any) -> bool:
    return str(getattr(hook, "__module__", "")).startswith(__name__.rpartition(".step_graph")[0] + ".")


def _modes() -> tuple[Any, ...]:
    return torch.is_grad_enabled(), torch.is_autocast_enabled("cuda"), torch.get_autocast_dtype("cuda")


def _same(now: Any, was: Any) -> bool:
    return now is was or (type(now) is type(was) and type(now) in _PLAIN and now == was)
