"""Hashes of values: equal ones are equal in structure, type and bits; and sketches, to compare large tensors by.

A sketch is few numbers by which two tensors can be compared later, without keeping them. Each is the projection on a
direction whose elements are all one or minus one, chosen by nothing but their position: no generator of random numbers
is touched. Every eight elements have orthogonal signs, so that the estimate is exact for short tensors. A long one is
cut into rows that share their signs, each row turned by a sign of its own.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

_DEEP = 20
_OBJECTS = 10_000  # that are looked into; an object may lead to everything there is


def digest_of(value: Any) -> str:
    """A hash that does not depend on addresses, nor on which device tensors are.

    What cannot be read counts as its type: no script shall fail because it is looked at.
    """
    reading = _Reading()
    try:
        reading.feed(value, 0)
    except Exception as error:
        reading.digest.update(f"unreadable: {type(error).__name__}".encode())
    return reading.digest.hexdigest()


class _Reading:
    """Feeds one value to a hash, its structure included."""

    def __init__(self) -> None:
        self.digest = hashlib.blake2b(digest_size=16)
        self._inside: set[int] = set()
        self._objects = 0

    def feed(self, value: Any, depth: int) -> None:
        self._say(type(value).__name__, ":")
        if depth > _DEEP:
            return
        if isinstance(value, Tensor):
            self._say(value.dtype, value.layout, tuple(value.shape))
            self._feed_tensor(value)
        elif isinstance(value, (bool, int, float, complex, str, bytes, type(None))):
            self._say(repr(value))
        elif isinstance(value, Mapping):
            for key in value:
                self.feed(key, depth + 1)
                self.feed(value[key], depth + 1)
        elif isinstance(value, (list, tuple)):
            self._say(len(value))
            for item in value:
                self.feed(item, depth + 1)
        elif isinstance(value, (set, frozenset)):
            self._say(sorted(map(repr, value)))
        elif hasattr(value, "__array_interface__") and hasattr(value, "tobytes"):
            self._say(value.dtype, value.shape)
            self.feed(value.tolist() if value.dtype.hasobject else value.tobytes(), depth + 1)
        elif not callable(value):
            self._feed_object(value, depth)

    def _feed_object(self, value: Any, depth: int) -> None:
        slots = [name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ())]
        attributes = {**getattr(value, "__dict__", {}), **{name: getattr(value, name, None) for name in slots}}
        self._objects += 1
        if id(value) not in self._inside and self._objects < _OBJECTS:
            self._inside.add(id(value))
            self.feed(attributes, depth + 1)
            self._inside.discard(id(value))

    def _feed_tensor(self, value: Tensor) -> None:
        try:
            feed_bytes(plain(value), self.digest)
        except (RuntimeError, NotImplementedError, TypeError, ValueError) as error:
            self._say("unreadable", type(error).__name__)

    def _say(self, *parts: object) -> None:
        self.digest.update(" ".join(map(str, parts)).encode("utf-8", "surrogatepass"))


class Samples:
    """A hash of what is in batches that does not depend on how much is in each: tensors along their first dimension,
    and lists of texts and numbers."""

    def __init__(self) -> None:
        self._columns: dict[str, tuple[str, hashlib.blake2b]] = {}
        self._known = True

    def add(self, batch: Any) -> None:
        if self._known:
            try:
                self._feed(batch, "")
            except (RuntimeError, NotImplementedError, TypeError, ValueError):
                self._known = False

    def digest(self) -> str:
        """Empty where batches hold something else."""
        if not self._known or not self._columns:
            return ""
        said = "".join(f"{key} {kind} {column.hexdigest()};" for key, (kind, column) in sorted(self._columns.items()))
        return hashlib.blake2b(said.encode(), digest_size=16).hexdigest()

    def _feed(self, value: Any, key: str) -> None:
        if isinstance(value, Tensor) and value.dim():
            feed_bytes(plain(value), self._column(key, f"{value.dtype} {tuple(value.shape[1:])}"))
        elif isinstance(value, Mapping):
            for name in value:
                self._feed(value[name], f"{key}.{name}")
        elif isinstance(value, (list, tuple)) and value and all(isinstance(each, (str, int, float)) for each in value):
            self._column(key, "list").update("".join(f"{each!r};" for each in value).encode("utf-8", "surrogatepass"))
        elif isinstance(value, (list, tuple)):
            for number, each in enumerate(value):
                self._feed(each, f"{key}[{number}]")
        else:
            raise TypeError(type(value).__name__)

    def _column(self, key: str, kind: str) -> hashlib.blake2b:
        known, column = self._columns.setdefault(key, (kind, hashlib.blake2b(digest_size=16)))
        if known != kind:
            raise ValueError(kind)
        return column


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


# -- sketches


COUNT = 8
_ROW = 2**14
_ROWS = 64  # that are multiplied at once: threads that meet after each row take longer than the products


def sketch(values: Tensor) -> tuple[float, tuple[float, ...]]:
    """The Euclidean norm of a plain tensor, and its projections; complex numbers are two each."""
    flat = torch.view_as_real(values).reshape(-1) if values.is_complex() else values.reshape(-1)
    square = torch.zeros((), dtype=torch.float64)
    projected = torch.zeros(COUNT, dtype=torch.float64)
    for first, part in enumerate(torch.split(flat, _ROWS * _ROW)):
        numbers = part.to(torch.float64)
        square += numbers.dot(numbers)
        whole = numbers.numel() // _ROW
        rows = numbers[: whole * _ROW].view(whole, _ROW) @ _signs().T
        rest = numbers[whole * _ROW :]
        for number, row in enumerate([*rows, *([_signs()[:, : rest.numel()] @ rest] if len(rest) else [])]):
            projected += row * _pattern(first * _ROWS + number, COUNT)
    return float(square.sqrt()), tuple(projected.tolist())


@functools.cache
def _signs() -> Tensor:
    pair = torch.tensor([[1.0, 1.0], [1.0, -1.0]], dtype=torch.float64)
    hadamard = torch.kron(torch.kron(pair, pair), pair).repeat(1, _ROW // COUNT)
    return hadamard * _pattern(-1, COUNT, _ROW // COUNT).repeat_interleave(COUNT, 1) * _pattern(-2, _ROW)


def _pattern(number: int, *shape: int) -> Tensor:
    """Ones and minus ones that look random and always are the same."""
    # not `torch.Generator`, whose seeds may be moved; and no stream of the script
    generator = torch._C.Generator().manual_seed(number)  # noqa: SLF001
    return torch.randint(2, shape, generator=generator, device="cpu", dtype=torch.float64) * 2 - 1
