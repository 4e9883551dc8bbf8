"""DataLoader calls: which arguments they set, which loops and iterators consume them, how often."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field

from autoaccel.analysis.keyword_arguments import mapping_items, mapping_keys
from autoaccel.analysis.script import Script
from autoaccel.dataflow.abstract_values import Kind
from autoaccel.dataflow.call_arguments import given_values
from autoaccel.library_models.library_values import LOADER_CLASSES
from autoaccel.pytorch.loader_loops import endless_loops, loader_loops

POSITIONS = """dataset batch_size shuffle sampler batch_sampler num_workers collate_fn pin_memory drop_last timeout
worker_init_fn multiprocessing_context generator""".split()
_POOL_METHODS = frozenset("map imap imap_unordered starmap apply apply_async map_async starmap_async".split())


@dataclass(frozen=True, slots=True)
class LoaderCall:
    """One `DataLoader(...)`: arguments that it surely gets, names that `**` may bring, why it cannot be read."""

    call: ast.Call
    settings: dict[str, ast.expr] = field(compare=False)  # follow from `call`
    possible: frozenset[str]
    problem: str | None

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
        yield LoaderCall(call, settings, frozenset(possible), problem)


def iterations(script: Script, call: ast.Call) -> tuple[Iteration, ...]:
    """Every place in the project that surely may iterate the loader that `call` makes."""
    return tuple(
        Iteration(file, node, how)
        for file in script.project.related(script)
        for node, how, loader in _sites(file)
        if any(origin is call for _, origin in file.creations(loader))
    )


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
