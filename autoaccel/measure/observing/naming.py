"""What the script itself calls its modules, optimizers, schedulers and tensors."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from types import FrameType, ModuleType
from typing import Any

from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from autoaccel.measure.observing.observation import frames

_DEEP = 3  # trainer.algorithm.networks[0] is as far as a search goes
_MANY = 64  # elements of one container
_KINDS = (nn.Module, Optimizer, LRScheduler)


@dataclass
class Names:
    """Names by the identity of what they name, which is kept, so that its identity is not given to another."""

    concerns: Callable[[str], bool]
    """Whether a file is the script's."""
    by_kind: bool = False
    """Whether objects are called by what they are, and not by their variables: two versions may have renamed them, or
    may hold them, and wrap them, otherwise. Tensors are told apart by the order in which they are found, optimizers by
    that in which they step, modules by that in which they are trained, schedulers by that in which they were made."""
    given: dict[int, tuple[Any, str]] = field(default_factory=dict)
    _taken: set[str] = field(default_factory=set)

    def of(self, value: Any) -> str | None:
        """The name of an object, if it has one."""
        found = self.given.get(id(value))
        return found[1] if found is not None else None

    def give(self, value: Any, name: str) -> str:
        """Name an object, by another name if this one is taken; what has a name keeps it."""
        if (known := self.of(value)) is not None:
            return known
        number, name = 1, name or "?"
        unique = name
        while unique in self._taken:
            number += 1
            unique = f"{name} ({number})"
        self._taken.add(unique)
        self.given[id(value)] = (value, unique)
        return unique

    def forget(self, values: Iterable[Any], but: Iterable[Any]) -> None:
        """Take the names of some objects away, so that those that follow them can have them."""
        kept = set(map(id, but))
        for number in {id(value) for value in values} - kept:
            if (known := self.given.pop(number, None)) is not None:
                self._taken.discard(known[1])

    def look(self, frame: FrameType | None, tensors: Collection[int] = ()) -> None:
        """Name what variables of the script lead to, those of the innermost function first.

        Of tensors only those are named whose identity is among `tensors`: all others must be free to go.
        """
        for each in frames(frame):
            if self.concerns(each.f_code.co_filename):
                for name, value in _variables(each):
                    self._add(value, name, tensors, 0)
        for name, value in list(vars(sys.modules["__main__"]).items()):
            if not name.startswith("__"):
                self._add(value, name, tensors, 0)

    def _add(self, value: Any, name: str, tensors: Collection[int], depth: int) -> None:
        # what torch.compile returns stands for the module that it was given
        value = getattr(value, "_orig_mod", value) if issubclass(type(value), nn.Module) else value
        kind = type(value)  # of a proxy, its own: asked by `isinstance`, it may import what it stands for
        if self.by_kind and issubclass(kind, Optimizer | LRScheduler):
            return
        if issubclass(kind, _KINDS) or (issubclass(kind, Tensor) and id(value) in tensors):
            if id(value) not in self.given and (self.by_kind or name not in self._taken):
                self.give(value, "tensor" if self.by_kind and issubclass(kind, Tensor) else name)
        elif depth < _DEEP:
            for inner, item in _inside(value, kind, name):
                self._add(item, inner, tensors, depth + 1)


def _inside(value: Any, kind: type, name: str) -> Iterator[tuple[str, Any]]:
    if kind in (list, tuple):
        yield from ((f"{name}[{index}]", item) for index, item in enumerate(value[:_MANY]))
    elif kind is dict:
        for key in list(value)[:_MANY]:
            if type(key) in (str, int):
                yield f"{name}[{key!r}]", value[key]
    elif _own_class(kind):
        try:
            attributes = object.__getattribute__(value, "__dict__")
        except AttributeError:
            return
        for attribute, item in list(attributes.items()):
            yield str(attribute) if name == "self" else f"{name}.{attribute}", item


def _own_class(kind: type) -> bool:
    """Whether a class may well be the script's: not one of Python's or torch's own."""
    home = str(kind.__module__).partition(".")[0]
    return not issubclass(kind, (ModuleType, Tensor, type)) and home not in (*sys.stdlib_module_names, "torch", "numpy")


def _variables(frame: FrameType) -> Iterator[tuple[str, Any]]:
    found = frame.f_locals
    yield from list(found.items())
    # Before Python 3.13 a copy stays with the frame, and would keep alive what the function lets go.
    if type(found) is dict and frame.f_code.co_flags & inspect.CO_OPTIMIZED:
        found.clear()
