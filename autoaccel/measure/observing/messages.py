"""Plain data that goes from one process to another as JSON."""

from __future__ import annotations

import dataclasses
import functools
import json
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

_Kind = TypeVar("_Kind", bound="Message")


class Message:
    """A dataclass of numbers, text, and of tuples, tables and dataclasses of these."""

    __slots__ = ()

    def to_json(self) -> str:
        return json.dumps(dataclasses.asdict(self))  # type: ignore[call-overload]

    @classmethod
    def from_json(cls: type[_Kind], text: str) -> _Kind:
        message: _Kind = _rebuilt(cls, json.loads(text))
        return message


_types_of = functools.cache(get_type_hints)


def _rebuilt(kind: Any, value: Any) -> Any:
    """A value of a type out of what JSON made of it."""
    if value is None:
        return None
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        types = _types_of(kind)
        return kind(**{name: _rebuilt(types[name], each) for name, each in value.items()})
    inner = [each for each in get_args(kind) if each not in (type(None), ...)]
    if get_origin(kind) is tuple:
        kinds = inner * len(value) if ... in get_args(kind) else inner
        return tuple(map(_rebuilt, kinds, value))
    if get_origin(kind) is dict:
        return {key: _rebuilt(inner[1], each) for key, each in value.items()}
    return _rebuilt(inner[0], value) if inner else value  # or None
