"""Whether a part of a batch may be an object of the project that moves itself, by a `to()` of its own."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from autoaccel.analysis.call_values import returned
from autoaccel.analysis.classes import instance_kind, lineage, methods
from autoaccel.analysis.script import Script
from autoaccel.dataflow.abstract_values import ANY, ClassRef, Kind, Value, Values, any_item, item, union
from autoaccel.dataflow.definitions import STAR, ElementPath
from autoaccel.dataflow.query import once
from autoaccel.pytorch.backend_settings import mention
from autoaccel.pytorch.loader_calls import LoaderCall
from autoaccel.pytorch.sample_code import reachable

_STORED = re.compile(r"""\.collate_fn\s*=[^=]|["']collate_fn["']""")
"""A collate function that is put into a loader, `loader.collate_fn = f`, `setattr(self, "collate_fn", f)`."""
_NO_OBJECTS = frozenset({Kind.TENSOR, Kind.ARRAY, Kind.NUMBER, Kind.STRING, Kind.BOOL, Kind.NONE})
_NO_PARTS = frozenset({Kind.MODULE, Kind.DATASET, Kind.LOADER})
_PLAIN_BASES = frozenset({"builtins.object", "abc.ABC"})
_HOLDING = ("__getitem__", "__iter__", "__getattr__", "keys", "values", "items")


def may_move_themselves(script: Script, made: LoaderCall, path: ElementPath, method: str) -> bool:
    """Whether a part of the batches of a loader may be an object of the project's with such a method: one that the
    collate function makes, or that a sample has and that is handed on as it is. torch's own collate function keeps
    the classes of containers alone."""
    dataset, collate = made.at(script, "dataset"), made.at(script, "collate_fn")
    is_given_unseen = collate is None and "collate_fn" in made.possible
    if made.problem is not None or is_given_unseen or mention(script, _STORED) is not None:
        return _may_make(None, script, method)
    if collate is None and not _is_unbatched(script, made):
        return _may_make(dataset, script, method, of_containers=True)
    given = _collated(*collate) if collate is not None else None
    parts = _at(given, path) if given is not None else ANY
    if any(value.cls is not None and _has(value.cls, method) for value in parts):
        return True
    if parts.kinds <= _NO_OBJECTS:
        return False
    if collate is not None and given is not None and Kind.UNKNOWN in parts.kinds:
        known = {value.cls.node for value in _all_within(given) if value.cls is not None}
        if any(_has(cls, method) and cls.node not in known for cls in _classes(*collate)):
            return True  # it makes objects of the class, and nothing shows of which part
    sources = [dataset, *([collate] if given is None and collate is not None else [])]
    return any(_may_make(source, script, method) for source in sources)


def makes_tensors(script: Script, made: LoaderCall) -> bool:
    """Whether a whole batch surely is a tensor that a collate function of the project has made."""
    collate = made.at(script, "collate_fn")
    given = _collated(*collate) if collate is not None and made.problem is None else None
    return given is not None and all(value.kind is Kind.TENSOR and value.cls is None for value in given)


def _collated(script: Script, collate: ast.expr) -> Values | None:
    """What a collate function gives; None where it is not the project's own."""
    found = [collated_by(value) for value in script.values(collate)]
    return union(each for each in found if each is not None) if found and None not in found else None


def collated_by(collate: Value) -> Values | None:
    """What a function, or an object that is called, gives; None where it is not the project's own."""
    if collate.kind is Kind.FUNCTION and collate.script is not None and collate.node is not None:
        return returned(collate.script, collate.node) or ANY
    if collate.kind is Kind.OBJECT and collate.cls is not None:
        calls = [*methods(collate.cls, "__call__")]
        return (returned(*calls[0]) or ANY) if calls else None
    return None


def _all_within(values: Values) -> Iterator[Value]:
    """Values with all that lie within them."""
    for value in values:
        yield value
        for _, inner in value.items:
            yield from _all_within(inner)


def _at(values: Values, path: ElementPath) -> Values:
    """A part of values. An object that holds nothing by index or key has no parts."""
    for step in path:
        values = union(_part(owner, step) for owner in values)
    return values


def _part(owner: Value, step: int | str) -> Values:
    if owner.kind in _NO_OBJECTS:
        return Values({owner})
    if owner.cls is not None:
        holds = owner.kind is Kind.UNKNOWN or any(True for _ in methods(owner.cls, *_HOLDING))
        return Values({owner}) | ANY if holds else Values()
    counted = step != STAR and not (isinstance(step, int) and step < 0)
    return (item(owner, step) if counted else any_item(owner)) or ANY


def _is_unbatched(script: Script, made: LoaderCall) -> bool:
    """`DataLoader(data, batch_size=None)`, which gives samples as they are, but for what becomes a tensor."""
    size = made.at(script, "batch_size")
    return size is not None and Kind.NONE in size[0].values(size[1]).kinds


def _may_make(
    source: tuple[Script, ast.expr] | None, script: Script, method: str, *, of_containers: bool = False
) -> bool:
    """Whether the code of samples may have an object with such a method; where that code is not in sight, whether the
    project has one. `of_containers`: of a class that derives from one that is not the project's."""
    if source is None or any(
        value.kind in (Kind.UNKNOWN, Kind.EXTERNAL) and value.cls is None for value in source[0].values(source[1])
    ):
        classes = _all_classes(script)
    else:
        classes = _classes(*source)
    return any(_has(cls, method) and not (of_containers and _is_plain(cls)) for cls in classes)


@once
def _classes(script: Script, expression: ast.expr) -> frozenset[ClassRef]:
    """The classes that what an expression leads to mentions."""
    return frozenset(
        value.cls
        for file, node in reachable(script, expression)
        if isinstance(node, ast.Name | ast.Attribute | ast.Call)
        for value in file.values(node)
        if value.cls is not None
    )


@once
def _all_classes(script: Script) -> frozenset[ClassRef]:
    files = script.project.related(script)
    return frozenset(file.class_ref(each) for file in files for each in file.find(ast.ClassDef))


def _has(cls: ClassRef, method: str) -> bool:
    """Whether objects of a class have a method of their own; no model and no dataset is part of a batch."""
    return instance_kind(cls) not in _NO_PARTS and any(True for _ in methods(cls, method))


def _is_plain(cls: ClassRef) -> bool:
    """Whether a class derives from the project's own alone."""
    return all(
        value.cls is not None or value.name in _PLAIN_BASES
        for each in lineage(cls)
        for base in each.node.bases
        for value in each.script.values(base)
    )
