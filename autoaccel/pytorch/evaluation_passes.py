"""Evaluation passes: whole functions that only evaluate, and the evaluating part of code that also trains."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from autoaccel.analysis.script import Script
from autoaccel.dataflow.abstract_values import Kind
from autoaccel.dataflow.call_arguments import given_values
from autoaccel.dataflow.completeness import Incomplete
from autoaccel.dataflow.query import once_all
from autoaccel.dataflow.syntax_index import breadth_first
from autoaccel.library_models.graph_operations import is_false
from autoaccel.library_models.python_names import BUILTINS
from autoaccel.pytorch.forwards import forward_calls, is_module_method, records, tries_out
from autoaccel.pytorch.gradients import (
    asks_for_gradients,
    backward_calls,
    called_in_grad_mode,
    calls_training,
    has_grad_mode,
    in_grad_mode,
    is_optimizer_step,
    sets_grad_mode,
    trains,
)
from autoaccel.pytorch.graph_requirement import needs_graph
from autoaccel.pytorch.hidden_gradients import hidden_gradient_uses, reason_of
from autoaccel.pytorch.view_writes import RegionCode

_NAMES = "eval|evaluate|evaluation|val|valid|validate|validation|test|tester|testing|predict|prediction|infer|inference"
_NAMED = re.compile(rf"(^|_)({_NAMES})(_|$|\d)")
EVALUATES = (r"\.(?:eval|train)\(", rf"def\s+(?:\w*_)?(?i:{_NAMES})[_(\d]")
"""Regular expressions, of which a file with functions or runs of statements matches one that are evaluations by what
they are called or call; those that are told by the training before them are in files with what trains, too."""
OWN_GRADIENTS = "it needs gradients itself"
HANDED = "it is handed what a model has computed, which it may change in place"
OWN_MODE = "it switches gradients off itself, where it wants to"


@dataclass(frozen=True, slots=True, eq=False)
class EvaluationPass:
    """Code that runs a model without training it.

    Either `function` is the whole of it (gradients are switched off by a decorator), or `first` … `last` is a run of
    sibling statements, which also trains where the expression `trains_if` holds. `forwards` are the model calls that
    still record a graph; none left means `covered`. `problem` says why it must be left alone."""

    node: ast.stmt
    forwards: tuple[ast.Call, ...] = ()
    problem: str | None = None
    function: ast.FunctionDef | ast.AsyncFunctionDef | None = None
    first: ast.stmt | None = None
    last: ast.stmt | None = None
    trains_if: str | None = None

    @property
    def covered(self) -> bool:
        return not self.forwards

    def holds(self, script: Script, node: ast.AST) -> bool:
        """Whether a node of the file is part of it."""
        if self.function is not None:
            return script.inside(node, self.function)
        assert self.first is not None
        assert self.last is not None
        block = script.block(self.first)
        return any(script.inside(node, each) for each in block[block.index(self.first) : block.index(self.last) + 1])


@once_all
def evaluations(script: Script) -> Iterator[EvaluationPass]:
    """Every evaluation pass of a file: functions first, then runs of statements."""
    whole: set[ast.AST] = set()
    functions: list[ast.FunctionDef | ast.AsyncFunctionDef] = [*script.find(ast.FunctionDef)]
    functions.extend(script.find(ast.AsyncFunctionDef))
    for function in functions:
        if script.function(function) is not None or any(each in whole for each in script.ancestors(function)):
            continue
        found = _whole_function(script, function)
        if found is not None:
            whole.add(function)
            yield found
    scopes: list[ast.AST] = [script.tree, *functions]
    for scope in scopes:
        if scope not in whole and not any(each in whole for each in script.ancestors(scope)):
            yield from _runs(script, scope)


def evaluations_with_backward(script: Script) -> Iterator[ast.FunctionDef]:
    """Functions that run a model in evaluation mode and go backward, and step no optimizer: saliency by `backward`."""
    for function in script.find(ast.FunctionDef):
        if not _eval_calls(script, function) or not trains(script, function) or _steps(script, function):
            continue
        if _called_unknown(script, function) is not None or any(True for _ in forward_calls(script, function)):
            yield function


def _steps(script: Script, function: ast.AST) -> bool:
    """Whether a function, or one that it calls, steps an optimizer."""
    pending, seen = [(script, function)], {function}
    for file, each in pending:
        for call in file.within(each, ast.Call):
            if is_optimizer_step(file, call):
                return True
            inner = [(other, callee) for other, callee in file.callees(call) if callee not in seen]
            pending.extend(inner)
            seen.update(callee for _, callee in inner)
    return False


def sets_mode_within(script: Script, outer: ast.AST) -> bool:
    """Whether code sets the grad mode where it wants to, and leaves it on elsewhere."""
    blocks: list[ast.With | ast.AsyncWith] = [*script.in_scope(outer, ast.With), *script.in_scope(outer, ast.AsyncWith)]
    return any(sets_grad_mode(script, item.context_expr) for block in blocks for item in block.items)


def _eval_calls(script: Script, outer: ast.AST) -> list[ast.Call]:
    """`model.eval()` and `model.train(False)` within a scope."""
    return [call for call in script.in_scope(outer, ast.Call) if _switches_to_eval(script, call)]


def _switches_to_eval(script: Script, call: ast.Call) -> bool:
    function = call.func
    if not isinstance(function, ast.Attribute) or function.attr not in ("eval", "train"):
        return False
    if script.qualname(function) is not None:
        return False
    if function.attr == "eval" and not call.args:
        return script.kind(function.value) in (Kind.MODULE, None)
    return function.attr == "train" and is_false(call)


def _whole_function(script: Script, function: ast.FunctionDef | ast.AsyncFunctionDef) -> EvaluationPass | None:
    evals = _eval_calls(script, function)
    named = bool(_NAMED.search(function.name.lower()))
    if not evals and not named:
        return None
    if function.name in ("forward", "__init__", "main") and not evals:
        return None
    if function.name in ("forward", "__call__") and is_module_method(script, function):
        return None  # whoever trains the model calls it, in this project or elsewhere
    forwards = tuple(forward_calls(script, function))
    unknown = None if forwards else _called_unknown(script, function)
    if unknown is not None and not called_in_grad_mode(script, function) and not has_grad_mode(script, function):
        reason = f"nothing shows that `{script.source(unknown.func)}` is a model"
        return EvaluationPass(function, (unknown,), reason, function)
    if not forwards or (is_module_method(script, function) and not _called_from_outside(script, function)):
        return None
    if not evals and tries_out(script, function, forwards):
        return None
    if trains(script, function):
        asked = asks_for_gradients(script, function)
        if asked is None or not _only_asks(asked):
            return None
        return EvaluationPass(function, forwards, OWN_GRADIENTS, function)
    open_forwards = tuple(call for call in forwards if records(script, call, function))
    if not open_forwards or called_in_grad_mode(script, function):
        return EvaluationPass(function, function=function)
    problem = _function_problem(script, function, open_forwards, bool(evals))
    if problem is None:
        problem, loop = _hidden_problem(script, [function], function, open_forwards)
        if loop is not None:
            return EvaluationPass(loop, open_forwards, first=loop.body[0], last=loop.body[-1])
    return EvaluationPass(function, open_forwards, problem, function)


def _called_unknown(script: Script, function: ast.AST) -> ast.Call | None:
    """A call that records gradients of what is switched to evaluation, `net.eval()`, and is not known to be a model."""
    switched = {
        ast.unparse(call.func.value)
        for call in script.in_scope(function, ast.Call)
        if isinstance(call.func, ast.Attribute) and call.func.attr == "eval" and not (call.args or call.keywords)
    }
    return next(
        (
            call
            for call in script.in_scope(function, ast.Call)
            if isinstance(call.func, ast.Name | ast.Attribute)
            and ast.unparse(call.func) in switched
            and not in_grad_mode(script, call, function)
        ),
        None,
    )


def _hidden_problem(
    script: Script, region: list[ast.AST], scope: ast.AST | None, forwards: tuple[ast.Call, ...]
) -> tuple[str | None, ast.For | None]:
    """Why code that an evaluation enters out of sight may need gradients. If it does where the elements of one loop
    come from, in whose body all forwards are, that loop: its body alone can go without."""
    try:
        openings = hidden_gradient_uses(script, region, scope)
    except Incomplete as reason:
        return str(reason), None
    if not openings:
        return None, None
    loop = openings[0].loop
    if isinstance(loop, ast.For) and all(each.loop is loop for each in openings):
        inside = all(any(script.inside(call, each) for each in loop.body) for call in forwards)
        if inside and not any(script.in_scope(each, kind) for each in loop.body for kind in (ast.Yield, ast.YieldFrom)):
            return None, loop
    return reason_of(openings[0]), None


def _only_asks(node: ast.AST) -> bool:
    """Gradients are asked for without a training step: saliency, adversarial examples, forces."""
    return not (
        isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("step", "backward")
    )


def _called_from_outside(script: Script, method: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether every call of a model's method is seen, and none is made by a model."""
    callers = script.callers(method)
    known = {call for _, call in callers}
    files = script.project.files_naming(script, method.name, attribute=True)
    if files.missing is not None:
        return False
    for other in files:
        for part in other.find(ast.Attribute):
            if part.attr == method.name and other.qualname(part) is None and other.parent(part) not in known:
                return False
    sites = ((other, other.function(call)) for other, call in callers)
    known_all = bool(callers) and callers.missing is None
    return known_all and not any(
        function is not None and is_module_method(other, function) for other, function in sites
    )


def _function_problem(
    script: Script, function: ast.FunctionDef | ast.AsyncFunctionDef, forwards: tuple[ast.Call, ...], evals: bool
) -> str | None:
    if sets_mode_within(script, function):
        return OWN_MODE
    callers = script.callers(function)
    if any(hands_computed(*each) for each in callers) and RegionCode(script, [function]).writes_in_place:
        return HANDED
    loops = any(script.in_scope(function, kind) for kind in (ast.For, ast.While))
    if not evals and not loops and not callers:
        return "nothing shows that it is never part of a training step"
    return needs_graph(script, [function], forwards)


def hands_computed(script: Script, call: ast.Call) -> bool:
    """Whether a call is handed what a model has computed: where that is changed in place without gradients, those that
    are taken later are of what it was before."""
    names = [each for given in given_values(call) for each in script.within(given, ast.Name)]
    values = [each.value for name in names for each in script.definitions(name) if each.how == "assign"]
    computed = [inner for value in values if value is not None for inner in script.within(value, ast.Call)]
    return any(script.kind(inner.func) is Kind.MODULE and not in_grad_mode(script, inner) for inner in computed)


def _runs(script: Script, scope: ast.AST) -> Iterator[EvaluationPass]:
    """In scopes that also train: what follows `model.eval()` in the same block up to `.train()`, and what follows the
    last training."""
    found = [*_after(script, (*_eval_statements(script, scope), *_last_training(script, scope)))]
    whole = [each for each in found if each.problem is None and not each.covered]
    for each in found:
        # `eval()` in the body of a loop that is an evaluation itself
        if not any(other.node is not each.node and other.holds(script, each.node) for other in whole):
            yield each


def _after(script: Script, starts: Sequence[ast.stmt]) -> Iterator[EvaluationPass]:
    """What follows each of some statements in its block."""
    seen: set[ast.stmt] = set()
    for start in starts:
        block = script.block(start)
        following: list[ast.stmt] = []
        for each in block[block.index(start) + 1 :]:
            if each in seen or _switches_to_train(each):
                break
            following.append(each)
        seen.update(following)
        yield from _covering(script, following)


def _eval_statements(script: Script, scope: ast.AST) -> Iterator[ast.stmt]:
    for call in _eval_calls(script, scope):
        statement = script.statement(call)
        if isinstance(statement, ast.Expr | ast.Assign):
            yield statement


def _last_training(script: Script, scope: ast.AST) -> Iterator[ast.stmt]:
    """The last statement of a scope's body that trains, when it is a loop: what comes after it tries the model out."""
    body = scope.body if isinstance(scope, ast.Module | ast.FunctionDef) else []
    if getattr(scope, "name", None) == "forward" and isinstance(script.parent(scope), ast.ClassDef):
        return  # of a model, which others train
    if isinstance(scope, ast.FunctionDef) and has_grad_mode(script, scope):
        return
    blocks = [body]
    for statement in body:
        if isinstance(statement, ast.If) and script.tree is scope and is_main_guard(statement):
            blocks.append(statement.body)
    for block in blocks:
        loops = [each for each in block if isinstance(each, ast.For | ast.While)]
        later: list[ast.stmt] = []  # loops of which nobody had to know whether they train, which is dear to find out
        for loop in reversed(loops):
            following = block[block.index(loop) + 1 :]
            goes_backward = any(True for _ in backward_calls(script, loop))
            tried = any(_calls_own_code(script, each) for each in following) and any(
                True for each in following for _ in forward_calls(script, each)
            )
            if goes_backward or (tried and calls_training(script, loop)):
                if tried and not any(calls_training(script, each) for each in later):
                    yield loop
                break
            later.append(loop)


def _calls_own_code(script: Script, statement: ast.stmt) -> bool:
    """Whether a statement calls anything but builtins and functions of libraries, told by names alone."""
    for call in script.in_scope(statement, ast.Call):
        builtin = isinstance(call.func, ast.Name) and call.func.id in BUILTINS and not script.definitions(call.func)
        if not builtin and (script.qualname(call.func) is None or script.is_project_name(call.func)):
            return True
    return False


def is_main_guard(statement: ast.If) -> bool:
    return any(isinstance(part, ast.Name) and part.id == "__name__" for part in breadth_first(statement.test))


def _switches_to_train(statement: ast.stmt) -> bool:
    if not isinstance(statement, ast.Expr) or not isinstance(statement.value, ast.Call):
        return False
    function = statement.value.func
    return isinstance(function, ast.Attribute) and function.attr == "train" and not is_false(statement.value)


def _covering(script: Script, statements: list[ast.stmt]) -> Iterator[EvaluationPass]:
    """Loops that run the model, one pass each; neighbouring straight statements that do so, as one run."""
    run: list[ast.stmt] = []
    between: list[ast.stmt] = []  # without a forward: whether they train is dear to find out, and often nobody asks
    for statement in statements:
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        if not any(True for _ in forward_calls(script, statement)):
            between.append(statement)
            continue
        passed = (*between, statement)
        if any(asks_for_gradients(script, each) is not None or calls_training(script, each) for each in passed):
            break
        between.clear()
        if isinstance(statement, ast.For | ast.While):
            yield from _closely(script, run)
            run = []
            yield from _run(script, [statement])
        else:
            run.append(statement)
    yield from _closely(script, run)


def _closely(script: Script, run: list[ast.stmt]) -> Iterator[EvaluationPass]:
    """A run of statements; of a lone `if`, its branches: most of what stands there may be about other things."""
    match run:
        case []:
            pass
        case [ast.If(test=test, body=body, orelse=orelse)] if not any(True for _ in forward_calls(script, test)):
            yield from _covering(script, body)
            yield from _covering(script, orelse)
        case _:
            yield from _run(script, run)


def _run(script: Script, statements: list[ast.stmt]) -> Iterator[EvaluationPass]:
    first, last = statements[0], statements[-1]
    block = script.block(first)
    inner = block[block.index(first) : block.index(last) + 1]
    calls = [call for statement in inner for call in forward_calls(script, statement)]
    open_calls = tuple(call for call in calls if records(script, call, script.tree))
    elsewhere = all(_ends_without_forward_of_its_own(script, call) for call in open_calls)
    if elsewhere or called_in_grad_mode(script, script.function(first)):
        yield EvaluationPass(first, first=first, last=last)
        return
    own = any(sets_mode_within(script, each) for each in inner)
    problem = OWN_MODE if own else needs_graph(script, inner, open_calls)
    if problem is None:
        problem, loop = _hidden_problem(script, [*inner], script.function(first), open_calls)
        if loop is not None:
            yield EvaluationPass(loop, open_calls, first=loop.body[0], last=loop.body[-1])
            return
    function = _only_callee(script, open_calls) if problem is None else None
    if function is not None:
        yield EvaluationPass(function, open_calls, function=function)
        return
    yield EvaluationPass(first, open_calls, problem, first=first, last=last)


def _only_callee(script: Script, calls: tuple[ast.Call, ...]) -> ast.FunctionDef | None:
    """The one function of this file that the calls enter, if nothing but these calls mentions it."""
    callees = {each for call in calls for each in script.callees(call)}
    if len(callees) != 1 or any(script.kind(call.func) is Kind.MODULE for call in calls):
        return None
    file, function = callees.pop()
    if file is not script or not isinstance(function, ast.FunctionDef):
        return None
    if trains(script, function) or isinstance(script.parent(function), ast.ClassDef):
        return None
    mentions = [name for name in script.find(ast.Name) if name.id == function.name]
    return function if all(any(name is call.func for call in calls) for name in mentions) else None


def _ends_without_forward_of_its_own(script: Script, call: ast.Call) -> bool:
    """A call of a project function which itself is an evaluation pass, reported there."""
    callees = script.callees(call)
    return (
        bool(callees)
        and script.kind(call.func) is not Kind.MODULE
        and all(_NAMED.search(function.name.lower()) or _eval_calls(other, function) for other, function in callees)
    )
