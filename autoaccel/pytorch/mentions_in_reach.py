"""Whether a program uses something of a library, in the files that share a script's objects or in what these call."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import TYPE_CHECKING

from autoaccel.dataflow.query import once
from autoaccel.pytorch.reachable_code import reachable_code

if TYPE_CHECKING:
    from autoaccel.analysis.script import Script

_ASKING = frozenset({"isinstance", "issubclass"})


def mention_in_reach(
    scripts: Iterable[Script], names: re.Pattern[str], text: re.Pattern[str]
) -> tuple[Script, ast.expr] | None:
    """The first place where code of these files, or what it calls in others, mentions one of the qualified `names`."""
    return next(mentions_in_reach(scripts, names, text), None)


def mentions_in_reach(
    scripts: Iterable[Script], names: re.Pattern[str], text: re.Pattern[str]
) -> Iterator[tuple[Script, ast.expr]]:
    """All of these places.

    Args:
        scripts: The files to begin with.
        names: What to look for.
        text: What a file that mentions any of it says somewhere: a file without is not looked at.
    """
    whole = dict.fromkeys(scripts)
    for script in whole:
        yield from ((script, mention) for mention in _mentions(script, script.tree, names, text))
    known = {script.text for script in whole}
    texts = dict.fromkeys(each for script in whole for each in script.project.related_texts(script))
    if not any(text.search(each) for each in texts if each not in known):
        return
    seen: set[ast.AST] = set()
    for script in whole:
        functions = (*script.find(ast.FunctionDef), *script.find(ast.AsyncFunctionDef))
        for other, node in reachable_code(script, (script.tree, *functions)):
            if other not in whole and node not in seen:
                seen.add(node)
                yield from ((other, mention) for mention in _mentions(other, node, names, text))


def _mentions(script: Script, node: ast.AST, names: re.Pattern[str], text: re.Pattern[str]) -> Iterator[ast.expr]:
    """The mentions that are not in a question or a type."""
    if not _says(script, text):
        return
    mentions: list[tuple[ast.Name | ast.Attribute, str]] = [*script.qualified_attributes, *script.qualified_names]
    for part, name in mentions:
        if _matches(names, name) and isinstance(part.ctx, ast.Load) and script.inside(part, node):
            if not _asks(script, part):
                yield part


@once
def _says(script: Script, text: re.Pattern[str]) -> bool:
    return text.search(script.text) is not None


@lru_cache(maxsize=10_000)
def _matches(names: re.Pattern[str], qualified: str) -> bool:
    return names.search(qualified) is not None


def _asks(script: Script, node: ast.AST) -> bool:
    inner = node
    for outer in script.ancestors(node):
        match outer:
            case ast.Call(func=ast.Name(id=name)) if name in _ASKING:
                return True
            case ast.Compare():
                return True
            case ast.AnnAssign(annotation=annotation) | ast.arg(annotation=annotation) if inner is annotation:
                return True
            case ast.FunctionDef(returns=annotation) if inner is annotation:
                return True
            case ast.Tuple() | ast.Attribute() | ast.Subscript() | ast.BinOp(op=ast.BitOr()):
                inner = outer
            case _:
                return False
    return False
