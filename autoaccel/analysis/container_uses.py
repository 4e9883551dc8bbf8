"""Where a list or a dict goes from the expression that makes it: its names and attributes, the functions that it
is passed to, the callers that it is returned to, into other containers and out of them."""

from __future__ import annotations

import ast
import collections
from collections.abc import Iterator
from typing import TYPE_CHECKING

from autoaccel.analysis.callables import called_name
from autoaccel.analysis.classes import methods, owner_name
from autoaccel.analysis.passed_functions import bound_to
from autoaccel.dataflow.abstract_values import Kind
from autoaccel.dataflow.syntax_index import position
from autoaccel.library_models.python_names import LOOKING

if TYPE_CHECKING:
    from autoaccel.analysis.script import Script
    from autoaccel.dataflow.definitions import Definition

Use = tuple["Script", ast.expr | None]
Step = tuple["Script", ast.expr | None, int]
"""An expression of a file, and how many containers what is followed lies in there: 0 is that itself. None for the
expression where it goes out of sight."""

_COPYING = frozenset({"copy.copy", "copy.deepcopy"})
_CHANGING = ("heapq.", "bisect.insort", "operator.", "list.", "dict.")
"""Beginnings of the names of library functions that change what they are given."""
_OF_ELEMENTS = frozenset({"key", "collate_fn", "worker_init_fn"})
"""Arguments that are functions, and are called with elements at most."""
_COMPUTING = LOOKING | frozenset("sum any all range hash".split())
"""Builtins whose results hold nothing of what they are given."""
_LIBRARIES = frozenset("torch numpy json math os random re scipy sklearn matplotlib time warnings yaml".split())
_HANDING_OUT = ("torch.utils.data.", "random.", "torch.nn.Sequential", "torch.nn.ModuleList", "torch.nn.ModuleDict")
"""Beginnings of the names of functions of these libraries that do hand on what they are given."""
_PLAIN = frozenset({Kind.NUMBER, Kind.STRING, Kind.BOOL, Kind.TENSOR, Kind.ARRAY, Kind.OPTIMIZER, Kind.SCHEDULER})
"""Kinds whose methods return nothing that they were given."""
_SAME_ELEMENTS = frozenset("list tuple set frozenset reversed iter sorted".split())
_CHOOSING = frozenset("max min next".split())
"""Builtins that return an element of what they are given, or one of several arguments."""
_OF_PAIRS = frozenset({"dict", "collections.OrderedDict"})
_WRAPPED_ELEMENTS = frozenset("enumerate zip".split())
_METHODS = {name for kind in (list, tuple, dict, set, collections.deque) for name in dir(kind)}
_TAKING_OUT = frozenset("get pop setdefault popleft".split())
_OF_ONE = frozenset("append add insert appendleft setdefault __setitem__".split())
_OF_ALL = frozenset("extend extendleft update".split())
_IN_PLACE = frozenset(
    """append add insert appendleft extend extendleft update setdefault remove discard clear sort reverse count index
    keys rotate""".split()
)
"""Methods that hand out no element."""


def outermost(script: Script, made: ast.expr) -> tuple[ast.expr, int]:
    """The literal that a container lies in, and how deep: where it goes is asked once for all elements of a table."""
    depth = 0
    while (around := _holder(script, made)) is not None:
        made, depth = around, depth + 1
    return made, depth


def uses(script: Script, made: ast.expr, depth: int) -> Iterator[Use]:
    """The expressions that stand for a container that lies so deep in what is made; None where it goes out of sight."""
    pending: list[tuple[Script, ast.expr, int]] = [(script, made, depth), *_within_methods(script, made)]
    seen = {(made, depth)}
    while pending:
        file, use, deep = pending.pop()
        if deep == 0:
            yield file, use
        for where, other, within in _steps(file, use, deep, made):
            if other is None or within > script.project.bounds.nesting:
                yield where, None
            elif (other, within) not in seen:
                seen.add((other, within))
                pending.append((where, other, within))


def _within_methods(script: Script, made: ast.expr) -> Iterator[tuple[Script, ast.expr, int]]:
    """Where an object is read in the methods of its own class."""
    for value in script.inference.possible(made) if isinstance(made, ast.Call) else ():
        if value.cls is None or value.kind is not Kind.OBJECT:
            continue
        for file, method in methods(value.cls):
            own = owner_name(file, method)
            for definition in file.reaching_definitions.scopes[method].definitions.get(own or "", ()):
                if definition.how == "param":
                    yield from ((file, each, 0) for each in (*file.uses(definition), *file.additions(definition)))


def _holder(script: Script, element: ast.expr) -> ast.expr | None:
    """The literal or comprehension that an expression is an element of, unless it is unpacked at once."""
    around = script.parent(element)
    match around:
        case ast.List() | ast.Tuple() | ast.Set() if isinstance(getattr(around, "ctx", None), ast.Load | None):
            return around if _unpacked_to(script, element) is None else None
        case ast.Dict(keys=keys, values=values):
            named = (each for key, each in zip(keys, values, strict=True) if key is not None)
            return around if any(each is element for each in named) else None
        case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
            return around
        case _:
            return None


def _unpacked_to(script: Script, value: ast.expr) -> ast.expr | None:
    """The target that an assignment gives to this expression alone: `xs` of `[]` in `xs, self.ys = [], {}`."""
    around = script.parent(value)
    match around:
        case ast.Assign(targets=[only]) if value is around.value:
            return only
        case ast.Tuple(elts=values) | ast.List(elts=values):
            target = _unpacked_to(script, around)
            if isinstance(target, ast.Tuple | ast.List) and len(target.elts) == len(values):
                pairs = list(zip(values, target.elts, strict=True))
                if not any(isinstance(each, ast.Starred) for pair in pairs for each in pair):
                    return next(to for each, to in pairs if each is value)
    return None


def _steps(script: Script, use: ast.expr, depth: int, made: ast.expr) -> Iterator[Step]:
    """What else stands for what an expression stands for, in the statement around it."""
    around, held = script.parent(use), depth > 0
    if isinstance(getattr(use, "ctx", None), ast.Store | ast.Del):
        if isinstance(around, ast.AugAssign) and isinstance(use, ast.Name):  # `xs += ys`: below, too
            for definition in script.definitions(use):
                yield from _read(script, definition, depth)
        return
    match around:
        case ast.Assign(targets=targets):
            for target in targets:
                yield from _bound(script, target, use, depth)
        case ast.AnnAssign(target=target):
            yield from _bound(script, target, use, depth)
        case ast.AugAssign(target=target):
            if held:  # its elements are added to others
                yield from _named(script, target, depth)
        case ast.NamedExpr(target=target):
            yield script, around, depth
            yield from _bound(script, target, use, depth)
        case (
            ast.For(iter=iterable, target=target)
            | ast.AsyncFor(iter=iterable, target=target)
            | ast.comprehension(iter=iterable, target=target)
        ) if iterable is use:
            if held:
                yield from _bound(script, target, use, depth - 1)
        case _ if (whole := _holder(script, use)) is not None:
            yield script, whole, depth + 1
        case ast.Tuple() | ast.List():
            if (only := _unpacked_to(script, use)) is not None:
                yield from _bound(script, only, use, depth)
        case ast.Dict():
            if held:  # `{**d}`
                yield script, around, depth
        case ast.Starred():
            if held:
                literal = script.parent(around)
                yield script, literal if isinstance(literal, ast.List | ast.Tuple | ast.Set) else None, depth
        case ast.Subscript(value=value, slice=key):
            if held and value is use:
                yield script, around, depth if isinstance(key, ast.Slice) else depth - 1
        case ast.Attribute():
            yield from _by_method(script, around, depth)
        case ast.IfExp(test=test):
            if use is not test:
                yield script, around, depth
        case ast.BoolOp():
            yield script, around, depth
        case ast.BinOp(op=operator):
            if isinstance(operator, ast.Mult) or (held and isinstance(operator, ast.Add | ast.BitOr)):
                yield script, around, depth
        case ast.Call(func=function) if function is use:
            return
        case ast.Call() | ast.keyword() | ast.arguments():
            yield from _passed(script, use, depth, made)
        case ast.Return() if (returning := script.function(around)) is not None:
            callers = script.callers(returning)
            yield from ((where, call, depth) for where, call in callers.seen)
            if callers.missing is not None and not script.inside(made, returning):  # whoever calls it gets another one
                yield script, None, depth
        case (
            ast.Expr()
            | ast.Compare()
            | ast.UnaryOp()
            | ast.FormattedValue()
            | ast.If()
            | ast.While()
            | ast.Assert()
            | ast.Raise()
            | ast.Slice()
            | ast.withitem()
        ):
            return
        case _:
            yield script, None, depth


def _bound(script: Script, target: ast.expr, value: ast.expr, depth: int) -> Iterator[Step]:
    """Where a target is read that a value is bound to, or its elements are."""
    match target:
        case ast.Name():
            for definition in script.definitions(target):
                if definition.value is not None and script.inside(value, definition.value):
                    yield from _read(script, definition, depth)
        case ast.Attribute(attr=name):
            yield from _mentions(script, name, depth, attribute=True)
        case ast.Subscript(value=owner):
            yield from _named(script, owner, depth + 1)
        case ast.Tuple(elts=targets) | ast.List(elts=targets) if depth > 0:
            for each in targets:
                if isinstance(each, ast.Starred):
                    yield from _bound(script, each.value, value, depth)
                else:
                    yield from _bound(script, each, value, depth - 1)


def _read(script: Script, definition: Definition, depth: int) -> Iterator[Step]:
    yield from ((script, each, depth) for each in (*script.uses(definition), *script.additions(definition)))
    scope = definition.scope
    if scope.parent is None or isinstance(scope.node, ast.ClassDef):
        for step in _mentions(script, definition.name, depth, attribute=scope.parent is not None):
            if step[0] is not script or scope.parent is not None:
                yield step


def _named(script: Script, owner: ast.expr, depth: int) -> Iterator[Step]:
    """What stands for the object of a name or attribute."""
    match owner:
        case ast.Name():
            for definition in script.definitions(owner):
                yield from _read(script, definition, depth)
        case ast.Attribute(attr=name):
            yield from _mentions(script, name, depth, attribute=True)
        case _:
            yield script, None, depth


def _mentions(script: Script, name: str, depth: int, *, attribute: bool) -> Iterator[Step]:
    """Where a name of a module, or an attribute, is mentioned in all files in which it may be."""
    files = script.project.files_naming(script, name, attribute=attribute)
    for file in files:
        mentions = file.syntax_index.mentions(name, *(() if attribute else file.import_aliases((name,))))
        yield from ((file, each, depth) for each in mentions if not attribute or isinstance(each, ast.Attribute))
    if files.missing is not None:
        yield script, None, depth


def _by_method(script: Script, method: ast.Attribute, depth: int) -> Iterator[Step]:
    """What stands for the result of a method of a container, or for what it takes out."""
    call, name = script.call_of(method), method.attr
    if name == "copy" and call is not None:
        yield script, call, depth  # the same value to the analysis
    elif depth > 0 and name in _METHODS:
        if name in _TAKING_OUT and call is not None:
            yield script, call, depth - 1
        elif name == "values" and call is not None:
            yield script, call, depth
        elif name == "items" and call is not None:
            yield script, call, depth + 1
        elif name not in _IN_PLACE or call is None:
            yield script, None, depth


def _passed(script: Script, use: ast.expr, depth: int, made: ast.expr) -> Iterator[Step]:
    """What stands for an argument, or for a parameter's default, in the function that gets it, and for its result."""
    around = script.parent(use)
    unpacked = isinstance(around, ast.keyword) and around.arg is None
    if unpacked and depth == 0:
        return  # `f(**d)`: a copy
    bound = bound_to(script, use)
    for where, definition in bound or ():
        yield from _read(where, definition, depth - unpacked)
    call = script.parent(around) if isinstance(around, ast.keyword) else around
    if not isinstance(call, ast.Call):
        if bound is None:
            yield script, None, depth
        return
    name = _name(script, call.func)
    if name in _COPYING:
        yield script, call, depth  # the same value to the analysis
    elif name in _SAME_ELEMENTS:
        if depth > 0:
            yield script, call, depth
    elif name in _WRAPPED_ELEMENTS:
        yield script, call, depth + 1
    elif name in _CHOOSING:
        if depth > 0:
            yield script, call, depth - 1
        if len(call.args) > 1:
            yield script, call, depth
    elif name in _OF_PAIRS:
        if isinstance(around, ast.keyword) and not unpacked:
            yield script, call, depth + 1
        elif depth > 0:
            yield script, call, depth
            yield script, call, max(depth - 1, 1)  # within pairs
    else:
        if isinstance(call.func, ast.Attribute):
            yield from _put_in(script, use, call.func, depth)
        if bound is None and (_may_enter(script, call, name) or _may_use_methods(script, use, name)):
            if not _is_last_use(script, use, made):
                yield script, None, depth
        elif bound is None and _hands_out(script, call, name):
            yield script, None, depth


def _put_in(script: Script, use: ast.expr, method: ast.Attribute, depth: int) -> Iterator[Step]:
    """What stands for the containers that a method puts an argument, or its elements, into."""
    if method.attr in _OF_ALL and isinstance(script.parent(use), ast.Call):
        if depth > 0:
            yield from _named(script, method.value, depth)
    elif method.attr in _OF_ONE or method.attr == "update":
        yield from _named(script, method.value, depth + 1)


def _name(script: Script, function: ast.expr) -> str:
    """The name of a library's function, or of a method by the type it belongs to: `list.append`; empty of others."""
    name = called_name(script, function)
    if name is None and isinstance(function, ast.Attribute):
        owner = called_name(script, function.value)
        name = None if owner is None else f"{owner}.{function.attr}"
    return (name or "").removeprefix("builtins.")


def _may_enter(script: Script, call: ast.Call, name: str) -> bool:
    """Whether a call may change what it gets, or enter code of the project that is not seen. Libraries do not, unless
    they get a function of the project beside it, to call it: `partial(f, d)`, `Thread(target=f, args=(d,))`."""
    known = script.inference.possible(_receiver(script, call))
    if any(each.cls is not None or each.kind in (Kind.UNKNOWN, Kind.FUNCTION, Kind.MODULE) for each in known):
        return True
    beside = [*call.args, *(each.value for each in call.keywords if each.arg not in _OF_ELEMENTS)]
    if any(isinstance(each, ast.Lambda) or Kind.FUNCTION in script.inference.possible(each).kinds for each in beside):
        return True
    return name.startswith(_CHANGING) or name == "setattr"  # it has another name from then on


def _may_use_methods(script: Script, use: ast.expr, name: str) -> bool:
    """Whether a library may call methods of a class of the project that it gets an object of."""
    known = name in _COMPUTING or name.partition(".")[0] in _LIBRARIES
    return not known and any(each.cls is not None for each in script.inference.possible(use))


def _hands_out(script: Script, call: ast.Call, name: str) -> bool:
    """Whether what a library's function returns may be what it was given, or hold it."""
    if isinstance(script.parent(call), ast.Expr) or name in _COMPUTING:
        return False
    if not name:
        return not script.inference.possible(_receiver(script, call)).kinds <= _PLAIN
    return name.partition(".")[0] not in _LIBRARIES or name.startswith(_HANDING_OUT)


def _receiver(script: Script, call: ast.Call) -> ast.expr:
    """The object of a method, or the function itself."""
    function = call.func
    return function.value if isinstance(function, ast.Attribute) and script.qualname(function) is None else function


def _is_last_use(script: Script, use: ast.expr, made: ast.expr) -> bool:
    """Whether nothing that is in sight reads a container after a use of it: it has no name, or none below."""
    if script.inside(made, use):
        return True
    function = script.function(use)
    if not isinstance(use, ast.Name) or function is None or function is not script.function(made):
        return False
    loop = next((each for each in script.ancestors(use) if isinstance(each, ast.For | ast.While)), None)
    if loop is not None and not script.inside(made, loop):
        return False
    others = (each for definition in script.definitions(use) for each in script.uses(definition))
    return all(each is use or position(each) < position(use) for each in others)
