"""Low precision through calls: into functions of the project and out of them, libraries, builtins, unseen methods."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from autoaccel.dataflow.abstract_values import Kind
from autoaccel.dataflow.call_arguments import given_as, given_values, positional, unpacks
from autoaccel.dataflow.syntax_index import breadth_first, is_constant
from autoaccel.library_models.python_names import BUILTINS
from autoaccel.library_models.tensor_operations import (
    CASTING_TO_OUT,
    ENDS,
    LINEAR_ALGEBRA,
    LOSSES,
    METHODS,
    NO_LOW_PRECISION_KERNELS,
    NO_TENSOR_BUILTINS,
    OF_PROBABILITIES,
    PRODUCTS,
    SAME_DTYPE_NON_PRODUCTS,
    STORING,
    WITH_INDICES,
    WRITING,
)
from autoaccel.pytorch import implicit_calls
from autoaccel.pytorch.reachable_code import reachable_code, tabled_functions
from autoaccel.pytorch.step_effects import Effect, call_effects, is_sensitive
from autoaccel_codemods.autocast import lost_digits, skip_reasons, storage_flow, unsafe_operations
from autoaccel_codemods.autocast.operation_content import is_pair

if TYPE_CHECKING:
    from autoaccel.analysis.script import Script
    from autoaccel_codemods.autocast.low_precision_flow import Low, Search

TORCH = ("torch.", "torchvision.", "einops.")
_PASSING = ("autoaccel", "copy.", "functools.partial", "itertools.", "collections.", "typing.")
_METRICS = ("torchmetrics.",)


def argument(search: Search, low: Low, call: ast.Call) -> None:
    """What is low is handed to a call."""
    script, auto = low.script, low.auto
    function = call.func
    qualified = search.library(script, call)
    if qualified is not None:
        _given_library(search, low, call, qualified)
        return
    if isinstance(function, ast.Name) and function.id in BUILTINS and not script.definitions(function):
        _given_builtin(search, low, call, function.id)
        return
    definitions = script.definitions(function) if isinstance(function, ast.Name) else ()
    if any(isinstance(each.value, ast.Lambda) for each in definitions):
        if not all(_enter_lambda(search, low, call, each.value) for each in definitions):
            search.sink(low, skip_reasons.NOT_SEEN)
        return
    values = script.values(function)
    if is_sensitive(script, call) or any(value.kind is Kind.LOSS_FUNCTION for value in values):
        if not auto:
            search.sink(low, skip_reasons.LOSS_OUTSIDE)
            return
        if all(value.cls is None and value.kind is Kind.LOSS_FUNCTION for value in values):
            return
    if not auto and Effect.SENSITIVE in call_effects(script, call):
        search.sink(low, skip_reasons.BCE_OF_STRUCTURE)
        return
    names = {value.name for value in values}
    if "torch.nn.Bilinear" in names or ("torch.nn.EmbeddingBag" in names and low.node not in call.args[:2]):
        search.sink(low, skip_reasons.ONE_PRECISION.format(name=low.script.source(function)))  # with its weights
        return
    module = Effect.FORWARD in call_effects(script, call) and script.kind(function) is not Kind.FUNCTION
    if module and not auto:
        search.sink(low, skip_reasons.MODEL_OUTSIDE)
        return
    callees = search.callees(script, call)
    for other, callee in callees:
        _enter(search, low, call, other, callee)
    if not callees and not isinstance(function, ast.Attribute):
        for other, callee in tabled_functions(script):
            _enter(search, low, call, other, callee)
    if callees and Kind.UNKNOWN not in values.kinds:
        return
    if isinstance(function, ast.Attribute) and not module:
        _given_method(search, low, call, function)
    elif auto or any(value.kind is Kind.CLASS for value in values):
        search.pass_on(low, call)
    else:
        search.sink(low, skip_reasons.NOT_SEEN)


def _enter_lambda(search: Search, low: Low, call: ast.Call, function: ast.expr | None) -> bool:
    """The parameter of a lambda with a name that takes an argument; what it computes flows from its body. False where
    it is not plain which that is."""
    if not isinstance(function, ast.Lambda) or unpacks(call):
        return False
    code = [(low.script, function.body), *reachable_code(low.script, [function.body])]
    if any(True for look in (unsafe_operations, lost_digits) for _ in look.in_code(code, low.script, call)):
        return False
    names = positional(function)
    by_name = next((each.arg for each in call.keywords if each.value is low.node), None)
    by_place = (names[index] for index, each in enumerate(call.args) if each is low.node and index < len(names))
    scope = low.script.reaching_definitions.scopes.get(function)
    taken = by_name or next(by_place, None)
    if scope is None or taken is None:
        return False
    for definition in scope.definitions.get(taken, ()):
        for use in low.script.uses(definition):
            search.mark(low.script, use, low.part, low, auto=low.auto, free=low.free)
    return True


def _given_library(search: Search, low: Low, call: ast.Call, qualified: str) -> None:
    last = qualified.rsplit(".", 1)[-1]
    if last in ("numpy", "__array__"):
        search.sink(low, skip_reasons.HANDED_TO_NUMPY)
    elif qualified in ("torch.nn.Parameter", "torch.nn.Buffer"):
        search.sink(low, skip_reasons.MADE_A_PARAMETER, early=True)
    elif qualified == "torch.save" or (qualified.startswith("torch.utils.") and "checkpoint" not in qualified):
        search.sink(low, skip_reasons.SAVED)
    elif qualified.startswith(TORCH):
        algebra = qualified.startswith(("torch.linalg.", "torch.fft.")) and last not in ("norm", "vector_norm")
        if last in NO_LOW_PRECISION_KERNELS or algebra:
            given_refusing(search, low, call, last)
        elif (reason := refused(low, call, last)) is not None:
            search.sink(low, reason)
        elif last in PRODUCTS and not low.auto:
            search.sink(low, skip_reasons.PRODUCT_OUTSIDE)
        elif last in SAME_DTYPE_NON_PRODUCTS and not low.auto:
            search.sink(low, skip_reasons.ONE_PRECISION.format(name=last))
        elif last in LOSSES:
            if not low.auto:
                search.sink(low, skip_reasons.LOSS_OUTSIDE)
        elif last in WRITING:
            search.sink(low, skip_reasons.ONE_PRECISION_BUFFER.format(name=last))
        elif last in WITH_INDICES and is_pair(low.script, call):
            search.pass_on(low, call, ("at", 0))
        elif last not in ENDS and last != "manual_seed":
            search.pass_on(low, call)
    elif qualified.startswith(_PASSING):
        search.pass_on(low, call, low.part)
    elif not qualified.startswith(_METRICS):
        search.sink(low, skip_reasons.HANDED_TO_NUMPY)


def given_refusing(search: Search, low: Low, call: ast.Call, name: str) -> None:
    """What is low is handed to what has no kernels for it: cast, if what is made of it can do without more digits."""
    if name in LINEAR_ALGEBRA and not _is_no_matrix(low, call, name) and search.is_computed(low):
        search.problem(low, skip_reasons.COMPUTED_MATRIX.format(name=name))
    else:
        search.sink(low, skip_reasons.NO_KERNEL.format(name=name))


def _is_no_matrix(low: Low, call: ast.Call, name: str) -> bool:
    """Whether a distribution is given its mean, or a root of its covariance, which stays one when it is rounded."""
    if name not in ("MultivariateNormal", "Wishart"):
        return False
    named = [given_as(call, each) for each in ("loc", "df", "scale_tril")]
    return any(low.node is each for each in (*named, *call.args[:1], *call.args[3:4]))


def refused(low: Low, call: ast.Call, name: str) -> str | None:
    """Why a function or method of torch's is not given low precision, as it goes by what else it is given."""
    script = low.script
    nuclear = name == "norm" and any(getattr(each, "value", None) == "nuc" for each in given_values(call))
    antialias = given_as(call, "antialias")
    if nuclear or (name == "interpolate" and antialias is not None and not is_constant(antialias, False)):
        return skip_reasons.NO_KERNEL.format(name=name)
    if name in OF_PROBABILITIES and low.node is not given_as(call, "logits") and low.node not in call.args[1:]:
        return skip_reasons.PROBABILITIES.format(name=name)
    written = given_as(call, "out")
    if written is not None and name not in CASTING_TO_OUT and script.kind(written) is not Kind.NONE:
        return skip_reasons.ONE_PRECISION.format(name=name)
    return None


def _given_builtin(search: Search, low: Low, call: ast.Call, name: str) -> None:
    if name == "isinstance" and search.is_of_step(low) and unsafe_operations.is_float32(low.script, call):
        search.sink(low, skip_reasons.INSISTS)
    if name in NO_TENSOR_BUILTINS:
        return
    arguments = given_values(call)
    match call.args:
        case [ast.Lambda() as function, *iterables] if name == "map" and low.node in iterables:
            search.fed_by_others(low.script, function, low)  # what it makes of that is the result
            return
    if any(each is not low.node and _is_unseen(low, each) for each in arguments):
        search.sink(low, skip_reasons.NOT_FOLLOWED)
        return
    match name:
        case "zip":
            positions = [index for index, each in enumerate(call.args) if each is low.node]
            starred = any(isinstance(each, ast.Starred) for each in call.args)
            search.pass_on(low, call, ("each", positions[0]) if positions and not starred else None)
        case "enumerate":
            search.pass_on(low, call, ("each", 1))
        case "setattr":
            search.sink(low, skip_reasons.NOT_FOLLOWED)
        case _:
            search.pass_on(low, call)


def _is_unseen(low: Low, function: ast.expr) -> bool:
    """Whether something that a builtin calls with its values (`map`, `sorted(key=…)`) may need float32."""
    script = low.script
    if isinstance(function, ast.Lambda):
        return any(isinstance(part, ast.Call) for part in breadth_first(function.body))
    if script.kind(function) is Kind.MODULE:
        return not low.auto
    return any(isinstance(value.node, ast.FunctionDef) for value in script.values(function))


def _given_method(search: Search, low: Low, call: ast.Call, function: ast.Attribute) -> None:
    script, auto = low.script, low.auto
    name, receiver = function.attr, function.value
    if name == "__setitem__" and call.args:
        storage_flow.put(search, low, receiver, call.args[0])
        return
    if name in STORING and (
        name not in ("add", "put", "push", "update") or storage_flow.is_container(script, receiver)
    ):
        part = low.part if name in ("extend", "update") else None
        if not storage_flow.store(search, low._replace(part=part), receiver, set()):
            search.sink(low, skip_reasons.IN_CONTAINER)
        elif name == "setdefault":
            search.kept.append((low._replace(part=None), script, call))
            search.pass_on(low, call)
        return
    tensor = script.kind(receiver) in (Kind.TENSOR, Kind.BATCH, Kind.PARAMETER)
    writes = name in WRITING or (name == "put" and tensor)
    if writes and _is_index(low, call, name):
        return
    if writes:
        reason = skip_reasons.ONE_PRECISION_BUFFER.format(name=name)
        search.deferred.append((low._replace(auto=auto), receiver, reason))
    elif name in PRODUCTS and not auto:
        search.sink(low, skip_reasons.PRODUCT_OUTSIDE)
    elif name in SAME_DTYPE_NON_PRODUCTS and not auto:
        search.sink(low, skip_reasons.ONE_PRECISION.format(name=name))
    elif name in METHODS or tensor:
        if (name not in ENDS and not name.endswith("_as")) or name == "type_as":
            if not (name.endswith("_") and isinstance(script.parent(call), ast.Expr)):
                search.pass_on(low, call)
    elif auto and not isinstance(script.parent(call), ast.Expr):
        search.pass_on(low, call)
    else:
        search.deferred.append((low._replace(auto=False), receiver, skip_reasons.NOT_SEEN))


def _is_index(low: Low, call: ast.Call, name: str) -> bool:
    """Whether an argument says where to write, `x.scatter_(1, index, 1)`, and so is whole numbers whatever it seems."""
    if name.startswith("lerp"):
        return False
    place = 0 if name.startswith(("masked", "index_put", "put")) else 1
    return any(low.node is each for each in (*call.args[place : place + 1], given_as(call, "index")))


def _enter(search: Search, low: Low, call: ast.Call, other: Script, function: ast.FunctionDef) -> None:
    """The parameter that takes an argument; every one where it is not plain which."""
    script = low.script
    arguments = function.args
    names = [each.arg for each in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
    taken = [name for name in names if script.argument(call, function, name, other) is low.node]
    part = low.part
    if not taken:
        taken = [name for name in names if script.argument(call, function, name, other) is None]
        taken += [each.arg for each in (arguments.vararg, arguments.kwarg) if each is not None]
        part = None
    scope = other.reaching_definitions.scopes.get(function)
    for name in taken:
        for definition in scope.definitions.get(name, ()) if scope is not None else ():
            if definition.how == "param":
                for use in other.uses(definition):
                    auto = low.auto if not search.holds_region(other, function) else use in search.region
                    search.mark(other, use, part, low, auto=auto, free=other.function(use) is not function)
    if call not in search.fed:
        search.fed[call] = None
        search.sites.setdefault(function, {})[script, call] = None
        for (returning, _), result in list(search.returning.items()):
            if returning is function:
                _to_site(search, result, script, call)


def returned(search: Search, low: Low) -> None:
    """What is low is returned, to all that call the function."""
    script = low.script
    function = script.function(low.node)
    if not isinstance(function, ast.FunctionDef):
        return
    if search.holds_region(script, function) and not low.auto and search.cast(low, outside=True):
        return  # callers get float32, as before
    if implicit_calls.is_property(function):
        cls = script.enclosing_class(function)
        storage_flow.attribute_holds(search, low, [None if cls is None else script.class_ref(cls)], function.name)
        return
    if implicit_calls.is_protocol(function):
        search.sink(low, skip_reasons.RETURNED)
        return
    callers = script.callers(function)
    if callers.missing is not None and low.free and not low.auto:
        search.sink(low, skip_reasons.RETURNED)
        return
    search.returning[function, low.part] = low
    sites = dict.fromkeys((*callers, *search.sites.get(function, ())))
    for other, call in sites:
        _to_site(search, low, other, call)


def _to_site(search: Search, low: Low, script: Script, call: ast.Call) -> None:
    auto = call in search.region or call in search.reached
    if not low.auto and not low.free and call not in search.fed:
        return
    if low.auto and not auto:
        return
    if not low.auto and not low.free:
        auto = False
    search.mark(script, call, low.part, low, auto=auto, free=low.free or auto)
