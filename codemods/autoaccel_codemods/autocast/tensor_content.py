"""What a value holds, as far as it matters whether that is one tensor with decimals."""

from __future__ import annotations

import enum
from collections.abc import Iterable

from autoaccel.dataflow.abstract_values import Kind

NO_TENSOR_KINDS = frozenset(
    {Kind.STRING, Kind.BOOL, Kind.NONE, Kind.ARRAY, Kind.DTYPE, Kind.DEVICE, Kind.OPTIMIZER, Kind.SCHEDULER}
    | {Kind.LOADER, Kind.DATASET, Kind.SCALER, Kind.FUNCTION, Kind.CLASS, Kind.LOSS_FUNCTION}
)


class Content(enum.Enum):
    """What a value holds. `OPEN` is a definition that goes round in a circle: the others decide."""

    FLOATING = "a tensor with decimals"
    WHOLE = "whole numbers, or no tensor"
    NOTHING = "None"
    OPTIONAL = "a tensor with decimals, or None"
    NUMBER = "a Python number or text"
    STRUCTURE = "several values"
    UNKNOWN = "anything"
    OPEN = "not settled"

    __hash__ = object.__hash__  # as that of `Kind`


def join(contents: Iterable[Content]) -> Content:
    found = dict.fromkeys(each for each in contents if each is not Content.OPEN)
    if not found:
        return Content.OPEN
    if len(found) > 1 and found.keys() <= {Content.FLOATING, Content.NOTHING, Content.OPTIONAL}:
        return Content.OPTIONAL
    return next(iter(found)) if len(found) == 1 else Content.UNKNOWN


def present(found: Content) -> Content:
    """Of what a method is called, or that is computed with: it is not None."""
    return Content.FLOATING if found is Content.OPTIONAL else found


def mixed(contents: Iterable[Content]) -> Content:
    """Of operands: decimals win, numbers take over the type of tensors."""
    found = {present(each) for each in contents} - {Content.OPEN}
    for each in (Content.UNKNOWN, Content.STRUCTURE):
        if each in found:
            return Content.FLOATING if Content.FLOATING in found else Content.UNKNOWN
    for each in (Content.FLOATING, Content.WHOLE, Content.NUMBER):
        if each in found:
            return each
    return Content.OPEN
