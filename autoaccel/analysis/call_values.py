"""What calls result in: of functions and classes of the project, of models, of Python and of libraries."""

from __future__ import annotations

import ast
from functools import partial
from typing import TYPE_CHECKING

from autoaccel.analysis import computed_members
from autoaccel.analysis.attribute_values import attribute_of, having, member, members
from autoaccel.analysis.bound_receivers import is_bound
from autoaccel.analysis.classes import derived_classes, instance_kind, lineage
from autoaccel.analysis.container_stores import as_mapping
from autoaccel.analysis.iteration_wrappers import handed_on, iterables, side_by_side
from autoaccel.analysis.name_lookups import named_member
from autoaccel.analysis.parameter_values import annotated_values
from autoaccel.dataflow.abstract_values import (
    ANY,
    NONE,
    NOTHING,
    NUMBER,
    ClassRef,
    Kind,
    Value,
    Values,
    any_item,
    arithmetic,
    made,
    union,
)
from autoaccel.dataflow.call_arguments import bind_argument, given_as
from autoaccel.dataflow.syntax_index import position
from autoaccel.dataflow.value_parts import container_method, element
from autoaccel.library_models import library_members, library_values, member_values
from autoaccel.library_models.tensor_views import JOINING

if TYPE_CHECKING:
    from autoaccel.analysis.script import Script

_AROUND = {"builtins.enumerate": "enumerate", "builtins.iter": "iter"}  # by name: how what they make is iterated
_READING = frozenset("get pop values items".split())
_MODELS = (Kind.MODULE, Kind.LOSS_FUNCTION)


def call_values(script: Script, node: ast.Call) -> Values:
    """What a call results in."""
    function = node.func
    possible = script.inference.possible
    if isinstance(function, ast.Attribute) and script.qualname(function) is None:
        owners = having(possible(function.value), function.attr)
        return union(_method(script, owner, function, node) for owner in owners)
    if computed_members.lookup(function) is not None:
        return _of_members(script, possible(function), node)
    return union(_result(script, callee, node) for callee in possible(function))


def _result(script: Script, callee: Value, node: ast.Call) -> Values:
    match callee.kind:
        case Kind.EXTERNAL if callee.name is not None:
            return _external_call(script, callee.name, node)
        case Kind.CLASS if callee.cls is not None:
            return made(instance_kind(callee.cls), node, script, cls=callee.cls)
        case Kind.FUNCTION if callee.script is not None and callee.node is not None:
            found = _of_argument(script, callee.script, callee, node) or returned(callee.script, callee.node)
            return union(_handing_on(script, node, value) for value in found) if Kind.ITERATOR in found.kinds else found
        case Kind.MODULE:
            return _forward(script, callee, node)
        case Kind.LOSS_FUNCTION:
            return made(Kind.TENSOR, node, script)
        case Kind.OBJECT | Kind.DATASET | Kind.SCHEDULER if callee.cls is not None:
            called = attribute_of(callee.cls, "__call__")
            return ANY if called is None else union(_result(script, value, node) for value in called)
        case Kind.NONE:
            return NOTHING  # it raises
        case _:
            return ANY


def _of_members(script: Script, members: Values, node: ast.Call) -> Values:
    """What a call gives of one of several members that were looked up by a computed name."""
    return union(_of_member(script, each, node) for each in members if computed_members.can_be_called_with(each, node))


def _of_member(script: Script, member: Value, node: ast.Call) -> Values:
    if member.kind is Kind.EXTERNAL and library_members.gives_plain_object(member.name or ""):
        return made(Kind.OBJECT, node, script, name=member.name)
    return _result(script, member, node)


def _of_argument(script: Script, file: Script, callee: Value, call: ast.Call) -> Values:
    """What a function gives that looks up, and calls, a member of what it is given: `config.init_obj("arch", models)`;
    nothing for all other functions."""
    assert callee.node is not None
    asked = computed_members.of_parameter(file, callee.node)
    if asked is None:
        return NOTHING
    parameter, key, inner = asked
    argument = bind_argument(callee.node, call, parameter, bound=is_bound(file, callee.node, script, call))
    if argument is None:
        return NOTHING
    members = computed_members.members(file, script.inference.possible(argument), key)
    return members if inner is None else _of_members(file, members, inner)


def _handing_on(script: Script, call: ast.Call, value: Value) -> Values:
    """A generator that gives the items of what it is called with has these."""
    function, file = value.node, value.script
    if value.how == "generator" and isinstance(function, ast.FunctionDef) and file is not None:
        if (name := handed_on(file, function)) is not None:
            argument = bind_argument(function, call, name, bound=is_bound(file, function, script, call))
            if argument is not None:
                return Values({value._replace(items=((None, script.inference.possible(argument)),))})
    return Values({value})


def _forward(script: Script, module: Value, node: ast.Call) -> Values:
    forward = None if module.cls is None else attribute_of(module.cls, "forward")
    if forward is not None:
        return union(
            returned(value.script, value.node)
            if value.kind is Kind.FUNCTION and value.script is not None and value.node is not None
            else ANY
            for value in forward
        )
    if module.name is not None:
        return library_values.forwarded(module.name, node, script)
    return ANY


def returned(script: Script, function: ast.AST) -> Values:
    """What a project function returns, whoever calls it."""
    if isinstance(function, ast.Lambda):
        return script.inference.possible(function.body)
    if not isinstance(function, ast.FunctionDef):
        return ANY
    return script.inference.ask(function, partial(_returned, script, function))


def _returned(script: Script, function: ast.FunctionDef) -> Values:
    if any(script.in_scope(function, kind) for kind in (ast.Yield, ast.YieldFrom)):
        return made(Kind.ITERATOR, function, script, how="generator")
    raised = next((each for each in function.body if isinstance(each, ast.Raise)), None)  # whatever happens
    returns = [part for part in script.in_scope(function, ast.Return) if part.value is not None]
    values = [part.value for part in returns if part.value and (raised is None or position(part) < position(raised))]
    if not values and raised is not None and _is_overridden(script, function):
        return NOTHING  # whoever calls it enters one of those
    found = union(map(script.inference.possible, values))
    annotated = annotated_values(script, function.returns)
    if annotated and all(value.kind is Kind.UNKNOWN for value in found):
        return annotated
    return Values({NONE}) if not found and not values else found


def _is_overridden(script: Script, method: ast.FunctionDef) -> bool:
    """Whether a class that derives from a method's class has a method of this name."""
    cls = script.parent(method)
    return isinstance(cls, ast.ClassDef) and any(
        isinstance(each, ast.FunctionDef) and each.name == method.name
        for ref in derived_classes(script.class_ref(cls))
        for each in ref.node.body
    )


def _method(script: Script, owner: Value, function: ast.Attribute, node: ast.Call) -> Values:
    """`owner.method(…)`: what is known of the method, or what those give that it may be."""
    name, owner = function.attr, as_mapping(owner) if function.attr in _READING else owner
    known: Values | None = None
    own = attribute_of(owner.cls, name) if owner.cls is not None and owner.kind in _MODELS else None
    if own is None or all(value.kind is not Kind.FUNCTION for value in own):
        if name == "forward" and owner.kind in _MODELS:
            return _forward(script, owner, node)
        of_container = owner.kind in (Kind.SEQUENCE, Kind.MAPPING, Kind.ITERATOR)
        known = (container_method if of_container else member_values.method)(owner, name, node, script)
    if known is None:
        return union(_result(script, callee, node) for callee in member(script, owner, name, function))
    return known


def _external_call(script: Script, name: str, node: ast.Call) -> Values:
    arguments, possible = node.args, script.inference.possible
    first = arguments[0] if arguments and not isinstance(arguments[0], ast.Starred) else None
    if name in library_values.TRANSPARENT and first is not None:
        return possible(first)
    if name == "builtins.getattr" and (named := named_member(node)) is not None:
        read = members(script, *named, node)
        return read | possible(arguments[2]) if len(arguments) > 2 else read
    if name == "builtins.getattr" and (looked_up := computed_members.looked_up(script, node)) is not None:
        return looked_up
    if name == "importlib.import_module":
        return computed_members.imported(script, node)
    if name in _AROUND and first is not None:
        return made(Kind.ITERATOR, node, script, how=_AROUND[name], items=((None, iterables(possible(first))),))
    if name == "builtins.zip":
        items = tuple((index, possible(each)) for index, (each, _) in enumerate(side_by_side(script, node)))
        return made(Kind.ITERATOR, node, script, how="zip", items=items)
    if library_values.is_loop_wrapper(name):
        wrapped = first if first is not None else given_as(node, "iterable")
        if wrapped is None:
            return ANY
        return made(Kind.ITERATOR, node, script, how="pass", items=((None, possible(wrapped)),))
    if name == "builtins.next" and first is not None:
        iterators = (value for value in possible(first) if value.kind is not Kind.NONE)  # `batches = None` at first
        iterated = (any_item(value) if value.how in ("iter", "pass") else Values({value}) for value in iterators)
        return union(element(each, node, script) for each in iterated)
    if name in ("builtins.list", "builtins.tuple", "builtins.sorted", "builtins.reversed"):
        elements = element(possible(first), node, script) if first is not None else NOTHING
        return made(Kind.SEQUENCE, node, script, items=((None, elements),) if elements else ())
    if name == "builtins.map" and len(arguments) == 2:
        return made(Kind.ITERATOR, node, script, how="map", items=_mapped(script, *arguments))
    if name == "builtins.sum" and first is not None:
        return element(possible(first), node, script)
    if name in ("builtins.abs", "builtins.round", "builtins.pow") and first is not None:
        return arithmetic(possible(first), union(map(possible, arguments[1:])) or Values({NUMBER}), node, script)
    if name in ("builtins.max", "builtins.min") and first is not None:
        several = len(arguments) > 1 and not any(isinstance(each, ast.Starred) for each in arguments)
        return union(map(possible, arguments)) if several else ANY
    if name == "builtins.super":
        return _super(script, node)
    if name in JOINING and (joined := _joined(possible(first) if first is not None else NOTHING)):
        return joined
    if name == "builtins.dict":
        keywords = tuple((each.arg, possible(each.value)) for each in node.keywords if each.arg is not None)
        return made(Kind.MAPPING, node, script, items=keywords)
    return library_values.called(name, node, script)


def _mapped(script: Script, function: ast.expr, mapped: ast.expr) -> tuple[tuple[int | str | None, Values], ...]:
    """What `map` gives by the places of what it is handed, of a function that gives what it gets; of a lambda, all
    that this may give; nothing of others."""
    if isinstance(function, ast.Lambda):
        return ((None, script.inference.possible(function.body)),)
    given = script.inference.possible(mapped)
    if any(value.name not in library_values.TRANSPARENT for value in script.inference.possible(function)):
        return ()
    match [*given]:
        case [Value(kind=Kind.SEQUENCE, items=items)]:
            return items
        case _:
            return ((None, element(given, mapped, script)),)


def _joined(parts: Values) -> Values:
    """Parts of one batch that are put together, `torch.cat(images)`, `torch.cat([images[0], images[1]])`: the part that
    holds them all. Nothing for other tensors."""
    held = [any_item(value) if value.kind is Kind.SEQUENCE else Values({value}) for value in parts]
    inner = union(held)
    alike = {(value.kind, value.node, value.how) for value in inner}
    if len(alike) != 1 or not all(held):
        return NOTHING
    first, *others = inner
    if first.kind is not Kind.BATCH or first.how not in (None, "view"):
        return NOTHING
    path = first.path
    while any(each.path[: len(path)] != path for each in others):
        path = path[:-1]
    return Values({first._replace(path=path, how="view")})


def _super(script: Script, node: ast.Call) -> Values:
    cls = script.syntax_index.enclosing_class(node)
    if cls is None:
        return ANY
    ref = script.class_ref(cls)
    derived = derived_classes(ref)
    followed: dict[ClassRef, None] = {}
    for each in (ref, *derived):
        line = [*lineage(each)]
        nodes = [above.node for above in line]
        after = line[nodes.index(cls) + 1 :] if cls in nodes else []
        # What comes next for one that derives from several may be no base of this class.
        alone = not after or [above.node for above in lineage(after[0])] == [above.node for above in after]
        followed |= dict.fromkeys(after[:1] if alone else after)
    if not followed:
        return ANY
    found = Values(Value(instance_kind(base), base.node, base.script, cls=base) for base in followed)
    return found if derived.missing is None else found | ANY
