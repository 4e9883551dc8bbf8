"""Sets of numbered files as integers: bit `n` stands for file `n`.

Thousands of sets of thousands of files are kept, and a set of this kind takes an eighth of a byte for each.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator


def set_of(numbers: Collection[int]) -> int:
    """A set of files from their numbers."""
    found = bytearray(max(numbers, default=0) // 8 + 1)
    for each in numbers:
        found[each >> 3] |= 1 << (each & 7)
    return int.from_bytes(found, "little")


def members(files: int) -> Iterator[int]:
    """The numbers in a set of files, in their order."""
    bits = bin(files)[:1:-1]
    at = bits.find("1")
    while at >= 0:
        yield at
        at = bits.find("1", at + 1)
