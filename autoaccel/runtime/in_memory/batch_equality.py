"""Whether a batch that was looked up whole is the one that torch put together, down to the bit, draws included."""

from __future__ import annotations

from typing import Any

import torch


def difference(want: Any, got: Any) -> str:
    """What differs between two batches, in types, containers, dtypes, shapes, strides or a single bit; or nothing.

    Where torch's tensor is on the host, the other may be on a device.
    """
    if type(want) is not type(got):
        return f"a {type(got).__name__} instead of a {type(want).__name__}"
    if isinstance(want, torch.Tensor):
        return _between_tensors(want, got)
    if isinstance(want, dict):
        if list(want) != list(got):
            return "other keys"
        return next((found for key in want if (found := difference(want[key], got[key]))), "")
    if isinstance(want, (list, tuple)):
        if len(want) != len(got):
            return "another number of parts"
        return next((found for one, other in zip(want, got, strict=True) if (found := difference(one, other))), "")
    return "" if want == got else "other values"


def _between_tensors(want: torch.Tensor, got: torch.Tensor) -> str:
    for name in ("dtype", "shape", "requires_grad", "layout"):
        if getattr(want, name) != getattr(got, name):
            return f"{name} {getattr(got, name)} instead of {getattr(want, name)}"
    if want.stride() != got.stride() or want.storage_offset() != got.storage_offset():
        return f"strides {got.stride()} instead of {want.stride()}"
    if want.device.type != "cpu" and want.device != got.device:
        return f"its values on {got.device} instead of {want.device}"
    if got.device.type == "cpu" and want.untyped_storage().nbytes() != got.untyped_storage().nbytes():
        return "memory of another size"
    return "" if torch.equal(bits(want.cpu()), bits(got.cpu())) else "other values"


def bits(tensor: torch.Tensor) -> torch.Tensor:
    """The bytes of a tensor, in the order of its elements; booleans as they are. A view where it is contiguous."""
    flat = tensor.contiguous().reshape(-1)
    return flat if flat.dtype == torch.bool else flat.view(torch.uint8)
