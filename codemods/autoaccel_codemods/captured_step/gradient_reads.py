"""What reads gradients: every replay writes them into the same tensors, so that they may be looked at, but not kept."""

from __future__ import annotations

import ast
import builtins
from typing import Final

from autoaccel.analysis.script import Script
from autoaccel.dataflow.query import fixpoint
from autoaccel.dataflow.syntax_index import position
from autoaccel.library_models.graph_operations import (
    COPYING_METHODS,
    ENDING_ATTRIBUTES,
    ENDING_METHODS,
    SHOWING_METHODS,
)
from autoaccel.library_models.python_names import LOOKING
from autoaccel.library_models.tensor_operations import CASTS, METHODS
from autoaccel.library_models.tensor_views import VIEW_ATTRIBUTES, VIEW_METHODS
from autoaccel_codemods.captured_step.problems import DeclinedError

_SAME: Final = VIEW_METHODS | CASTS | frozenset("to type type_as half bfloat16 contiguous cuda coalesce values".split())
"""Methods, and functions of torch's, that may give a tensor over the memory of what they are asked for."""
_COMPUTING: Final = (METHODS | ENDING_METHODS | COPYING_METHODS) - _SAME
_ASKED: Final = (ENDING_ATTRIBUTES - {"data"}) | frozenset("requires_grad grad_fn is_leaf".split())
_CONTAINERS = ast.List | ast.Tuple | ast.Set | ast.ListComp | ast.SetComp | ast.GeneratorExp
_BUILTINS: Final = LOOKING | frozenset("float int bool sum any all".split())
_LOGGED: Final = frozenset(each for each in SHOWING_METHODS if each.startswith("add_"))
"""Methods of TensorBoard's writers, which take what they are given at once."""
_LOOKED_UP: Final = frozenset("append get setdefault items keys values format".split())
_LIBRARIES: Final = ("math.", "numpy.", "torch.linalg.", "torch.nn.utils.")


def refuse(script: Script) -> None:
    """Raises `DeclinedError` where a gradient may still be read after the next step, and `Incomplete`."""
    for file in script.project.with_word(script, "grad"):
        for read in file.syntax_index.mentions("grad"):
            if isinstance(read, ast.Attribute) and isinstance(read.ctx, ast.Load) and file.qualname(read) is None:
                if _is_kept(file, read):
                    where = "" if file is script or file.path is None else f" of {file.path.name}"
                    raise DeclinedError(f"line {read.lineno}{where} keeps `{file.source(read)}`, or hands it on")


@fixpoint(False, True)
def _is_kept(script: Script, read: ast.expr) -> bool:
    """Whether the tensor that an expression gives, or a view of it, may outlive the statement."""
    parent = script.parent(read)
    match parent:
        case ast.keyword():
            return _is_kept_by(script, script.parent(parent))
        case ast.Call():
            return _is_kept_by(script, parent)
        case ast.Attribute(attr=name):
            around = script.parent(parent)
            if isinstance(around, ast.Call) and around.func is parent:
                return _is_kept(script, around) if _gives_itself(name) else name not in _COMPUTING
            return name not in _ASKED and (name not in {"data", *VIEW_ATTRIBUTES} or _is_kept(script, parent))
        case ast.Subscript(value=whole):
            return whole is read and isinstance(parent.ctx, ast.Load) and _is_kept(script, parent)
        case ast.IfExp(test=test):
            return test is not read and _is_kept(script, parent)
        case ast.List() | ast.Tuple() | ast.ListComp() | ast.GeneratorExp() | ast.BoolOp():
            return _is_kept(script, parent)
        case ast.BinOp() | ast.UnaryOp() | ast.Compare():
            return isinstance(read, _CONTAINERS)
        case ast.AugAssign(op=operator):
            return isinstance(operator, ast.Add)  # of a list, its rows
        case ast.Assign(targets=[ast.Name() as bound], value=value) if value is read:
            return not _is_read_at_once(script, parent, bound)
        case ast.If() | ast.While() | ast.Assert() | ast.comprehension(ifs=[_, *_]):
            return isinstance(parent, ast.comprehension) and read not in parent.ifs
        case _:
            return not isinstance(parent, ast.Expr | ast.FormattedValue)


def _gives_itself(name: str) -> bool:
    return name in _SAME or (name.endswith("_") and not name.startswith("_"))


def _is_kept_by(script: Script, call: ast.AST | None) -> bool:
    """Whether a call keeps an argument, or gives it back to somebody who does."""
    if not isinstance(call, ast.Call):
        return True
    name = script.qualname(call.func) or ""
    if name.startswith("torch.") and name.removeprefix("torch.") in _SAME:
        return _is_kept(script, call)
    return not _only_computes(script, call)


def _may_step(script: Script, call: ast.Call) -> bool:
    match call.func:
        case ast.Name(id=name) if not script.definitions(call.func):
            known = getattr(builtins, name, None)
            return not (isinstance(known, type) and issubclass(known, BaseException)) and name not in _BUILTINS
        case ast.Attribute(attr=name) if name in _LOOKED_UP and not script.callees(call):
            return False
        case _:
            return not _only_computes(script, call)


def _only_computes(script: Script, call: ast.Call) -> bool:
    """Whether a call computes on tensors, and keeps none of them."""
    function = call.func
    name = script.qualname(function)
    if name is not None:
        return name.startswith(_LIBRARIES) or name.removeprefix("torch.") in _COMPUTING | _SAME
    if isinstance(function, ast.Name):
        return function.id in _BUILTINS and not script.definitions(function)
    if not isinstance(function, ast.Attribute) or script.callees(call):
        return False
    return function.attr in _COMPUTING | _SAME | _LOGGED or function.attr.rstrip("_") in _COMPUTING


def _is_outward(script: Script, name: str) -> bool:
    statements: list[ast.Global | ast.Nonlocal] = [*script.find(ast.Global), *script.find(ast.Nonlocal)]
    return any(name in each.names for each in statements)


def _is_read_at_once(script: Script, made: ast.Assign, bound: ast.Name) -> bool:
    """Whether a function reads a name below the statement that binds it alone, before a step can be made again."""
    function = script.function(made)
    if function is None or _is_outward(script, bound.id):
        return False
    below = script.block(made)[script.block(made).index(made) + 1 :]
    last = position(made)
    for read in script.within(function, ast.Name):
        if read.id != bound.id or not isinstance(read.ctx, ast.Load):
            continue
        if not any(each.node is made for each in script.definitions(read)):
            if script.function(read) is not function:  # a function of its own looks it up when it runs
                return False
            continue
        if not any(script.inside(read, each) for each in below) or _is_kept(script, read):
            return False
        last = max(last, position(read))
    calls = (each for each in script.within(function, ast.Call) if position(made) < position(each) <= last)
    return not any(_may_step(script, each) for each in calls)
