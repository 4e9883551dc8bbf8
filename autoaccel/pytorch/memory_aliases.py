"""What else may have the memory of an expression, or its object: what it is a view of, what its name was bound to."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from autoaccel.analysis.attributes import stores
from autoaccel.analysis.call_sites import arguments_for
from autoaccel.analysis.classes import lineage
from autoaccel.analysis.script import Script
from autoaccel.dataflow.abstract_values import Kind, Value
from autoaccel.dataflow.definitions import Definition, ElementPath
from autoaccel.library_models.tensor_operations import LOSSES, METHODS, PRODUCTS
from autoaccel.library_models.tensor_views import VIEW_ATTRIBUTES, VIEW_METHODS
from autoaccel.pytorch.arrays import is_fresh

_SHARES = frozenset(
    """torch.as_tensor torch.asarray torch.from_numpy torch.from_dlpack numpy.asarray numpy.ascontiguousarray
    numpy.asanyarray numpy.from_dlpack numpy.frombuffer numpy.nditer torch.frombuffer torch.autograd.Variable""".split()
) | {
    f"{library}.{view}"
    for library in ("torch", "numpy")
    for view in (*VIEW_METHODS, *VIEW_ATTRIBUTES, *"expand_dims atleast_1d atleast_2d atleast_3d".split())
}
VIEWING = VIEW_METHODS | {"contiguous", "numpy", "to", "storage", "untyped_storage"}
CONVERTING = frozenset("float double half bfloat16 long int short char byte bool type type_as cpu".split())
"""Methods that give the tensor itself where it is of that type, or in that place, already."""
# Methods that may give the same memory, or something that holds it, where the analysis says "copy".
MAYBE_SAME = (
    VIEW_METHODS
    | VIEW_ATTRIBUTES
    | CONVERTING
    | frozenset("contiguous to pin_memory asfarray astype get pop setdefault copy popitem".split())
)
_OF_LISTS = frozenset("torch.as_tensor torch.asarray numpy.asarray numpy.ascontiguousarray numpy.asanyarray".split())
_SEEDED = frozenset({"random.Random", "numpy.random.RandomState"})  # which keep nothing of their seed
NEW_MEMORY = frozenset(name for name in METHODS | PRODUCTS | LOSSES if not name.endswith("_")) - {
    "storage", "untyped_storage", *MAYBE_SAME
}  # fmt: skip


def same_memory(value: Value, *, converted: bool = False) -> Iterator[ast.expr]:
    """The tensors and arrays whose memory another one may share; none where it is its own, or not known. `converted`:
    what it is converted from as well, `x.float()`, which may be of that type already."""
    match value.node:
        case ast.Subscript(value=owner):
            yield owner
        case ast.Call(args=[first, *_]) if value.name in _SHARES and not _is_copied(value, first):
            yield first
        case ast.Call(func=ast.Attribute(value=owner, attr=attr)) if attr in VIEWING or (
            converted and attr in CONVERTING
        ):
            yield owner
        case ast.For(iter=owner) | ast.comprehension(iter=owner):
            yield owner


def _is_copied(value: Value, given: ast.expr) -> bool:
    """Whether a tensor or array is made of a list or tuple, whose numbers are copied, or of an array that nothing else
    refers to."""
    if value.script is None:
        return False
    listed = value.name in _OF_LISTS and value.script.kind(given) is Kind.SEQUENCE
    return listed or is_fresh(value.script, given)


def bound_to(file: Script, definitions: Iterable[Definition]) -> Iterator[tuple[Script, ast.expr]]:
    """What a name stands for, or is a part of, where it comes from: through arguments and `a = b`."""
    for each in definitions:
        if each.how == "param":
            yield from arguments_for(file, each.scope.node, each.name)
        elif each.value is not None and each.how in ("assign", "walrus", "with"):
            yield file, _element(each.value, each.path)


def held_as(file: Script, owner: ast.expr, attr: str) -> Iterator[tuple[Script, ast.expr]]:
    """What an object of the project holds under an attribute, which it may share: `self.labels = dataset.labels`."""
    for value in file.values(owner):
        for ref in lineage(value.cls) if value.cls is not None else ():
            for stored in stores(ref, attr):
                if stored.value is not None:
                    yield stored.script, _element(stored.value, stored.path)


def _element(value: ast.expr, path: ElementPath) -> ast.expr:
    """The part of a tuple that is written out, or the whole of what is not."""
    for index in path:
        match value:
            case ast.Tuple(elts=elements) | ast.List(elts=elements) if isinstance(index, int) and not any(
                isinstance(each, ast.Starred) for each in elements
            ):
                value = elements[index] if -len(elements) <= index < len(elements) else value
            case _:
                break
    return value


def shared_elements(file: Script, call: ast.Call, *, part: bool) -> ast.expr | None:
    """The object of which a call gives an element, `sample.get("image")`, or, where a `part` of what it gives is asked
    for, a copy with the same elements: `sample.copy()`, `copy.copy(sample)`."""
    match call:
        case ast.Call(func=ast.Attribute(value=owner, attr="get" | "setdefault")) if file.qualname(call.func) is None:
            return owner
        case ast.Call(func=ast.Attribute(value=owner, attr="copy"), args=[]) if file.qualname(call.func) is None:
            return owner if part else None
        case ast.Call(args=[copied]) if file.qualname(call.func) == "copy.copy":
            return copied if part else None
        case _:
            return None


def made_of(file: Script, expression: ast.expr) -> list[ast.expr]:
    """What an expression that is not followed may share memory with: what it is a part of, what a call is handed."""
    match expression:
        case ast.Attribute(value=inner) | ast.Subscript(value=inner) | ast.Starred(value=inner):
            return [inner]
        case ast.Call(func=function, args=arguments, keywords=keywords):
            name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
            if name in NEW_MEMORY or file.callees(expression) or file.qualname(function) in _SEEDED:
                return []
            method = isinstance(function, ast.Attribute) and file.qualname(function) is None
            handed = [*arguments, *(each.value for each in keywords)]
            return [function.value, *handed] if method and isinstance(function, ast.Attribute) else handed
        case _:
            return []


def unfollowed(file: Script, expression: ast.expr, *, part: bool = False) -> list[tuple[ast.expr, bool]]:
    """The same, of what a name is bound to as well; none where it is known what it is. With each goes whether it may
    have more than shares the memory: `part` says that the expression has.

    A copy has the elements of what it copies (`rows.copy()` of a list of tensors), but is itself another object."""
    if Kind.UNKNOWN not in file.values(expression).kinds:
        return []
    bound = file.definitions(expression) if isinstance(expression, ast.Name) else ()
    sources = [(expression, part)]
    for each in bound:
        if each.value is not None and each.how in ("assign", "for", "with"):
            sources.append((each.value, part or bool(each.path) or each.how != "assign"))
    return [
        (inner, inside or not _is_whole(file, each))
        for each, inside in sources
        if inside or not is_fresh(file, each)
        for inner in made_of(file, each)
    ]


def _is_whole(file: Script, expression: ast.expr) -> bool:
    """Whether a call gives what it is asked of as a whole, none of its elements: `x.copy()`, `x.transpose(1, 0)`."""
    match expression:
        case ast.Call(func=ast.Attribute(attr=attr) as function):
            return file.qualname(function) is None and attr in (*VIEWING, "copy", "astype")
        case _:
            return False
