"""Whether code may lose the graph that it records: what is computed there must not be needed by a backward pass."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from autoaccel.analysis.call_values import returned
from autoaccel.analysis.callables import called_name, functions_of
from autoaccel.analysis.classes import instance_kind, methods
from autoaccel.analysis.constant_arguments import SpecializedCall, is_left_out
from autoaccel.analysis.script import RUNTIME, Script
from autoaccel.dataflow.abstract_values import Kind, Values
from autoaccel.dataflow.call_arguments import given_values
from autoaccel.dataflow.completeness import Incomplete
from autoaccel.dataflow.syntax_index import last_name
from autoaccel.library_models.graph_operations import (
    ENDING_BUILTINS,
    ENDING_FUNCTIONS,
    ENDING_METHODS,
    FORWARD_HOOKS,
    SHOWING_METHODS,
)
from autoaccel.library_models.python_names import PLAIN_DECORATORS
from autoaccel.library_models.tensor_operations import STORING
from autoaccel.library_models.tensor_views import VIEW_ATTRIBUTES
from autoaccel.pytorch.forwards import forward_calls, is_module_method
from autoaccel.pytorch.graph_flow import GraphFlow
from autoaccel.pytorch.graph_operands import may_have_graph
from autoaccel.pytorch.graph_states import CallStack, FlowState, GraphNeeded, push_call
from autoaccel.pytorch.implicit_calls import implicit_callees
from autoaccel.pytorch.kept_generators import goes_on_with_graph
from autoaccel.pytorch.kept_state import reads_of_computed_weights, stored_values
from autoaccel.pytorch.object_references import connected_files, property_name
from autoaccel.pytorch.view_writes import RegionCode, writes_into_kept

_HOOKS = FORWARD_HOOKS | frozenset(
    "_forward_hooks _forward_pre_hooks _global_forward_hooks _global_forward_pre_hooks".split()
)
_CALLED = ("__call__", "_call_impl", "_wrapped_call_impl")
_LOOK_UPS = ("__getattr__", "__getattribute__")
_NEEDED = "its result may reach a backward pass"
_HOOK = "a hook that is not in sight sees it"
_NO_MODELS = frozenset(
    {Kind.NUMBER, Kind.STRING, Kind.BOOL, Kind.NONE, Kind.ARRAY, Kind.DEVICE, Kind.DTYPE, Kind.OPTIMIZER, Kind.SCALER}
    | {Kind.TENSOR, Kind.BATCH, Kind.SCHEDULER, Kind.LOADER, Kind.DATASET, Kind.SEQUENCE, Kind.MAPPING, Kind.ITERATOR}
)
"""What has no methods that run a model."""
_NO_TENSORS = frozenset({Kind.NUMBER, Kind.STRING, Kind.BOOL, Kind.NONE, Kind.DEVICE, Kind.DTYPE, Kind.ARRAY})
_ADDING = ("builtins.sum", "builtins.max", "builtins.min", "builtins.abs", "builtins.pow")
_RUNNERS = frozenset(
    """builtins.map functools.reduce torch.utils.checkpoint.checkpoint torch.utils.checkpoint.checkpoint_sequential
    torch.func.functional_call torch.nn.parallel.data_parallel""".split()
)
_OF_NO_MODEL = ENDING_METHODS.union(SHOWING_METHODS, "eval train to cuda cpu state_dict format join append".split())
_PLAIN_DECORATORS = PLAIN_DECORATORS | {"override"}
_COMPILING = frozenset(f"{module}.compile" for module in RUNTIME)


@dataclass(slots=True)
class _Entered:
    """The functions that were entered, and whether they compute anything that carries a graph, None as long as they are
    looked at; the calls by which these come back to themselves; and what calls leave out of them."""

    functions: dict[ast.AST, bool | None] = field(default_factory=dict)
    recursions: dict[ast.AST, list[FlowState]] = field(default_factory=dict)
    specialized: tuple[SpecializedCall, ...] = ()


def needs_graph(
    script: Script,
    region: Iterable[ast.AST],
    forwards: Iterable[ast.Call],
    specialized: tuple[SpecializedCall, ...] = (),
) -> str | None:
    """Why a function, or statements, must record a graph, as a backward pass may need what is computed there: by these
    forward passes, by other operations, or in the functions that they call. None if nobody needs it.

    `specialized`: the calls there that leave something out of the functions that they enter, and those from these."""
    forwards, region = list(forwards), list(region)
    try:
        known = {each.call for each in specialized}
        states: list[FlowState] = [(script, each, False, ()) for each in forwards if not _is_plain(script.values(each))]
        for entered in specialized:
            states.extend(_forwards_in(entered, known))
        seen = _Entered(specialized=specialized)
        for part in region:
            states.extend((script, each, False, ()) for each in _operations(script, part, part))
            states.extend(_kept(script, part, (), seen))
        code = RegionCode(script, region, specialized)
        flow = GraphFlow(code)
        home = None if isinstance(region[0], ast.FunctionDef) else script.function(region[0])
        for other in connected_files(script):
            states.extend(_hooked(other, flow))
            if goes_on_with_graph(other, home):
                raise GraphNeeded("a generator goes on elsewhere with what it has computed")
            for call in forwards[:1]:
                states.extend(_kept_by_models(other, _model_call(script, call), seen))
            if writes_into_kept(other) and code.makes_view:
                raise Incomplete("a view that is made in it may be written to where gradients are on")
        states.extend((other, read, False, ()) for other, read in reads_of_computed_weights(script))
        flow.run(states)
    except (GraphNeeded, Incomplete) as reason:
        return f"{_NEEDED}: {reason}" if str(reason) else _NEEDED
    return None


def _is_plain(values: Values) -> bool:
    """Whether values surely are numbers, texts, or tuples of these."""
    return bool(values) and all(
        value.kind in _NO_TENSORS
        or (isinstance(value.node, ast.Tuple) and bool(value.items) and all(_is_plain(each) for _, each in value.items))
        for value in values
    )


def _forwards_in(entered: SpecializedCall, known: set[ast.Call]) -> Iterator[FlowState]:
    """The forward passes of a function that a call enters, but for what it leaves out, and for the calls that are
    entered themselves."""
    file = entered.file
    stack: CallStack = ()
    outward: SpecializedCall | None = entered
    while outward is not None:
        stack = ((outward.script, outward.call, outward.function), *stack)
        outward = outward.within
    for call in forward_calls(file, entered.function):
        if call not in known and not entered.leaves_out(file, call):
            yield file, call, False, stack


def _hooked(script: Script, flow: GraphFlow) -> Iterator[FlowState]:
    """What the hooks of models get to see and compute, which run with every forward pass."""
    for alias in (alias for part in script.find(ast.ImportFrom) for alias in part.names):
        if alias.name in _HOOKS and alias.asname is not None:
            raise GraphNeeded(_HOOK)
    for each in script.find(ast.Constant):
        if each.value in _HOOKS:
            raise GraphNeeded(_HOOK)
    for mention in script.syntax_index.mentions(*_HOOKS):
        call = script.call_of(mention)
        functions = functions_of(script, call.args[0]) if call is not None and call.args else []
        if call is None or not functions:
            raise GraphNeeded(_HOOK)
        for file, function in functions:
            flow.enter_all(script, call, file, function, ())
            frame = script, call, function
            yield from _all_computed(file, function, (frame,), _Entered())


def _model_call(script: Script, forward: ast.Call) -> tuple[Script, ast.Call, CallStack]:
    """The call of a model that a forward pass comes to, with the calls that lead there: not all that a model gives is
    handed on by the function that runs it, `model(x).cpu().numpy()`."""
    call_stack: CallStack = ()
    while script.values(forward.func).kinds == {Kind.FUNCTION}:
        within = [(file, each, inner) for file, each in script.callees(forward) for inner in forward_calls(file, each)]
        if not within or any(within[0][2] is call for _, call, _ in call_stack):
            break
        file, function, inner = within[0]
        call_stack = push_call(call_stack, (script, forward, function))
        script, forward = file, inner
    return script, forward, call_stack


def _kept_by_models(script: Script, forward: tuple[Script, ast.Call, CallStack], seen: _Entered) -> Iterator[FlowState]:
    """What the models of a file compute in a forward pass, which may run them as parts of others, and may keep."""
    for call in script.syntax_index.calls_named("setattr", "__setattr__"):
        if _may_replace_forward(script, call):
            raise Incomplete("a model's forward may be replaced")
    for stored in (each for name in ("forward", *_CALLED) for each in script.syntax_index.stored(name)):
        statement = script.parent(stored)
        value = statement.value if isinstance(statement, ast.Assign) else None
        functions = [] if value is None else functions_of(script, value)
        if not functions:
            raise Incomplete("a model's forward is replaced")
        for file, function in functions:
            yield from _run_by(file, function, forward, seen)
    for function in script.find(ast.FunctionDef):
        if function.name in ("forward", "__call__") and is_module_method(script, function):
            yield from _run_by(script, function, forward, seen)
            for decorator in function.decorator_list:
                if _keeps_by_method(script, decorator):
                    raise Incomplete(f"`@{script.source(decorator)}` may keep it")


def _keeps_by_method(script: Script, decorator: ast.expr) -> bool:
    """Whether a decorator of the project puts something into a container: `outputs.append(function(x))`."""
    made = decorator.func if isinstance(decorator, ast.Call) else decorator
    return any(
        isinstance(call.func, ast.Attribute) and call.func.attr in STORING
        for file, wrapping in functions_of(script, made)
        for call in file.within(wrapping, ast.Call)
    )


def _may_replace_forward(script: Script, call: ast.Call) -> bool:
    """`setattr(Net, name, kept)`, of a model or its class, under a name that may be `forward`."""
    if len(call.args) < 3:
        return False
    owner, name = call.args[:2]
    text = name.value if isinstance(name, ast.Constant) else None
    if text is not None and text not in ("forward", *_CALLED):
        return False
    return any(
        value.kind is Kind.MODULE
        or (value.cls is not None and instance_kind(value.cls) is Kind.MODULE)
        or (text is not None and value.kind is Kind.UNKNOWN)
        for value in script.values(owner)
    )


def _run_by(
    script: Script, function: ast.AST, forward: tuple[Script, ast.Call, CallStack], seen: _Entered
) -> Iterator[FlowState]:
    if function not in seen.functions:
        file, call, call_stack = forward
        frames = push_call(call_stack, (file, call, function))
        yield from _all_computed(script, function, frames, seen)
        if not script.callers(function):  # a part of a sequence: what it is given has the graph of the parts before it
            yield from ((script, each, False, frames) for each in _reads_of_inputs(script, function))


def _reads_of_inputs(script: Script, function: ast.AST) -> Iterator[ast.Name]:
    for name in script.within(function, ast.Name):
        if isinstance(name.ctx, ast.Load) and name.id != "self":
            if any(each.how == "param" and each.scope.node is function for each in script.definitions(name)):
                yield name


def _kept(script: Script, outer: ast.AST, call_stack: CallStack, seen: _Entered) -> Iterator[FlowState]:
    """What the functions that are called within `outer` compute, which they may keep or return."""
    for call in script.within(outer, ast.Call):
        for other, function in () if is_left_out(seen.specialized, script, call) else script.callees(call):
            if _collates(script, call):
                continue
            if function in seen.functions:
                carries = seen.functions[function]
                if carries is None:
                    seen.recursions.setdefault(function, []).append((script, call, False, call_stack))
                elif carries:  # it returns to here, too
                    yield script, call, False, call_stack
                continue
            inner = push_call(call_stack, (script, call, function))
            for decorator in function.decorator_list:
                if _may_keep_results(other, decorator):
                    raise Incomplete(f"`@{other.source(decorator)}` may keep it")
            yield from _all_computed(other, function, inner, seen)
    for part in script.within(outer, ast.Subscript):
        for file, method in implicit_callees(script, part):
            if method not in seen.functions:
                yield from _all_computed(file, method, (), seen)
    for read in script.within(outer, ast.Attribute):
        for file, getter, keeps in _getters(script, read):
            if getter not in seen.functions:
                computed = list(_all_computed(file, getter, (), seen))
                if keeps and (computed or _may_give_tensor(file, getter)):
                    raise Incomplete(f"`{script.source(read)}` may keep what it computes first")
                yield from computed


def _all_computed(script: Script, function: ast.AST, call_stack: CallStack, seen: _Entered) -> Iterator[FlowState]:
    """What records a graph in a function and in those that it calls."""
    seen.functions[function] = None
    computed = (
        each for each in _computed(script, function, call_stack) if not is_left_out(seen.specialized, script, each[1])
    )
    states = [*computed, *_kept(script, function, call_stack, seen)]
    again = seen.recursions.pop(function, [])
    # It may hand on what comes of functions that called it, and are looked at still.
    seen.functions[function] = bool(states or seen.recursions)
    yield from [*states, *again] if states else ()


def _computed(script: Script, function: ast.AST, call_stack: CallStack) -> Iterator[FlowState]:
    """What records a graph in a function."""
    for part in script.within(function, ast.Call):
        if script.kind(part.func) in (Kind.MODULE, Kind.LOSS_FUNCTION):
            yield script, part, False, call_stack
    yield from ((script, part, False, call_stack) for part in _operations(script, function, None))
    yield from ((script, part, False, call_stack) for part in stored_values(script, function))


def _getters(script: Script, read: ast.Attribute) -> Iterator[tuple[Script, ast.FunctionDef, bool]]:
    """The methods that reading an attribute may run, and whether they may hand out again what they gave before: by a
    decorator, `@cached_property`, or since they are asked for what is not there yet."""
    for owner in script.values(read.value) if isinstance(read.ctx, ast.Load) else ():
        for file, method in methods(owner.cls, *_LOOK_UPS, read.attr) if owner.cls is not None else ():
            if method.name in _LOOK_UPS:
                yield file, method, True
            else:
                kept = any(_may_keep_results(file, each) for each in method.decorator_list)
                if property_name(method) or (kept and script.call_of(read) is None):
                    yield file, method, kept


def _may_give_tensor(script: Script, getter: ast.FunctionDef) -> bool:
    """Whether the attribute of a model that a decorated method gives may be a tensor."""
    cls = script.parent(getter)
    if not getter.decorator_list or not isinstance(cls, ast.ClassDef):
        return False
    model = instance_kind(script.class_ref(cls)) in (Kind.MODULE, Kind.LOSS_FUNCTION, Kind.UNKNOWN)
    return model and not returned(script, getter).kinds <= _NO_TENSORS


def _operations(script: Script, outer: ast.AST, region: ast.AST | None) -> Iterator[ast.expr]:
    """Operations on tensors that may bring a graph from outside of the region: on parameters of models, on leaves, on
    what the region is given."""
    for part in script.within(outer, ast.BinOp):
        if any(may_have_graph(script, each, region) for each in (part.left, part.right)):
            yield part
    for negated in script.within(outer, ast.UnaryOp):
        if may_have_graph(script, negated.operand, region):
            yield negated
    for added in script.within(outer, ast.AugAssign):
        if may_have_graph(script, added.value, region):
            yield added.value
    views: list[ast.Subscript | ast.Attribute] = [*script.within(outer, ast.Subscript)]
    views += [each for each in script.within(outer, ast.Attribute) if each.attr in VIEW_ATTRIBUTES]
    for view in views:  # of a leaf: it is no leaf itself
        if isinstance(view.ctx, ast.Load) and may_have_graph(script, view.value, region, surely=True):
            yield view
    for call in script.within(outer, ast.Call):
        name = script.qualname(call.func)
        arguments = given_values(call)
        if script.callees(call):
            yield from (each for each in arguments if may_have_graph(script, each, region, surely=True))
            continue
        computes = script.kind(call.func) in (Kind.MODULE, Kind.LOSS_FUNCTION) or (
            name is not None and _is_function(name)
        )
        computes = computes or called_name(script, call.func) in _ADDING
        if name is None and isinstance(call.func, ast.Attribute) and call.func.attr not in ENDING_METHODS:
            if may_have_graph(script, call.func.value, region, surely=True):
                yield call
                continue
        strange = _is_strange(script, call) and _is_run(script, call, None if region is not None else outer)
        if (
            strange
            or _runs_first(script, call)
            or (_runs_arguments(script, call) and any(_is_code(script, each) for each in arguments))
        ):
            yield call
        elif any(may_have_graph(script, each, region, surely=not computes) for each in arguments):
            if computes or not ((name or "").startswith("torch.") or _shows(script, call)):  # an autograd function
                yield call


def _shows(script: Script, call: ast.Call) -> bool:
    """Whether a function of Python gives a number or a text of what it is handed: `len(x)`, `print(x)`."""
    name = called_name(script, call.func) or ""
    return name.startswith("builtins.") and name.removeprefix("builtins.") in ENDING_BUILTINS


def _is_strange(script: Script, call: ast.Call) -> bool:
    """Whether nobody knows what a call runs, which may be a model: `partial(model)(x)`, `table[name](x)`, `f(x)`."""
    function = call.func
    if called_name(script, function) is not None:
        return False
    kinds = script.values(function).kinds
    if (kinds and Kind.UNKNOWN not in kinds) or _is_plain(script.values(call)):
        return False
    if not isinstance(function, ast.Attribute):
        return True
    owners = script.values(function.value).kinds
    return function.attr not in _OF_NO_MODEL and (not owners or not owners <= _NO_MODELS)


def _collates(script: Script, call: ast.Call) -> bool:
    """Whether a call stands in a function that is handed to loaders alone: it runs where one is iterated."""
    scope = script.function(call)
    if not isinstance(scope, ast.FunctionDef) or isinstance(script.parent(scope), ast.ClassDef):
        return False
    reads = [each for each in script.syntax_index.mentions(scope.name) if isinstance(each.ctx, ast.Load)]
    parents = [script.parent(each) for each in reads]
    return bool(parents) and all(isinstance(each, ast.keyword) and each.arg == "collate_fn" for each in parents)


def _is_run(script: Script, call: ast.Call, callee: ast.AST | None) -> bool:
    """Whether a call may run in the region: of functions that a callee makes, those that are called are seen there."""
    scope = script.function(call)
    return not _collates(script, call) and (callee is None or scope is callee or isinstance(scope, ast.Lambda))


def _runs_arguments(script: Script, call: ast.Call) -> bool:
    """Whether a library or Python may run what it is handed: `map(model, inputs)`, `checkpoint(model, x)`."""
    name = called_name(script, call.func)
    return name is not None and name.removeprefix("builtins.") not in ENDING_BUILTINS and name not in ENDING_FUNCTIONS


def _runs_first(script: Script, call: ast.Call) -> bool:
    """Whether a library or Python runs the first argument, whatever it is."""
    return called_name(script, call.func) in _RUNNERS


def _is_code(script: Script, argument: ast.expr) -> bool:
    """Whether an argument is a model or a function."""
    return isinstance(argument, ast.Lambda) or script.kind(argument) in (Kind.MODULE, Kind.FUNCTION)


def _may_keep_results(script: Script, decorator: ast.expr) -> bool:
    """Whether a decorator may hand out again what the function has returned before."""
    function = decorator.func if isinstance(decorator, ast.Call) else decorator
    name = last_name(function)
    qualified = script.qualname(function) or ""
    if name in _PLAIN_DECORATORS or qualified.startswith("torch.") or qualified in _COMPILING:
        return False
    made = [value for value in script.values(function) if value.kind is Kind.FUNCTION and value.script is not None]
    return not made or any(
        isinstance(part, ast.Subscript | ast.Attribute) and isinstance(part.ctx, ast.Store)
        for value in made
        for part in (value.script.within(value.node, ast.AST) if value.script and value.node else ())
    )


def _is_function(name: str) -> bool:
    """Whether a qualified name is one of a function of torch that may record a graph; classes compute nothing."""
    return name.startswith("torch.") and name.rpartition(".")[2][0].islower() and name not in ENDING_FUNCTIONS
