"""Models that are trained: where they are made, and where they are ready."""

from __future__ import annotations

import ast
import dataclasses
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from autoaccel.analysis.classes import external_lineage, methods
from autoaccel.analysis.script import Script
from autoaccel.dataflow.abstract_values import Kind, Value
from autoaccel.dataflow.query import once_all
from autoaccel.dataflow.syntax_index import breadth_first, split_lines
from autoaccel.edits import Code, Edit, InsertAfter, InsertBefore
from autoaccel.pytorch.evaluation_only import evaluation_forwards
from autoaccel.pytorch.gradients import backward_calls, calls_training
from autoaccel_codemods.compile.model_origins import ModelOrigin, made_at, targets
from autoaccel_codemods.compile.model_setup import common_statement, prepares, runs_models, runs_while_built, set_up
from autoaccel_codemods.compile.training_forwards import training_forwards

_Made = tuple[ast.Assign | ast.AnnAssign, ast.expr]


@dataclass(frozen=True, slots=True, eq=False)
class TrainedModel:
    """A model under the name that it has where it is made.

    `made` is the assignment, `target` its left side as the script writes it, `ready` the last statement of its set-up
    in the same block, `wrapped` the statement that puts it into DistributedDataParallel, if any. `values` are its
    possible constructors.
    """

    made: ast.Assign | ast.AnnAssign
    target: ast.expr
    ready: ast.stmt
    wrapped: ast.stmt | None
    values: tuple[Value, ...]
    problem: str | None


@once_all
def trained_models(script: Script) -> Iterator[TrainedModel]:
    """Models made in this file that a training step of the project calls, in source order; in a program that only
    evaluates, those that it evaluates."""
    if not _makes_objects(script):
        return
    groups: dict[tuple[ast.AST | None, str], list[_Made]] = {}
    repeated: set[ast.expr] = set()
    for (file, assign, target), again in _origins(script).items():
        if file is script and not _is_loss(script, target):
            groups.setdefault((script.function(assign), script.source(target)), []).append((assign, target))
            repeated |= {target} if again else set()
    for origins in groups.values():
        origins.sort(key=lambda origin: origin[0].lineno)
    apart = [part for origins in groups.values() for part in _apart(script, _above_training(script, origins))]
    for origins in sorted(apart, key=lambda each: (each[-1][1].lineno, each[-1][1].col_offset)):
        model = _trained(script, origins)
        single = model.problem is None and not any(target in repeated for _, target in origins)
        yield dataclasses.replace(model, problem="it runs a single time") if single else model


def _makes_objects(script: Script) -> bool:
    """Whether a file binds more than constants and other names: a configuration need not be asked for its models."""
    assigned: list[ast.Assign | ast.AnnAssign] = [*script.find(ast.Assign), *script.find(ast.AnnAssign)]
    return any(
        each.value is not None
        and not isinstance(each.value, ast.Name | ast.Attribute)
        and not (isinstance(each.value, ast.Constant) and isinstance(script.parent(each), ast.ClassDef))
        for each in assigned
    )


def _is_loss(script: Script, target: ast.expr) -> bool:
    """Whether a module is a criterion, though the function that is handed it says `criterion: nn.Module`."""
    return any(value.kind is Kind.LOSS_FUNCTION for value in script.values(target))


def end_of_setup(script: Script, model: TrainedModel, models: Sequence[TrainedModel]) -> ast.stmt:
    """The last line of the model's set-up, or of the set-up of other models right below it: compiling comes after.
    Others that are there already may be prepared in the next paragraph."""
    others = {script.source(each.target): each.made for each in models if each is not model}
    block = script.block(model.ready)
    lines = split_lines(script.text)
    last = model.ready
    for statement in block[block.index(last) + 1 :]:
        between = lines[last.end_lineno or last.lineno : statement.lineno - 1]
        prepared = [made for other, made in others.items() if prepares(script, statement, other)]
        new = any(made.lineno > model.ready.lineno for made in prepared)
        if not prepared or (between if new else sum(not each.strip() for each in between) > 1):
            break
        if runs_models(script, statement) or calls_training(script, statement):
            break
        last = statement
    return last


def below_setup(script: Script, model: TrainedModel, models: Sequence[TrainedModel], code: Code) -> Edit:
    """Puts code where the model is ready: in a paragraph of its own where that ends one under a heading that is not
    of the making of the model; before its wrapper for several processes, if it has one."""
    if model.wrapped is not None:
        return InsertBefore(model.wrapped, code)
    at = end_of_setup(script, model, models)
    lines = split_lines(script.text)
    first, last = at.lineno, at.end_lineno or at.lineno
    while first > 1 and lines[first - 2].strip():
        first -= 1
    headed = lines[first - 1].lstrip().startswith("#") and not first <= model.made.lineno <= last
    return InsertAfter(at, code, apart=headed and not "".join(lines[last : last + 1]).strip())


def _above_training(script: Script, origins: list[_Made]) -> list[_Made]:
    """The assignments but those below all training: there a model is made anew to show what was learned,
    `net = Net(); net.load_state_dict(…)`."""
    return [origin for origin in origins if _trains_below(script, origin[0], None)] or origins


def _apart(script: Script, origins: list[_Made]) -> Iterator[list[_Made]]:
    """The assignments to one name, by the model that they make: after it was trained, a name may be given another."""
    part = origins[:1]
    for before, origin in itertools.pairwise(origins):
        if _trains_below(script, before[0], origin[0]):
            yield part
            part = []
        part.append(origin)
    yield part


def _trains_below(script: Script, made: ast.stmt, until: ast.stmt | None) -> bool:
    """Whether something trains below a statement, before control comes to another one, or in a loop around it."""
    for each in (made, *(around for around in script.ancestors(made) if isinstance(around, ast.stmt))):
        if isinstance(each, ast.FunctionDef) or (until is not None and script.inside(until, each)):
            return False
        if isinstance(each, ast.For | ast.While) and _trains(script, each):
            return True
        block = script.block(each)
        for statement in block[block.index(each) + 1 :]:
            if until is not None and script.inside(until, statement):
                return False
            if not isinstance(statement, ast.FunctionDef | ast.ClassDef) and _trains(script, statement):
                return True
    return False


def _trains(script: Script, statement: ast.stmt) -> bool:
    return calls_training(script, statement) or any(True for _ in backward_calls(script, statement))


def _trained(script: Script, origins: list[_Made]) -> TrainedModel:
    made, target = origins[-1]
    possible = dict.fromkeys(value for _, each in origins for value in script.values(each))
    values = tuple(each for each in possible if each.kind is Kind.MODULE and not _is_abstract(each))
    anchor = common_statement(script, [assign for assign, _ in origins])
    if anchor is None:
        return TrainedModel(made, target, made, None, values, "it is made in several places")
    ready, wrapped, problem = set_up(script, anchor, script.source(target))
    if problem is None and script.loops(made):
        anew = any(isinstance(value.node, ast.Call) and script.inside(value.node, made) for value in values)
        turn = "a new model is made in every turn of a loop"
        problem = turn if anew else "it is one that is made elsewhere, under another name"
    if problem is None and (replacing := _replaced(script, anchor, target)) is not None:
        problem = f"line {replacing.lineno} makes another object out of it before it trains"
    if problem is None and runs_while_built(script, anchor, script.source(target)):
        problem = "it runs while it is still being built"
    return TrainedModel(made, target, ready, wrapped, values, problem)


def _replaced(script: Script, anchor: ast.stmt, target: ast.expr) -> ast.Assign | None:
    """The statement by which a name stands for something else than the model, made out of its parts, before any
    training: `model = model[:5]`."""
    block = script.block(anchor)
    for statement in block[block.index(anchor) + 1 :]:
        for assign in script.in_scope(statement, ast.Assign):
            bound = any(script.source(each) == script.source(target) for each in targets(assign))
            if bound and _takes_parts(script, assign.value, target):
                return assign
        if _trains(script, statement):
            return None
    return None


def _takes_parts(script: Script, value: ast.expr, model: ast.expr) -> bool:
    """Whether a value is made of a model's parts, and not the model: `model[:5]`, `Net(model.features)`."""
    returns_itself = value.func if isinstance(value, ast.Call) else None  # as `model.to(device)` does
    parts = [part for part in breadth_first(value) if isinstance(part, ast.Subscript | ast.Attribute)]
    if not any(part is not returns_itself and script.source(part.value) == script.source(model) for part in parts):
        return False
    made = {each.node for each in script.values(model) if each.kind is Kind.MODULE}
    return not made & {each.node for each in script.values(value)}


def _is_abstract(model: Value) -> bool:
    """Whether a forward pass only raises, as of a base class: a model that is called is of another class."""
    if model.cls is None:
        return False
    forward = next((method for _, method in methods(model.cls, "forward")), None)
    if forward is None:
        return {*external_lineage(model.cls)} == {"torch.nn.Module"}
    body = [each for each in forward.body if not (isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant))]
    return len(body) == 1 and isinstance(body[0], ast.Raise)


def _origins(script: Script) -> dict[ModelOrigin, bool]:
    """The assignments that make the models which training steps of this file and of its neighbours call, and whether
    they are called more than a single time."""
    found: dict[ModelOrigin, bool] = {}
    for other in script.project.known_related(script):
        for file, call, again in training_forwards(other):
            for origin in made_at(file, call.func, set()):
                found[origin] = found.get(origin, False) or again
        for each in evaluation_forwards(other):
            found.update(dict.fromkeys(made_at(other, each.call.func, set()), True))
    return found
