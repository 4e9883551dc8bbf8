"""Forward passes amid training whose results are only looked at: samples of a generator, predictions for a plot."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from autoaccel.analysis.script import Script
from autoaccel.dataflow.abstract_values import Kind
from autoaccel.dataflow.syntax_index import last_name
from autoaccel.pytorch.evaluation_passes import EvaluationPass, evaluations
from autoaccel.pytorch.forwards import forward_calls, is_function_module, is_module_method, made_here, tries_out
from autoaccel.pytorch.gradients import (
    asks_for_gradients,
    called_in_grad_mode,
    calls_training,
    in_grad_mode,
    trains,
)
from autoaccel.pytorch.graph_requirement import needs_graph
from autoaccel.pytorch.hidden_gradients import needs_gradients
from autoaccel.pytorch.run_once_code import runs_once
from autoaccel.pytorch.training_steps import training_scopes, training_steps

# What takes a tensor and hands on no graph; all of torchvision's run under no_grad themselves.
_SHOWN_BY = frozenset("torchvision.utils.save_image torchvision.utils.make_grid builtins.print builtins.len".split())
_SHOWN_BY_METHOD = frozenset("add_image add_images add_scalar add_histogram".split())
_CARRIES_ON = (Kind.MODULE, Kind.LOSS_FUNCTION)
_NOT_WHOLLY = ("__init__", "forward", "main")  # a single sample is a side line of these
# Signs that a file has weights or data from somewhere.
_HAS_WEIGHTS = re.compile(r"(\b|_)load|loader|pretrained|\bweights=|checkpoint|restore", re.IGNORECASE)
_WITHOUT_GRAPH = frozenset(
    "detach numpy item tolist argmax size dim numel eq ne gt lt ge le any all data shape dtype device".split()
)


def display_only_forwards(script: Script) -> Iterator[EvaluationPass]:
    """Runs of statements that run a model and whose results go only where no gradient comes back from."""
    known = {node for each in evaluations(script) for node in _covered_by(script, each)}
    found: dict[ast.stmt, list[ast.Call]] = {}
    for call in script.find(ast.Call):
        if _is_sample(script, call, known):
            found.setdefault(script.statement(call), []).append(call)
    for function in _whole_functions(script, found):
        calls = [call for statement in found for call in found[statement] if script.function(statement) is function]
        found = {key: value for key, value in found.items() if script.function(key) is not function}
        yield EvaluationPass(function, tuple(calls), function=function)
    while found:
        first = last = next(iter(found))
        calls = found.pop(first)
        block = script.block(first)
        for following in block[block.index(first) + 1 :]:
            if following not in found:
                break
            last = following
            calls.extend(found.pop(following))
        yield EvaluationPass(first, tuple(calls), first=first, last=last)


def _whole_functions(
    script: Script, found: dict[ast.stmt, list[ast.Call]]
) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Functions that do not train and run models only for samples."""
    scopes = {statement: script.function(statement) for statement in found}
    functions = []
    for function in dict.fromkeys(scopes.values()):
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef) or trains(script, function):
            continue
        statements = [statement for statement, scope in scopes.items() if scope is function]
        if len(statements) == 1 and function.name in _NOT_WHOLLY and not script.loops(statements[0]):
            continue
        own = [call for statement in statements for call in found[statement]]
        if all(call in own or in_grad_mode(script, call, function) for call in forward_calls(script, function)):
            if needs_graph(script, [function], own) is None and needs_gradients(script, [function], function) is None:
                functions.append(function)
    return functions


def _is_sample(script: Script, call: ast.Call, known: set[ast.AST]) -> bool:
    if not isinstance(script.parent(call), ast.expr | ast.Assign) or last_name(call.func) in script.plain_callees:
        return False
    statement = script.statement(call)
    if not isinstance(statement, ast.Assign | ast.AugAssign | ast.Expr):
        return False
    if not _is_shown(script, call, surely=False) or script.kind(call.func) is not Kind.MODULE:
        return False
    if is_function_module(script, call.func):
        return False
    scope = script.function(call)
    if isinstance(scope, ast.Lambda):
        return False  # whoever is handed it decides when and how it runs: a benchmark, a closure
    if scope is None and _is_tried_out(script, call):
        return False
    if scope is not None and (tries_out(script, scope, (call,)) or is_module_method(script, scope)):
        return False
    if in_grad_mode(script, call) or called_in_grad_mode(script, scope) or _within(script, call, known):
        return False
    for each in script.in_scope(statement, ast.Call):
        if script.kind(each.func) is Kind.MODULE and not _is_shown(script, each):
            return False
    if asks_for_gradients(script, statement) is not None or _before_training(script, statement):
        return False
    return needs_graph(script, [statement], [call]) is None and needs_gradients(script, [statement], scope) is None


def _is_tried_out(script: Script, call: ast.Call) -> bool:
    """Whether a module's own lines only call a fresh model once, to see that it runs: no optimizer steps in the
    file, and nothing is read from somewhere."""
    if _HAS_WEIGHTS.search(script.text) or not runs_once(script, call):
        return False
    steps = training_steps(script) if training_scopes(script) else ()
    if any(step.optimizer_steps or not all(runs_once(script, each.call) for each in step.backwards) for step in steps):
        return False
    return made_here(script, call.func, script.tree)


def _within(script: Script, call: ast.Call, known: set[ast.AST]) -> bool:
    """Whether a call runs as part of an evaluation pass: where it stands, or by all who call its function."""
    if any(each in known for each in script.ancestors(call)):
        return True
    function = script.function(call)
    callers = script.callers(function) if function is not None else ()
    return bool(callers) and all(
        other is script and any(each in known for each in script.ancestors(caller)) for other, caller in callers
    )


def _covered_by(script: Script, found: EvaluationPass) -> Iterator[ast.AST]:
    if found.function is not None:
        yield found.function
    elif found.first is not None and found.last is not None:
        block = script.block(found.first)
        yield from block[block.index(found.first) : block.index(found.last) + 1]


def _is_shown(script: Script, call: ast.Call, *, surely: bool = True) -> bool:
    """Whether every use of a result loses its graph, and there is a use; else whether it may, whatever is called."""
    pending: list[ast.expr] = [call]
    seen: set[ast.AST] = set()
    while pending:
        node = pending.pop()
        if node in seen:
            continue
        seen.add(node)
        following = _uses(script, node, surely)
        if following is None:
            return False
        pending.extend(following)
    return True


def _uses(script: Script, node: ast.expr, surely: bool) -> list[ast.expr] | None:
    """The names that hand a value on; none where its graph ends, None where it may live on."""
    child: ast.AST = node
    for ancestor in script.ancestors(node):
        match ancestor:
            case ast.Attribute(attr=name) if name in _WITHOUT_GRAPH:
                return []
            case ast.Compare():
                return []
            case ast.Call(func=function) if child is not function and _shows(script, function):
                return []
            case ast.Call(func=function) if (
                child is not function and surely and script.kind(function) not in _CARRIES_ON
            ):
                return None
            case ast.Attribute() | ast.Subscript() | ast.BinOp() | ast.UnaryOp() | ast.Call():
                pass
            case ast.Assign(targets=targets):
                return _reads(script, targets)
            case _:
                return None
        child = ancestor
    return None


def _shows(script: Script, function: ast.expr) -> bool:
    if isinstance(function, ast.Name) and not script.definitions(function):
        return f"builtins.{function.id}" in _SHOWN_BY
    qualified = script.qualname(function)
    if qualified is None:
        return isinstance(function, ast.Attribute) and function.attr in _SHOWN_BY_METHOD
    return qualified in _SHOWN_BY


def _reads(script: Script, targets: list[ast.expr]) -> list[ast.expr] | None:
    found: list[ast.expr] = []
    for target in targets:
        for part in target.elts if isinstance(target, ast.Tuple) else [target]:
            if isinstance(part, ast.Subscript):
                part = part.value
                if not _is_own_tensor(script, part):
                    return None
            if not isinstance(part, ast.Name):
                return None
            for definition in script.definitions(part):
                if script.additions(definition):
                    return None
                found.extend(script.uses(definition))
    return found or None


def _is_own_tensor(script: Script, owner: ast.expr) -> bool:
    """Whether a tensor that a result is written into shares its memory with no other: `canvas = images.clone()`."""
    definitions = script.definitions(owner) if isinstance(owner, ast.Name) else ()
    return bool(definitions) and all(
        each.how == "assign" and isinstance(each.value, ast.Call) and _is_fresh(script, each.value)
        for each in definitions
    )


def _is_fresh(script: Script, made: ast.Call) -> bool:
    qualified = script.qualname(made.func)
    if qualified is not None:
        return qualified in (
            "torch.zeros",
            "torch.ones",
            "torch.empty",
            "torch.full",
            "torch.zeros_like",
            "torch.clone",
        )
    return isinstance(made.func, ast.Attribute) and made.func.attr == "clone"


def _before_training(script: Script, statement: ast.stmt, seen: frozenset[ast.AST] = frozenset()) -> bool:
    """Whether a backward pass may follow in the same round of the loop, here or where this function is called: what
    belongs to a training step must not change the grad mode in its middle."""
    current: ast.AST = statement
    for ancestor in script.ancestors(statement):
        if isinstance(current, ast.stmt):
            block = script.block(current)
            for following in block[block.index(current) + 1 :]:
                if asks_for_gradients(script, following) is not None or calls_training(script, following):
                    return True
        if isinstance(ancestor, ast.For | ast.While):
            return False
        if isinstance(ancestor, ast.FunctionDef | ast.AsyncFunctionDef):
            if ancestor in seen:
                return False
            callers = script.callers(ancestor)
            return callers.missing is not None or any(
                _before_training(other, other.statement(caller), seen | {ancestor}) for other, caller in callers
            )
        current = ancestor
    return False
