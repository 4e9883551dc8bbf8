"""Mentions of the old functions of mixed precision, and of the new ones."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from autoaccel.analysis import Script
from autoaccel.dataflow.query import once_all

CUSTOM = ("custom_fwd", "custom_bwd")
MOVED = ("autocast", "GradScaler", *CUSTOM)


@dataclass(frozen=True, slots=True)
class Use:
    """A mention of an old function: `name` on `device`, by way of the imported name `root`."""

    node: ast.Name | ast.Attribute
    root: ast.Name
    device: str
    name: str


@once_all
def old_uses(script: Script) -> Iterator[Use]:
    """Where a script mentions them."""
    nodes: list[ast.Name | ast.Attribute] = [*script.find(ast.Attribute), *script.find(ast.Name)]
    for node in nodes:
        parts = (script.qualname(node) or "").split(".")
        if len(parts) == 4 and parts[0] == "torch" and parts[1] in ("cuda", "cpu") and parts[2] == "amp":
            root: ast.expr = node
            while isinstance(root, ast.Attribute):
                root = root.value
            if parts[3] in MOVED and isinstance(root, ast.Name):
                yield Use(node, root, parts[1], parts[3])


def by_import(script: Script, use: Use) -> bool:
    """Whether the name that is used is bound to the old function or module itself, so that its import must change."""
    return any((each.target or "").startswith(f"torch.{use.device}.amp") for each in script.definitions(use.root))


def new_mentions(script: Script, name: str) -> Iterator[ast.Name | ast.Attribute]:
    """Mentions of the new function, or of its module on its own."""
    nodes: list[ast.Name | ast.Attribute] = [*script.find(ast.Attribute), *script.find(ast.Name)]
    for node in nodes:
        qualified = script.qualname(node)
        alone = qualified == "torch.amp" and not isinstance(script.parent(node), ast.Attribute)
        if (alone or qualified == f"torch.amp.{name}") and isinstance(node.ctx, ast.Load):
            yield node


def has_new(script: Script, name: str) -> bool:
    statements = (
        alias.name for each in script.find(ast.ImportFrom) if each.module == "torch.amp" for alias in each.names
    )
    return name in statements or any(True for _ in new_mentions(script, name))


def is_tested(script: Script, node: ast.expr) -> bool:
    """In an isinstance test: the old scaler is a subclass of the new one."""
    return any(
        isinstance(each, ast.Call) and isinstance(each.func, ast.Name) and each.func.id == "isinstance"
        for each in script.ancestors(node)
    )
