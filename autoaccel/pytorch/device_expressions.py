"""Which device expression a place can name: one that the script itself uses in reach of it."""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterable, Iterator

from autoaccel.analysis.rebound_names import rebound_names
from autoaccel.analysis.script import Script
from autoaccel.dataflow.abstract_values import Kind
from autoaccel.dataflow.completeness import Incomplete
from autoaccel.dataflow.syntax_index import last_name
from autoaccel.edits import AddImport, InsertAfter
from autoaccel.pytorch.tensor_type_aliases import chosen_type

_JUMPS = (ast.Return, ast.Raise, ast.Break, ast.Continue, ast.Yield, ast.YieldFrom)
_CONDITIONAL = (ast.BoolOp, ast.IfExp, ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_ACCELERATOR = re.compile(r"cuda|accelerator|device|xpu|gpu", re.IGNORECASE)


def is_used(script: Script) -> bool:
    """Whether the project mentions any device at all; if not, it never leaves the CPU."""
    return any(map(_ACCELERATOR.search, script.project.related_texts(script)))


def named_device(script: Script, statement: ast.stmt) -> tuple[str | None, tuple[InsertAfter | AddImport, ...]]:
    """The device that a statement runs on, as source text, and what gives it a name first, if it has none yet."""
    text = visible_device(script, statement)
    if text is not None:
        return text, ()
    try:
        return _of_chosen_type(script, statement)
    except Incomplete:  # whether `Tensor` is what it seems takes other files
        return None, ()


def visible_device(script: Script, statement: ast.stmt) -> str | None:
    """The source text of the device that a statement runs on, in words of the script that are bound there.

    None where none is known, surely bound and still the same.
    """
    scope = script.function(statement) or script.tree
    return (
        _nearest(script, statement, scope, _mentioned(script))
        or _parameter(script, scope)
        or _nearest(script, statement, scope, _numbered(script))
    )


def _nearest(
    script: Script, statement: ast.stmt, scope: ast.AST, mentioned: Iterable[ast.Name | ast.Attribute]
) -> str | None:
    """Of the devices that a script mentions, one that is bound at a statement: the last above it, or the commonest."""
    near: list[tuple[int, str]] = []
    far: list[str] = []
    for expression in mentioned:
        at = script.function(expression) or script.tree
        text = script.source(expression)
        if at is scope and precedes(script, script.statement(expression), statement):
            if not _is_bound_anew(script, expression, statement, scope):
                near.append((expression.lineno, text))
        elif _bound_everywhere(script, expression, scope, statement):
            far.append(text)
    if near:
        return max(near)[1]
    return max(dict.fromkeys(far), key=far.count) if far else None  # of several, the first that is written


def _of_chosen_type(script: Script, statement: ast.stmt) -> tuple[str | None, tuple[InsertAfter | AddImport, ...]]:
    """The device of `Tensor`, for `x.type(Tensor)` and `Tensor(…)` above a statement: the choice that it stands for."""
    scope = script.function(statement) or script.tree
    for call in script.within(scope, ast.Call):
        match call:
            case (
                ast.Call(func=ast.Attribute(attr="type"), args=[ast.Name() as alias])
                | ast.Call(func=ast.Name() as alias)
            ):
                chosen = chosen_type(script, alias)
            case _:
                continue
        if chosen is None or not chosen.device.text.isidentifier():
            continue
        at = script.statement(call)
        if (script.function(call) or script.tree) is scope and precedes(script, at, statement):
            return chosen.device.text, chosen.naming
    return None, ()


def _is_bound_anew(script: Script, expression: ast.Name | ast.Attribute, statement: ast.stmt, scope: ast.AST) -> bool:
    """Whether a device, or what it is an attribute of, may be another one by the time of a statement."""
    parts = {script.source(part) for part in (expression, getattr(expression, "value", expression))}
    targets: tuple[ast.Name | ast.Attribute, ...] = (
        *script.within(scope, ast.Name),
        *script.within(scope, ast.Attribute),
    )
    return any(
        isinstance(each.ctx, ast.Store)
        and expression.lineno < each.lineno < statement.lineno
        and script.source(each) in parts
        for each in targets
    )


def given_places(script: Script) -> Iterator[ast.expr]:
    """What is passed as `device=` and to `.to(…)`, which may be a type as well."""
    for call in script.find(ast.Call):
        yield from (keyword.value for keyword in call.keywords if keyword.arg == "device")
        if isinstance(call.func, ast.Attribute) and call.func.attr == "to":
            yield from call.args[:1]


def _mentioned(script: Script) -> Iterator[ast.Name | ast.Attribute]:
    """The names and attributes among them that are devices."""
    for each in given_places(script):
        if isinstance(each, ast.Name) or (isinstance(each, ast.Attribute) and isinstance(each.value, ast.Name)):
            if script.is_device(each) and not _on_host(script, each):
                yield each


def _numbered(script: Script) -> Iterator[ast.Name | ast.Attribute]:
    """Those that are devices by their names or numbers: `x.to(self.gpu_id)`."""
    for each in given_places(script):
        if isinstance(each, ast.Name) or (isinstance(each, ast.Attribute) and isinstance(each.value, ast.Name)):
            if not script.is_device(each) and is_numbered(script, each):
                yield each


def is_numbered(script: Script, expression: ast.expr) -> bool:
    """Whether what a tensor is moved to is a device for being a number, or for what it is called: `rank`."""
    if any(value.kind is Kind.NUMBER for value in script.values(expression)):
        return True
    name = last_name(expression)
    return any(word in name.lower() for word in ("device", "rank", "gpu", "cuda"))


def _on_host(script: Script, expression: ast.expr) -> bool:
    """Surely the CPU: `cpu = torch.device("cpu")`."""
    calls = [value.node for value in script.values(expression)]
    return bool(calls) and all(
        isinstance(call, ast.Call)
        and call.args
        and isinstance(call.args[0], ast.Constant)
        and call.args[0].value == "cpu"
        for call in calls
    )


def precedes(script: Script, earlier: ast.stmt, later: ast.stmt) -> bool:
    """Whether control that reaches `later` has passed `earlier`, or both are one statement."""
    block = script.block(earlier)
    current: ast.AST | None = later
    while current is not None:
        if isinstance(current, ast.stmt) and script.block(current) is block:
            return block.index(earlier) <= block.index(current)
        current = script.parent(current)
    return False


def _bound_everywhere(script: Script, expression: ast.expr, scope: ast.AST, statement: ast.stmt) -> bool:
    """Module-level names seen from functions, and `self.device` within one class."""
    if isinstance(expression, ast.Attribute):
        if not (isinstance(expression.value, ast.Name) and expression.value.id == "self"):
            return False
        cls = script.enclosing_class(expression)
        own = isinstance(scope, ast.FunctionDef) and [each.arg for each in scope.args.args[:1]] == ["self"]
        return own and cls is not None and script.parent(scope) is cls
    if not isinstance(expression, ast.Name) or scope is script.tree:
        return False
    definitions = script.definitions(expression)
    if not definitions or any(each.scope.node is not script.tree or each.how != "assign" for each in definitions):
        return False
    bindings = {each.node for each in definitions}
    if not _binds_surely(script.tree.body, bindings) and not _bound_with_others(script, bindings, statement):
        return False
    return not any(
        part.id == expression.id and isinstance(part.ctx, ast.Store) for part in script.within(scope, ast.Name)
    ) and expression.id not in {part.arg for part in script.within(scope, ast.arg)}


def _binds_surely(block: list[ast.stmt], bindings: set[ast.AST]) -> bool:
    """Whether whoever runs or imports a block has one of its bindings: not of those under `if __name__ == …`."""
    return any(
        each in bindings
        or (isinstance(each, ast.If) and _binds_surely(each.body, bindings) and _binds_surely(each.orelse, bindings))
        for each in block
    )


def _bound_with_others(script: Script, bindings: set[ast.AST], statement: ast.stmt) -> bool:
    """Whether a statement cannot run without the block under `if __name__ == …` that has these bindings: it reads
    another name that is bound there alone, up to them, and until then the block calls nothing of the file."""
    guards = (each.body for each in script.tree.body if isinstance(each, ast.If))
    block = next((each for each in guards if _binds_surely(each, bindings)), None)
    if block is None:
        return False
    end = next(index for index, each in enumerate(block) if _binds_surely([each], bindings))
    inside = {part for each in block[: end + 1] for part in script.within(each, ast.AST)}
    own = {each.name for each in script.find(ast.FunctionDef)} | {each.name for each in script.find(ast.ClassDef)}
    if not bindings <= inside or any(isinstance(part, ast.Name) and part.id in own for part in inside):
        return False
    return any(
        bool(definitions := script.definitions(name))
        and all(each.scope.node is script.tree and each.node in inside for each in definitions)
        and name.id not in rebound_names(script)
        for name in _surely_read(script, statement)
    )


def _surely_read(script: Script, statement: ast.stmt) -> Iterator[ast.Name]:
    """Names that are read wherever a statement of a function is run: by it, before it, or in its block after it."""
    around = [each for each in (statement, *script.ancestors(statement)) if isinstance(each, ast.stmt)]
    function = script.function(statement)
    for current in around[: around.index(function)] if function in around else ():
        block = script.block(current)
        at = block.index(current)
        run = block[: at + 1]
        if current is statement:
            run += itertools.takewhile(lambda each: not script.syntax_index.within_any(each, _JUMPS), block[at + 1 :])
        for each in run:
            for part in ast.iter_child_nodes(each):
                if isinstance(part, ast.expr) and not script.syntax_index.within_any(part, _CONDITIONAL):
                    yield from script.within(part, ast.Name)


def _parameter(script: Script, function: ast.AST) -> str | None:
    if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
        for argument in (*function.args.args, *function.args.kwonlyargs):
            if argument.arg == "device" and not any(
                part.id == "device" and isinstance(part.ctx, ast.Store) for part in script.within(function, ast.Name)
            ):
                scope = script.reaching_definitions.scopes.get(function)
                definitions = scope.definitions.get("device", []) if scope is not None else []
                kinds = {value.kind for each in definitions for value in script.inference.definition(each)}
                if kinds <= {Kind.DEVICE, Kind.STRING, Kind.UNKNOWN}:
                    return "device"
    return None
