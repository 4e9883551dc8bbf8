"""Few numbers by which two large tensors can be compared later, without keeping them.

Each is the projection on a direction whose elements are all one or minus one, chosen by nothing but their position: no
generator of random numbers is touched. Every eight elements have orthogonal signs, so that the estimate is exact for
short tensors. A long one is cut into rows that share their signs, each row turned by a sign of its own.
"""

from __future__ import annotations

import functools
import hashlib

import torch
from torch import Tensor

COUNT = 8
_ROW = 2**14


def sketch(values: Tensor) -> tuple[float, tuple[float, ...]]:
    """The Euclidean norm of a plain tensor, and its projections; complex numbers are two each."""
    flat = torch.view_as_real(values).reshape(-1) if values.is_complex() else values.reshape(-1)
    square = torch.zeros((), dtype=torch.float64)
    projected = torch.zeros(COUNT, dtype=torch.float64)
    for at in range(0, flat.numel(), _ROW * 64):
        part = flat[at : at + _ROW * 64].to(torch.float64)
        square += part.dot(part)
        whole = part.numel() // _ROW
        first = at // _ROW
        if whole:
            rows = part[: whole * _ROW].reshape(whole, _ROW) @ _signs().T
            projected += (rows * _turns(first, whole)).sum(0)
        rest = part[whole * _ROW :]
        if rest.numel():
            projected += (_signs()[:, : rest.numel()] @ rest) * _turns(first + whole, 1)[0]
    return float(square.sqrt()), tuple(projected.tolist())


@functools.cache
def _signs() -> Tensor:
    pair = torch.tensor([[1.0, 1.0], [1.0, -1.0]], dtype=torch.float64)
    hadamard = torch.kron(torch.kron(pair, pair), pair).repeat(1, _ROW // COUNT)
    groups = _pattern(b"groups", COUNT * _ROW // COUNT).reshape(COUNT, -1).repeat_interleave(COUNT, 1)
    return hadamard * groups * _pattern(b"columns", _ROW)


def _turns(first: int, count: int) -> Tensor:
    return torch.cat([_pattern(b"row %d" % (first + row), COUNT)[None] for row in range(count)])


def _pattern(name: bytes, count: int) -> Tensor:
    """Ones and minus ones that look random and always are the same."""
    found = bytearray(hashlib.shake_128(name).digest((count + 7) // 8))
    bits = torch.frombuffer(found, dtype=torch.uint8)[:, None] >> torch.arange(8, dtype=torch.uint8) & 1
    return bits.reshape(-1)[:count].to(torch.float64) * 2 - 1
