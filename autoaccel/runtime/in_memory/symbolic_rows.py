"""What an expression of a `__getitem__` stands for, for a whole batch: rows of what a dataset holds, and conversions.

Each operation here is one that gives the same numbers for a batch as for its samples one by one: looking up, changing
the dtype, changing the shape, and + - * / with a number.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

import torch

from .columns import Column, Constant, Indices, Numbers, Tensors, View, column
from .mutation_guard import MutationGuard, Unsupported
from .sample_structure import Part, Route, Step


@dataclass(frozen=True)
class Affine:
    """The index, times a number, plus a number."""

    factor: int
    plus: int

    def route(self) -> Route | None:
        return None if self == Affine(1, 0) else lambda rows: rows.times(self.factor, self.plus)


@dataclass(frozen=True)
class Row:
    """One row of a column, with what was done to it.

    kind: "tensor", "array" (of numpy, its single numbers too), "number" or "list" (of numbers, Python's).
    dims: how many dimensions the row has.
    scalar: torch chooses the dtype when the batch is put together.
    """

    kind: str
    column: Column
    dims: int
    route: Route | None = None
    steps: tuple[Step, ...] = ()
    scalar: bool = False

    def then(self, step: Step, **changes: Any) -> Row:
        return replace(self, steps=(*self.steps, step), **changes)


def part(value: Any) -> Part:
    """One part of what is returned, as default collate takes it."""
    if isinstance(value, Row) and value.kind == "list":
        raise Unsupported("its samples hold lists")
    if isinstance(value, Affine):
        return Part(Indices(), value.route())
    if isinstance(value, (int, float)):
        return Part(Constant(value))
    scalar = value.scalar or (value.kind == "array" and value.dims == 0)
    return Part(value.column, value.route, value.steps, scalar)


def indexed(of: Any, index: Any, guard: MutationGuard) -> Any:
    """`of[index]`."""
    if isinstance(of, Row):
        return _inside(of, index)
    if isinstance(of, tuple) and isinstance(index, int) and any(isinstance(each, Row) for each in of):
        return of[index]
    if type(of) is dict and isinstance(index, (str, int)):
        return guard.entry(of, index)
    first, *rest = index if isinstance(index, tuple) else (index,)
    if isinstance(first, slice):
        found: Any = _window(of, first)
    elif isinstance(first, Affine) and first.factor:
        found = _looked_up(of, first.route())
    elif isinstance(first, Row):
        found = _looked_up(of, _through(first))
    else:
        raise Unsupported("its __getitem__ looks something up by another thing than the index")
    if not rest:
        return found
    return _inside(found, (slice(None), *rest) if isinstance(first, slice) else tuple(rest))


def _through(row: Row) -> Route:
    """From indices to what stands at them in a table of indices."""
    column, earlier = row.column, row.route
    if row.steps or not isinstance(column, (Tensors, Numbers)) or (isinstance(column, Tensors) and column.views):
        raise Unsupported("its __getitem__ looks something up by what it computed")
    table = column.source if isinstance(column, Tensors) else column.numbers
    return lambda rows: (rows if earlier is None else earlier(rows)).through(table)


def _looked_up(of: Any, route: Route | None) -> Any:
    found = column(of)
    if isinstance(found, Tensors):
        seen = found.seen()
        return Row("tensor" if isinstance(of, torch.Tensor) else "array", found, seen.dim() - 1, route)
    if found is not None:
        return Row("number", found, 0, route)
    raise Unsupported(f"its __getitem__ looks something up in a {type(of).__name__}")


def _window(of: Any, bounds: slice) -> Row:
    """`of[i + a : i + b]`: rows of a view in which a window begins at every element."""
    found = column(of)
    if not isinstance(found, Tensors):
        raise Unsupported("its __getitem__ takes a slice of another kind")
    start, length = span(bounds)
    kind = "tensor" if isinstance(of, torch.Tensor) else "array"
    return Row(kind, Tensors(of, (*found.views, windows(length))), found.seen().dim(), start.route())


def span(bounds: slice) -> tuple[Affine, int]:
    """Where a slice begins, and how long it is, whatever the index."""
    start, stop = (Affine(0, each) if type(each) is int else each for each in (bounds.start, bounds.stop))
    if not isinstance(start, Affine) or not isinstance(stop, Affine):
        raise Unsupported("its __getitem__ takes a slice of another kind")
    length = stop.plus - start.plus
    if start.factor != stop.factor or not start.factor or length < 1:
        raise Unsupported("its __getitem__ takes slices of other lengths")
    return start, length


def windows(length: int) -> View:
    """A tensor as a tensor of its windows."""

    def view(source: torch.Tensor) -> torch.Tensor:
        count, stride = source.shape[0] - length + 1, source.stride()
        return source.as_strided((count, length, *source.shape[1:]), (stride[0], *stride), source.storage_offset())

    return view


def _inside(row: Any, index: Any) -> Row:
    """A row's own elements, at fixed places."""
    places = index if isinstance(index, tuple) else (index,)
    if not isinstance(row, Row) or not all(type(each) is int or _is_fixed(each) for each in places):
        raise Unsupported("its __getitem__ looks further into a sample")
    dims = row.dims - sum(type(each) is int for each in places)
    if len(places) > row.dims or row.kind == "number":
        raise Unsupported("its __getitem__ looks further into a number")
    at = (slice(None), *places)

    def view(values: torch.Tensor) -> torch.Tensor:
        return values[at]

    if row.steps or not isinstance(row.column, Tensors):
        return row.then(view, dims=dims)
    return replace(row, column=Tensors(row.column.source, (*row.column.views, view)), dims=dims)


def _is_fixed(index: Any) -> bool:
    return isinstance(index, slice) and all(each is None or type(each) is int for each in (index.start, index.stop))


_OPERATORS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "Add": operator.add,
    "Sub": operator.sub,
    "Mult": operator.mul,
    "Div": operator.truediv,
}


def computed(name: str, left: Any, right: Any, integers_only: bool = False) -> Any:
    """`left <op> right` of the index and whole numbers, or of a row and a number."""
    operate = _OPERATORS.get(name)
    if operate is not None and all(type(each) in (int, float) for each in (left, right)):
        return operate(left, right)
    if operate is not None and name != "Div" and any(isinstance(each, Affine) for each in (left, right)):
        return _moved(name, left, right)
    if operate is None or integers_only or type(right) not in (int, float) or not isinstance(left, Row):
        raise Unsupported("its __getitem__ computes something")
    if left.kind == "number":
        raise Unsupported("its __getitem__ computes with numbers")
    if left.kind == "tensor":
        return left.then(lambda values: operate(values, right))
    if not left.dims and sys.modules["numpy"].__version__.startswith("1."):
        raise Unsupported("its __getitem__ computes with a single number, which numpy 1 does in another precision")
    return left.then(lambda values: torch.from_numpy(operate(values.numpy(), right)))


def _moved(name: str, left: Any, right: Any) -> Affine:
    one, other = (each if isinstance(each, Affine) else Affine(0, each) for each in (left, right))
    if not all(type(each.plus) is int for each in (one, other)):
        raise Unsupported("its __getitem__ computes an index that is no whole number")
    if name == "Mult" and 0 in (one.factor, other.factor):
        return Affine(one.factor * other.plus + other.factor * one.plus, one.plus * other.plus)
    if name == "Mult":
        raise Unsupported("its __getitem__ multiplies indices")
    sign = 1 if name == "Add" else -1
    return Affine(one.factor + sign * other.factor, one.plus + sign * other.plus)
