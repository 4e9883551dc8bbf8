"""Pure tensor functions: straight tensor arithmetic from parameters to results, such as a loss of one's own."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from autoaccel.analysis.script import Script
from autoaccel.dataflow.abstract_values import Kind
from autoaccel.dataflow.call_arguments import given_values
from autoaccel.dataflow.syntax_index import breadth_first
from autoaccel.library_models.tensor_operations import DRAWING, DRAWING_IN_PLACE
from autoaccel.pytorch import host_reads
from autoaccel.pytorch.training_steps import training_scopes

_FEWEST = 4  # tensor operations worth fusing
_IMPURE = DRAWING_IN_PLACE | frozenset(
    """item tolist numpy cpu cuda to backward copy_ set_ resize_ requires_grad_ detach_ data_ptr multinomial bernoulli
    register_hook""".split()
)
_RANDOM = frozenset(
    f"torch.{name}"
    for name in (
        *DRAWING,
        *"bernoulli multinomial tensor as_tensor from_numpy nn.functional.dropout save load manual_seed".split(),
    )
)
_TO_HOST = frozenset({"cpu", "numpy"})
_TO_NUMBERS = frozenset({"item", "tolist"})


def pure_functions(script: Script) -> Iterator[ast.FunctionDef]:
    """Module-level functions without decorators that a training step of the project calls and that only compute."""
    for function in script.find(ast.FunctionDef):
        if script.parent(function) is not script.tree or function.decorator_list or not _computes(script, function):
            continue
        if _only_called(script, function) and _called_in_training(script, function):
            yield function


def _computes(script: Script, function: ast.FunctionDef) -> bool:
    """Assignments of names and one return, in which everything called is torch, and is not random."""
    arguments = function.args
    if arguments.vararg or arguments.kwarg or not arguments.args:
        return False
    body = function.body
    if isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant):
        body = body[1:]
    if not body or not isinstance(body[-1], ast.Return) or body[-1].value is None:
        return False
    operations = 0
    for statement in body:
        if not isinstance(statement, ast.Assign | ast.AugAssign | ast.Return):
            return False
        if isinstance(statement, ast.Assign) and not all(isinstance(each, ast.Name) for each in statement.targets):
            return False
        for part in breadth_first(statement):
            match part:
                case ast.Call():
                    if not _is_operation(script, part):
                        return False
                    operations += 1
                case ast.BinOp() | ast.UnaryOp():
                    operations += 1
                case (
                    ast.Lambda() | ast.ListComp() | ast.GeneratorExp() | ast.DictComp() | ast.IfExp() | ast.NamedExpr()
                ):
                    return False
                case ast.Await() | ast.Yield() | ast.YieldFrom() | ast.Starred() | ast.JoinedStr():
                    return False
                case _:
                    pass
    return operations >= _FEWEST


def _is_operation(script: Script, call: ast.Call) -> bool:
    if host_reads.is_shaped_by_values(script, call):
        return False
    name = script.qualname(call.func)
    if name is not None:
        return name.startswith("torch.") and name not in _RANDOM and not script.is_project_name(call.func)
    if not isinstance(call.func, ast.Attribute) or call.func.attr in _IMPURE:
        return False
    kinds = script.values(call.func.value).kinds
    return bool(kinds) and kinds <= {Kind.TENSOR, Kind.BATCH}


def _only_called(script: Script, function: ast.FunctionDef) -> bool:
    """A function that is handed on, or shipped to other processes, stays what it is."""
    for definition in script.module_scope.definitions.get(function.name, ()):
        if definition.node is not function:
            return False
        for use in script.uses(definition):
            parent = script.parent(use)
            if not (isinstance(parent, ast.Call) and parent.func is use):
                return False
    return script.callers(function).missing is None


def _called_in_training(script: Script, function: ast.FunctionDef) -> bool:
    scopes = {scope for each in script.project.known_related(script) for scope in training_scopes(each)}
    for other, call in script.callers(function):
        if (other.function(call) or other.tree) in scopes and other.loops(call) and not _works_on_host(other, call):
            return True
    return False


def _works_on_host(script: Script, call: ast.Call) -> bool:
    """Whether a call computes with what was brought to the host, as for a picture or a report."""
    arguments = given_values(call)
    tensors = [each for each in arguments if not isinstance(each, ast.Constant)]
    brought = {_brought(script, each) for each in tensors}
    return not brought.isdisjoint(_TO_HOST) or (bool(tensors) and None not in brought)


def _brought(script: Script, expression: ast.expr, seen: frozenset[ast.expr] = frozenset()) -> str | None:
    """The method that brings a value to the host: `x.cpu().data`, also where it has a name of its own; else None."""
    while isinstance(expression, ast.Attribute | ast.Subscript | ast.Call):
        if isinstance(expression, ast.Call):
            if not isinstance(expression.func, ast.Attribute):
                return None
            if expression.func.attr in _TO_HOST | _TO_NUMBERS:
                return expression.func.attr
            expression = expression.func
        expression = expression.value
    if not isinstance(expression, ast.Name) or expression in seen:
        return None
    definitions = script.definitions(expression)
    values = [each.value for each in definitions if each.how == "assign" and not each.path and each.value is not None]
    found = {_brought(script, each, seen | {expression}) for each in values}
    return found.pop() if len(found) == 1 and len(values) == len(definitions) else None
