"""The words for values: kinds, and the sets of values that an expression may have.

Several possible values are kept as a set; a set with `UNKNOWN` in it proves nothing. No guess is better than a wrong
one.
"""

from __future__ import annotations

import ast
import enum
from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from autoaccel.dataflow.definitions import STAR, ElementPath
from autoaccel.dataflow.syntax_index import position

if TYPE_CHECKING:
    from autoaccel.analysis.script import Script
    from autoaccel.dataflow.query import Queries


class Kind(enum.Enum):
    """The words that rules use for values."""

    MODULE = "module"
    OPTIMIZER = "optimizer"
    SCHEDULER = "scheduler"
    LOADER = "loader"
    DATASET = "dataset"
    BATCH = "batch"
    TENSOR = "tensor"
    PARAMETER = "parameter"
    LOSS_FUNCTION = "loss function"
    DEVICE = "device"
    DTYPE = "dtype"
    SCALER = "scaler"
    ARRAY = "array"
    NUMBER = "number"
    STRING = "string"
    BOOL = "bool"
    NONE = "none"
    SEQUENCE = "sequence"
    MAPPING = "mapping"
    ITERATOR = "iterator"
    FUNCTION = "function"
    CLASS = "class"
    EXTERNAL = "external"
    OBJECT = "object"
    UNKNOWN = "unknown"

    __hash__ = object.__hash__  # members are equal to themselves alone; that of `Enum` is in Python


@dataclass(frozen=True, slots=True, eq=False)
class ClassRef:
    """A class of the project."""

    script: Script
    node: ast.ClassDef

    @property
    def queries(self) -> Queries:
        return self.script.queries


BOUND = ("bound",)
"""The path of a function that its receiver is passed to as the first argument."""


class Values(frozenset["Value"]):
    """A set of possible values, iterated in the order of the source: no answer follows from how a set is hashed."""

    __slots__ = ("_digest", "_kind", "_kinds", "_nesting", "_ordered")

    def __iter__(self) -> Iterator[Value]:
        if len(self) < 2:
            return _unordered(self)
        try:
            return iter(self._ordered)
        except AttributeError:
            self._ordered: tuple[Value, ...] = tuple(_in_order(self))
            return iter(self._ordered)

    def unordered(self) -> Iterator[Value]:
        """The values as they lie: for what does not depend on their order, which costs a sort to find out."""
        return _unordered(self)

    def __or__(self, other: AbstractSet[Value]) -> Values:  # type: ignore[override]
        if not self and isinstance(other, Values):
            return other
        return self if self.issuperset(other) else Values(self.union(other))

    @property
    def kinds(self) -> frozenset[Kind]:
        """The kinds of all values, `Kind.UNKNOWN` among them where not all are known."""
        try:
            return self._kinds
        except AttributeError:
            self._kinds: frozenset[Kind] = frozenset([value.kind for value in _unordered(self)])
            return self._kinds

    @property
    def kind(self) -> Kind | None:
        """The kind that all share, `None` as a default aside; None when they differ or one is unknown."""
        try:
            return self._kind
        except AttributeError:
            kinds = self.kinds - {Kind.NONE} if len(self.kinds) > 1 else self.kinds
            (only,) = kinds if len(kinds) == 1 else (None,)
            self._kind: Kind | None = None if only is Kind.UNKNOWN else only
            return self._kind

    @property
    def nesting(self) -> int:
        """How deep containers lie within one another, or the longest path into a batch."""
        try:
            return self._nesting
        except AttributeError:
            inner = [1 + max(each.nesting for _, each in value.items) for value in self.unordered() if value.items]
            parts = [len(value.path) for value in self.unordered() if value.kind is Kind.BATCH]
            self._nesting: int = max([0, *inner, *parts])
            return self._nesting

    @property
    def digest(self) -> bytes:
        """Tells sets apart by where their values come from; of one length, however deep their elements lie."""
        try:
            return self._digest
        except AttributeError:
            import hashlib  # few sets are elements of others

            places = repr([(_place(value), _contents(value)) for value in self])
            self._digest: bytes = hashlib.blake2b(places.encode(errors="replace"), digest_size=16).digest()
            return self._digest

    def without(self, other: AbstractSet[Value]) -> Values:
        return Values(self.difference(other))


_unordered = frozenset.__iter__
Items = tuple[tuple[int | str | None, Values], ...]


class Value(NamedTuple):
    """One possible value. A tuple, since an analysis makes and compares very many, and one class for all kinds: nearly
    all code asks several kinds for the same fields, and what has none has None there.

    `node` is what made it: the constructor call, the class or function definition, for a batch the loop that yields
    it. `script` is the file of `node`. `name` is the qualified name of what made it, or is it, in a library. `how` says
    what made it where that has no name: for a batch None as the loader gives it, "view" for the same memory, "copy" for
    a converted one; "moved" for a tensor from a batch; the method that made a tensor or an array, or "arithmetic";
    the builtin that made an iterator, "pass" for one around another. A module's OBJECT has "module". `path` is the part
    of a batch. `cls` is the project class of an instance. `items` are known elements of a sequence or mapping; the key
    None stands for any."""

    kind: Kind
    node: ast.AST | None = None
    script: Script | None = None
    name: str | None = None
    how: str | None = None
    path: ElementPath = ()
    cls: ClassRef | None = None
    items: Items = ()


UNKNOWN = Value(Kind.UNKNOWN)
NUMBER = Value(Kind.NUMBER)
STRING = Value(Kind.STRING)
BOOL = Value(Kind.BOOL)
NONE = Value(Kind.NONE)
ANY = Values({UNKNOWN})
NOTHING = Values()


def made(
    kind: Kind,
    node: ast.AST | None = None,
    script: Script | None = None,
    *,
    name: str | None = None,
    how: str | None = None,
    cls: ClassRef | None = None,
    items: Items = (),
) -> Values:
    """The one value that a node makes."""
    return Values({Value(kind, node, script, name, how, (), cls, items)})


def _in_order(values: Values) -> Iterator[Value]:
    """Values by where they come from, and those of one place by what they hold, which takes longer to find out."""
    by_place: dict[tuple[object, ...], list[Value]] = {}
    for value in values.unordered():
        by_place.setdefault(_place(value), []).append(value)
    for place in sorted(by_place):
        same = by_place[place]
        yield from same if len(same) == 1 else sorted(same, key=_contents)


def _place(value: Value) -> tuple[object, ...]:
    """Where a value comes from, and what tells it from others of the same place, but for what it holds."""
    node, path = value.node, value.script.path if value.script is not None else None
    return (
        str(path or ""),
        position(node),
        getattr(node, "end_lineno", 0),
        getattr(node, "end_col_offset", 0),
        value.kind.value,
        value.name or value.how or "",
        tuple(map(str, value.path)),
        "" if value.cls is None else f"{value.cls.script.path}:{value.cls.node.lineno}",
    )


def _contents(value: Value) -> tuple[object, ...]:
    return tuple((str(key), values.digest) for key, values in value.items)


def shallow(values: Values, nesting: int, known: dict[tuple[Values, int], Values]) -> Values:
    """Values whose elements lie at most so deep: what is built from itself (`x = [x]`, `x = x[0]`) comes to an end.

    `known` holds what was made so far: elements are shared, and would be met along every way to them."""
    if values.nesting <= nesting:
        return values
    found = known.get((values, nesting))
    if found is None:
        found = known[values, nesting] = Values(_shallow(value, nesting, known) for value in values.unordered())
    return found


def _shallow(value: Value, nesting: int, known: dict[tuple[Values, int], Values]) -> Value:
    if value.kind is Kind.BATCH and len(value.path) > nesting:
        return UNKNOWN
    if not value.items:
        return value
    items = tuple((key, shallow(inner, nesting - 1, known) if nesting > 0 else ANY) for key, inner in value.items)
    return value._replace(items=items)


def merged(values: Values) -> Values:
    """Values of which no two are containers from one place: their elements are joined.

    A function that calls itself with the elements of what it got would else make a new container in each round."""
    groups: dict[tuple[object, ...], list[Value]] = {}
    for value in values.unordered():
        if value.items:
            groups.setdefault(value[:-1], []).append(value)
    alike = [group for group in groups.values() if len(group) > 1]
    if not alike:
        return values
    kept = values.without({value for group in alike for value in group})
    return kept | {_joined(group) for group in alike}


def _joined(group: list[Value]) -> Value:
    """One container in the place of several from one place."""
    keys = [tuple(key for key, _ in value.items) for value in group]
    if any(each != keys[0] for each in keys):
        items: Items = ((None, merged(union(any_item(value) for value in group))),)
    else:
        columns = zip(*(value.items for value in group), strict=True)
        items = tuple((column[0][0], merged(union(each for _, each in column))) for column in columns)
    return group[0]._replace(items=items)


def any_part(batch: Value) -> Value:
    """Any element of a batch, or of a part of it. Two steps to any element stand for all further ones: what calls
    itself for the elements of what it got comes to an end."""
    deep = batch.path[-2:] == (STAR, STAR)
    return batch if deep else batch._replace(path=(*batch.path, STAR))


def union(sets: Iterable[Values]) -> Values:
    found = NOTHING
    for each in sets:
        found |= each
    return found


def any_item(owner: Value) -> Values:
    return union(values for _, values in owner.items)


def item(owner: Value, step: int | str | None) -> Values:
    """An element by position or key; any element when the position is not known."""
    if step is not None:
        places = [place for place, (key, _) in enumerate(owner.items) if key == step]
        if places:
            replacing = (values for key, values in owner.items[places[-1] :] if key is None)  # `{"a": x, key: y}`
            return union((owner.items[places[-1]][1], *replacing))
        if isinstance(step, int) and step < 0 and owner.items and owner.items[0][0] is not None:
            return owner.items[step][1] if -step <= len(owner.items) else ANY
        loose = [values for key, values in owner.items if key is None]
        return union(loose) if loose else ANY
    return any_item(owner) or ANY


def arithmetic(left: Values, right: Values, node: ast.expr, script: Script) -> Values:
    kinds = (left | right).kinds
    if Kind.TENSOR in kinds or Kind.PARAMETER in kinds:
        return made(Kind.TENSOR, node, script)
    batches = [value for value in left | right if value.kind is Kind.BATCH]
    if batches:
        return Values({value._replace(how="copy") for value in batches})
    if Kind.UNKNOWN in kinds:
        return ANY
    if Kind.ARRAY in kinds:
        return made(Kind.ARRAY, node, script, how="arithmetic")
    if kinds <= {Kind.NUMBER, Kind.BOOL}:
        return Values({NUMBER})
    if Kind.STRING in kinds:
        return Values({STRING})
    if kinds == {Kind.SEQUENCE}:
        items = union(any_item(value) for value in left | right)
        return made(Kind.SEQUENCE, node, script, items=((None, items),) if items else ())
    if kinds == {Kind.SEQUENCE, Kind.NUMBER}:
        return Values(value for value in left | right if value.kind is Kind.SEQUENCE)
    return ANY
