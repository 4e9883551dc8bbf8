"""Where gradients are computed, asked for or switched off: what makes code training, and what may never lose its
graph."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from autoaccel.analysis.name_lookups import is_own_method
from autoaccel.analysis.script import Script
from autoaccel.dataflow.abstract_values import Kind
from autoaccel.dataflow.call_arguments import given_values
from autoaccel.dataflow.completeness import ScriptNode
from autoaccel.dataflow.query import once
from autoaccel.dataflow.syntax_index import is_constant, last_name
from autoaccel.library_models.graph_operations import DIFFERENTIATING, GRADIENT_HOOKS, MODE_ATTRIBUTES

GRAD_OFF = frozenset({"torch.no_grad", "torch.inference_mode", "torch.set_grad_enabled"})
_BACKWARD = ("torch.autograd.backward", "torch.distributed.autograd.backward")
GOES_BACKWARD = r"backward\b(?!\W+compat)"
"""A regular expression that a file with a backward pass matches, and one that is only compatible does not."""
_GRAD_OFF_NAME = re.compile(r"(^|_)(no_?grad|inference_mode)", re.IGNORECASE)
_ENTERING = frozenset({"enter_context", "__enter__"})
_GRAD_ASKED = DIFFERENTIATING | frozenset(
    """torch.autograd.backward torch.enable_grad torch.autograd.functional.vhp
    torch.distributed.autograd.backward""".split()
)
_GRAD_METHODS = GRADIENT_HOOKS | {"requires_grad_", "retain_grad"}
_ASKING_NAMES = (*sorted({"backward", *_GRAD_METHODS} | {each.rpartition(".")[2] for each in _GRAD_ASKED}),)


def backward_calls(script: Script, outer: ast.AST) -> Iterator[ast.Call]:
    """Calls of `.backward(…)` and `torch.autograd.backward(…)` within `outer`, nested functions excluded."""
    found = _all_backward_calls(script)
    yield from (call for call in script.in_scope(outer, ast.Call) if call in found) if found else ()


@once
def _all_backward_calls(script: Script) -> frozenset[ast.Call]:
    named = (*script.syntax_index.calls_named("backward"), *script.calls(*_BACKWARD))
    return frozenset(call for call in named if is_backward(script, call))


def is_backward(script: Script, call: ast.Call) -> bool:
    """Whether a call surely is one of `.backward(…)`, of whatever object that is not the project's, or torch's own."""
    if isinstance(call.func, ast.Attribute) and call.func.attr != "backward":
        return False
    if script.qualname(call.func) in _BACKWARD:
        return True
    return (
        isinstance(call.func, ast.Attribute)
        and call.func.attr == "backward"
        and script.qualname(call.func) is None
        and not script.callees(call)
    )


def backward_or_step_calls(script: Script) -> list[ast.Call]:
    """Calls that may go backward or step an optimizer, told by what they are named, in preorder."""
    return script.syntax_index.calls_named("backward", "step", *script.import_aliases(("backward",)))


def is_optimizer_step(script: Script, call: ast.Call) -> bool:
    """`optimizer.step(…)` and `scaler.step(optimizer)`; of unknown objects, those that are called like an optimizer."""
    function = call.func
    if not isinstance(function, ast.Attribute) or function.attr != "step" or script.qualname(function) is not None:
        return False
    kind = script.kind(function.value)
    if kind in (Kind.OPTIMIZER, Kind.SCALER):
        return True
    if kind is not None or script.callees(call):
        return False
    kinds = script.values(function.value).kinds
    if Kind.SCHEDULER in kinds or Kind.SCALER in kinds:
        return False
    return Kind.OPTIMIZER in kinds or _called_optimizer(function.value)


def _called_optimizer(expression: ast.expr) -> bool:
    while isinstance(expression, ast.Subscript):
        expression = expression.value
    lowered = last_name(expression).lower().strip("_")
    return ("optim" in lowered and "sched" not in lowered) or lowered in ("opt", "opt_g", "opt_d", "opti")


def asks_for_gradients(script: Script, outer: ast.AST) -> ast.AST | None:
    """The outermost node within `outer` (nested functions included) that trains or needs a graph; None when there is
    none."""
    return script.syntax_index.shallowest(gradient_uses(script, outer))


@once
def gradient_uses(script: Script, outer: ast.AST) -> tuple[ast.AST, ...]:
    """The nodes within `outer` (nested functions included) that train or need a graph."""
    asking: list[ast.AST] = [
        part for part in script.within(outer, ast.Attribute) if part.attr == "grad" and script.qualname(part) is None
    ]
    for assigned in script.within(outer, ast.Assign):
        targets = [part for target in assigned.targets for part in script.within(target, ast.Attribute)]
        if any(part.attr == "requires_grad" and isinstance(part.ctx, ast.Store) for part in targets):
            if not is_constant(assigned.value, False):
                asking.append(assigned)
    asking.extend(call for call in script.within(outer, ast.Call) if asks(script, call))
    for mention in script.syntax_index.mentions(*_ASKING_NAMES, *script.import_aliases(_ASKING_NAMES)):
        if script.inside(mention, outer) and is_asking_function(script, mention):
            asking.append(mention)
    return tuple(asking)


def asks(script: Script, call: ast.Call) -> bool:
    """Whether a call trains or needs a graph."""
    if is_backward(script, call) or is_optimizer_step(script, call) or script.qualname(call.func) in _GRAD_ASKED:
        return True
    match call:
        case ast.Call(func=ast.Attribute(attr="requires_grad_"), args=[ast.Constant(value=False)], keywords=[]):
            return False
        case ast.Call(func=ast.Attribute(attr=name)) if name in _GRAD_METHODS:
            return not is_own_method(script, call.func)
        case ast.Call(func=ast.Name(id="getattr"), args=[_, ast.Constant(value=str() as name), *_]):
            return name == "backward" or name in MODE_ATTRIBUTES or name in _GRAD_METHODS
        case ast.Call(func=ast.Name(id="setattr"), args=[_, ast.Constant(value="requires_grad"), value]):
            return not is_constant(value, False)
    if isinstance(call.func, ast.Name) and script.qualname(call.func) is None:
        made = [each.value for each in script.definitions(call.func) if each.how == "assign" and not each.path]
        if any(isinstance(each, ast.Attribute) and is_asking_function(script, each) for each in made):
            return True
    return any(
        each.arg in ("requires_grad", "create_graph") and is_constant(each.value, True) for each in call.keywords
    )


def is_asking_function(script: Script, expression: ast.AST) -> bool:
    """Whether an expression names what goes backward or asks for gradients, to be called by somebody else:
    `map(torch.Tensor.backward, losses)`."""
    if isinstance(script.parent(expression), ast.Attribute) or script.call_of(expression) is not None:
        return False
    if isinstance(expression, ast.Name) and isinstance(expression.ctx, ast.Load):
        if script.qualname(expression) is None:
            made = [each.value for each in script.definitions(expression) if each.how == "assign" and not each.path]
            return any(isinstance(each, ast.Attribute) and is_asking_function(script, each) for each in made)
        return script.qualname(expression) in _GRAD_ASKED
    if not isinstance(expression, ast.Attribute) or not isinstance(expression.ctx, ast.Load):
        return False
    name = script.qualname(expression)
    method = expression.attr == "backward" or expression.attr in _GRAD_METHODS
    return name in _GRAD_ASKED or (method and (name is None or name.startswith("torch.Tensor.")))


@once
def trains(script: Script, function: ast.AST) -> bool:
    """Whether a function trains or needs gradients, itself or through the project functions that it calls."""
    return _trains(script, function, set())


def _trains(script: Script, function: ast.AST, seen: set[ast.AST]) -> bool:
    if function in seen:
        return False
    seen.add(function)
    if asks_for_gradients(script, function) is not None:
        return True
    return any(
        _trains(other, callee, seen)
        for call in script.within(function, ast.Call)
        for other, callee in entered_by(script, call)
    )


def entered_by(script: Script, call: ast.Call) -> Iterator[ScriptNode]:
    """The functions, coroutines and lambda expressions that a call may enter."""
    yield from script.callees(call)
    yield from _nameless(script, call.func)


def _nameless(script: Script, function: ast.expr) -> Iterator[ScriptNode]:
    """What a call enters that is no plain function: coroutines, and the lambda expressions that a name stands for."""
    for value in script.values(function):
        if isinstance(value.node, ast.AsyncFunctionDef) and value.script is not None:
            yield value.script, value.node
    for definition in script.definitions(function) if isinstance(function, ast.Name) else ():
        if isinstance(definition.value, ast.Lambda):
            yield script, definition.value


@once
def calls_training(script: Script, statement: ast.AST) -> bool:
    """Whether a statement calls a project function that trains or needs gradients."""
    calls = script.in_scope(statement, ast.Call)
    return any(trains(other, function) for call in calls for other, function in script.callees(call))


def in_grad_mode(script: Script, node: ast.AST, within: ast.AST | None = None) -> bool:
    """Whether `node` runs with a grad mode that is set where it stands: by an enclosing `with` or decorator (no_grad,
    inference_mode, set_grad_enabled), or by a statement before it."""
    current = node
    for ancestor in script.ancestors(node):
        if isinstance(current, ast.stmt) and _is_set_before(script, current):
            return True
        if isinstance(ancestor, ast.With | ast.AsyncWith):
            if any(sets_grad_mode(script, item.context_expr) for item in ancestor.items):
                return True
        elif isinstance(ancestor, ast.FunctionDef | ast.AsyncFunctionDef):
            return has_grad_mode(script, ancestor)
        if ancestor is within:
            break
        current = ancestor
    return False


def has_grad_mode(script: Script, function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether a function is decorated with a grad mode, or wrapped in one: `test = torch.no_grad()(test)`."""
    decorated = any(sets_grad_mode(script, decorator) for decorator in function.decorator_list)
    return decorated or function.name in _wrapped_names(script)


@once
def _wrapped_names(script: Script) -> frozenset[str]:
    """The names of what is called by the result of another call that sets the grad mode."""
    return frozenset(
        call.args[0].id
        for call in script.find(ast.Call)
        if isinstance(call.func, ast.Call)
        and len(call.args) == 1
        and isinstance(call.args[0], ast.Name)
        and sets_grad_mode(script, call.func)
    )


def called_in_grad_mode(script: Script, function: ast.AST | None, seen: frozenset[ast.AST] = frozenset()) -> bool:
    """Whether everybody who calls a function has set the grad mode by then."""
    if function is None or function in seen:
        return False
    callers = script.callers(function)
    return (
        bool(callers)
        and callers.missing is None
        and all(
            in_grad_mode(other, call) or called_in_grad_mode(other, other.function(call), seen | {function})
            for other, call in callers
        )
    )


def _is_set_before(script: Script, statement: ast.stmt) -> bool:
    """Whether a statement of the same block sets the grad mode for what follows it: `torch.set_grad_enabled(False)`."""
    found = False
    for each in script.block(statement):
        if each is statement:
            break
        if isinstance(each, ast.Expr) and isinstance(each.value, ast.Call):
            found = _is_set_after(script, each.value, found)
    return found


def _is_set_after(script: Script, call: ast.Call, before: bool) -> bool:
    """Whether the grad mode is set once a call has returned. What a function of the project sets for a block of its
    own, or for itself, is over by then."""
    found, pending, seen = before, [(script, call)], set[ast.AST]()
    for file, each in pending:  # grows while it is walked
        if file.qualname(each.func) == "torch.set_grad_enabled":
            given = given_values(each)
            found = not any(is_constant(mode, True) for mode in given)
        elif any(_names_grad_mode(file, part) for part in file.within(each, ast.Call)):
            found = True  # `stack.enter_context(torch.no_grad())`
        elif last_name(each.func) in _ENTERING and any(
            sets_grad_mode(file, part) for part in file.within(each, ast.Call)
        ):
            found = True
        for other, function in file.callees(each):
            if function not in seen:
                seen.add(function)
                statements = other.in_scope(function, ast.Expr)
                pending += [(other, made.value) for made in statements if isinstance(made.value, ast.Call)]
    return found


def sets_grad_mode(script: Script, expression: ast.expr) -> bool:
    """Whether a context manager or decorator sets the grad mode: torch's own, one that is named after them, or one of
    the project that uses them."""
    function = expression.func if isinstance(expression, ast.Call) else expression
    if _names_grad_mode(script, expression):
        return True
    if isinstance(expression, ast.Name) and any(
        each.how == "assign" and each.value is not None and _mentions_grad_mode(script, each.value)
        for each in script.definitions(expression)
    ):
        return True
    return any(
        value.script is not None and value.node is not None and _mentions_grad_mode(value.script, value.node)
        for value in script.values(function)
        if value.kind is Kind.FUNCTION
    )


def _names_grad_mode(script: Script, expression: ast.expr) -> bool:
    """`torch.no_grad()`, and what is named after it."""
    function = expression.func if isinstance(expression, ast.Call) else expression
    return script.qualname(function) in GRAD_OFF or _GRAD_OFF_NAME.search(last_name(function)) is not None


def _mentions_grad_mode(script: Script, function: ast.AST) -> bool:
    parts = (*script.within(function, ast.Name), *script.within(function, ast.Attribute))
    return any(script.qualname(part) in GRAD_OFF for part in parts)
