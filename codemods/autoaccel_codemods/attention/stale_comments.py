"""Comments that speak of the lines of an attention that is written out, and are false of the one call instead."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING

from autoaccel.analysis.statement_comments import comment_behind, lone_comment_above
from autoaccel.edits import Comment, EditComment

if TYPE_CHECKING:
    from autoaccel.analysis import Script
    from autoaccel_codemods.attention.written_out import Attention

_MANUAL = re.compile(r"\b(manual(ly)?|naive(ly)?|hand-?written|written out)\b.*\battention\b", re.IGNORECASE)
_PRODUCT = re.compile(r"#\s*\([^()]*\)\s*[x@*×]\s*\([^()]*\)\s*(->|=>|=|→)\s*(?=\()")
"""The shapes of weights and values before that of their product."""
_STEP = re.compile(r"\b(softmax|normali[sz]e|scale|scores?|weights|drop ?out)\b|\([\w, *]+\)$", re.IGNORECASE)
_OF_MORE = re.compile(r"mask|http|\b(todo|fixme|note|hack|see)\b|noqa|type:", re.IGNORECASE)
_SHORT = 6


def stale_comments(script: Script, attention: Attention) -> Iterator[EditComment]:
    """Those behind lines that go, short ones between these, and those that say it is done by hand."""
    for gone in {each.lineno: each for each in _gone(script, attention)}.values():
        yield EditComment(gone, "")
    for comment in (lone_comment_above(script, attention.statement), comment_behind(script, attention.statement)):
        if comment is not None and (shapes := _PRODUCT.match(comment.text)) is not None:
            yield EditComment(comment, f"# {comment.text[shapes.end() :]}")


def _gone(script: Script, attention: Attention) -> Iterator[Comment]:
    statements = sorted([*attention.before, attention.statement], key=lambda each: each.lineno)
    first = lone_comment_above(script, statements[0])
    if first is not None and _MANUAL.search(first.text):
        yield first
    for before, statement in pairwise(statements):
        above = lone_comment_above(script, statement)
        if above is not None and above.lineno == (before.end_lineno or 0) + 1 and statement in attention.before:
            if len(above.text.split()) <= _SHORT and _STEP.search(above.text) and not _OF_MORE.search(above.text):
                yield above
    for statement in attention.before:
        behind = comment_behind(script, statement.body[-1] if isinstance(statement, ast.If) else statement)
        if behind is not None and "http" not in behind.text:
            yield behind
