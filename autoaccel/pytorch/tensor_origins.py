"""Where a tensor comes from: whether an expression makes it anew, whether it may carry a graph, and whether somebody
may see which of two tensors over the same memory it is.

`Variable(x)` and `x.detach()` give another tensor over the memory of `x`, without its graph. They can be told from `x`
by the graph, and where one of the two tensors changes itself: its shape, its memory, whether it requires gradients.
"""

from __future__ import annotations

import ast
import enum
from collections.abc import Iterable, Iterator

from autoaccel.analysis.attribute_values import stored_values
from autoaccel.analysis.attributes import stores
from autoaccel.analysis.callables import called_name
from autoaccel.analysis.classes import class_info, lineage
from autoaccel.analysis.rebound_names import rebound_names
from autoaccel.analysis.script import Script
from autoaccel.dataflow.abstract_values import ClassRef, Kind, Value, Values
from autoaccel.dataflow.call_arguments import given_values, unpacks
from autoaccel.dataflow.completeness import Incomplete
from autoaccel.dataflow.definitions import Definition, ElementPath
from autoaccel.dataflow.query import fixpoint, once
from autoaccel.dataflow.syntax_index import is_constant
from autoaccel.library_models.graph_operations import ENDING_METHODS
from autoaccel.library_models.tensor_operations import DRAWING, FILLING, ROUNDED, WHOLE, WITH_INDICES
from autoaccel.library_models.tensor_views import VIEW_ATTRIBUTES, VIEW_METHODS
from autoaccel.pytorch.loader_calls import LoaderCall, loader_calls
from autoaccel.pytorch.loader_loops import loader_loops
from autoaccel.pytorch.object_references import all_callers, connected_files
from autoaccel.pytorch.sample_code import keeps_gradients, reachable


class Origin(enum.IntEnum):
    """What is known of a tensor; of several that it may be, the last."""

    NEW = 0
    """It has no graph, and nothing but the expression refers to it."""
    SHARED = 1
    """It has no graph; others may refer to it."""
    UNKNOWN = 2
    """It may have a graph, or be a leaf that requires gradients."""


VARIABLE = "torch.autograd.Variable"
_TENSORS = frozenset({Kind.TENSOR, Kind.BATCH})
_NO_TENSORS = frozenset(
    {Kind.NUMBER, Kind.STRING, Kind.BOOL, Kind.NONE, Kind.DEVICE, Kind.DTYPE, Kind.ARRAY, Kind.CLASS, Kind.FUNCTION}
)
# Their attributes and elements may be tensors, they are none; parameters are no data.
_OBJECTS = _NO_TENSORS | {Kind.PARAMETER, Kind.MODULE, Kind.OPTIMIZER, Kind.OBJECT, Kind.LOADER, Kind.DATASET}
_FACTORIES = (FILLING | ROUNDED | DRAWING) - {"normal"}
_DETACHED = frozenset({"detach", "data"})
_APART = _DETACHED | {"clone", "numpy", "item", "tolist", "repeat", "shape"}  # no change of these changes their owner
_COPIES = frozenset({"copy", "astype"})  # no tensor has them; of arrays and containers they give others
# Methods that take a tensor for its type, shape or device alone, if they take one.
_LIKE = VIEW_METHODS | frozenset("type_as to type cuda cpu repeat sum mean max min".split())
_LEAVES = frozenset("requires_grad_ retain_grad register_hook".split())
# What a tensor changes of itself, and not of its memory's numbers.
_RESHAPED = frozenset(
    """resize_ resize_as_ set_ t_ transpose_ squeeze_ unsqueeze_ swapaxes_ swapdims_ as_strided_ rename_
    detach_""".split()
)
_WHOLE_CASTS = frozenset("long int short byte char bool".split())
_WHOLE_TYPES = tuple(f".{name}Tensor" for name in ("Long", "Int", "Short", "Byte", "Char", "Bool"))
_STATE = frozenset("requires_grad grad data names".split())
_MENTIONS = (*sorted(_LEAVES | _RESHAPED), "_base", "_is_view")


def is_tensor(script: Script, expression: ast.expr) -> bool:
    """Whether a value surely is a tensor, if it is not a batch of several."""
    return script.values(expression).kinds <= _TENSORS | {Kind.PARAMETER}


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
        case ast.Subscript(value=owner, slice=index) if script.kind(owner) is Kind.TENSOR:
            return max(Origin.SHARED, origin(script, owner), _of_operands(script, [index]))
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
            case ast.Starred(value=part):
                found = max(found, _of_operands(script, [part]))
            case ast.Slice():
                found = max(found, _of_operands(script, [x for x in (each.lower, each.upper, each.step) if x]))
            case _ if not script.values(each).kinds <= _NO_TENSORS:
                found = max(found, origin(script, each))
    return found


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
            value = _assigned(definition)
            return Origin.UNKNOWN if value is None else _of_operands(script, [value])
        case _:
            return Origin.UNKNOWN


def _of_pair(script: Script, value: ast.expr, path: ElementPath) -> Origin | None:
    """Of `values, places = x.sort(0)` the part that a name gets; None of anything else."""
    match value, path:
        case ast.Call(func=ast.Attribute(value=owner, attr=name)), (0 | 1 as place,) if name in WITH_INDICES:
            if is_tensor(script, owner):
                return Origin.NEW if place else max(Origin.SHARED, origin(script, owner))
    return None


def _assigned(definition: Definition) -> ast.expr | None:
    """The part of an assigned value that a name gets."""
    value = definition.value
    for step in definition.path:
        match value:
            case ast.Tuple(elts=parts) | ast.List(elts=parts) if isinstance(step, int) and 0 <= step < len(parts):
                if any(isinstance(each, ast.Starred) for each in parts):
                    return None
                value = parts[step]
            case _:
                return None
    return value


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
        given = _given(script, definition, other, call)
        if given is None:
            return Origin.UNKNOWN
        found = max(found, _of_operands(given[0], [given[1]]))
    return found


def _given(script: Script, parameter: Definition, other: Script, call: ast.Call) -> tuple[Script, ast.expr] | None:
    """What a call in another file passes for a parameter, or its default with the file of it; None where neither is
    in sight."""
    given = other.argument(call, parameter.scope.node, parameter.name, script)
    if given is not None:
        return other, given
    return None if parameter.value is None or unpacks(call) else (script, parameter.value)


def _of_batch(script: Script, expression: ast.expr) -> Origin:
    """A part of a loader's batch, where nothing that makes samples runs a model or requires gradients."""
    values = [value for value in script.values(expression) if value.kind is Kind.BATCH]
    if any(_is_changed_batch(script, value) for value in values):
        return Origin.UNKNOWN
    return Origin.SHARED if values and all(_has_plain_samples(value) for value in values) else Origin.UNKNOWN


def _has_plain_samples(batch: Value) -> bool:
    file = batch.script
    if file is None:
        return False
    loaders = [file.values(loop.loader) for loop in loader_loops(file) if loop.node is batch.node]
    if not loaders and isinstance(batch.node, ast.Call):
        parts: list[ast.expr] = [*file.within(batch.node, ast.Name), *file.within(batch.node, ast.Call)]
        loaders = [each for part in parts for each in _loaders(file.values(part))]
    if not loaders or any(each.kind is not Kind.LOADER for each in loaders):
        return False
    created = [(each.script, each.node) for values in loaders for each in values]
    made = [(other, call) for other, call in created if other is not None and isinstance(call, ast.Call)]
    calls = [(other, each) for other, call in made for each in loader_calls(other) if each.call is call]
    return len(calls) == len(made) and not any(_has_graph(other, each) for other, each in calls)


def _loaders(values: Values) -> Iterator[Values]:
    """The loaders that an expression may be, or that an iterator goes over: `next(iter(loader))`, `next(batches)`."""
    if values.kind is Kind.LOADER:
        yield values
    elif values.kind is Kind.ITERATOR:
        for value in values:
            yield from (each for _, each in value.items)


def _has_graph(script: Script, loader: LoaderCall) -> bool:
    """Whether the batches of a loader may have a graph, or it is not known what they are made from."""
    parts = [loader.settings[name] for name in ("dataset", "collate_fn") if name in loader.settings]
    known = loader.problem is None and "dataset" in loader.settings and "collate_fn" not in loader.possible
    return not known or any(_makes_graph(script, each) for each in parts)


@once
def _makes_graph(script: Script, expression: ast.expr) -> bool:
    """Whether what makes samples may run a model, or require gradients."""
    if keeps_gradients(script, expression):
        return True
    return any(
        isinstance(node, ast.Name | ast.Attribute | ast.Call) and file.kind(node) in (Kind.MODULE, Kind.PARAMETER)
        for file, node in reachable(script, expression)
    )


# -- calls


def _of_call(script: Script, call: ast.Call) -> Origin:
    name = script.qualname(call.func)
    if any(each.arg is None for each in call.keywords):
        return Origin.UNKNOWN
    if name == VARIABLE:
        return Origin.NEW if asks_for_no_gradient(call) else Origin.UNKNOWN
    functions = script.callees(call)
    if functions:
        return _returned(script, call)
    if any(each.arg == "out" or _asks_for_gradient(each) for each in call.keywords):
        return Origin.UNKNOWN
    if name is not None:
        return _of_library(script, call, name)
    if is_tensor_type(script, call.func):
        return _of_type(script, call)
    return _of_method(script, call) if isinstance(call.func, ast.Attribute) else Origin.UNKNOWN


def asks_for_no_gradient(call: ast.Call) -> bool:
    """Whether `Variable(x)` gives a tensor without a graph."""
    asked = [*call.args[1:2], *(each.value for each in call.keywords if each.arg == "requires_grad")]
    return all(is_constant(each, False) for each in asked)


def _asks_for_gradient(keyword: ast.keyword) -> bool:
    return keyword.arg == "requires_grad" and not is_constant(keyword.value, False)


def _of_library(script: Script, call: ast.Call, name: str) -> Origin:
    module, _, short = name.rpartition(".")
    if module != "torch":
        return _of_type(script, call) if is_tensor_type(script, call.func) else Origin.UNKNOWN
    if is_tensor_type(script, call.func):
        return _of_type(script, call)
    if script.kind(call) is not Kind.TENSOR:
        return Origin.UNKNOWN
    if short in _FACTORIES or short == "from_numpy" or short in WHOLE:
        return Origin.NEW
    operands = _of_operands(script, given_values(call))
    return max(Origin.SHARED, operands) if short[:1].islower() else Origin.UNKNOWN


def is_tensor_type(script: Script, function: ast.expr, ends: tuple[str, ...] = ("Tensor",)) -> bool:
    """Whether an expression is one of the old types, `torch.FloatTensor`, or the name of one or the other.

    With `ends` one of those whose names end so.
    """
    name = script.qualname(function)
    if name is not None:
        return name.startswith(("torch.", "torch.cuda.")) and name.endswith(ends) and name.count(".") <= 2
    match function:
        case ast.Name():
            definitions = script.definitions(function)
            return bool(definitions) and all(
                each.how == "assign" and not each.path and each.value is not None and _is_type(script, each.value, ends)
                for each in definitions
            )
        case _:
            return False


def _is_type(script: Script, expression: ast.expr, ends: tuple[str, ...]) -> bool:
    match expression:
        case ast.IfExp(body=body, orelse=orelse):
            return _is_type(script, body, ends) and _is_type(script, orelse, ends)
        case _:
            return script.qualname(expression) is not None and is_tensor_type(script, expression, ends)


def _holds_no_graph(script: Script, expression: ast.expr) -> bool:
    """Whether a tensor has no graph and is given none by writing into it: one of whole numbers, as the call says."""
    match expression:
        case ast.Call(func=ast.Attribute(value=owner, attr=name), args=[], keywords=[]) if name in _WHOLE_CASTS:
            return is_tensor(script, owner)
        case ast.Call(func=function):
            return is_tensor_type(script, function, _WHOLE_TYPES)
        case _:
            return False


def _of_type(script: Script, call: ast.Call) -> Origin:
    """`torch.FloatTensor(…)`: of numbers and arrays a new tensor; of a tensor a view, with its graph."""
    match call.args:
        case [ast.Starred()]:
            return Origin.NEW  # sizes
        case [only] if not script.values(only).kinds <= _NO_TENSORS | {Kind.SEQUENCE}:
            return max(Origin.SHARED, origin(script, only))
        case _:
            return Origin.NEW


def _of_method(script: Script, call: ast.Call) -> Origin:
    assert isinstance(call.func, ast.Attribute)
    owner, method = call.func.value, call.func.attr
    if not is_tensor(script, owner):
        return Origin.UNKNOWN
    if method == "detach":
        return Origin.NEW
    if method in _LEAVES:
        return Origin.UNKNOWN
    if method in ENDING_METHODS:  # `x.long()` is `x`, where that has whole numbers
        return max(Origin.SHARED, min(Origin.SHARED, origin(script, owner)))
    operands = Origin.NEW if method in _LIKE else _of_operands(script, given_values(call))
    found = origin(script, owner)
    return found if operands is Origin.NEW else max(Origin.SHARED, found, operands)


def _returned(script: Script, call: ast.Call) -> Origin:
    """What functions of the project return, where it is known which."""
    if script.values(call.func).kinds != {Kind.FUNCTION}:
        return Origin.UNKNOWN
    found = Origin.NEW
    for other, function in script.callees(call):
        returns = other.in_scope(function, ast.Return)
        if function.decorator_list or not returns or any(True for _ in _yields(other, function)):
            return Origin.UNKNOWN
        for leave in returns:
            found = Origin.UNKNOWN if leave.value is None else max(found, origin(other, leave.value))
    return found


def _yields(script: Script, function: ast.FunctionDef) -> Iterator[ast.expr]:
    yield from script.in_scope(function, ast.Yield)
    yield from script.in_scope(function, ast.YieldFrom)


# -- tensors that are changed themselves


def is_changed(script: Script, definition: Definition) -> bool:
    """Whether a tensor that a name may hold may be changed itself, by this name or another: see `_Changed`."""
    changed = changed_tensors(script)
    return changed.any or definition in changed.definitions


def _is_changed_batch(script: Script, batch: Value) -> bool:
    changed = changed_tensors(script)
    return changed.any or batch.node in changed.batches


class _Changed:
    """The names that may hold a tensor which is changed itself: made a leaf, given a graph in place, a shape or other
    memory, or compared by identity. `any`: it may be any tensor."""

    def __init__(self) -> None:
        self.any = False
        self.definitions: set[Definition] = set()
        self.batches: set[ast.AST | None] = set()

    def add(self, script: Script, expression: ast.expr) -> None:
        """Whatever else holds the tensor of an expression."""
        if self.any or script.values(expression).kinds <= _OBJECTS:
            return
        match expression:
            case ast.Name():
                self._add_name(script, expression)
            case ast.BinOp() | ast.UnaryOp() | ast.Compare() | ast.Constant():
                pass
            case ast.Attribute(attr=name) if name in _APART:
                pass
            case ast.Subscript(value=owner) if script.kind(expression) is not Kind.BATCH:
                self.add(script, owner)
            case ast.IfExp(body=body, orelse=orelse):
                self.add(script, body)
                self.add(script, orelse)
            case ast.Call():
                self._add_result(script, expression)
            case _ if script.kind(expression) is Kind.BATCH:
                self._add_batch(script, expression)
            case _:
                self.any = True

    def _add_name(self, script: Script, name: ast.Name) -> None:
        definitions = script.definitions(name)
        if not definitions:
            self.any = True
        for each in definitions:
            if each not in self.definitions:
                self.definitions.add(each)
                self._add_definition(script, each, name)

    def _add_definition(self, script: Script, definition: Definition, name: ast.Name) -> None:
        value = _assigned(definition)
        match definition.how:
            case "assign" | "walrus" if value is not None:
                self.add(script, value)
            case "aug" if isinstance(definition.node, ast.AugAssign) and isinstance(definition.node.target, ast.Name):
                for before in script.reaching_definitions.before_addition(definition.node.target):
                    if before not in self.definitions:
                        self.definitions.add(before)
                        self._add_definition(script, before, name)
            case "param" if isinstance(definition.scope.node, ast.FunctionDef) and not definition.path:
                self._add_arguments(script, definition)
            case _ if script.kind(name) is Kind.BATCH:
                self._add_batch(script, name)
            case _:
                self.any = True

    def _add_arguments(self, script: Script, definition: Definition) -> None:
        function = definition.scope.node
        assert isinstance(function, ast.FunctionDef)
        for other, call in all_callers(script, function):
            given = _given(script, definition, other, call)
            if given is None:
                self.any = True
            else:
                self.add(*given)

    def _add_batch(self, script: Script, expression: ast.expr) -> None:
        self.batches.update(value.node for value in script.values(expression) if value.kind is Kind.BATCH)

    def _add_result(self, script: Script, call: ast.Call) -> None:
        name = called_name(script, call.func)
        functions = script.callees(call)
        if functions and script.values(call.func).kinds == {Kind.FUNCTION}:
            for other, function in functions:
                for leave in other.in_scope(function, ast.Return):
                    if leave.value is not None:
                        self.add(other, leave.value)
        elif functions:
            self.any = True
        elif script.kind(call.func) is Kind.LOSS_FUNCTION:
            pass
        elif name is not None or is_tensor_type(script, call.func) or script.kind(call.func) is Kind.MODULE:
            for each in call.args if _may_hand_on(script, call, name) else ():
                self.add(script, each)
        elif isinstance(call.func, ast.Attribute) and is_tensor(script, call.func.value):
            if call.func.attr not in _APART:
                self.add(script, call.func.value)
        elif isinstance(call.func, ast.Attribute) and call.func.attr in _COPIES and not _defines(script, _COPIES):
            pass
        else:
            self.any = True


@once
def _defines(script: Script, names: frozenset[str]) -> bool:
    """Whether a method of the project has one of some names."""
    return any(each.name in names for other in connected_files(script) for each in other.find(ast.FunctionDef))


def _may_hand_on(script: Script, call: ast.Call, name: str | None) -> bool:
    """Whether a library may give what it is given, or a view of it: neither of sizes, nor of numbers."""
    if is_tensor_type(script, call.func):
        return len(call.args) == 1
    return name is None or name.removeprefix("torch.") not in _FACTORIES


@once
def changed_tensors(script: Script) -> _Changed:
    """The tensors of a script, and of the files that share its objects, that are changed themselves."""
    found = _Changed()
    try:
        for other in connected_files(script):
            for each in _changed_in(other):
                if each is None:
                    found.any = True
                else:
                    found.add(other, each)
    except Incomplete:
        found.any = True
    return found


def _changed_in(script: Script) -> Iterator[ast.expr | None]:
    """The expressions of a file whose tensors are changed themselves; None where it cannot be told which."""
    for mention in script.syntax_index.mentions(*_MENTIONS):
        if isinstance(mention, ast.Attribute):
            called = script.call_of(mention) is not None and script.qualname(mention) is None
            yield mention.value if called else None  # else it is by whoever is handed it
    for stored in script.find(ast.Attribute):
        if stored.attr in _STATE and not isinstance(stored.ctx, ast.Load):
            if script.values(stored.value).kinds & {*_TENSORS, Kind.UNKNOWN}:
                yield stored.value
    for call in script.syntax_index.calls_named("setattr", "id"):
        yield call.args[0] if call.args else None
    for call in script.find(ast.Call):
        if isinstance(call.func, ast.Attribute) and _writes(script, call.func, given_values(call)):
            yield call.func.value
    for statement in script.find(ast.AugAssign):
        if not script.values(statement.value).kinds <= _NO_TENSORS and _may_be_tensor(script, statement.target):
            if not _is_own_sum(script, statement.target):
                yield statement.target
    for assigned in script.find(ast.Assign):
        for target in assigned.targets:
            if isinstance(target, ast.Subscript) and not script.values(assigned.value).kinds <= _NO_TENSORS:
                if _is_text(target.slice):
                    continue  # no tensor has keys
                if not _holds_no_graph(script, assigned.value) and _may_be_tensor(script, target.value):
                    yield target.value
    for compared in script.find(ast.Compare):
        if any(isinstance(each, ast.Is | ast.IsNot) for each in compared.ops):
            sides = [compared.left, *compared.comparators]
            if all(_may_be_tensor(script, each) for each in sides):
                yield from sides


def _is_text(key: ast.expr) -> bool:
    return isinstance(key, ast.Constant) and isinstance(key.value, str)


def _is_own_sum(script: Script, target: ast.expr) -> bool:
    """Whether an attribute that is added to begins as a number wherever it is stored: what changes then is the tensor
    that the first addition has made. Who reads the attribute knows nothing of its origin."""
    if not isinstance(target, ast.Attribute):
        return False
    owners = script.values(target.value)
    return all(value.cls is not None and _begins_as_number(value.cls, target.attr) for value in owners)


def _begins_as_number(cls: ClassRef, name: str) -> bool:
    stored = [each for each in stores(cls, name) if each.how != "add"]
    bound = [
        definition
        for ref in lineage(cls)
        for definition, _ in class_info(ref).attributes.get(name, ())
        if not isinstance(definition, ast.expr)
    ]
    return not bound and bool(stored) and all(stored_values(each).kinds <= _NO_TENSORS for each in stored)


def _may_be_tensor(script: Script, expression: ast.expr) -> bool:
    return bool(script.values(expression).kinds & {Kind.TENSOR, Kind.BATCH, Kind.UNKNOWN})


def _writes(script: Script, method: ast.Attribute, given: Iterable[ast.expr]) -> bool:
    """Whether a method may write what carries a graph into its tensor."""
    name = method.attr
    if not name.endswith("_") or name.startswith("_") or name in (*_LEAVES, *_RESHAPED):
        return False
    if script.qualname(method) is not None or not _may_be_tensor(script, method.value):
        return False
    if _holds_no_graph(script, method.value):
        return False
    return any(not script.values(each).kinds <= _NO_TENSORS for each in given)
