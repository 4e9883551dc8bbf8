"""Whether code stands in for another version of torch: it is one arm of a switch, however that is spelled."""

from __future__ import annotations

import ast
import re

from autoaccel.analysis import Script
from autoaccel.dataflow.syntax_index import breadth_first
from autoaccel_codemods.deprecated_amp.amp_uses import Use, has_new, new_mentions

_VERSION = re.compile(r"version|hasattr|getattr|find_spec|inspect|torch_?\d", re.IGNORECASE)


def for_other_versions(script: Script, use: Use) -> bool:
    """Whether a use is one arm of a switch between versions of torch."""
    if _asks_for_version(script, use.node):
        return True
    mentions = (use.node, *new_mentions(script, use.name))
    return has_new(script, use.name) and any(_is_chosen(script, each) for each in mentions)


def _asks_for_version(script: Script, node: ast.AST) -> bool:
    """In a branch that is there for the case that the new functions do not exist, or after one that leaves."""
    child = node
    for ancestor in script.ancestors(node):
        if isinstance(ancestor, ast.ExceptHandler):
            return True
        if isinstance(ancestor, ast.If | ast.IfExp | ast.While) and child is not ancestor.test:
            if _is_of_version(script, ancestor.test):
                return True
        if isinstance(ancestor, ast.BoolOp | ast.Match) and _is_of_version(script, ancestor):
            return True
        if isinstance(ancestor, ast.Try) and any(_catches_absence(each) for each in ancestor.handlers):
            return True
        if isinstance(child, ast.stmt) and not isinstance(child, ast.FunctionDef | ast.ClassDef):
            block = script.block(child)
            before = block[: block.index(child)]
            if any(isinstance(each, ast.If) and _is_of_version(script, each.test) and _leaves(each) for each in before):
                return True
        child = ancestor
    return False


def _is_of_version(script: Script, test: ast.AST) -> bool:
    """Whether a condition is about what torch has: a version, `hasattr`, or a name that stands for one."""
    for part in breadth_first(test):
        match part:
            case ast.Name(id=name) | ast.Attribute(attr=name) if _VERSION.search(name):
                return True
            case ast.Constant(value=str() as text) if _VERSION.search(text):
                return True
            case ast.Name() if any(
                each.how == "assign" and each.value is not None and _VERSION.search(script.source(each.value))
                for each in script.definitions(part)
            ):
                return True
    return False


def _catches_absence(handler: ast.ExceptHandler) -> bool:
    caught = ast.unparse(handler.type) if handler.type is not None else ""
    return any(name in caught for name in ("ImportError", "ModuleNotFoundError", "AttributeError"))


def _leaves(choice: ast.If) -> bool:
    return isinstance(choice.body[-1], ast.Return | ast.Raise | ast.Continue | ast.Break)


def _is_chosen(script: Script, node: ast.AST) -> bool:
    """Whether an expression is one of several, of which a condition, an index or an exception chooses."""
    return any(
        isinstance(each, ast.If | ast.IfExp | ast.BoolOp | ast.Match | ast.Try | ast.Dict | ast.Subscript | ast.Lambda)
        for each in script.ancestors(node)
    )
