"""Random numbers inside of a distributed model: drawn for the global batch on every rank, which takes its rows.

So every rank's generators go the way that those of one process go, and a row gets the numbers that it gets there. What
is replaced here are torch's functions that draw, once and for all, in runs of several ranks alone; outside of
distributed models they are torch's own. What draws out of Python's sight (the dropout of `nn.LSTM`) is noticed when
a few rows are tried first (`row_independence.py`), and every rank computes the whole batch then.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, Final

import torch
from torch.nn import functional

from . import batch_part
from .shares import RankRows

_DROPOUTS: Final = ("dropout", "dropout1d", "dropout2d", "dropout3d")
_PADDED: Final = ("alpha_dropout", "feature_alpha_dropout", "rrelu")
_FACTORIES: Final = ("rand", "randn")
_LIKE: Final = ("rand_like", "randn_like", "randint_like")
_FILLING: Final = ("normal_", "uniform_", "bernoulli_", "exponential_", "random_", "log_normal_", "cauchy_")


@functools.cache
def install() -> None:
    """Replace torch's functions that draw; at the second call there is nothing to do."""
    for name in _DROPOUTS:
        _replace(functional, name, _by_mask)
    for name in _PADDED:
        _replace(functional, name, _padded)
    for name in _FACTORIES:
        _replace(torch, name, _factory)
    for name in _LIKE:
        _replace(torch, name, _like)
    for name in ("bernoulli", "normal", "multinomial"):
        _replace(torch, name, _padded)
    for name in ("bernoulli", "multinomial"):
        _replace(torch.Tensor, name, _padded)
    for name in _FILLING:
        _replace(torch.Tensor, name, _filling)
    _replace(torch, "randint", _randint)
    _replace(functional, "scaled_dot_product_attention", _attention)


def _replace(owner: Any, name: str, kind: Callable[..., Any]) -> None:
    original = getattr(owner, name)

    @functools.wraps(original)
    def replaced(*args: Any, **kwargs: Any) -> Any:
        view = batch_part.current()
        return original(*args, **kwargs) if view is None else kind(original, view, *args, **kwargs)

    setattr(owner, name, replaced)


def _global(shape: Any, rows: RankRows, dim: int) -> list[int]:
    """The shape that something has for the global batch."""
    return [size // rows.own * rows.count if each == dim else size for each, size in enumerate(shape)]


def _template(tensor: torch.Tensor, rows: RankRows, dim: int) -> torch.Tensor:
    """Memory for what `tensor` is for the global batch, laid out as it is."""
    shape = _global(tensor.shape, rows, dim)
    order = sorted(range(tensor.dim()), key=tensor.stride, reverse=True)
    inverse = [order.index(each) for each in range(tensor.dim())]
    return tensor.new_empty([shape[each] for each in order]).permute(inverse)


def _own(tensor: torch.Tensor, rows: RankRows, dim: int) -> torch.Tensor:
    """This rank's rows, without the memory of the others."""
    return rows.of(tensor, dim).clone()


def _by_mask(
    original: Callable[..., Any],
    view: batch_part.BatchView,
    input: torch.Tensor,  # noqa: A002 - torch's name
    p: float = 0.5,
    training: bool = True,
    inplace: bool = False,
) -> Any:
    if not training or p == 0.0 or (dim := view.batch_dim(input.shape)) is None or view.rows is None:
        return original(input, p, training, inplace)
    mask = original(_template(input, view.rows, dim).fill_(1), p, True)
    mask = _own(mask.detach(), view.rows, dim)
    return input.mul_(mask) if inplace else input * mask


def _padded(original: Callable[..., Any], view: batch_part.BatchView, *args: Any, **kwargs: Any) -> Any:
    """For what draws a number for each entry, whatever it is: this rank's rows stand among others."""
    shape = next((each.shape for each in (*args, *kwargs.values()) if isinstance(each, torch.Tensor)), None)
    if shape is None:
        size = kwargs.get("size", args[2] if len(args) > 2 else None)
        return _sized(view, size, lambda whole: original(*args[:2], **{**kwargs, "size": whole}))
    dim = view.batch_dim(shape) if _draws(original, kwargs, args) else None
    if dim is None or view.rows is None:
        return original(*args, **kwargs)
    rows = view.rows

    def widen(value: Any) -> Any:
        if not isinstance(value, torch.Tensor) or value.shape != shape:
            return value
        before, after = rows.first, rows.count - rows.first - rows.own
        factor = shape[dim] // rows.own
        other = torch.full_like(value, 0.5) if value.is_floating_point() else torch.zeros_like(value)
        ends = [other.narrow(dim, 0, 1).expand(_with(shape, dim, count * factor)) for count in (before, after)]
        return torch.cat([ends[0], value, ends[1]], dim)

    widened = [widen(each) for each in args]
    return rows.of(original(*widened, **{name: widen(each) for name, each in kwargs.items()}), dim)


def _draws(original: Callable[..., Any], kwargs: dict[str, Any], args: tuple[Any, ...]) -> bool:
    """Whether a function that may be told not to draw will."""
    position = {"alpha_dropout": 2, "feature_alpha_dropout": 2, "rrelu": 3}.get(original.__name__)
    if position is None:
        return True
    return bool(kwargs.get("training", args[position] if len(args) > position else False))


def _with(shape: torch.Size, dim: int, size: int) -> list[int]:
    return [size if each == dim else other for each, other in enumerate(shape)]


def _factory(original: Callable[..., Any], view: batch_part.BatchView, *args: Any, **kwargs: Any) -> Any:
    size = kwargs.pop("size", args)
    if len(size) == 1 and not isinstance(size[0], int):
        size = size[0]
    return _sized(view, size, lambda whole: original(whole, **kwargs))


def _randint(original: Callable[..., Any], view: batch_part.BatchView, *args: Any, **kwargs: Any) -> Any:
    *limits, size = (*args, kwargs.pop("size")) if "size" in kwargs else args
    return _sized(view, size, lambda whole: original(*limits, whole, **kwargs))


def _sized(view: batch_part.BatchView, size: Any, draw: Callable[[list[int]], Any]) -> Any:
    dim = view.batch_dim(tuple(size))
    if dim is None or view.rows is None:
        return draw(list(size))
    return _own(draw(_global(size, view.rows, dim)), view.rows, dim)


def _like(
    original: Callable[..., Any],
    view: batch_part.BatchView,
    input: torch.Tensor,  # noqa: A002
    *args: Any,
    **kwargs: Any,
) -> Any:
    dim = view.batch_dim(input.shape)
    if dim is None or view.rows is None:
        return original(input, *args, **kwargs)
    wanted = kwargs.pop("requires_grad", False)
    drawn = _own(original(_template(input.detach(), view.rows, dim), *args, **kwargs), view.rows, dim)
    return drawn.requires_grad_(wanted)


def _filling(
    original: Callable[..., Any], view: batch_part.BatchView, tensor: torch.Tensor, *args: Any, **kwargs: Any
) -> Any:
    dim = view.batch_dim(tensor.shape)
    by_tensor = any(isinstance(each, torch.Tensor) for each in (*args, *kwargs.values()))
    if dim is None or view.rows is None or by_tensor:
        return original(tensor, *args, **kwargs)
    return tensor.copy_(view.rows.of(original(_template(tensor.detach(), view.rows, dim), *args, **kwargs), dim))


def _attention(
    original: Callable[..., Any],
    view: batch_part.BatchView,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:
    """Attention whose dropout is drawn in sight, as torch's own on a CPU draws it."""
    if dropout_p == 0.0 or view.rows is None or query.device.type != "cpu" or enable_gqa:
        options = {"attn_mask": attn_mask, "dropout_p": dropout_p, "is_causal": is_causal, "scale": scale}
        if dropout_p > 0.0 and query.device.type == "cpu" and not enable_gqa:
            view.batch_dim((*query.shape[:-1], key.shape[-2]))
        return original(query, key, value, **options, **({"enable_gqa": True} if enable_gqa else {}))
    scores = query @ key.transpose(-2, -1) * (1 / math.sqrt(query.shape[-1]) if scale is None else scale)
    if is_causal:
        attn_mask = torch.ones(scores.shape[-2:], dtype=torch.bool, device=query.device).tril()
    if attn_mask is not None:
        scores = scores.masked_fill(~attn_mask, -math.inf) if attn_mask.dtype is torch.bool else scores + attn_mask
    return functional.dropout(scores.softmax(-1), dropout_p) @ value
