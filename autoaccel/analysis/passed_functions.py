"""Functions and classes that are passed as arguments, and where they are called then: `ResNet(Block, [2, 2])`."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from autoaccel.analysis import decorators
from autoaccel.analysis.bound_receivers import is_bound
from autoaccel.analysis.classes import methods
from autoaccel.analysis.name_lookups import hands_on_names, runs_text
from autoaccel.dataflow.abstract_values import Kind
from autoaccel.dataflow.call_arguments import may_be_passed_for
from autoaccel.dataflow.completeness import CallSite
from autoaccel.library_models.python_names import LOOKING

if TYPE_CHECKING:
    from autoaccel.analysis.script import Script
    from autoaccel.dataflow.abstract_values import Value
    from autoaccel.dataflow.definitions import Definition

    Binding = tuple[Script, Definition]

_TOLD = frozenset({"__name__", "__qualname__", "__module__", "__doc__"})


def calls_of_passed(script: Script, mention: ast.expr) -> list[CallSite] | None:
    """The calls of what is mentioned as an argument, as a parameter's default or as the value of a local name, by those
    that get it and those that these pass it on to; None where it goes out of sight."""
    found: dict[CallSite, None] = {}
    pending, seen = [(script, mention)], {mention}
    while pending:
        file, use = pending.pop()
        bound = bound_to(file, use)
        if bound is None:
            return None
        for where, definition in bound:
            for read in where.uses(definition):
                call = where.call_of(read)
                if call is not None:
                    found[where, call] = None
                elif not _is_looked_at(where, read) and read not in seen:
                    seen.add(read)
                    pending.append((where, read))
    return list(found)


def bound_to(script: Script, use: ast.expr) -> list[Binding] | None:
    """The parameters and local names that get what is mentioned somewhere."""
    around = script.parent(use)
    match around:
        case ast.Call():
            return _passed_for(script, around, use)
        case ast.keyword():
            call = script.parent(around)
            return _passed_for(script, call, around) if isinstance(call, ast.Call) else None
        case ast.arguments():
            parameter = _parameter(script, script.parent(around), _defaulted(around, use))
            return None if parameter is None else [parameter]
        case ast.Assign(targets=[ast.Name() as target]) if script.function(around) is not None:
            return [(script, each) for each in script.definitions(target) if each.value is use]
        case _:
            return None


def _passed_for(script: Script, call: ast.Call, argument: ast.AST) -> list[Binding] | None:
    """The parameters that an argument of a call is passed for."""
    found: list[Binding] = []
    for value in script.inference.possible(call.func):
        entered = _entered(value)
        if entered is None or decorators.seeing(*entered) is not None:
            return None
        where, function = entered
        bound = is_bound(where, function, script, call)
        names, collecting = may_be_passed_for(function, call, argument, bound=bound)
        parameter = _parameter(where, function, names[0]) if len(names) == 1 and not collecting else None
        if parameter is None:
            return None
        found.append(parameter)
    return found


def _entered(value: Value) -> tuple[Script, ast.FunctionDef] | None:
    """The function, the constructor of a class or the `forward` of a model that gets the arguments of a call."""
    if value.kind is Kind.FUNCTION and value.script is not None and isinstance(value.node, ast.FunctionDef):
        return value.script, value.node
    if value.kind is Kind.MODULE and value.cls is not None and next(methods(value.cls, "__call__"), None) is None:
        return next(methods(value.cls, "forward"), None)
    if value.kind is not Kind.CLASS or value.cls is None:
        return None
    ref = value.cls
    plain = next(methods(ref, "__new__"), None) is None and decorators.wrapping_methods(ref) is None
    kept = bool(ref.node.keywords) or decorators.keeping(ref.script, ref.node) is not None
    return next(methods(ref, "__init__"), None) if plain and not kept else None


def _parameter(script: Script, function: ast.AST | None, name: str) -> Binding | None:
    """The binding of a parameter; None where something may read it without naming it."""
    if not isinstance(function, ast.FunctionDef) or hands_on_names(script, function) or runs_text(script, function):
        return None
    if any(script.inside(each, function) for each in script.syntax_index.calls_named("save_hyperparameters")):
        return None  # it looks at the arguments of the function that calls it
    definitions = script.reaching_definitions.scopes[function].definitions[name]
    return next((script, each) for each in definitions if each.how == "param")


def _defaulted(arguments: ast.arguments, default: ast.expr) -> str:
    """The parameter that a default stands for."""
    positional = [*arguments.posonlyargs, *arguments.args]
    paired = [
        *zip(positional[len(positional) - len(arguments.defaults) :], arguments.defaults, strict=True),
        *zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True),
    ]
    return next(argument.arg for argument, each in paired if each is default)


def _is_looked_at(script: Script, read: ast.Name) -> bool:
    """Whether something is only looked at: `block.expansion`, `block is None`, `isinstance(layer, block)`."""
    around = script.parent(read)
    match around:
        case ast.Attribute(attr=name, ctx=ast.Load()):
            return not name.startswith("__") or name in _TOLD
        case ast.Call(func=ast.Name(id=name) as function):
            return name in LOOKING and not script.definitions(function)
        case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test) | ast.Assert(test=test):
            return test is read
        case ast.Compare() | ast.FormattedValue() | ast.UnaryOp() | ast.Expr():
            return True
        case _:
            return False
