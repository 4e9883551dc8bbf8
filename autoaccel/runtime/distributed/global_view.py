"""`accel.distribute`: a model of which each rank computes its rows of the batch, and hands back all of them.

Every rank runs the script's own lines on the same global batch. The model takes this rank's rows of it, computes, and
hands back the outputs of all ranks, in order; gradients are averaged. So whatever the script does with outputs, losses
and gradients means what it means in one process. It stays the same object with the same keys. What cannot go by rows
is computed by every rank, whole: methods other than `forward`, batches of fewer rows than there are ranks, calls
without a batch, and what is found to hang on the whole batch (`row_independence.py`). That is no faster, and right.
"""

from __future__ import annotations

import functools
import types
import zlib
from collections.abc import Callable
from typing import Any, Final, TypeVar

import torch
from torch import distributed as dist
from torch import nn
from torch.utils import _pytree as pytree

from .. import devices
from ..environment import Decision, note
from ..execution_mode import is_traced
from . import (
    autograd_functions,
    batch_means,
    batch_norm,
    batch_part,
    deferred_outputs,
    gradient_reduction,
    process_group,
    random_draws,
    sharding,
    shares,
)
from .row_independence import RowIndependence, examine, put_back_unless
from .shares import RankRows

_Model = TypeVar("_Model", bound=nn.Module)
_AT_A_MEAN: Final = 2.0  # what ranks tell one another; 1.0 is that a model cannot be shared, 0.0 that all is well
_SPARE: Final = 1  # rows beyond two for each rank, of those that are tried first, so that shares are uneven

_FIELDS: Final = (
    "the model",
    "the number of the call",
    "whether it trains",
    "the number of rows",
    "the state of the random generators",
    "how many saves there were",
)
_made = 0  # models so far


def distribute(model: _Model, shard: bool = False) -> _Model:
    """Let the ranks share the model's batches, in place; under one process nothing happens.

    Args:
        model: Stays the same object with the same keys. Its parameters become those of the first rank.
        shard: Whether parameters, gradients and optimizer states are spread over the ranks as well (`sharding.py`).
            Then the optimizer has to be made afterwards, and nothing but `forward` computes with the parameters.

    Returns:
        The model itself.

    Raises:
        RuntimeError: The model cannot be distributed; the message says why.
    """
    global _made
    if process_group.world_size() == 1:
        return model
    if isinstance(getattr(model, "forward", None), GlobalForward):
        return model
    own = vars(model).get("forward")
    if own is not None and getattr(own, "__func__", None) is not type(model).forward:
        raise RuntimeError(f"accel.distribute: the forward of this {type(model).__name__} was replaced by hand")
    if any(isinstance(each, nn.Embedding | nn.EmbeddingBag) and each.sparse for each in model.modules()):
        raise RuntimeError("accel.distribute: sparse gradients are not averaged; leave out sparse=True")
    for each in model.modules():
        if isinstance(each, nn.DataParallel):
            each.device_ids = []  # each rank has a device of its own: it hands on to the model within
    place = devices.module_device(model)
    group = process_group.join("cpu" if place is None else place.type)
    random_draws.install()
    batch_norm.install()
    batch_means.install()
    autograd_functions.install()
    gradient_reduction.install()
    process_group.share_generators(group)
    _share_values(model, group)
    for each in (model, model.module) if isinstance(model, nn.DataParallel) else (model,):
        if each._compiled_call_impl is not None:  # noqa: SLF001
            note(f"compile {type(each).__name__}", Decision(False, "it is distributed"))
            each._compiled_call_impl = None  # noqa: SLF001
    if shard:
        with group.naming_the_lost("sharing out the parameters"):
            sharding.shard(model, group, "cpu" if place is None else place.type)
    _made += 1
    # torch asks a module for `forward` at each call: hooks of the model see all rows, those of one rank are within
    model.forward = GlobalForward(model, group, _made, sharded=shard)
    return model


def _share_values(model: nn.Module, group: process_group.Group) -> None:
    """Give every rank the first one's parameters and buffers."""
    with group.naming_the_lost("sharing the parameters"), torch.no_grad():
        for tensor in (*model.parameters(), *model.buffers()):
            if not nn.parameter.is_lazy(tensor):
                value = tensor.detach().contiguous()
                dist.broadcast(value, 0)
                if value.data_ptr() != tensor.data_ptr():
                    tensor.copy_(value)


def is_shared(model: nn.Module) -> bool:
    """Whether ranks share the batches of a model, or of a part of it."""
    return any(isinstance(vars(each).get("forward"), GlobalForward) for each in model.modules())


class GlobalForward:
    """What stands in a distributed model's `forward`; a copy or a pickle of the model has its class's own again."""

    def __init__(self, model: nn.Module, group: process_group.Group, number: int, *, sharded: bool) -> None:
        self._model = model
        self._forward: Callable[..., Any] = types.MethodType(type(model).forward, model)
        self._group = group
        self._number = number
        self._calls = 0
        self._name = type(model).__name__
        self._independence: dict[Any, RowIndependence] = {}
        self._reduction = None if sharded else gradient_reduction.GradientReduction(model)

    def __reduce__(self) -> tuple[Any, ...]:
        return getattr, (self._model, "forward")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        group = process_group.current()
        # a loader's worker; the block of accel.first(); part of a larger model; what is traced, to be used elsewhere
        if group is None or group.is_apart() or batch_part.current() is not None or is_traced():
            return self._forward(*args, **kwargs)
        self._calls += 1
        args, kwargs = deferred_outputs.whole((args, kwargs))
        batch = _Batch(args, kwargs)
        self._meet(batch)
        if batch.count < self._group.size:
            if batch.count:
                decision = Decision(batch.count, "rows, computed by every rank: fewer than ranks")
                note(f"distribute {self._name}", decision)
            return self._forward(*args, **kwargs)
        found = self._row_independence(batch)
        if found.problem:
            return self._forward(*args, **kwargs)
        if not batch.may_tell_lengths:
            return self._gathered(batch, found, self._share(batch, found))
        with put_back_unless(self._model) as keep:
            share = self._share(batch, found)
            if self._are_alike(share, found):
                keep()
                return self._gathered(batch, found, share)
        self._know(batch, RowIndependence("the shape of its outputs hangs on what is in all rows"))
        return self._forward(*args, **kwargs)

    def _meet(self, batch: _Batch) -> None:
        """See that all ranks are at the same call, with as many rows and the same random numbers."""
        place = f"at call {self._calls} of {self._name}"
        mode = 2 * self._model.training + torch.is_grad_enabled()
        state = (self._number, self._calls, mode, batch.count, process_group.generator_sum(), self._group.saves)
        mine = [float(each) for each in state]
        for rank, theirs in enumerate(self._group.exchange(mine, place)):
            if theirs != mine:
                what = next(name for name, one, other in zip(_FIELDS, mine, theirs, strict=True) if one != other)
                raise RuntimeError(
                    f"accel.distribute: ranks have come apart: {what} differs between rank {self._group.rank} and rank "
                    f"{rank}, {place}; {process_group.AGREE}"
                )

    def _row_independence(self, batch: _Batch) -> RowIndependence:
        key = (self._model.training, batch.form)
        found = self._independence.get(key)
        return self._know(batch, self._examined(batch)) if found is None else found

    def _know(self, batch: _Batch, found: RowIndependence) -> RowIndependence:
        self._independence[self._model.training, batch.form] = found
        decision = Decision(not found.problem, found.problem or f"each of {self._group.size} ranks has its rows")
        note(f"distribute {self._name}", decision)
        return found

    def _examined(self, batch: _Batch) -> RowIndependence:
        group = self._group
        few = batch.few(min(batch.count, 2 * group.size + _SPARE))
        place = f"trying a few rows of {self._name}"
        sums = [each[0] for each in group.exchange([float(few.checksum())], place)]
        if len(set(sums)) > 1:
            raise RuntimeError(
                f"accel.distribute: ranks have different batches at call {self._calls} of {self._name}; what a program "
                "does may not hang on its process, the clock, or the order of sets of strings (PYTHONHASHSEED=0)"
            )

        def compute(rows: RankRows | None) -> Any:
            args, kwargs = few.arguments(rows)
            return self._forward(*args, **kwargs)

        with group.naming_the_lost(place):
            found = examine(self._model, compute, RankRows(few.count, group.rank, group.size), self._meet_at_mean)
        verdicts = [_AT_A_MEAN]
        while _AT_A_MEAN in verdicts:  # what one rank has no mean for, another may have one for
            verdicts = [each[0] for each in group.exchange([float(bool(found.problem))], place)]
            if any(verdicts) and not found.problem:
                rank = next(rank for rank, each in enumerate(verdicts) if each)
                found = RowIndependence(f"rank {rank} cannot compute a part of it")
        return found

    def _meet_at_mean(self) -> None:
        self._agree_on_means(_AT_A_MEAN)

    def _agree_on_means(self, mine: float) -> None:
        """See that all ranks are at a mean of the batch, or all behind the last one: it may hang on what is in rows."""
        theirs = self._group.exchange([mine], f"at a mean in call {self._calls} of {self._name}")
        if any(each != mine for (each,) in theirs):
            raise RuntimeError(
                f"accel.distribute: a mean over the batch is taken by some ranks only, at call {self._calls} of "
                f"{self._name}; whether there is one may not hang on what is in the rows"
            )

    def _share(self, batch: _Batch, found: RowIndependence) -> Any:
        """The outputs of this rank's rows."""
        rows = RankRows(batch.count, self._group.rank, self._group.size)
        with self._group.naming_the_lost(f"at call {self._calls} of {self._name}"):
            args, kwargs = batch.arguments(rows)
            with batch_part.computing(self._view(rows, found)):
                share = self._forward(*args, **kwargs)
            if found.has_means:
                self._agree_on_means(0.0)
            return share

    def _view(self, rows: RankRows, found: RowIndependence) -> batch_part.Share:
        return batch_part.Share(rows, found.draws, self._meet_at_mean)

    def _are_alike(self, share: Any, found: RowIndependence) -> bool:
        """Whether outputs of all ranks have one shape but for their rows: what is padded to the longest may not."""
        leaves = pytree.tree_leaves(share)
        dims = (*found.outputs, *[None] * len(leaves))
        tensors = (pair for pair in zip(leaves, dims, strict=False) if isinstance(pair[0], torch.Tensor))
        shapes = [(each.dtype, *(size for at, size in enumerate(each.shape) if at != dim)) for each, dim in tensors]
        mine = float(zlib.crc32(f"{len(leaves)} {shapes}".encode()))
        all_of_them = self._group.exchange([mine], f"after call {self._calls} of {self._name}")
        return all(theirs == mine for (theirs,) in all_of_them)

    def _gathered(self, batch: _Batch, found: RowIndependence, share: Any) -> Any:
        """The outputs of all ranks."""
        rows = RankRows(batch.count, self._group.rank, self._group.size)
        leaves, form = pytree.tree_flatten(share)
        if len(leaves) != len(found.outputs):
            raise RuntimeError(f"accel.distribute: {self._name} gives outputs of another form than at first")
        before = functools.partial(_rows_again, self._view(rows, found))
        with self._group.naming_the_lost(f"at call {self._calls} of {self._name}"):
            gathered = [
                _with_hook(leaf, before) if dim is None else deferred_outputs.gathered(leaf, rows, dim, before)
                for leaf, dim in zip(leaves, found.outputs, strict=True)
            ]
        return pytree.tree_unflatten(gathered, form)


def _with_hook(leaf: Any, before: Callable[[], None]) -> Any:
    """An output without rows: backward comes to the rows through it, too."""
    if isinstance(leaf, torch.Tensor) and leaf.grad_fn is not None:
        leaf.register_hook(lambda _: before())  # type: ignore[no-untyped-call]
    return leaf


def _rows_again(share: batch_part.Share) -> None:
    """Let what a checkpoint computes again in the backward pass be this rank's rows, as it was the first time."""
    batch_part.enter(share)
    torch.autograd.Variable._execution_engine.queue_callback(_whole_again)  # noqa: SLF001


def _whole_again() -> None:
    batch_part.enter(None)


class _Batch:
    """The arguments of a call, as far as they have rows.

    Rows are the first dimension of tensors that is as long as that of the first one, and the elements of lists that are
    as long, and have no tensors.
    """

    def __init__(self, args: Any, kwargs: Any) -> None:
        self._leaves, self._structure = pytree.tree_flatten((args, kwargs), is_leaf=_is_plain_list)
        tensors = (each for each in self._leaves if isinstance(each, torch.Tensor) and each.dim())
        self.count: int = next((each.shape[0] for each in tensors), 0)
        self._by_rows = [self._has_rows(each) for each in self._leaves]

    @property
    def form(self) -> Any:
        """What two calls have in common that may go by rows alike."""
        kinds = [each.dim() if isinstance(each, torch.Tensor) else type(each) for each in self._leaves]
        return tuple(zip(kinds, self._by_rows, strict=True)), self._structure

    @property
    def may_tell_lengths(self) -> bool:
        """Whether rows may have lengths, by which outputs get their shape: there are lists, or whole numbers."""
        by_rows = (each for each, split in zip(self._leaves, self._by_rows, strict=True) if split)
        return any(not isinstance(each, torch.Tensor) or not each.is_floating_point() for each in by_rows)

    def few(self, count: int) -> _Batch:
        """Rows from the first to the last: in batches that are sorted, as by length, neighbours are alike."""
        chosen = [number * (self.count - 1) // max(count - 1, 1) for number in range(count)]

        def of(leaf: Any) -> Any:
            if isinstance(leaf, torch.Tensor):
                return leaf.index_select(0, torch.tensor(chosen, device=leaf.device))
            return [leaf[at] for at in chosen]

        leaves = [of(each) if split else each for each, split in zip(self._leaves, self._by_rows, strict=True)]
        args, kwargs = pytree.tree_unflatten(leaves, self._structure)
        return _Batch(args, kwargs)

    def arguments(self, rows: RankRows | None) -> Any:
        """The positional and the named arguments for some rows; for None as they are."""
        pairs = zip(self._leaves, self._by_rows, strict=True)
        leaves = [each if rows is None or not split else self._taken(each, rows) for each, split in pairs]
        return pytree.tree_unflatten(leaves, self._structure)

    def checksum(self) -> int:
        """Of the rows' bytes."""
        total = 0
        for each, split in zip(self._leaves, self._by_rows, strict=True):
            if split and isinstance(each, torch.Tensor) and each.layout is torch.strided:
                held = each.detach().cpu().contiguous().flatten().view(torch.uint8)
                total = zlib.crc32(held.numpy().tobytes(), total)
        return total

    def _has_rows(self, leaf: Any) -> bool:
        if isinstance(leaf, torch.Tensor):
            return leaf.dim() > 0 and leaf.shape[0] == self.count
        return _is_plain_list(leaf) and len(leaf) == self.count

    def _taken(self, leaf: Any, rows: RankRows) -> Any:
        if isinstance(leaf, torch.Tensor):
            return shares.take_rows(leaf, rows, 0, _whole_again)
        return leaf[rows.first : rows.first + rows.own]


def _is_plain_list(value: Any) -> bool:
    return type(value) is list and not any(isinstance(each, torch.Tensor | list | tuple | dict) for each in value)
