"""The function that a step becomes: which names go in and out, and where it stands."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from autoaccel.analysis.definite_assignment import is_bound, is_made_by_calls, stands
from autoaccel.analysis.name_lookups import is_of_comprehension, reads_any_name
from autoaccel.analysis.script import Script
from autoaccel.dataflow.abstract_values import Kind
from autoaccel.dataflow.syntax_index import breadth_first, comment_above, position, split_lines, walk_scope
from autoaccel.library_models.tensor_operations import ATTRIBUTES, METHODS
from autoaccel.pytorch.introspection import annotations_read, name_looked_up
from autoaccel.pytorch.reachable_code import reachable_code
from autoaccel_codemods.captured_step.problems import DeclinedError
from autoaccel_codemods.captured_step.region import StepRegion, receiver
from autoaccel_codemods.captured_step.shape_numbers import follows_from_shapes
from autoaccel_codemods.captured_step.shown_statements import mentions, noted, variables

_NOT_THERE = "its model and its optimizer may not be there before the loop"
_PLAIN_NUMBERS = frozenset({Kind.NUMBER, Kind.BOOL, Kind.STRING})
_STAYING = _PLAIN_NUMBERS | {
    *(Kind.MODULE, Kind.LOSS_FUNCTION, Kind.OPTIMIZER, Kind.SCHEDULER, Kind.SCALER, Kind.DEVICE, Kind.DTYPE),
    *(Kind.NONE, Kind.FUNCTION, Kind.CLASS, Kind.OBJECT),
}
"""What a function is given for each step and is the same for all of them: the runtime notices where it is not."""


@dataclass(frozen=True, slots=True, eq=False)
class Lifted:
    """A region as a function of `parameters` that returns `results`, above `anchor`: a loop, the function around it, or
    where it is called."""

    region: StepRegion
    parameters: tuple[str, ...]
    results: tuple[str, ...]
    anchor: ast.stmt


def plan(script: Script, region: StepRegion) -> Lifted:
    """Raises `DeclinedError`."""
    parts = [part for each in region.statements for part in breadth_first(each)]
    all_names = [part for part in parts if isinstance(part, ast.Name)]
    names = [each for each in all_names if not is_of_comprehension(script, each)]
    own = {each.id for each in all_names if each not in names}
    if both := own & {each.id for each in names}:
        raise DeclinedError(f"`{min(both)}` is a name of a comprehension, and another one")
    named_class = any(each.id in ("super", "__class__") for each in names)
    if named_class and isinstance(script.parent(region.scope), ast.ClassDef):
        raise DeclinedError("`super` does not mean the same in a function of its own")
    if script.enclosing_class(region.around) is not None and region.scope is script.tree:
        raise DeclinedError("the loop stands in the body of a class")
    if script.is_notebook and region.scope is script.tree:
        raise DeclinedError(
            "cells of a notebook may look at what the step binds, which a function would keep to itself"
        )
    if reads_any_name(script) or any(not call.args for call in script.syntax_index.calls_named("dir")):
        raise DeclinedError("names may be looked up while the program runs")
    annotated = any(isinstance(part, ast.AnnAssign) for part in parts)
    if annotated and region.scope is script.tree and annotations_read(script):
        raise DeclinedError("the annotations of variables may be read, and those of a function's are not kept")
    outside = {part for each in region.moves for part in breadth_first(each)} - set(map(receiver, region.moves))
    names = sorted((each for each in names if each not in outside), key=position)
    in_order = dict.fromkeys(each.id for each in names if isinstance(each.ctx, ast.Store))
    stored = set(in_order)
    _refuse_shared(script, region, stored)
    _refuse_seen_inside(script, region, stored)
    _refuse_handled(script, region, stored.union(*(noted(script, each) for each in region.shown)))
    in_loop = {
        part.id
        for part in script.within(region.around, ast.Name)
        if isinstance(part.ctx, ast.Store) and part not in names
    }
    if isinstance(region.around, ast.FunctionDef):
        in_loop |= _parameters(region.around)
        in_loop -= {each for each in in_loop if _is_the_same_in_all_steps(script, names, each)}
    carried = {each.id for each in names if each.id in stored and _comes_from_outside(script, region, each)}
    _refuse_carried(script, region, names, carried)
    read = {each.id for each in names if isinstance(each.ctx, ast.Load) and each.id not in stored}
    parameters = tuple(dict.fromkeys(each.id for each in names if each.id in carried | (read & in_loop)))
    hoisted = {receiver(each).id for each in region.moves}
    for name in parameters:
        bound = name not in hoisted and _is_bound_above(script, region, name)
        if not bound and not _is_read_for_sure(script, region, name):
            raise DeclinedError(f"`{name}` may have no value where the step does not need one")
    results = tuple(each for each in in_order if each in carried or _is_read_later(script, region, each))
    for name in results:
        if not _is_bound_for_sure(region.statements, name):
            lacking = (
                "where the step does not train" if region.phase is not None else "where a loop or branch is passed over"
            )
            raise DeclinedError(f"`{name}` has no value {lacking}")
    anchor = _anchor(script, region, {each.id for each in names})
    outer = [each for each in names if each.id not in stored and each.id not in parameters]
    return Lifted(region, parameters, results, _above_function(script, region, outer) or anchor)


def refuse_in_vain(script: Script, lifted: Lifted) -> None:
    """A graph that is captured anew in every step gains nothing; the runtime would give it up. To be asked last."""
    for each in (name for statement in lifted.region.statements for name in script.within(statement, ast.Name)):
        number = each.id in lifted.parameters and script.kind(each) in _PLAIN_NUMBERS
        if number and not follows_from_shapes(script, each):
            raise DeclinedError(f"`{each.id}` is a number that changes from step to step")


def _refuse_shared(script: Script, region: StepRegion, stored: set[str]) -> None:
    """Names that the step binds are its own and those of the loop around it."""
    outward: list[ast.Global | ast.Nonlocal] = [*script.find(ast.Global), *script.find(ast.Nonlocal)]
    for each in outward:
        if shared := stored.intersection(each.names):
            raise DeclinedError(f"`{min(shared)}` is a name that other functions see")
    for part in (part for held in (*region.statements, *region.shown) for part in breadth_first(held)):
        if isinstance(part, ast.Constant | ast.JoinedStr) and part.lineno != part.end_lineno:
            raise DeclinedError("a text of several lines stands in it")
    first, last = region.statements[0], region.statements[-1]
    lines = split_lines(script.text)
    starts = [each.lineno for each in script.block(first)]
    ends = [each.end_lineno for each in script.block(first)[:-1]]
    if region.around.lineno == first.lineno or any(one == other for one, other in zip(starts[1:], ends, strict=True)):
        raise DeclinedError("several statements stand on one line")
    if "\\" in "".join(line.rstrip()[-1:] for line in lines[first.lineno - 1 : last.end_lineno]):
        raise DeclinedError("a line of it goes on after a backslash")
    if region.scope is script.tree:
        for name in sorted(stored):
            if problem := name_looked_up(script, name, public=True):
                raise DeclinedError(f"`{name}`: {problem}")


def _is_read_for_sure(script: Script, region: StepRegion, name: str) -> bool:
    """Whether the step reads a name whatever happens: without a value it fails, lifted or not."""
    for statement in region.statements:
        for part in walk_scope(statement):
            if isinstance(part, ast.Name) and part.id == name and isinstance(part.ctx, ast.Load):
                around = [part, *script.ancestors(part)]
                around = around[: around.index(statement) + 1]
                if not any(_may_skip(above, child) for child, above in itertools.pairwise(around)):
                    return True
    return False


def _is_bound_for_sure(statements: Sequence[ast.stmt], name: str) -> bool:
    """Whether statements of the step bind a name whatever it is told to do, or do not get to their end."""
    for statement in statements:
        match statement:
            case ast.Raise():
                return True
            case ast.With(body=body):
                if _is_bound_for_sure(body, name):
                    return True
            case ast.If(body=body, orelse=[_, *_] as other):
                if _is_bound_for_sure(body, name) and _is_bound_for_sure(other, name):
                    return True
            case ast.If() | ast.For():
                pass
            case _:
                names = (part for part in breadth_first(statement) if isinstance(part, ast.Name))
                if any(each.id == name and isinstance(each.ctx, ast.Store) for each in names):
                    return True
    return False


def _may_skip(above: ast.AST, child: ast.AST) -> bool:
    match above:
        case ast.IfExp(test=test) | ast.If(test=test):
            return child is not test
        case ast.For(iter=iterated):
            return child is not iterated
        case ast.BoolOp(values=[first, *_]):
            return child is not first
        case ast.Compare(ops=[_, _, *_], left=left):
            return child is not left
        case _:
            return False


def _is_bound_above(script: Script, region: StepRegion, name: str) -> bool:
    """Whether what stands around the step, or a statement before it in the body, binds a name whatever happens."""
    if isinstance(region.around, ast.FunctionDef) and name in _parameters(region.around):
        return True
    block: ast.AST = region.statements[0]
    while True:
        for each in script.block(block) if isinstance(block, ast.stmt) else ():
            if each is block:
                break
            if isinstance(each, ast.Assign | ast.AnnAssign) and name in _bound_by(each):
                return True
        above = script.parent(block)
        if isinstance(above, ast.For | ast.With) and name in _bound_by(above):
            return True
        if above is None or above is region.scope or not isinstance(above, ast.stmt):
            return False
        block = above


def _bound_by(statement: ast.stmt) -> set[str]:
    targets: list[ast.AST] = []
    match statement:
        case ast.Assign(targets=known):
            targets += known
        case ast.AnnAssign(target=target, value=ast.expr()) | ast.For(target=target):
            targets.append(target)
        case ast.With(items=items):
            targets += [each.optional_vars for each in items if each.optional_vars is not None]
    return {part.id for each in targets for part in breadth_first(each) if isinstance(part, ast.Name)}


def _refuse_seen_inside(script: Script, region: StepRegion, stored: set[str]) -> None:
    """What the step binds is not read by functions that it runs: they see the names of the loop, not those of the
    function that the step becomes. Nor is what its loop binds for each step: no graph would last."""
    around = region.statements if isinstance(region.around, ast.FunctionDef) else (region.around,)
    bound = {name.lstrip(".") for each in around for name in variables(script, each, ast.Store)} | stored
    for other, code in reachable_code(script, region.statements, building=False):
        if other is not script or not isinstance(code, ast.FunctionDef | ast.Lambda):
            continue
        for part in script.within(code, ast.Name):
            if part.id not in bound or not isinstance(part.ctx, ast.Load):
                continue
            for each in script.definitions(part):
                if any(each.node is outer or script.inside(each.node, outer) for outer in around):
                    raise DeclinedError(f"a function that it runs reads `{part.id}`")


def _refuse_handled(script: Script, region: StepRegion, changed: set[str]) -> None:
    """Where the step fails, nobody in this function sees what it had computed or noted by then; where it raises an
    error itself, nor does any other function."""
    inside = {part for each in (*region.statements, *region.shown) for part in breadth_first(each)}
    handled = [
        each
        for each in script.ancestors(region.around)
        if isinstance(each, ast.Try | ast.TryStar) or _may_suppress(script, each)
    ]
    if handled or any(isinstance(each, ast.Raise) for each in inside):
        for name in script.find(ast.Name):
            if name.id in changed and name not in inside and isinstance(name.ctx, ast.Load):
                bound = any(_inside(script, region, each.node) for each in script.definitions(name))
                if bound and (script.function(name) or script.tree) is not region.scope:
                    raise DeclinedError(f"a function that may be called where it fails reads `{name.id}`")
    if not handled:
        return
    first = min(each.lineno for each in handled if isinstance(each, ast.stmt))
    for part in walk_scope(region.scope):
        if isinstance(part, ast.Name) and part.id in changed and part not in inside and part.lineno >= first:
            if isinstance(part.ctx, ast.Load) and not script.inside(part, region.around):
                raise DeclinedError("what handles an exception reads what the step had computed by then")


def _may_suppress(script: Script, node: ast.AST) -> bool:
    """Whether a `with` block may go on after an exception in it: any but those of torch and of progress bars."""
    if not isinstance(node, ast.With | ast.AsyncWith):
        return False
    opened = [each.context_expr for each in node.items]
    functions = [each.func if isinstance(each, ast.Call) else each for each in opened]
    known = (script.qualname(each) or "" for each in functions if not script.is_project_name(each))
    return sum(name.startswith(("torch.", "tqdm.")) for name in known) < len(functions)


def _inside(script: Script, region: StepRegion, node: ast.AST) -> bool:
    return any(node is each or script.inside(node, each) for each in region.statements)


def _comes_from_outside(script: Script, region: StepRegion, name: ast.Name) -> bool:
    """Whether a name that the step binds has its value from elsewhere, or from the step before, where it is read."""
    added = isinstance(parent := script.parent(name), ast.AugAssign) and parent.target is name
    if isinstance(name.ctx, ast.Store) and not added:
        return False
    found = script.reaching_definitions.before_addition(name) if added else script.definitions(name)
    if found and all(_inside(script, region, each.node) for each in found) and _is_bound_before(script, region, name):
        return False
    place = (name.lineno, name.col_offset)
    return not found or any(
        not _inside(script, region, each.node)
        or (getattr(each.node, "end_lineno", 0), getattr(each.node, "end_col_offset", 0)) > place
        for each in found
    )


def _is_bound_before(script: Script, region: StepRegion, name: ast.Name) -> bool:
    """Whether the loop that a name is read in, or a statement of the step above that, binds it whatever happens."""
    around = [name, *script.ancestors(name)]
    for child, above in itertools.pairwise(around[: around.index(region.scope) + 1]):
        if isinstance(above, ast.For) and child in above.body and name.id in _bound_by(above):
            return True
        if child in region.statements:
            before = region.statements[: region.statements.index(child)]
            return any(isinstance(each, ast.Assign | ast.AnnAssign) and name.id in _bound_by(each) for each in before)
    return False


def _is_read_later(script: Script, region: StepRegion, name: str) -> bool:
    """Whether a name that the step binds is read, deleted or added to outside of it, in whatever scope may see it."""
    for other in script.find(ast.Name):
        if other.id != name or _inside(script, region, other):
            continue
        added = isinstance(parent := script.parent(other), ast.AugAssign) and parent.target is other
        if isinstance(other.ctx, ast.Store) and not added:
            continue
        if isinstance(other.ctx, ast.Del) or added:
            return True
        found = script.definitions(other)
        if not found or any(_inside(script, region, each.node) for each in found):
            return True
    return False


def _refuse_carried(script: Script, region: StepRegion, names: Sequence[ast.Name], carried: set[str]) -> None:
    """What one step hands to the next has the autograd graph that a replay's results have not."""
    for each in names:
        if each.id not in carried or isinstance(each.ctx, ast.Store):
            continue
        if any(_inside(script, region, known.node) for known in script.definitions(each)):
            raise DeclinedError(f"`{each.id}` is carried from step to step")


def _parameters(function: ast.FunctionDef) -> set[str]:
    return {each.arg for each in breadth_first(function.args) if isinstance(each, ast.arg)}


def _is_the_same_in_all_steps(script: Script, names: Sequence[ast.Name], name: str) -> bool:
    """Whether what a function is given is no tensor: a model, what it only calls, settings of which it reads some."""
    reads = (each for each in names if each.id == name)
    return all(script.values(each).kinds <= _STAYING or _is_of_no_tensor(script, each) for each in reads)


def _is_of_no_tensor(script: Script, read: ast.Name) -> bool:
    match script.parent(read):
        case ast.Call(func=function):
            return function is read
        case ast.Attribute(attr=attr) as attribute:
            return attr not in (ATTRIBUTES if script.call_of(attribute) is None else METHODS)
        case _:
            return False


def _anchor(script: Script, region: StepRegion, names: set[str]) -> ast.stmt:
    """The outermost loop of the scope above which the models and the optimizer are there, and stay the same in it, or
    the first of the statements under a comment that the loop ends; the step itself in a function that loops call."""
    trained = [*region.models, *region.optimizers]
    if region.phase is not None:
        trained += [part for part in breadth_first(region.phase) if isinstance(part, ast.Name)]
        outward: list[ast.Global | ast.Nonlocal] = [*script.find(ast.Global), *script.find(ast.Nonlocal)]
        if any(part.id in each.names for each in outward for part in trained if isinstance(part, ast.Name)):
            raise DeclinedError("whether it trains is a variable that other functions see")
    if isinstance(region.around, ast.FunctionDef):
        if any(_is_stored(script, each, part) for each in region.statements for part in trained):
            raise DeclinedError("its model or its optimizer is made in it")
        return region.called_at
    found = None
    for loop in script.loops(region.statements[0]):
        if any(_is_stored(script, loop, each) for each in trained):
            break
        if any(is_made_by_calls(script, region.scope, loop, each) for each in trained):
            raise DeclinedError("its model or its optimizer may be made anew by what the loop calls")
        if all(is_bound(script, region.scope, loop, each) for each in trained):
            found = loop
    if found is None:
        if region.phase is None and not all(
            stands(script, region.scope, region.statements[0], each) for each in trained
        ):
            raise DeclinedError("its model or its optimizer is made anew on the way")
        raise DeclinedError(_NOT_THERE if region.phase is None else f"{_NOT_THERE}, or not what tells it to train")
    text = split_lines(script.text)
    above: ast.stmt = found
    for each in reversed(script.block(found)[: script.block(found).index(found)]):
        adjoins = isinstance(each, ast.Assign | ast.AnnAssign | ast.Expr) and each.end_lineno == above.lineno - 1
        if not adjoins or any(_is_stored(script, each, part) for part in trained) or names & _bound_by(each):
            break
        if not all(is_bound(script, region.scope, each, part) for part in trained):
            break
        above = each
    return above if comment_above(text[: above.lineno - 1]) else found


def _above_function(script: Script, region: StepRegion, names: Sequence[ast.Name]) -> ast.stmt | None:
    """The module's function around a loop, where all that the step reads besides is the module's, and its models and
    optimizers are made above, once and for all: the step may as well stand there, and is not made by every call."""
    function = region.scope
    if not isinstance(function, ast.FunctionDef) or region.around is function or function not in script.tree.body:
        return None
    made = (*region.models, *region.optimizers)
    if region.phase is not None or script.is_notebook or not all(isinstance(each, ast.Name) for each in made):
        return None
    trained = set(map(script.source, made))
    # the runtime looks where a model is when the step is defined
    for call in script.syntax_index.calls_named("to", "cuda"):
        moved = isinstance(call.func, ast.Attribute) and script.source(call.func.value) in trained
        if moved and (script.function(call) is not None or position(call) > position(function)):
            return None
    return function if all(_is_of_module(script, each, function, trained) for each in names) else None


def _is_of_module(script: Script, name: ast.Name, function: ast.FunctionDef, trained: set[str]) -> bool:
    found = script.definitions(name)
    if any(each.scope.node is not script.tree for each in found):
        return False
    above = bool(found) and all(position(each.node) < position(function) for each in found)
    return name.id not in trained or (above and is_bound(script, script.tree, function, name))


def _is_stored(script: Script, statement: ast.stmt, expression: ast.expr) -> bool:
    """Whether a statement, such as a loop, binds what an expression reads."""
    texts = {script.source(part) for part in mentions(script, expression)}
    return any(
        isinstance(part.ctx, ast.Store | ast.Del) and script.source(part) in texts
        for part in mentions(script, statement)
    )
