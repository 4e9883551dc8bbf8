"""Code that needs gradients and that an evaluation may enter out of sight: through a callable that it is handed, an
object that it iterates over, a context manager, a special method.

What calls by name lead to is known elsewhere (`gradients.trains`). Here, first the code of the project is sought that
needs gradients and that may be entered by other ways; mostly there is none. Then it is asked which of these ways the
evaluation opens.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from autoaccel.analysis.attribute_values import attribute_of
from autoaccel.analysis.callables import called_name, functions_of
from autoaccel.analysis.classes import instance_kind, methods
from autoaccel.analysis.constant_arguments import SpecializedCall, is_left_out
from autoaccel.analysis.imported_names import imported
from autoaccel.analysis.name_lookups import named_member
from autoaccel.analysis.script import Script
from autoaccel.dataflow.abstract_values import Kind, Value
from autoaccel.dataflow.call_arguments import given_values
from autoaccel.dataflow.completeness import Incomplete, ScriptNode
from autoaccel.dataflow.query import fixpoint
from autoaccel.dataflow.syntax_index import Function, last_name
from autoaccel.library_models.graph_operations import keeps_nothing
from autoaccel.library_models.python_names import CONSTRUCTORS, NAMESPACES, PLAIN_DECORATORS, PROPERTIES
from autoaccel.pytorch import datasets
from autoaccel.pytorch.forwards import forward_methods
from autoaccel.pytorch.gradients import sets_grad_mode, trains
from autoaccel.pytorch.implicit_calls import iterated_values
from autoaccel.pytorch.loader_calls import loader_made
from autoaccel.pytorch.loader_changes import loader_state
from autoaccel.pytorch.loader_inputs import PARTS
from autoaccel.pytorch.object_references import connected_files

_MADE = CONSTRUCTORS | {"__init_subclass__"}  # entered by the name of their class
_ITERATED = frozenset({"__iter__", "__next__", "__getitem__", "__len__"})
_MANAGING = frozenset({"__enter__", "__exit__"})
_FUNCTION, _GENERATOR, _FORWARD, _ANYWHERE = "function", "generator", "forward", "anywhere"
_PLAIN_DECORATORS = PLAIN_DECORATORS | {"cached_property"}
_READ = PROPERTIES | {"getter", "setter", "deleter"}  # run by reading or storing an attribute
_GRADIENT_LIBRARIES = frozenset(
    """torchattacks captum foolbox advertorch art autoattack cleverhans pytorch_grad_cam gradcam torchcam zennit
    deeprobust robustbench higher learn2learn shap""".split()
)
_WITHOUT_GRADIENTS = frozenset(
    "timm transformers peft accelerate thop fvcore ptflops torchsummary torchmetrics ignite monai kornia".split()
)
_PLAIN = frozenset(
    {Kind.NUMBER, Kind.STRING, Kind.BOOL, Kind.NONE, Kind.ARRAY, Kind.TENSOR, Kind.PARAMETER, Kind.BATCH}
    | {Kind.SEQUENCE, Kind.MAPPING, Kind.DEVICE, Kind.DTYPE, Kind.EXTERNAL, Kind.MODULE, Kind.LOSS_FUNCTION}
)
_CONSUMING = frozenset(f"builtins.{each}" for each in "next list tuple sum max min set sorted any all dict".split())
_COMPUTING = (*NAMESPACES, "getattr", "methodcaller", "eval", "import_module")
_OF_MODULES = frozenset(  # methods of `torch.nn.Module`
    """train eval to cuda cpu float half double bfloat16 parameters named_parameters buffers named_buffers modules
    named_modules children named_children state_dict load_state_dict zero_grad requires_grad_""".split()
)
_RESUMING = frozenset({"send", "throw", "__next__", "asend", "athrow", "__anext__"})  # methods of generators
_UNSEEN = frozenset(
    """builtins.exec builtins.eval builtins.__import__ importlib.import_module runpy.run_path
    runpy.run_module""".split()
)


class Opening(NamedTuple):
    """A way by which code out of sight is entered: where, by which kinds of code, and the loop if it is its header."""

    script: Script
    node: ast.expr
    kinds: frozenset[str]
    loop: ast.For | ast.AsyncFor | None = None


_BY_CALL = frozenset({_FUNCTION, "__call__"})
_BY_ITERATION = _BY_CALL | _ITERATED | {_GENERATOR}
_BY_WITH = _BY_CALL | _MANAGING | {_GENERATOR}


def hidden_gradient_uses(
    script: Script, region: Iterable[ast.AST], scope: ast.AST | None, specialized: tuple[SpecializedCall, ...] = ()
) -> list[Opening]:
    """Where an evaluation (a function, or statements of `scope`) may enter code that needs gradients, out of sight.
    `specialized`: calls in it that leave something out of the functions that they enter.

    Raises `Incomplete` where not all code can be looked at."""
    region = [*region]
    leading = _leading(script, scope if scope is not None else region[0])
    kinds = {kind for kind, code in _hidden(script) if code not in leading}
    found = list(_openings(script, region, frozenset(kinds), specialized))
    if _ANYWHERE in kinds:
        first = next((each for part in region for each in script.within(part, ast.Call)), None)
        if first is not None:
            found.append(Opening(script, first, frozenset({_ANYWHERE})))
    return found


def needs_gradients(
    script: Script, region: Iterable[ast.AST], scope: ast.AST | None, specialized: tuple[SpecializedCall, ...] = ()
) -> str | None:
    """Why an evaluation may not go without gradients, for the sake of code that it enters out of sight, or since not
    all code can be looked at; None where surely nothing needs them."""
    try:
        found = hidden_gradient_uses(script, region, scope, specialized)
    except Incomplete as reason:
        return str(reason)
    return reason_of(found[0]) if found else None


def reason_of(opening: Opening) -> str:
    return f"`{opening.script.source(opening.node)}` may run code that needs gradients"


# -- the code that needs gradients


@fixpoint((), ((_ANYWHERE, ast.Pass()),))
def _hidden(script: Script) -> tuple[tuple[str, ast.AST], ...]:
    """The code of the project that needs gradients and may be entered other than by its name, and how."""
    found: list[tuple[str, ast.AST]] = []
    files = connected_files(script)
    for other in files:
        lambdas: list[ast.Lambda | ast.FunctionDef] = [*other.find(ast.Lambda)]
        for function in (*lambdas, *other.find(ast.FunctionDef)):
            found += ((kind, function) for kind in _ways(files, other, function) if trains(other, function))
        # Calls are not followed into coroutines.
        found += ((_ANYWHERE, each) for each in other.find(ast.AsyncFunctionDef) if trains(other, each))
        libraries = (name for name in imported(other) if name.partition(".")[0] in _GRADIENT_LIBRARIES)
        found += ((_FUNCTION, other.tree) for _ in libraries)
    return tuple(found)


def _ways(files: tuple[Script, ...], script: Script, function: ast.FunctionDef | ast.Lambda) -> Iterator[str]:
    """The ways by which a function may be entered, calls by its name aside."""
    if isinstance(function, ast.Lambda):
        yield from _ways_of_value(script, function)
        return
    name, cls = function.name, script.parent(function)
    if isinstance(cls, ast.ClassDef):
        if name == "forward" and instance_kind(script.class_ref(cls)) is Kind.MODULE:
            yield _FORWARD
        elif name.startswith("__") and name.endswith("__"):
            if name not in _MADE:
                yield name if name in _ITERATED | _MANAGING | {"__call__"} else _ANYWHERE
        else:
            read = any(last_name(each) in _READ for each in function.decorator_list)
            yield _ANYWHERE if read else name
    if any(script.in_scope(function, kind) for kind in (ast.Yield, ast.YieldFrom)):
        yield _GENERATOR
    mentions = [(other, each) for other in files for each in _mentions(other, name)]
    if any(_is_unknown_decorator(script, each) for each in function.decorator_list):
        yield _FUNCTION
    if not mentions and any(_computes_names(other) for other in files):
        yield _FUNCTION
    for other, mention in mentions:
        if isinstance(mention.ctx, ast.Load) and not _is_called(other, mention):
            if any(value.node is function for value in other.values(mention)):
                yield from _ways_of_value(other, mention)


def _mentions(script: Script, name: str) -> list[ast.Name | ast.Attribute]:
    return script.syntax_index.mentions(name, *script.import_aliases((name,)))


def _is_called(script: Script, mention: ast.expr) -> bool:
    return isinstance(script.parent(mention), ast.Attribute) or script.call_of(mention) is not None


def _ways_of_value(script: Script, value: ast.expr) -> Iterator[str]:
    """The ways by which a function may be entered that stands somewhere as a value."""
    match script.parent(value):
        case ast.Call(func=ast.Attribute(attr="step")):
            return  # a closure, which an optimizer calls
        case ast.Call(func=ast.Attribute(attr=name)) if name.startswith("register_") and "hook" in name:
            yield _ANYWHERE
        case ast.Call(func=ast.Name(id="setattr"), args=[_, name, _]) if not isinstance(name, ast.Constant):
            yield _ANYWHERE
        case ast.Assign(targets=targets):
            for target in targets:
                if isinstance(target, ast.Attribute):
                    special = target.attr == "forward" or target.attr.startswith("__")
                    yield _ANYWHERE if special else target.attr
    yield _FUNCTION


def _is_unknown_decorator(script: Script, decorator: ast.expr) -> bool:
    function = decorator.func if isinstance(decorator, ast.Call) else decorator
    if last_name(function) in _PLAIN_DECORATORS or sets_grad_mode(script, decorator):
        return False
    return not (script.qualname(function) or "").startswith(("torch.", "functools."))


def _computes_names(script: Script) -> bool:
    """Whether a file reaches names that it computes: `globals()[name]`, `getattr(module, name)`."""
    for call in script.syntax_index.calls_named(*_COMPUTING):
        named = call.args[1] if len(call.args) > 1 else None
        if last_name(call.func) != "getattr" or not isinstance(named, ast.Constant):
            return True
    return False


def _leading(script: Script, start: ast.AST) -> set[ast.AST]:
    """The functions that call an evaluation, which does not call them."""
    found: set[ast.AST] = set()
    pending: list[ScriptNode] = [(script, start)]
    while pending:
        other, node = pending.pop()
        around: list[Function | ast.AST] = [node, *other.ancestors(node)]
        for each in around:
            if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) and each not in found:
                found.add(each)
                pending.extend((file, call) for file, call in other.callers(each))
    return found


# -- how it is entered


def _openings(
    script: Script, region: list[ast.AST], kinds: frozenset[str], specialized: tuple[SpecializedCall, ...]
) -> Iterator[Opening]:
    """The ways which code opens that an evaluation enters, for code of these kinds."""
    known = {(each.call.func, frozenset({last_name(each.call.func)})) for each in specialized}
    for file, part in code_run_by(script, region, models=bool(kinds), specialized=specialized):
        for found in _of_part(file, part, kinds):
            if (found.node, found.kinds) not in known and not is_left_out(specialized, file, found.node):
                yield found if part in region else found._replace(loop=None)


def code_run_by(
    script: Script, region: list[ast.AST], *, models: bool = True, specialized: tuple[SpecializedCall, ...] = ()
) -> Iterator[ScriptNode]:
    """A region, the functions that it surely may enter, and the forward passes of all models, which it may run."""
    pending: list[ScriptNode] = [(script, part) for part in region]
    if models:
        pending.extend((other, each) for other in connected_files(script) for each in forward_methods(other))
    seen = {part for _, part in pending}
    while pending:
        file, part = pending.pop()
        yield file, part
        for node, (other, function) in _callees(file, part):
            if function not in seen and not is_left_out(specialized, file, node):
                seen.add(function)
                pending.append((other, function))


def _callees(script: Script, part: ast.AST) -> Iterator[tuple[ast.expr, ScriptNode]]:
    """The functions that code surely may enter, each with what enters it."""
    for call in script.within(part, ast.Call):
        yield from ((call, each) for each in script.callees(call))
    for block in script.within(part, ast.With):
        for manager in (item.context_expr for item in block.items):
            yield from ((manager, each) for each in _methods(script.values(manager), _MANAGING))
    for iterated, _ in _iterated(script, part):
        yield from ((iterated, each) for each in _methods(iterated_values(script.values(iterated)), _ITERATED))


def _methods(values: Iterable[Value], names: frozenset[str]) -> Iterator[ScriptNode]:
    for value in values:
        yield from methods(value.cls, *names) if value.cls is not None else ()


def _iterated(script: Script, part: ast.AST) -> Iterator[tuple[ast.expr, ast.For | ast.AsyncFor | None]]:
    loops: list[ast.For | ast.AsyncFor] = [*script.within(part, ast.For)]
    for loop in (*loops, *script.within(part, ast.AsyncFor)):
        yield loop.iter, loop
    for comprehension in script.within(part, ast.comprehension):
        yield comprehension.iter, None
    spread: list[ast.Starred | ast.YieldFrom] = [*script.within(part, ast.Starred)]
    for each in (*spread, *script.within(part, ast.YieldFrom)):
        yield each.value, None
    for call in script.within(part, ast.Call):
        if called_name(script, call.func) in _CONSUMING:
            yield from ((argument, None) for argument in call.args)


def _of_part(script: Script, part: ast.AST, kinds: frozenset[str], *, loaders: bool = True) -> Iterator[Opening]:
    """The same for one piece of code; what its `loaders` make their batches from is looked into."""
    for call in script.within(part, ast.Call):
        if (
            called_name(script, call.func) in _UNSEEN
            or _is_given_model(script, call)
            or any(_needs_gradients(script, each) for each in given_values(call))
        ):
            yield Opening(script, call.func, _BY_CALL)
        elif kinds:
            wanted = _called_kinds(script, call) & kinds
            if wanted:
                yield Opening(script, call.func, wanted)
    for iterated, loop in _iterated(script, part):
        wanted = _BY_ITERATION & kinds
        for value in iterated_values(script.values(iterated)):
            own = [*_methods([value], _ITERATED)]
            generator = value.kind is Kind.ITERATOR and value.how == "generator" and value.script is not None
            if generator and value.node is not None and value.script is not None:
                own.append((value.script, value.node))
            if any(trains(other, each) for other, each in own) or (
                wanted
                and value.kind not in _PLAIN
                and not generator
                and not (loaders and _makes_plain_batches(value, kinds))
            ):
                yield Opening(script, iterated, _BY_ITERATION, loop)
                break
    blocks: list[ast.With | ast.AsyncWith] = [*script.within(part, ast.With)]
    for block in (*blocks, *script.within(part, ast.AsyncWith)):
        for manager in (item.context_expr for item in block.items):
            own = [*_methods(script.values(manager), _MANAGING)]
            if any(trains(other, each) for other, each in own) or (
                _BY_WITH & kinds and not own and _is_strange(script, manager)
            ):
                yield Opening(script, manager, _BY_WITH)
    if "__getitem__" in kinds:
        for item in script.within(part, ast.Subscript):
            if isinstance(item.ctx, ast.Load) and any(each.kind not in _PLAIN for each in script.values(item.value)):
                yield Opening(script, item, frozenset({"__getitem__"}))
    if "__len__" in kinds:
        for call in script.within(part, ast.Call):
            if called_name(script, call.func) == "builtins.len":
                if any(each.kind not in _PLAIN for argument in call.args for each in script.values(argument)):
                    yield Opening(script, call, frozenset({"__len__"}))


def _makes_plain_batches(value: Value, kinds: frozenset[str]) -> bool:
    """Whether iterating over a loader surely enters no code that needs gradients: all that it makes its batches from is
    in sight, none of it trains, and none of it opens a way to code of these kinds."""
    if value.kind is not Kind.LOADER or value.script is None or not isinstance(value.node, ast.Call):
        return False
    made = loader_made(value.script, value.node)
    dataset = made.at(value.script, "dataset") if made is not None else None
    if made is None or dataset is None or made.problem is not None or made.possible & PARTS:
        return False
    sources = tuple(datasets.origins(*dataset))
    if not sources or any(source.cls is None and source.kind is not Kind.DATASET for source in sources):
        return False
    inputs = loader_state(value.script, made).inputs
    return not any(
        trains(file, code) or any(True for _ in _of_part(file, code, kinds, loaders=False))
        for code, file in (inputs.code | inputs.possible_code).items()
    )


def _is_strange(script: Script, manager: ast.expr) -> bool:
    function = manager.func if isinstance(manager, ast.Call) else manager
    if called_name(script, function) is not None and not script.is_project_name(function):
        return False
    return not (isinstance(manager, ast.Call) and script.callees(manager))


def _called_kinds(script: Script, call: ast.Call) -> frozenset[str]:
    """By which kinds of code a call may be answered that does not say what it calls."""
    function = call.func
    if called_name(script, function) is not None and not script.is_project_name(function):
        return frozenset()
    values = script.values(function)
    kinds = values.kinds
    member = named_member(function)
    named = frozenset({function.attr} if isinstance(function, ast.Attribute) else {member[1]} if member else ())
    if named & _RESUMING:
        return named | {_GENERATOR}
    if kinds == {Kind.OBJECT}:
        return named | {"__call__"}  # of a derived class
    if kinds == {Kind.MODULE}:
        known = all(value.cls is not None or value.name is not None for value in values)
        return frozenset() if known else frozenset({_FORWARD, _FUNCTION})
    if kinds and Kind.UNKNOWN not in kinds:
        return named
    if not isinstance(function, ast.Attribute):
        return named | _BY_CALL
    return named | _BY_CALL if _is_stored(script, function) else named


def _is_stored(script: Script, function: ast.Attribute) -> bool:
    """Whether an attribute that is called may have been stored as a value, and be no method."""
    if any(other.syntax_index.stored(function.attr) for other in connected_files(script)):
        return True
    classes = [value.cls for value in script.values(function.value) if value.cls is not None]
    inherited = function.attr in _OF_MODULES
    return any(
        attribute_of(each, function.attr) is None and not (inherited and instance_kind(each) is Kind.MODULE)
        for each in classes
    )


def _needs_gradients(script: Script, argument: ast.expr) -> bool:
    """Whether a function that is handed to a call needs gradients: `map(attack, batches)`."""
    return isinstance(argument, ast.Name | ast.Attribute | ast.Lambda) and any(
        trains(other, function) for other, function in functions_of(script, argument)
    )


def _is_given_model(script: Script, call: ast.Call) -> bool:
    """Whether a library that nobody knows is handed a model."""
    name = called_name(script, call.func)
    if name is None or name.startswith("builtins.") or script.is_project_name(call.func) or keeps_nothing(name):
        return False
    root = name.partition(".")[0]
    if root in sys.stdlib_module_names:
        return False
    return root in _GRADIENT_LIBRARIES or (
        root not in _WITHOUT_GRADIENTS and any(script.kind(each) is Kind.MODULE for each in given_values(call))
    )
