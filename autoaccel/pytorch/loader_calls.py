"""DataLoader calls: which arguments they set, which loops and iterators consume them, how often."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from autoaccel.analysis.classes import external_lineage, instance_kind, lineage
from autoaccel.analysis.iteration_wrappers import iterated_attribute
from autoaccel.analysis.keyword_arguments import mapping_items, mapping_keys
from autoaccel.analysis.script import Script
from autoaccel.dataflow.abstract_values import ClassRef, Kind, Value
from autoaccel.dataflow.call_arguments import given_values
from autoaccel.dataflow.syntax_index import last_name, position
from autoaccel.library_models.library_values import LOADER_CLASSES
from autoaccel.pytorch.loader_loops import endless_loops, loader_loops

POSITIONS = """dataset batch_size shuffle sampler batch_sampler num_workers collate_fn pin_memory drop_last timeout
worker_init_fn multiprocessing_context generator""".split()
# What a loader of torch has besides its methods for Python.
_MEMBERS = frozenset(POSITIONS) | frozenset(
    """prefetch_factor persistent_workers pin_memory_device in_order check_worker_number_rationality _auto_collation
    _get_iterator _index_sampler _iterator _is_protocol _dataset_kind _IterableDataset_len_called""".split()
)
_POOL_METHODS = frozenset("map imap imap_unordered starmap apply apply_async map_async starmap_async".split())


@dataclass(frozen=True, slots=True)
class LoaderCall:
    """One `DataLoader(...)`: arguments that it surely gets, names that `**` may bring, why it cannot be read."""

    call: ast.Call
    settings: dict[str, ast.expr] = field(compare=False)  # follow from `call` and `cls`
    possible: frozenset[str]
    problem: str | None
    elsewhere: dict[str, Script] = field(default_factory=dict, compare=False)  # files of settings that are not its own
    cls: ClassRef | None = None
    """The class of the project that the call makes: `getattr(module, name)(…)` may make one of several."""

    def at(self, script: Script, name: str) -> tuple[Script, ast.expr] | None:
        """An argument of a call in a script, with the file in which it is written."""
        value = self.settings.get(name)
        return None if value is None else (self.elsewhere.get(name, script), value)

    def writes(self, name: str) -> bool:
        """Whether the call itself sets an argument, not a mapping that it unpacks and that others may unpack too."""
        value = self.settings.get(name)
        return any(value is each for each in given_values(self.call))


@dataclass(frozen=True, slots=True)
class Iteration:
    """A place that iterates a loader: "for" (comprehensions too), kept "iter", "next" for `next(iter(x))`, "endless"
    for a loop over a generator that has a loop of its own over the loader."""

    script: Script
    node: ast.AST
    how: str


def loader_calls(script: Script) -> Iterator[LoaderCall]:
    """The calls of torch's own loader classes; subclasses and other libraries' loaders have rules of their own."""
    for call in script.calls(*LOADER_CLASSES):
        yield _read(script, call)


def loader_made(script: Script, call: ast.Call) -> LoaderCall | None:
    """What a call that makes a loader sets: of torch's own class, or of one of the project that derives from it and
    leaves to it all that loading is about. None for any other, and where it may be of one of several classes."""
    found = loaders_made(script, call)
    return found[0] if len(found) == 1 else None


def loaders_made(script: Script, call: ast.Call) -> tuple[LoaderCall, ...]:
    """The same for each class of loaders that a call may be of: `getattr(module, name)(…)`. None at all where one of
    them is not known."""
    if script.qualname(call.func) in LOADER_CLASSES:
        return (_read(script, call),)
    classes = [each for each in script.values(call.func) if each.kind is Kind.UNKNOWN or _makes_loaders(each)]
    found = [_of_class(script, call, each) for each in classes]
    return tuple(each for each in found if each is not None) if None not in found else ()


def _makes_loaders(callee: Value) -> bool:
    if callee.kind is Kind.CLASS and callee.cls is not None:
        return instance_kind(callee.cls) in (Kind.LOADER, Kind.UNKNOWN)
    return callee.kind is Kind.EXTERNAL and callee.name in LOADER_CLASSES


def _of_class(script: Script, call: ast.Call, callee: Value) -> LoaderCall | None:
    """What a call of a class of loaders sets."""
    if callee.kind is Kind.EXTERNAL:
        return _read(script, call)
    if callee.cls is None:
        return None
    family = tuple(lineage(callee.cls))
    external = tuple(external_lineage(callee.cls))
    if len(external) != 1 or external[0] not in LOADER_CLASSES or any(map(_changes_loading, family)):
        return None
    inits = [(each, part) for each in family for part in each.node.body if _is_init(part)]
    if len(inits) > 1 and any(len(each.node.bases) != 1 for each in family):
        return None
    methods = ((each, part) for each in family for part in each.node.body if not _is_init(part))
    if any(_is_store(attribute) for each, part in methods for attribute in each.script.within(part, ast.Attribute)):
        return None
    file, handing, collates = script, call, dict[str, tuple[Script, ast.expr]]()
    for each, init in inits:
        assert isinstance(init, ast.FunctionDef)
        stored = _stored_after_handing_on(init)
        if stored is not None:
            collates = {name: (each.script, stored[name]) for name in stored if name == "collate_fn"} | collates
            continue
        given = _handed_on(each.script, init)
        if given is None or any(isinstance(argument, ast.Starred) for argument in given.args):
            return None
        file, handing = each.script, given
    made = _read(file, handing)
    settings = made.settings | {name: value for name, (_, value) in collates.items()}
    elsewhere = dict.fromkeys(made.settings, file) if handing is not call else {}
    elsewhere |= {name: each for name, (each, _) in collates.items()}
    return replace(made, call=call, settings=settings, elsewhere=elsewhere, cls=callee.cls)


def _is_init(part: ast.stmt) -> bool:
    return isinstance(part, ast.FunctionDef) and part.name == "__init__"


def _changes_loading(cls: ClassRef) -> bool:
    """Whether a class defines what its base, or Python, would use: only its constructor, its length and methods with
    names that torch's loaders do not have are known to be none of that."""
    names = (
        part.name if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef) else None
        for part in cls.node.body
        if not (isinstance(part, ast.Pass) or (isinstance(part, ast.Expr) and isinstance(part.value, ast.Constant)))
    )
    own = (name for name in names if name not in ("__init__", "__len__"))
    return bool(cls.node.decorator_list or cls.node.keywords) or any(
        name is None or name.startswith("__") or name in _MEMBERS for name in own
    )


def _handed_on(script: Script, init: ast.FunctionDef) -> ast.Call | None:
    """What a constructor hands to its base's, once and in any case; else None. What it stores before, its base stores
    anew."""
    calls = [each for each in script.in_scope(init, ast.Call) if last_name(each.func) == "__init__"]
    statements = [each.value for each in init.body if isinstance(each, ast.Expr)]
    if init.decorator_list or len(calls) != 1 or calls[0] not in statements:
        return None
    later = (each for each in script.in_scope(init, ast.Attribute) if position(each) > position(calls[0]))
    if any(_is_store(each) for each in later):
        return None
    match calls[0].func:
        case ast.Attribute(value=ast.Call(func=ast.Name(id="super"))):
            return calls[0]
        case _:
            return None


def _is_store(attribute: ast.Attribute) -> bool:
    """Whether what a loader of torch has is stored, or maybe: through its `__dict__`."""
    stored = not isinstance(attribute.ctx, ast.Load) and attribute.attr in _MEMBERS and attribute.attr != "shuffle"
    return stored or attribute.attr == "__dict__"


def _stored_after_handing_on(init: ast.FunctionDef) -> dict[str, ast.expr] | None:
    """The attributes that a constructor stores after it has handed all its arguments on, as they are, to its base's,
    where it does nothing else and none of them is its base's but the collate function; else None."""
    match init.args:
        case ast.arguments(
            posonlyargs=[], args=[ast.arg(arg=own)], kwonlyargs=[], vararg=ast.arg(arg=rest), kwarg=ast.arg(arg=named)
        ):
            pass
        case _:
            return None
    handed, stored = False, dict[str, ast.expr]()
    for statement in init.body:
        match statement:
            case ast.Pass() | ast.Expr(value=ast.Constant()):
                continue
            case ast.Expr(
                value=ast.Call(
                    func=ast.Attribute(value=ast.Call(func=ast.Name(id="super")), attr="__init__"),
                    args=[ast.Starred(value=ast.Name(id=first))],
                    keywords=[ast.keyword(arg=None, value=ast.Name(id=second))],
                )
            ) if (first, second) == (rest, named) and not handed:
                handed = True
            case ast.Assign(targets=[ast.Attribute(value=ast.Name(id=name), attr=attr)], value=value) if name == own:
                read = {part.id for part in ast.walk(value) if isinstance(part, ast.Name)}
                if not handed or (attr in _MEMBERS and attr != "collate_fn") or read & {own, rest, named}:
                    return None
                stored[attr] = value
            case _:
                return None
    return stored if handed and not init.decorator_list else None


def _read(script: Script, call: ast.Call) -> LoaderCall:
    settings: dict[str, ast.expr] = {}
    possible: set[str] = set()
    problem = None
    settings.update(zip(POSITIONS, call.args, strict=False))
    if any(isinstance(argument, ast.Starred) for argument in call.args):
        problem = "its positional arguments are unpacked from a sequence"
    for keyword in call.keywords:
        if keyword.arg is not None:
            settings[keyword.arg] = keyword.value
            continue
        items = mapping_items(script, keyword.value)
        keys = mapping_keys(script, keyword.value)
        if items is not None:
            settings |= items
        elif keys is None:
            problem = "its keyword arguments come from a mapping whose keys are not known here"
        else:
            possible |= keys
    return LoaderCall(call, settings, frozenset(possible), problem)


def iterations(script: Script, call: ast.Call) -> tuple[Iteration, ...]:
    """Every place in the project that surely may iterate the loader that `call` makes."""
    return tuple(
        Iteration(file, node, how)
        for file in script.project.related(script)
        for node, how, loader in _sites(file)
        if any(origin is call for _, origin in file.creations(loader))
    )


def handed_out(script: Script, uses: tuple[Iteration, ...], call: ast.Call) -> tuple[Iteration, ...]:
    """The loops over objects whose `__iter__`, one of these places, gives the batches of the loader `call` makes."""
    inside = [use for use in uses if getattr(use.script.function(use.node), "name", "") == "__iter__"]
    return tuple(
        Iteration(file, loop, "for")
        for file in (script.project.related(script) if inside else ())
        for loop in file.find(ast.For)
        if any(_gives(value, call) for value in file.values(unwrapped(file, loop.iter)))
    )


def _gives(value: Value, call: ast.Call) -> bool:
    """Whether an object keeps what a call makes in the attribute whose items a `for` over it gets."""
    kept = iterated_attribute(value.cls) if value.kind is Kind.OBJECT and value.cls is not None else None
    return kept is not None and any(each.node is call for each in kept)


def loops_over_unknown(script: Script) -> list[tuple[Script, ast.AST]]:
    """The loops over loaders of which nobody knows where they were made: over any loader, then."""
    return [
        (file, loop.node)
        for file in script.project.related(script)
        for loop in loader_loops(file)
        if not file.creations(loop.loader)
    ]


def _sites(script: Script) -> Iterator[tuple[ast.AST, str, ast.expr]]:
    for loop in loader_loops(script):
        yield loop.node, "for", loop.loader
    for loop in endless_loops(script):
        yield loop.node, "endless", loop.loader
    for comprehension in script.find(ast.comprehension):
        yield comprehension, "for", unwrapped(script, comprehension.iter)
    for node in script.syntax_index.calls_named("iter"):
        match node:
            case ast.Call(func=ast.Name() as name, args=[loader]) if not script.definitions(name):
                yield node, "next" if _advanced(script, node) else "iter", loader


def unwrapped(script: Script, expression: ast.expr) -> ast.expr:
    """The iterable inside `enumerate` and progress bars."""
    while isinstance(expression, ast.Call) and expression.args:
        values = script.values(expression)
        if not all(value.kind is Kind.ITERATOR and value.how in ("enumerate", "pass") for value in values):
            break
        expression = expression.args[0]
    return expression


def _advanced(script: Script, node: ast.Call) -> bool:
    """Whether a fresh iterator gives one batch and is dropped: `next(iter(loader))`."""
    match script.parent(node):
        case ast.Call(func=ast.Name(id="next")):
            return True
        case ast.Attribute(attr="next" | "__next__"):
            return True
        case _:
            return False


def advances(script: Script, node: ast.AST, call: ast.Call) -> bool:
    """Whether `node` is a `next(…)` that takes a batch of the loader that `call` makes."""
    if not isinstance(node, ast.Call) or not node.args:
        return False
    return any(item.node is call for value in script.values(node.args[0]) for _, items in value.items for item in items)


def repeats(file: Script, node: ast.AST, script: Script, origin: ast.AST) -> bool:
    """Whether `node` (in `file`) may run again and again while the object lives that `origin` (in `script`) makes."""
    pending: list[tuple[Script, ast.AST]] = [(file, node)]
    seen: set[ast.AST] = set()
    while pending:
        file, node = pending.pop()
        if any(file is not script or not file.inside(origin, loop) for loop in file.loops(node)):
            return True
        function = file.function(node)
        if function is None or function in seen or (file is script and function is file.function(origin)):
            continue
        seen.add(function)
        callers = file.callers(function)
        if callers.missing is not None:
            return True
        pending.extend(callers)
    return False


def in_daemon(script: Script, call: ast.Call) -> bool:
    """Whether a loader is made in a process that may not have children: a daemon, or a worker of a pool."""
    function = script.function(call)
    while function is not None and not hasattr(function, "name"):
        function = script.function(function)
    if function is None:
        return False
    marked = any(node.attr == "daemon" and isinstance(node.ctx, ast.Store) for node in script.find(ast.Attribute))
    return any(_starts_daemon(script, site, function, marked) for site in script.find(ast.Call))


def _starts_daemon(script: Script, site: ast.Call, function: ast.AST, marked: bool) -> bool:
    arguments = {keyword.arg: keyword.value for keyword in site.keywords}
    target = arguments.get("target")
    if target is not None:
        flag = arguments.get("daemon")
        return (marked or (isinstance(flag, ast.Constant) and bool(flag.value))) and _refers(script, target, function)
    match site:
        case ast.Call(func=ast.Attribute(attr=attr), args=[first, *_]) if attr in _POOL_METHODS:
            return _refers(script, first, function)
        case _:
            return False


def _refers(script: Script, expression: ast.expr, function: ast.AST) -> bool:
    return any(value.node is function for value in script.values(expression))
