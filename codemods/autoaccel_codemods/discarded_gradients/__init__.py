"""Skip discarded gradients.

The generator's step of a GAN goes backward through the discriminator, and computes gradients of its weights on the way,
which `optimizer_D.zero_grad()` takes away before anything reads them. `inputs=` names what gradients are wanted of, and
the others are left out. What is computed is the same; how kernels round that give less at once is torch's to say.

Left alone:
- losses that go through no other model than that which is stepped, or through one that comes before it: what a pass
  that ends early has stored is kept, and takes memory;
- steps that are not surely preceded, in the same turn of the loop, by a `zero_grad()` of their own, or by one that
  stands before the loss's backward pass as well;
- training in more than one function, optimizers that may step out of sight, parameters that are no model's as a whole,
  names that are bound again, models that are changed;
- programs that read `.grad`, clip gradients, have hooks, freeze parameters by hand, compute activations again, scale
  gradients themselves, keep gradients as zeros (`set_to_none`), train in several processes or by `DataParallel`, or are
  run by a framework.

Before:
    g_loss.backward()
    optimizer_G.step()

After:
    g_loss.backward(inputs=[p for p in generator.parameters() if p.requires_grad])
    optimizer_G.step()
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from autoaccel.analysis import Script
from autoaccel.dataflow.abstract_values import Kind
from autoaccel.dataflow.completeness import Incomplete
from autoaccel.dataflow.syntax_index import last_name, position
from autoaccel.edits import AddArguments, Code, Finding, Skipped, Tier, literal
from autoaccel.pytorch import backend_settings
from autoaccel.rewriting.rule import Rule, UnderDeterminism
from autoaccel_codemods.discarded_gradients import unproven

RULE = Rule(
    code="AA606",
    name="discarded-gradients",
    tier=Tier.EQUIVALENT,
    needles=(b".backward(",),
    pattern=r"zero_grad",
    references=("https://docs.pytorch.org/docs/stable/generated/torch.Tensor.backward.html",),
    addresses=("compute",),
    under_determinism=UnderDeterminism.REPEATED,
    order=55,
)

_READING = re.compile(
    r"(?<!autograd)\.grad\b|[\"']grad[\"']|autograd\.backward|\b_grad\b|register_\w*hook|_hook\(|clip_grad|GradScaler"
    r"|DataParallel|requires_grad_\((?!True\)|\))|\.requires_grad\b|[\"']requires_grad[\"']|set_to_none|param_groups"
    r"|add_param_group|torch\.distributed|torch\.func\b|set_grad_enabled|fabric|LBFGS|Accelerator\(|deepspeed|\bapex\b"
    r"|\bFunction\b|detect_anomaly|utils\.checkpoint|import checkpoint\b|checkpoint\(|checkpoint_sequential"
    r"|grad\w*_checkpoint|\.watch\(|def (?:named_)?parameters\("
)
_FREEZING = re.compile(r"requires_grad")
_TRAINING = re.compile(r"\.backward\(|zero_grad\(|\.step\b")
_LOOPS = (ast.For, ast.While)
_BRANCHES = (
    *(ast.If, ast.IfExp, ast.BoolOp, ast.Try, ast.ExceptHandler, ast.Match, ast.match_case, ast.With, *_LOOPS),
    *(ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.Lambda),
)


@dataclass(frozen=True, slots=True, eq=False)
class _Optimizer:
    """An optimizer that steps in a loop: how it is written there, the models whose parameters it has, its calls."""

    name: str
    parameters: str
    models: tuple[str, ...]
    zeroing: tuple[ast.Call, ...]
    steps: tuple[ast.Call, ...]


@RULE.check
def check(script: Script) -> Iterator[Finding | Skipped]:
    """A backward pass is told what gradients are wanted of, where one function does all that trains; elsewhere it is
    only named.

        unproven  losses that come through the models of two optimizers, wherever these step
    """
    backwards = [each for each in _calls(script, "backward") if not each.args and not each.keywords]
    optimizers = _optimizers(script, backwards) if backwards else ()
    if not optimizers and len(backwards) > 1:
        steps = [each for each in _calls(script, "step") if not each.args]
        for backward, unseen in unproven.losses(script, backwards, steps):
            if not _freezes(script):
                yield RULE.skip(backward, _problem(script) or unseen)
    if len(optimizers) < 2:
        return
    for backward in backwards:
        owners = [each for each in optimizers if _steps_by(script, each, backward)]
        if len(owners) != 1:
            continue
        (owner,) = owners
        others = {model for each in optimizers for model in each.models}.difference(owner.models)
        in_vain = _models_after(script, backward, others, {*owner.models})
        if not in_vain:
            before = _models_before(script, backward, others, {*owner.models})
            if before and not _freezes(script):
                kept = "a pass that ended early would keep what the model has stored"
                yield RULE.skip(
                    backward, f"gradients of `{before[0]}` are discarded unread: `detach()` what it gives; {kept}"
                )
            continue
        if (reason := _problem(script)) is not None:
            yield RULE.skip(backward, reason)
            continue
        wanted = Code(f"[p for p in {literal(owner.parameters)} if p.requires_grad]")
        edit = AddArguments(backward, (("inputs", wanted),))
        yield RULE.finding(backward, f"gradients of `{in_vain[0]}` are computed, and discarded unread", edit)


def _calls(script: Script, name: str) -> list[ast.Call]:
    """The calls of a method, in the order of the source."""
    named = script.syntax_index.calls_named(name)
    return sorted((each for each in named if isinstance(each.func, ast.Attribute)), key=position)


def _freezes(script: Script) -> bool:
    """Whether the program says itself which gradients it wants: `set_requires_grad(D, False)`."""
    try:
        return backend_settings.mention(script, _FREEZING) is not None
    except Incomplete:
        return True


def _problem(script: Script) -> str | None:
    """Why gradients that an optimizer discards may be of use all the same."""
    if script.frameworks:
        return f"{min(script.frameworks)} runs the step"
    try:
        if (mention := backend_settings.mention(script, _READING)) is not None:
            return f"`{mention}`: something may read them"
        if any(_TRAINING.search(each.text) for each in script.project.related(script) if each is not script):
            return "another file of the program trains, too"
    except Incomplete as incomplete:
        return str(incomplete)
    return None


def _optimizers(script: Script, backwards: list[ast.Call]) -> tuple[_Optimizer, ...]:
    """The optimizers of the function in which all training happens; none where more may happen than is seen."""
    scope = script.function(backwards[0])
    zeroing, stepping = _calls(script, "zero_grad"), _calls(script, "step")
    stepping = [each for each in stepping if script.kind(_receiver(each)) is not Kind.SCHEDULER]
    everything = [*_calls(script, "backward"), *zeroing, *stepping]
    if any(script.function(each) is not scope or each.args or _loop(script, each) is None for each in everything):
        return ()
    found = []
    for name in dict.fromkeys(ast.unparse(_receiver(each)) for each in stepping):
        steps = tuple(each for each in stepping if ast.unparse(_receiver(each)) == name)
        parameters = _parameters_of(script, _receiver(steps[0]), scope)
        models = () if parameters is None else _models_of(script, parameters, scope)
        if parameters is None or not models or _is_handed_on(script, name, steps[0]):
            return ()
        of_it = {name, *(models if len(models) == 1 else ())}
        own = tuple(each for each in zeroing if ast.unparse(_receiver(each)) in of_it)
        found.append(_Optimizer(name, script.source(parameters), models, own, steps))
    made = [each for each in script.find(ast.Call) if _makes_an_optimizer(script, each)]
    known = {name for each in found for name in (each.name, *each.models)}
    if len(made) != len(found) or any(ast.unparse(_receiver(each)) not in known for each in zeroing):
        return ()
    return () if any(_is_changed(script, model) for each in found for model in each.models) else tuple(found)


def _makes_an_optimizer(script: Script, call: ast.Call) -> bool:
    return any(value.kind is Kind.OPTIMIZER and value.node is call for value in script.values(call))


def _is_changed(script: Script, model: str) -> bool:
    """Whether a part of a model is exchanged: `G[0] = nn.Identity()`, `setattr(G, name, layer)`."""
    parts: list[ast.Attribute | ast.Subscript] = [*script.find(ast.Attribute), *script.find(ast.Subscript)]
    for each in parts:
        if not isinstance(each.ctx, ast.Load) and ast.unparse(each).startswith((f"{model}.", f"{model}[")):
            return True
    changing = (*script.syntax_index.calls_named("setattr"), *script.syntax_index.calls_named("add_module"))
    return any(model in {part.id for part in ast.walk(call) if isinstance(part, ast.Name)} for call in changing)


def _receiver(call: ast.Call) -> ast.expr:
    assert isinstance(call.func, ast.Attribute)
    return call.func.value


def _parameters_of(script: Script, optimizer: ast.expr, scope: ast.AST | None) -> ast.expr | None:
    """What an optimizer was made for, in the same function."""
    values = [*script.values(optimizer)]
    if len(values) != 1 or values[0].kind is not Kind.OPTIMIZER or not isinstance(made := values[0].node, ast.Call):
        return None
    if values[0].script is not script or script.function(made) is not scope or not made.args:
        return None
    return made.args[0]


def _models_of(script: Script, parameters: ast.expr, scope: ast.AST | None) -> tuple[str, ...]:
    """The names of the models whose parameters these are, and no others; none where that is not seen."""
    chained = isinstance(parameters, ast.Call) and script.qualname(parameters.func) == "itertools.chain"
    models = []
    for part in parameters.args if isinstance(parameters, ast.Call) and chained else [parameters]:
        match part:
            case ast.Call(func=ast.Attribute(value=ast.Name() as model, attr="parameters"), args=[], keywords=[]):
                if script.kind(model) is not Kind.MODULE or not _is_bound_before(script, model, parameters, scope):
                    return ()
                models.append(model.id)
            case _:
                return ()
    return tuple(models)


def _is_bound_before(script: Script, name: ast.Name, made: ast.expr, scope: ast.AST | None) -> bool:
    """Whether a name is bound in this function alone, for the last time before an optimizer is made, in no loop."""
    bindings = [each for each in script.find(ast.Name) if each.id == name.id and not isinstance(each.ctx, ast.Load)]
    return bool(bindings) and all(
        script.function(each) is scope and position(each) < position(made) and _loop(script, each) is None
        for each in bindings
    )


def _is_handed_on(script: Script, name: str, step: ast.Call) -> bool:
    """Whether something else than methods of an optimizer may step it: `scaler.step(optimizer)`, `train(optimizer)`."""
    for each in script.find(ast.Name):
        if each.id == name and isinstance(each.ctx, ast.Load):
            around = script.parent(each)
            schedules = isinstance(around, ast.Call) and (last_name(around.func) or "").endswith(("LR", "Plateau"))
            call = script.parent(around) if isinstance(around, ast.Attribute) else None
            if not schedules and not (isinstance(call, ast.Call) and call.func is around):
                return True
    return not isinstance(_receiver(step), ast.Name)


def _loop(script: Script, node: ast.AST) -> ast.AST | None:
    """The innermost loop around a place, within its function."""
    for around in script.ancestors(node):
        if isinstance(around, _LOOPS):
            return around
        if isinstance(around, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            return None
    return None


def _steps_by(script: Script, optimizer: _Optimizer, backward: ast.Call) -> bool:
    """Whether an optimizer may step by the gradients of a backward pass.

    It does not where each of its steps has a `zero_grad()` before it, in the same turn of its loop, whichever way the
    program takes there, and the pass does not stand between the two.
    """
    for step in optimizer.steps:
        before = [
            each
            for each in optimizer.zeroing
            if position(each) < position(step)
            and _loop(script, each) is _loop(script, step)
            and _surrounds(script, each, step)
        ]
        if not before or position(before[-1]) < position(backward) < position(step):
            return True
    return False


def _surrounds(script: Script, first: ast.Call, second: ast.Call) -> bool:
    """Whether all that is a condition for one place is one for another place as well: the same blocks are around it."""
    return set(_blocks(script, first)) <= set(_blocks(script, second))


def _blocks(script: Script, node: ast.AST) -> Iterator[tuple[ast.AST, str]]:
    """The branches around a place, each with the field of its statement that the place is in."""
    inner = node
    for around in script.ancestors(node):
        if isinstance(around, _BRANCHES):
            field = next(
                name
                for name, value in ast.iter_fields(around)
                if value is inner or (isinstance(value, list) and inner in value)
            )
            yield around, field
        inner = around


def _models_after(script: Script, backward: ast.Call, models: set[str], wanted: set[str]) -> list[str]:
    """The models that a loss comes through from one that gradients are wanted of, as far as assignments in its loop
    tell; none where it comes through such a model otherwise, too."""
    through: dict[str, bool] = {}
    loss = _receiver(backward)
    for part in _reached(script, backward, loss, position(backward)):
        if isinstance(part, ast.Call) and isinstance(part.func, ast.Name) and part.func.id in models:
            given = [*part.args, *(each.value for each in part.keywords)]
            before = [found for each in given for found in _reached(script, backward, each, position(part))]
            from_wanted = any(
                isinstance(each, ast.Call) and isinstance(each.func, ast.Name) and each.func.id in wanted
                for each in before
            )
            through[part.func.id] = through.get(part.func.id, True) and from_wanted
    return sorted(through) if all(through.values()) else []


def _models_before(script: Script, backward: ast.Call, models: set[str], wanted: set[str]) -> list[str]:
    """The models whose results a loss comes from by way of one that gradients are wanted of."""
    found: set[str] = set()
    for part in _reached(script, backward, _receiver(backward), position(backward)):
        if isinstance(part, ast.Call) and isinstance(part.func, ast.Name) and part.func.id in wanted:
            for given in (*part.args, *(each.value for each in part.keywords)):
                for each in _reached(script, backward, given, position(part)):
                    if isinstance(each, ast.Call) and isinstance(each.func, ast.Name):
                        found |= set() if unproven.in_block_without_graph(script, each) else {each.func.id}
    return sorted(found & models)


def _reached(script: Script, backward: ast.Call, start: ast.expr, at: tuple[int, int]) -> Iterator[ast.AST]:
    """The parts of an expression, and of what the names in it stand for by the time of a backward pass."""
    loop = _loop(script, backward)
    if loop is None:
        return
    within: list[ast.Assign | ast.AugAssign] = [*script.within(loop, ast.Assign), *script.within(loop, ast.AugAssign)]
    before = sorted((each for each in within if position(each) < position(backward)), key=position)
    assignments = [(position(each), _targets(each), each) for each in before]
    seen: set[ast.AST] = set()
    pending: list[tuple[ast.AST, tuple[int, int]]] = [(start, at)]
    while pending:
        expression, at = pending.pop()
        for part in unproven.with_graph(expression):
            yield part
            if isinstance(part, ast.Name):
                made = [each for place, names, each in assignments if place < at and part.id in names]
                for each in made[-1:]:
                    if each not in seen:
                        seen.add(each)
                        pending.append((each.value, position(each)))


def _targets(assignment: ast.Assign | ast.AugAssign) -> set[str]:
    targets = assignment.targets if isinstance(assignment, ast.Assign) else [assignment.target]
    return {each.id for target in targets for each in ast.walk(target) if isinstance(each, ast.Name)}
