"""Where a tensor comes from: whether an expression makes it anew, and whether it may carry a graph.

`Variable(x)` and `x.detach()` give another tensor over the memory of `x`, without its graph. They can be told from `x`
by the graph, and where one of the two tensors changes itself: its shape, its memory, whether it requires gradients.
"""

from __future__ import annotations

import ast
import enum
from collections.abc import Collection, Iterable

from autoaccel.analysis.parsed_options import is_parsed_option
from autoaccel.analysis.rebound_names import rebound_names
from autoaccel.analysis.script import Script
from autoaccel.dataflow.abstract_values import Kind, Value
from autoaccel.dataflow.call_arguments import given_values
from autoaccel.dataflow.completeness import Incomplete
from autoaccel.dataflow.definitions import Definition, ElementPath
from autoaccel.dataflow.query import fixpoint
from autoaccel.dataflow.syntax_index import is_constant
from autoaccel.library_models.graph_operations import ENDING_METHODS
from autoaccel.library_models.numpy_functions import ARRAY_METHODS, DRAWING_METHODS, GENERATORS
from autoaccel.library_models.tensor_operations import WHOLE, WITH_INDICES
from autoaccel.library_models.tensor_views import VIEW_ATTRIBUTES, VIEW_METHODS
from autoaccel.pytorch.changed_tensors import FACTORIES, LEAVES, is_changed, is_changed_batch, is_copy, passed
from autoaccel.pytorch.object_references import all_callers
from autoaccel.pytorch.plain_batches import has_plain_samples
from autoaccel.pytorch.tensor_kinds import NO_TENSORS, WHOLE_TYPES, is_tensor, is_tensor_type, is_whole_type


class Origin(enum.IntEnum):
    """What is known of a tensor; of several that it may be, the last."""

    NEW = 0
    """It has no graph, and nothing but the expression refers to it."""
    SHARED = 1
    """It has no graph; others may refer to it."""
    UNKNOWN = 2
    """It may have a graph, or be a leaf that requires gradients."""


VARIABLE = "torch.autograd.Variable"
# Methods that take a tensor for its type, shape or device alone, if they take one.
_LIKE = VIEW_METHODS | frozenset("type_as to type cuda cpu repeat sum mean max min".split())


@fixpoint(Origin.NEW, Origin.UNKNOWN)
def origin(script: Script, expression: ast.expr) -> Origin:
    """What is known of the tensor that an expression gives, wherever it was made."""
    match expression:
        case ast.Call():
            return _of_call(script, expression)
        case ast.Attribute(value=owner, attr="data"):
            return Origin.NEW if is_tensor(script, owner) else Origin.UNKNOWN
        case ast.Attribute(value=owner, attr=name) if name in VIEW_ATTRIBUTES and is_tensor(script, owner):
            return origin(script, owner)
        case ast.Name():
            return _of_name(script, expression)
        case ast.Subscript(value=owner) if script.kind(owner) is Kind.TENSOR:  # whole numbers and masks are places
            return max(Origin.SHARED, origin(script, owner))
        case ast.Subscript() if script.kind(expression) is Kind.BATCH:
            return _of_batch(script, expression)
        case ast.BinOp(left=left, right=right):
            return _computed(script, expression, (left, right))
        case ast.UnaryOp(operand=operand) if not isinstance(expression.op, ast.Not):
            return _computed(script, expression, (operand,))
        case ast.Compare() if script.kind(expression) is Kind.TENSOR:
            return Origin.NEW
        case ast.IfExp(body=body, orelse=orelse):
            return max(origin(script, body), origin(script, orelse))
        case _:
            return Origin.UNKNOWN


def _computed(script: Script, operation: ast.expr, operands: Iterable[ast.expr]) -> Origin:
    """Arithmetic: a new tensor, of the graphs of its operands."""
    plain = is_tensor(script, operation) and _of_operands(script, operands) is not Origin.UNKNOWN
    return Origin.NEW if plain else Origin.UNKNOWN


def _of_operands(script: Script, operands: Iterable[ast.expr]) -> Origin:
    """The worst of several operands, those aside that are no tensors."""
    found = Origin.NEW
    for each in operands:
        match each:
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                found = max(found, _of_operands(script, parts))
            case ast.Starred(value=part) | ast.ListComp(elt=part):
                found = max(found, _of_operands(script, [part]))
            case ast.Slice():
                found = max(found, _of_operands(script, [x for x in (each.lower, each.upper, each.step) if x]))
            case _ if not _is_no_tensor(script, each):
                found = max(found, origin(script, each))
    return found


def _is_no_tensor(script: Script, expression: ast.expr) -> bool:
    return script.values(expression).kinds <= NO_TENSORS or is_parsed_option(script, expression)


# -- names


def _of_name(script: Script, name: ast.Name) -> Origin:
    definitions = script.definitions(name)
    if not definitions or any(is_changed(script, each) or _is_rebound(script, each) for each in definitions):
        return Origin.UNKNOWN
    if script.kind(name) is Kind.BATCH and all(value.how in (None, "view") for value in script.values(name)):
        return _of_batch(script, name)
    return max(Origin.SHARED, *(_of_definition(script, each) for each in definitions))


def _is_rebound(script: Script, definition: Definition) -> bool:
    """Whether another file may put something else in the place of a module's name."""
    return definition.scope.parent is None and definition.name in rebound_names(script)


def _of_definition(script: Script, definition: Definition) -> Origin:
    match definition.how:
        case "param" if not definition.path:
            return _of_parameter(script, definition)
        case "assign" | "walrus" if definition.value is not None:
            if (pair := _of_pair(script, definition.value, definition.path)) is not None:
                return pair
            return _of_part(script, definition.value, definition.path)
        case "for" if definition.value is not None:
            given = script.inference.definition(definition)
            return _of_batches(script, given) if given.kinds == {Kind.BATCH} else Origin.UNKNOWN
        case _:
            return Origin.UNKNOWN


@fixpoint(Origin.NEW, Origin.UNKNOWN)
def _of_part(script: Script, value: ast.expr, path: ElementPath) -> Origin:
    """Of `features, labels = load()` the part that a name gets, where the tuple is written out."""
    match value, path:
        case _, ():
            return _of_operands(script, [value])
        case ((ast.Tuple(elts=parts) | ast.List(elts=parts)), (int() as step, *rest)):
            shifted = any(isinstance(each, ast.Starred) for each in parts)
            known = 0 <= step < len(parts) and not shifted
            return _of_part(script, parts[step], tuple(rest)) if known else Origin.UNKNOWN
        case ast.Call(), _:
            return _returned(script, value, path)
        case _:
            return Origin.UNKNOWN


def _of_pair(script: Script, value: ast.expr, path: ElementPath) -> Origin | None:
    """Of `values, places = x.sort(0)` the part that a name gets; None of anything else."""
    match value, path:
        case ast.Call(func=ast.Attribute(value=owner, attr=name)), (0 | 1 as place,) if name in WITH_INDICES:
            if is_tensor(script, owner):
                return Origin.NEW if place else max(Origin.SHARED, origin(script, owner))
    return None


def _of_parameter(script: Script, definition: Definition) -> Origin:
    function = definition.scope.node
    if not isinstance(function, ast.FunctionDef):
        return Origin.UNKNOWN
    try:
        calls = all_callers(script, function)
    except Incomplete:
        return Origin.UNKNOWN
    found = Origin.SHARED
    for other, call in calls:
        given = passed(script, definition, other, call)
        if given is None:
            return Origin.UNKNOWN
        found = max(found, _of_operands(given[0], [given[1]]))
    return found


def _of_batch(script: Script, expression: ast.expr) -> Origin:
    """A part of a loader's batch, where nothing that makes samples runs a model or requires gradients."""
    return _of_batches(script, [value for value in script.values(expression) if value.kind is Kind.BATCH])


def _of_batches(script: Script, values: Collection[Value]) -> Origin:
    if any(is_changed_batch(script, value) for value in values):
        return Origin.UNKNOWN
    return Origin.SHARED if values and all(has_plain_samples(value) for value in values) else Origin.UNKNOWN


# -- calls


def _of_call(script: Script, call: ast.Call) -> Origin:
    name = script.qualname(call.func)
    if any(each.arg is None for each in call.keywords):
        return Origin.UNKNOWN
    if name == VARIABLE:
        return Origin.NEW if asks_for_no_gradient(call) else Origin.UNKNOWN
    if script.callees(call):
        return _returned(script, call)
    if any(each.arg == "out" or _asks_for_gradient(each) for each in call.keywords):
        return Origin.UNKNOWN
    if is_tensor_type(script, call.func):
        return _of_type(script, call)
    if name is not None:
        return _of_library(script, call, name)
    return _of_method(script, call) if isinstance(call.func, ast.Attribute) else Origin.UNKNOWN


def asks_for_no_gradient(call: ast.Call) -> bool:
    """Whether `Variable(x)` gives a tensor without a graph."""
    asked = [*call.args[1:2], *(each.value for each in call.keywords if each.arg == "requires_grad")]
    return all(is_constant(each, False) for each in asked)


def _asks_for_gradient(keyword: ast.keyword) -> bool:
    return keyword.arg == "requires_grad" and not is_constant(keyword.value, False)


def _of_library(script: Script, call: ast.Call, name: str) -> Origin:
    module, _, short = name.rpartition(".")
    if module != "torch" or script.kind(call) is not Kind.TENSOR:
        return Origin.UNKNOWN
    if short in FACTORIES or short == "from_numpy" or short in WHOLE:
        return Origin.NEW
    if not short[:1].islower():
        return Origin.UNKNOWN
    if any(each.arg == "dtype" and is_whole_type(script, each.value) for each in call.keywords):
        return Origin.SHARED
    return max(Origin.SHARED, _of_operands(script, given_values(call)))


def _of_type(script: Script, call: ast.Call) -> Origin:
    """`torch.FloatTensor(…)`: of numbers and arrays a new tensor; of a tensor a view, with its graph.

    Tensors of whole numbers have none, and the view is a tensor of its own.
    """
    if is_tensor_type(script, call.func, WHOLE_TYPES):
        return Origin.NEW
    match call.args:
        case [ast.Starred()]:
            return Origin.NEW  # sizes
        case [only] if not _is_array(script, only) and script.kind(only) is not Kind.SEQUENCE:
            return max(Origin.SHARED, origin(script, only))
        case _:
            return Origin.NEW


@fixpoint(True, False)
def _is_array(script: Script, expression: ast.expr) -> bool:
    """Whether an expression surely is no tensor, as what NumPy draws, casts, and computes of arrays and numbers."""
    match expression:
        case ast.Call(func=ast.Attribute(value=owner, attr=name)) if script.qualname(expression.func) is None:
            generators = [value.name in GENERATORS for value in script.values(owner)]
            drawn = name in DRAWING_METHODS and bool(generators) and all(generators)
            computed = name in ARRAY_METHODS and _is_array(script, owner)
            return drawn or computed or is_copy(script, expression) or _is_no_tensor(script, expression)
        case ast.Subscript(value=owner):
            return _is_array(script, owner) or _is_no_tensor(script, expression)
        case ast.BinOp(left=left, right=right) | ast.Compare(left=left, comparators=[right]):
            return _is_array(script, left) and _is_array(script, right)
        case ast.Name() if definitions := script.definitions(expression):
            values = [each.value for each in definitions if each.how == "assign" and not _is_rebound(script, each)]
            known = len(values) == len(definitions) and not any(each.path for each in definitions)
            computed = known and all(each is not None and _is_array(script, each) for each in values)
            return computed or _is_no_tensor(script, expression)
        case _:
            return _is_no_tensor(script, expression)


def _of_method(script: Script, call: ast.Call) -> Origin:
    assert isinstance(call.func, ast.Attribute)
    owner, method = call.func.value, call.func.attr
    if not is_tensor(script, owner):
        return Origin.UNKNOWN
    if method == "detach":
        return Origin.NEW
    if method in LEAVES:
        return Origin.UNKNOWN
    whole = method in ("to", "type") and any(is_whole_type(script, each) for each in given_values(call))
    if whole or method in ENDING_METHODS:  # `x.long()` is `x`, where that has whole numbers
        return max(Origin.SHARED, min(Origin.SHARED, origin(script, owner)))
    operands = Origin.NEW if method in _LIKE else _of_operands(script, given_values(call))
    found = origin(script, owner)
    return found if operands is Origin.NEW else max(Origin.SHARED, found, operands)


def _returned(script: Script, call: ast.Call, path: ElementPath = ()) -> Origin:
    """What functions of the project return, or a part of it, where it is known which."""
    if script.values(call.func).kinds != {Kind.FUNCTION}:
        return Origin.UNKNOWN
    functions = script.callees(call)
    found = Origin.NEW if functions else Origin.UNKNOWN
    for other, function in functions:
        returns = other.in_scope(function, ast.Return)
        is_generator = any(other.in_scope(function, kind) for kind in (ast.Yield, ast.YieldFrom))
        if function.decorator_list or not returns or is_generator:
            return Origin.UNKNOWN
        for leave in returns:
            if leave.value is None:
                return Origin.UNKNOWN
            found = max(found, _of_part(other, leave.value, path) if path else origin(other, leave.value))
    return found
