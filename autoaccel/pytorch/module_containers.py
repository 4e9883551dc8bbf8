"""What the elements of containers of modules are: `nn.ModuleList([Block() for _ in range(n)])`, read in a loop."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterable, Iterator

from autoaccel.analysis.classes import class_info, lineage, methods
from autoaccel.analysis.script import Script
from autoaccel.dataflow.abstract_values import ClassRef, Kind, Value
from autoaccel.dataflow.call_arguments import given_values
from autoaccel.dataflow.syntax_index import last_name
from autoaccel.library_models.python_names import CONTAINER_CHANGES

_LISTS = frozenset({"torch.nn.ModuleList", "torch.nn.Sequential", "torch.nn.ModuleDict"})
_UNSEEN = Value(Kind.UNKNOWN)
_CHANGING = CONTAINER_CHANGES | frozenset(
    "add_module register_module _modules __setitem__ __delitem__ __setattr__".split()
)
_LOOPS = frozenset("enumerate zip reversed list tuple iter".split())


def forwards(script: Script, function: ast.expr) -> tuple[tuple[Script, ast.FunctionDef], ...]:
    """The functions that a call of a function, a module or an element of modules enters; none where that is not
    certain."""
    found: dict[ast.FunctionDef, Script] = {}
    for value in script.values(function):
        if value.kind is Kind.FUNCTION and isinstance(value.node, ast.FunctionDef) and value.script is not None:
            found[value.node] = value.script
    for each in modules(script, function):
        if each.kind is Kind.FUNCTION and isinstance(each.node, ast.FunctionDef):
            continue
        if each.cls is None or each.kind is not Kind.MODULE:
            return ()
        found.update((method, file) for file, method in itertools.islice(methods(each.cls, "forward"), 1))
    return tuple((file, each) for each, file in found.items())


def held(module: Value, seen: set[ast.AST] | None = None) -> Iterator[Value]:
    """What a library's module is made of: `nn.Sequential(Block(), *layers)`; an unknown value where that is not
    followed."""
    seen = set() if seen is None else seen
    script, made = module.script, module.node
    if script is None or not isinstance(made, ast.Call) or made in seen:
        return
    seen.add(made)
    for argument in given_values(made):
        for value in _of_argument(script, argument):
            if value.kind is Kind.MODULE and value.cls is None:
                yield from held(value, seen)
            else:
                yield value


def _of_argument(script: Script, argument: ast.expr) -> Iterator[Value]:
    if isinstance(argument, ast.Starred):
        return _contained(script, argument.value, set())
    if isinstance(argument, ast.List | ast.Tuple | ast.Dict | ast.ListComp | ast.GeneratorExp | ast.DictComp):
        return _contained(script, argument, set())
    values = script.values(argument)
    if any(value.kind in (Kind.SEQUENCE, Kind.MAPPING) for value in values):
        return _contained(script, argument, set())
    return iter(values)


def modules(script: Script, function: ast.expr) -> list[Value]:
    """The constructors of what is called: of what a loop over a container, or a subscript of it, gives, those of all
    elements; an unknown value among them where one is not followed."""
    values = script.values(function)
    if isinstance(function, ast.Name) and any(_is_unseen(value) for value in values):
        definitions = script.definitions(function)
        if definitions and all(each.how == "for" and each.value is not None for each in definitions):
            return [found for each in definitions if each.value for found in _of_loop(script, each.value)]
    if isinstance(function, ast.Attribute) and (entries := _entries(script, function)):
        return [value for file, each in entries for value in file.values(each)]
    return [each for value in values for each in _elements(value)]


def _is_unseen(value: Value) -> bool:
    return value.kind is Kind.UNKNOWN or (value.kind is Kind.MODULE and value.cls is None and value.script is None)


def _elements(value: Value) -> list[Value]:
    if value.kind is not Kind.MODULE or value.cls is not None or value.script is None:
        return [value]
    match value.node:
        case ast.For(iter=container) | ast.comprehension(iter=container):
            return _of_loop(value.script, container)
        case ast.Subscript(value=container):
            return list(_contained(value.script, container, set()))
        case _:
            return [value]


def _of_loop(script: Script, iterated: ast.expr) -> list[Value]:
    match iterated:
        case ast.Call(func=ast.Name(id=name), args=arguments) if name in _LOOPS and len(arguments) == 1:
            return _of_loop(script, arguments[0])
        case ast.Call(func=ast.Attribute(value=inner, attr="values" | "items" | "children"), args=[]):
            return list(_contained(script, inner, set()))
        case ast.Call():
            return [_UNSEEN]
        case _:
            return list(_contained(script, iterated, set())) or [_UNSEEN]


def _contained(script: Script, container: ast.expr, seen: set[ast.expr]) -> Iterator[Value]:
    """The values of the elements; an unknown one among them where something is not followed."""
    if container in seen:
        return
    seen.add(container)
    match container:
        case ast.Name():
            definitions = script.definitions(container)
            if not definitions or any(each.how != "assign" or each.path or each.value is None for each in definitions):
                yield _UNSEEN
            for each in definitions:
                if each.value is not None:
                    yield from _contained(script, each.value, seen)
                    yield from _appended(script, script.uses(each))
        case ast.Attribute() if entries := _entries(script, container):
            for file, entry in entries:
                yield from _contained(file, entry, seen)
            for other in script.project.related(script):
                yield from _appended(other, other.syntax_index.mentions(container.attr))
        case ast.Attribute(attr=name):
            for owner in script.values(container.value):
                bindings = [
                    (ref, binding)
                    for ref in (lineage(owner.cls) if owner.cls is not None else ())
                    for binding, path in class_info(ref).attributes.get(name, ())
                    if not path
                ]
                if not bindings:
                    yield _UNSEEN
                if owner.cls is not None:
                    yield from _changed_elsewhere(owner.cls, name)
                for ref, binding in bindings:
                    if isinstance(binding, ast.expr):
                        yield from _contained(ref.script, binding, seen)
                        reads = (each for each in ref.script.within(ref.node, ast.Attribute) if each.attr == name)
                        yield from _appended(ref.script, reads)
                    else:
                        yield _UNSEEN
        case ast.Subscript(value=inner, slice=ast.Slice()):
            yield from _contained(script, inner, seen)
        case ast.Call(args=[inner]) if script.qualname(container.func) in _LISTS:
            yield from _contained(script, inner, seen)
        case ast.Call(args=[], keywords=[]) if script.qualname(container.func) in _LISTS:
            return
        case ast.List(elts=elements) | ast.Tuple(elts=elements):
            for element in elements:
                yield from [_UNSEEN] if isinstance(element, ast.Starred) else script.values(element)
        case ast.ListComp(elt=element) | ast.GeneratorExp(elt=element) | ast.DictComp(value=element):
            yield from script.values(element)
        case ast.Dict(values=values):
            for element in values:
                yield from script.values(element)
        case _:
            yield _UNSEEN


def _entries(script: Script, member: ast.Attribute) -> list[tuple[Script, ast.expr]]:
    """What `self.blocks.h` is of `self.blocks = nn.ModuleDict(dict(h=…))`, whichever of them it may be; nothing where
    it is no member of such a table, or where the table may be changed."""
    found: list[tuple[Script, ast.expr]] = []
    for table in script.values(member.value):
        made, file = table.node, table.script
        if table.name != "torch.nn.ModuleDict" or not isinstance(made, ast.Call) or file is None:
            return []
        entry = _entry(file, made, member.attr)
        if entry is None:
            return []
        found.append((file, entry))
    return found if found and _stays(script, member) else []


def _stays(script: Script, member: ast.Attribute) -> bool:
    """Whether every file around only reads a table of modules, under the name that it has here."""
    name = last_name(member.value)
    for other in script.project.related(script):
        mentions = other.syntax_index.mentions(name, *other.import_aliases((name,)))
        if not all(_only_reads(other, each) for each in mentions) or any(
            not isinstance(each.ctx, ast.Load) and last_name(each.value) != "self"
            for each in other.syntax_index.mentions(member.attr)
            if isinstance(each, ast.Attribute)
        ):
            return False
    return True


def _only_reads(script: Script, table: ast.expr) -> bool:
    match script.parent(table):
        case ast.Attribute(attr=name, ctx=ast.Load()):
            return name not in _CHANGING
        case ast.Subscript(value=value, ctx=ast.Load()):
            return value is table
        case ast.Assign() as statement:
            return table in statement.targets
        case _:
            return False


def _entry(script: Script, made: ast.Call, name: str) -> ast.expr | None:
    match made:
        case ast.Call(args=[ast.Call(func=ast.Name(id="dict") as function, args=[], keywords=named)], keywords=[]):
            given = {each.arg: each.value for each in named}
            return None if None in given or script.definitions(function) else given.get(name)
        case ast.Call(args=[ast.Dict(keys=keys, values=values)], keywords=[]):
            texts = [each.value for each in keys if isinstance(each, ast.Constant)]
            return dict(zip(texts, values, strict=True)).get(name) if len(texts) == len(keys) else None
        case _:
            return None


def _changed_elsewhere(cls: ClassRef, name: str) -> Iterator[Value]:
    """What code outside of a class and its bases puts into a container that an object keeps, or in its place."""
    classes = {ref.node for ref in lineage(cls)}
    for other in cls.script.project.related(cls.script):
        for part in other.syntax_index.mentions(name):
            if isinstance(part, ast.Name) or any(each in classes for each in other.ancestors(part)):
                continue
            owners = [value.cls for value in other.values(part.value) if value.cls or value.kind is Kind.UNKNOWN]
            if any(each is None or each.node in classes or cls in lineage(each) for each in owners):
                yield from [_UNSEEN] if isinstance(part.ctx, ast.Store) else _appended(other, [part])


def _appended(script: Script, reads: Iterable[ast.expr]) -> Iterator[Value]:
    """What is put into a container after it is made."""
    for read in reads:
        match script.parent(read):
            case ast.Attribute(attr="append") as method:
                call = script.parent(method)
                if isinstance(call, ast.Call) and call.args:
                    yield from script.values(call.args[0])
            case ast.Attribute(attr="extend" | "insert" | "update" | "add_module" | "__setitem__"):
                yield _UNSEEN
            case ast.Subscript(ctx=ast.Store()) | ast.AugAssign():
                yield _UNSEEN
