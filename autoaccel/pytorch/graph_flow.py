"""Where a tensor's graph may go: whether a backward pass may be reached from what a piece of code computes.

Whatever carries a graph is followed from expression to expression: through names, attributes of any object, containers,
closures, defaults, functions of the project and what they return, and through what they keep. A tensor that leaves for
where nobody can follow may reach a backward pass.

Attributes are followed by their name alone, in all files that are connected with the script, whenever they are read.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from autoaccel.analysis.bound_receivers import is_bound
from autoaccel.analysis.callables import called_name, functions_of, lambdas_of
from autoaccel.analysis.classes import derived_classes, external_lineage, lineage
from autoaccel.analysis.name_lookups import hands_on_names, reads_any_name, runs_text
from autoaccel.analysis.rebound_names import is_handed_on
from autoaccel.analysis.script import Script
from autoaccel.dataflow.abstract_values import Kind, Value
from autoaccel.dataflow.call_arguments import given_values, may_be_passed_for, positional
from autoaccel.dataflow.completeness import Incomplete
from autoaccel.dataflow.definitions import Definition
from autoaccel.dataflow.syntax_index import last_name
from autoaccel.library_models.graph_operations import (
    ENDING_BUILTINS,
    ENDING_METHODS,
    SHOWING_METHODS,
    WRITING_FUNCTIONS,
)
from autoaccel.library_models.python_names import CONTAINERS
from autoaccel.library_models.tensor_operations import STORING
from autoaccel.library_models.tensor_views import JOINING
from autoaccel.pytorch import graph_results
from autoaccel.pytorch.changing_calls import held_methods
from autoaccel.pytorch.gradients import asks, is_asking_function, is_backward
from autoaccel.pytorch.graph_holders import STORES, TENSORS, GraphHolders, Holder, HoldingName, is_of_module
from autoaccel.pytorch.graph_states import (
    UNFOLLOWED,
    WRITTEN,
    CallStack,
    FlowState,
    GraphNeeded,
    calls_in,
    is_unreached,
    push_call,
)
from autoaccel.pytorch.object_references import (
    all_callers,
    attribute_reads,
    callables,
    connected_files,
    importing_files,
    possible_classes,
    property_name,
)
from autoaccel.pytorch.scalar_results import is_scalar
from autoaccel.pytorch.special_methods import overloads, sets_by_method
from autoaccel.pytorch.view_writes import RegionCode

_REGISTERING = ("register_", "add_module", "__set")
_MODELS = frozenset({Kind.MODULE, Kind.LOSS_FUNCTION})


class GraphFlow:
    """Follows what carries a graph. A state is a place, whether the graph is in something that the value holds instead
    of its own, and the calls by which its function was entered.

    A file keeps whether a tensor requires gradients, which may be a latent code that is read again and trained. Figures
    are not, such as the best loss: they end where `is_scalar` says so in the second flow, which alone looks at files.

    What a call of the region leaves out by its constant arguments does not read the variables of that very call."""

    def __init__(self, region: RegionCode, *, into_files: bool = False) -> None:
        self._region = region
        self._into_files = into_files
        self._is_written = False
        self._pending: list[FlowState] = []
        self._seen: set[tuple[ast.AST, bool, tuple[ast.AST, ...]]] = set()
        self._holders = GraphHolders()
        self._spread_from: set[tuple[Definition, bool, tuple[ast.AST, ...]]] = set()
        self._attributes: set[tuple[frozenset[ast.ClassDef] | None, str, bool]] = set()

    def run(self, states: Iterable[FlowState]) -> None:
        """Follow these states to their ends. Raises `GraphNeeded`, and `Incomplete` where there are too many."""
        states = list(states)
        self._run(states)
        if self._is_written:
            GraphFlow(self._region, into_files=True)._run(states)

    def _run(self, states: Iterable[FlowState]) -> None:
        for state in states:
            self._add(*state)
        while self._pending:
            state = self._pending.pop()
            if len(self._seen) > state[0].project.bounds.graph_states:
                raise Incomplete("it goes to more places than are looked at")
            self._follow(*state)

    def _add(self, script: Script, node: ast.AST, holder: bool, call_stack: CallStack) -> None:
        key = node, holder, calls_in(call_stack)
        if key not in self._seen and not is_unreached(self._region.specialized, script, node, call_stack):
            self._seen.add(key)
            self._pending.append((script, node, holder, call_stack))

    def _follow(self, script: Script, node: ast.AST, holder: bool, call_stack: CallStack) -> None:
        child, held = node, holder
        while True:
            parent = script.parent(child)
            after: bool | None = held
            if self._region.is_written_later(script, child):
                raise GraphNeeded(WRITTEN)
            match parent:
                case ast.Attribute(ctx=ast.Load()):
                    called = script.call_of(parent)
                    if called is not None:
                        after = graph_results.of_method(script, called, parent.attr, held)
                        parent = called
                    else:
                        after = graph_results.of_attribute(script, parent, held)
                case ast.Call() if child is parent.func:
                    after = False
                case ast.Call():
                    after = self._passed(script, parent, child, held, call_stack)
                case ast.keyword() if isinstance(call := script.parent(parent), ast.Call):
                    parent, after = call, self._passed(script, call, parent, held, call_stack)
                case ast.Subscript(ctx=ast.Store()) if child is parent.slice:
                    raise GraphNeeded(UNFOLLOWED)  # it is the key under which something is kept
                case ast.Subscript(ctx=ast.Load()) if child is parent.value:
                    after = held and isinstance(parent.slice, ast.Slice)
                case ast.BinOp() | ast.Compare() | ast.Subscript() if overloads(script, parent, child):
                    raise GraphNeeded(UNFOLLOWED)
                case ast.BinOp():
                    after = graph_results.of_operator(script, parent, held)
                case ast.UnaryOp():
                    after = None if isinstance(parent.op, ast.Not) else held
                case ast.IfExp():
                    after = None if child is parent.test else held
                case ast.BoolOp() | ast.Await() | ast.Starred():
                    pass
                case ast.NamedExpr():
                    self._bind(script, parent.target, held, call_stack)
                case ast.Tuple() | ast.List():
                    assert isinstance(child, ast.expr)
                    if self._unpacks(script, parent, child, held, call_stack):
                        return
                    after = True
                case ast.Set() | ast.Dict() | ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
                    after = True
                case ast.comprehension():
                    if child is parent.iter:
                        self._bind(script, parent.target, False, call_stack)
                    return
                case ast.Lambda():
                    if self._returns(parent, held, call_stack):
                        return
                    after = True
                case ast.arguments():
                    raise GraphNeeded(UNFOLLOWED)
                case ast.Yield() | ast.YieldFrom():
                    self._leave(script, parent, True, call_stack)
                    return
                case ast.stmt() | ast.withitem() | ast.match_case():
                    self._stored(script, parent, child, held, call_stack)
                    return
                case _:  # comparisons, text, indices: no graph
                    return
            if after is None:
                return
            child, held = parent, after

    # -- expressions

    def _unpacks(
        self, script: Script, node: ast.Tuple | ast.List, child: ast.expr, held: bool, call_stack: CallStack
    ) -> bool:
        """`a, b = x, y`, where each name gets a value of its own."""
        match script.parent(node):
            case ast.Assign(targets=[ast.Tuple(elts=targets) | ast.List(elts=targets)]):
                starred = any(isinstance(each, ast.Starred) for each in (*targets, *node.elts))
                if len(targets) == len(node.elts) and not starred:
                    self._bind(script, targets[node.elts.index(child)], held, call_stack)
                    return True
        return False

    # -- calls

    def _passed(
        self, script: Script, call: ast.Call, argument: ast.AST, held: bool, call_stack: CallStack
    ) -> bool | None:
        """An argument of a call: what the call results in, if that carries a graph."""
        given = given_values(call)
        if is_backward(script, call) or asks(script, call) or any(is_asking_function(script, each) for each in given):
            raise GraphNeeded
        if any(each.call is call and each.assumed for each in self._region.specialized):
            raise GraphNeeded(UNFOLLOWED)  # it enters the same call, which trains by then
        values = script.values(call.func)
        functions: list[tuple[Script, ast.AST]] = [*script.callees(call), *lambdas_of(script, call.func)]
        for other, function in functions:
            inner = push_call(call_stack, (script, call, function))
            bound = is_bound(other, function, script, call)
            own, collecting = may_be_passed_for(function, call, argument, bound=bound)
            for each in (*own, *collecting):
                self._parameter(other, function, each, held or each in collecting, inner)
        kinds = values.kinds
        if functions and (Kind.UNKNOWN not in kinds or isinstance(functions[0][1], ast.Lambda)):
            return True if Kind.CLASS in kinds else None
        if functions and isinstance(call.func, ast.Attribute) and script.kind(call.func.value) in _MODELS:
            raise GraphNeeded(UNFOLLOWED)  # a method of a model that something else may have taken the place of
        if kinds == {Kind.CLASS}:
            self._fields(script, argument, values)
            return True
        if kinds <= {Kind.MODULE, Kind.LOSS_FUNCTION} and kinds:
            return False
        name = called_name(script, call.func)
        if name is not None:
            if name.startswith("builtins."):
                return self._builtin(script, call, name.removeprefix("builtins."), call_stack)
            if name in WRITING_FUNCTIONS:
                if self._into_files:
                    raise GraphNeeded("a file keeps whether its tensors require gradients")
                self._is_written = True
            if name.startswith("torch.") and name.endswith("_") and argument not in call.args[:1]:
                raise GraphNeeded(UNFOLLOWED)  # it is written into another one
            return graph_results.of_library(script, call, name, held)
        if not functions and _is_layers_own(script, call):
            return False
        if isinstance(call.func, ast.Attribute):
            return self._collected(script, call.func, held, call_stack)
        if isinstance(call.func, ast.Name) and not script.definitions(call.func) and script.module_scope.stars:
            raise GraphNeeded(UNFOLLOWED)  # it came by a star from where nobody can look
        if isinstance(script.parent(call), ast.Expr):
            raise GraphNeeded(UNFOLLOWED)  # what is called for no result keeps what it is given
        self._enter_unknown(script, call, call_stack)
        return False

    def _builtin(self, script: Script, call: ast.Call, name: str, call_stack: CallStack) -> bool | None:
        if name in ENDING_BUILTINS:
            return None
        if name == "getattr" and not (len(call.args) > 1 and isinstance(call.args[1], ast.Constant)):
            raise GraphNeeded
        if name in ("filter", "sorted", "max", "min"):
            for each in given_values(call):
                for other, function in functions_of(script, each):
                    self.enter_all(script, call, other, function, call_stack)
            return True
        if name == "map" and any(called_name(script, each) in JOINING for each in call.args[:1]):
            return True  # `map(torch.cat, zip(*results))`
        if name in ("map", "setattr", "exec", "eval", "vars", "globals", "locals", "super", "__import__"):
            raise GraphNeeded(UNFOLLOWED)
        return name in CONTAINERS

    def _collected(self, script: Script, function: ast.Attribute, held: bool, call_stack: CallStack) -> bool | None:
        """A method that is not in sight: what it is called on may keep what it is given."""
        kinds = script.values(function.value).kinds
        owner, name = last_name(function.value).lower(), function.attr
        if kinds and kinds <= {Kind.MODULE, Kind.LOSS_FUNCTION, Kind.SCALER}:
            if name.startswith(_REGISTERING) or name in STORING:
                raise GraphNeeded(UNFOLLOWED)  # an attribute, or an element, from then on
            return False
        if (kinds and kinds <= {Kind.STRING, Kind.SCHEDULER, Kind.ARRAY}) or name in SHOWING_METHODS | ENDING_METHODS:
            return False if name == "scatter" and _is_of_tensor(script, function) else None
        if name.startswith("assert"):
            return None
        if name in ("send", "asend", "throw", "athrow"):  # a generator goes on with it
            raise GraphNeeded(UNFOLLOWED)
        if Kind.OPTIMIZER in kinds or (name == "step" and "opt" in owner):
            raise GraphNeeded
        if name == "step" and "sched" in owner:
            return None
        if kinds and kinds <= TENSORS:
            if name.endswith("_") and not name.endswith("__"):
                self._fill(self._holders.of(script, function.value, call_stack))
            return False
        self._fill(self._holders.of(script, function.value, call_stack))
        return name in ("setdefault", "pop", "get") and held

    def enter_all(
        self, script: Script, call: ast.Call, other: Script, function: ast.AST, call_stack: CallStack
    ) -> None:
        inner = push_call(call_stack, (script, call, function))
        for name in positional(function):
            self._parameter(other, function, name, False, inner)

    def _enter_unknown(self, script: Script, call: ast.Call, call_stack: CallStack) -> None:
        """What is called is not known, `criterion(model(x), y)`: any callable of the project may keep what it gets."""
        for bound in script.definitions(call.func) if isinstance(call.func, ast.Name) else ():
            if bound.how == "param" and not script.callers(bound.scope.node).all():
                raise Incomplete(f"`{bound.name}` comes from callers that are not seen")
        for other, function in callables(script):
            self.enter_all(script, call, other, function, call_stack)
        for other in connected_files(script):
            for each in other.find(ast.Lambda):
                if other.call_of(each) is None:
                    self.enter_all(script, call, other, each, call_stack)
            for owner, _ in held_methods(other):  # `evaluate(model, outputs.append)`
                self._fill(self._holders.of(other, owner, ()))

    def _parameter(self, script: Script, function: ast.AST, name: str, held: bool, call_stack: CallStack) -> None:
        for definition in script.reaching_definitions.scopes[function].definitions.get(name, ()):
            if definition.how == "param":
                self._spread(script, definition, held, call_stack)

    def _fields(self, script: Script, argument: ast.AST, values: Iterable[Value]) -> None:
        """A class without `__init__` of its own: its fields are given by name or in their order."""
        for value in values:
            for ref in lineage(value.cls) if value.cls is not None else ():
                fields = [
                    each.target.id
                    for each in ref.node.body
                    if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)
                ]
                for name in [argument.arg or ""] if isinstance(argument, ast.keyword) else fields:
                    self._attribute_reads(script, None, name, False)

    # -- statements

    def _stored(self, script: Script, parent: ast.AST, child: ast.AST, held: bool, call_stack: CallStack) -> None:
        match parent:
            case ast.Return():
                self._leave(script, parent, held, call_stack)
            case ast.Assign(targets=targets) if child is parent.value:
                for target in targets:
                    self._bind(script, target, held, call_stack)
            case ast.AnnAssign(target=target) if child is parent.value:
                self._bind(script, target, held, call_stack)
            case ast.AugAssign() if overloads(script, parent, child):
                raise GraphNeeded(UNFOLLOWED)
            case ast.AugAssign(target=target) if child is parent.value:
                self._bind(script, target, held, call_stack)
                if isinstance(target, ast.Name):  # in place, whatever else has it
                    for each in _bindings_before(script, target):
                        self._fill(self._holders.of_binding(script, each, target, call_stack))
                elif held:
                    self._fill(self._holders.of(script, target, call_stack))
            case ast.For(target=target) | ast.AsyncFor(target=target) if child is parent.iter:
                self._bind(script, target, False, call_stack)
            case ast.withitem(optional_vars=target) if target is not None and child is parent.context_expr:
                self._bind(script, target, held, call_stack)
            case ast.Match() if any(
                getattr(part, "name", None) or getattr(part, "rest", None)
                for case in parent.cases
                for part in ast.walk(case.pattern)
            ):
                raise GraphNeeded(UNFOLLOWED)
            case ast.Raise() | ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                raise GraphNeeded(UNFOLLOWED)
            case _:
                pass

    def _bind(self, script: Script, target: ast.expr, held: bool, call_stack: CallStack) -> None:
        match target:
            case ast.Name():
                for definition in script.definitions(target):
                    self._spread(script, definition, held, call_stack)
            case ast.Tuple(elts=elements) | ast.List(elts=elements):
                for each in elements:
                    self._bind(script, each, False, call_stack)
            case ast.Starred(value=value):
                self._bind(script, value, True, call_stack)
            case ast.Attribute():
                if target.attr in STORES or sets_by_method(script, target) or is_of_module(script, target):
                    raise GraphNeeded(UNFOLLOWED)
                self._attribute_reads(script, possible_classes(script, target.value), target.attr, held)
            case ast.Subscript(value=value):
                self._fill(self._holders.of(script, value, call_stack))

    def _spread(self, script: Script, definition: Definition, held: bool, call_stack: CallStack) -> None:
        """Go on where a binding is read."""
        key = definition, held, calls_in(call_stack)
        if key in self._spread_from:
            return  # two sums of one loop add to each other
        self._spread_from.add(key)
        if self._into_files and not held and is_scalar(script, definition):
            return
        scope = definition.scope.node
        for use in script.uses(definition):
            inside = (script.function(use) or script.tree) is scope
            self._add(script, use, held, call_stack if inside else ())
        for addition in script.additions(definition):
            if self._region.is_written_later(script, addition):
                raise GraphNeeded(WRITTEN)
            if definition not in script.definitions(addition):
                self._bind(script, addition, held, call_stack)
        if definition.how == "global":
            for name in script.find(ast.Name):
                if name.id == definition.name and isinstance(name.ctx, ast.Load):
                    self._add(script, name, held, ())
        if isinstance(scope, ast.ClassDef):
            self._attribute_reads(script, None, definition.name, held)
        if scope is script.tree or definition.how == "global":
            if reads_any_name(script):
                raise GraphNeeded(UNFOLLOWED)
            self._imported(script)
        elif hands_on_names(script, scope) or runs_text(script, scope):
            raise GraphNeeded(UNFOLLOWED)

    def _imported(self, script: Script) -> None:
        """Other files may read a name of this one, under whichever names they have imported it."""
        if any(each is not script for each in importing_files(script)) or is_handed_on(script):
            raise GraphNeeded(UNFOLLOWED)

    # -- attributes

    def _attribute_reads(self, script: Script, classes: frozenset[ast.ClassDef] | None, name: str, held: bool) -> None:
        if (classes, name, held) not in self._attributes:
            self._attributes.add((classes, name, held))
            for other, read in attribute_reads(script, classes, name, called=held):
                self._add(other, read, held or isinstance(read, ast.Call), ())

    def _fill(self, holders: Iterable[Holder]) -> None:
        """Go on with an object that now holds what carries a graph."""
        for each in holders:
            if isinstance(each, HoldingName):
                self._spread(*each)
            else:
                self._attribute_reads(*each)

    # -- what functions hand back

    def _leave(self, script: Script, leave: ast.AST, held: bool, call_stack: CallStack) -> None:
        function = script.function(leave)
        if function is None or self._returns(function, held, call_stack):
            return
        read = property_name(function)
        if read is not None:
            self._attribute_reads(script, None, read, held)
            return
        for other, call in all_callers(script, function):
            self._add(other, call, held, ())

    def _returns(self, function: ast.AST, held: bool, call_stack: CallStack) -> bool:
        """Go on at the call by which a function was entered, if it is known."""
        if not call_stack or call_stack[-1][2] is not function:
            return False
        self._add(*call_stack[-1][:2], held, call_stack[:-1])
        return True


def _is_of_tensor(script: Script, scatter: ast.Attribute) -> bool:
    """Whether `scatter` may be a tensor's, `t.scatter(1, index, source)`, and no plot."""
    call = script.call_of(scatter)
    if script.values(scatter.value).kinds & TENSORS or call is None:
        return True
    named = {each.arg for each in call.keywords} & {"dim", "index", "src"}
    return bool(named) or (bool(call.args) and isinstance(call.args[0], ast.Constant | ast.UnaryOp))


def _bindings_before(script: Script, target: ast.Name) -> Iterable[Definition]:
    """What a name may have been bound to that is added to: all bindings there are, where other functions bind it, or a
    `finally` does on the way out."""
    function = script.function(target)
    own = script.reaching_definitions.scopes[function or script.tree]
    if target.id in own.global_names | own.nonlocal_names:
        raise GraphNeeded(UNFOLLOWED)
    for each in script.definitions(target)[:1]:
        bound = each.scope.definitions.get(target.id, [])
        finishing = function is None or any(tried.finalbody for tried in script.in_scope(function, ast.Try))
        if finishing or any(other.how == "global" for other in bound):
            return bound
        return script.reaching_definitions.before_addition(target)
    return ()


def _is_layers_own(script: Script, call: ast.Call) -> bool:
    """`super().forward(x)` of a class that derives from a layer of torch's, which keeps nothing of what it is given."""
    match call.func:
        case ast.Attribute(attr="forward", value=ast.Call(func=ast.Name(id="super") as name, args=[], keywords=[])):
            cls = script.enclosing_class(call)
            if cls is None or script.definitions(name):
                return False
            ref = script.class_ref(cls)
            bases, deriving = tuple(external_lineage(ref)), derived_classes(ref)
            if deriving.missing is not None or any(len(each.node.bases) != 1 for each in (*lineage(ref), *deriving)):
                return False  # of several bases, another's may be the next one
            return bool(bases) and all(each.startswith("torch.nn.") for each in bases)
        case _:
            return False
