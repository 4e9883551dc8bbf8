"""When code runs: within the body of a loop, or after a call, through whatever leads to it."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator

from autoaccel.analysis import attributes, decorators, name_lookups
from autoaccel.analysis.call_sites import UNSETTLED
from autoaccel.analysis.classes import derived_classes, external_lineage, lineage
from autoaccel.analysis.script import Script
from autoaccel.dataflow.abstract_values import Kind
from autoaccel.dataflow.completeness import Answer, CallSite, ScriptNode
from autoaccel.dataflow.syntax_index import Function, last_name
from autoaccel.library_models.python_names import CONSTRUCTORS, PROPERTIES, SPECIAL_METHODS
from autoaccel.pytorch.loader_calls import repeats

# What libraries call by names of their own, of whatever object they are given.
_PROTOCOLS = tuple(
    """__array __torch __tensor __cuda __dlpack __dataframe __arrow __html __rich __repr __jit __fx __geo __attrs
    __pydantic __getitems__""".split()
)
_CALLED_BY_LIBRARIES = frozenset("forward __call__ write writelines flush".split())
# Classes of which no library calls a method while a loop runs, but those that Python's own protocols name.
_CALLING_NOTHING = tuple(
    "torch.nn. torch.utils.data. torchvision.datasets. abc. typing. enum. object unittest.".split()
)


def runs_within(
    file: Script,
    node: ast.AST,
    script: Script,
    outer: ast.AST,
    makes_batches: Collection[ast.AST] = (),
    *,
    stored: bool = True,
) -> bool:
    """Whether `node` may run inside the body of `outer`, directly or through calls, however many.

    A function that is handed over may be called whenever it pleases others, but for code that `makes_batches`, and for
    functions that hold `outer` themselves. True also where it is not known. `stored` as of `extents_of`.
    """
    extents = extents_of(script, outer, stored=stored)
    if any(_is_drawn_unseen(*each) for each in extents):
        return True
    around = set(_functions_around(script, outer))
    pending: list[ScriptNode] = [(file, node)]
    seen: set[Function] = set()
    while pending:
        file, node = pending.pop()
        if any(file is where and node is not loop and in_body(file, node, loop) for where, loop in extents):
            return True
        function = file.function(node)
        if function is None or function in seen:
            continue
        seen.add(function)
        callers = file.callers(function)
        if callers == UNSETTLED:
            return True
        if function not in makes_batches:
            if _files_naming(file, function).missing is not None:
                return True
            mentions, calls = _handed_over(file, function)
            unseen = _is_implicit(file, function) or (not callers and _is_called_unseen(file, function))
            if (mentions or unseen) and function not in around:
                return True
            pending.extend((*mentions, *calls))
        if any(file.in_scope(function, kind) for kind in (ast.Yield, ast.YieldFrom)):
            readers = [_reader(other, call) for other, call in callers]
            if any(reader is None or reader in extents for reader in readers):
                return True
        pending.extend(callers)
        pending.extend(_called_by_name(file, function))
    return False


def runs_after(file: Script, node: ast.AST, script: Script, call: ast.Call) -> bool:
    """Whether a place may run after a loader was made: between two passes, when its workers hold a copy already.

    True also where it is not known.
    """
    made = _calls_to(script, call)
    pending: list[ScriptNode] = [(file, node)]
    seen: set[Function] = set()
    while pending:
        file, node = pending.pop()
        function = file.function(node)
        beside = [each for where, each in made if where is file and where.function(each) is function]
        if any(_is_below(file, node, each) or repeats(file, node, file, each) for each in beside):
            return True
        if function is None and not beside:  # another file, which is imported first, or imports this one
            if repeats(file, node, script, call) or file is not script or made.missing is not None:
                return True
        if function is not None and not beside and function not in seen:
            seen.add(function)
            callers = file.callers(function)
            if _files_naming(file, function).missing is not None or _is_implicit(file, function):
                return True
            if callers == UNSETTLED:
                return True
            if not callers and _is_called_unseen(file, function):
                return True
            mentions, calls = _handed_over(file, function)
            if mentions:
                return True
            pending.extend(calls)
            pending.extend((*callers, *_called_by_name(file, function)))
    return False


def _is_below(file: Script, node: ast.AST, call: ast.Call) -> bool:
    """Whether a place comes after a call of the same function, and is no part of its arguments, which come first but
    for generators."""
    for around in (node, *file.ancestors(node)):
        if around is call:
            return node is call
        if isinstance(around, ast.GeneratorExp | ast.stmt):
            break
    return getattr(node, "lineno", 0) >= call.lineno


def _calls_to(script: Script, call: ast.Call) -> Answer[CallSite]:
    """A call, the calls of the function that it is in, and so on."""
    found = [(script, call)]
    missing: str | None = None
    for file, each in found:
        function = file.function(each)
        if function is not None:
            callers = file.callers(function)
            missing = missing or callers.missing
            found.extend(other for other in callers if other not in found)
    return Answer(tuple(found), missing)


def _is_drawn_unseen(script: Script, loop: ast.AST) -> bool:
    """Whether a loop is part of a generator that is read without being called by its name: `__iter__`."""
    function = script.function(loop)
    yields = any(script.in_scope(loop, kind) for kind in (ast.Yield, ast.YieldFrom))
    return yields and function is not None and _is_implicit(script, function)


def _reader(script: Script, call: ast.Call) -> ScriptNode | None:
    """The loop whose header calls a generator, which runs whenever the loop asks for more."""
    for loop in script.ancestors(call):
        if isinstance(loop, ast.For | ast.comprehension):
            return (script, loop) if script.inside(call, loop.iter) else None
    return None


def _functions_around(script: Script, node: ast.AST) -> Iterator[Function]:
    """The functions in which a place runs: its own, those that call it, and so on."""
    pending: list[ScriptNode] = [(script, node)]
    seen: set[Function] = set()
    while pending:
        file, node = pending.pop()
        function = file.function(node)
        if function is not None and function not in seen:
            seen.add(function)
            yield function
            pending.extend(file.callers(function))
            pending.extend(_mentions(file, function))


def extents_of(script: Script, outer: ast.AST, *, stored: bool = True) -> list[ScriptNode]:
    """A loop, and the loops that draw from it where it is part of a generator; the whole function that makes the
    generator where none is around it, but unless `stored` not for one that an attribute keeps: it is not drawn from
    while it is made (`stored_generators`)."""
    found: list[ScriptNode] = [(script, outer)]
    for file, loop in found:
        for other, call in _generators_of(file, loop):
            around = _loop_around(other, call)
            if around is None and not stored and _is_stored(other, call):
                continue
            place = (other, around or other.function(call) or other.tree)
            if place not in found:
                found.append(place)
    return found


def stored_generators(script: Script, outer: ast.AST) -> list[CallSite]:
    """The calls of generators with a loop in them that an attribute keeps: `self.batches = cycle(loader)`."""
    return [
        (other, call)
        for file, loop in extents_of(script, outer, stored=False)
        for other, call in _generators_of(file, loop)
        if _loop_around(other, call) is None and _is_stored(other, call)
    ]


def _generators_of(script: Script, loop: ast.AST) -> Iterator[CallSite]:
    """The calls of the generator of which a loop is a part."""
    function = script.function(loop)
    if function is not None and any(script.in_scope(loop, kind) for kind in (ast.Yield, ast.YieldFrom)):
        yield from script.callers(function)


def _loop_around(script: Script, call: ast.Call) -> ast.For | ast.comprehension | None:
    return next((each for each in script.ancestors(call) if isinstance(each, ast.For | ast.comprehension)), None)


def _is_stored(script: Script, call: ast.Call) -> bool:
    match script.parent(call):
        case ast.Assign(targets=[ast.Attribute()], value=value):
            return value is call
        case _:
            return False


def in_body(script: Script, node: ast.AST, outer: ast.AST) -> bool:
    """Whether a place is in what a loop runs for each of its items, its own target among them."""
    match outer:
        case ast.For() | ast.AsyncFor():
            return any(script.inside(node, each) for each in (outer.target, *outer.body))
        case ast.comprehension():
            whole = script.parent(outer)
            return whole is not None and script.inside(node, whole) and not script.inside(node, outer.iter)
        case _:
            return script.inside(node, outer)


def _files_naming(file: Script, function: Function) -> Answer[Script]:
    """The files that may call a function by its name."""
    name = getattr(function, "name", None)
    if name is None:
        return Answer((file,), "it has no name by which to find its callers")
    method = isinstance(file.parent(function), ast.ClassDef)
    of_instances = method and name in ("forward", "__call__")
    return file.project.files_naming(file, None if of_instances else name, attribute=method)


def _called_by_name(file: Script, function: Function) -> Iterator[ScriptNode]:
    """Calls that may enter a function, to go by its name: what they call is not known, or is what it overrides.

    Properties are entered wherever an attribute of their name is read or assigned to.
    """
    name = getattr(function, "name", None)
    cls = file.parent(function)
    if name in CONSTRUCTORS and name != "__init__" and isinstance(cls, ast.ClassDef):
        for ref in (file.class_ref(cls), *derived_classes(file.class_ref(cls))):
            for other in ref.script.project.files_naming(ref.script, ref.node.name, attribute=False):
                yield from ((other, call) for call in other.syntax_index.calls_named(ref.node.name))
    if name is None or name in CONSTRUCTORS:
        return
    method = isinstance(cls, ast.ClassDef)
    bases = {each.node for each in lineage(file.class_ref(cls))} if isinstance(cls, ast.ClassDef) else set()
    for other in _files_naming(file, function):
        if _is_property(function):
            yield from ((other, each) for each in other.syntax_index.mentions(name) if isinstance(each, ast.Attribute))
        for call in other.syntax_index.calls_named(name):
            callees = other.callees(call)
            unknown = not callees and Kind.UNKNOWN in other.values(call.func).kinds
            overridden = any(where.parent(callee) in bases for where, callee in callees if callee is not function)
            if overridden or (unknown and isinstance(call.func, ast.Attribute) is method):
                yield other, call


def _looked_up(file: Script, function: Function) -> Iterator[tuple[Script, ast.expr]]:
    """Where a name is computed that a function may be called by: `getattr(callback, hook)(loss)`."""
    name: str = getattr(function, "name", "")
    for other in _files_naming(file, function) if name else ():
        yield from ((other, part) for part in name_lookups.lookups(other, file, function, (name,)))


def _is_implicit(file: Script, function: Function) -> bool:
    """Whether Python or a library calls a method by itself: `__getitem__`, `__array__`; but for a name that the program
    has made up, by which it calls the method: `self.__read_data__()`."""
    name = getattr(function, "name", "")
    if not (name.startswith("__") and name.endswith("__")) or name in CONSTRUCTORS | {"__call__"}:
        return False
    cls = file.parent(function)
    if name in SPECIAL_METHODS or name.startswith(_PROTOCOLS) or not isinstance(cls, ast.ClassDef):
        return True
    return bool(cls.decorator_list) or not file.callers(function) or _is_called_unseen(file, function)


def _is_called_unseen(file: Script, function: Function) -> bool:
    """Whether a library may call a method that the program itself calls nowhere: `forward` of a part of a sequence,
    `write` of what is printed to, `emit` of a `logging.Handler`."""
    cls, name = file.parent(function), getattr(function, "name", "")
    if not isinstance(cls, ast.ClassDef):
        return False
    if name in _CALLED_BY_LIBRARIES:
        return True
    return any(not base.startswith(_CALLING_NOTHING) for base in external_lineage(file.class_ref(cls)))


def _is_property(function: Function) -> bool:
    """Whether a method runs where an attribute is read or assigned to."""
    decorators = [] if isinstance(function, ast.Lambda) else function.decorator_list
    return any(last_name(each) in PROPERTIES | {"setter", "deleter"} for each in decorators)


def _handed_over(file: Script, function: Function) -> tuple[list[ScriptNode], list[ScriptNode]]:
    """Where a function is, or may be, read without being called, so that whoever gets it may call it; and where it may
    be called under another name."""
    looked_up = list(_looked_up(file, function))
    mentions, calls = list(_mentions(file, function)), list[ScriptNode](looked_up)
    if (decorator := decorators.keeping(file, function)) is not None:
        mentions.append((file, decorator))
    for other, part in (*_mentions_by_name(file, function), *looked_up):
        called = other.call_of(part) is not None and not name_lookups.is_getter(part)
        for call in () if called else name_lookups.calls_of(other, part):
            (mentions if call is None else calls).append((other, call or part))
    return mentions, calls


def _mentions_by_name(file: Script, function: Function) -> Iterator[tuple[Script, ast.expr]]:
    """Where a method may be read, to go by its name: `loader.dataset.widen` of who knows what; a function, of modules
    that are imported when the program runs."""
    name, cls = getattr(function, "name", None), file.parent(function)
    if name is None or _is_property(function):
        return
    for other in _files_naming(file, function):
        for read in other.syntax_index.mentions(name):
            if not isinstance(read, ast.Attribute) or not isinstance(read.ctx, ast.Load) or other.call_of(read):
                continue
            if Kind.UNKNOWN not in other.values(read).kinds:
                continue
            if isinstance(cls, ast.ClassDef):
                may_be = attributes.may_be_instance(other, read.value, file.class_ref(cls))
            else:
                known = Kind.UNKNOWN not in other.values(read.value).kinds
                may_be = not known and name_lookups.MODULES_AT_RUN_TIME.search(other.text) is not None
            if may_be:
                yield other, read


def _mentions(file: Script, function: Function) -> Iterator[ScriptNode]:
    """Where a function is mentioned without being called: whoever it is handed to may call it."""
    name = getattr(function, "name", None)
    if name is None or _is_property(function):
        return
    for other in _files_naming(file, function):
        for mention in other.syntax_index.mentions(name, *other.import_aliases((name,))):
            if other.call_of(mention) is None and any(value.node is function for value in other.values(mention)):
                yield other, mention
