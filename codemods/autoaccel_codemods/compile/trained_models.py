"""Models that are trained: where they are made, and where they are ready."""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from autoaccel.analysis.call_sites import arguments_for
from autoaccel.analysis.classes import class_info, external_lineage, instance_kind, lineage, methods
from autoaccel.analysis.script import Script
from autoaccel.dataflow.abstract_values import Kind, Value
from autoaccel.dataflow.call_arguments import given_values
from autoaccel.dataflow.definitions import Definition
from autoaccel.dataflow.query import once_all
from autoaccel.dataflow.syntax_index import breadth_first, last_name, split_lines
from autoaccel.edits import Code, Edit, InsertAfter, InsertBefore
from autoaccel.pytorch.evaluation_only import evaluation_forwards
from autoaccel.pytorch.forwards import runs_model
from autoaccel.pytorch.gradients import (
    backward_calls,
    calls_training,
    in_grad_mode,
)
from autoaccel.pytorch.run_once_code import runs_once
from autoaccel.pytorch.training_steps import training_scopes, training_steps

_PREPARES = frozenset(
    """to cuda cpu xpu float half double bfloat16 apply load_state_dict requires_grad_ initialize init_weights
    reset_parameters""".split()
)
_RETURNS_MODEL = frozenset("to cuda cpu xpu float half double bfloat16 train eval apply requires_grad_".split())
_SHARDS = "torch.distributed.fsdp.FullyShardedDataParallel"
_REPLICATES = "torch.nn.DataParallel"
_DDP = "torch.nn.parallel.DistributedDataParallel"
_WRAPPERS = (_SHARDS, _REPLICATES, _DDP, "torch.nn.SyncBatchNorm.convert_sync_batchnorm")


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
    groups: dict[tuple[ast.AST | None, str], list[tuple[ast.Assign | ast.AnnAssign, ast.expr]]] = {}
    repeated: set[ast.expr] = set()
    for (file, assign, target), again in _origins(script).items():
        if file is script and not _is_loss(script, target):
            groups.setdefault((script.function(assign), script.source(target)), []).append((assign, target))
            repeated |= {target} if again else set()
    for origins in groups.values():
        origins.sort(key=lambda origin: origin[0].lineno)
    for origins in sorted(groups.values(), key=lambda each: (each[-1][1].lineno, each[-1][1].col_offset)):
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
        if _runs_models(script, statement) or calls_training(script, statement):
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


def _above_training(
    script: Script, origins: list[tuple[ast.Assign | ast.AnnAssign, ast.expr]]
) -> list[tuple[ast.Assign | ast.AnnAssign, ast.expr]]:
    """The assignments but those below all training of the block: there a model is made anew to show what was learned,
    `net = Net(); net.load_state_dict(…)`."""
    block = script.block(origins[0][0])
    training = (
        each for each in block if calls_training(script, each) or any(True for _ in backward_calls(script, each))
    )
    last = max((each.end_lineno or each.lineno for each in training), default=0)
    return [origin for origin in origins if origin[0].lineno <= last] or origins


def _trained(script: Script, origins: list[tuple[ast.Assign | ast.AnnAssign, ast.expr]]) -> TrainedModel:
    origins = _above_training(script, origins)
    made, target = origins[-1]
    values = tuple(each for each in script.values(target) if each.kind is Kind.MODULE and not _is_abstract(each))
    anchor = _common_statement(script, [assign for assign, _ in origins])
    if anchor is None:
        return TrainedModel(made, target, made, None, values, "it is made in several places")
    ready, wrapped, problem = _set_up(script, anchor, script.source(target))
    if problem is None and script.loops(made):
        problem = "a new model is made in every turn of a loop"
    if problem is None and (anew := _replaced(script, anchor, target)) is not None:
        problem = f"line {anew.lineno} makes another object out of it before it trains"
    return TrainedModel(made, target, ready, wrapped, values, problem)


def _replaced(script: Script, anchor: ast.stmt, target: ast.expr) -> ast.Assign | None:
    """The statement by which a name stands for something else than the model, made out of its parts, before any
    training: `model = model[:5]`."""
    block = script.block(anchor)
    for statement in block[block.index(anchor) + 1 :]:
        for assign in script.in_scope(statement, ast.Assign):
            bound = any(script.source(each) == script.source(target) for each in _targets(assign))
            if bound and _takes_parts(script, assign.value, target):
                return assign
        if calls_training(script, statement) or any(True for _ in backward_calls(script, statement)):
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


ModelOrigin = tuple["Script", ast.Assign | ast.AnnAssign, ast.expr]


def _origins(script: Script) -> dict[ModelOrigin, bool]:
    """The assignments that make the models which training steps of this file and of its neighbours call, and whether
    they are called more than a single time."""
    found: dict[ModelOrigin, bool] = {}
    for other in script.project.known_related(script):
        for file, call, again in training_forwards(other):
            for origin in _made_at(file, call.func, set()):
                found[origin] = found.get(origin, False) or again
        for each in evaluation_forwards(other):
            found.update(dict.fromkeys(_made_at(other, each.call.func, set()), True))
    return found


@once_all
def training_forwards(script: Script) -> Iterator[tuple[Script, ast.Call, bool]]:
    """Calls of models in scopes with a backward pass, in what these scopes call and in what is handed to them, and
    whether they are repeated; not the calls inside models."""
    yield from _forwards_from(script, training_scopes(script))
    for scope in training_scopes(script):
        for other, call in () if isinstance(scope, ast.Module) else script.callers(scope):
            for part in _handed_over(other, call):
                if other.kind(part.func) is Kind.MODULE and not _in_model(other, other.function(part) or other.tree):
                    yield other, part, not runs_once(other, part)


def _handed_over(script: Script, call: ast.Call) -> Iterator[ast.Call]:
    """The calls that a call is given the results of: `step(model(x), y)`, also by names."""
    for given in given_values(call):
        yield from script.within(given, ast.Call)
        for name in script.within(given, ast.Name):
            made = (each.value for each in script.definitions(name))
            yield from (each for each in made if isinstance(each, ast.Call))


def _forwards_from(script: Script, scopes: Iterable[ast.AST]) -> Iterator[tuple[Script, ast.Call, bool]]:
    pending: list[tuple[Script, ast.AST]] = [(script, scope) for scope in scopes]
    seen: set[ast.AST] = set()
    while pending:
        other, scope = pending.pop()
        if scope in seen or _in_model(other, scope):
            continue
        seen.add(scope)
        for part in other.in_scope(scope, ast.Call):
            if other.kind(part.func) is Kind.MODULE:
                yield other, part, not runs_once(other, part)
            elif not any(True for _ in backward_calls(other, part)):
                pending.extend(
                    (script, callee) for script, callee in other.callees(part) if not _only_samples(script, callee)
                )


def steps_of_unseen_models(script: Script) -> Iterator[tuple[ast.Call, str]]:
    """Backward passes of this file whose step runs models, none of which is seen to be made; and why not."""
    for step in training_steps(script):
        forwards = step.forwards
        if not step.backwards or not step.optimizer_steps or any(_in_model(script, each) for each in step.scopes):
            continue
        if not forwards:
            yield step.backwards[0].call, "the training step runs no model that is seen"
            continue
        called = [(file, call) for file, call, _ in _forwards_from(script, step.scopes)]
        if any(True for file, call in called for _ in _made_at(file, call.func, set())):
            continue
        yield step.backwards[0].call, _why_unseen(script, forwards, called)


def _why_unseen(script: Script, forwards: Sequence[ast.Call], called: Sequence[tuple[Script, ast.Call]]) -> str:
    for file, call in called:
        made = [(value.script, value.node) for value in file.values(call.func) if value.kind is Kind.MODULE]
        part = all(at and node and _in_model(at, at.function(node) or at.tree) for at, node in made)
        why = "it is made as a part of another model" if made and part else "nothing in sight makes it"
        return f"`{file.source(call.func)}`: {why}"
    for call in forwards:
        match call.func:
            case ast.Attribute(value=model, attr=name) if script.kind(model) is Kind.MODULE:
                how = f"it is called by `{name}`, not by `forward`" if name != "forward" else "it is not called itself"
                return f"`{script.source(model)}`: {how}"
    names = dict.fromkeys(script.source(call.func) for call in forwards)
    return f"nothing shows that {' or '.join(f'`{name}`' for name in list(names)[:2])} is a module"


def _only_samples(script: Script, function: ast.AST) -> bool:
    """Whether a function that a training step calls now and then runs models without gradients only, in eval mode."""
    switches = (part for part in script.in_scope(function, ast.Attribute) if part.attr == "eval")
    if not any(True for _ in switches):
        return False
    forwards = (part for part in script.in_scope(function, ast.Call) if script.kind(part.func) is Kind.MODULE)
    return all(in_grad_mode(script, each, function) for each in forwards)


def _in_model(script: Script, scope: ast.AST) -> bool:
    cls = script.parent(scope)
    return isinstance(cls, ast.ClassDef) and instance_kind(script.class_ref(cls)) in (
        Kind.MODULE,
        Kind.LOSS_FUNCTION,
    )


def _made_at(script: Script, expression: ast.expr, seen: set[object]) -> Iterator[ModelOrigin]:
    """Follow a model back through parameters and attributes to the assignments that made it."""
    if isinstance(expression, ast.Name):
        for definition in script.definitions(expression):
            if definition in seen:
                continue
            seen.add(definition)
            if definition.how == "param":
                function = definition.scope.node
                for other, argument in arguments_for(script, function, definition.name):
                    yield from _made_at(other, argument, seen)
            elif definition.how in ("assign", "global"):
                yield from _assigned(script, definition.node, _part(definition), definition.name, seen)
    elif isinstance(expression, ast.Attribute):
        for owner in script.values(expression.value):
            if owner.cls is None:
                continue
            for each in lineage(owner.cls):
                for value, _ in class_info(each).attributes.get(expression.attr, ()):
                    if isinstance(value, ast.expr) and value not in seen:
                        seen.add(value)
                        statement = each.script.statement(value)
                        yield from _assigned(each.script, statement, value, expression.attr, seen)
    elif isinstance(expression, ast.Call) and (receiver := _passed_on(script, expression)) is not None:
        yield from _made_at(script, receiver, seen)


def _part(definition: Definition) -> ast.expr | None:
    """The expression that a name is bound to: the matching one of `model, config = self.model, self.config`."""
    value = definition.value
    for step in definition.path:
        if not isinstance(value, ast.Tuple | ast.List) or not isinstance(step, int):
            break
        if not -len(value.elts) <= step < len(value.elts):
            break
        value = value.elts[step]
    return value


def _assigned(
    script: Script, statement: ast.AST, value: ast.expr | None, name: str, seen: set[object]
) -> Iterator[ModelOrigin]:
    if value is None or isinstance(value, ast.Constant) or not isinstance(statement, ast.Assign | ast.AnnAssign):
        return  # `self.model = None`: nothing yet
    if isinstance(value, ast.Call) and script.qualname(value.func) == "torch.load":  # what was there before, read back
        return
    if (other := _other_name(script, value)) is not None:
        before = list(_made_at(script, other, seen))
        yield from before
        if before or not _is_handed_anew(script, other):
            return
    for target in _targets(statement):
        if last_name(target) == name and not _in_model(script, script.function(statement) or statement):
            yield script, statement, target


def _is_handed_anew(script: Script, name: ast.expr) -> bool:
    """Whether a name is a parameter for which every call makes a model that has no other name: `Trainer(Net())`."""
    definitions = script.definitions(name) if isinstance(name, ast.Name) else ()
    if not definitions or any(each.how != "param" for each in definitions):
        return False
    given = [place for each in definitions for place in arguments_for(script, each.scope.node, each.name)]
    made = all(
        isinstance(each, ast.Call) and all(value.node is not None for value in file.values(each))
        for file, each in given
    )
    return bool(given) and made and script.values(name).kinds == {Kind.MODULE}


def _other_name(script: Script, value: ast.expr) -> ast.Name | ast.Attribute | None:
    """What a model that an expression gives is called already: `model.to(device)`, `DistributedDataParallel(model)`."""
    if isinstance(value, ast.Name | ast.Attribute):
        return value
    if not isinstance(value, ast.Call):
        return None
    if value.args and script.qualname(value.func) in _WRAPPERS:
        return _other_name(script, value.args[0])
    match value.func:
        case ast.Attribute(value=ast.Call() as inner, attr=attr) if attr in _RETURNS_MODEL:
            return _other_name(script, inner)
    return _passed_on(script, value) or _handed_back(script, value)


def _passed_on(script: Script, call: ast.Call) -> ast.Name | ast.Attribute | None:
    """The model that a method of its own returns: `model.to(device)`."""
    match call.func:
        case ast.Attribute(value=ast.Name() | ast.Attribute() as receiver, attr=attr) if attr in _RETURNS_MODEL:
            return receiver if script.qualname(receiver) is None else None
        case _:
            return None


def _handed_back(script: Script, call: ast.Call) -> ast.Name | ast.Attribute | None:
    """The argument that a project function returns: `model = train(model, loader)`."""
    made = {value.node for value in script.values(call) if value.kind is Kind.MODULE and value.node is not None}
    if not script.callees(call):
        return None
    for argument in given_values(call):
        if isinstance(argument, ast.Name | ast.Attribute) and script.kind(argument) is Kind.MODULE:
            if made & {value.node for value in script.values(argument)}:
                return argument
    return None


def _targets(statement: ast.Assign | ast.AnnAssign) -> Iterator[ast.expr]:
    targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
    for target in targets:
        if isinstance(target, ast.Tuple | ast.List):
            yield from target.elts
        else:
            yield target


def _common_statement(script: Script, made: list[ast.Assign | ast.AnnAssign]) -> ast.stmt | None:
    """The statement that holds all assignments: one of them, or the `if` whose branches they are."""
    chains = [[each, *(above for above in script.ancestors(each) if isinstance(above, ast.stmt))] for each in made]
    first = chains[0]
    for candidate in first:
        if all(any(candidate is each for each in chain) for chain in chains):
            return candidate if isinstance(candidate, ast.If | ast.Assign | ast.AnnAssign | ast.Try) else None
    blocks = [script.block(chain[-1]) for chain in chains]
    if all(block is blocks[0] for block in blocks):  # one after the other: the last one stands
        return max((chain[-1] for chain in chains), key=lambda statement: statement.lineno)
    return None


def _set_up(script: Script, anchor: ast.stmt, target: str) -> tuple[ast.stmt, ast.stmt | None, str | None]:
    """The last statement of the same block that prepares the model, and where it is wrapped for several processes."""
    block = script.block(anchor)
    ready = anchor
    for statement in [anchor, *block[block.index(anchor) + 1 :]]:
        if isinstance(statement, ast.FunctionDef | ast.ClassDef):
            continue
        if isinstance(statement, ast.For | ast.While) and _runs_models(script, statement):
            break
        if statement is not anchor and calls_training(script, statement):
            break
        for call in script.in_scope(statement, ast.Call):
            name = script.qualname(call.func)
            if any(script.source(each) == target for each in call.args):
                if name == _SHARDS:
                    return ready, None, "the model is sharded"
                if name == _DDP:
                    return ready, statement, None
                if name == _REPLICATES:
                    ready = statement
        if statement is not anchor and prepares(script, statement, target):
            ready = statement
    return ready, None, None


def _runs_models(script: Script, statement: ast.stmt) -> bool:
    return any(runs_model(script, call) for call in script.in_scope(statement, ast.Call))


def prepares(script: Script, statement: ast.stmt, target: str) -> bool:
    """Whether a statement moves, loads, initialises or extends the model."""
    for call in script.in_scope(statement, ast.Call):
        function = call.func
        if isinstance(function, ast.Attribute) and function.attr in _PREPARES:
            if script.source(function.value) == target:
                return True
    stored = (part for part in script.in_scope(statement, ast.Attribute) if isinstance(part.ctx, ast.Store))
    if any(script.source(part).startswith(target + ".") for part in stored) or _freezes(script, statement, target):
        return True
    names = script.in_scope(statement, ast.Name)
    return any(name.id == target and isinstance(name.ctx, ast.Store) for name in names)


def _freezes(script: Script, statement: ast.stmt, target: str) -> bool:
    """`for parameter in model.parameters(): parameter.requires_grad_(False)`"""
    match statement:
        case ast.For(
            target=ast.Name(id=name), iter=ast.Call(func=ast.Attribute(value=owner, attr="parameters")), body=[only]
        ):
            pass
        case _:
            return False
    match only:
        case ast.Assign(targets=[ast.Attribute(value=ast.Name(id=frozen), attr="requires_grad")]):
            pass
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=frozen), attr="requires_grad_"))):
            pass
        case _:
            return False
    return frozen == name and f"{script.source(owner)}.".startswith(f"{target}.")
