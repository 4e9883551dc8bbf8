"""What a graph has taken for constant: values of names, attributes and settings that the step's Python code has read.

Python does not run when a graph is replayed. So before each replay all that the code could have read is compared with
what it was: the variables of the function and of the functions that it calls, attributes of modules and of the
script's own objects, settings and state of optimizers, addresses of parameters, hooks. Numbers and texts are compared
by value, everything else by identity.
"""

from __future__ import annotations

import dis
import itertools
import operator
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import torch
from torch import nn

from .training_state import TrainingState

_NOTHING: Final = object()
_PLAIN: Final = frozenset({bool, int, float, complex, str, bytes, type(None)})
_MOST: Final = 5000  # names and attributes: more would cost what a replay gains
_LIBRARIES: Final = ("torch", "torchvision", "torchaudio", "numpy", "builtins")
_UNREAD: Final = frozenset(vars(nn.Module())) - {"training"} | {"_compiled_call_impl"}


class UnboundedError(RuntimeError):
    """The step's code can read more than can be watched."""


class Assumptions:
    """What held when a graph was captured."""

    def __init__(self, state: TrainingState, function: Callable[..., Any]) -> None:
        """Raises `UnboundedError`."""
        self._state = state
        self._own = _cells(function)
        self._mappings = [_Mapping(*each) for each in _read_by(state, function)]
        if sum(len(each.values) for each in self._mappings) > _MOST:
            raise UnboundedError("its code can read too much to be compared before each replay")
        self._identities = _Identities(self._mappings)
        self._lists = [(each, tuple(each)) for each in _lists(self._mappings, self._own)]
        self._tensors = state.tensors()
        self._places = _places(self._tensors)
        self._modes = _modes()
        self._hooks = torch.utils.hooks.RemovableHandle.next_id
        self._size = sum(len(each.state) for each in state.optimizers)

    def broken(self, function: Callable[..., Any]) -> str:
        """What is otherwise now, when this function is to be called; empty if nothing is."""
        if _modes() != self._modes:
            return "grad mode or autocast is another one"
        if _places(self._tensors) != self._places:
            return "parameters have moved, or need gradients otherwise"
        cells = _cells(function)
        if cells is not self._own and not all(map(_same, cells, self._own)):
            return "a variable of the function has changed"
        if not self._identities.kept():
            for each in self._mappings:
                if name := each.changed():
                    return f"{name} has changed"
            self._identities = _Identities(self._mappings)
        if any(len(now) != len(was) or not all(map(_same, now, was)) for now, was in self._lists):
            return "a list has changed"
        if sum(len(each.state) for each in self._state.optimizers) != self._size:
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
        named = map(_got, self._getters, self._sources)
        return list(map(id, itertools.chain(*self._whole, *named)))


def _got(getter: Callable[[Any], tuple[Any, ...]], mapping: Mapping[Any, Any]) -> tuple[Any, ...]:
    return getter(mapping)


def _places(tensors: Sequence[torch.Tensor]) -> tuple[list[int], list[bool]]:
    """Addresses of tensors, and whether they need gradients."""
    return list(map(torch.Tensor.data_ptr, tensors)), list(map(operator.attrgetter("requires_grad"), tensors))


class _Closure(Mapping[str, Any]):
    """The variables of outer functions that a function reads."""

    def __init__(self, function: types.FunctionType) -> None:
        self._known = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))

    def __getitem__(self, name: str) -> Any:
        return _content(self._known[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)


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
    return [*_cells(function), *(known.get(name) for name in _global_names(function.__code__))]


def _of_this_runtime(hook: Any) -> bool:
    return str(getattr(hook, "__module__", "")).startswith(__name__.rpartition(".step_graph")[0] + ".")


def _modes() -> tuple[Any, ...]:
    return torch.is_grad_enabled(), torch.is_autocast_enabled("cuda"), torch.get_autocast_dtype("cuda")


def _same(now: Any, was: Any) -> bool:
    return now is was or (type(now) is type(was) and type(now) in _PLAIN and now == was)


def _cells(function: Callable[..., Any]) -> list[Any]:
    """The values of a function's variables of outer functions."""
    return [_content(cell) for cell in getattr(function, "__closure__", None) or ()]


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not bound yet, or deleted
        return _NOTHING


def _lists(mappings: Sequence[_Mapping], own: Sequence[Any]) -> Iterator[list[Any]]:
    values = (*own, *(value for each in mappings for value in each.values.values()))
    return (each for each in values if isinstance(each, list))


def _read_by(state: TrainingState, function: Callable[..., Any]) -> Iterator[tuple[Mapping[Any, Any], Any, str]]:
    """The namespaces that a step's code can read, with the names in question (None: all)."""
    for optimizer in state.optimizers:
        yield vars(optimizer), ("state", "param_groups"), "the optimizer"
        yield from ((group, None, "the optimizer's settings") for group in optimizer.param_groups)
        yield from ((each, None, "the optimizer's state") for each in optimizer.state.values())
    pending: list[Any] = [function, *state.modules]
    seen: set[int] = set()
    while pending:
        value = pending.pop()
        if id(value) in seen or len(seen) > _MOST:
            continue
        seen.add(id(value))
        if value is not function and isinstance(value, types.FunctionType):  # of its own cells the caller knows
            yield _Closure(value), None, f"the variables of {value.__name__}"
        for mapping, names, what in _namespaces(value):
            yield mapping, names, what
            pending += [mapping.get(name) for name in (mapping if names is None else names)]
        pending += _parts(value)
    if len(seen) > _MOST:
        raise UnboundedError("its code can read too much to be compared before each replay")


def _namespaces(value: Any) -> Iterator[tuple[Mapping[Any, Any], Any, str]]:
    if isinstance(value, types.FunctionType):
        if not _is_library(_module_of(value)):
            yield value.__globals__, _global_names(value.__code__), f"the variables of {value.__name__}"
    elif isinstance(value, nn.Module):
        yield vars(value), [each for each in vars(value) if each not in _UNREAD], type(value).__name__
        yield from ((each, None, type(value).__name__) for each in (value._parameters, value._buffers))  # noqa: SLF001
        yield value._modules, None, type(value).__name__  # noqa: SLF001
    elif type(value) is dict:
        yield value, None, "a dictionary"
    elif _is_own_object(value):
        yield vars(value), None, type(value).__name__


def _parts(value: Any) -> list[Any]:
    """What else a value leads to: functions, what they close over, methods of classes, elements of lists."""
    if isinstance(value, types.FunctionType):
        return [] if _is_library(_module_of(value)) else [*_cells(value), *(value.__defaults__ or ())]
    if isinstance(value, types.MethodType):
        return [value.__func__, value.__self__]
    if isinstance(value, (list, tuple)):
        return list(value)
    if isinstance(value, nn.Module) or _is_own_object(value):
        classes = (each for each in type(value).__mro__ if not _is_library(each.__module__))
        return [each for cls in classes for each in vars(cls).values() if isinstance(each, types.FunctionType)]
    return []


def _is_own_object(value: Any) -> bool:
    """Whether it is an instance of a class of the script's own, or a namespace of settings."""
    settled = (type, types.ModuleType, types.FunctionType, torch.Tensor, torch.optim.Optimizer, nn.Module)
    return hasattr(value, "__dict__") and not isinstance(value, settled) and not _is_library(type(value).__module__)


def _module_of(function: types.FunctionType) -> str:
    return str(function.__globals__.get("__name__", ""))


def _is_library(module: str) -> bool:
    first = module.partition(".")[0]
    return first in _LIBRARIES or first == __name__.partition(".")[0]


def _global_names(code: types.CodeType) -> set[str]:
    names = {each.argval for each in dis.get_instructions(code) if each.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            names |= _global_names(inner)
    return names
