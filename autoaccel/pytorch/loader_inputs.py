"""What the batches of a loader are made from: whether an object, a name or an attribute is, or may be, part of that.

Workers hold a copy of the dataset, and whoever fetches ahead fetches before the step that comes first. Both are right
only where nothing that makes samples, their order or their collation is trained, requires gradients or is changed by
the loop.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from autoaccel.analysis.script import Script
from autoaccel.dataflow.abstract_values import Kind, Value
from autoaccel.pytorch import datasets
from autoaccel.pytorch.loader_calls import LoaderCall
from autoaccel.pytorch.memory_aliases import (
    CONVERTING,
    VIEWING,
    bound_to,
    held_as,
    same_memory,
    shared_elements,
    unfollowed,
)

IN_WORKERS = ("dataset", "collate_fn", "worker_init_fn")
ALL = (*IN_WORKERS, "sampler", "batch_sampler", "generator")
PARTS = frozenset(ALL)
IMMUTABLE = frozenset({Kind.NUMBER, Kind.STRING, Kind.BOOL, Kind.NONE, Kind.DTYPE, Kind.DEVICE})
TRAINING = frozenset({Kind.MODULE, Kind.LOSS_FUNCTION, Kind.OPTIMIZER, Kind.SCHEDULER})
_MEMORY = frozenset({Kind.TENSOR, Kind.ARRAY})
_MADE_BY_LOADERS = frozenset({"sampler", "batch_sampler"})
_OF_TENSORS = frozenset("data grad T shape weight bias".split())


class LoaderInputs:
    """The code that makes the batches of one loader, and the objects and names that it reads."""

    def __init__(self, made: LoaderCall, parts: Iterable[str]) -> None:
        self.code: dict[ast.AST, Script] = {}
        """Functions and lambdas that run when a batch is made."""
        self.possible_code: dict[ast.AST, Script] = {}
        """Those that may, where it is not known what this code calls; they may run at other times just as well."""
        self.objects: set[ast.AST] = {made.call}
        """What made the objects that this code reads, and the classes of those that are instances."""
        self.trainers: set[tuple[ast.AST, Kind]] = set()
        """Models, optimizers and schedulers among them: a call, `getattr(module, name)(…)`, may make others besides."""
        self.methods: set[str] = set()
        """The methods of these classes."""
        self.opaque: set[ast.AST] = {made.call}
        """Those of them whose own code is not seen."""
        self.names: dict[tuple[ast.AST, str], Script] = {}
        """Names of outer scopes that this code reads, by scope."""
        self.held: set[tuple[ast.AST, str]] = set()
        """Names under which objects were handed over, by scope."""
        self.words = {part for part in parts if part in made.settings}
        """What objects whose values are not known are called where they are handed over."""
        self.of_loader = _MADE_BY_LOADERS.intersection(parts) - made.settings.keys()
        """The attributes of the loader under which it keeps what it makes itself of its settings."""
        self.arguments: set[tuple[Script, str]] = set()
        """The same for what goes into objects out of sight, by file."""
        self.fields: set[str] = set()
        """The attributes of the project's objects that hold values which are not known."""
        self.attributes: set[str] = set()
        """The attributes that this code reads, of whatever object."""
        self.own: set[str] = set()
        """Those that it reads of the project's classes and objects: in methods, of their own object."""
        self.trained: str | None = None
        """Source text of something trained that this code reads."""

    def makes_batches(self, file: Script, node: ast.AST) -> bool:
        """Whether a place is part of the code that makes batches."""
        function = file.function(node)
        while function is not None and function not in self.code:
            function = file.function(function)
        return function is not None

    def may_make_batches(self, file: Script, node: ast.AST) -> bool:
        """Whether a place is part of the code that makes batches, or may be."""
        function = file.function(node)
        return function in self.possible_code or self.makes_batches(file, node)

    # -- what the code does

    def storing(self) -> Iterator[str]:
        """The functions that store something beyond themselves, whether a sample reads it or not."""
        for function, file in (self.code | self.possible_code).items():
            if isinstance(function, ast.FunctionDef) and datasets.leaves_something(file, function):
                yield function.name

    # -- whether something is one of them

    def includes(self, file: Script, expression: ast.expr) -> bool:
        """Whether an expression may be one of the objects that batches are made from."""
        if not isinstance(expression, ast.Name | ast.Attribute | ast.Subscript | ast.Call):
            return False
        values = file.values(expression)
        if any(self._is_object(value) for value in values):
            return True
        unknown = Kind.UNKNOWN in values.kinds
        match expression:
            case ast.Attribute(value=owner, attr=attr) if attr in PARTS:
                loaders = [value for value in file.values(owner) if value.kind is Kind.LOADER]
                known = [value for value in loaders if isinstance(value.node, ast.Call)]
                if known and len(known) == len(loaders):
                    of_loader = attr in self.words or attr in self.of_loader
                    return of_loader and any(value.node in self.objects for value in known)
                return attr in self.words and (unknown or bool(loaders))  # of a loader that is told by its use
            case ast.Attribute(attr=attr):
                return unknown and attr not in _OF_TENSORS and (attr in self.fields or self._is_called(file, attr))
            case ast.Name(id=name):
                found = {(each.scope.node, name) for each in file.definitions(expression)}
                return not found.isdisjoint(self.held | self.names.keys()) or (unknown and self._is_called(file, name))
            case _:
                return False

    def _is_called(self, file: Script, word: str) -> bool:
        return word in self.words or (file, word) in self.arguments

    def _is_object(self, value: Value) -> bool:
        """Whether a value is one of the objects, and none that is made for every batch."""
        if value.node not in self.objects or value.kind in (Kind.LOADER, Kind.BATCH):
            return False
        if value.kind in TRAINING and (value.node, value.kind) not in self.trainers:
            return False
        return value.script is None or not self.makes_batches(value.script, value.node)

    def extends(self, file: Script, target: ast.Name) -> bool:
        """Whether `x += …` changes one of them in place, or binds a name that they are read under."""
        added_to = file.reaching_definitions.before_additions(file.reaching_definitions.before_addition(target))
        definitions = added_to or [
            each for own in file.definitions(target) for each in own.scope.definitions.get(target.id, ()) or (own,)
        ]
        values = [value for each in definitions for value in file.inference.definition(each)]
        if all(value.kind in IMMUTABLE for value in values):
            return False  # bound anew, which is found by its name
        scopes = {(each.scope.node, target.id) for each in definitions}
        if not scopes.isdisjoint(self.held | self.names.keys()) or any(self._is_object(value) for value in values):
            return True
        memory = [value for value in values if value.kind in _MEMORY]
        if any(
            value.script and self.touched(value.script, each)
            for value in memory
            for each in same_memory(value, converted=True)
        ):
            return True
        in_place = any(value.kind is Kind.UNKNOWN or value.kind in _MEMORY for value in values)
        statement = file.parent(target)
        lists = isinstance(statement, ast.AugAssign) and _is_list(statement.value)
        return in_place and any(
            self.touched(where, each)
            for where, each in bound_to(file, definitions)
            if not (
                lists and isinstance(each, ast.Subscript) and isinstance(each.slice, ast.Slice)
            )  # a list of its own
        )

    def reads(self, file: Script, owner: ast.expr, attr: str) -> bool:
        """Whether batches may depend on this attribute of one of them."""
        values = file.values(owner)
        name = owner.id if isinstance(owner, ast.Name) else getattr(owner, "attr", None)
        hidden = any(value.node in self.opaque for value in values) or (
            name is not None and self._is_called(file, name) and Kind.UNKNOWN in values.kinds
        )
        hidden |= isinstance(owner, ast.Attribute) and owner.attr in self.of_loader
        memory = attr in ("data", "T") and any(value.cls is None for value in values)  # of a tensor
        return hidden or memory or attr in self.attributes or attr in self.methods or attr.startswith("__")

    def touched(self, file: Script, expression: ast.expr) -> bool:
        """Whether a change of this object is one of what batches are made from: `sampler.weights` of a sampler that
        reads its weights, or a view of them under another name."""
        pending = [(file, expression, False)]
        for where, each, part in pending:
            if self._is_touched(where, each, part):
                return True
            views = (value for value in where.values(each) if value.kind in _MEMORY)
            found = [
                (value.script, owner, part)
                for value in views
                if value.script
                for owner in same_memory(value, converted=True)
            ]
            found += [
                (where, inner, inside)
                for inner, inside in unfollowed(where, each, part=part)
                if isinstance(inner, ast.Call) or where.values(inner).kinds & _MEMORY
            ]
            pending.extend(place for place in found if place not in pending)
        return False

    def _is_touched(self, file: Script, expression: ast.expr, part: bool = False) -> bool:
        """The same for an object as it is written here, or as what a name was bound to is written there. `part`: for an
        element of the object, which a copy of it has as well."""
        places: list[tuple[Script, ast.expr, str | None, bool]] = [(file, expression, None, part)]
        for where, each, attr, inside in places:
            if self.includes(where, each):
                if attr is None or self.reads(where, each, attr):
                    return True
                continue
            found: list[tuple[Script, ast.expr, str | None, bool]] = []
            match each:
                case ast.Attribute(value=inner, attr=name):
                    if self.is_own(where, inner, name):
                        return True
                    found = [(where, inner, name, False)]
                    if Kind.UNKNOWN in where.values(each).kinds:
                        found += [(other, value, attr, inside) for other, value in held_as(where, inner, name)]
                case ast.Subscript(value=inner, slice=index):
                    found = [(where, inner, attr, inside or not isinstance(index, ast.Slice | ast.Tuple))]
                case ast.Call(func=ast.Attribute(value=inner, attr=method)) if method in VIEWING | CONVERTING:
                    found = [(where, inner, attr, inside)]
                case ast.Call() if Kind.UNKNOWN in where.values(each).kinds and (
                    copied := shared_elements(where, each, part=inside)
                ):
                    found = [(where, copied, attr, True)]
                case ast.Call(func=ast.Name(id="vars"), args=[inner]):
                    found = [(where, inner, "__dict__", False)]
                case ast.Name() if Kind.UNKNOWN in where.values(each).kinds:
                    found = [(other, value, attr, inside) for other, value in bound_to(where, where.definitions(each))]
            places.extend(place for place in found if place not in places)
        return False

    def is_own(self, file: Script, owner: ast.expr, attr: str) -> bool:
        """Whether an attribute of who knows what may be one that this code reads of its own object."""
        if any(value.how == "module" and (value.node, attr) in self.names for value in file.values(owner)):
            return True  # `data.GAIN = 2`
        functions = any(value.node in self.code for value in file.values(owner))  # `scale.factor = 2`
        if functions and (attr in self.attributes or attr.startswith("__")):
            return True
        if attr not in self.own or attr in _OF_TENSORS:
            return False
        if any(value.kind is Kind.LOADER and value.node in self.objects for value in file.values(owner)):
            return True  # `loader.scale = 2`, of a loader whose own method collates
        return Kind.UNKNOWN in file.values(owner).kinds or (file.qualname(owner) or "").startswith("__main__.")


def _is_list(expression: ast.expr) -> bool:
    """`[0] * 3`, `[a, b]`, a list comprehension."""
    if isinstance(expression, ast.BinOp):
        return _is_list(expression.left) or _is_list(expression.right)
    return isinstance(expression, ast.List | ast.ListComp)
