"""Whose parameters an optimizer holds, a statement clears or a read of gradients looks at."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from autoaccel.analysis.call_sites import arguments_for
from autoaccel.analysis.classes import class_info
from autoaccel.analysis.script import Script
from autoaccel.dataflow.abstract_values import Kind
from autoaccel.dataflow.definitions import Definition
from autoaccel.dataflow.syntax_index import breadth_first, is_constant
from autoaccel.pytorch.gradients import is_optimizer_step
from autoaccel.pytorch.step_effects import Effect, call_effects, gradient_reads
from autoaccel.pytorch.training_steps import container

_THROUGH = frozenset("list tuple iter set sorted enumerate zip reversed dict chain from_iterable".split())
_SAME_MODULE = frozenset("to cuda cpu float train".split())


@dataclass(frozen=True, slots=True, eq=False)
class ParameterSource:
    """The parameters of a module (or one parameter), or those of an optimizer (`optimizer.param_groups`).

    `owner` is None where it is not known whose they are; `part` says that a condition chooses among them.
    """

    script: Script
    owner: ast.expr | None
    part: bool = False


def sources(script: Script, expression: ast.expr, seen: frozenset[object] = frozenset()) -> list[ParameterSource]:
    """Whose parameters an expression gives."""
    if expression in seen:
        return []
    seen = seen | {expression}
    unknown = [ParameterSource(script, None)]
    match expression:
        case ast.Call(func=ast.Attribute(value=owner, attr="parameters" | "named_parameters")):
            return _modules(script, owner)
        case ast.Call(func=ast.Attribute(value=owner, attr="items" | "values" | "from_iterable"), args=[]):
            return sources(script, owner, seen)
        case ast.Call(func=ast.Name(id="filter"), args=[condition, given]):
            return _chosen(sources(script, given, seen), "requires_grad" not in script.source(condition))
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name), args=arguments) if name in _THROUGH:
            return _each(script, arguments, seen)
        case ast.List(elts=elements) | ast.Tuple(elts=elements) | ast.Set(elts=elements):
            return _each(script, elements, seen)
        case ast.Starred(value=value):
            return sources(script, value, seen)
        case ast.Subscript(value=value):
            return _chosen(sources(script, value, seen), True)
        case ast.Dict(keys=keys, values=values):
            named = [
                v for k, v in zip(keys, values, strict=True) if isinstance(k, ast.Constant) and k.value == "params"
            ]
            return _each(script, named, seen) if named else unknown
        case ast.BinOp(op=ast.Add(), left=left, right=right) | ast.IfExp(body=left, orelse=right):
            return _each(script, (left, right), seen)
        case ast.ListComp() | ast.GeneratorExp() | ast.SetComp():
            chosen = any("requires_grad" not in script.source(each) for g in expression.generators for each in g.ifs)
            names = {
                part.id for g in expression.generators for part in breadth_first(g.target) if isinstance(part, ast.Name)
            }
            element = expression.elt
            own = isinstance(element, ast.Name) and element.id in names
            return _chosen(sources(script, expression.generators[-1].iter if own else element, seen), chosen)
        case ast.DictComp(value=value):
            return sources(script, value, seen)
        case ast.Attribute(value=owner, attr="param_groups"):
            return [ParameterSource(script, owner)]
        case ast.Attribute():
            return [ParameterSource(script, expression)]
        case ast.Name():
            found = [each for bound in script.definitions(expression) for each in _of(script, bound, expression, seen)]
            return found or unknown
    return unknown


def _is(script: Script, expression: ast.expr, *kinds: Kind) -> bool:
    return any(value.kind in kinds for value in script.values(expression))


def _each(script: Script, expressions: Iterable[ast.expr], seen: frozenset[object]) -> list[ParameterSource]:
    return [found for each in expressions for found in sources(script, each, seen)]


def _chosen(found: list[ParameterSource], chosen: bool) -> list[ParameterSource]:
    return [ParameterSource(each.script, each.owner, True) for each in found] if chosen else found


def _modules(script: Script, owner: ast.expr) -> list[ParameterSource]:
    """A module, or the container of those that a loop takes one after another: `for net in nets: net.parameters()`."""
    for bound in script.definitions(owner) if isinstance(owner, ast.Name) else ():
        if bound.how == "for" and isinstance(bound.node, ast.For | ast.comprehension):
            found = container(bound.node.target, bound.node.iter, bound.name)
            elements = found.elts if isinstance(found, ast.List | ast.Tuple) else [found]
            return [ParameterSource(script, each) for each in elements]
    return [ParameterSource(script, owner)]


def _value(bound: Definition) -> ast.expr | None:
    """What a name is bound to, in `a, b = x, y` too; None where that is no expression of its own."""
    value, path = bound.value, bound.path
    if len(path) == 1 and isinstance(value, ast.Tuple) and isinstance(path[0], int) and path[0] < len(value.elts):
        return value.elts[path[0]]
    return None if path else value


def _receivers(script: Script, function: ast.AST, name: str) -> Iterator[tuple[Script, ast.expr]]:
    """What `self` is, in the words of those who call a method."""
    arguments = getattr(function, "args", None)
    if isinstance(script.parent(function), ast.ClassDef) and arguments and arguments.args[:1]:
        if arguments.args[0].arg == name and getattr(function, "name", "") != "__init__":
            for other, call in script.callers(function):
                if isinstance(call.func, ast.Attribute):
                    yield other, call.func.value


def _of(script: Script, bound: Definition, name: ast.Name, seen: frozenset[object]) -> list[ParameterSource]:
    if bound.how == "for" and isinstance(bound.node, ast.For | ast.comprehension):
        return sources(script, bound.node.iter, seen)
    value = _value(bound)
    if value is None or bound.how == "param":
        return [ParameterSource(script, None)]
    if _is(script, value, Kind.PARAMETER):
        return [ParameterSource(script, name)]
    found = sources(script, value, seen)
    for use in script.uses(bound):
        match script.parent(use):
            case ast.Attribute(attr="append" | "extend" | "insert" | "add") as method:
                call = script.parent(method)
                found += _each(script, call.args[-1:], seen) if isinstance(call, ast.Call) else []
            case ast.AugAssign(target=target, value=value) if target is use:
                found += sources(script, value, seen)
    return found


def held(script: Script, optimizer: ast.expr) -> list[list[ParameterSource]]:
    """What an optimizer holds, for each call that may have made it; nothing where not all of them are seen."""
    found = []
    for maker, call in _makers(script, optimizer):
        if call is None:
            return []
        named = [each.value for each in call.keywords if each.arg == "params"]
        way = _each(maker, call.args[:1] or named, frozenset()) or [ParameterSource(maker, None)]
        if any("add_param_group" in each.used_names for each in {script: None, maker: None}):
            way.append(ParameterSource(maker, None))
        found.append(way)
    return found


def _makers(script: Script, optimizer: ast.expr) -> Iterator[tuple[Script, ast.Call | None]]:
    unknown = False
    for value in script.values(optimizer):
        if value.kind is Kind.OPTIMIZER:
            seen = isinstance(value.node, ast.Call) and value.script is not None
            yield value.script or script, value.node if isinstance(value.node, ast.Call) and seen else None
        unknown = unknown or value.kind in (Kind.EXTERNAL, Kind.UNKNOWN)
    if unknown:  # made by an optimizer's class of another library
        made = script.definitions(optimizer) if isinstance(optimizer, ast.Name) else ()
        for bound in made:
            if not is_constant(bound.value, None):
                yield script, bound.value if isinstance(bound.value, ast.Call) and not bound.path else None
        if not made:
            yield script, None


def same(script: Script, first: ast.expr, other: Script, second: ast.expr) -> bool:
    """Whether two expressions mean the same object: the same name of a scope or class, through arguments too.

    Names that cannot be traced to one scope are told by what made them.
    """
    ours, theirs = _keys(script, first), _keys(other, second)
    if set(ours) & set(theirs):
        return True
    if {scope for scope, _ in ours} & {scope for scope, _ in theirs}:
        return False  # two names: a copy, or made by the same function
    made, again = ({each.node for each in s.values(e)} for s, e in ((script, first), (other, second)))
    return bool(made) and made == again and None not in made


_Keys = dict[tuple[ast.AST, str], None]


def _keys(script: Script, expression: ast.expr, seen: frozenset[ast.AST] = frozenset()) -> _Keys:
    """The names by which an object is known where it is made, each with its scope or class."""
    if expression in seen:
        return {}
    seen = seen | {expression}
    match expression:
        case ast.Name(id=name):
            found: _Keys = {}
            for bound in script.definitions(expression):
                function = bound.scope.node
                if bound.how == "param" and isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                    for other, value in arguments_for(script, function, name):
                        found.update(_keys(other, value, seen))
                    for other, value in _receivers(script, function, name):
                        found.update(_keys(other, value, seen))
                alias = _value(bound)
                if isinstance(alias, ast.Name | ast.Attribute):
                    found.update(_keys(script, alias, seen))
                found[function, name] = None
            return found
        case ast.Attribute(value=ast.Name(id="self"), attr=name):
            cls = script.enclosing_class(expression)
            if cls is None:
                return {}
            found = {}
            for kept, path in class_info(script.class_ref(cls)).attributes.get(name, ()):
                if isinstance(kept, ast.Name | ast.Attribute) and not path:
                    found.update(_keys(script, kept, seen))
            found[cls, f"self.{name}"] = None
            return found
        case ast.Attribute(value=owner, attr=name):
            return {(scope, f"{text}.{name}"): None for scope, text in _keys(script, owner, seen)}
        case ast.Subscript(value=owner, slice=index):
            return {(scope, f"{text}[{script.source(index)}]"): None for scope, text in _keys(script, owner, seen)}
        case _:
            return {}


def covers(script: Script, owner: ast.expr, source: ParameterSource) -> bool:
    """Whether a module (or optimizer) has all of the parameters of a source: it is their owner, or around it."""
    part = source.owner
    while part is not None:
        if same(script, owner, source.script, part):
            return True
        match part:
            case ast.Attribute(value=part) | ast.Subscript(value=part):
                continue
            case ast.Call(func=ast.Attribute(value=part, attr=name)) if name in _SAME_MODULE:
                continue
            case _:
                break
    match owner:
        case ast.Attribute(value=inner, attr="module"):
            return covers(script, inner, source)
    return False


def _covered(source: ParameterSource, other: ParameterSource) -> bool:
    return not other.part and other.owner is not None and covers(other.script, other.owner, source)


def is_held(read: ParameterSource, optimizers: list[tuple[Script, ast.expr]]) -> bool:
    """Whether some optimizers surely hold what is read: each way in which they may have been made holds all of it."""
    if read.owner is None:
        return False
    if any(same(script, optimizer, read.script, read.owner) for script, optimizer in optimizers):
        return True
    for script, optimizer in optimizers:
        ways = held(script, optimizer)
        if ways and all(_holds(way, read) for way in ways):
            return True
    return False


def _holds(way: list[ParameterSource], read: ParameterSource) -> bool:
    matching = [each for each in way if each.owner is not None and covers(each.script, each.owner, read)]
    # Conditions that choose among a model's parameters divide them among groups.
    whole = len(matching) > 1 or any(not each.part for each in matching)
    return whole and not any(_is_replaced(each) for each in matching)


def _is_replaced(source: ParameterSource) -> bool:
    """Whether a part of a model is replaced from outside after its optimizer was made, so that it holds the old one."""
    script, owner = source.script, source.owner
    assert owner is not None
    text = script.source(owner)
    return any(
        isinstance(target, ast.Attribute)
        and statement.lineno > owner.lineno
        and any(isinstance(part, ast.expr) and script.source(part) == text for part in breadth_first(target.value))
        and not _is(script, statement.value, Kind.NUMBER, Kind.STRING, Kind.BOOL, Kind.NONE)
        and target.attr not in ("data", "grad", "requires_grad")
        for statement in script.find(ast.Assign)
        for target in statement.targets
    )


def read_at(script: Script, read: ast.AST, seen: frozenset[ast.AST] = frozenset()) -> Iterator[ParameterSource]:
    """Whose gradients a read looks at, in the functions that it calls too."""
    if isinstance(read, ast.Attribute):
        yield from sources(script, read.value)
    elif isinstance(read, ast.Call) and not is_optimizer_step(script, read):
        callees = script.callees(read)
        for other, function in callees:
            if function not in seen and Effect.GRADIENTS in call_effects(script, read):
                for statement in function.body:
                    for inner in gradient_reads(other, statement):
                        yield from read_at(other, inner, seen | {function})
        if callees:
            return
        given = [*read.args, *(each.value for each in read.keywords)]
        optimizer = next((each for each in given if script.kind(each) is Kind.OPTIMIZER), None)
        if optimizer is not None:
            yield ParameterSource(script, optimizer)
        elif given:
            yield from sources(script, given[0])


def cleared(script: Script, node: ast.AST) -> Iterator[ParameterSource]:
    """Whose gradients a call or assignment by itself clears: `x.zero_grad()`, `p.grad = None`, `p.grad.zero_()`."""
    match node:
        case ast.Call(func=ast.Attribute(value=owner, attr="zero_grad")):
            yield ParameterSource(script, owner)
            yield from _modules(script, owner)
            ways = held(script, owner)
            for each in ways[0] if ways else ():
                if all(any(_covered(each, other) for other in way) for way in ways[1:]):
                    yield each
        case ast.Call(func=ast.Attribute(value=value, attr="zero_")):
            while isinstance(value, ast.Attribute | ast.Call):
                if isinstance(value, ast.Attribute) and value.attr == "grad":
                    yield from sources(script, value.value)
                    return
                value = value.func if isinstance(value, ast.Call) else value.value
        case ast.Assign(targets=[ast.Attribute(value=value, attr="grad")], value=ast.Constant(value=None)):
            yield from sources(script, value)
