"""What an expression of a `__getitem__` stands for, for a whole batch: rows of what a dataset holds, and conversions.

Each operation here is one that gives the same numbers for a batch as for its samples one by one: looking up rows and
windows of rows, changing the dtype, changing the shape, and + - * / with a number.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

import torch

from .columns import Indices, Numbers, Tensors, column
from .mutation_guard import MutationGuard, Unsupported
from .row_indices import RowIndices
from .sample_structure import Route, SamplePart, TensorStep


@dataclass(frozen=True)
class Index:
    """The index that `__getitem__` is asked for, `times` a number and `plus` another."""

    times: int = 1
    plus: int = 0

    def route(self) -> Route | None:
        """From the indices that are asked for to these."""
        return None if self == ASKED else lambda rows: rows.moved(self.times, self.plus)


ASKED: Final = Index()
_FARTHEST: Final = 2**31  # of what is multiplied and added, so that nothing overflows


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
        return SamplePart(Indices(), value.route())
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
    if isinstance(first, Index):
        found: Any = _looked_up(of, first.route())
    elif isinstance(first, slice) and isinstance(first.start, Index) and isinstance(first.stop, Index):
        found, rest = _windows(of, first.start, first.stop), [slice(None), *rest] if rest else []
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
        kind = "tensor" if isinstance(of, torch.Tensor) else "array"
        return SymbolicRow(found, route, kind=kind, dims=found.seen().dim() - 1)
    if found is not None:
        return SymbolicRow(found, route)
    raise Unsupported(f"its __getitem__ looks something up in a {type(of).__name__}")


def _windows(of: Any, start: Index, stop: Index) -> SymbolicRow:
    """`of[start:stop]`, as many rows for each index, and one after the other."""
    size, found = stop.plus - start.plus, column(of)
    if start.times != stop.times or size < 1 or not isinstance(found, Tensors) or len(of) < size:
        raise Unsupported("its __getitem__ takes a slice that is no window of a tensor or an array")

    def route(rows: RowIndices) -> RowIndices:  # past an end a slice is shorter, or empty
        return rows.moved(start.times, start.plus).inside(len(of) - size + 1)

    def view(values: torch.Tensor) -> torch.Tensor:
        return values.unfold(0, size, 1).movedim(-1, 1)

    row: SymbolicRow = _looked_up(of, route)
    return replace(row, column=Tensors(of, (view,)), dims=row.dims + 1)


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
    if isinstance(left, Index) or isinstance(right, Index):
        return _moved(name, left, right)
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


def _moved(name: str, left: Any, right: Any) -> Index:
    """The same with an index: another one."""
    if name in ("Add", "Mult") and isinstance(right, Index):
        left, right = right, left
    found: Index | None = None
    if type(right) is int and abs(right) < _FARTHEST and isinstance(left, Index):
        if name in ("Add", "Sub"):
            found = replace(left, plus=_OPERATORS[name](left.plus, right))
        elif name == "Mult":
            found = Index(left.times * right, left.plus * right)
    if found is None or max(abs(found.times), abs(found.plus)) >= _FARTHEST:
        raise Unsupported("its __getitem__ computes something of the index")
    return found
