"""What an expression of a `__getitem__` stands for, for a whole batch: rows of what a dataset holds, and conversions.

Each operation here is one that gives the same numbers for a batch as for its samples one by one: looking up, changing
the dtype, changing the shape, and + - * / with a number.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import Any, Final

import torch

from .columns import Indices, Numbers, Tensors, column
from .mutation_guard import MutationGuard, Unsupported
from .sample_structure import Route, SamplePart, TensorStep


class Index(Enum):
    """The index that `__getitem__` is asked for."""

    ASKED = auto()


@dataclass
class SymbolicRow(SamplePart):
    """One row of a column, with what was done to it: a part, and what has to be known while more is done to it.

    kind: "tensor", "array" (of numpy, its single numbers too) or "number" (Python's).
    dims: how many dimensions the row has.
    """

    kind: str = "number"
    dims: int = 0

    def then(self, step: TensorStep, **changes: Any) -> SymbolicRow:
        return replace(self, steps=(*self.steps, step), **changes)


def part(value: SymbolicRow | Index) -> SamplePart:
    """One part of what is returned, as default collate takes it."""
    if isinstance(value, Index):
        return SamplePart(Indices())
    return replace(value, scalar=value.scalar or (value.kind == "array" and value.dims == 0))


def indexed(of: Any, index: Any, guard: MutationGuard) -> Any:
    """`of[index]`."""
    if isinstance(of, SymbolicRow):
        return _inside(of, index)
    if isinstance(of, tuple) and isinstance(index, int) and any(isinstance(each, SymbolicRow) for each in of):
        return of[index]
    if type(of) is dict and isinstance(index, (str, int)):
        return guard.entry(of, index)
    first, *rest = index if isinstance(index, tuple) else (index,)
    if first is Index.ASKED:
        found: Any = _looked_up(of, None)
    elif isinstance(first, SymbolicRow):
        found = _looked_up(of, _through(first))
    else:
        raise Unsupported("its __getitem__ looks something up by another thing than the index")
    return _inside(found, tuple(rest)) if rest else found


def _through(row: SymbolicRow) -> Route:
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
        return SymbolicRow(
            found, route, kind="tensor" if isinstance(of, torch.Tensor) else "array", dims=seen.dim() - 1
        )
    if found is not None:
        return SymbolicRow(found, route)
    raise Unsupported(f"its __getitem__ looks something up in a {type(of).__name__}")


def _inside(row: Any, index: Any) -> SymbolicRow:
    """A row's own elements, at fixed places."""
    places = index if isinstance(index, tuple) else (index,)
    if not isinstance(row, SymbolicRow) or not all(type(each) is int or _is_fixed(each) for each in places):
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


def computed(name: str, left: Any, right: Any) -> Any:
    """`left <op> right` of numbers, or of a row and a number."""
    operate = _OPERATORS.get(name)
    if operate is not None and all(type(each) in (int, float) for each in (left, right)):
        return operate(left, right)
    if operate is None or type(right) not in (int, float) or not isinstance(left, SymbolicRow):
        raise Unsupported("its __getitem__ computes something")
    if left.kind == "number":
        raise Unsupported("its __getitem__ computes with numbers")
    if left.kind == "tensor":
        return left.then(lambda values: operate(values, right))
    if not left.dims and sys.modules["numpy"].__version__.startswith("1."):
        raise Unsupported("its __getitem__ computes with a single number, which numpy 1 does in another precision")
    return left.then(lambda values: torch.from_numpy(operate(values.numpy(), right)))
