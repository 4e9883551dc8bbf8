"""Whether a value surely carries no graph, wherever it comes from: numbers, comparisons, what was detached.

Names, parameters, what functions of the project return, and attributes are followed to all that they may be. What is
not followed may carry one.
"""

from __future__ import annotations

import ast

from autoaccel.analysis.attributes import stored_as
from autoaccel.analysis.call_sites import arguments_for, may_be_left_out
from autoaccel.analysis.callables import called_name
from autoaccel.analysis.classes import class_info, lineage
from autoaccel.analysis.script import Script
from autoaccel.dataflow.abstract_values import Kind
from autoaccel.dataflow.call_arguments import given_values, unpacks
from autoaccel.dataflow.definitions import Definition
from autoaccel.dataflow.query import fixpoint, once
from autoaccel.dataflow.syntax_index import is_constant, last_name
from autoaccel.library_models.graph_operations import (
    ENDING_ATTRIBUTES,
    ENDING_BUILTINS,
    ENDING_FUNCTIONS,
    ENDING_METHODS,
    is_without_graph,
)
from autoaccel.library_models.tensor_operations import STORING
from autoaccel.pytorch.object_references import connected_files

_PLAIN = frozenset({Kind.NUMBER, Kind.STRING, Kind.BOOL, Kind.NONE, Kind.ARRAY, Kind.DEVICE, Kind.DTYPE})
_HOLDING = frozenset({Kind.SEQUENCE, Kind.MAPPING, Kind.ITERATOR, Kind.OBJECT, Kind.PARAMETER, Kind.MODULE})
"""What has parts that are not followed, or is a leaf."""
_TENSORS = frozenset({Kind.TENSOR, Kind.BATCH, Kind.NUMBER})
_SUMS = frozenset(f"builtins.{name}" for name in "sum min max abs round tuple list zip enumerate reversed".split())
_COMPUTING = ("torch", "torch.nn.functional", "torch.special", "torch.linalg", "torch.fft", "time", "math")
_LOADING = frozenset({"torch.load", "torch.compile", "torch.vmap", "torch.cond"})  # or running what they are given
_READ = frozenset({"builtins.len", "builtins.print", "builtins.zip", "builtins.enumerate", "builtins.sum"})


@fixpoint(False, True)
def may_carry(script: Script, expression: ast.expr) -> bool:
    """Whether an expression may give what carries a graph, or a leaf that gradients are taken of."""
    kinds = script.values(expression).kinds
    if Kind.PARAMETER in kinds or (kinds and kinds <= _PLAIN):
        return Kind.PARAMETER in kinds
    match expression:
        case ast.Constant() | ast.JoinedStr() | ast.Compare() | ast.UnaryOp(op=ast.Not()):
            return False
        case ast.Name():
            definitions = script.definitions(expression)
            known = bool(definitions) and expression.id not in leaf_names(script)
            return not known or any(_binds(script, each) for each in definitions)
        case ast.Attribute(value=owner, attr=name):
            if name in ENDING_ATTRIBUTES:
                return False
            return not _is_own(script, owner, name) or attribute_may_carry(script, name)
        case ast.Subscript(value=part) | ast.UnaryOp(operand=part) | ast.Starred(value=part):
            return may_carry(script, part)
        case ast.BinOp(left=left, right=right):
            return may_carry(script, left) or may_carry(script, right)
        case ast.IfExp(body=body, orelse=orelse):
            return may_carry(script, body) or may_carry(script, orelse)
        case ast.Tuple(elts=parts) | ast.List(elts=parts) | ast.BoolOp(values=parts):
            return any(may_carry(script, each) for each in parts)
        case ast.Call():
            return _gives(script, expression)
        case _:
            return True


@fixpoint(False, True)
def attribute_may_carry(script: Script, name: str) -> bool:
    """Whether anything that a project stores under the name of an attribute may carry a graph, or holds what may."""
    for file in connected_files(script):
        if name in leaf_names(file) or any(_changes(file, each) for each in file.syntax_index.mentions(name)):
            return True
        for stored in stored_as(file, name):
            if stored.value is None or not stored.script.values(stored.value).kinds.isdisjoint(_HOLDING):
                return True
            if may_carry(stored.script, stored.value):
                return True
    return False


@once
def leaf_names(script: Script) -> frozenset[str]:
    """Names of variables and attributes that a file makes require gradients."""
    found: set[str] = set()
    for call in script.syntax_index.calls_named("requires_grad_"):
        if isinstance(call.func, ast.Attribute):
            found.add(last_name(call.func.value))
            around = script.parent(call)
            found.update(map(last_name, around.targets) if isinstance(around, ast.Assign) else ())
    for keyword in script.find(ast.keyword):
        if keyword.arg == "requires_grad" and not is_constant(keyword.value, False):
            statement = script.statement(keyword)
            if isinstance(statement, ast.Assign):
                found.update(last_name(each) for each in statement.targets)
    for statement in script.find(ast.Assign):
        for target in statement.targets:
            if isinstance(target, ast.Attribute) and target.attr == "requires_grad":
                found.add(last_name(target.value))
            elif isinstance(statement.value, ast.Call):
                if script.qualname(statement.value.func) == "torch.nn.Parameter":
                    found.add(last_name(target))
    return frozenset(found - {""})


def _is_own(script: Script, owner: ast.expr, name: str) -> bool:
    """Whether an attribute is one that the class of `self` stores itself, and no method or field of it."""
    cls = script.enclosing_class(owner)
    if cls is None or not isinstance(owner, ast.Name) or owner.id != "self":
        return False
    ref = script.class_ref(cls)
    bound = [each for base in lineage(ref) for each, _ in class_info(base).attributes.get(name, ())]
    return bool(bound) and all(isinstance(each, ast.expr) for each in bound)


def _changes(script: Script, mention: ast.Name | ast.Attribute) -> bool:
    """Whether an attribute is changed in place where it is mentioned, or handed to what may do that."""
    if not isinstance(mention, ast.Attribute):
        return False
    match script.parent(mention):
        case ast.Attribute(attr=method):
            return method.endswith("_") or method in STORING
        case ast.Subscript(ctx=ast.Store() | ast.Del()) | ast.keyword(arg="out"):
            return True
        case _:
            return False


def _binds(script: Script, definition: Definition) -> bool:
    """Whether a name may be bound to it."""
    function, value = definition.scope.node, definition.value
    match definition.how:
        case "param" if isinstance(function, ast.FunctionDef) and not definition.path:
            callers = script.callers(function)
            given = [*arguments_for(script, function, definition.name)]
            if callers.missing is not None or any(unpacks(call) for _, call in callers):
                return True
            left = may_be_left_out(script, function, definition.name)
            if not given or (left and value is None):
                return True
            return any(may_carry(*each) for each in given) or (value is not None and may_carry(script, value))
        case "assign" | "walrus" | "for" if value is not None:
            return may_carry(script, value) or _gets_later(script, definition)
        case "aug" if isinstance(definition.node, ast.AugAssign) and isinstance(definition.node.target, ast.Name):
            before = script.reaching_definitions.before_addition(definition.node.target)
            return may_carry(script, definition.node.value) or any(_binds(script, each) for each in before)
        case _:
            return True


@fixpoint(False, True)
def _gets_later(script: Script, definition: Definition) -> bool:
    """Whether what a name holds, or a view of it, may get something with a graph after it was bound."""
    return any(_puts_in(script, use) for use in script.uses(definition))


def _puts_in(script: Script, use: ast.Name) -> bool:
    """Whether it may get it where the name is read: `res.append(x)`, `res[i] = x`, `x.view(-1).add_(y)`."""
    node: ast.expr = use
    while True:
        match parent := script.parent(node):
            case ast.Attribute(attr=method):
                call = script.call_of(parent)
                if method in STORING or (method.endswith("_") and method not in ENDING_METHODS):
                    if call is None or any(may_carry(script, each) for each in given_values(call)):
                        return True
                node = call or parent
            case ast.Subscript(value=value) if value is node:
                if not isinstance(parent.ctx, ast.Load):
                    return True
                node = parent
            case ast.Starred():
                node = parent
            case _:
                break
    match parent:
        case ast.Call():
            if called_name(script, parent.func) in _READ | ENDING_FUNCTIONS:
                return False
            return not script.values(node).kinds <= _TENSORS | _PLAIN  # a container, which it may fill
        case ast.Assign(targets=targets) if all(isinstance(each, ast.Name | ast.Tuple) for each in targets):
            names = (part for target in targets for part in ast.walk(target) if isinstance(part, ast.Name))
            return any(_gets_later(script, each) for name in names for each in script.definitions(name))
        case ast.BinOp() | ast.Compare() | ast.UnaryOp() | ast.FormattedValue() | ast.Return() | ast.Expr() | ast.If():
            return False
        case ast.AugAssign(value=value) | ast.For(iter=value) | ast.comprehension(iter=value) if value is node:
            return False
        case ast.Tuple():
            return not isinstance(script.parent(parent), ast.Return)
        case _:
            return True


def _gives(script: Script, call: ast.Call) -> bool:
    """Whether a call may give what carries a graph."""
    given = given_values(call)
    if any(each.arg == "requires_grad" and not is_constant(each.value, False) for each in call.keywords):
        return True
    name = None if script.is_project_name(call.func) else called_name(script, call.func)
    if name is not None and name.startswith("builtins."):
        builtin = name.removeprefix("builtins.")
        return builtin not in ENDING_BUILTINS and (name not in _SUMS or any(may_carry(script, each) for each in given))
    if name is not None:
        if name in ENDING_FUNCTIONS or (
            name.startswith("numpy.") and all(each.arg != "dtype" for each in call.keywords)
        ):
            return False
        computes = name.rpartition(".")[0] in _COMPUTING and name not in _LOADING
        return not computes or any(may_carry(script, each) for each in given)
    callees, kinds = script.callees(call), script.values(call.func).kinds
    if callees:
        return kinds != {Kind.FUNCTION} or any(_returns(file, function) for file, function in callees)
    match call.func:
        case ast.Attribute(value=owner, attr=method) if script.values(owner).kinds <= _TENSORS:
            if method in ENDING_METHODS:
                return False
            return method == "requires_grad_" or any(may_carry(script, each) for each in (owner, *given))
        case _:
            return True


def _returns(script: Script, function: ast.FunctionDef) -> bool:
    """Whether a function of the project may return it; not where gradients are off in all of it."""
    if any(is_without_graph(script, each) for each in function.decorator_list):
        return False
    if function.decorator_list or any(script.in_scope(function, kind) for kind in (ast.Yield, ast.YieldFrom)):
        return True
    leaves = (each.value for each in script.in_scope(function, ast.Return) if each.value is not None)
    return any(may_carry(script, each) for each in leaves)
