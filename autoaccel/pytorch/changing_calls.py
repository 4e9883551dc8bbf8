"""Calls and assignments that may change an object: what methods and functions say of it by their names."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from autoaccel.analysis import name_lookups
from autoaccel.analysis.classes import class_info, lineage, methods
from autoaccel.analysis.script import Script
from autoaccel.dataflow.abstract_values import Kind, Value
from autoaccel.dataflow.call_arguments import given_values
from autoaccel.dataflow.query import once, once_all
from autoaccel.library_models.in_place_operations import (
    HANDING_ON,
    IN_PLACE_METHODS,
    changes_input,
    only_reads,
    written,
)
from autoaccel.library_models.python_names import BUILTINS, CONSTRUCTORS, CONTAINER_CHANGES
from autoaccel.library_models.tensor_operations import METHODS
from autoaccel.library_models.tensor_views import RESHAPING

CHANGING_METHODS = CONTAINER_CHANGES | frozenset(
    """appendleft extendleft popleft reverse rotate subtract fill put itemset partition resize push __setitem__
    __delitem__""".split()
)
UNCHANGED = frozenset(
    {Kind.NUMBER, Kind.STRING, Kind.BOOL, Kind.NONE, Kind.DTYPE, Kind.DEVICE, Kind.EXTERNAL, Kind.LOADER, Kind.CLASS}
    | {Kind.FUNCTION, Kind.LOSS_FUNCTION, Kind.BATCH}
)
_READING = ("get_", "is_", "has_", "to_", "num_", "n_", "as_", "convert_ids_to_")
_READS = RESHAPING | frozenset(
    """decode batch_decode encode tokenize inverse inverse_transform denormalize unnormalize format log info debug
    warning error print show plot describe summary state_dict save dump index count copy keys values items get
    len size numel dim item tolist join split strip rstrip lstrip lower upper replace startswith endswith clone
    detach float double half long int bool to cuda cpu numpy type expand repeat contiguous narrow chunk unbind mean
    sum std var max min argmax argmin any all norm mul add_scalar sub div pow exp log sqrt abs clamp round eq ne lt gt
    le ge softmax log_softmax sigmoid matmul mm bmm dot astype ravel""".split()
)


@once_all
def possible_changes(script: Script) -> Iterator[ast.AST]:
    """The places of a file that may change an object: what is assigned to, and calls that do not only read."""
    targets: Iterator[ast.Attribute | ast.Subscript] = script.find(ast.Attribute, ast.Subscript)
    for target in targets:
        if not isinstance(target.ctx, ast.Load) and not makes_anew(script, target):
            yield target
    for statement in script.find(ast.AugAssign):
        if isinstance(statement.target, ast.Name):
            yield statement
    for call in script.find(ast.Call):
        if is_library(script, call):
            if changed_by_library(script, call) or drawn_from(script, call) or is_unseen(script, call):
                yield call
        elif drawn_from(script, call) or (call.args and (writes(script, call) or is_unknown(script, call))):
            yield call
        elif isinstance(call.func, ast.Attribute) and (
            changes_owner(call.func.attr) or not _is_reading(call.func.attr)
        ):
            yield call


def is_library(script: Script, call: ast.Call) -> bool:
    if isinstance(call.func, ast.Name) and not script.definitions(call.func):
        return True
    return script.qualname(call.func) is not None and not script.is_project_name(call.func)


def changed_by_library(script: Script, call: ast.Call) -> list[ast.expr]:
    """What a function of a library changes: `random.shuffle(order)`, `torch.relu_(x)`, `torch.add(a, b, out=c)`."""
    return [*written(script.qualname(call.func) or f"builtins.{getattr(call.func, 'id', '')}", call)]


def is_unseen(script: Script, call: ast.Call) -> bool:
    """Whether a library's function may write to whatever it is handed; its classes only keep it."""
    name = script.qualname(call.func)
    if name is None:
        return getattr(call.func, "id", "") not in BUILTINS
    return not only_reads(name) and not name.rpartition(".")[2][:1].isupper()


def is_unknown(script: Script, call: ast.Call) -> bool:
    """Whether it is not known what a call enters, which may write to whatever it is handed."""
    if isinstance(call.func, ast.Attribute) and (_is_reading(call.func.attr) or _is_of_tensor(script, call.func)):
        return False
    return Kind.UNKNOWN in script.values(call.func).kinds and not script.callees(call)


def _is_of_tensor(script: Script, method: ast.Attribute) -> bool:
    """Whether a method is one that tensors have, of a tensor: `row.copy_(x)` writes to no other."""
    known = method.attr in METHODS or method.attr.removesuffix("_") in METHODS
    return known and script.values(method.value).kinds <= {Kind.TENSOR, Kind.PARAMETER}


def writes(script: Script, call: ast.Call) -> bool:
    """Whether a call writes to its first argument: `rng.shuffle(order)`, `object.__setattr__(data, "size", 2)`, a layer
    that works in place."""
    if not call.args or isinstance(call.args[0], ast.Constant):
        return False
    shuffles = isinstance(call.func, ast.Attribute) and call.func.attr in ("shuffle", *IN_PLACE_METHODS)
    return shuffles or any(writes_to_input(value) for value in script.values(call.func))


def drawn_from(script: Script, call: ast.Call) -> list[ast.expr]:
    """The generator that a call draws from, which is another one afterwards: `torch.randn(4, generator=noise)`."""
    if makes_order(script, call):
        return []
    return [keyword.value for keyword in call.keywords if keyword.arg == "generator"]


def makes_order(script: Script, call: ast.Call) -> bool:
    """Whether a call makes a loader or a sampler, which draw when they are iterated."""
    name = script.qualname(call.func) or ""
    return name.startswith("torch.utils.data.") and not name.endswith("random_split")


def changes_owner(method: str) -> bool:
    return method in CHANGING_METHODS or is_in_place(method)


def changes_object(script: Script, method: ast.Attribute) -> bool:
    """Whether a method changes its object, `rows.sort()`: by its name, and not of a tensor that stays as it is."""
    return changes_owner(method.attr) and not gives_new_tensor(script, method)


def gives_new_tensor(script: Script, method: ast.Attribute) -> bool:
    """Whether a method is a tensor's that gives another one, as `x.sort()` does: lists and arrays are changed by it."""
    return _is_of_tensor(script, method) and not is_in_place(method.attr)


@once_all
def bound_methods(script: Script) -> Iterator[tuple[ast.expr, ast.AST]]:
    """What in-place methods may change that are looked up, and where: `step = x.add_` may be called by any name."""
    for read in script.find(ast.Attribute):
        known = read.attr in METHODS or read.attr[:-1] in METHODS
        if known and is_in_place(read.attr) and script.call_of(read) is None:
            yield from ((read.value, place) for place in (read, *_unknown_calls(script)))
    for call in script.syntax_index.calls_named("getattr"):
        match call.args:
            case [owner, ast.Constant(value=str() as name), *_] if not is_in_place(name):
                pass
            case [owner, _, *_] if script.call_of(call) is not None:
                yield owner, call
            case [owner, _, *_] if script.values(owner).kinds & {Kind.TENSOR, Kind.ARRAY, Kind.BATCH}:
                yield from ((owner, place) for place in (call, *_unknown_calls(script)))


@once_all
def held_methods(script: Script) -> Iterator[tuple[ast.expr, ast.AST | None]]:
    """What methods and functions may change that are kept to be called later, `callback(rows.append)`, and the calls;
    None where whoever has got one may call it at any time."""
    for read in script.find(ast.Attribute):
        if changes_owner(read.attr) and isinstance(read.ctx, ast.Load) and script.call_of(read) is None:
            if not _is_stored(script, read):
                yield from ((read.value, place) for place in name_lookups.calls_of(script, read))
    for call in script.syntax_index.calls_named("getattr"):
        match call.args:
            case [owner, ast.Constant(value=str() as name), *_] if not changes_owner(name):
                pass
            case [owner, _, *_] if script.call_of(call) is None:
                yield from ((owner, place) for place in name_lookups.calls_of(script, call))
    for call in script.calls("functools.partial"):
        if call.args and isinstance(call.args[0], ast.Name | ast.Attribute):
            places = [*name_lookups.calls_of(script, call)]
            yield from ((owner, place) for owner in _bound_by(script, call) for place in places)


def _is_stored(script: Script, read: ast.Attribute) -> bool:
    """Whether objects of the project's classes keep something of their own under the name of such a method:
    `self.resize = 84`."""
    owners = script.values(read.value)
    return bool(owners) and all(
        owner.cls is not None
        and any(read.attr in class_info(each).attributes for each in lineage(owner.cls))
        and not any(True for _ in methods(owner.cls, read.attr))
        for owner in owners
    )


def _bound_by(script: Script, partial: ast.Call) -> Iterator[ast.expr]:
    """What the function of a `partial` changes among the arguments that it is given there; those of the project's own
    functions are found where they are mentioned."""
    function = partial.args[0]
    later = ast.Call(func=function, args=partial.args[1:], keywords=partial.keywords)
    if isinstance(function, ast.Attribute) and changes_owner(function.attr):
        yield from later.args[:1]  # `list.append`
    if is_library(script, later):
        yield from changed_by_library(script, later)
        yield from given_values(later) if is_unseen(script, later) else ()
    elif Kind.UNKNOWN in script.values(function).kinds:
        yield from given_values(later)


@once
def _unknown_calls(script: Script) -> tuple[ast.Call, ...]:
    """The calls of a file of which it is not known what they call."""
    return tuple(
        call
        for call in script.find(ast.Call)
        if not is_library(script, call) and Kind.UNKNOWN in script.values(call.func).kinds
    )


def is_in_place(method: str) -> bool:
    """Whether the name of a method says that it changes its tensor."""
    return method in IN_PLACE_METHODS or (
        method.endswith("_") and not method.endswith("__") and method != "requires_grad_"
    )


def writes_to_input(value: Value, seen: frozenset[ast.AST] = frozenset()) -> bool:
    """Whether a library's layer writes to what it is called with: `nn.ReLU(inplace=True)`, or a sequence that begins
    so.

    What has parameters is handed what was moved to them; nothing is said of sequences whose first layer is not seen."""
    if value.kind is not Kind.MODULE or value.cls is not None or not isinstance(value.node, ast.Call):
        return False
    name = value.name or ""
    if name != "torch.nn.Sequential":
        return changes_input(name, value.node)
    seen |= {value.node}
    for part in value.node.args:
        layers = [] if value.script is None or isinstance(part, ast.Starred) else [*value.script.values(part)]
        if any(writes_to_input(each, seen) for each in layers if each.node not in seen):
            return True
        if not layers or not all((each.name or "").rpartition(".")[2] in HANDING_ON for each in layers):
            return False
    return False


def makes_anew(file: Script, target: ast.AST) -> bool:
    """`self.x = …` in a constructor: the object is new, and nobody has read it."""
    function = file.function(target)
    owner = getattr(target, "value", None)
    return (
        isinstance(function, ast.FunctionDef)
        and function.name in CONSTRUCTORS
        and isinstance(owner, ast.Name)
        and bool(function.args.args)
        and owner.id == function.args.args[0].arg
    )


def _is_reading(method: str) -> bool:
    return method in _READS or method.startswith(("__", *_READING))
