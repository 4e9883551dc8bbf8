"""How many optimizer steps a run makes, where the code says so: the turns of the loops around the step.

The answer is an expression that is read before training begins, so it consists of names that are certainly bound by
then, and of lengths of loaders that certainly have one and do nothing when they are asked for it.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from autoaccel.analysis.bound_receivers import is_bound
from autoaccel.analysis.classes import methods
from autoaccel.analysis.iteration_wrappers import wrapped_argument
from autoaccel.analysis.script import Script
from autoaccel.dataflow.abstract_values import Kind, Value
from autoaccel.dataflow.bounds import CALLS_TO_STEP
from autoaccel.dataflow.call_arguments import bind_argument
from autoaccel.dataflow.definitions import Scope
from autoaccel.dataflow.syntax_index import Function
from autoaccel.pytorch import datasets
from autoaccel.pytorch.device_expressions import precedes
from autoaccel.pytorch.evaluation_passes import is_main_guard
from autoaccel.pytorch.integers import at_most
from autoaccel.pytorch.loader_calls import LoaderCall, loader_calls
from autoaccel.pytorch.loader_loops import loader_loops
from autoaccel.pytorch.training_steps import TrainingStep, training_steps
from autoaccel_codemods.compile.trained_models import TrainedModel

_EXITS = frozenset({"sys.exit", "os._exit", "exit", "quit", "builtins.exit", "builtins.quit"})
_Loop = ast.For | ast.While | ast.AsyncFor
_CONDITIONS = (ast.If, ast.Try, ast.Match, ast.IfExp, ast.BoolOp)


@dataclass(frozen=True, slots=True)
class _Factor:
    """How often a loop turns: a whole number, or a name with the attributes that follow it, or a loader's length."""

    name: ast.Name | None
    attributes: str = ""
    number: int = 1
    is_length: bool = False

    @property
    def text(self) -> str:
        if self.name is None:
            return str(self.number)
        return f"len({self.name.id})" if self.is_length else f"{self.name.id}{self.attributes}"


def steps_of_run(script: Script, model: TrainedModel, at: ast.stmt) -> str | None:
    """The number of optimizer steps that train a model, as an expression for right after `at`; None if unknown."""
    step = training_step(script, model)
    if step is None or script.loops(at):
        return None
    found = {_product(script, each.call, at) for each in step.optimizer_steps}
    return found.pop() if len(found) == 1 else None


def times_run(script: Script, call: ast.Call) -> int | None:
    """How often a run makes a call, or how often at most, where literal numbers say so."""
    factors = _turns(script, call, None)
    if factors is None:
        return None
    known = [each.number if each.name is None else _literal(script, each) for each in factors]
    numbers = [each for each in known if each is not None]
    return math.prod(numbers) if len(numbers) == len(known) else None


def _literal(script: Script, factor: _Factor) -> int | None:
    named = factor.name is not None and not factor.attributes and not factor.is_length
    return at_most(script, factor.name) if named and factor.name is not None else None


def training_step(script: Script, model: TrainedModel) -> TrainingStep | None:
    """The one training step of a file that runs a model."""
    made = {value.node for value in model.values}
    steps = [
        step
        for step in training_steps(script)
        if any(value.node in made for call in step.forwards for value in script.values(call.func))
    ]
    return steps[0] if len(steps) == 1 else None


def _product(script: Script, step: ast.Call, at: ast.stmt) -> str | None:
    factors = _turns(script, step, script.function(at))
    if not factors or not all(_can_be_read(script, each, at) for each in factors):
        return None
    number = math.prod(each.number for each in factors if each.name is None)
    named = [each for each in factors if each.name is not None]
    # what is no number yet, for want of training, must not be multiplied
    numbers = all(each.is_length or _is_number(script, each) for each in named)
    if len(factors) > 1 and not numbers and not _surely_follows(script, at, step):
        return None
    texts = [each.text for each in named]
    return " * ".join([str(number), *texts] if number != 1 or not named else texts)


def _is_number(script: Script, factor: _Factor) -> bool:
    return factor.name is not None and not factor.attributes and script.kind(factor.name) is Kind.NUMBER


def _surely_follows(script: Script, at: ast.stmt, node: ast.AST, depth: int = CALLS_TO_STEP) -> bool:
    """Whether control that has passed `at` goes on to `node`, or to what calls the function around it."""
    if script.function(node) is not script.function(at):
        function = script.function(node)
        call = _only_call(script, function) if function is not None and depth else None
        return call is not None and _surely_follows(script, at, call, depth - 1)
    block = script.block(at)
    between = block[block.index(at) + 1 :]
    for statement in between:
        if script.inside(node, statement):
            return not isinstance(statement, _CONDITIONS) or (
                isinstance(statement, ast.If) and is_main_guard(statement)
            )
        if isinstance(statement, ast.FunctionDef | ast.ClassDef):
            continue
        if any(True for kind in (ast.Return, ast.Break, ast.Continue) for _ in script.in_scope(statement, kind)):
            return False
        if any(script.qualname(call.func) in _EXITS for call in script.in_scope(statement, ast.Call)):
            return False
    return False


def _turns(script: Script, node: ast.AST, scope: Function | None, depth: int = CALLS_TO_STEP) -> list[_Factor] | None:
    """The loops around a place, as far as a scope that calls it, the outermost first; None if one cannot be told."""
    function = script.function(node)
    loops = script.loops(node)
    outermost = loops[-1] if loops else node
    around = _between(script, node, outermost if function is scope or function is None else function)
    if any(isinstance(each, _CONDITIONS) for each in around):
        return None
    limit, is_of_run = _limit(script, loops)
    if limit is not None:
        factors = [limit]
    else:
        counted = [_count(script, loop) for loop in reversed(loops)]
        factors = [each for each in counted if each is not None]
        if len(factors) < len(counted) or any(_leaves(script, loop) for loop in loops):
            return None
    if function is scope:
        return factors
    call = _only_call(script, function) if function is not None and depth else None
    if function is None or call is None:
        return None
    handed = [_handed(script, function, call, each) for each in factors]
    outside = [] if is_of_run else _turns(script, call, scope, depth - 1)
    if outside is None or any(each is None for each in handed):
        return None
    return [*outside, *(each for each in handed if each is not None)]


def _only_call(script: Script, function: Function) -> ast.Call | None:
    """The one call of a function, in this file, if there surely is no other."""
    callers = script.callers(function)
    if len(callers) != 1 or callers.missing is not None or callers.seen[0][0] is not script:
        return None
    return callers.seen[0][1]


def _between(script: Script, node: ast.AST, outer: ast.AST) -> Iterator[ast.AST]:
    if node is outer:
        return
    for each in script.ancestors(node):
        if each is outer:
            return
        yield each


def _count(script: Script, loop: _Loop) -> _Factor | None:
    """How often a loop turns."""
    if not isinstance(loop, ast.For):
        return None
    loaders = [each for each in loader_loops(script) if each.node is loop]
    if loaders:
        (each, *others) = loaders
        known = not others and each.known and isinstance(each.loader, ast.Name)
        return _Factor(each.loader, is_length=True) if known and isinstance(each.loader, ast.Name) else None
    iterable = loop.iter
    while isinstance(iterable, ast.Call) and (wrapped := wrapped_argument(script, iterable)) is not None:
        iterable = wrapped
    match iterable:
        case ast.Call(func=ast.Name(id="range") as called, args=[stop], keywords=[]) if not script.definitions(called):
            return _factor(stop)
        case ast.Call(func=ast.Name(id="range") as called, args=[start, stop], keywords=[]) if not script.definitions(
            called
        ):
            return _from(start, stop)
        case _:
            return None


def _from(start: ast.expr, stop: ast.expr) -> _Factor | None:
    """`range(0, n)`, `range(1, n + 1)`, `range(1, 11)`."""
    match start, stop:
        case ast.Constant(value=int() as first), ast.Constant(value=int() as last):
            return _Factor(None, number=last - first) if last > first else None
        case ast.Constant(value=0), _:
            return _factor(stop)
        case ast.Constant(value=int() as first), ast.BinOp(left=left, op=ast.Add(), right=ast.Constant(value=more)):
            return _factor(left) if more == first else None
        case _:
            return None


def _factor(expression: ast.expr) -> _Factor | None:
    match expression:
        case ast.Constant(value=int() as number) if number > 0 and not isinstance(number, bool):
            return _Factor(None, number=number)
        case ast.Name():
            return _Factor(expression)
        case ast.Attribute(value=owner, attr=attr):
            outer = _factor(owner)
            named = outer is not None and outer.name is not None
            return replace(outer, attributes=f"{outer.attributes}.{attr}") if outer is not None and named else None
        case _:
            return None


def _limit(script: Script, loops: list[_Loop]) -> tuple[_Factor | None, bool]:
    """The end of a count of the steps, and whether the count goes on from call to call of the function that counts:
    `step += 1` beside the step, and `while step < n` or `if step == n: break`."""
    counts = [
        each.target
        for loop in loops[:1]
        for each in loop.body
        if isinstance(each, ast.AugAssign) and isinstance(each.target, ast.Name) and isinstance(each.op, ast.Add)
        if isinstance(each.value, ast.Constant) and each.value.value == 1
        if not _restarts(script, each.target, loops)
    ]
    counted = {each.id for each in counts}
    ends: set[_Factor | None] = set()
    for loop in loops:
        if isinstance(loop, ast.While):
            ends.add(_end(loop.test, counted, ast.Lt))
        for choice in script.in_scope(loop, ast.If):
            if any(isinstance(each, ast.Break | ast.Return) for each in choice.body):
                ends.add(_end(choice.test, counted, ast.Eq, ast.GtE))
    ends.discard(None)
    texts = {each.text for each in ends if each is not None}
    is_of_run = all(_scope_of(script, each) is script.module_scope for each in counts)
    return (next(iter(ends)), is_of_run) if len(texts) == 1 else (None, False)


def _restarts(script: Script, count: ast.Name, loops: list[_Loop]) -> bool:
    """Whether a count begins again in a loop."""
    scope = _scope_of(script, count)
    definitions = [each for each in scope.definitions.get(count.id, ()) if not isinstance(each.node, ast.AugAssign)]
    begins = [each.node for each in definitions if each.how == "assign"]
    in_turns = any(script.inside(each, loop) for each in begins for loop in loops)
    return not begins or in_turns or (scope is script.module_scope and any(script.loops(each) for each in begins))


def _scope_of(script: Script, name: ast.Name) -> Scope:
    """The scope that a name which is added to belongs to."""
    function = script.function(name)
    declared = function is not None and any(name.id in each.names for each in script.in_scope(function, ast.Global))
    return script.module_scope if function is None or declared else script.reaching_definitions.scopes[function]


def _end(test: ast.expr, counted: set[str], *comparisons: type[ast.cmpop]) -> _Factor | None:
    match test:
        case ast.Compare(left=ast.Name(id=name), ops=[comparison], comparators=[end]) if name in counted:
            return _factor(end) if isinstance(comparison, comparisons) else None
        case _:
            return None


def _leaves(script: Script, loop: ast.AST) -> bool:
    """Whether a loop may end before its time."""
    return any(True for kind in (ast.Break, ast.Return) for _ in script.in_scope(loop, kind))


def _handed(script: Script, function: Function, call: ast.Call, factor: _Factor) -> _Factor | None:
    """A factor in words of the caller."""
    if factor.name is None:
        return factor
    definitions = script.definitions(factor.name)
    if len(definitions) != 1:
        return None
    if definitions[0].scope is script.module_scope:
        return factor
    if definitions[0].how != "param" or definitions[0].scope.node is not function:
        return None
    bound = is_bound(script, function, script, call)
    argument = bind_argument(function, call, factor.name.id, bound=bound)
    passed = None if argument is None else _factor(argument)
    if passed is None or (passed.name is None and (factor.attributes or factor.is_length)):
        return None
    if factor.is_length:
        return replace(passed, is_length=True) if not passed.attributes else None
    return replace(passed, attributes=passed.attributes + factor.attributes)


# -- what can be read where the model is made


def _can_be_read(script: Script, factor: _Factor, at: ast.stmt) -> bool:
    if factor.name is None:
        return True
    if not _is_bound(script, factor.name, at):
        return False
    if factor.is_length:
        return has_length(script, factor.name)
    stored = (each for each in script.find(ast.Attribute) if isinstance(each.ctx, ast.Store))
    return not factor.attributes or all(script.source(each) != factor.text for each in stored)


def _is_bound(script: Script, name: ast.Name, at: ast.stmt) -> bool:
    """Whether a name has, where the model is made, the one value that it has at the loop."""
    definitions = script.definitions(name)
    if len(definitions) != 1 or definitions[0].how not in ("assign", "param"):
        return False
    found, scope = definitions[0], script.function(at)
    if found.how == "param":
        return found.scope.node is scope
    here: ast.stmt = at
    if found.scope is script.module_scope and scope is not None:
        if name.id in script.reaching_definitions.scopes[scope].definitions or not isinstance(scope, ast.FunctionDef):
            return False
        here = scope
    elif found.scope.node is not (scope or script.tree):
        return False
    return isinstance(found.node, ast.stmt) and precedes(script, found.node, here)


def has_length(script: Script, loader: ast.expr) -> bool:
    """Whether the length of a loader can be asked for at no cost and to no effect."""
    made = [(file, each) for file, call in script.creations(loader) for each in loader_calls(file) if each.call is call]
    nodes = {value.node for value in script.values(loader)}
    if not nodes or nodes != {each.call for _, each in made}:
        return False
    streams = any(datasets.is_iterable(source) for file, each in made for source in _sources(file, each))
    return not streams and (_is_asked(script, nodes) or all(_counts_samples(file, each) for file, each in made))


def _is_asked(script: Script, loaders: set[ast.AST | None]) -> bool:
    """Whether the script itself asks for it."""
    return any(
        loaders == {value.node for value in script.values(call.args[0])}
        for call in script.syntax_index.calls_named("len")
        if isinstance(call, ast.Call) and len(call.args) == 1
    )


def _counts_samples(script: Script, made: LoaderCall) -> bool:
    if {"sampler", "batch_sampler"} & (made.settings.keys() | made.possible) or made.problem is not None:
        return False
    sources = _sources(script, made)
    return bool(sources) and all(_has_simple_length(source) for source in sources)


def _sources(script: Script, made: LoaderCall) -> tuple[Value, ...]:
    return tuple(datasets.origins(script, made.settings["dataset"])) if "dataset" in made.settings else ()


def _has_simple_length(source: Value) -> bool:
    if source.cls is None:
        return (source.name or "").startswith(("torchvision.datasets.", "torch.utils.data.TensorDataset"))
    match [*methods(source.cls, "__len__")]:
        case [(_, ast.FunctionDef(body=[ast.Return()])), *_]:
            return True
        case _:
            return False
