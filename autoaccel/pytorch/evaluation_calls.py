"""Calls that only evaluate, of functions that train under another flag: `run_epoch(model, loader, optimizer=None)`."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace

from autoaccel.analysis.constant_arguments import SpecializedCall, specialize
from autoaccel.analysis.script import Script
from autoaccel.dataflow.abstract_values import Kind
from autoaccel.dataflow.call_arguments import given_values
from autoaccel.dataflow.definitions import Definition
from autoaccel.pytorch.evaluation_passes import HANDED, OWN_MODE, EvaluationPass, hands_computed, sets_mode_within
from autoaccel.pytorch.forwards import forward_calls, records, runs_model
from autoaccel.pytorch.gradients import called_in_grad_mode, entered_by, gradient_uses, in_grad_mode, trains
from autoaccel.pytorch.graph_requirement import needs_graph
from autoaccel.pytorch.hidden_gradients import needs_gradients
from autoaccel.pytorch.view_writes import RegionCode

_DEPTH = 3  # functions that hand the flag on
_STATEMENTS = (ast.Assign, ast.AnnAssign, ast.Expr, ast.Return)
_FLAGS = frozenset({Kind.BOOL, Kind.STRING, Kind.NUMBER, Kind.UNKNOWN})


def evaluation_calls(script: Script) -> Iterator[EvaluationPass]:
    """The statements that call such a function with constants by which it does not train; neighbours as one. Where a
    loop goes through the constants, `for phase in ("train", "val")`, the statement trains for some of them."""
    run: EvaluationPass | None = None
    for call in script.find(ast.Call):
        found = _evaluation(script, call)
        if found is None:
            continue
        if run is not None and _is_plain(run) and _is_plain(found) and _follows(script, run, found):
            run = replace(run, forwards=(*run.forwards, *found.forwards), last=found.last)
            continue
        if run is not None:
            yield run
        run = found
    if run is not None:
        yield run


def _is_plain(found: EvaluationPass) -> bool:
    return found.problem is None and found.trains_if is None


def _follows(script: Script, run: EvaluationPass, found: EvaluationPass) -> bool:
    assert run.last is not None
    block = script.block(run.last)
    return found.first in block and block.index(run.last) + 1 == block.index(found.first)


def _evaluation(script: Script, call: ast.Call) -> EvaluationPass | None:
    callees = script.callees(call)
    if len(callees) != 1 or script.kind(call.func) is not Kind.FUNCTION or not trains(*callees[0]):
        return None
    statement = script.statement(call)
    if not isinstance(statement, _STATEMENTS) or script.function(call) is not script.function(statement):
        return None
    if any(True for _ in script.in_scope(statement, ast.Await)):
        return None  # others run meanwhile
    if not runs_model(script, call) or in_grad_mode(script, call):
        return None
    first = specialize(script, call)
    if first is None or not _records(first) or called_in_grad_mode(script, script.function(statement)):
        return None
    entered = _entered(first)
    if entered is not None and _is_one_inside(entered):
        return None
    phases, trains_if = _phases(script, call) if entered is None else ([entered], None)
    if not phases:
        test = _undecided(first)
        reason = None if test is None else f"no constant says whether it trains: `{first.file.source(test)}`"
        return None if reason is None else EvaluationPass(statement, (call,), reason, first=statement, last=statement)
    others = [each for each in script.in_scope(statement, ast.Call) if each is not call]
    if gradient_uses(script, statement) or any(trains(*each) for other in others for each in entered_by(script, other)):
        return None
    problems = (_problem(script, statement, call, each) for each in phases)
    problem = next((each for each in problems if each is not None), None)
    return EvaluationPass(statement, (call,), problem, first=statement, last=statement, trains_if=trains_if)


def _phases(script: Script, call: ast.Call) -> tuple[list[tuple[SpecializedCall, ...]], str | None]:
    """What a call enters for those constants of a loop by which it does not train, and the test that it does."""
    for flag in (each for each in given_values(call) if isinstance(each, ast.Name)):
        constants = _constants(script, flag)
        calls = [specialize(script, call, assumed={flag.id: each}) for each in constants]
        entered = [None if each is None else _entered(each) for each in calls]
        evaluating = [each for each in entered if each is not None]
        training = [each for each, found in zip(constants, entered, strict=True) if found is None]
        if evaluating and training:
            return evaluating, _is_among(flag.id, training, script)
    return [], None


def _constants(script: Script, name: ast.Name) -> list[ast.Constant]:
    """The constants that a name stands for one after another: `for phase in ("train", "val")`."""
    match script.definitions(name):
        case [Definition(how="for", path=(), node=ast.For(iter=ast.Tuple() | ast.List() as among) as loop)]:
            found = [each for each in among.elts if isinstance(each, ast.Constant)]
            kinds = {type(each.value) for each in found}  # 1 equals True, and None is no mode
            alike = len(found) == len(among.elts) and len(kinds) == 1 and kinds <= {bool, str, int}
            return found if alike and script.inside(name, loop) else []
        case _:
            return []


def _is_among(name: str, constants: list[ast.Constant], script: Script) -> str:
    match constants:
        case [ast.Constant(value=True)]:
            return name
        case [ast.Constant(value=False)]:
            return f"not {name}"
        case [only]:
            return f"{name} == {script.source(only)}"
        case _:
            return f"{name} in ({', '.join(map(script.source, constants))})"


def _records(call: SpecializedCall) -> bool:
    """Whether a forward pass records gradients in the function that is called."""
    file, function = call.file, call.function
    forwards = (each for each in forward_calls(file, function) if not call.leaves_out(file, each))
    return any(records(file, each, function) for each in forwards)


def _undecided(call: SpecializedCall) -> ast.expr | None:
    """The test on which it hangs whether a function trains, `if train:`, where a call leaves it open."""
    file, function = call.file, call.function
    uses = gradient_uses(file, function)
    guards = [each for each in file.in_scope(function, ast.If) if not each.orelse and call.truth(each.test) is None]
    for guard in guards:
        same = [each for each in guards if ast.dump(each.test) == ast.dump(guard.test)]
        if _is_phase(call, guard.test) and uses and all(any(file.inside(use, each) for each in same) for use in uses):
            return guard.test
    return None


def _is_phase(call: SpecializedCall, test: ast.expr) -> bool:
    """Whether a test is one of a flag that a call passes: `train`, `not evaluating`, `phase == "train"`."""
    match test:
        case ast.UnaryOp(op=ast.Not(), operand=ast.Name() as flag):
            pass
        case ast.Compare(left=ast.Name() as flag, comparators=[ast.Constant(value=str() | bool() | int())]):
            pass
        case ast.Name() as flag:
            pass
        case _:
            return False
    given = call.script.argument(call.call, call.function, flag.id, call.file)
    if given is None or not call.script.values(given).kinds <= _FLAGS:
        return False
    handed_on = call.script.definitions(given) if isinstance(given, ast.Name) else ()
    return not any(each.how == "param" for each in handed_on)  # whoever passes it says so


def _entered(first: SpecializedCall) -> tuple[SpecializedCall, ...] | None:
    """A call, and those by which the function that it enters hands its constants on, if none of them trains. Each
    function is entered once."""
    found = [first]
    for entered in found:  # grows while it is walked
        file, function = entered.file, entered.function
        if not all(entered.leaves_out(file, each) for each in gradient_uses(file, function)):
            return None
        calls = [each for each in file.within(function, ast.Call) if not entered.leaves_out(file, each)]
        training = [(each, inner) for inner in calls for each in entered_by(file, inner) if trains(*each)]
        for (_, callee), inner in training:
            nested = specialize(file, inner, entered) if len(entered.leads) < _DEPTH else None
            known = [each.function for each in found]
            if nested is None or nested.function is not callee or callee in known:
                return None
            found.append(nested)
    return tuple(found)


def _is_one_inside(entered: tuple[SpecializedCall, ...]) -> bool:
    """Whether it is a call within the function that only evaluates, by constants of its own."""
    inner = (specialize(each.script, each.call) for each in entered if each.within is entered[0])
    return not entered[0].dead and any(each is not None and _entered(each) is not None for each in inner)


def _problem(script: Script, statement: ast.stmt, call: ast.Call, entered: tuple[SpecializedCall, ...]) -> str | None:
    """Why gradients must stay on."""
    if any(sets_mode_within(each.file, each.function) for each in entered):
        return OWN_MODE
    region = RegionCode(script, [statement], entered)
    if hands_computed(script, call) and region.writes_in_place:
        return HANDED
    problem = needs_graph(script, [statement], (call,), entered)
    return problem or needs_gradients(script, [statement], script.function(statement), entered)
