"""What a step does on the host, in its own statements and in all functions that they enter.

When a graph is replayed none of it is done, so there must be nothing.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from pathlib import Path
from types import UnionType

from autoaccel.analysis.callables import called_name, lambdas_of
from autoaccel.analysis.classes import external_lineage
from autoaccel.analysis.name_lookups import is_own_method
from autoaccel.analysis.script import Script
from autoaccel.dataflow.abstract_values import Kind, Value
from autoaccel.dataflow.call_arguments import given_as
from autoaccel.dataflow.definitions import Definition
from autoaccel.dataflow.syntax_index import breadth_first
from autoaccel.library_models import library_members
from autoaccel.library_models.python_names import BUILTINS, CONTAINER_CHANGES, CONTAINERS
from autoaccel.library_models.tensor_operations import DRAWING_IN_PLACE, FILLING, METHODS
from autoaccel.library_models.waiting_operations import CHECKED_ON_THE_HOST, SIZED_BY_OTHERS
from autoaccel.pytorch import host_reads
from autoaccel.pytorch.gradients import is_backward, is_optimizer_step
from autoaccel.pytorch.introspection import attributes_listed
from autoaccel.pytorch.monkeypatching import intercepted, patches
from autoaccel.pytorch.reachable_code import reachable_code
from autoaccel_codemods.captured_step.problems import DeclinedError
from autoaccel_codemods.captured_step.region import StepRegion, sets_grad, sets_mode

_READS = frozenset("item tolist numpy cpu data_ptr record_stream".split())
_MOVES = frozenset("to cuda xpu pin_memory new_tensor".split())
_OF_STEP = frozenset("zero_grad scale unscale_ update".split())
_SILENT = CONTAINERS | frozenset(
    """len range sum min max abs int float bool isinstance issubclass hasattr getattr super type map filter any all
    round slice divmod pow callable ValueError TypeError RuntimeError NotImplementedError AssertionError AttributeError
    KeyError IndexError""".split()
)
_OF_MAPPINGS = frozenset("items keys values get".split())
_OF_RUNTIME = ("autocast", "grad_scaler")
_SILENT_MODULES = ("torch.", "math.", "typing.", "einops.", "functools.", "itertools.", "collections.")
_HOOKS = (
    *("register_hook", "register_post_accumulate_grad_hook", "register_step_pre_hook", "register_step_post_hook"),
    *("register_optimizer_step_pre_hook", "register_optimizer_step_post_hook"),
)
_SHARING = ("share_memory", "share_memory_")
_COUNTED = "cache_info"  # of functions with `lru_cache`
_LOUD = frozenset(
    f"torch.{name}"
    for name in """save load tensor as_tensor from_numpy manual_seed seed set_rng_state
    rand randn randint randperm normal cuda.synchronize set_grad_enabled random.manual_seed random.seed
    random.set_rng_state cuda.manual_seed cuda.manual_seed_all cuda.seed cuda.seed_all cuda.set_rng_state
    cuda.random.manual_seed cuda.random.manual_seed_all
    nn.utils.rnn.pack_padded_sequence nn.utils.rnn.pack_sequence""".split()
)
_DRAWS = frozenset(f"torch.{name}" for name in ("rand", "randn", "randint"))
_CONTAINER = ast.List | ast.Dict | ast.ListComp | ast.Set
_NEW_CONTAINERS = frozenset({"builtins.list", "builtins.dict", "builtins.set"})
_WRITING = frozenset("index_copy index_fill scatter_reduce fill_diagonal".split())
_WAITS = "which reads values on the host"
_CTC = "torch.nn.CTCLoss"
_KINDS = frozenset({Kind.MODULE, Kind.LOSS_FUNCTION, Kind.TENSOR, Kind.BATCH, Kind.PARAMETER, Kind.NONE, Kind.EXTERNAL})
_OPERATIONS = re.compile(r"torch\.(nn\.functional\.[a-z]\w*|relu|sigmoid|tanh|softmax)")


def refuse(script: Script, region: StepRegion) -> None:
    """Raises `DeclinedError` where something is done, or may be."""
    for other in dict.fromkeys((script, *script.project.related(script))):
        if name := next((each for each in _HOOKS if _is_mentioned(other, each)), None):
            raise DeclinedError(f"`{name}` may run other code in it")
        if name := next((each for each in ("forward", "__call__") if other.syntax_index.stored(each)), None):
            raise DeclinedError(f"`{name}` is assigned, to code that is not looked at")
        if name := next((each for each in _SHARING if _is_mentioned(other, each)), None):
            raise DeclinedError(f"`{name}` lets other processes train the model at the same time")
        if other.syntax_index.mentions(_COUNTED):
            raise DeclinedError(f"`{_COUNTED}` tells how often a function was called")
        if (patched := next(iter(patches(other)), None)) is not None:
            raise DeclinedError(f"`{other.source(patched)}` puts something else in the place of what torch has")
    if (seen := intercepted(script) or attributes_listed(script, Kind.OPTIMIZER)) is not None:
        raise DeclinedError(seen)
    numbers = [each.value for each in region.numbers]
    for other, code in reachable_code(script, region.statements, building=False):
        own = region.statements if any(code is each for each in region.statements) else ()
        body = code.body if isinstance(code, ast.FunctionDef) else [code]
        for part in (part for statement in body for part in breadth_first(statement)):
            if own and (part in region.moves or part in numbers or _chooses_grad_mode(other, part, region)):
                continue
            if said := _said(other, part, own=own):
                line = getattr(part, "lineno", code_line(code))
                raise DeclinedError(_located(code, line, said, None if other is script else other.path))


def _is_mentioned(script: Script, name: str) -> bool:
    """Whether a file names something so, other than a method that the project defines."""
    return any(not is_own_method(script, each) for each in script.syntax_index.mentions(name))


def _located(code: ast.AST, line: int, said: str, path: Path | None) -> str:
    if not isinstance(code, ast.FunctionDef):
        return f"line {line} {said}"
    return (
        f"line {line} of `{code.name}` {said}" if path is None else f"`{code.name}` {said} ({path.name}, line {line})"
    )


def _chooses_grad_mode(script: Script, part: ast.AST, region: StepRegion) -> bool:
    """`with torch.set_grad_enabled(train)`, in a step that is captured only where it trains."""
    match part:
        case ast.With(items=[ast.withitem(context_expr=given)]) | (ast.Call() as given):
            return region.phase is not None and sets_grad(script, given, region.phase)
        case _:
            return False


def code_line(code: ast.AST) -> int:
    return int(getattr(code, "lineno", 0))


def _said(script: Script, part: ast.AST, *, own: Sequence[ast.stmt]) -> str | None:
    """What a piece of code does on the host, or None. `own` are the statements of the step, if it is a part of them."""
    if (asked := host_reads.read_by(script, part)) is not None:
        return f"asks for the value of `{script.source(asked)}`"
    match part:
        case ast.Subscript(ctx=ast.Load()) if host_reads.masks(script, part):
            return f"picks elements by a mask, `{script.source(part)}`, so its shapes depend on values"
        case ast.Subscript(ctx=ast.Store()) if host_reads.masks(script, part) and not _is_filled(script, part):
            return f"picks elements by a mask, `{script.source(part)}`, so its shapes depend on values"
        case ast.Global() | ast.Nonlocal():
            return "changes a variable of others"
        case ast.Yield() | ast.YieldFrom() | ast.Await():
            return "hands over to other code"
        case ast.Import() | ast.ImportFrom():
            return "imports something"
        case ast.Attribute(ctx=ast.Store() | ast.Del()):
            return f"keeps `{script.source(part)}`"
        case ast.Subscript(ctx=ast.Store() | ast.Del(), value=owner) if not _is_tensor(script, owner):
            return f"writes into `{script.source(owner)}`"
        case ast.With() | ast.AsyncWith():
            items = [each.context_expr for each in part.items]
            return None if all(_is_autocast(script, each) for each in items) else "opens a context"
        case ast.AugAssign(target=ast.Name() as target) if not own and _may_fill(script, part, target):
            return f"adds to `{target.id}`, which may be a container of others"
        case ast.Call():
            return _call(script, part, own=own)
        case _:
            return None


def _is_formula(script: Script, expression: ast.expr) -> bool:
    """Whether an expression only calls functions of torch and methods of tensors: what its names are, no call says."""
    parts = [part for part in breadth_first(expression) if isinstance(part, ast.expr)]
    calls = [part.func for part in parts if isinstance(part, ast.Call)]
    known = all(
        (script.qualname(each) or "").startswith("torch.")
        or (isinstance(each, ast.Attribute) and script.qualname(each) is None and each.attr in METHODS)
        for each in calls
    )
    return known and all(map(_is_arithmetic, parts))


def _is_arithmetic(part: ast.expr) -> bool:
    match part:
        case ast.Constant(value=value):
            return not isinstance(value, str | bytes)
        case ast.UnaryOp(op=operator):
            return not isinstance(operator, ast.Not)
        case _:
            return isinstance(part, ast.BinOp | ast.Name | ast.Attribute | ast.Call | ast.Tuple)


def _call(script: Script, call: ast.Call, *, own: Sequence[ast.stmt]) -> str | None:
    text = script.source(call.func)
    qualified = script.qualname(call.func)
    if script.runtime_name(call.func) is not None:
        return None if script.runtime_name(call.func) in _OF_RUNTIME else f"calls `{text}`"
    if is_backward(script, call) or is_optimizer_step(script, call):
        return None if own else f"calls `{text}`"
    if qualified is not None and not script.is_project_name(call.func):
        if _waits(script, call):
            return f"calls `{text}`, {_WAITS}"
        silent = qualified.startswith(_SILENT_MODULES) and qualified not in _LOUD
        silent = silent or (qualified in _DRAWS and _is_drawn_by_the_device(call))
        return None if silent else f"calls `{text}`"
    match call.func:
        case ast.Name(id=name) if name in BUILTINS and not script.definitions(call.func):
            return None if name in _SILENT else f"calls `{name}`"
        case ast.Attribute(value=ast.Constant(value=str())) if host_reads.is_of_an_error(script, call):
            return None
        case ast.Attribute(value=owner, attr=name):
            if sets_mode(script, call):
                return f"calls `{text}`, which changes how a model computes"
            if said := _method(script, call, owner, name, own=own):
                return said
            if name in CONTAINER_CHANGES and _is_local(script, owner, own):
                return None
            if name in _OF_MAPPINGS and script.kind(owner) in (Kind.MAPPING, Kind.MODULE) and not script.callees(call):
                return None
            if name in DRAWING_IN_PLACE and script.kind(owner) is Kind.TENSOR:
                return f"draws random numbers{' on the host' if _is_made_on_host(script, owner) else ''} by `.{name}()`"
            if name.endswith("_") and name[:-1] in METHODS | _WRITING and _is_own_tensor(script, owner, own):
                return None
            if name in METHODS | _OF_STEP | {"size", "parameters", "item"} or name.startswith("new_"):
                return None
    values = script.values(call.func)
    seen = all(map(_is_in_sight, values))
    if any(value.name == _CTC for value in values):
        return f"calls `{text}`, {_WAITS}"
    if _is_forward_of_layer(script, call):
        return None
    if seen and (script.callees(call) or values.kinds <= _KINDS):
        return None
    lambdas = lambdas_of(script, call.func)
    if lambdas and all(_is_formula(file, made.body) for file, made in lambdas):
        return None
    return f"calls `{text}`, and what that does is not in sight"


def _is_forward_of_layer(script: Script, call: ast.Call) -> bool:
    """`super().forward(x)` in a class that derives from a layer of torch's: `class LayerNorm2d(nn.LayerNorm)`."""
    match call.func:
        case ast.Attribute(value=ast.Call(func=ast.Name(id="super"), args=[]), attr="forward"):
            cls = script.enclosing_class(call)
            if cls is None or script.callees(call):
                return False
            bases = list(external_lineage(script.class_ref(cls)))
            return bool(bases) and all(each.startswith("torch.nn.") and each != _CTC for each in bases)
        case _:
            return False


def _waits(script: Script, call: ast.Call) -> bool:
    return host_reads.is_shaped_by_values(script, call) or host_reads.is_checked_on_the_host(script, call)


def _is_filled(script: Script, elements: ast.Subscript) -> bool:
    """`x[mask] = 0`, for which nobody has to know how many they are."""
    match script.parent(elements):
        case ast.Assign(value=value):
            return script.kind(value) is Kind.NUMBER
        case _:
            return False


def _is_in_sight(value: Value) -> bool:
    """Whether it is known what a call of a value does, or there is code to look at: of a library, operations alone, and
    no module of which all that is known is that it is used like one, `def train(model): model.train()`."""
    match value.kind:
        case Kind.UNKNOWN:
            return False
        case Kind.EXTERNAL:
            name = value.name or ""
            if library_members.is_module(name):
                return True  # which cannot be called: one of all names that `getattr(losses, name)` may be
            return bool(_OPERATIONS.fullmatch(name)) and name not in CHECKED_ON_THE_HOST | SIZED_BY_OTHERS
        case Kind.MODULE:
            return value.cls is not None or not isinstance(value.node, ast.arg | ast.Attribute)
        case _:
            return True


def _is_made_on_host(script: Script, owner: ast.expr) -> bool:
    """Whether a tensor is made where nothing says: `torch.FloatTensor(shape)`, `torch.empty(3)`."""
    if any("set_default_" in text for text in script.project.related_texts(script)):
        return False
    made = [(value.node, (value.name or "").removeprefix("torch.")) for value in script.values(owner)]
    return all(
        isinstance(node, ast.Call)
        and (name in FILLING or ("." not in name and name.endswith("Tensor")))
        and given_as(node, "device") is None
        for node, name in made
    )


def _is_own_tensor(script: Script, owner: ast.expr, own: Sequence[ast.stmt]) -> bool:
    """Whether the same function, or the step itself, computes the tensor whose method writes to it."""
    if script.kind(owner) is not Kind.TENSOR:
        return False
    return isinstance(owner, ast.Call) or _is_local(script, owner, own, ast.Call)


def _is_drawn_by_the_device(call: ast.Call) -> bool:
    """Whether random numbers are the device's, as those of dropout are, by its own generator: `device=device`."""
    given = {each.arg: each.value for each in call.keywords}
    if "device" not in given or not given.keys().isdisjoint({"generator", "out", None}):
        return False
    texts = (part.value for part in ast.walk(given["device"]) if isinstance(part, ast.Constant))
    return all(isinstance(each, str) and not each.startswith("cpu") for each in texts)


def _method(script: Script, call: ast.Call, owner: ast.expr, name: str, *, own: Sequence[ast.stmt]) -> str | None:
    if name in _READS or _waits(script, call):
        return f"reads values on the host by `.{name}()`"
    if name in _MOVES and not _is_cast(script, call, name):
        return "moves data between the host and the device"
    if name == "sort" and not isinstance(script.parent(call), ast.Expr):
        return None  # a tensor's: that of a list gives nothing
    if name in CONTAINER_CHANGES and not script.callees(call) and script.kind(owner) is not Kind.SCALER:
        return None if _is_local(script, owner, own) else f"changes `{script.source(owner)}`"
    return None


def _is_cast(script: Script, call: ast.Call, name: str) -> bool:
    """`x.to(torch.float32)`, `x.to(y.dtype)`"""
    if name != "to" or len(call.args) != 1 or call.keywords:
        return False
    target = call.args[0]
    return script.kind(target) is Kind.DTYPE or (isinstance(target, ast.Attribute) and target.attr == "dtype")


def _is_local(
    script: Script, owner: ast.expr, own: Sequence[ast.stmt] = (), made: type[ast.expr] | UnionType = _CONTAINER
) -> bool:
    """Whether a container was made by the same function, or by the step itself: nobody sees it change."""
    if not isinstance(owner, ast.Name):
        return False
    found = script.definitions(owner)
    return bool(found) and all(
        _is_made_here(script, each, owner, made) and (not own or each.node in own) for each in found
    )


def _is_made_here(
    script: Script, definition: Definition, name: ast.Name, made: type[ast.expr] | UnionType = _CONTAINER
) -> bool:
    """Whether a definition of a name binds a new container, in the same function."""
    value = definition.whole
    if value is None or definition.scope.node is not (script.function(name) or script.tree):
        return False
    new = isinstance(value, ast.Call) and called_name(script, value.func) in _NEW_CONTAINERS
    return new or isinstance(value, made)


def _may_fill(script: Script, addition: ast.AugAssign, target: ast.Name) -> bool:
    """`seen += [x]`, where the list may be that of others."""
    filled = isinstance(addition.value, ast.List | ast.ListComp | ast.Tuple | ast.Set | ast.Dict)
    if not filled and script.values(target).kinds.isdisjoint({Kind.SEQUENCE, Kind.MAPPING, Kind.OBJECT}):
        return False
    found = script.reaching_definitions.before_addition(target)
    return not found or not all(_is_made_here(script, each, target) for each in found if each.node is not addition)


def _is_tensor(script: Script, owner: ast.expr) -> bool:
    while isinstance(owner, ast.Subscript):
        owner = owner.value
    return script.kind(owner) in (Kind.TENSOR, Kind.BATCH) or _is_local(script, owner)


def _is_autocast(script: Script, context: ast.expr) -> bool:
    if not isinstance(context, ast.Call):
        return False
    name = script.qualname(context.func) or ""
    silent = ("torch.autocast", "torch.amp.autocast", "torch.no_grad", "torch.enable_grad")
    return (
        name in silent or name.startswith("torch.cuda.amp.autocast") or script.runtime_name(context.func) == "autocast"
    )
