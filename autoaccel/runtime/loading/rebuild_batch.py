"""Rebuilding a batch with some of its tensors replaced, whatever it is made of.

Two rules keep this safe for any batch: what holds no replaced tensor is handed on as the very same object, and what
cannot be rebuilt faithfully is left as it is (the loop's own `.to(device)` then moves it).
"""

from __future__ import annotations

import array
import copy
import dataclasses
from collections.abc import Callable, Iterable, Mapping, MutableMapping, MutableSequence
from typing import Any, TypeAlias

import torch
from torch.nn.utils.rnn import PackedSequence

Replace: TypeAlias = Callable[[torch.Tensor], torch.Tensor]
PartsToMove: TypeAlias = "str | Iterable[Any]"

# What became of each object, by its identity; the object is kept so that its identity is not given to another.
_Seen: TypeAlias = dict[int, tuple[Any, Any]]

# Of the containers that are looked into; None for all that can be rebuilt.
_Types: TypeAlias = "tuple[type, ...] | None"


def rebuild(batch: Any, replace: Replace, move: PartsToMove = "all") -> Any:
    """`batch` with `replace` applied to its tensors, or to those alone that `move` names.

    move: "all"; "tensors" for those that are the batch's own parts, not within containers among these; or positions and
    keys, where a tuple leads further down, as in `(0, ("meta", "mask"))`. Types among them, or alone, are those of the
    containers that are looked into, exactly: no others are.
    Tensors and containers that occur twice in the batch are replaced by one object that occurs twice.
    """
    seen: _Seen = {}
    if move == "tensors":
        return _replaced(batch, lambda part: _everything(part, replace, seen, ()), replace)
    if isinstance(move, str):
        return _everything(batch, replace, seen)
    entries = tuple(move)
    inside = tuple(each for each in entries if isinstance(each, type)) or None
    places = [each for each in entries if not isinstance(each, type)]
    if inside and not places:
        return _everything(batch, replace, seen, inside)
    for entry in places:
        path = entry if isinstance(entry, tuple) else (entry,)
        batch = _at(batch, path, replace, seen, inside)
    return batch


def _at(value: Any, path: tuple[Any, ...], replace: Replace, seen: _Seen, inside: _Types) -> Any:
    if not path:
        return _everything(value, replace, seen, inside)
    key, *rest = path
    match value:
        case Mapping() if key in value:
            item = value[key]
            moved = _at(item, tuple(rest), replace, seen, inside)
            return value if moved is item else _with_items(value, {key: moved})
        case list() | tuple() if isinstance(key, int) and -len(value) <= key < len(value):
            items = list(value)
            items[key] = _at(items[key], tuple(rest), replace, seen, inside)
            return _with_elements(value, items)
        case _ if isinstance(key, str) and dataclasses.is_dataclass(value) and hasattr(value, key):
            return _with_fields(value, {key: _at(getattr(value, key), tuple(rest), replace, seen, inside)})
        case _:
            return value


def _everything(value: Any, replace: Replace, seen: _Seen, inside: _Types = None) -> Any:
    if inside is not None and type(value) not in inside and not isinstance(value, torch.Tensor):
        return value
    if id(value) not in seen:
        seen[id(value)] = (value, value)  # what contains itself is left alone where it does
        seen[id(value)] = (value, _replaced(value, lambda part: _everything(part, replace, seen, inside), replace))
    return seen[id(value)][1]


def _replaced(value: Any, descend: Callable[[Any], Any], replace: Replace) -> Any:
    match value:
        case torch.Tensor():
            return replace(value)
        case str() | bytes() | bytearray() | array.array():
            return value
        case PackedSequence():  # its batch sizes belong on the CPU
            return value
        case Mapping():
            items = dict(value.items())
            moved = {key: descend(item) for key, item in items.items()}
            return value if all(items[key] is moved[key] for key in items) else _with_items(value, moved)
        case tuple() | MutableSequence():
            return _with_elements(value, [descend(item) for item in value])
        case _ if dataclasses.is_dataclass(value) and not isinstance(value, type):
            names = (field.name for field in dataclasses.fields(value))
            return _with_fields(value, {name: descend(getattr(value, name)) for name in names if hasattr(value, name)})
        case _:
            return _registered(value, descend)


def _with_items(value: Mapping[Any, Any], items: dict[Any, Any]) -> Any:
    if isinstance(value, MutableMapping):
        clone = copy.copy(value)  # keeps a subclass's other attributes: encodings, default factories
        clone.update(items)
        return clone
    whole = {**value, **items}
    clone = _made_of(value, whole)
    return clone if len(clone) == len(whole) and all(clone.get(key) is whole[key] for key in whole) else value


def _with_elements(value: Any, items: list[Any]) -> Any:
    if all(old is new for old, new in zip(value, items, strict=True)):
        return value
    if isinstance(value, MutableSequence):
        clone = copy.copy(value)
        for index, item in enumerate(items):
            clone[index] = item
        return clone
    clone = value._make(items) if hasattr(value, "_make") else _made_of(value, items)
    same = len(clone) == len(items) and all(one is other for one, other in zip(clone, items, strict=True))
    return clone if same and getattr(clone, "__dict__", {}).keys() == getattr(value, "__dict__", {}).keys() else value


def _made_of(value: Any, contents: Any) -> Any:
    """An object of the same class out of other contents, or `value` where that takes no such argument."""
    try:
        return type(value)(contents)
    except Exception:  # a constructor of the script's own raises what it likes
        return value


def _with_fields(value: Any, fields: dict[str, Any]) -> Any:
    if all(getattr(value, name) is item for name, item in fields.items()):
        return value
    clone = copy.copy(value)  # `dataclasses.replace` would run `__post_init__` again
    for name, item in fields.items():
        object.__setattr__(clone, name, item)  # frozen dataclasses too
    return clone


def _registered(value: Any, descend: Callable[[Any], Any]) -> Any:
    """A class registered with torch's pytrees; anything else is handed on."""
    node = torch.utils._pytree.SUPPORTED_NODES.get(type(value))  # noqa: SLF001 - the public module came after torch 2.6
    if node is None:
        return value
    parts, context = node.flatten_fn(value)
    moved = [descend(part) for part in parts]
    if all(old is new for old, new in zip(parts, moved, strict=True)):
        return value
    return node.unflatten_fn(moved, context)
