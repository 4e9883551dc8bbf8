"""What running a piece of code does to a training step, through the project functions that it calls."""

from __future__ import annotations

import ast
import enum
import re
from collections.abc import Iterator

from autoaccel.analysis.classes import class_info
from autoaccel.analysis.script import Script
from autoaccel.dataflow.abstract_values import Kind
from autoaccel.dataflow.call_arguments import given_values
from autoaccel.dataflow.child_nodes import children
from autoaccel.dataflow.query import fixpoint, once
from autoaccel.dataflow.syntax_index import is_constant, last_name
from autoaccel.library_models.graph_operations import DIFFERENTIATING
from autoaccel.library_models.python_names import BUILTINS
from autoaccel.library_models.tensor_operations import METHODS, STORING
from autoaccel.pytorch.gradients import is_backward, is_optimizer_step


class Effect(enum.Flag):
    """What code may do to a training step. Code that is not seen does nothing, but for what its name says.

    Whether it may run a model is asked of `may_run_model`.
    """

    NONE = 0
    BACKWARD = enum.auto()
    STEP = enum.auto()
    GRADIENTS = enum.auto()  # reads, clips or changes `.grad`
    FORWARD = enum.auto()  # runs a model
    SENSITIVE = enum.auto()  # binary cross-entropy of probabilities: refused by autocast on CUDA
    DOUBLE = enum.auto()  # differentiates by hand, or twice
    SAVES = enum.auto()
    YIELDS = enum.auto()
    LOOKUP = enum.auto()  # hands an object to code that it looks up while it runs, which may do anything to it


_NOTHING: Effect = Effect.NONE
_ANYTHING = ~Effect.NONE
# Methods that are named after a phase of the step, or after gradients.
_PHASE = re.compile(r"(^|_)(before|after|pre|post|on|grads?|gradients?|mask)(_|$)")
_CLIPS = frozenset(
    """torch.nn.utils.clip_grad_norm_ torch.nn.utils.clip_grad_norm torch.nn.utils.clip_grad_value_
    torch.nn.utils.clip_grad_value torch.nn.utils.get_total_norm torch.nn.utils.clip_grads_with_norm_""".split()
)
_SENSITIVE = frozenset({"torch.nn.functional.binary_cross_entropy", "torch.binary_cross_entropy"})
_SENSITIVE_LOSSES = frozenset({"torch.nn.BCELoss"})
_DOUBLE = DIFFERENTIATING | {"torch.autograd.gradcheck", "torch.func.jacfwd"}
_SAVES = frozenset({"torch.save", "torchvision.utils.save_image", "pickle.dump"})
_BOOKKEEPING = frozenset(
    """train eval to cuda cpu xpu float half double bfloat16 type parameters named_parameters buffers named_buffers
    modules named_modules children named_children state_dict load_state_dict zero_grad requires_grad_ apply
    add_module register_buffer register_module register_parameter get_submodule share_memory init_weights initialize
    reset_parameters compile append extend insert items keys values pop size numel load save save_pretrained
    push_to_hub num_parameters print_trainable_parameters get_parameters init_hidden initHidden no_sync
    flatten_parameters extra_repr tie_weights join""".split()
)

# Libraries in which no call runs a model of the script, unless it is handed one.
_SEEN = ("torch.", "torchvision.", "numpy.", "math.", "random.", "time.", "os.", "copy.", "itertools.", "autoaccel")
# Modules of Python whose objects know nothing of models: options, texts, files, times.
_PYTHONS = frozenset(
    """argparse configparser csv datetime getopt glob gzip io json logging optparse os pathlib pickle pprint random re
    shutil string struct tempfile textwrap time zipfile""".split()
)
_PLAIN = frozenset(
    {Kind.NUMBER, Kind.STRING, Kind.BOOL, Kind.NONE, Kind.DEVICE, Kind.DTYPE, Kind.LOADER, Kind.DATASET, Kind.ITERATOR}
    | {Kind.OPTIMIZER, Kind.SCHEDULER, Kind.FUNCTION, Kind.CLASS, Kind.ARRAY}
)
_HOLDERS = frozenset({Kind.OBJECT, Kind.MODULE, Kind.OPTIMIZER, Kind.PARAMETER})
_FORWARDS = frozenset(
    "forward encode decode sample generate predict compute_loss loss training_step reconstruct embed score".split()
)


@once
def calls_in(script: Script, scope: ast.AST) -> tuple[ast.Call, ...]:
    """The calls of a function's (or the module's) own body, in source order."""
    return tuple(sorted(script.in_scope(scope, ast.Call), key=lambda call: (call.lineno, call.col_offset)))


@fixpoint(Effect.NONE, _ANYTHING)
def effects(script: Script, node: ast.AST) -> Effect:
    """What a statement, expression or function does; bodies of functions defined inside it do not count."""
    found = Effect.NONE
    pending: list[ast.AST] = list(node.body) if isinstance(node, ast.FunctionDef) else [node]
    while pending:
        part = pending.pop()
        match part:
            case ast.stmt() if part is not node:
                if not isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                    found = _both(found, effects(script, part))
                continue
            case ast.Lambda():
                continue
            case ast.Call():
                found = _both(found, call_effects(script, part))
            case ast.Attribute() if reads_gradient(script, part):
                found |= Effect.GRADIENTS
            case ast.Yield() | ast.YieldFrom():
                found |= Effect.YIELDS
        if part is not node or not isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            pending.extend(children(part))
    return found


@fixpoint(Effect.NONE, _ANYTHING)
def call_effects(script: Script, call: ast.Call) -> Effect:
    """What one call does, its arguments aside."""
    found = Effect.NONE
    qualified = script.qualname(call.func)
    if is_backward(script, call):
        found |= Effect.BACKWARD
        if any(keyword.arg == "create_graph" and not is_constant(keyword.value, False) for keyword in call.keywords):
            found |= Effect.DOUBLE
    elif is_optimizer_step(script, call):
        found |= Effect.STEP
    elif calls_model(script, call):
        found |= Effect.FORWARD
    if is_sensitive(script, call):
        found |= Effect.SENSITIVE
    if qualified in _CLIPS or (
        isinstance(call.func, ast.Attribute) and call.func.attr in ("clip_grad_norm_", "clip_grad_norm")
    ):
        found |= Effect.GRADIENTS
    if qualified is None and Effect.STEP not in found and _is_handed_optimizer(script, call):
        found |= Effect.GRADIENTS
    if qualified is None and Effect.GRADIENTS not in found and _is_handed_to_lookup(script, call):
        found |= Effect.LOOKUP
    if qualified in _DOUBLE:
        found |= Effect.DOUBLE
    if qualified in _SAVES:
        found |= Effect.SAVES
    for other, function in script.callees(call):
        inner = effects(other, function)
        if inner is not _NOTHING:
            inner &= ~Effect.YIELDS
            if function.name == "__init__":
                inner &= ~Effect.FORWARD  # a constructor builds modules and may try them out
            found |= inner
    return found


def _both(first: Effect, second: Effect) -> Effect:
    """Both effects. Most are none, and flags are put together in Python."""
    return first if second is _NOTHING else second if first is _NOTHING else first | second


def _is_handed_optimizer(script: Script, call: ast.Call) -> bool:
    """A method of an unknown object that is given an optimizer may clip or mask gradients: a pruning schedule."""
    if not isinstance(call.func, ast.Attribute) or not _PHASE.search(call.func.attr) or script.callees(call):
        return False
    arguments = given_values(call)
    given = any(
        isinstance(each, ast.Name | ast.Attribute) and script.kind(each) is Kind.OPTIMIZER for each in arguments
    )
    return given and not any(
        value.kind in (Kind.SCALER, Kind.SCHEDULER, Kind.MODULE) for value in script.values(call.func.value)
    )


def _is_handed_to_lookup(script: Script, call: ast.Call) -> bool:
    """Whether a call is of what a computed name, a key or a loop over hooks gives, `getattr(hook, name)(self)`, or of
    an unknown object's method that is named after a phase, and is handed an object that may lead to the model."""
    match call.func:
        case ast.Call(func=ast.Name(id="getattr"), args=[_, name, *_]):
            if isinstance(name, ast.Constant):
                return False
        case ast.Subscript():
            pass
        case ast.Name() as name:
            if not any(each.how == "for" for each in script.definitions(name)):
                return False
        case ast.Attribute(attr=method):
            if not _PHASE.search(method):
                return False
        case _:
            return False
    if script.callees(call) or Kind.UNKNOWN not in script.values(call.func).kinds:
        return False
    return any(
        isinstance(each, ast.Name | ast.Attribute) and not script.values(each).kinds.isdisjoint(_HOLDERS)
        for each in given_values(call)
    )


def is_sensitive(script: Script, call: ast.Call) -> bool:
    """Binary cross-entropy of probabilities, as a function or through a loss object."""
    if script.qualname(call.func) in _SENSITIVE:
        return True
    if isinstance(call.func, ast.Name | ast.Attribute | ast.Subscript | ast.Call):
        return any(
            value.kind is Kind.LOSS_FUNCTION and value.name in _SENSITIVE_LOSSES for value in script.values(call.func)
        )
    return False


def calls_model(script: Script, call: ast.Call) -> bool:
    """A call that runs a model: `model(x)`, `model.encode(x)`; what functions run counts as their effect."""
    kinds = script.values(call.func).kinds
    if Kind.MODULE in kinds and Kind.CLASS not in kinds:
        return True
    function = call.func
    if kinds == {Kind.UNKNOWN} and call.args and script.qualname(function) is None:
        own = function.attr if isinstance(function, ast.Attribute) else None
        if own is None or own in _FORWARDS or _MODEL.search(own):
            return _called_model(function) and not _generates_data(script, call)
    if not isinstance(function, ast.Attribute) or function.attr.startswith("_") or function.attr in _BOOKKEEPING:
        return False
    if script.qualname(function) is not None:
        return False
    if script.values(function.value).kinds != {Kind.MODULE}:
        return False
    if script.callees(call):  # what it does there is what counts
        return function.attr in _FORWARDS
    return not function.attr.startswith(("set_", "load_", "save_", "get_", "freeze", "configure_", "print", "make_"))


def may_run_model(script: Script, call: ast.Call) -> bool:
    """Whether a call runs a model, or comes to one of code that is not seen and that may: of an object that is not
    known, with something to compute on, or with a model among its arguments."""
    if Effect.FORWARD in call_effects(script, call):
        return True
    pending, seen = [(script, call)], {call}
    for other, each in pending:
        if _may_be_forward(other, each):
            return True
        for file, function in other.callees(each):
            for inner in calls_in(file, function) if function.name != "__init__" else ():
                if inner not in seen:
                    seen.add(inner)
                    pending.append((file, inner))
    return False


def _may_be_forward(script: Script, call: ast.Call) -> bool:
    function = call.func
    arguments = given_values(call)
    qualified = script.qualname(function)
    if script.callees(call) or (qualified or "").startswith(_SEEN):
        return False
    if isinstance(function, ast.Name) and function.id in BUILTINS and not script.definitions(function):
        return False
    if isinstance(function, ast.Attribute) and function.attr in _BOOKKEEPING | METHODS | STORING:
        return False
    if any(isinstance(each, ast.Name | ast.Attribute) and script.kind(each) is Kind.MODULE for each in arguments):
        return script.kind(function) not in (Kind.CLASS, Kind.OPTIMIZER)
    if not any(script.kind(each) not in _PLAIN for each in arguments):
        return False
    if script.values(function).kinds - {Kind.EXTERNAL} != {Kind.UNKNOWN}:
        return qualified is not None and _has_parameters(script, function)
    if qualified is not None:
        return _has_parameters(script, function)
    if _is_made(script, function) or _has_parameters(script, function):
        return True
    if not isinstance(function, ast.Attribute) or any(each.cls is not None for each in script.values(function.value)):
        return False
    receiver = function.value
    unknown = script.values(receiver).kinds == {Kind.UNKNOWN}
    return unknown and (_is_made(script, receiver) or _has_parameters(script, receiver))


def _is_made(script: Script, function: ast.expr) -> bool:
    """Whether a callable is an object that some call has made, or that is handed in, not a function by its name."""
    if isinstance(function, ast.Name):
        return any(
            each.how in ("param", "for", "with") or isinstance(each.value, ast.Call | ast.Subscript | ast.Attribute)
            for each in script.definitions(function)
            if not (each.how == "assign" and not each.path and _is_pythons(script, each.value))
        )
    if isinstance(function, ast.Attribute):
        for owner in script.values(function.value):
            if owner.cls is not None:
                bindings = class_info(owner.cls).attributes.get(function.attr, ())
                return any(isinstance(value, ast.expr) and not isinstance(value, ast.Constant) for value, _ in bindings)
    return False


def _is_pythons(script: Script, made: ast.expr | None) -> bool:
    """Whether an object comes from a module of Python: `parser = argparse.ArgumentParser()`."""
    if not isinstance(made, ast.Call) or script.is_project_name(made.func):
        return False
    return (script.qualname(made.func) or "").partition(".")[0] in _PYTHONS


def _has_parameters(script: Script, expression: ast.expr) -> bool:
    """Whether a script asks something for its parameters, or switches it between its modes."""
    text = script.source(expression)
    return any(
        each.attr in ("parameters", "named_parameters", "train", "eval", "state_dict", "zero_grad")
        and script.source(each.value) == text
        for each in script.find(ast.Attribute)
    )


_MODEL = re.compile(
    r"(^|_)(model|net|network|encoder|decoder|generator|discriminator|classifier|backbone|transformer|autoencoder|critic|student|teacher"
    r"|gen|dis|disc|enc|dec|unet|vae|gpt|bert|resnet|vgg)(_?[a-z]?\d*|_.*|[A-Z]\w{0,3})$|^net[A-Z]|^[A-Z]{1,2}(_[A-Z]+)?$"
)


def _called_model(function: ast.expr) -> bool:
    """A callable of unknown origin that the script calls a model, or a part of one: `net(x)`, `self.model.gen(x)`."""
    while True:
        match function:
            case ast.Name(id=name):
                return _MODEL.search(name) is not None
            case ast.Attribute(value=value, attr=name):
                if _MODEL.search(name):
                    return True
                function = value
            case _:
                return False


def _generates_data(script: Script, call: ast.Call) -> bool:
    """Whether a thing called a generator is one of Python's: what it gives is iterated, `for batch in generator(n)`."""
    name = last_name(call.func).lower()
    return "gen" in name and any(_is_iterated(script, each) for each in (call, *_names_given(script, call)))


def _names_given(script: Script, call: ast.Call) -> Iterator[ast.Name]:
    """The reads of the names that a call's result is given, whole."""
    parent = script.parent(call)
    for target in parent.targets if isinstance(parent, ast.Assign) else ():
        for definition in script.definitions(target) if isinstance(target, ast.Name) else ():
            yield from script.uses(definition)


def _is_iterated(script: Script, expression: ast.expr) -> bool:
    match script.parent(expression):
        case ast.For(iter=iterated) | ast.comprehension(iter=iterated):
            return iterated is expression
        case ast.Call(func=ast.Name(id="enumerate" | "next" | "iter" | "zip" | "tqdm")) as around:
            return around.func is not expression
        case _:
            return False


def reads_gradient(script: Script, node: ast.Attribute) -> bool:
    """`p.grad` where its size matters; emptying it, zeroing it and asking whether there is one do not count."""
    if node.attr != "grad" or script.qualname(node) is not None:
        return False
    parent = script.parent(node)
    if not isinstance(node.ctx, ast.Load):
        return isinstance(parent, ast.AugAssign)  # `p.grad += noise`
    if isinstance(parent, ast.Compare) and all(is_constant(each, None) for each in parent.comparators):
        return False
    if isinstance(parent, ast.If | ast.IfExp | ast.While | ast.BoolOp | ast.UnaryOp):
        return False
    while isinstance(parent, ast.Attribute) and parent.attr in ("data", "zero_", "detach_", "detach", "requires_grad_"):
        if parent.attr in ("zero_", "detach_", "requires_grad_"):
            return False
        after = script.parent(parent)
        parent = script.parent(after) if isinstance(after, ast.Call) and parent.attr == "detach" else after
    return True


def gradient_reads(script: Script, node: ast.AST) -> Iterator[ast.AST]:
    """The places within `node` that read or clip gradients, calls of project functions that do so among them."""
    for part in script.in_scope(node, ast.AST):
        if isinstance(part, ast.Attribute) and reads_gradient(script, part):
            yield part
        elif isinstance(part, ast.Call) and Effect.GRADIENTS in call_effects(script, part):
            yield part
