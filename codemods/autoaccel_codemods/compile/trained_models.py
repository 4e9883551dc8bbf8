"""Models that are trained: where they are made, where they are ready, and what in them can not be compiled."""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from autoaccel.analysis.call_sites import arguments_for
from autoaccel.analysis.classes import class_info, instance_kind, lineage
from autoaccel.dataflow.abstract_values import Kind, Value
from autoaccel.dataflow.query import once
from autoaccel.dataflow.syntax_index import breadth_first
from autoaccel.pytorch.evaluation_only import evaluation_forwards
from autoaccel.pytorch.evaluation_passes import runs_forward
from autoaccel.pytorch.gradients import (
    backward_calls,
    calls_training,
    gradients_off,
)
from autoaccel.pytorch.run_once_code import runs_once
from autoaccel.pytorch.training_steps import training_scopes
from autoaccel_codemods.compile.small_modules import is_function, is_small

if TYPE_CHECKING:
    from autoaccel.analysis.script import Script
    from autoaccel.dataflow.abstract_values import ClassRef
    from autoaccel.dataflow.definitions import Definition

_PREPARES = frozenset(
    """to cuda cpu xpu float half double bfloat16 apply load_state_dict requires_grad_ initialize init_weights
    reset_parameters""".split()
)
_RETURNS_MODEL = frozenset("to cuda cpu xpu float half double bfloat16 train eval apply requires_grad_".split())
_WRAPPERS = {
    "torch.nn.DataParallel": "DataParallel copies the model to every device at every step",
    "torch.distributed.fsdp.FullyShardedDataParallel": "the model is sharded",
}
_DDP = "torch.nn.parallel.DistributedDataParallel"
_DETECTION = "torchvision.models.detection."
_DETECTS = "its shapes depend on what it detects"
_SYNC = "torch.nn.SyncBatchNorm.convert_sync_batchnorm"
_RECURRENT = frozenset({"torch.nn.LSTM", "torch.nn.GRU", "torch.nn.RNN"})
_CACHES = frozenset({"functools.cache", "functools.lru_cache"})
_GRAD = "torch.autograd.grad"
_BREAKS = {
    "item": "its forward pass reads values on the host",
    "tolist": "its forward pass reads values on the host",
    "numpy": "its forward pass leaves torch",
    "cpu": "its forward pass leaves the device",
    "backward": "its forward pass trains",
}


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


def end_of_setup(script: Script, model: TrainedModel, models: list[TrainedModel]) -> ast.stmt:
    """The last line of the model's set-up, or of the set-up of other models right below it: compiling comes after."""
    others = {script.source(each.target) for each in models if each is not model}
    block = script.block(model.ready)
    last = model.ready
    for statement in block[block.index(last) + 1 :]:
        below = statement.lineno == (last.end_lineno or last.lineno) + 1
        if not below or not any(_prepares(script, statement, other) for other in others):
            break
        last = statement
    return last


def _trained(script: Script, origins: list[tuple[ast.Assign | ast.AnnAssign, ast.expr]]) -> TrainedModel:
    made, target = origins[-1]
    values = tuple(value for value in script.values(target) if value.kind is Kind.MODULE)
    anchor = _common_statement(script, [assign for assign, _ in origins])
    if anchor is None:
        return TrainedModel(made, target, made, None, values, "it is made in several places")
    ready, wrapped, problem = _set_up(script, anchor, script.source(target))
    if problem is None and script.loops(made):
        problem = "a new model is made in every turn of a loop"
    if problem is None and _detects(script, made.value):
        problem = _DETECTS
    return TrainedModel(made, target, ready, wrapped, values, problem)


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


@once
def training_forwards(script: Script) -> tuple[tuple[Script, ast.Call, bool], ...]:
    """Calls of models in scopes with a backward pass, and in what these scopes call, and whether they are repeated;
    not the calls inside models."""
    return tuple(_training_forwards(script))


def _training_forwards(script: Script) -> Iterator[tuple[Script, ast.Call, bool]]:
    pending: list[tuple[Script, ast.AST]] = []
    pending.extend((script, scope) for scope in training_scopes(script))
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


def _only_samples(script: Script, function: ast.AST) -> bool:
    """Whether a function that a training step calls now and then runs models without gradients only, in eval mode."""
    switches = (part for part in script.in_scope(function, ast.Attribute) if part.attr == "eval")
    if not any(True for _ in switches):
        return False
    forwards = (part for part in script.in_scope(function, ast.Call) if script.kind(part.func) is Kind.MODULE)
    return all(gradients_off(script, each, function) for each in forwards)


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
        if not isinstance(value, ast.Tuple | ast.List) or not isinstance(step, int) or step >= len(value.elts):
            break
        value = value.elts[step]
    return value


def _assigned(
    script: Script, statement: ast.AST, value: ast.expr | None, name: str, seen: set[object]
) -> Iterator[ModelOrigin]:
    if value is None or not isinstance(statement, ast.Assign | ast.AnnAssign):
        return
    if isinstance(value, ast.Name | ast.Attribute):  # another name of a model made elsewhere
        yield from _made_at(script, value, seen)
        return
    if isinstance(value, ast.Call) and script.qualname(value.func) == "torch.load":  # what was there before, read back
        return
    if isinstance(value, ast.Call) and (receiver := _passed_on(script, value)) is not None:
        yield from _made_at(script, receiver, seen)
        return
    if isinstance(value, ast.Call) and script.qualname(value.func) in (*_WRAPPERS, _DDP, _SYNC) and value.args:
        if isinstance(value.args[0], ast.Name | ast.Attribute):
            yield from _made_at(script, value.args[0], seen)
            return
    if isinstance(value, ast.Call) and (handed := _handed_back(script, value)) is not None:
        yield from _made_at(script, handed, seen)
        return
    for target in _targets(statement):
        spelled = (
            target.id if isinstance(target, ast.Name) else target.attr if isinstance(target, ast.Attribute) else None
        )
        if spelled == name and not _in_model(script, script.function(statement) or statement):
            yield script, statement, target


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
    for argument in (*call.args, *(keyword.value for keyword in call.keywords)):
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
            if name in (*_WRAPPERS, _DDP) and any(script.source(each) == target for each in call.args):
                if name != _DDP:
                    return ready, None, _WRAPPERS[name]
                return ready, statement, None
        if statement is not anchor and _prepares(script, statement, target):
            ready = statement
    return ready, None, None


def _runs_models(script: Script, statement: ast.stmt) -> bool:
    return any(runs_forward(script, call) for call in script.in_scope(statement, ast.Call))


def _prepares(script: Script, statement: ast.stmt, target: str) -> bool:
    """Whether a statement moves, loads, initialises or extends the model."""
    for call in script.in_scope(statement, ast.Call):
        function = call.func
        if isinstance(function, ast.Attribute) and function.attr in _PREPARES:
            if script.source(function.value) == target:
                return True
    stored = (part for part in script.in_scope(statement, ast.Attribute) if isinstance(part.ctx, ast.Store))
    if any(script.source(part).startswith(target + ".") for part in stored):
        return True
    names = script.in_scope(statement, ast.Name)
    return any(name.id == target and isinstance(name.ctx, ast.Store) for name in names)


def _terminal(target: ast.expr) -> str | None:
    match target:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case _:
            return None


# -- what a compiler can not take


def unfit(script: Script, model: TrainedModel) -> str | None:
    """Why a model must not, or need not, be compiled; None when nothing speaks against it."""
    if any(value.kind not in (Kind.MODULE, Kind.NONE) for value in script.values(model.target)) or not model.values:
        return "nothing shows that it is a module"
    for value in model.values:
        if is_small(script, value):
            return "a single layer has nothing to fuse"
        if is_function(value):
            return "it is a criterion, or another function in the form of a module"
        if value.name is not None:
            if value.name.startswith(_DETECTION):
                return _DETECTS
            if value.name in _RECURRENT:
                return "recurrent layers are fused already"
            if value.name.startswith("torch.nn.Lazy"):
                return "its parameters are made at the first call"
        if value.cls is None:
            if value.name is None and not isinstance(value.node, ast.Call):  # told by its use alone
                return "what it is made of cannot be seen"
            continue
        for ref in _model_classes(value.cls):
            reason = _class_reason(ref.script, ref.node)
            if reason is not None:
                return reason
    return None


def _detects(script: Script, made: ast.AST | None) -> bool:
    """Whether a constructor call names torchvision's detection models: also `detection.__dict__[name](…)`."""
    parts = breadth_first(made.func) if isinstance(made, ast.Call) else ()
    names = (script.qualname(part) or "" for part in parts if isinstance(part, ast.Name | ast.Attribute))
    return any(f"{name}.".startswith(_DETECTION) for name in names)


def _model_classes(outer: ClassRef) -> Iterator[ClassRef]:
    """A model's class, its project bases, and the classes of the modules that these are made of."""
    pending, seen = [outer], set[ast.ClassDef]()
    while pending:
        for ref in lineage(pending.pop()):
            if ref.node in seen:
                continue
            seen.add(ref.node)
            yield ref
            for call in ref.script.syntax_index.by_depth(ref.script.within(ref.node, ast.Call)):
                values = ref.script.values(call)
                pending.extend(value.cls for value in values if value.kind is Kind.MODULE and value.cls is not None)


def _class_reason(script: Script, cls: ast.ClassDef) -> str | None:
    for call in script.syntax_index.by_depth(script.within(cls, ast.Call)):
        name = script.qualname(call.func)
        if name in _RECURRENT:
            return "recurrent layers are fused already"
        if name is not None and name.startswith("torch.nn.Lazy"):
            return "its parameters are made at the first call"
        if name == "torch.nn.utils.spectral_norm":
            return "spectral norm works through hooks"
    for method in cls.body:
        if isinstance(method, ast.FunctionDef) and method.name != "__init__":
            reason = _forward_reason(script, method)
            if reason is not None and (method.name == "forward" or _called_by_forward(cls, method.name)):
                return reason
    return None


def _called_by_forward(cls: ast.ClassDef, name: str) -> bool:
    forward = next((each for each in cls.body if isinstance(each, ast.FunctionDef) and each.name == "forward"), None)
    return forward is not None and any(
        isinstance(part, ast.Attribute) and part.attr == name for part in breadth_first(forward)
    )


def _forward_reason(script: Script, method: ast.FunctionDef, nested: bool = True) -> str | None:
    """What breaks the graph, compiles anew at every call, or unrolls a loop over the data."""
    for part in breadth_first(method):
        if nested and isinstance(part, ast.Call) and isinstance(part.func, ast.Name):
            for other, function in script.callees(part):
                if function.name != "forward":
                    reason = _forward_reason(other, function, nested=False)
                    if reason is not None:
                        return reason
        match part:
            case ast.Call(func=ast.Attribute(attr=name)) if name in _BREAKS and script.qualname(part.func) is None:
                return _BREAKS[name]
            case ast.Call(func=ast.Name(id="print")):
                return "its forward pass prints"
            case ast.Call() if _is_cached(script, part.func):
                return "its forward pass calls a cached function, which compiled code runs at every call"
            case ast.Call() if (script.qualname(part.func) or "").startswith(("random.", "numpy.random.")):
                return "its forward pass draws random numbers in Python"
            case ast.Call() if script.qualname(part.func) == "torch.autograd.grad":
                return "its forward pass differentiates"
            case ast.Call() if script.qualname(part.func) == "torch.nn.utils.rnn.pack_padded_sequence":
                return "recurrent layers are fused already"
            case ast.AugAssign(target=ast.Attribute(value=ast.Name(id="self")), value=ast.Constant()):
                return "its forward pass counts its own calls, so it would be compiled anew each time"
            case ast.While():
                return "its forward pass loops while a condition on the data holds"
            case ast.For(iter=iterable) if _over_data(script, iterable):
                return "its forward pass loops over the data"
    return None


def _is_cached(script: Script, function: ast.expr) -> bool:
    """Whether a function of the project, or a method of the class around, is decorated to remember its results."""
    candidates: list[ast.AST] = []
    if isinstance(function, ast.Name):
        candidates = [definition.node for definition in script.definitions(function)]
        for value in script.values(function):
            candidates += [value.node] if value.node is not None else []
    elif isinstance(function, ast.Attribute):
        cls = script.enclosing_class(function)
        candidates = [each for each in (cls.body if cls else ()) if getattr(each, "name", None) == function.attr]
    return any(
        script.qualname(decorator.func if isinstance(decorator, ast.Call) else decorator) in _CACHES
        for each in candidates
        if isinstance(each, ast.FunctionDef)
        for decorator in each.decorator_list
    )


def _over_data(script: Script, iterable: ast.expr) -> bool:
    """`range(x.size(1))`, `range(len(x))` of a tensor, or a tensor itself."""
    if isinstance(iterable, ast.Call) and isinstance(iterable.func, ast.Name) and iterable.func.id == "range":
        for part in breadth_first(iterable):
            if isinstance(part, ast.Attribute) and part.attr in ("size", "shape"):
                return True
            if isinstance(part, ast.Name) and any(each.how == "param" for each in script.definitions(part)):
                return True
            if isinstance(part, ast.Name) and any(_from_shape(each.value) for each in script.definitions(part)):
                return True
        return False
    return script.kind(iterable) in (Kind.TENSOR, Kind.BATCH)


def _from_shape(value: ast.expr | None) -> bool:
    return value is not None and any(
        isinstance(part, ast.Attribute) and part.attr in ("size", "shape") for part in breadth_first(value)
    )


def differentiated_twice(script: Script) -> frozenset[ast.AST] | None:
    """Constructors of the models that are run where gradients are differentiated; None when they can not be told."""
    found: set[ast.AST] = set()
    graphs = (script.parent(keyword) for keyword in script.find(ast.keyword) if keyword.arg == "create_graph")
    calls = dict.fromkeys((*(each for each in graphs if isinstance(each, ast.Call)), *script.calls(_GRAD)))
    for call in script.syntax_index.in_order([*calls]):
        twice = any(
            keyword.arg == "create_graph" and not (isinstance(keyword.value, ast.Constant) and not keyword.value.value)
            for keyword in call.keywords
        )
        if not twice and script.qualname(call.func) != _GRAD:
            continue
        scope = script.function(call) or script.tree
        nodes = [
            value.node
            for part in script.in_scope(scope, ast.Call)
            for value in script.values(part.func)
            if value.kind is Kind.MODULE
        ]
        if not nodes or any(node is None for node in nodes):
            return None
        found.update(node for node in nodes if node is not None)
    return frozenset(found)
