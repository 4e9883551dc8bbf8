"""What a step's Python code can read from outside of it: namespaces and containers, as they are when it is captured.

From the step's function on, everything is followed that its code may come to: variables of functions, attributes of
objects, classes and modules of the script's own, elements of containers. Of an object of the script's own those
attributes count that some code which is reached names. What is of another kind may change without a trace, so that
a step which can read it is not for a graph.
"""

from __future__ import annotations

import collections
import dis
import enum
import functools
import pathlib
import re
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import torch
from torch import nn

from ..in_memory.function_source import all_codes
from .training_state import TrainingState

Namespace = tuple[Mapping[Any, Any], "Iterable[Any] | None", str]
"""A mapping, the names in question (None: all), and what to call it."""

_MOST: Final = 5000  # names and attributes: more would cost what a replay gains
_LIBRARIES: Final = ("torch", "torchvision", "torchaudio", "numpy", "builtins")
_UNREAD: Final = frozenset(vars(nn.Module())) - {"training"} | {"_compiled_call_impl"}
_NOTHING: Final = object()
_DYNAMIC: Final = frozenset({"getattr", "hasattr", "vars", "__dict__", "__getattribute__", "attrgetter"})
_SEQUENCES: Final = (list, tuple, set, frozenset, collections.deque)
_CONSTANT: Final = (
    bool, int, float, complex, str, bytes, type(None), type(Ellipsis), range, slice, torch.dtype, torch.device,
    torch.layout, torch.memory_format, torch.Tensor, torch.optim.Optimizer, re.Pattern, pathlib.PurePath,
)  # fmt: skip
_WITH_OWNER: Final = (types.BuiltinMethodType, types.MethodWrapperType)


class UnboundedError(RuntimeError):
    """The step's code can read more than can be watched."""


@dataclass
class Readable:
    """What was found."""

    mappings: list[Namespace] = field(default_factory=list)
    sequences: list[Any] = field(default_factory=list)
    names: set[str] = field(default_factory=set)
    """All that the code which is reached names."""


def readable(state: TrainingState, function: Callable[..., Any]) -> Readable:
    """What a step can read. Raises `UnboundedError`."""
    names: set[str] = set()
    while True:
        found = _follow(state, function, names)
        if found.names <= names:
            return found
        names |= found.names


def cells(function: Callable[..., Any]) -> list[Any]:
    """The values of a function's variables of outer functions."""
    return [_content(cell) for cell in getattr(function, "__closure__", None) or ()]


def global_names(code: types.CodeType) -> set[str]:
    """The names of globals and builtins that code reads."""
    found = (each for inner in all_codes(code) for each in dis.get_instructions(inner))
    return {each.argval for each in found if each.opname in ("LOAD_GLOBAL", "LOAD_NAME")}


def _follow(state: TrainingState, function: Callable[..., Any], names: set[str]) -> Readable:
    found = Readable()
    for optimizer in state.optimizers:
        found.mappings.append((vars(optimizer), ("state", "param_groups"), "the optimizer"))
        found.mappings += [(group, None, "the optimizer's settings") for group in optimizer.param_groups]
        found.mappings += [(each, None, "the optimizer's state") for each in optimizer.state.values()]
    pending: list[Any] = [function, *state.modules]
    seen: set[int] = set()
    count = 0
    while pending:
        value = pending.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, torch.Tensor) and value.grad_fn is not None:
            raise UnboundedError("its code can read a tensor that has an autograd graph")
        if isinstance(value, types.FunctionType) and not _is_library(_module_of(value)):
            found.names.update(*(each.co_names for each in all_codes(value.__code__)))
            if value is not function:  # of its own cells the caller knows
                found.mappings.append((_closure(value), None, f"the variables of {value.__name__}"))
        if isinstance(value, _SEQUENCES):
            if not isinstance(value, (tuple, frozenset)):
                found.sequences.append(value)
            count += len(value)
        for mapping, wanted, what in _namespaces(value, names):
            chosen = list(mapping) if wanted is None else list(wanted)
            found.mappings.append((mapping, None if wanted is None else chosen, what))
            pending += [mapping.get(name) for name in chosen]
            count += len(chosen)
        pending += _parts(value)
        if count + len(seen) > 2 * _MOST:
            raise UnboundedError("its code can read too much to be compared before each replay")
    if sum(len(each[0] if each[1] is None else list(each[1])) for each in found.mappings) > _MOST:
        raise UnboundedError("its code can read too much to be compared before each replay")
    return found


class _Live(Mapping[str, Any]):
    """Values of some names, each read anew where it is asked for."""

    def __init__(self, names: Iterable[str], read: Callable[[str], Any]) -> None:
        self._names = tuple(names)
        self._read = read

    def __getitem__(self, name: str) -> Any:
        return self._read(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def _closure(function: types.FunctionType) -> _Live:
    """The variables of outer functions that a function reads."""
    known = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    return _Live(known, lambda name: _content(known[name]))


def _slots(value: Any) -> _Live:
    """The attributes of an object that has no namespace."""
    slots = (vars(each).get("__slots__", ()) for each in type(value).__mro__)
    names = (name for each in slots for name in ((each,) if isinstance(each, str) else each))
    return _Live(names, lambda name: getattr(value, name, _NOTHING))


def _namespaces(value: Any, names: set[str]) -> Iterator[Namespace]:
    """The mappings of a value that code reads by names. Raises `UnboundedError` for what has none that show."""
    if isinstance(value, types.FunctionType):
        if not _is_library(_module_of(value)):
            yield value.__globals__, global_names(value.__code__), f"the variables of {value.__name__}"
    elif isinstance(value, nn.Module):
        own = [each for each in vars(value) if each not in _UNREAD]
        yield vars(value), [*own, *_shadowed(value, names)], type(value).__name__
        if not names.isdisjoint(_DYNAMIC):
            yield vars(value), None, type(value).__name__  # whatever is added, too
        yield from ((each, None, type(value).__name__) for each in (value._parameters, value._buffers))  # noqa: SLF001
        yield value._modules, None, type(value).__name__  # noqa: SLF001
        yield from _class_namespaces(type(value))
    elif isinstance(value, type):
        yield from _class_namespaces(value)
    elif isinstance(value, types.ModuleType):
        if not _is_library(value.__name__):
            yield vars(value), _named(vars(value), names), f"the module {value.__name__}"
    elif isinstance(value, dict):
        yield value, None, "a dictionary"
    elif not _is_followed(value):
        yield from _object_namespaces(value, names)


def _object_namespaces(value: Any, names: set[str]) -> Iterator[Namespace]:
    what = type(value).__name__
    if _is_library(type(value).__module__) and not hasattr(value, "__dict__"):
        raise UnboundedError(f"its code can read a {what}, whose changes do not show")
    if any(not _shows(each) for each in type(value).__mro__):
        raise UnboundedError(f"its code can read a {what}, whose changes do not show")
    if hasattr(value, "__dict__"):
        # torch's own code reads what it likes
        everything = _is_library(type(value).__module__) or not names.isdisjoint(_DYNAMIC)
        own = None if everything else [*_named(vars(value), names), *_shadowed(value, names)]
        yield vars(value), own, what
    if slots := _slots(value):
        yield slots, None, what
    yield from _class_namespaces(type(value))


def _shows(cls: type) -> bool:
    """Whether instances keep what they hold in attributes, or in containers that are compared; what classes of other
    languages hold inside, such as the state of `random.Random`, does not show."""
    if cls is object or "__slots__" in vars(cls) or any("__dict__" in vars(each) for each in cls.__mro__[:-1]):
        return True
    return issubclass(cls, (dict, *_SEQUENCES, *_CONSTANT, enum.Enum))


def _class_namespaces(cls: type) -> Iterator[Namespace]:
    for each in cls.__mro__:
        if not _is_library(each.__module__):
            yield vars(each), [name for name in vars(each) if not name.startswith("__")], each.__name__


def _shadowed(value: Any, names: set[str]) -> list[str]:
    """Attributes that code reads from an object's class, until the object gets one of its own."""
    classes = [each for each in type(value).__mro__ if not _is_library(each.__module__)]
    known = dict.fromkeys(name for each in classes for name in vars(each))
    return [name for name in known if name in names and name not in vars(value)]


def _named(namespace: Mapping[str, Any], names: set[str]) -> list[str]:
    """What of a namespace code may read that says these names."""
    return [each for each in namespace if not names.isdisjoint(_DYNAMIC) or each in names]


def _parts(value: Any) -> list[Any]:
    """What else a value leads to: functions, what they close over, methods of classes, elements of containers."""
    if isinstance(value, types.FunctionType):
        if _is_library(_module_of(value)):
            return []
        return [*cells(value), *(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values()]
    if isinstance(value, types.MethodType):
        return [value.__func__, value.__self__]
    if isinstance(value, (staticmethod, classmethod)):
        return [value.__func__]
    if isinstance(value, property):
        return [value.fget]
    if isinstance(value, functools.cached_property):
        return [value.func]
    if isinstance(value, functools.partial):
        return [value.func, value.args, value.keywords]
    if isinstance(value, _WITH_OWNER):
        return [] if isinstance(value.__self__, (types.ModuleType, type(None))) else [value.__self__]
    if isinstance(value, _SEQUENCES):
        return list(value)
    return []


def _is_followed(value: Any) -> bool:
    """Whether all that a value leads to is among its parts, or it leads to nothing that changes."""
    if value is _NOTHING or isinstance(value, _CONSTANT) or _is_of_this_runtime(type(value)):
        return True
    if isinstance(value, _SEQUENCES) and not hasattr(value, "__dict__"):
        return True
    descriptors = (staticmethod, classmethod, property, functools.cached_property, functools.partial)
    functions = (types.MethodType, *_WITH_OWNER, *descriptors)
    slots = (
        types.BuiltinFunctionType, types.MethodDescriptorType, types.WrapperDescriptorType, types.GetSetDescriptorType,
        types.MemberDescriptorType, types.ClassMethodDescriptorType, types.GenericAlias,
    )  # fmt: skip
    return isinstance(value, (*functions, *slots)) or type(value).__module__ in ("typing", "abc", "_abc")


def _is_of_this_runtime(cls: type) -> bool:
    return cls.__module__.partition(".")[0] == __name__.partition(".")[0]


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not bound yet, or deleted
        return _NOTHING


def _module_of(function: types.FunctionType) -> str:
    return str(function.__globals__.get("__name__", ""))


def _is_library(module: str) -> bool:
    first = module.partition(".")[0]
    return first in _LIBRARIES or first == __name__.partition(".")[0]
