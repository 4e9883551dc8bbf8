"""The children of syntax nodes, in the order of the source."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

_WITHOUT_NODES = frozenset(
    """ctx op ops id attr arg asname level module simple conversion is_async rest kind str type_comment type_ignores
    kwd_attrs""".split()
)
_LEAVES = (ast.Name, ast.Constant, ast.MatchSingleton, ast.Global, ast.Nonlocal)
_GAPPED = (ast.Dict, ast.arguments)  # have None in their lists, for `{**other}` and for keywords without default


def _children_by_field(node: ast.AST) -> list[ast.AST]:
    kind = type(node)
    found: list[ast.AST] = []
    for field in kind._fields:
        value = getattr(node, field, None) if field not in _WITHOUT_NODES else None
        if type(value) is list:
            found += value
        elif isinstance(value, ast.AST):
            found.append(value)
    return [each for each in found if each is not None] if kind in _GAPPED else found


def _no_children(_: ast.AST) -> list[ast.AST]:
    return []


class _Children(dict[type[ast.AST], Callable[[Any], list[ast.AST]]]):
    """How to get the child nodes of each type that are worth a visit: no contexts and operators.

    The types that most nodes are of have functions of their own.
    """

    def __missing__(self, kind: type[ast.AST]) -> Callable[[Any], list[ast.AST]]:
        self[kind] = _no_children if kind in _LEAVES else _children_by_field
        return self[kind]


BY_TYPE = _Children(
    {
        ast.Assign: lambda node: [*node.targets, node.value],
        ast.Attribute: lambda node: [node.value],
        ast.BinOp: lambda node: [node.left, node.right],
        ast.Call: lambda node: [node.func, *node.args, *node.keywords],
        ast.Compare: lambda node: [node.left, *node.comparators],
        ast.Expr: lambda node: [node.value],
        ast.If: lambda node: [node.test, *node.body, *node.orelse],
        ast.List: lambda node: node.elts[:],
        ast.Subscript: lambda node: [node.value, node.slice],
        ast.Tuple: lambda node: node.elts[:],
        ast.keyword: lambda node: [node.value],
    }
)


def children(node: ast.AST) -> list[ast.AST]:
    """The child nodes in the order of the fields, as `ast.iter_child_nodes`, but without contexts and operators."""
    return BY_TYPE[type(node)](node)
