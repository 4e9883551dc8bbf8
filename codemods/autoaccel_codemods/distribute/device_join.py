"""Where the ranks join, and which devices they use: where a program chooses its device, or before it uses the first."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Final

from autoaccel.analysis.script import Script
from autoaccel.dataflow.abstract_values import Kind
from autoaccel.dataflow.call_arguments import given_values
from autoaccel.dataflow.query import once
from autoaccel.dataflow.syntax_index import last_name
from autoaccel.edits import Code, Edit, InsertAfter, InsertBefore, Replace, literal
from autoaccel.pytorch.device_expressions import given_places
from autoaccel.pytorch.device_moves import device_move
from autoaccel_codemods.captured_step.problems import DeclinedError
from autoaccel_codemods.compile.trained_models import TrainedModel
from autoaccel_codemods.distribute import early_draws

_CHOOSES: Final = ("torch.device", "torch.accelerator.current_accelerator")
_Binding = tuple[ast.stmt, ast.expr, ast.expr]
"""Statement, target, value."""


def edits(script: Script, models: list[TrainedModel]) -> Iterator[Edit]:
    """The edits by which each rank gets its device. Raises `DeclinedError`."""
    wrapped = chosen(script)
    yield from wrapped
    yield from _numbered(script)
    if not models:
        return
    early_draws.refuse(script)
    inserted = None
    if not any(chosen(each) for each in script.project.related(script)):
        inserted = _before_first_use(script, models)
    join = inserted or next(iter(wrapped), None)
    draw = early_draws.first_draw(script, _statement(script, join) or models[0].ready)
    if draw is not None:
        yield InsertBefore(script.statement(draw), _joining_early(script, draw, join))
    elif inserted is not None:
        yield inserted


def _joining_early(script: Script, draw: ast.Call, join: Edit | None) -> Code:
    """What joins the ranks before they draw random numbers: on the device that is chosen later."""
    match join:
        case None if not any(chosen(each) for each in script.project.related(script)):
            return Code(f"{script.accel}.device({script.quote}cpu{script.quote})")
        case InsertBefore(code=code) if "if" not in code.text:
            return code
        case Replace(node=node) if all(
            (script.qualname(each) or "").startswith("torch") for each in script.within(node, ast.Name)
        ):
            return Code(f"{script.accel}.device({{0}})", (node,))
    raise DeclinedError(f"random numbers are drawn in line {draw.lineno}, before the processes join")


def _statement(script: Script, edit: Edit | None) -> ast.stmt | None:
    match edit:
        case InsertBefore(statement=statement) | InsertAfter(statement=statement):
            return statement
        case Replace(node=node):
            return script.statement(node)
        case _:
            return None


@once
def chosen(script: Script) -> tuple[Edit, ...]:
    """The edits where a file chooses a device and gives it a name. Raises `DeclinedError`."""
    groups: dict[tuple[ast.AST | None, str], list[_Binding]] = {}
    for binding in _bindings(script):
        groups.setdefault((script.function(binding[0]), script.source(binding[1])), []).append(binding)
    return tuple(edit for group in groups.values() if (edit := _wrapped(script, group)) is not None)


def refuse(script: Script) -> None:
    """Raises `DeclinedError` where the devices of a file cannot be told."""
    chosen(script)
    list(_numbered(script))


def _wrapped(script: Script, group: list[_Binding]) -> Edit | None:
    if not any(_accelerates(script, value) for _, _, value in group):
        return None
    if any(_is_ranks_own(script, value) for _, _, value in group):
        return None
    verb = f"{script.accel}.device"
    if len(group) == 1:
        return Replace(group[0][2], Code(f"{verb}({{0}})", (group[0][2],)))
    target = script.source(group[0][1])
    above = _common(script, [statement for statement, _, _ in group])
    if above is None:
        raise DeclinedError(f"`{target}` is chosen in several places")
    return InsertAfter(above, Code(f"{target} = {verb}({target})"))


def _bindings(script: Script) -> Iterator[_Binding]:
    """Assignments to names of devices, and the others to the same names."""
    statements: list[ast.Assign | ast.AnnAssign] = [*script.find(ast.Assign), *script.find(ast.AnnAssign)]
    assigned = [
        (statement, target, statement.value)
        for statement in statements
        for target in (statement.targets if isinstance(statement, ast.Assign) else [statement.target])
        if statement.value is not None and isinstance(target, ast.Name | ast.Attribute)
    ]
    names = {script.source(target) for _, target, value in assigned if _is_choice(script, target, value)}
    return (each for each in assigned if script.source(each[1]) in names)


def _is_choice(script: Script, target: ast.expr, value: ast.expr) -> bool:
    """Whether an assignment chooses a device: not the name of a backend, such as `backend = "cuda"`."""
    if isinstance(value, ast.Call):
        return script.qualname(value.func) in _CHOOSES
    if isinstance(value, ast.IfExp):
        return _is_choice(script, target, value.body) or _is_choice(script, target, value.orelse)
    return isinstance(value, ast.Constant) and script.is_device(value) and "dev" in script.source(target).lower()


def _accelerates(script: Script, value: ast.expr) -> bool:
    """Whether a choice may be another device than the CPU."""
    if isinstance(value, ast.IfExp):
        return _accelerates(script, value.body) or _accelerates(script, value.orelse)
    if isinstance(value, ast.Call) and script.qualname(value.func) == "torch.device":
        given = [*value.args, *(each.value for each in value.keywords)]
        return not given or _accelerates(script, given[0])
    return not (isinstance(value, ast.Constant) and str(value.value).startswith("cpu"))


def _is_ranks_own(script: Script, value: ast.expr) -> bool:
    return isinstance(value, ast.Call) and script.runtime_name(value.func) == "device"


def _common(script: Script, statements: list[ast.stmt]) -> ast.stmt | None:
    """The `if` or `try` whose branches hold all statements."""
    chains = [[each for each in script.ancestors(statement) if isinstance(each, ast.stmt)] for statement in statements]
    shared = [each for each in chains[0] if all(each in chain for chain in chains)]
    return shared[0] if shared and isinstance(shared[0], ast.If | ast.Try) else None


@once
def _numbered(script: Script) -> tuple[Edit, ...]:
    """The edits of devices that are named by their number: `.cuda(0)`, `"cuda:0"`, `set_device(gpu)`."""
    named = [call.args[0] for call in _cuda_calls(script) if call.args and not _is_named_device(script, call.args[0])]
    named += [call.args[0] for call in script.calls("torch.cuda.set_device") if call.args]
    named += [each for each in _literal_places(script) if isinstance(each.value, int) or ":" in str(each.value)]
    places = [each for each in dict.fromkeys(named) if not _is_ranks_own(script, each)]
    return tuple(Replace(each, Code(f"{script.accel}.device({{0}})", (each,))) for each in places)


def _cuda_calls(script: Script) -> list[ast.Call]:
    """Calls of `.cuda(…)` of models and tensors."""
    calls = script.syntax_index.calls_named("cuda")
    return [call for call in calls if isinstance(call.func, ast.Attribute) and script.qualname(call.func) is None]


def _literal_places(script: Script) -> Iterator[ast.Constant]:
    """What is given as a place, and is a literal."""
    for each in given_places(script):
        if isinstance(each, ast.Constant) and not isinstance(each.value, bool) and script.is_device(each):
            yield each


def _is_named_device(script: Script, expression: ast.expr) -> bool:
    return script.kind(expression) is Kind.DEVICE and not isinstance(expression, ast.Call)


def _before_first_use(script: Script, models: list[TrainedModel]) -> Edit | None:
    """A statement by which ranks join, for programs that say `cuda` wherever they need it."""
    uses = [use for each in script.project.related(script) for use in _bare_uses(each)]
    own = [use for use in uses if use in set(_bare_uses(script))]
    if not uses:
        if (move := _unknown_move(script)) is not None:
            raise DeclinedError(f"the device in line {move.lineno} is chosen out of sight")
        return None
    if not own:
        raise DeclinedError("another file moves it to CUDA")
    scope = script.function(models[0].made)
    near = [script.statement(use) for use in own if script.function(use) is scope]
    outermost = [_in_block(script, each, script.block(models[0].made)) for each in (*near, models[0].made)]
    at = min((each for each in outermost if each is not None), key=lambda each: each.lineno)
    kind = f"{script.quote}cuda{script.quote}"
    condition = _condition(script, own[0])
    if condition is not None:
        if not _is_known_at(script, condition, at):
            raise DeclinedError(f"whether it uses CUDA is not known in line {at.lineno}, where processes join")
        kind = f"{kind} if {script.source(condition)} else {script.quote}cpu{script.quote}"
    return InsertBefore(at, Code(literal(f"{script.accel}.device({kind})")))


def _bare_uses(script: Script) -> list[ast.expr]:
    """Where a file uses the current CUDA device without a number, in source order."""
    calls: list[ast.expr] = [call for call in _cuda_calls(script) if not call.args and not call.keywords]
    calls += [each for each in _literal_places(script) if each.value == "cuda"]
    calls += [each for each in script.find(ast.Attribute) if _is_tensor_type(script, each)]
    return script.syntax_index.in_order(calls)


def _is_tensor_type(script: Script, expression: ast.Attribute) -> bool:
    return expression.attr.endswith("Tensor") and (script.qualname(expression) or "").startswith("torch.cuda.")


def _unknown_move(script: Script) -> ast.Call | None:
    """A move to a place that is no literal, in a program of which no device is known."""
    for call in script.find(ast.Call):
        moved = device_move(script, call) if last_name(call.func) != "type_as" else None
        if moved is not None and not any(isinstance(each, ast.Constant) for each in given_values(call)):
            return call
    return None


def _in_block(script: Script, statement: ast.stmt, block: list[ast.stmt]) -> ast.stmt | None:
    """The statement of a block that holds another one."""
    above = (each for each in (statement, *script.ancestors(statement)) if each in block)
    found = next(above, None)
    return found if isinstance(found, ast.stmt) else None


def _condition(script: Script, use: ast.expr) -> ast.expr | None:
    """What a use of CUDA hangs on; None where it hangs on nothing."""
    inner: ast.AST = use
    for outer in script.ancestors(use):
        if isinstance(outer, ast.If | ast.IfExp) and inner is not outer.test:
            body = outer.body if isinstance(outer.body, list) else [outer.body]
            if inner not in body:
                raise DeclinedError(f"CUDA is used in line {use.lineno} unless something holds")
            return outer.test
        if isinstance(outer, ast.FunctionDef):
            return None
        inner = outer
    return None


def _is_known_at(script: Script, condition: ast.expr, at: ast.stmt) -> bool:
    """Whether a condition means the same further up."""
    names = [each for each in script.within(condition, ast.Name) if script.qualname(each) is None]
    calls = [each for each in script.within(condition, ast.Call) if script.qualname(each.func) is None]
    return not calls and all(
        definitions and all(getattr(each.node, "lineno", at.lineno) < at.lineno for each in definitions)
        for definitions in map(script.definitions, names)
    )
