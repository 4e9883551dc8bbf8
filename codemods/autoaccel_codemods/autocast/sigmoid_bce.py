"""Sigmoids that make the probabilities of a binary cross-entropy: low precision has no room near one.

Between the largest bfloat16 below one and one lies 2^-8 (float16: 2^-11), so from a logit of 6.3 (8.4) on the sigmoid
is exactly one. Where the target is less, the loss is then clamped to 100 and its gradient is 0 in bfloat16 and NaN in
float16, whatever the scale. Of a float32 argument the sigmoid is float32, autocast leaves it alone.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from autoaccel.analysis.script import Script
from autoaccel.dataflow.syntax_index import breadth_first, walk_scope

_SIGMOIDS = frozenset({"torch.sigmoid", "torch.nn.functional.sigmoid", "torch.special.expit"})


def sigmoid_arguments(code: Iterable[tuple[Script, ast.AST]], file: Script) -> Iterator[ast.expr]:
    """The arguments of the sigmoids in code of one file whose results are handed on; gates of products are not."""
    seen: set[ast.AST] = set()
    for script, node in code:
        if script is not file:
            continue
        for part in breadth_first(node) if isinstance(node, ast.FunctionDef) else walk_scope(node):
            if not isinstance(part, ast.Call) or part in seen:
                continue
            seen.add(part)
            argument = _argument(script, part)
            if argument is None or _is_float(argument):
                continue
            if not isinstance(node, ast.FunctionDef) or _handed_on(script, part, set()):
                yield argument


def out_of_reach(code: Iterable[tuple[Script, ast.AST]], file: Script) -> bool:
    """Whether some sigmoid can not be given a float32 argument: the last layer of a container, or in another file."""
    files = dict.fromkeys((file, *(script for script, _ in code)))
    if any(_ends_container(script, call) for script in files for call in script.calls("torch.nn.Sigmoid")):
        return True
    elsewhere = [(script, node) for script, node in code if script is not file]
    return any(True for script, node in elsewhere for _ in sigmoid_arguments([(script, node)], script))


def _ends_container(script: Script, made: ast.Call) -> bool:
    """`nn.Sequential(…, nn.Sigmoid())`, `[…, nn.Sigmoid()]`, `layers.append(nn.Sigmoid())`, `("out", nn.Sigmoid())`."""
    match script.parent(made):
        case ast.Call(args=[*_, last]) | ast.List(elts=[*_, last]) | ast.Tuple(elts=[*_, last]):
            return last is made
        case _:
            return False


def _argument(script: Script, call: ast.Call) -> ast.expr | None:
    qualified = script.qualname(call.func)
    if qualified is not None:
        return call.args[0] if qualified in _SIGMOIDS and call.args else None
    if isinstance(call.func, ast.Attribute) and call.func.attr == "sigmoid" and not call.args:
        return call.func.value
    if len(call.args) == 1 and any(value.name == "torch.nn.Sigmoid" for value in script.values(call.func)):
        return call.args[0]
    return None


def _is_float(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "float"


def _handed_on(script: Script, node: ast.expr, seen: set[ast.AST]) -> bool:
    """Whether a function returns this value: as it is, in another shape, clamped, with others."""
    if node in seen:
        return False
    seen.add(node)
    match script.parent(node):
        case ast.Return():
            return True
        case ast.Assign(targets=[ast.Name() as name]):
            reads = (each for each in script.find(ast.Name) if each.id == name.id and isinstance(each.ctx, ast.Load))
            reached = (each for each in reads if any(known.value is node for known in script.definitions(each)))
            return any(_handed_on(script, each, seen) for each in reached)
        case ast.BinOp(left=left, right=right) as outer:
            alone = isinstance(left, ast.Constant) or isinstance(right, ast.Constant)
            return alone and _handed_on(script, outer, seen)
        case ast.Call(func=function, args=[first, *_]) as outer if first is node:
            return (script.qualname(function) or "").startswith("torch.") and _handed_on(script, outer, seen)
        case ast.Attribute() as method:
            call = script.parent(method)
            return isinstance(call, ast.Call) and call.func is method and _handed_on(script, call, seen)
        case ast.Tuple() | ast.List() | ast.Dict() | ast.Subscript() as outer:
            return _handed_on(script, outer, seen)
        case _:
            return False
