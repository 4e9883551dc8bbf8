"""Values that a loop reads for a list, or for a meter that averages them: what these are, and who sees them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from autoaccel.analysis.script import Script
from autoaccel.dataflow.abstract_values import ClassRef
from autoaccel.dataflow.definitions import Definition
from autoaccel.dataflow.syntax_index import last_name, position
from autoaccel.pytorch.integers import integral
from autoaccel.pytorch.note_methods import has_method, holds_numbers, only_notes
from autoaccel_codemods.host_sync.reads import scope_problem
from autoaccel_codemods.host_sync.sums import Addition, item_calls, read_of

# What keeps no list that it is given. The elements are numbers.
_READING = frozenset("print len sum min max sorted str repr list tuple set any all bool".split())
_ARRAYS = frozenset("mean average nanmean median std var sum min max array cumsum percentile quantile".split())
_STATISTICS = frozenset("mean fmean median stdev pstdev variance".split())
_METHODS = frozenset("append clear copy count extend index insert pop remove reverse sort".split())


@dataclass(frozen=True, slots=True)
class Notes:
    """A list or meter of one name: all that this may be, and the calls that note a value in it."""

    name: str
    definitions: tuple[Definition, ...]
    additions: tuple[Addition, ...]
    is_list: bool

    @property
    def receivers(self) -> frozenset[ast.AST]:
        """The names in the calls that note a value."""
        return frozenset(_receiver(each.statement) for each in self.additions)


def candidates(script: Script) -> Iterator[tuple[ast.Call, Notes | str]]:
    """What the loops note values in, by the first call, or why these have to be there at once."""
    calls: dict[tuple[ast.AST | None, str], list[ast.Call]] = {}
    for call in script.syntax_index.calls_named("append", "update"):
        if script.loops(call) and call.args and isinstance(call.func, ast.Attribute):
            if any(True for each in call.args for _ in item_calls(script, each)):
                calls.setdefault((script.function(call), ast.unparse(call.func.value)), []).append(call)
    for found in calls.values():
        yield found[0], _notes(script, sorted(found, key=position))


def trains(script: Script, call: ast.AST) -> bool:
    """Whether a value is noted in a loop that trains, itself or in a function that it calls."""
    loop = script.loops(call)[0]
    bodies = [(script, loop), *(each for inner in script.within(loop, ast.Call) for each in script.callees(inner))]
    return any(part.attr == "backward" for other, body in bodies for part in other.within(body, ast.Attribute))


def returned(script: Script) -> Iterator[tuple[ast.Return, str]]:
    """Where a function that makes one training step returns what it has read, and why that is left alone."""
    for statement in script.find(ast.Return):
        function = script.function(statement)
        if not isinstance(function, ast.FunctionDef) or statement.value is None:
            continue
        steps = [each for each in script.within(function, ast.Attribute) if each.attr == "backward"]
        own = all(script.function(each) is function and not script.loops(each) for each in steps)
        if steps and own and _is_read(script, statement.value):
            yield statement, f"`{function.name}` returns numbers: those who call it may do anything with them"


def _is_read(script: Script, value: ast.expr) -> bool:
    named = [each for part in script.within(value, ast.Name) for each in script.definitions(part)]
    read = [value, *(each.whole for each in named if each.whole is not None)]
    return any(True for each in read for _ in item_calls(script, each))


def _receiver(call: ast.AST) -> ast.AST:
    assert isinstance(call, ast.Call)
    assert isinstance(call.func, ast.Attribute)
    return call.func.value


def _notes(script: Script, calls: list[ast.Call]) -> Notes | str:
    name = _receiver(calls[0])
    if not isinstance(name, ast.Name):
        return f"`{ast.unparse(name)}` is no variable, and may be read anywhere"
    scope = script.function(calls[0]) or script.tree
    found = dict.fromkeys(each for call in calls for each in script.definitions(_receiver(call)))  # type: ignore[arg-type]
    if not found:
        return f"`{name.id}` begins out of sight"
    for each in found:
        made = each.whole
        shared = not isinstance(each.node, ast.Assign) or len(each.node.targets) > 1
        if (shared and not isinstance(each.node, ast.AnnAssign)) or made is None or each.scope.node is not scope:
            line = getattr(each.node, "lineno", name.lineno)
            return f"`{name.id}` of line {line} may be seen by others, or be no list"
        if not _is_list(script, made) and not all(_is_meter(script, made, call) for call in calls):
            return f"`{name.id}` is neither a list nor an object that keeps numbers and does nothing else"
    lists = {_is_list(script, each.whole) for each in found if each.whole is not None}
    if len(lists) != 1:
        return f"`{name.id}` may be a list or something else"
    additions = [_addition(script, call) for call in calls]
    for addition in additions:
        if isinstance(addition, str):
            return addition
    seen = tuple(each for each in additions if not isinstance(each, str))
    return Notes(name.id, tuple(found), seen, lists.pop())


def _is_list(script: Script, made: ast.expr) -> bool:
    match made:
        case ast.List():
            return True
        case ast.Call(func=ast.Name(id="list") as function, args=[], keywords=[]):
            return not script.definitions(function)
        case _:
            return False


def _is_meter(script: Script, made: ast.expr, call: ast.Call) -> bool:
    """Whether an object of the project's own is made of nothing but numbers and texts, and takes values by a method
    that changes it alone, whose failing nobody waits for."""
    if not isinstance(made, ast.Call) or not isinstance(script.parent(call), ast.Expr):
        return False
    given = [*made.args, *(each.value for each in made.keywords)]
    values = script.values(made)
    return (
        all(isinstance(each, ast.Constant | ast.JoinedStr) for each in given)
        and bool(values)
        and all(each.cls is not None and each.node is made and _is_plain(script, each.cls) for each in values)
        and only_notes(script, call)
        and not any(_catches(each) for each in _within_function(script, call))
    )


def _catches(block: ast.AST) -> bool:
    """Whether a block may go on where a method has failed: `try`, `with suppress(ZeroDivisionError)`."""
    managers = block.items if isinstance(block, ast.With) else ()
    called = (each.context_expr.func for each in managers if isinstance(each.context_expr, ast.Call))
    return isinstance(block, ast.Try) or any(last_name(each) == "suppress" for each in called)


def _is_plain(script: Script, cls: ClassRef) -> bool:
    name = cls.node.name
    return holds_numbers(cls) and not _is_handed_on(script, name) and not _is_handed_on(cls.script, name)


def _is_handed_on(script: Script, cls: str) -> bool:
    """Whether something may exchange methods of a class: `setattr(Meter, name, function)`."""
    for name in script.find(ast.Name):
        if name.id == cls and isinstance(name.ctx, ast.Load):
            call = script.parent(name)
            if not isinstance(call, ast.Call) or call.func is not name:
                return True
    return False


def _within_function(script: Script, node: ast.AST) -> Iterator[ast.AST]:
    scope = script.function(node)
    for each in script.ancestors(node):
        if each is scope:
            return
        yield each


def _addition(script: Script, call: ast.Call) -> Addition | str:
    value, *others = call.args
    if call.keywords or not all(integral(script, each) for each in others):
        return f"`{script.source(call)}` takes more than a value and whole numbers"
    return read_of(script, call, value)


def reads(script: Script, found: Notes) -> Iterator[ast.Name]:
    """Every name that may be the list or meter where something else than noting a value is done with it."""
    names = dict.fromkeys(name for each in found.definitions for name in script.uses(each))
    return (name for name in names if isinstance(name.ctx, ast.Load) and name not in found.receivers)


def texts(script: Script, found: Notes) -> list[ast.stmt]:
    """The statements whose f-strings read a list or meter: what is in these stays as it is."""
    within = (
        each for each in reads(script, found) if any(isinstance(a, ast.JoinedStr) for a in script.ancestors(each))
    )
    return list(dict.fromkeys(script.statement(each) for each in within))


def _is_conditional(script: Script, name: ast.Name) -> bool:
    """Whether a statement may not read a name as it begins: in a branch of an expression, an `elif`, a `while`."""
    statement = script.statement(name)
    for around in script.ancestors(name):
        if around is statement:
            break
        if isinstance(around, ast.IfExp | ast.BoolOp):
            return True
    above = script.parent(statement)
    follows = isinstance(statement, ast.If) and isinstance(above, ast.If) and above.orelse == [statement]
    return follows or isinstance(statement, ast.While)


def problem(script: Script, found: Notes) -> str | None:
    """Why something may see a list or meter before the numbers are in it."""
    scope = found.definitions[0].scope.node
    for name in reads(script, found):
        if (script.function(name) or script.tree) is not scope:
            return f"another function reads it in line {name.lineno}"
        around = script.ancestors(name)
        if any(isinstance(each, ast.comprehension | ast.GeneratorExp | ast.Lambda) for each in around):
            if not _is_consumed(script, name):
                return f"a lambda or comprehension reads it in line {name.lineno}"
    for name in reads(script, found):
        if script.statement(name) in texts(script, found) and _is_conditional(script, name):
            return f"a text under a condition reads it in line {name.lineno}"
    if scope is script.tree and script.is_notebook:
        return "whoever works with the notebook may look at it between cells"
    return _seen_later(script, found) or scope_problem(script, found.name, scope)


def _is_consumed(script: Script, name: ast.Name) -> bool:
    """Whether a comprehension goes through a list at once: `[x for x in losses]`, `sum(x > 1 for x in losses)`."""
    generator = script.parent(name)
    around = script.parent(generator) if isinstance(generator, ast.comprehension) else None
    match around:
        case ast.ListComp(generators=[first, *_]) | ast.SetComp(generators=[first, *_]):
            return first is generator and first.iter is name
        case ast.GeneratorExp(generators=[first, *_]):
            match script.parent(around):
                case ast.Call(func=ast.Name(id=function) as called) if function in _READING:
                    return not script.definitions(called) and first is generator and first.iter is name
                case _:
                    return False
        case _:
            return False


def _seen_later(script: Script, found: Notes) -> str | None:
    """Why something may see a list or meter without reading its name once more."""
    if any(script.additions(each) for each in found.definitions):
        return f"`{found.name}` is added to as a whole"
    for name in reads(script, found):
        if not _keeps_nothing(script, found, name) and _may_be_followed(script, found, name):
            return f"something may keep `{found.name}` in line {name.lineno}, and see what is noted later"
    return None


def _keeps_nothing(script: Script, found: Notes, name: ast.Name) -> bool:
    """Whether nothing that a read leads to is the list or meter itself."""
    parent = script.parent(name)
    match parent:
        case ast.Attribute(attr=attr):
            call = script.parent(parent)
            called = isinstance(call, ast.Call) and call.func is parent
            if found.is_list:
                return called and attr in _METHODS
            if not isinstance(call, ast.Call) or not called:
                return isinstance(parent.ctx, ast.Load) and not attr.startswith("__") and not _is_method(script, parent)
            given = [*call.args, *(each.value for each in call.keywords)]
            return all(isinstance(each, ast.Constant) or integral(script, each) for each in given)
        case ast.FormattedValue() | ast.Starred() | ast.Compare() | ast.UnaryOp(op=ast.Not()):
            return True
        case ast.Subscript(value=value):
            return value is name
        case ast.comprehension():
            return True  # gone through at once, or no read that is left alone
        case ast.If(test=test) | ast.IfExp(test=test) | ast.While(test=test) | ast.Assert(test=test):
            return test is name
        case ast.For(iter=iterated) if iterated is name:
            return not any(script.inside(each.statement, parent) for each in found.additions)
        case ast.Call(func=ast.Name(id=function) as called, args=arguments) if name in arguments:
            return function in _READING and not script.definitions(called)
        case ast.Call(func=function, args=arguments) if name in arguments:
            module, _, attr = (script.qualname(function) or "").rpartition(".")
            return (module == "numpy" and attr in _ARRAYS) or (module == "statistics" and attr in _STATISTICS)
        case ast.Return():
            finals = (each.finalbody for each in _within_function(script, name) if isinstance(each, ast.Try))
            last = [statement for body in finals for statement in body]
            return not any(script.inside(each.statement, part) for each in found.additions for part in last)
        case _:
            return False


def _is_method(script: Script, attribute: ast.Attribute) -> bool:
    classes = [each.cls for each in script.values(attribute.value)]
    return any(each is None or has_method(each, attribute.attr) for each in classes)


def _may_be_followed(script: Script, found: Notes, name: ast.Name) -> bool:
    """Whether a value may be noted, after a read, in what was read."""
    for addition in found.additions:
        if position(addition.statement) > position(name):
            return True
        around = script.loops(name)
        common = next((each for each in script.loops(addition.statement) if each in around), None)
        if common is not None and not any(
            each.node in common.body and position(each.node) < position(addition.statement)
            for each in found.definitions
        ):
            return True
    return False
