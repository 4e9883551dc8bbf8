"""Statements that may stand in a function of their own: they compute, and bind names alone."""

from __future__ import annotations

import ast

from autoaccel.analysis import namespaces
from autoaccel.analysis.attributes import may_be_stored
from autoaccel.analysis.script import Script
from autoaccel.dataflow.abstract_values import Kind
from autoaccel.dataflow.syntax_index import breadth_first, last_name, walk_scope
from autoaccel.pytorch import host_reads
from autoaccel.pytorch.run_once_code import runs_once

_PLAIN = ast.Assign | ast.AugAssign | ast.AnnAssign | ast.Expr
_SHORT = 40  # characters of source in a reason
_READ_AT_ONCE = frozenset("sum min max any all list tuple set dict sorted".split())
_CLIPPING = frozenset({"torch.nn.utils.clip_grad_norm_", "torch.nn.utils.clip_grad_value_"})
_PLAIN_VALUES = frozenset({Kind.NUMBER, Kind.BOOL, Kind.STRING, Kind.NONE})
_NAMES = ast.Name | ast.Tuple | ast.expr_context
_UNMOVABLE = ast.Lambda | ast.Await | ast.Yield | ast.YieldFrom | ast.NamedExpr | ast.Starred


def is_movable(statement: ast.stmt, phase: ast.expr | None = None) -> bool:
    """Whether a statement computes and binds names, and nothing else; regions of autocast, loops that no statement
    leaves, and the test of the phase may stand around it."""
    if isinstance(statement, ast.With):
        plain = all(each.optional_vars is None for each in statement.items)
        return plain and all(is_movable(each, phase) for each in statement.body)
    if isinstance(statement, ast.For):
        named = all(isinstance(each, _NAMES) for each in breadth_first(statement.target))
        return named and not statement.orelse and all(is_movable(each) for each in statement.body)
    if isinstance(statement, ast.If):
        same = phase is not None and ast.dump(statement.test) == ast.dump(phase) and not statement.orelse
        return same and all(is_movable(each) for each in statement.body)
    if not isinstance(statement, _PLAIN) or (isinstance(statement, ast.AnnAssign) and statement.value is None):
        return False
    parts = list(breadth_first(statement))
    if any(isinstance(part, _UNMOVABLE) for part in parts):
        return False
    if any(isinstance(part, ast.GeneratorExp) for part in parts) and not _reads_generators_at_once(parts):
        return False
    stored = (part for part in parts if isinstance(getattr(part, "ctx", None), ast.Store | ast.Del))
    return all(isinstance(part, ast.Name | ast.Tuple) for part in stored)


def _reads_generators_at_once(parts: list[ast.AST]) -> bool:
    """Whether what the generators among some nodes give is added up or listed on the spot."""
    calls = [part for part in parts if isinstance(part, ast.Call) and part.args]
    read = {each.args[0] for each in calls if isinstance(each.func, ast.Name) and each.func.id in _READ_AT_ONCE}
    return all(part in read for part in parts if isinstance(part, ast.GeneratorExp))


def clips_always_or_never(script: Script, statement: ast.stmt) -> bool:
    """`if clip is not None: clip_grad_norm_(model.parameters(), clip)`, by what no step changes."""
    match statement:
        case ast.If(
            test=ast.Compare(left=limit, ops=[ast.IsNot() | ast.Gt()], comparators=[ast.Constant()]) | limit, orelse=[]
        ) if _is_left_as_it_is(script, limit, statement):
            calls = [each.value for each in statement.body if isinstance(each, ast.Expr)]
            given = [part for call in calls for part in breadth_first(call) if isinstance(part, ast.expr)]
            clips = all(isinstance(each, ast.Call) and _clips(script, each) for each in calls)
            known = any(ast.dump(each) == ast.dump(limit) for each in given)
            return clips and known and len(calls) == len(statement.body)
        case _:
            return False


def decides_by_settings(script: Script, statement: ast.stmt) -> bool:
    """`if args.norm_adv: …`, by what no step changes: the branch that is captured is the one that is always taken.
    `raise` may be one: it is met in the first step."""
    if isinstance(statement, ast.Raise):
        return True
    if not isinstance(statement, ast.If) or not _is_setting(script, statement.test, statement):
        return False
    return all(is_movable(each) or decides_by_settings(script, each) for each in (*statement.body, *statement.orelse))


def _is_setting(script: Script, test: ast.expr, statement: ast.stmt) -> bool:
    match test:
        case ast.UnaryOp(op=ast.Not(), operand=part) | ast.Compare(left=part, comparators=[ast.Constant()]):
            return _is_setting(script, part, statement)
        case ast.BoolOp(values=parts):
            return all(_is_setting(script, each, statement) for each in parts)
        case ast.Name():
            bound = script.definitions(test)
            return bool(bound) and all(each.how == "assign" for each in bound) and _stays(script, test, statement)
        case ast.Attribute(value=ast.Name() as owner):
            values = script.values(owner)
            own = bool(values) and all(each.kind is Kind.OBJECT and each.cls is not None for each in values)
            return (own or _is_parsed(script, owner)) and _stays(script, test, statement)
        case _:
            return False


def _is_parsed(script: Script, settings: ast.expr) -> bool:
    """Whether an expression holds what a parser of arguments gives."""
    values = script.values(settings)
    return bool(values) and all(each.name == "argparse.Namespace" for each in values)


def _stays(script: Script, setting: ast.expr, statement: ast.stmt) -> bool:
    """Whether a setting is a plain value, no property, and is left as it is."""
    plain = _PLAIN_VALUES
    if isinstance(setting, ast.Attribute):
        plain |= {Kind.UNKNOWN}
        files = dict.fromkeys((script, *script.project.related(script)))
        computed = (each for file in files for each in file.find(ast.FunctionDef) if each.name == setting.attr)
        if setting.attr == "training" or any(computed):
            return False
    return script.values(setting).kinds <= plain and _is_left_as_it_is(script, setting, statement)


def _clips(script: Script, call: ast.Call) -> bool:
    name = script.qualname(call.func)
    if name in _CLIPPING:
        return True
    match call.func:
        case ast.Attribute(value=owner, attr="unscale_"):
            return script.kind(owner) is Kind.SCALER
        case _:
            return False


def _is_left_as_it_is(script: Script, setting: ast.expr, statement: ast.stmt) -> bool:
    """Whether a name, or an attribute of one, is bound before the loops around a statement, and not in them."""
    match setting:
        case ast.Name(id=name):
            outward: list[ast.Global | ast.Nonlocal] = [*script.find(ast.Global), *script.find(ast.Nonlocal)]
            stored = [each for each in script.find(ast.Name) if each.id == name and not isinstance(each.ctx, ast.Load)]
            inside = any(script.inside(each, loop) for each in stored for loop in script.loops(statement))
            return (
                not inside
                and not _is_bound_between_calls(script, setting)
                and not any(name in each.names for each in outward)
            )
        case ast.Attribute(value=ast.Name() as owner, attr=name):
            files = dict.fromkeys((script, *script.project.related(script)))
            others = [(file, each) for file in files for each in file.syntax_index.stored(name)]
            made = all(_is_set_once(file, each) for file, each in others)
            hidden = any(_may_set_by_text(file, name) for file in files)
            return made and not hidden and _is_left_as_it_is(script, owner, statement)
        case _:
            return False


def _is_bound_between_calls(script: Script, setting: ast.Name) -> bool:
    """Whether a variable of an outer function or of the module is bound in a loop, or by more than one statement: the
    step's function may be called before and after."""
    bound = [
        each for each in script.definitions(setting) if each.scope.node is not (script.function(setting) or script.tree)
    ]
    return len(bound) > 1 or any(script.loops(each.node) for each in bound if each.node is not None)


def _may_set_by_text(script: Script, name: str) -> bool:
    """Whether a file may set an attribute of this name but where objects are made: `setattr(args, key, value)`,
    `vars(args).update(changes)`."""
    for call in script.syntax_index.calls_named("setattr", "__setattr__", "object"):  # `patch.object(args, "lr", 1)`
        own = _is_of_own_object(script, call.args[0] if call.args else None, call)
        if own or getattr(script.function(call), "name", "") == "__setattr__":
            continue
        named = call.args[-2] if len(call.args) > 1 else None
        if named is None and last_name(call.func) == "object":
            continue
        if not isinstance(named, ast.Constant) or named.value == name:
            return True
    for call in script.syntax_index.calls_named("parse_args", "parse_known_args"):
        filled = len(call.args) > 1 or any(each.arg in ("namespace", None) for each in call.keywords)
        if filled and not runs_once(script, call):
            return True
    handed = (each for each in script.syntax_index.mentions("setattr") if script.call_of(each) is None)
    return any(handed) or any(namespaces.binds(script, table, name) for table, _ in namespaces.namespaces(script))


def _is_of_own_object(script: Script, owner: ast.expr | None, node: ast.AST) -> bool:
    """Whether a place in `__init__` sets an attribute of the object that is made there."""
    function = script.function(node)
    if not isinstance(function, ast.FunctionDef) or function.name != "__init__" or not function.args.args:
        return False
    return isinstance(owner, ast.Name) and owner.id == function.args.args[0].arg


def _is_set_once(script: Script, stored: ast.Attribute) -> bool:
    """Whether an attribute is set where its object is made, or to a plain value where no loop leads to it:
    `args.cuda = torch.cuda.is_available()`."""
    if _is_of_own_object(script, stored.value, stored):
        return True
    function = script.function(stored)
    if function is not None and any(isinstance(each, ast.Yield | ast.YieldFrom) for each in walk_scope(function)):
        return False  # what it does is done between the steps that take its items
    match script.parent(stored):
        case ast.Assign(value=value):
            return _is_plain(script, value, stored.attr) and runs_once(script, stored)
        case _:
            return False


def _is_plain(script: Script, value: ast.expr, name: str) -> bool:
    """Whether a value is a number, a text or a flag, also one that is made of what a setting of that name was."""
    match value:
        case ast.BoolOp(values=parts):
            return all(_is_plain(script, each, name) for each in parts)
        case ast.Compare(left=left, comparators=[ast.Constant()]) | ast.UnaryOp(operand=left):
            return _is_plain(script, left, name)
        case ast.Attribute(value=ast.Name() as owner, attr=attr) if attr == name or not may_be_stored(script, attr):
            return _is_parsed(script, owner)
        case _:
            return script.values(value).kinds <= _PLAIN_VALUES


def unmovable(script: Script, statement: ast.stmt) -> str:
    """Why a statement cannot stand in a function of the step."""
    leaves = [each for each in breadth_first(statement) if isinstance(each, ast.Continue | ast.Break | ast.Return)]
    if leaves:
        return f"`{type(leaves[0]).__name__.lower()}` in line {leaves[0].lineno} leaves the step"
    if isinstance(statement, ast.For) and (inner := [each for each in statement.body if not is_movable(each)]):
        return unmovable(script, inner[0])
    if isinstance(statement, ast.For | ast.AsyncFor | ast.While):
        return f"the loop in line {statement.lineno} is a part of it"
    parts = [part for part in breadth_first(statement) if isinstance(getattr(part, "ctx", None), ast.Store | ast.Del)]
    bound = next((part for part in parts if isinstance(part, ast.Attribute | ast.Subscript)), None)
    if isinstance(bound, ast.Subscript) and host_reads.masks(script, bound):
        return f"line {bound.lineno} picks elements by a mask, `{script.source(bound)}`, so its shapes depend on values"
    if isinstance(bound, ast.Subscript) and host_reads.gives_tensor(script, bound.value):
        return f"line {bound.lineno} writes into `{script.source(bound)}`, where a step binds names alone"
    if bound is not None:
        return f"line {bound.lineno} binds `{script.source(bound)}`, which other code may see"
    return f"line {statement.lineno} {_what_it_is(script, statement)}"


def _what_it_is(script: Script, statement: ast.stmt) -> str:
    match statement:
        case ast.If(test=test):
            by = f" by `{text}`" if len(text := script.source(test)) <= _SHORT and "\n" not in text else ""
            return f"decides{by} what to do, where a step does the same every time"
        case ast.With() | ast.AsyncWith():
            return "binds what a context gives"
        case ast.Try() | ast.TryStar():
            return "handles errors"
        case ast.Assert():
            return "checks something on the host"
    parts = list(breadth_first(statement))
    if any(isinstance(each, ast.Lambda | ast.FunctionDef) for each in parts):
        return "makes a function"
    if any(isinstance(each, ast.GeneratorExp) for each in parts):
        return "makes a generator that may be read later"
    return "decides or binds what a function cannot"
