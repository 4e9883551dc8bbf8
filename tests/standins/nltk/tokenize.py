"""Tokens."""

from __future__ import annotations

import re


def word_tokenize(text: str) -> list[str]:
    return re.findall(r"\w+|[^\w\s]", text)
