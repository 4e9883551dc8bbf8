"""Datasets of generated sentence pairs."""

from __future__ import annotations

from typing import Any

from ..corpus import pairs  # noqa: TID252 - the absolute name exists on a script's search path alone
from . import multi30k

__all__ = ["Multi30k", "multi30k"]


def Multi30k(root: Any = None, split: str = "train", language_pair: tuple[str, str] = ("de", "en")) -> Any:  # noqa: N802
    return pairs(split)
