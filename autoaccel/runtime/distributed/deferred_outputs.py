"""Large outputs of a distributed model: each rank has its rows, and gets those of the others when they are asked for.

To the program such an output is the tensor of all rows. Its shape is known; a loss that is a mean or a sum over all
elements, and what goes by rows (`logits.view(-1, words)`, `log_softmax`, `argmax(1)`), are computed of the rank's own
rows. Whatever else is asked for gathers the rows of all ranks, once; from then on these are used. What is done hangs on
shapes that all ranks know, never on the size of a share: they gather at the same place of the program.
"""

from __future__ import annotations

import functools
import os
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import torch
from torch.nn import functional
from torch.utils import _pytree as pytree

from ..execution_mode import in_backward
from . import batch_means, process_group, shares
from .shares import RankRows

_T = TypeVar("_T")

LARGE: Final = 2**20
"""Bytes of all rows from which on an output is deferred: below, gathering takes less than a millisecond."""

_Tensor: Final = torch.Tensor
_KNOWN: Final = {
    *(_Tensor.size, _Tensor.dim, _Tensor.numel, _Tensor.nelement, _Tensor.__len__, _Tensor.is_floating_point),
    *(torch.numel, torch.is_floating_point),
    *(getattr(_Tensor, name).__get__ for name in ("shape", "ndim", "dtype", "device", "layout", "requires_grad")),
    *(getattr(_Tensor, name).__get__ for name in ("is_cuda", "is_sparse", "is_quantized")),
}
"""What can be told without any row."""
_VIEWS: Final = {
    *(_Tensor.view, _Tensor.reshape, torch.reshape, _Tensor.flatten, torch.flatten, _Tensor.contiguous),
    *(_Tensor.float, _Tensor.transpose, torch.transpose, _Tensor.permute, torch.permute),
    _Tensor.__getitem__,
}
"""What may share memory with its input."""
_SIZED: Final = {_Tensor.view, _Tensor.reshape, torch.reshape}
_BY_ROWS: Final = {
    *(functional.log_softmax, torch.log_softmax, _Tensor.log_softmax, functional.softmax, torch.softmax),
    *(_Tensor.softmax, _Tensor.argmax, torch.argmax, _Tensor.max, torch.max, _Tensor.topk, torch.topk),
    *(_Tensor.sigmoid, torch.sigmoid),
}
_OF_ROWS: Final = _VIEWS | _BY_ROWS
_TOPK: Final = {_Tensor.topk, torch.topk}
_WITHOUT_DIM: Final = {_Tensor.sigmoid, torch.sigmoid}
_WATCHED: Final = ("register_hook", "retain_grad")

_made = 0
_open: weakref.WeakValueDictionary[int, DeferredOutput] = weakref.WeakValueDictionary()


@dataclass(slots=True)
class _AllRows:
    """The rows of all ranks, where they were asked for."""

    values: torch.Tensor | None = None
    version: int = 0

    def keep(self, values: torch.Tensor) -> None:
        """What was gathered."""
        self.values, self.version = values, values._version  # noqa: SLF001 - torch's count of changes in place

    def are_changed(self) -> bool:
        """Whether they were changed in place."""
        return self.values is not None and self.values._version != self.version  # noqa: SLF001


class DeferredOutput(torch.Tensor):
    """A tensor of all rows, of which this rank has its own.

    Args:
        own: This rank's rows.
        rows: Which ones these are.
        gather: Gives all rows.
        source: What shares memory with it; None where it has its own.
    """

    own: torch.Tensor
    rows: RankRows
    is_used: bool
    _gather: Callable[[], torch.Tensor]
    _source: DeferredOutput | None
    views: list[weakref.ref[DeferredOutput]]
    _home: tuple[int, int]
    all_rows: _AllRows

    @staticmethod
    def __new__(
        cls: type[DeferredOutput],
        own: torch.Tensor,
        rows: RankRows,
        gather: Callable[[], torch.Tensor],
        source: DeferredOutput | None = None,
    ) -> DeferredOutput:
        made: DeferredOutput = torch.Tensor._make_wrapper_subclass(  # noqa: SLF001
            cls, _all(own, rows), dtype=own.dtype, device=own.device, requires_grad=False
        )
        made.own, made.rows, made._gather, made._source = own, rows, gather, source
        made.all_rows, made.is_used = _AllRows(), False
        made.views, made._home = [], (os.getpid(), threading.get_ident())
        if source is not None:
            source.views.append(weakref.ref(made))
        else:
            global _made
            _made += 1
            _open[_made] = made
        return made

    def is_open(self) -> bool:
        """Whether nobody has asked for all rows, of it or of what it shares memory with."""
        return self.all_rows.values is None and (self._source is None or self._source.is_open())

    def whole(self) -> torch.Tensor:
        """All rows; all ranks have to ask.

        Raises:
            RuntimeError: They are not at the same place of the program.
        """
        if self.all_rows.values is None:
            if self._source is None:
                self._see_all()
            with torch.inference_mode(False), torch.set_grad_enabled(self.own.requires_grad):
                self.all_rows.keep(self._gather())
            for view in self.views:  # before anything is changed in place: some of them are copies
                if (other := view()) is not None:
                    other.whole()
        assert self.all_rows.values is not None
        return self.all_rows.values

    def _see_all(self) -> None:
        if (group := process_group.current()) is not None:
            group.see_all("gathering an output")
        if (os.getpid(), threading.get_ident()) != self._home and not in_backward():  # which has threads of torch's
            raise RuntimeError(
                "accel.distribute: a large output of a model is asked for in a thread or a process of its own, where "
                "ranks cannot meet; use it before, as by out.clone()"
            )

    def note_use(self) -> None:
        """Something is computed of this rank's rows, which may have a gradient."""
        self.is_used = self.is_used or (self.own.requires_grad and torch.is_grad_enabled())
        if self._source is not None:
            self._source.note_use()

    def for_gradients(self) -> torch.Tensor:
        """With respect to what its gradient is to be computed: its own rows, where these alone know of all uses."""
        if self._source is None or self.is_open():
            return self.own
        if self.is_used:
            raise RuntimeError("accel.distribute: the gradient of a view of an output is asked for too late")
        return self.whole()

    def of_all_rows(self, gradient: torch.Tensor) -> torch.Tensor:
        """The gradient of all rows, of one with respect to what `for_gradients` gave."""
        if len(gradient) == len(self):
            return gradient
        return shares.gather(gradient, self.rows) / self.rows.ranks

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """torch asks here before anything is computed."""
        kwargs = kwargs or {}
        first = args[0] if args else None
        if func in _KNOWN and isinstance(first, DeferredOutput) and first.is_open():
            with torch._C.DisableTorchFunctionSubclass():  # noqa: SLF001
                return func(*args, **kwargs)
        if getattr(func, "__name__", "") in _WATCHED and isinstance(first, DeferredOutput) and first.is_used:
            raise RuntimeError(
                "accel.distribute: the gradient of an output is watched from behind a loss of it; do it before"
            )
        if getattr(func, "__module__", "") == functional.__name__ and func.__name__ in batch_means.LOSSES:
            found = _loss(func.__name__, args, kwargs)
        elif func in _OF_ROWS and isinstance(first, DeferredOutput) and first.is_open():
            found = _by_rows(func, first, args[1:], kwargs)
        else:
            found = None
        return func(*whole(args), **whole(kwargs)) if found is None else found

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # type: ignore[override]
        """Where torch has not asked above, gradients would be lost."""
        raise RuntimeError(f"accel.distribute: {func} got an output that was not gathered")


class _Defer(torch.autograd.Function):
    """An output whose gradient, of all rows, goes to this rank's.

    It comes here from what torch does not ask about it: `function = Function.apply` that a program has bound before.
    """

    @staticmethod
    def forward(
        ctx: Any, own: torch.Tensor, made: Callable[[torch.Tensor], DeferredOutput], before: Callable[[], None]
    ) -> torch.Tensor:
        output = made(own)
        ctx.all_rows, ctx.rows, ctx.before = output.all_rows, output.rows, before
        return output

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        if ctx.all_rows.are_changed():
            raise RuntimeError("accel.distribute: an output was changed in place before an autograd.Function got it")
        ctx.before()
        return shares.take_rows(gradients[0], ctx.rows) * ctx.rows.ranks, None, None


def gathered(own: torch.Tensor, rows: RankRows, dim: int, before: Callable[[], None]) -> torch.Tensor:
    """An output of all ranks: at once, or if it is large when it is asked for.

    Args:
        own: This rank's rows, along `dim`.
        before: Called when backward comes to them.
    """
    gather = functools.partial(shares.gather, own, rows, dim, before)
    can_wait = dim == 0 and own.layout is torch.strided and own.requires_grad and torch.is_grad_enabled()
    if not can_wait or not _is_large(own, rows):
        return gather()
    hooked: Any = own
    hooked.register_hook(lambda _: before())
    return _deferred(own, rows, gather, None, before)


def _deferred(
    own: torch.Tensor,
    rows: RankRows,
    gather: Callable[[], torch.Tensor],
    source: DeferredOutput | None,
    before: Callable[[], None],
) -> torch.Tensor:
    if not (own.requires_grad and torch.is_grad_enabled()):
        return DeferredOutput(own, rows, gather, source)
    output: torch.Tensor = _Defer.apply(  # type: ignore[no-untyped-call]
        own, lambda rows_of_rank: DeferredOutput(rows_of_rank, rows, gather, source), before
    )
    return output


def whole(values: _T) -> _T:
    """The same with all rows of what was deferred; in lists, tuples and dicts, too."""
    if not any(isinstance(each, DeferredOutput) for each in pytree.tree_leaves(values)):
        return values
    found: _T = pytree.tree_map(lambda each: each.whole() if isinstance(each, DeferredOutput) else each, values)
    return found


def gather_all(group: process_group.Group) -> None:
    """Gather what all ranks still have, before they are at different places of the program."""
    if not _made:
        return
    mine = {number: each for number, each in sorted(_open.items()) if each.is_open()}
    longest = int(max(each[0] for each in group.exchange([float(len(mine))], "gathering outputs")))
    if longest:
        padded = [float(each) for each in mine] + [-1.0] * (longest - len(mine))
        theirs = group.exchange(padded, "gathering outputs")
        for number in sorted(set.intersection(*map(set, theirs)) - {-1.0}):
            mine[int(number)].whole()


def _nothing() -> None:
    """What there is to do where the rows' own output has it done."""


def _all(own: torch.Tensor, rows: RankRows) -> list[int]:
    return [own.shape[0] // rows.own * rows.count, *own.shape[1:]]


def _is_large(own: torch.Tensor, rows: RankRows) -> bool:
    return own.numel() // rows.own * rows.count * own.element_size() >= LARGE


def _by_rows(func: Any, output: DeferredOutput, args: Any, kwargs: Any) -> Any:
    """What is computed of each row by itself; None where that cannot be told."""
    if func in _BY_ROWS and not _keeps_rows(func, output, args, kwargs):
        return None
    rows, mine = output.rows, _sized(func, args, output.rows, output.rows.own)
    if mine is None or any(isinstance(each, torch.Tensor) for each in pytree.tree_leaves((args, kwargs))):
        return None
    if not _divides(func, output, args, kwargs):
        return None
    found = func(output.own, *mine, **kwargs)
    enabled = torch.is_grad_enabled()

    def again() -> torch.Tensor:
        with torch.set_grad_enabled(enabled):
            values: torch.Tensor = func(output.whole(), *args, **kwargs)
        return values

    def deferred(own: torch.Tensor) -> torch.Tensor:
        if func in _VIEWS and own.dtype == output.dtype:
            return _deferred(own, rows, again, output, _nothing)
        output.note_use()
        return gathered(own, rows, 0, _nothing)

    return pytree.tree_map(deferred, found)


def _keeps_rows(func: Any, output: DeferredOutput, args: Any, kwargs: Any) -> bool:
    if func in _WITHOUT_DIM:
        return True
    place = 1 if func in _TOPK else 0
    dim = kwargs.get("dim", args[place] if len(args) > place else -1 if func in _TOPK else None)
    return isinstance(dim, int) and dim % output.dim() != 0


def _sized(func: Any, args: Any, rows: RankRows, own: int) -> Any:
    """The arguments for so many rows: a shape that begins with a number of rows is another; None: it cannot be."""
    shape = args[0] if len(args) == 1 and isinstance(args[0], tuple | list) else args
    if func not in _SIZED or not shape or not isinstance(shape[0], int) or shape[0] == -1:
        return args
    return ((shape[0] // rows.count * own, *shape[1:]),) if shape[0] % rows.count == 0 else None


def _divides(func: Any, output: DeferredOutput, args: Any, kwargs: Any) -> bool:
    """Whether shares of any size give their part of the rows along the first dimension, as shapes tell."""
    rows = output.rows
    each = output.own.shape[0] // rows.own

    def shapes(size: int) -> list[Any]:
        values = torch.empty((each * size, *output.own.shape[1:]), dtype=output.dtype, device="meta")
        found = pytree.tree_leaves(func(values, *_sized(func, args, rows, size), **kwargs))
        return [(len(one), *one.shape[1:]) if one.dim() else None for one in found]

    try:
        wanted = shapes(rows.count)
        if any(one is None or one[0] % rows.count for one in wanted):
            return False
        return all(
            shapes(size) == [(one[0] // rows.count * size, *one[1:]) for one in wanted] for size in set(rows.sizes)
        )
    except (RuntimeError, IndexError, TypeError):  # as with all rows, where it will be said
        return False


def _loss(name: str, args: Any, kwargs: Any) -> torch.Tensor | None:
    """A loss of all rows, of which each rank computes its own; None where that cannot be told."""
    given = batch_means.arguments(name, args, kwargs)
    if given is None:
        return None
    values, target = given["input"], given["target"]
    deferred = [each for each in (values, target) if isinstance(each, DeferredOutput) and each.is_open()]
    alike = 1 if name in batch_means.BY_CLASS else None  # of shapes
    if not deferred or not target.dim() or values.shape[:alike] != target.shape[:alike]:
        return None
    others = [each for key, each in given.items() if key not in ("input", "target") and isinstance(each, torch.Tensor)]
    if any(isinstance(each, DeferredOutput) or each.dim() >= values.dim() for each in others):
        return None
    rows = deferred[0].rows
    parts = [_part(each, rows) for each in (values, target)]
    if any(part is None for part in parts):
        return None
    for each in deferred:
        each.note_use()
    return batch_means.over_ranks(name, {**given, "input": parts[0], "target": parts[1]})


def _part(tensor: torch.Tensor, rows: RankRows) -> torch.Tensor | None:
    if isinstance(tensor, DeferredOutput) and tensor.is_open():
        return tensor.own if tensor.rows == rows else None
    if tensor.requires_grad or len(tensor) % rows.count:
        return None
    return rows.of(whole(tensor))
