"""Tensors that are changed themselves, and the names that may hold them: these can be told from other tensors over the
same memory, which see no more than the numbers change."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from autoaccel.analysis.attribute_values import stored_values
from autoaccel.analysis.attributes import stores
from autoaccel.analysis.callables import called_name
from autoaccel.analysis.classes import class_info, lineage
from autoaccel.analysis.script import Script
from autoaccel.dataflow.abstract_values import ClassRef, Kind, Value
from autoaccel.dataflow.call_arguments import given_values, unpacks
from autoaccel.dataflow.completeness import Incomplete
from autoaccel.dataflow.definitions import Definition
from autoaccel.dataflow.query import once
from autoaccel.library_models.tensor_operations import DRAWING, FILLING, ROUNDED
from autoaccel.pytorch.object_references import all_callers, connected_files
from autoaccel.pytorch.plain_batches import has_plain_samples
from autoaccel.pytorch.tensor_kinds import NO_TENSORS, WHOLE_TYPES, is_tensor, is_tensor_type, may_be_tensor

FACTORIES = (FILLING | ROUNDED | DRAWING) - {"normal"}
LEAVES = frozenset("requires_grad_ retain_grad register_hook".split())
# Their attributes and elements may be tensors, they are none; parameters are no data.
_OBJECTS = NO_TENSORS | {Kind.PARAMETER, Kind.MODULE, Kind.OPTIMIZER, Kind.OBJECT, Kind.LOADER, Kind.DATASET}
_APART = frozenset("detach data clone numpy item tolist repeat shape".split())  # no change of these changes their owner
_COPIES = frozenset({"copy", "astype"})  # no tensor has them; of arrays and containers they give others
# What a tensor changes of itself, and not of its memory's numbers.
_RESHAPED = frozenset(
    """resize_ resize_as_ set_ t_ transpose_ squeeze_ unsqueeze_ swapaxes_ swapdims_ as_strided_ rename_
    detach_""".split()
)
_WHOLE_CASTS = frozenset("long int short byte char bool".split())
_STATE = frozenset("requires_grad grad data names".split())
_MENTIONS = (*sorted(LEAVES | _RESHAPED), "_base", "_is_view")


def is_changed(script: Script, definition: Definition) -> bool:
    """Whether a tensor that a name may hold may be changed itself, by this name or another: see `_Changed`."""
    changed = _changed_tensors(script)
    return changed.any or definition in changed.definitions


def is_changed_batch(script: Script, batch: Value) -> bool:
    """The same for a part of a batch."""
    changed = _changed_tensors(script)
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
        value = assigned(definition)
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
            given = passed(script, definition, other, call)
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
        elif is_copy(script, call):
            pass
        else:
            self.any = True


def is_copy(script: Script, call: ast.Call) -> bool:
    """Whether a method copies an array or a container: `rows.astype(float)`."""
    return isinstance(call.func, ast.Attribute) and call.func.attr in _COPIES and not _defines(script, _COPIES)


@once
def _defines(script: Script, names: frozenset[str]) -> bool:
    """Whether a method of the project has one of some names."""
    return any(each.name in names for other in connected_files(script) for each in other.find(ast.FunctionDef))


def _may_hand_on(script: Script, call: ast.Call, name: str | None) -> bool:
    """Whether a library may give what it is given, or a view of it: neither of sizes, nor of numbers."""
    if is_tensor_type(script, call.func):
        return len(call.args) == 1
    return name is None or name.removeprefix("torch.") not in FACTORIES


@once
def _changed_tensors(script: Script) -> _Changed:
    """The tensors of a script, and of the files that share its objects, that are changed themselves."""
    found = _Changed()
    try:
        files = connected_files(script)
        for other in files:
            for each in _changed_in(other):
                if each is None:
                    found.any = True
                else:
                    found.add(other, each)
        copies = [(other, written, _batches_given(other, call)) for other in files for call, written in _writing(other)]
        for _ in copies:  # what one has changed the next may write
            for other, written, batches in copies:
                if any(batch.node in found.batches for batch in batches):
                    found.add(other, written)
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
            if may_be_tensor(script, stored.value):
                yield stored.value
    for call in script.syntax_index.calls_named("setattr", "id"):
        yield call.args[0] if call.args else None
    for call, written in _writing(script):
        if not _batches_given(script, call):
            yield written
    for statement in script.find(ast.AugAssign):
        plain = script.values(statement.value).kinds <= NO_TENSORS or _reads_number(script, statement.value)
        if not plain and may_be_tensor(script, statement.target):
            if not _is_own_sum(script, statement.target):
                yield statement.target
    for assigned in script.find(ast.Assign):
        for target in assigned.targets:
            if isinstance(target, ast.Subscript) and not script.values(assigned.value).kinds <= NO_TENSORS:
                if isinstance(target.slice, ast.Constant) and isinstance(target.slice.value, str):
                    continue  # no tensor has keys
                if not _holds_no_graph(script, assigned.value) and may_be_tensor(script, target.value):
                    yield target.value
    for compared in script.find(ast.Compare):
        if any(isinstance(each, ast.Is | ast.IsNot) for each in compared.ops):
            sides = [compared.left, *compared.comparators]
            if all(may_be_tensor(script, each) for each in sides):
                yield from sides


def _reads_number(script: Script, expression: ast.expr) -> bool:
    """`x.item()` of whatever has such a method: of tensors and arrays, where no class of the project has one."""
    match expression:
        case ast.Call(func=ast.Attribute(attr="item"), args=[], keywords=[]):
            return not _defines(script, frozenset({"item"}))
        case _:
            return False


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
    return not bound and bool(stored) and all(stored_values(each).kinds <= NO_TENSORS for each in stored)


def _writing(script: Script) -> Iterator[tuple[ast.Call, ast.expr]]:
    """Calls that may write what carries a graph into the tensor that is their receiver."""
    for call in script.find(ast.Call):
        if isinstance(call.func, ast.Attribute) and _writes(script, call.func, given_values(call)):
            yield call, call.func.value


def _batches_given(script: Script, call: ast.Call) -> list[Value]:
    """The batches whose parts a call is given, if their samples carry no graph and it is given no other tensors."""
    found = [value for each in given_values(call) for value in script.values(each) if value.kind not in NO_TENSORS]
    plain = (each.kind is Kind.BATCH and each.how in (None, "view") and has_plain_samples(each) for each in found)
    return found if all(plain) else []


def _writes(script: Script, method: ast.Attribute, given: Iterable[ast.expr]) -> bool:
    """Whether a method may write what carries a graph into its tensor."""
    name = method.attr
    if not name.endswith("_") or name.startswith("_") or name in (*LEAVES, *_RESHAPED):
        return False
    if script.qualname(method) is not None or not may_be_tensor(script, method.value):
        return False
    if _holds_no_graph(script, method.value):
        return False
    return any(not script.values(each).kinds <= NO_TENSORS for each in given)


def _holds_no_graph(script: Script, expression: ast.expr) -> bool:
    """Whether a tensor has no graph and is given none by writing into it: one of whole numbers, as the call says."""
    match expression:
        case ast.Call(func=ast.Attribute(value=owner, attr=name), args=[], keywords=[]) if name in _WHOLE_CASTS:
            return is_tensor(script, owner)
        case ast.Call(func=function):
            return is_tensor_type(script, function, WHOLE_TYPES)
        case _:
            return False


def assigned(definition: Definition) -> ast.expr | None:
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


def passed(script: Script, parameter: Definition, other: Script, call: ast.Call) -> tuple[Script, ast.expr] | None:
    """What a call in another file passes for a parameter, or its default with the file of it; None where neither is
    in sight."""
    given = other.argument(call, parameter.scope.node, parameter.name, script)
    if given is not None:
        return other, given
    return None if parameter.value is None or unpacks(call) else (script, parameter.value)
