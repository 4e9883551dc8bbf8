"""Where a loop can tell a pinned batch from the one that was made: it is a copy, and its containers are made again.

What torch's own collation makes belongs to nobody else, holds no tuples, and has been made like this already. A collate
function, or samples that are handed out as they are (`batch_size=None`), may give views of the data set or the same
tensor twice: what is written to the batch then shows elsewhere, but not what is written to a copy. Before torch 2.11
(pytorch#169690), pinning made a list of every tuple as well, wherever in the batch; a mapping or sequence of a class
that cannot be made of its items becomes a dict or a list to this day, and loses its methods.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator

from autoaccel.analysis.call_values import returned
from autoaccel.analysis.classes import external_lineage, lineage, methods
from autoaccel.analysis.script import Script
from autoaccel.dataflow.abstract_values import ANY, NOTHING, Kind, Value, Values, any_item, item, union
from autoaccel.dataflow.definitions import STAR, Definition
from autoaccel.library_models.tensor_operations import INFORMATION, METHODS
from autoaccel.pytorch.batch_objects import collated_by
from autoaccel.pytorch.batches import changed_in_place, root
from autoaccel.pytorch.datasets import ITEM_METHODS, item_methods
from autoaccel.pytorch.host_memory import memory
from autoaccel.pytorch.loader_calls import Iteration, LoaderCall

_DEFAULT = ("torch.utils.data.default_collate", "torch.utils.data.dataloader.default_collate")
_ANEW = frozenset(
    """torch.stack torch.cat torch.concat torch.tensor torch.zeros torch.ones torch.full torch.empty torch.rand
    torch.randn torch.arange torch.LongTensor torch.FloatTensor torch.IntTensor torch.BoolTensor torch.Tensor
    torch.nn.utils.rnn.pad_sequence""".split()
)
_PLAIN = frozenset({Kind.NUMBER, Kind.STRING, Kind.BOOL, Kind.NONE})
_SAME_FOR_BOTH = frozenset(
    "enumerate zip list tuple map filter iter len reversed sorted set sum any all min max".split()
)

_COMMON = METHODS | INFORMATION | {*dir(tuple), *dir(list), *dir(dict), "device", "dtype"}
"""What tensors and containers are asked for; other classes may answer to it as well."""
_OF_TEXTS = frozenset(dir(str))
"""What texts are asked for, which pinning leaves as they are."""


def told_apart(script: Script, made: LoaderCall, uses: tuple[Iteration, ...]) -> str | None:
    """Why the loops over a loader may take a pinned batch for another one."""
    batches = _own_batches(script, made)
    if batches is None:
        return None
    if not _are_new(batches) and any(_is_written_to(use, batches) for use in uses):
        return "no pinned memory: what the loop writes to a batch may show elsewhere, and pinned it is a copy"
    unpinned = any(value.kind is Kind.OBJECT for value in batches)
    made_again = any(value.kind is Kind.OBJECT and not _stays_itself(value) for value in _parts(batches))
    if unpinned or made_again or any(_asks_object(use, batches) for use in uses):
        return "no pinned memory: batches of a class of their own may be made again as another, or left unpinned"
    if any(_asks_for_tuple(use, batches) for use in uses):
        return "no pinned memory: older versions of torch make a list of it where a batch is a tuple"
    return None


def _stays_itself(value: Value) -> bool:
    """Whether pinning hands an object on as it is: one of a class of its own that says nothing of pinning."""
    if value.cls is None or {*external_lineage(value.cls)} - {"builtins.object"}:
        return False
    asked = any(True for _ in methods(value.cls, "pin_memory", "__getattr__", "__getattribute__"))
    return not asked and not any(each.node.decorator_list or each.node.keywords for each in lineage(value.cls))


def holds_no_tensor(script: Script, made: LoaderCall, sources: tuple[Value, ...]) -> bool:
    """Whether batches surely are of texts alone, which collation hands on as they are: there is nothing to pin. Of
    numbers it makes tensors, unless the script collates them itself."""
    batches, texts = _own_batches(script, made), frozenset({Kind.STRING})
    if batches is not None:
        return _are_all(batches, _PLAIN)
    methods = [_item_method(source) for source in sources]
    samples = [returned(*method) for method in methods if method is not None]
    return len(samples) == len(sources) > 0 and all(_are_all(each, texts) for each in samples)


def _item_method(source: Value) -> tuple[Script, ast.FunctionDef] | None:
    """The only method by which a class of the project gives samples, if it has no other."""
    found = [] if source.cls is None else item_methods(source.cls)
    named = [(file, method) for file, method in found if method.name in ITEM_METHODS]
    return named[0] if len(named) == 1 and named[0][1].name == "__getitem__" else None


def _are_all(values: Values, kinds: frozenset[Kind]) -> bool:
    leaves = list(_leaves(values))
    return bool(leaves) and all(value.kind in kinds for value in leaves)


def _own_batches(script: Script, made: LoaderCall) -> Values | None:
    """What batches may be where the script makes them itself; None where torch's own collation does."""
    size = made.settings.get("batch_size")
    collate = made.settings.get("collate_fn")
    if collate is None or script.kind(collate) is Kind.NONE:
        unbatched = size is not None and any(value.kind is Kind.NONE for value in script.values(size))
        return ANY if unbatched or "collate_fn" in made.possible - made.settings.keys() else None
    if isinstance(collate, ast.Lambda):
        return returned(script, collate)
    values = script.values(collate)
    if values and all(value.kind is Kind.EXTERNAL and value.name in _DEFAULT for value in values):
        return None
    return union(collated_by(value) or ANY for value in values)


def _are_new(batches: Values) -> bool:
    """Whether each tensor of a batch surely is made for it, and is there once."""
    leaves = list(_leaves(batches))
    nodes = [value.node for value in leaves if value.kind is Kind.TENSOR]
    return len(set(nodes)) == len(nodes) and all(
        value.kind in _PLAIN or (value.kind is Kind.TENSOR and value.name in _ANEW) for value in leaves
    )


def _leaves(values: Values) -> Iterator[Value]:
    for value in values:
        if value.kind in (Kind.SEQUENCE, Kind.MAPPING) and value.items:
            for _, items in value.items:
                yield from _leaves(items)
        else:
            yield value


def _is_written_to(use: Iteration, batches: Values) -> bool:
    """Whether the host writes to the memory of a batch; another item in its place in a new container does not."""
    container = all(value.kind in (Kind.SEQUENCE, Kind.MAPPING) for value in batches)
    sites = (use.node, *_nexts(use))
    for file in use.script.project.related(use.script):
        for owner, node in changed_in_place(file):
            for value in memory(file, owner):
                name = root(owner) if value.kind is Kind.UNKNOWN else None
                if name is not None and _holds_batch(file, name, sites):
                    return True  # a part of which nothing is known
                if value.kind is Kind.BATCH and value.node in sites:
                    item = isinstance(node, ast.Subscript) and not value.path
                    if not (item and (container or _is_moved(file, node))):
                        return True
    return False


def _holds_batch(file: Script, name: ast.Name, sites: tuple[ast.AST, ...], seen: tuple[Definition, ...] = ()) -> bool:
    """Whether a name is a loop's batch, or a part of one, also where it is not known which."""
    known = any(value.kind is Kind.BATCH and value.node in sites for value in file.values(name))
    return known or any(
        (bool(each.path) and each.node in sites) or _is_element(file, each, sites, seen)
        for each in file.definitions(name)
    )


def _is_element(file: Script, definition: Definition, sites: tuple[ast.AST, ...], seen: tuple[Definition, ...]) -> bool:
    """Whether a loop over a part of a batch gives a name: `for box in batch[1]`."""
    if definition.how != "for" or definition.value is None or definition.node in sites or definition in seen:
        return False
    seen = (*seen, definition)
    whole = root(definition.value)
    if whole is None:
        return False
    if isinstance(definition.value, ast.Call):  # `batch.items()` is known by its values
        return any(_is_element(file, each, sites, seen) for each in file.definitions(whole))
    return _holds_batch(file, whole, sites, seen)


def _is_moved(file: Script, node: ast.AST) -> bool:
    """Whether `batch[key] = …` stores a copy on a device."""
    statement = file.parent(node)
    return isinstance(statement, ast.Assign) and any(value.how == "moved" for value in file.values(statement.value))


def _nexts(use: Iteration) -> Iterator[ast.AST]:
    """The `next(…)` that take batches from an iterator."""
    if use.how != "for":
        yield from use.script.syntax_index.calls_named("next")


def _asks_object(use: Iteration, batches: Values) -> bool:
    """Whether a loop asks a part of its batches, of which nothing is known, for what no tensor or container has."""
    return any(value.kind is Kind.UNKNOWN for value in _parts(batches)) and any(
        attribute.attr not in _COMMON
        and (attribute.attr not in _OF_TEXTS or _is_defined(use.script, attribute.attr))
        and Kind.UNKNOWN in _taken(file, each, use, batches).kinds
        for file in use.script.project.related(use.script)
        for attribute in file.find(ast.Attribute)
        for each in _before_moves(file, attribute.value)
    )


def _is_defined(script: Script, method: str) -> bool:
    """Whether the project has a function of a name, by which something else than a text may answer."""
    files = script.project.related(script)
    return any(each.name == method for file in files for each in file.find(ast.FunctionDef))


def _before_moves(file: Script, expression: ast.expr) -> list[ast.expr]:
    """An expression, and what it was before it was moved: `samples` of `samples.to(device)`, also under a name."""
    found = [expression]
    for each in found:
        given = [each]
        if isinstance(each, ast.Name) and Kind.UNKNOWN in file.values(each).kinds:
            given = [own.value for own in file.definitions(each) if own.value is not None and own.how == "assign"]
        for value in given:
            match value:
                case ast.Call(func=ast.Attribute(value=owner, attr="to" | "cuda")) if owner not in found:
                    found.append(owner)
    return found


def _asks_for_tuple(use: Iteration, batches: Values) -> bool:
    """Whether it matters to a loop that a part of its batches is a tuple."""
    file = use.script
    pending: list[tuple[Script, ast.AST]] = [(file, file.function(use.node) or file.tree)]
    for where, scope in pending:
        kinds = ast.Name, ast.Subscript, ast.Call
        for node in itertools.chain.from_iterable(where.within(scope, kind) for kind in kinds):
            taken = _taken(where, node, use, batches)
            if not any(map(_may_be_tuple, _parts(taken))):
                continue
            if isinstance(node, ast.Name | ast.Subscript) and not isinstance(node.ctx, ast.Load):
                match where.parent(node):
                    case ast.AugAssign(op=ast.Add(), value=value) if where.kind(value) is not Kind.NUMBER:
                        return True
                continue
            parent = where.parent(node)
            unpacked = isinstance(parent, ast.keyword) and parent.arg is None  # a mapping then
            if unpacked if any(map(_may_be_tuple, taken)) else not _is_handed_on(parent, node):
                continue
            followed = _calls_on(where, node)
            if followed is None:
                return True
            pending.extend(each for each in followed if each not in pending)
    return False


def _may_be_tuple(value: Value) -> bool:
    return value.kind in (Kind.UNKNOWN, Kind.OBJECT) or (
        value.kind is Kind.SEQUENCE and not isinstance(value.node, ast.List | ast.ListComp)
    )


def _taken(where: Script, node: ast.expr, use: Iteration, batches: Values) -> Values:
    """What an expression takes out of a loop's batches: none where it is no part of them."""
    match node:
        case ast.Call(func=ast.Attribute(value=owner, attr="get" | "pop")):
            return union(_item(value, None) for value in _taken(where, owner, use, batches))
        case ast.Call():
            return NOTHING
    sites = (use.node, *_nexts(use))
    values = where.values(node)
    name = root(node) if Kind.UNKNOWN in values.kinds else None
    if name is not None and _holds_batch(where, name, sites):
        return ANY  # a part of which nothing is known
    parts = [each for each in values if each.kind is Kind.BATCH and each.node in sites]
    return union(_at(batches, each) for each in parts if each.how != "copy")


def _at(batches: Values, value: Value) -> Values:
    """The part of a batch that a value is; any part within it where an index is not known."""
    for step in value.path:
        batches = union(_item(each, None if step == STAR else step) for each in batches)
    deep = value.path[-2:] == (STAR, STAR)
    return Values(_parts(batches)) if value.how == "view" or deep else batches


def _item(owner: Value, step: int | str | None) -> Values:
    match owner.kind:
        case Kind.SEQUENCE | Kind.MAPPING:
            return item(owner, step)
        case Kind.UNKNOWN | Kind.OBJECT:
            return ANY
        case _:
            return Values({owner})


def _parts(values: Values) -> Iterator[Value]:
    """Values, and all that containers among them hold."""
    for value in values:
        yield value
        yield from _parts(any_item(value))


def _is_handed_on(parent: ast.AST | None, node: ast.expr) -> bool:
    """Whether a call takes a container whole: what is in it may matter there."""
    return isinstance(parent, ast.keyword) or (isinstance(parent, ast.Call) and node in parent.args)


def _calls_on(where: Script, node: ast.expr) -> list[tuple[Script, ast.AST]] | None:
    """The functions that a use hands a batch on to; None where a tuple and a list may differ in it."""
    parent = where.parent(node)
    match parent:
        case ast.Subscript(value=value) if value is node:
            return []
        case ast.Attribute() | ast.Starred() | ast.For() | ast.comprehension() | ast.Assign() | ast.Expr():
            return []
        case ast.If() | ast.While() | ast.Delete():
            return []
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            other = right if left is node else left
            return [] if where.kind(other) is Kind.NUMBER else None
        case ast.BinOp(op=ast.Sub() | ast.Div() | ast.Pow() | ast.MatMult()) | ast.UnaryOp():
            return []  # of tensors alone
        case ast.Compare(ops=[ast.Is() | ast.IsNot()], comparators=[ast.Constant(value=None)]):
            return []
        case ast.Call(func=ast.Name(id="isinstance"), args=[_, kinds]):
            named = {each.id for each in ast.walk(kinds) if isinstance(each, ast.Name)}
            return [] if ("tuple" in named) is ("list" in named) else None
        case ast.Call(func=ast.Name(id=called)) if called in _SAME_FOR_BOTH:
            return []
        case ast.Call() | ast.keyword():
            call = parent if isinstance(parent, ast.Call) else where.parent(parent)
            return list(where.callees(call)) or None if isinstance(call, ast.Call) else None
        case _:
            return None
