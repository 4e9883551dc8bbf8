"""How many axes a tensor has and what is known of their sizes, by the last methods that laid it out."""

from __future__ import annotations

import ast
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING

from autoaccel.dataflow.abstract_values import Kind
from autoaccel.library_models.tensor_views import VIEW_METHODS
from autoaccel.pytorch.tensor_creation import number

if TYPE_CHECKING:
    from autoaccel.analysis import Script

_SWAPPING = frozenset(each for each in VIEW_METHODS if each.startswith(("transpose", "swap")))


def sizes(script: Script, expression: ast.expr) -> list[ast.expr] | None:
    """The sizes of the axes as `view` or `reshape` gave them, where nothing but orders of axes came after it.

    Of what a linear layer makes they are those of its input, `B, T, C = x.shape`, but the last, which is not known.
    """
    match expression:
        case ast.Name() if (value := bound(script, expression) or _element(script, expression)) is not None:
            return sizes(script, value)
        case ast.Name() if (whole := _whole(script, expression)) is not None:
            before = sizes(script, whole)
            return before and before[1:]
        case ast.Call(func=ast.Attribute(attr="view" | "reshape"), args=[ast.Tuple(elts=given)], keywords=[]):
            pass
        case ast.Call(func=ast.Attribute(attr="view" | "reshape"), args=[_, _, *_] as given, keywords=[]):
            pass
        case ast.Call(func=ast.Attribute(value=inner, attr="contiguous"), args=[], keywords=[]):
            return sizes(script, inner)
        case ast.Call(func=layer, args=[ast.Name() as given], keywords=[]) if is_linear(script, layer):
            taken_apart = _unpacked(script, given)
            return taken_apart and [*taken_apart[:-1], layer]
        case ast.Call(func=ast.Attribute(value=inner, attr=method), args=arguments, keywords=[]):
            before = sizes(script, inner)
            order = [number(each) for each in arguments]
            if before is None or any(each is None or not -len(before) <= each < len(before) for each in order):
                return None
            axes = [int(each) % len(before) for each in order if each is not None]
            if method in _SWAPPING and len(axes) == 2:
                after = list(before)
                after[axes[0]], after[axes[1]] = before[axes[1]], before[axes[0]]
                return after
            return [before[each] for each in axes] if method == "permute" and len(axes) == len(before) else None
        case _:
            return None
    return None if any(isinstance(each, ast.Starred) for each in given) else list(given)


def last_two_swapped(script: Script, expression: ast.expr, rank: int | None) -> ast.expr | None:
    """The tensor whose last two axes an expression swaps: `k.transpose(-2, -1)`, `k.mT`; None for others."""
    match expression:
        case ast.Attribute(value=inner, attr="mT"):
            return inner
        case ast.Call(func=ast.Attribute(value=inner, attr=method), args=[_, _] as axes, keywords=[]) if (
            method in _SWAPPING
        ):
            known = sizes(script, inner)
            rank = rank or (None if known is None else len(known))
            swapped = {number(each) for each in axes}
            return inner if swapped == {-2, -1} or (rank and swapped == {rank - 2, rank - 1}) else None
        case ast.Call(func=ast.Attribute(value=inner, attr="permute"), args=[_, _, *_] as axes, keywords=[]):
            kept = list(range(len(axes) - 2))
            return inner if [number(each) for each in axes] == [*kept, len(axes) - 1, len(axes) - 2] else None
        case _:
            return None


def is_matrix(script: Script, query: ast.expr, key: ast.expr, result: ast.expr) -> bool:
    """Whether the query surely has two axes or more.

    The key has, as its last two are swapped: so has what is made of the same tensor in the same way. So has what makes
    a result that is laid out by more than one axis.
    """
    if sizes(script, query) is not None or _are_alike(script, query, key):
        return True
    uses: list[ast.expr] = [result]
    parent = script.parent(result)
    if isinstance(parent, ast.Assign) and len(parent.targets) == 1 and isinstance(parent.targets[0], ast.Name):
        uses = [use for each in script.definitions(parent.targets[0]) for use in script.uses(each)]
    return any(_has_axes(script, each) for each in uses)


def _are_alike(script: Script, query: ast.expr, key: ast.expr) -> bool:
    """Whether query and key are parts of one tensor, or two linear layers make them of the same one."""
    if not isinstance(query, ast.Name) or not isinstance(key, ast.Name):
        return False
    first, second = script.definitions(query), script.definitions(key)
    if len(first) != 1 or len(second) != 1:
        return False
    if first[0].node is second[0].node and first[0].path and second[0].path:
        return True
    match first[0].value, second[0].value:
        case ast.Call(args=[one], keywords=[]) as made, ast.Call(args=[other], keywords=[]) as also:
            return is_linear(script, made.func) and is_linear(script, also.func) and are_same(script, one, other)
        case _:
            return False


def is_linear(script: Script, layer: ast.expr) -> bool:
    """Whether a layer surely is linear: it changes the size of the last axis alone."""
    return made_as(script, layer, {"torch.nn.Linear"})


def made_as(script: Script, module: ast.expr, names: AbstractSet[str]) -> bool:
    """Whether a module surely is one of a library's classes."""
    values = script.values(module)
    return bool(values) and all(each.kind is Kind.MODULE and each.name in names for each in values)


def _unpacked(script: Script, tensor: ast.Name) -> list[ast.expr] | None:
    """The names in `B, T, C = x.shape`, of this very tensor."""
    for statement in script.in_scope(script.function(tensor) or script.tree, ast.Assign):
        match statement:
            case ast.Assign(
                targets=[ast.Tuple(elts=names)],
                value=ast.Attribute(value=of, attr="shape")
                | ast.Call(func=ast.Attribute(value=of, attr="size"), args=[], keywords=[]),
            ) if are_same(script, of, tensor) and not any(isinstance(each, ast.Starred) for each in names):
                return names
    return None


def _has_axes(script: Script, use: ast.expr) -> bool:
    method = script.parent(use)
    call = script.parent(method) if isinstance(method, ast.Attribute) else method
    match call:
        case ast.Call(func=ast.Attribute(attr="transpose"), args=[_, _] as axes) if call.func is method:
            return any((number(each) or 0) > 1 for each in axes) or {number(each) for each in axes} == {0, 1}
        case ast.Call(func=ast.Attribute(attr="permute"), args=[_, _, *_]) if call.func is method:
            return True
        case ast.Call(args=[first, ast.Constant(value=str())]) if first is use:
            return script.qualname(call.func) == "einops.rearrange" and len(_pattern(call)) > 1
        case _:
            return False


def _pattern(call: ast.Call) -> list[str]:
    pattern = call.args[1]
    assert isinstance(pattern, ast.Constant)
    return str(pattern.value).partition("->")[0].split()


def bound(script: Script, name: ast.Name) -> ast.expr | None:
    """The one expression that a name is bound to."""
    definitions = script.definitions(name)
    if len(definitions) != 1 or definitions[0].how != "assign" or definitions[0].path:
        return None
    return definitions[0].value


def _element(script: Script, name: ast.Name) -> ast.expr | None:
    """What each element is in `q, k, v = (part.view(…) for part in parts)`, of which a name is one."""
    match script.definitions(name):
        case (definition,) if definition.how == "assign" and len(definition.path) == 1:
            match definition.value:
                case ast.GeneratorExp(elt=element) | ast.ListComp(elt=element):
                    return element
    return None


def _whole(script: Script, name: ast.Name) -> ast.expr | None:
    """The tensor that is unpacked in `q, k, v = qkv`: each name gets a part of its first axis."""
    match script.definitions(name):
        case (definition,) if definition.how == "assign" and len(definition.path) == 1:
            return None if isinstance(definition.value, ast.Tuple | ast.List) else definition.value
    return None


def are_same(script: Script, one: ast.expr, other: ast.expr) -> bool:
    """Whether two names are spelled alike and bound to the same."""
    if not isinstance(one, ast.Name) or not isinstance(other, ast.Name):
        return False
    return one.id == other.id and script.definitions(one) == script.definitions(other)
