"""Whether a model may be computed by rows: tried with a few rows of the first batch, before anything rests on it.

A few rows are computed twice without gradients: all of them, and this rank's share of them. If the share's outputs are
the rows of the whole's, if the same random numbers were drawn and the same buffers left behind, then ranks may share
the batch. If not, each computes all of it, which is what one process does: right, and no faster. So it goes with
models that look at their neighbours in the batch, with the batch along another dimension than the first, and with
random numbers that are drawn out of sight. Everything that a forward pass changes is put back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import torch
from torch import nn
from torch.utils import _pytree as pytree

from ..rng_state import RngState
from . import batch_part
from .shares import RankRows

_TOLERANCE: Final = {torch.float64: 1e-9, torch.float32: 1e-3, torch.float16: 5e-2, torch.bfloat16: 5e-2}
_OF_ALL_ROWS: Final = {torch.float64: 1e-12, torch.float32: 1e-5, torch.float16: 0.0, torch.bfloat16: 0.0}
"""Of outputs without rows: before a model has learned, the mean loss of some rows is much like that of others."""

_SHARDING: Final = "torch.distributed.fsdp."  # whose hooks bring parameters together


@dataclass(frozen=True, slots=True)
class RowIndependence:
    """What was found.

    problem: why ranks may not share a batch; empty where they may.
    outputs: along which dimension each output has rows of the batch; None where it has none.
    draws: the same of random numbers that the forward pass draws, by their place in the program.
    has_means: whether it takes means of all elements of tensors, as a loss does.
    """

    problem: str = ""
    outputs: tuple[int | None, ...] = ()
    draws: dict[batch_part.Site, int | None] = field(default_factory=dict)
    has_means: bool = False


Compute = Callable[[RankRows | None], Any]
"""A forward pass of some rows of a batch, or of all of them."""


def examine(model: nn.Module, compute: Compute, rows: RankRows, meet: Callable[[], None]) -> RowIndependence:
    """Try a model on a batch of `rows.count` rows, of which this rank has its share.

    Args:
        compute: Computes the rows that it is told, or with None all of the few.
        meet: Sees that all ranks are at a mean, or raises.
    """
    if (hooked := next((name for name, each in model.named_modules() if name and _watched(each)), None)) is not None:
        return RowIndependence(f"{hooked} has hooks, which would see the rows of one rank")
    with _put_back(model), torch.no_grad(), _stirred(model):
        state = RngState(cuda=True)
        before = _buffers(model)
        whole_view = batch_part.Whole()
        try:
            with batch_part.computing(whole_view):
                whole = compute(None)
        except Exception as failure:  # whatever: then the script has to do it as it does alone
            return RowIndependence(f"a few rows of a batch alone fail: {_first_line(failure)}")
        drawn, left, kept = RngState(cuda=True), _buffers(model), _kept(model)
        state.restore()
        _restore(model, before)
        share_view = batch_part.Share(rows, {}, meet, whole_view.draws)
        try:
            with batch_part.computing(share_view):
                share = compute(rows)
        except Exception as failure:
            return RowIndependence(f"a part of a batch fails: {_first_line(failure)}")
        if RngState(cuda=True) != drawn:
            return RowIndependence("random numbers are drawn out of sight")
        if any(not _close(mine, theirs) for mine, theirs in zip(_buffers(model), left, strict=True)):
            return RowIndependence("its buffers hang on all rows of a batch")
        if not _same(_kept(model), kept):
            return RowIndependence("it keeps tensors of its forward pass")
    return _compared(whole, share, rows, share_view.dims, has_means=whole_view.has_means)


def _compared(
    whole: Any, share: Any, rows: RankRows, draws: dict[batch_part.Site, int | None], *, has_means: bool
) -> RowIndependence:
    (all_of_it, structure), (own, same) = pytree.tree_flatten(whole), pytree.tree_flatten(share)
    if structure != same:
        return RowIndependence("the form of its outputs hangs on the number of rows")
    dims = []
    for theirs, mine in zip(all_of_it, own, strict=True):
        dim = _row_dim(theirs, mine, rows)
        expected, tolerances = (theirs, _OF_ALL_ROWS) if dim is None else (rows.of(theirs, dim), _TOLERANCE)
        if not _equal(mine, expected, tolerances):
            return RowIndependence("its outputs hang on all rows of a batch")
        dims.append(dim)
    return RowIndependence(outputs=tuple(dims), draws=draws, has_means=has_means)


def _row_dim(whole: Any, share: Any, rows: RankRows) -> int | None:
    """The dimension that has rows of the batch: the one that is shorter in a share."""
    if not isinstance(whole, torch.Tensor) or not isinstance(share, torch.Tensor) or whole.dim() != share.dim():
        return None
    differing = [dim for dim in range(whole.dim()) if whole.shape[dim] != share.shape[dim]]
    fits = len(differing) == 1 and whole.shape[differing[0]] % rows.count == 0
    return differing[0] if fits else None


def _equal(mine: Any, expected: Any, tolerances: Mapping[torch.dtype, float]) -> bool:
    if isinstance(mine, torch.Tensor) and isinstance(expected, torch.Tensor):
        return _close(mine, expected, tolerances)
    if mine is None or isinstance(mine, int | float | str | bytes | torch.dtype | torch.device):
        return bool(mine == expected)
    return False


def _close(mine: torch.Tensor, expected: torch.Tensor, tolerances: Mapping[torch.dtype, float] = _TOLERANCE) -> bool:
    if mine.shape != expected.shape or mine.dtype != expected.dtype:
        return False
    if not mine.is_floating_point() or not mine.numel():
        return torch.equal(mine, expected)
    largest = expected.nan_to_num(0, 0, 0).abs().max().item()
    tolerance = tolerances.get(mine.dtype, 0.0)
    return torch.allclose(mine, expected, rtol=tolerance, atol=tolerance * max(largest, 1e-30), equal_nan=True)


def _watched(module: nn.Module) -> bool:
    hooks = (*module._forward_hooks.values(), *module._backward_hooks.values(), *module._backward_pre_hooks.values())  # noqa: SLF001
    return not all((getattr(each, "__module__", None) or "").startswith(_SHARDING) for each in hooks)


def _buffers(model: nn.Module) -> list[torch.Tensor]:
    return [buffer.detach().clone() for buffer in model.buffers()]


def _restore(model: nn.Module, values: list[torch.Tensor]) -> None:
    for buffer, value in zip(model.buffers(), values, strict=True):
        buffer.copy_(value)


def _kept(model: nn.Module) -> list[Any]:
    """What modules keep in attributes that are neither parameters nor buffers, as far as it has tensors."""
    found = []
    for name, module in model.named_modules():
        for key, value in vars(module).items():
            if key not in ("_parameters", "_buffers", "_modules", "forward"):
                leaves = [each for each in pytree.tree_leaves(value) if isinstance(each, torch.Tensor)]
                if leaves:
                    found.append((name, key, leaves))
    return found


def _same(mine: list[Any], theirs: list[Any]) -> bool:
    named = [[(name, key, len(leaves)) for name, key, leaves in each] for each in (mine, theirs)]
    return named[0] == named[1] and all(
        _close(one, other)
        for (_, _, ones), (_, _, others) in zip(mine, theirs, strict=True)
        for one, other in zip(ones, others, strict=True)
    )


@contextmanager
def put_back_unless(model: nn.Module) -> Iterator[Callable[[], None]]:
    """Undo what forward passes change of buffers and generators, unless what this gives is called."""
    state, values = RngState(cuda=True), _buffers(model)
    kept: list[bool] = []
    yield lambda: kept.append(True)
    if not kept:
        with torch.no_grad():
            _restore(model, values)
        state.restore()


@contextmanager
def _stirred(model: nn.Module) -> Iterator[None]:
    """Give parameters that are one number something of their own for a while: what layers of zeros give is the same of
    any rows. The count of changes, by which graphs that are still open are guarded, stays."""
    noise = torch.Generator().manual_seed(0)
    plain = (each for each in model.parameters() if type(each) is nn.Parameter and each.numel() > 1)
    values = [(each.data, each.detach().clone()) for each in plain if bool((each == each.flatten()[0]).all())]
    for held, _ in values:
        held.add_(torch.rand(held.shape, generator=noise).mul_(0.1).to(held))  # above zero: roots stay numbers
    try:
        yield
    finally:
        for held, value in values:
            held.copy_(value)


@contextmanager
def _put_back(model: nn.Module) -> Iterator[None]:
    """Undo what forward passes change: generators, buffers, attributes, what autocast keeps of weights."""
    state = RngState(cuda=True)
    attributes = [(module, dict(vars(module)), dict(module._buffers)) for module in model.modules()]  # noqa: SLF001
    values = [(buffer, buffer.detach().clone()) for buffer in model.buffers()]
    try:
        yield
    finally:
        for module, before, buffers in attributes:
            vars(module).clear()
            vars(module).update(before)
            module._buffers.clear()  # noqa: SLF001
            module._buffers.update(buffers)  # noqa: SLF001
        with torch.no_grad():
            for buffer, value in values:
                buffer.copy_(value)
        state.restore()
        torch.clear_autocast_cache()  # what was cast without gradients has none


def _first_line(failure: Exception) -> str:
    return f"{type(failure).__name__}: {failure}".partition("\n")[0]
