"""Which Python a text needs that this one cannot read: LibCST knows the grammars of newer ones."""

from __future__ import annotations

import sys
from itertools import accumulate

# By class of node; what is as old as the oldest Python that runs this tool is left out.
_SINCE = {
    "TypeAlias": (3, 12),
    "TypeParameters": (3, 12),
    "TypeParam": (3, 12),
    "TemplatedString": (3, 14),
}

_MOST_NESTED = 200  # brackets, as for every Python; of many more LibCST's parser takes the process down


def needed(text: str, problem: str) -> tuple[int, int] | None:
    """The oldest Python that can read a text of which this one said `problem`; None where none is known to."""
    if max(accumulate((each in "([{") - (each in ")]}") for each in text), default=0) > _MOST_NESTED:
        return None
    import libcst as cst

    try:
        tree = cst.parse_module(text)
    except Exception:  # a syntax error, or nesting that is too deep for it
        return None
    # Quotes, backslashes and line breaks within the braces of f-strings are no mark of a node of their own.
    found = {(3, 12)} if problem.startswith(("f-string", "unterminated string")) else set()
    pending: list[cst.CSTNode] = [tree]
    while pending:
        node = pending.pop()
        pending += node.children
        found |= {_SINCE[name]} if (name := type(node).__name__) in _SINCE else set()
        if name == "TypeParam" and getattr(node, "default", None) is not None:
            found.add((3, 13))
    version = max(found, default=(0, 0))
    return version if version > sys.version_info[:2] else None
