"""Understanding a dataset, and noticing when what was understood is no longer so.

Everything that was read from the script's objects is remembered with where it was read, and looked at again before
each batch: an attribute that holds another object, or a list with other elements, and the dataset is read anew.
"""

from __future__ import annotations

import operator
from collections.abc import Collection, Mapping
from typing import Any, Final

_ABSENT: Final = object()


class Unsupported(Exception):  # noqa: N818 - a fact about the dataset, not a defect
    """Why a dataset, or a part of it, is left to torch: one phrase."""


class MutationGuard:
    """What was read, and whether it is still the same."""

    __slots__ = ("_attributes", "_contents")

    def __init__(self) -> None:
        self._attributes: list[tuple[Mapping[Any, Any], Any, Any]] = []
        self._contents: list[tuple[Collection[Any], tuple[Any, ...]]] = []

    def attribute(self, holder: Any, name: str, *default: Any) -> Any:
        """An attribute that an object itself holds, not one that its class computes."""
        kind: Any = type(holder)
        attributes: Any = getattr(holder, "__dict__", None)
        if type(attributes) is not dict or kind.__getattribute__ is not object.__getattribute__:
            raise Unsupported(f"{kind.__name__} computes its attributes")
        value = attributes.get(name, _ABSENT)
        if any(hasattr(vars(base).get(name), "__set__") for base in kind.__mro__) or (value is _ABSENT and not default):
            raise Unsupported(f"{kind.__name__}.{name} is not a plain attribute")
        self._attributes.append((attributes, name, value))
        return default[0] if value is _ABSENT else value

    def method(self, kind: type, name: str) -> Any:
        """A method of a class, or of one that it is derived from; None where there is none."""
        for base in kind.__mro__:
            if name in vars(base):
                self._attributes.append((vars(base), name, vars(base)[name]))
                return vars(base)[name]
        return None

    def entry(self, holder: dict[Any, Any], key: Any) -> Any:
        """An entry of a dict."""
        if key not in holder:
            raise Unsupported(f"there is no {key!r} where it is looked up")
        self._attributes.append((holder, key, holder[key]))
        return holder[key]

    def contents(self, collection: Collection[Any]) -> tuple[Any, ...]:
        """The elements of a short list."""
        found = tuple(collection)
        self._contents.append((collection, found))
        return found

    def same(self) -> bool:
        """Whether everything still is what it was."""
        return all(attributes.get(name, _ABSENT) is value for attributes, name, value in self._attributes) and all(
            len(collection) == len(found) and all(map(operator.is_, collection, found))
            for collection, found in self._contents
        )


def is_librarys(function: Any, module: str, name: str) -> bool:
    """Whether a method is the library's own: nobody put another in its place."""
    code = getattr(function, "__code__", None)
    return (
        code is not None
        and getattr(function, "__qualname__", "") == name
        and str(getattr(function, "__module__", "")).split(".")[0] == module
        and function.__globals__.get("__name__") == function.__module__
    )
