"""Which code of a project some code may run: calls, models that it builds or runs, hooks, functions in tables."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from autoaccel.analysis.callables import lambdas_of
from autoaccel.analysis.classes import instance_kind, methods
from autoaccel.dataflow.abstract_values import NOTHING, Kind
from autoaccel.dataflow.call_arguments import given_values
from autoaccel.dataflow.query import once, once_all
from autoaccel.dataflow.syntax_index import last_name
from autoaccel.library_models.python_names import ARITHMETIC_METHODS
from autoaccel.pytorch import implicit_calls
from autoaccel.pytorch.module_containers import held

if TYPE_CHECKING:
    from autoaccel.analysis.script import Script
    from autoaccel.dataflow.abstract_values import ClassRef
    from autoaccel.dataflow.completeness import ScriptNode


_FUNCTIONS = (ast.FunctionDef, ast.Lambda)
_Code = ast.FunctionDef | ast.Lambda


def reachable_code(script: Script, nodes: Iterable[ast.AST], *, building: bool = True) -> list[ScriptNode]:
    """Some code, the project functions that it calls, the methods of the models that it runs or builds, and hooks.

    Unless `building`, the models that it runs are there: what has built them is not part of it.
    """
    hooks = _hooks(script)
    found: list[ScriptNode] = [*((script, node) for node in nodes), *hooks]
    seen: set[ast.AST] = {hook for _, hook in hooks}
    for at, node in found:  # grows while it is walked
        for other, function in _entered(at, node, building):
            if function not in seen:
                seen.add(function)
                found.append((other, function))
    return found


def running_code(script: Script, nodes: Iterable[ast.AST]) -> list[ScriptNode]:
    """As `reachable_code`, without the helpers of constructors that have built the models before: `_make_layer`."""
    hooks = _hooks(script)
    running: dict[ScriptNode, None] = dict.fromkeys([*((script, node) for node in nodes), *hooks])
    pending: list[tuple[ScriptNode, bool]] = [(each, False) for each in running]
    met = set(pending)
    for (at, node), builds in pending:  # grows while it is walked
        runs = set[ast.AST]() if builds else {each for _, each in _entered(at, node, building=False)}
        helpers = _helpers(at, node) if builds else frozenset[ast.AST]()
        for entered in _entered(at, node, building=True):
            function = entered[1]
            built = function in helpers or (not builds and function not in runs)
            if not built:
                running[entered] = None
            step = (entered, built or (builds and getattr(function, "name", "") == "__init__"))
            if step not in met:
                met.add(step)
                pending.append(step)
    return list(running)


@once
def _helpers(script: Script, builder: ast.AST) -> frozenset[ast.AST]:
    """The functions that a constructor, or a helper of one, calls and that leave nothing behind to be called later: by
    their own name, or a function that they make."""
    called = [each for call in script.within(builder, ast.Call) for each in script.callees(call)]
    return frozenset(
        function
        for other, function in called
        if function.name not in ("forward", "__call__")
        and len(other.syntax_index.within_any(function, _FUNCTIONS)) == 1
        and not any(_is_named(each, function.name) for each in (script, other))
    )


def _is_named(script: Script, name: str) -> bool:
    """Whether a file names a function other than to call it."""
    mentioned = script.syntax_index.mentions(name)
    return any(isinstance(each.ctx, ast.Load) and script.call_of(each) is None for each in mentioned)


def _hooks(script: Script) -> list[ScriptNode]:
    return [
        (other, hook) for other, hook in implicit_calls.hooks(script) if isinstance(hook, ast.FunctionDef | ast.Lambda)
    ]


@once_all
def _entered(script: Script, node: ast.AST, building: bool) -> Iterator[tuple[Script, _Code]]:
    """The functions that some code may enter itself."""
    yield from _implicitly_entered(script, node)
    calls = script.within(node, ast.Call) if isinstance(node, ast.FunctionDef) else script.in_scope(node, ast.Call)
    for call in script.syntax_index.by_depth(calls) if isinstance(node, ast.FunctionDef) else calls:
        yield from _callees(script, call, building)


@once_all
def _implicitly_entered(script: Script, node: ast.AST) -> Iterator[tuple[Script, _Code]]:
    for part in script.syntax_index.within_any(node, implicit_calls.IMPLICIT_CALLS):
        yield from implicit_calls.implicit_callees(script, part)


@once_all
def _callees(script: Script, call: ast.Call, building: bool) -> Iterator[tuple[Script, _Code]]:
    """The functions that a call may enter now or, where it builds a module or hands a function on, later.

    What is called on an object that is not known may be any method of this name in the project; where the callee
    itself is not known and may be stored under its name, it may be any model of the project.
    """
    owners = script.values(call.func.value) if isinstance(call.func, ast.Attribute) else NOTHING
    callees = script.values(call.func)
    arguments = given_values(call)
    handed = (script.values(each) for each in arguments if isinstance(each, ast.Name | ast.Attribute))
    yield from script.callees(call)  # of callable objects, too
    yield from lambdas_of(script, call.func)
    for value in (*callees, *owners, *(value for values in handed for value in values)):
        if value.kind is Kind.FUNCTION and isinstance(value.node, ast.FunctionDef) and value.script is not None:
            yield value.script, value.node
        elif value.cls is not None and value.kind in (Kind.MODULE, Kind.LOSS_FUNCTION, Kind.CLASS):
            yield from _bodies(value.cls, building=building or value.kind is Kind.CLASS)
    parts = [part for value in callees if value.kind is Kind.MODULE and value.cls is None for part in held(value)]
    for part in parts:
        if part.cls is not None:
            yield from _bodies(part.cls, building=building)
    if any(part.kind is Kind.UNKNOWN for part in parts):
        yield from _all_models(script)
    if Kind.UNKNOWN not in callees.kinds or script.qualname(call.func) is not None:
        return
    if owners and owners.kinds <= {Kind.TENSOR, Kind.BATCH, Kind.ARRAY}:
        return  # `images.cuda()`, whoever keeps a flag of this name
    related = script.project.related(script)
    name = call.func.attr if isinstance(call.func, ast.Attribute) else None
    if name is None or any(_may_be_code(other, each) for other in related for each in other.syntax_index.stored(name)):
        yield from _all_models(script)
        yield from tabled_functions(script)
    elif Kind.UNKNOWN in owners.kinds and not name.startswith("__"):  # of `super()`
        for other in related:
            yield from ((other, each) for each in other.find(ast.FunctionDef) if each.name == name)


def _may_be_code(script: Script, stored: ast.AST) -> bool:
    """Whether what is stored under a name may be called: not the sum of a meter, `self.sum += value * n`, that began as
    a number, nor a quotient, unless a class of the project divides into something else. Sequences of layers add up."""
    match script.parent(stored):
        case ast.Assign(value=ast.Constant(value=None)):
            return True  # who knows what takes its place
        case ast.Assign(targets=targets, value=ast.Constant() | ast.JoinedStr() | ast.Compare()) if stored in targets:
            return False
        case ast.Assign(targets=targets, value=ast.BinOp(op=ast.Sub() | ast.Div())) if stored in targets:
            return _has_arithmetic(script)
        case ast.AugAssign(target=ast.Attribute(attr=name)):
            return _has_arithmetic(script) or not _begins_as_number(script, name)
        case _:
            return True


def _begins_as_number(script: Script, name: str) -> bool:
    """Whether all that is stored under a name, but for what is added to it, is a number."""
    files = script.project.related(script)
    stores = (other.parent(each) for other in files for each in other.syntax_index.stored(name))
    plain = [each for each in stores if not isinstance(each, ast.AugAssign)]
    values = [each.value if isinstance(each, ast.Assign) else None for each in plain]
    numbers = (isinstance(each, ast.Constant) and isinstance(each.value, int | float) for each in values)
    return bool(plain) and all(numbers)


@once
def _has_arithmetic(script: Script) -> bool:
    """Whether a class of the project decides what arithmetic gives."""
    functions = (each for other in script.project.related(script) for each in other.find(ast.FunctionDef))
    return any(each.name in ARITHMETIC_METHODS for each in functions)


@once_all
def _all_models(script: Script) -> Iterator[tuple[Script, ast.FunctionDef]]:
    """The forward passes of whatever model there is."""
    for other in script.project.related(script):
        for cls in other.find(ast.ClassDef):
            ref = other.class_ref(cls)
            if instance_kind(ref) in (Kind.MODULE, Kind.LOSS_FUNCTION):
                yield from _bodies(ref, building=False)


@once
def tabled_functions(script: Script) -> tuple[tuple[Script, ast.FunctionDef], ...]:
    """The functions that may be called under another name: they stand in tables, `{"dice": (0.5, dice_loss)}`, or are
    handed to what gives another callable, `functools.partial(act)`."""
    return tuple(dict.fromkeys(_find_tabled(script)))


def _find_tabled(script: Script) -> Iterator[tuple[Script, ast.FunctionDef]]:
    related = script.project.related(script)
    named = {each.name for other in related for each in other.find(ast.FunctionDef)}
    for other in related:
        elements: list[ast.expr] = [each for table in other.find(ast.Dict) for each in table.values]
        elements += [each for table in other.find(ast.List) for each in table.elts]
        elements += [each for table in other.find(ast.Tuple) for each in table.elts if isinstance(table.ctx, ast.Load)]
        for store in other.find(ast.Assign):
            if any(isinstance(each, ast.Subscript) for each in store.targets):
                elements.append(store.value)
        elements += _wrapped(other, named)
        if any(True for _ in other.syntax_index.calls_named("globals")):
            yield from ((other, each) for each in other.tree.body if isinstance(each, ast.FunctionDef))
        for element in elements:
            if isinstance(element, ast.Name | ast.Attribute):
                for value in other.values(element):
                    if isinstance(value.node, ast.FunctionDef) and value.script is not None:
                        if value.kind is Kind.FUNCTION:
                            yield value.script, value.node


def _wrapped(script: Script, named: set[str]) -> Iterator[ast.expr]:
    """What may be a function and is handed to a call whose result is kept, of no library but `functools`."""
    for call in script.find(ast.Call):
        given = given_values(call)
        handed = [each for each in given if isinstance(each, ast.Name | ast.Attribute) and last_name(each) in named]
        if not handed or isinstance(script.parent(call), ast.Expr):
            continue
        qualified = None if script.is_project_name(call.func) else script.qualname(call.func)
        if qualified is None or qualified.startswith("functools."):
            yield from handed


def _bodies(cls: ClassRef, *, building: bool) -> Iterator[tuple[Script, ast.FunctionDef]]:
    """What runs when an instance is called or, where it is built, made."""
    return methods(cls, *(("forward", "__call__", "__init__") if building else ("forward", "__call__")))
