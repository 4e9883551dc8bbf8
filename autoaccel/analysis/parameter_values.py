"""What parameters may be: what annotations say, call sites pass, a class hands its methods, and uses prove."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import TYPE_CHECKING

from autoaccel.analysis import decorators
from autoaccel.analysis.bound_receivers import is_bound
from autoaccel.analysis.call_sites import NoneYet, arguments_for
from autoaccel.analysis.classes import derived_classes, instance_kind, is_lent
from autoaccel.analysis.passed_arguments import handed_on
from autoaccel.analysis.started_functions import starts
from autoaccel.dataflow.abstract_values import ANY, NONE, NOTHING, ClassRef, Kind, Value, Values, made, union
from autoaccel.dataflow.call_arguments import bind_argument, positional, unpacks
from autoaccel.dataflow.definitions import STAR, Definition
from autoaccel.dataflow.value_parts import element
from autoaccel.library_models import library_values

if TYPE_CHECKING:
    from autoaccel.analysis.script import Script

_NO_OBJECT = Values({NONE})


def parameter_values(script: Script, definition: Definition) -> Values:
    """What a parameter may be: annotated, as `self`, from call sites, and where these say nothing by its use."""
    argument, default = definition.node, definition.value
    function = definition.scope.node
    assert isinstance(argument, ast.arg)
    if definition.path == (STAR,):
        if getattr(getattr(function, "args", None), "vararg", None) is argument:
            return made(Kind.SEQUENCE, argument, script)
        given = keywords_given(script, definition)
        items = tuple(
            (name, union(file.inference.possible(each) for file, each in values)) for name, values in given.items()
        )
        return made(Kind.MAPPING, argument, script, items=items)
    annotated = annotated_values(script, argument.annotation)
    if annotated:
        return _passed(script, function, argument, annotated, default)
    own = _receiver(script, function, argument)
    if own is not None:
        return own
    mapped = _mapped(script, function, argument) | _decorated(script, function, argument)
    passed = [*arguments_for(script, function, argument.arg)]
    found = union([mapped, *(each.inference.possible(value) for each, value in passed)])
    if not found:
        if passed or isinstance(script.callers(function), NoneYet):
            return NOTHING  # as yet: it is passed what depends on itself, or by callers that do
        used = _by_use(script, definition)
        if used or default is None:
            return used or ANY
        return script.inference.possible(default) | (ANY if _may_be_unseen(script, function, argument) else NOTHING)
    if default is not None and found.kinds != {Kind.UNKNOWN}:
        found |= script.inference.possible(default).without(ANY)
    if not mapped and _may_be_unseen(script, function, argument):
        found |= ANY
    if Kind.UNKNOWN in found.kinds:
        used = _by_use(script, definition)
        if used and not any(value.kind not in (Kind.UNKNOWN, Kind.NONE) for value in found):
            return used
    return found


def keywords_given(script: Script, definition: Definition) -> dict[str, list[tuple[Script, ast.expr]]]:
    """What `**kwargs` holds, by its names, where a function only reads it, by names, and all who call it are seen;
    nothing else."""
    function = definition.scope.node
    callers = script.callers(function)
    calls = [*callers]
    if callers.missing is not None or any(True for _ in starts(script, function)):
        return {}
    if any(each.arg is None for _, call in calls for each in call.keywords):
        return {}
    for use in script.uses(definition):
        match script.parent(use):
            case ast.Subscript(slice=ast.Constant(value=str()), ctx=ast.Load()):
                pass
            case ast.keyword(arg=None):
                pass
            case _:
                return {}
    arguments = getattr(function, "args", None)
    own = {*positional(function), *(each.arg for each in getattr(arguments, "kwonlyargs", ()))}
    found: dict[str, list[tuple[Script, ast.expr]]] = {}
    for other, call in calls:
        for each in call.keywords:
            if each.arg is not None and each.arg not in own:
                found.setdefault(each.arg, []).append((other, each.value))
    return found


def _may_be_unseen(script: Script, function: ast.AST, argument: ast.arg) -> bool:
    """Whether a parameter may be given what no call says: by one out of sight, or by `super().__init__(**options)`."""
    callers = script.callers(function)
    if callers.missing is not None:
        return True
    for other, call in callers:
        if unpacks(call):
            bound = is_bound(script, function, other, call)
            given = bind_argument(function, call, argument.arg, bound=bound)
            if given is None and handed_on(other, call, function, argument.arg, bound=bound) is None:
                return True
    return False


def _mapped(script: Script, function: ast.AST, argument: ast.arg) -> Values:
    """What `map(lambda t: …, xs)` passes to its lambda."""
    match script.parent(function):
        case ast.Call(func=ast.Name(id="map"), args=[ast.Lambda(args=parameters) as first, *iterables]) as call:
            if first is function and argument in parameters.args[: len(iterables)]:
                return element(script.inference.possible(iterables[parameters.args.index(argument)]), call, script)
    return NOTHING


def _decorated(script: Script, function: ast.AST, argument: ast.arg) -> Values:
    """What a decorator is given: the classes and functions above which it stands."""
    if not isinstance(function, ast.FunctionDef):
        return NOTHING
    given = positional(function)
    if isinstance(script.parent(function), ast.ClassDef):
        given = given[1:]
    if given != [argument.arg]:
        return NOTHING
    made = decorators.decorated_by(script, function)
    found = Values(decorators.decorated_value(*each) for each in made)
    return found if made.missing is None or not found else found | ANY


def _passed(
    script: Script, function: ast.AST, argument: ast.arg, annotated: Values, default: ast.expr | None
) -> Values:
    """What call sites pass for an annotated parameter: it says which loader or model, where the annotation says
    only that it is one. None is as little said as by `loader: DataLoader = None`."""
    kinds = annotated.kinds
    if not kinds <= {Kind.DATASET, Kind.LOADER, Kind.MODULE, Kind.OPTIMIZER}:
        return annotated
    if script.callers(function).missing is not None:
        return annotated
    passed = arguments_for(script, function, argument.arg)
    given = union(other.inference.possible(each) for other, each in passed)
    if default is not None:
        given |= script.inference.possible(default)
    given = given.without(_NO_OBJECT)
    return given if given and given.kinds <= kinds else annotated


def _receiver(script: Script, function: ast.AST, argument: ast.arg) -> Values | None:
    """`self` in a method is an instance of its class."""
    if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
        return None
    cls = script.parent(function)
    if not isinstance(cls, ast.ClassDef) or not function.args.args or function.args.args[0] is not argument:
        return None
    names = {decorator.id for decorator in function.decorator_list if isinstance(decorator, ast.Name)}
    if "staticmethod" in names:
        return None
    ref = script.class_ref(cls)
    if "classmethod" in names:
        return _instances(ref, made=False)
    found = _instances(ref)
    return found | ANY if is_lent(ref, function.name) else found


def _instances(ref: ClassRef, *, made: bool = True) -> Values:
    """The objects of a class and of those that derive from it, or (not `made`) these classes."""
    derived = derived_classes(ref)
    found = Values(
        Value(instance_kind(each) if made else Kind.CLASS, each.node, each.script, cls=each) for each in (ref, *derived)
    )
    return found if derived.missing is None else found | ANY


def annotated_values(script: Script, annotation: ast.expr | None) -> Values:
    """What an annotation says; nothing where it says nothing."""
    if annotation is None:
        return NOTHING
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        try:
            annotation = ast.parse(annotation.value, mode="eval").body
        except SyntaxError:
            return NOTHING
        if isinstance(annotation, ast.BinOp):
            annotation = annotation.left
        return library_values.annotated(ast.unparse(annotation).rsplit(".", 1)[-1])
    if isinstance(annotation, ast.BinOp) and isinstance(annotation.op, ast.BitOr):
        return annotated_values(script, annotation.left) or annotated_values(script, annotation.right)
    if isinstance(annotation, ast.Subscript):
        base = script.qualname(annotation.value)
        if base in ("typing.Optional", "typing.Annotated"):
            inner = annotation.slice
            return annotated_values(script, inner.elts[0] if isinstance(inner, ast.Tuple) and inner.elts else inner)
        return annotated_values(script, annotation.value)
    name = script.qualname(annotation)
    if name is None and isinstance(annotation, ast.Name) and not script.definitions(annotation):
        name = f"builtins.{annotation.id}"
    if name is not None:
        return library_values.annotated(name)
    for value in script.inference.possible(annotation):
        if value.cls is not None and value.kind is Kind.CLASS:
            return _instances(value.cls)
    return NOTHING


def _by_use(script: Script, definition: Definition) -> Values:
    """What the uses of a parameter with unknown arguments prove."""
    kind = used_as(script, definition.name, script.uses(definition))
    return made(kind, definition.node, script) if kind is not None else NOTHING


def used_as(script: Script, name: str, uses: Iterable[ast.expr]) -> Kind | None:
    """The kind that the uses of a name prove: `x.zero_grad()` with `x.step()` makes an optimizer."""
    methods: set[str] = set()
    called = iterated = False
    for use in uses:
        match script.parent(use):
            case ast.Attribute(attr=method):
                methods.add(method)
            case ast.Call(func=function) if function is use:
                called = True
            case ast.For(iter=source) if source is use:
                iterated = True
            case ast.Call(func=function) if library_values.is_loop_wrapper(script.qualname(function)):
                iterated = True
            case _:
                pass
    return library_values.used_as(name, methods, called=called, iterated=iterated)
