"""Hashes of values: equal ones are equal in structure, type and bits."""

from __future__ import annotations

import ctypes
import dataclasses
import hashlib
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

_DEPTH = 20  # what refers to itself ends here


def digest_of(value: Any) -> str:
    """A hash that does not depend on addresses, nor on which device tensors are."""
    digest = hashlib.blake2b(digest_size=16)
    _feed(value, digest, 0)
    return digest.hexdigest()


def _feed(value: Any, digest: hashlib.blake2b, depth: int) -> None:
    digest.update(type(value).__name__.encode() + b":")
    if depth > _DEPTH:
        return
    if isinstance(value, Tensor):
        digest.update(f"{value.dtype}{tuple(value.shape)}".encode())
        _feed_tensor(value, digest)
    elif isinstance(value, (bool, int, float, complex, str, bytes, type(None))):
        digest.update(repr(value).encode())
    elif isinstance(value, Mapping):
        for key in value:
            _feed(key, digest, depth + 1)
            _feed(value[key], digest, depth + 1)
    elif isinstance(value, (list, tuple)):
        digest.update(f"{len(value)}".encode())
        for item in value:
            _feed(item, digest, depth + 1)
    elif isinstance(value, (set, frozenset)):
        digest.update(repr(sorted(map(repr, value))).encode())
    elif hasattr(value, "__array_interface__") and hasattr(value, "tobytes"):
        digest.update(f"{value.dtype}{value.shape}".encode())
        _feed(value.tolist() if value.dtype.hasobject else value.tobytes(), digest, depth + 1)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for each in dataclasses.fields(value):
            _feed(getattr(value, each.name, None), digest, depth + 1)
    elif hasattr(value, "__dict__") and not isinstance(value, type) and not callable(value):
        _feed(vars(value), digest, depth + 1)


def _feed_tensor(value: Tensor, digest: hashlib.blake2b) -> None:
    try:
        feed_bytes(plain(value), digest)
    except (RuntimeError, NotImplementedError, TypeError, ValueError) as error:
        digest.update(f"unreadable: {type(error).__name__}".encode())


def plain(value: Tensor) -> Tensor:
    """The numbers of a tensor of any kind on the CPU, dense and contiguous. Raises what torch raises."""
    value = value.detach()
    if hasattr(value, "to_local"):  # of a distributed tensor, the part that is here
        value = value.to_local()
    if value.is_quantized:
        value = value.int_repr()
    if value.layout is not torch.strided:
        value = value.to_dense()
    return value.resolve_conj().resolve_neg().cpu().contiguous()


def feed_bytes(value: Tensor, digest: hashlib.blake2b) -> None:
    """The bytes of a plain tensor, without numpy, which may be missing, and without a copy."""
    size = value.numel() * value.element_size()
    if size:
        digest.update((ctypes.c_char * size).from_address(value.data_ptr()))
