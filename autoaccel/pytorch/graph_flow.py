"""Where a tensor's graph may go: whether a backward pass may be reached from what a piece of code computes.

Whatever carries a graph is followed from expression to expression: through names, attributes of any object, containers,
closures, defaults, functions of the project and what they return, and through what they keep. A tensor that leaves for
where nobody can follow may reach a backward pass.

Attributes are followed by their name alone, in all files that are connected with the script, whenever they are read.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import TYPE_CHECKING

from autoaccel.analysis.call_sites import is_bound
from autoaccel.analysis.callables import called_name, functions_of, lambdas_of
from autoaccel.analysis.classes import lineage
from autoaccel.analysis.name_lookups import reads_any_name, runs_text
from autoaccel.analysis.rebound_names import is_handed_on
from autoaccel.dataflow.abstract_values import Kind, Value
from autoaccel.dataflow.call_arguments import given_values, positional
from autoaccel.dataflow.completeness import Incomplete
from autoaccel.dataflow.syntax_index import last_name
from autoaccel.library_models.graph_operations import (
    COPYING_METHODS,
    ENDING_ATTRIBUTES,
    ENDING_BUILTINS,
    ENDING_FUNCTIONS,
    ENDING_LIBRARIES,
    ENDING_METHODS,
    MODE_ATTRIBUTES,
    SHOWING_METHODS,
    STARTS_CODE,
    is_without_graph,
    keeps_nothing,
)
from autoaccel.library_models.in_place_operations import gives_new_memory
from autoaccel.library_models.python_names import CONTAINERS
from autoaccel.pytorch.gradients import asks, is_asking_function, is_backward
from autoaccel.pytorch.implicit_calls import hands_on_names
from autoaccel.pytorch.object_references import (
    all_callers,
    attribute_reads,
    importing_files,
    possible_classes,
    property_name,
)
from autoaccel.pytorch.special_methods import overloads, sets_by_method

if TYPE_CHECKING:
    from autoaccel.analysis.script import Script
    from autoaccel.dataflow.definitions import Definition

_MODELS = frozenset({Kind.MODULE, Kind.LOSS_FUNCTION})
_TENSORS = frozenset({Kind.TENSOR, Kind.PARAMETER, Kind.BATCH})

_STORES = frozenset({"__dict__", "_buffers", "_parameters", "_modules", "__slots__"})
"""Attributes that hold others, which are read by other names."""

_UNFOLLOWED = "what becomes of it cannot be followed"

# The call by which control came into a function: what the function returns goes back there.
_Frame = tuple["Script", ast.Call, ast.AST]
CallStack = tuple[_Frame, ...]
FlowState = tuple["Script", ast.AST, bool, CallStack]


class GraphNeeded(Exception):  # noqa: N818  # no error: an answer
    """A backward pass may need the graph of a tensor; the message is the reason where it goes out of sight."""


def push_call(call_stack: CallStack, frame: _Frame) -> CallStack:
    """The calls that lead to a place with one more; a recursion comes back to where it began."""
    for index, each in enumerate(call_stack):
        if each[1] is frame[1]:
            return call_stack[: index + 1]
    if len(call_stack) >= frame[0].project.bounds.graph_calls:
        raise Incomplete("more calls lead to it than are looked at")
    return (*call_stack, frame)


class GraphFlow:
    """Follows what carries a graph. A state is a place, whether the graph is in something that the value holds instead
    of its own, and the calls by which its function was entered."""

    def __init__(self) -> None:
        self._pending: list[FlowState] = []
        self._seen: set[tuple[ast.AST, bool, tuple[ast.AST, ...]]] = set()
        self._filled: set[tuple[ast.AST, tuple[ast.AST, ...]]] = set()
        self._spread_from: set[tuple[Definition, bool, tuple[ast.AST, ...]]] = set()
        self._attributes: set[tuple[frozenset[ast.ClassDef] | None, str, bool]] = set()

    def run(self, states: Iterable[FlowState]) -> None:
        """Follow these states to their ends. Raises `GraphNeeded`, and `Incomplete` where there are too many."""
        for state in states:
            self._add(*state)
        while self._pending:
            state = self._pending.pop()
            if len(self._seen) > state[0].project.bounds.graph_states:
                raise Incomplete("it goes to more places than are looked at")
            self._follow(*state)

    def _add(self, script: Script, node: ast.AST, holder: bool, call_stack: CallStack) -> None:
        key = node, holder, tuple(each[1] for each in call_stack)
        if key not in self._seen:
            self._seen.add(key)
            self._pending.append((script, node, holder, call_stack))

    def _follow(self, script: Script, node: ast.AST, holder: bool, call_stack: CallStack) -> None:
        child, held = node, holder
        while True:
            parent = script.parent(child)
            after: bool | None = held
            match parent:
                case ast.Attribute(ctx=ast.Load()):
                    called = script.call_of(parent)
                    if called is not None:
                        after = self._method(script, called, parent.attr, held)
                        parent = called
                    else:
                        after = self._attribute(script, parent, held)
                case ast.Call() if child is parent.func:
                    after = False
                case ast.Call():
                    after = self._passed(script, parent, child, held, call_stack)
                case ast.keyword() if isinstance(call := script.parent(parent), ast.Call):
                    parent, after = call, self._passed(script, call, parent, held, call_stack)
                case ast.Subscript(ctx=ast.Load()) if child is parent.value:
                    after = held and isinstance(parent.slice, ast.Slice)
                case ast.BinOp() | ast.Compare() | ast.Subscript() if overloads(script, parent, child):
                    raise GraphNeeded(_UNFOLLOWED)
                case ast.BinOp():
                    after = None if self._formats(script, parent) else held
                    if not held and self._is_recorded_nowhere(script, parent):
                        after = None
                case ast.UnaryOp():
                    after = None if isinstance(parent.op, ast.Not) else held
                case ast.IfExp():
                    after = None if child is parent.test else held
                case ast.BoolOp() | ast.Await() | ast.Starred():
                    pass
                case ast.NamedExpr():
                    self._bind(script, parent.target, held, call_stack)
                case ast.Tuple() | ast.List():
                    if self._unpacks(script, parent, child, held, call_stack):
                        return
                    after = True
                case ast.Set() | ast.Dict():
                    after = True
                case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
                    after = True
                case ast.comprehension():
                    if child is parent.iter:
                        self._bind(script, parent.target, False, call_stack)
                    return
                case ast.Lambda():
                    if call_stack and call_stack[-1][2] is parent:
                        self._add(*call_stack[-1][:2], held, call_stack[:-1])
                        return
                    after = True
                case ast.arguments():
                    raise GraphNeeded(_UNFOLLOWED)
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

    def _attribute(self, script: Script, node: ast.Attribute, held: bool) -> bool | None:
        if held or self._is_own(script, node.value, node.attr):
            return False
        if node.attr in MODE_ATTRIBUTES:
            raise GraphNeeded
        return None if node.attr in ENDING_ATTRIBUTES else False

    def _is_own(self, script: Script, owner: ast.expr, name: str) -> bool:
        """Whether an attribute is one that a class of the project defines."""
        return any(
            value.cls is not None and value.cls.script.inference.attribute_of(value.cls, name)
            for value in script.values(owner)
        )

    def _method(self, script: Script, call: ast.Call, name: str, held: bool) -> bool | None:
        """A method of what carries a graph."""
        assert isinstance(call.func, ast.Attribute)
        if is_backward(script, call) or asks(script, call):
            raise GraphNeeded
        if held:
            return name in ("items", "values", "copy")
        if name in ENDING_METHODS and not self._is_own(script, call.func.value, name):
            if name == "numpy" and _is_tried(script, call):
                raise GraphNeeded  # it fails where there is a graph
            return None
        if name in ("sample", "sample_n") and _is_distribution(script, call.func.value):
            return None
        return None if self._is_recorded_nowhere(script, call) else False

    def _is_recorded_nowhere(self, script: Script, operation: ast.expr) -> bool:
        """Whether an operation stands where gradients surely are off."""
        for ancestor in script.ancestors(operation):
            if isinstance(ancestor, ast.With):
                if any(is_without_graph(script, item.context_expr) for item in ancestor.items):
                    return True
            elif isinstance(ancestor, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
                return any(is_without_graph(script, each) for each in getattr(ancestor, "decorator_list", ()))
        return False

    def _formats(self, script: Script, operation: ast.BinOp) -> bool:
        return isinstance(operation.op, ast.Mod) and (
            isinstance(operation.left, ast.JoinedStr) or script.kind(operation.left) is Kind.STRING
        )

    def _unpacks(
        self, script: Script, node: ast.Tuple | ast.List, child: ast.AST, held: bool, call_stack: CallStack
    ) -> bool:
        """`a, b = x, y`, where each name gets a value of its own."""
        match script.parent(node):
            case ast.Assign(targets=[ast.Tuple(elts=targets) | ast.List(elts=targets)]) if len(targets) == len(
                node.elts
            ) and not any(isinstance(each, ast.Starred) for each in (*targets, *node.elts)):
                target = next(target for target, each in zip(targets, node.elts, strict=True) if each is child)
                self._bind(script, target, held, call_stack)
                return True
            case _:
                return False

    # -- calls

    def _passed(
        self, script: Script, call: ast.Call, argument: ast.AST, held: bool, call_stack: CallStack
    ) -> bool | None:
        """An argument of a call: what the call results in, if that carries a graph."""
        if is_backward(script, call) or asks(script, call):
            raise GraphNeeded
        if any(is_asking_function(script, each) for each in given_values(call)):
            raise GraphNeeded
        values = script.values(call.func)
        functions: list[tuple[Script, ast.AST]] = [*script.callees(call), *lambdas_of(script, call.func)]
        for other, function in functions:
            self._enter(script, call, argument, other, function, held, call_stack)
        kinds = values.kinds
        if functions and (Kind.UNKNOWN not in kinds or isinstance(functions[0][1], ast.Lambda)):
            return True if Kind.CLASS in kinds else None
        if functions and isinstance(call.func, ast.Attribute) and script.kind(call.func.value) in _MODELS:
            raise GraphNeeded(_UNFOLLOWED)  # a method of a model that something else may have taken the place of
        if kinds == {Kind.CLASS}:
            self._fields(script, argument, values)
            return True
        if kinds <= {Kind.MODULE, Kind.LOSS_FUNCTION} and kinds:
            return False
        name = called_name(script, call.func)
        if name is not None:
            return self._library(script, call, name, held, call_stack)
        if isinstance(call.func, ast.Attribute):
            return self._collected(script, call.func, held, call_stack)
        if isinstance(call.func, ast.Name) and not script.definitions(call.func) and script.module_scope.stars:
            raise GraphNeeded(_UNFOLLOWED)  # it came by a star from where nobody can look
        if isinstance(script.parent(call), ast.Expr):
            raise GraphNeeded(_UNFOLLOWED)  # what is called for no result keeps what it is given
        return False

    def _library(self, script: Script, call: ast.Call, name: str, held: bool, call_stack: CallStack) -> bool | None:
        """A function of a library or of Python."""
        if name.startswith("builtins."):
            return self._builtin(script, call, name.removeprefix("builtins."), call_stack)
        if name.startswith(STARTS_CODE) or not keeps_nothing(name):
            raise GraphNeeded(_UNFOLLOWED)
        if name.startswith("numpy."):
            return True if any(each.arg == "dtype" for each in call.keywords) else None
        if name in ENDING_FUNCTIONS or name.startswith(ENDING_LIBRARIES):
            return None
        if name == "copy.deepcopy" and _is_tried(script, call):
            raise GraphNeeded  # it fails where there is a graph
        if not held and self._is_recorded_nowhere(script, call):
            return None
        return name.startswith(("collections.", "itertools.", "copy.", "torch.utils.data."))

    def _builtin(self, script: Script, call: ast.Call, name: str, call_stack: CallStack) -> bool | None:
        if name in ENDING_BUILTINS:
            return None
        if name == "getattr" and not (len(call.args) > 1 and isinstance(call.args[1], ast.Constant)):
            raise GraphNeeded
        if name in ("filter", "sorted", "max", "min"):
            arguments = given_values(call)
            functions = [found for each in arguments for found in functions_of(script, each)]
            for other, function in functions:
                self.enter_all(script, call, other, function, call_stack)
            return True
        if name in ("map", "setattr", "exec", "eval", "vars", "globals", "locals", "super", "__import__"):
            raise GraphNeeded(_UNFOLLOWED)
        return name in CONTAINERS

    def _collected(self, script: Script, function: ast.Attribute, held: bool, call_stack: CallStack) -> bool | None:
        """A method that is not in sight: what it is called on may keep what it is given."""
        kinds = script.values(function.value).kinds
        owner, name = last_name(function.value).lower(), function.attr
        if kinds and kinds <= {Kind.MODULE, Kind.LOSS_FUNCTION, Kind.SCALER}:
            return False
        if (kinds and kinds <= {Kind.STRING, Kind.SCHEDULER, Kind.ARRAY}) or name in SHOWING_METHODS | ENDING_METHODS:
            return None
        if name.startswith("assert"):
            return None
        if name in ("send", "asend", "throw", "athrow"):  # a generator goes on with it
            raise GraphNeeded(_UNFOLLOWED)
        if Kind.OPTIMIZER in kinds or (name == "step" and "opt" in owner):
            raise GraphNeeded
        if name == "step" and "sched" in owner:
            return None
        if kinds and kinds <= _TENSORS:
            if name.endswith("_") and not name.endswith("__"):
                self._fill(script, function.value, call_stack)
            return False
        self._fill(script, function.value, call_stack)
        return name in ("setdefault", "pop", "get") and held

    def _enter(
        self,
        script: Script,
        call: ast.Call,
        argument: ast.AST,
        other: Script,
        function: ast.AST,
        held: bool,
        call_stack: CallStack,
    ) -> None:
        """Go on with the parameter that an argument is passed for."""
        inner = push_call(call_stack, (script, call, function))
        arguments: ast.arguments = function.args  # type: ignore[attr-defined]
        names = positional(function)[int(is_bound(other, function, script, call)) :]
        named = [*names, *(each.arg for each in arguments.kwonlyargs)]
        found: list[str] = []
        match argument:
            case ast.keyword(arg=str() as name):
                found = [name] if name in named else []
            case ast.keyword() | ast.Starred():
                found = named
            case _:
                index = next(index for index, each in enumerate(call.args) if each is argument)
                after_star = any(isinstance(each, ast.Starred) for each in call.args[:index])
                found = names if after_star else names[index : index + 1]
        starred = [each.arg for each in (arguments.vararg, arguments.kwarg) if each is not None]
        for name in found:
            self._parameter(other, function, name, held, inner)
        for name in starred if not found or isinstance(argument, ast.Starred) else ():
            self._parameter(other, function, name, True, inner)

    def enter_all(
        self, script: Script, call: ast.Call, other: Script, function: ast.AST, call_stack: CallStack
    ) -> None:
        inner = push_call(call_stack, (script, call, function))
        for name in positional(function):
            self._parameter(other, function, name, False, inner)

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
                raise GraphNeeded(_UNFOLLOWED)
            case ast.AugAssign(target=target) if child is parent.value:
                self._bind(script, target, held, call_stack)
                if isinstance(target, ast.Name):  # in place, whatever else has it
                    for each in script.definitions(target)[:1]:
                        for other in each.scope.definitions.get(target.id, ()):
                            self._fill_definition(script, other, target, call_stack)
                elif held:
                    self._fill(script, target, call_stack)
            case ast.For(target=target) | ast.AsyncFor(target=target) if child is parent.iter:
                self._bind(script, target, False, call_stack)
            case ast.withitem(optional_vars=target) if target is not None and child is parent.context_expr:
                self._bind(script, target, held, call_stack)
            case ast.Match() if any(
                getattr(part, "name", None) or getattr(part, "rest", None)
                for case in parent.cases
                for part in ast.walk(case.pattern)
            ):
                raise GraphNeeded(_UNFOLLOWED)
            case ast.Raise() | ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                raise GraphNeeded(_UNFOLLOWED)
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
                if target.attr in _STORES or sets_by_method(script, target) or _is_of_module(script, target):
                    raise GraphNeeded(_UNFOLLOWED)
                self._attribute_reads(script, possible_classes(script, target.value), target.attr, held)
            case ast.Subscript(value=value):
                self._fill(script, value, call_stack)

    def _spread(self, script: Script, definition: Definition, held: bool, call_stack: CallStack) -> None:
        """Go on where a binding is read."""
        key = definition, held, tuple(each[1] for each in call_stack)
        if key in self._spread_from:
            return  # two sums of one loop add to each other
        self._spread_from.add(key)
        scope = definition.scope.node
        for use in script.uses(definition):
            inside = (script.function(use) or script.tree) is scope
            self._add(script, use, held, call_stack if inside else ())
        for addition in script.additions(definition):
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
                raise GraphNeeded(_UNFOLLOWED)
            self._imported(script)
        elif hands_on_names(script, scope) or runs_text(script, scope):
            raise GraphNeeded(_UNFOLLOWED)

    def _imported(self, script: Script) -> None:
        """Other files may read a name of this one, under whichever names they have imported it."""
        if any(each is not script for each in importing_files(script)) or is_handed_on(script):
            raise GraphNeeded(_UNFOLLOWED)

    # -- attributes

    def _attribute_reads(self, script: Script, classes: frozenset[ast.ClassDef] | None, name: str, held: bool) -> None:
        if (classes, name, held) not in self._attributes:
            self._attributes.add((classes, name, held))
            for other, read in attribute_reads(script, classes, name, called=held):
                self._add(other, read, held or isinstance(read, ast.Call), ())

    # -- what is given something to keep

    def _fill(self, script: Script, owner: ast.expr, call_stack: CallStack) -> None:
        """Go on with an object that now holds what carries a graph, under whichever names it is known.

        One of a project class holds it out of sight: its method is inherited, or called by an operator."""
        if isinstance(owner, ast.Name | ast.Attribute) and any(each.cls is not None for each in script.values(owner)):
            raise GraphNeeded(_UNFOLLOWED)
        key = owner, tuple(each[1] for each in call_stack)
        if key in self._filled:
            return
        self._filled.add(key)
        match owner:
            case ast.Name():
                definitions = script.definitions(owner)
                if not definitions:  # it came by a star
                    raise GraphNeeded(_UNFOLLOWED)
                for each in definitions:
                    self._fill_definition(script, each, owner, call_stack)
            case ast.Attribute(attr=name) if name in _STORES:
                raise GraphNeeded(_UNFOLLOWED)
            case ast.Attribute():
                if _is_of_module(script, owner):
                    raise GraphNeeded(_UNFOLLOWED)
                kinds = script.values(owner).kinds
                self._attribute_reads(
                    script, possible_classes(script, owner.value), owner.attr, not kinds or not kinds <= _TENSORS
                )
            case ast.Subscript(value=value) | ast.Starred(value=value) | ast.Await(value=value):
                self._fill(script, value, call_stack)
            case ast.NamedExpr() | ast.IfExp() | ast.BoolOp():
                raise GraphNeeded(_UNFOLLOWED)
            case ast.Call():
                self._fill_result(script, owner, call_stack)

    def _fill_definition(self, script: Script, definition: Definition, owner: ast.expr, call_stack: CallStack) -> None:
        kinds = script.values(owner).kinds
        self._spread(script, definition, not kinds or not kinds <= _TENSORS, call_stack)
        match definition.how:
            case "aug" if isinstance(definition.node, ast.AugAssign) and isinstance(definition.node.target, ast.Name):
                self._fill_before(script, definition.node.target, owner, call_stack)
            case "assign" | "walrus" | "global" | "with" | "for" | "aug" if definition.value is not None:
                value: ast.expr = definition.value
                for step in definition.path:
                    if not isinstance(value, ast.Tuple | ast.List) or not isinstance(step, int):
                        break
                    if step >= len(value.elts):
                        break
                    value = value.elts[step]
                self._fill(script, value, call_stack)
            case "param" if kinds <= _TENSORS and call_stack and call_stack[-1][2] is definition.scope.node:
                self._fill_argument(script, definition, call_stack)
            case "param" | "import" | "except" | "match" | "del":
                raise GraphNeeded(_UNFOLLOWED)

    def _fill_argument(self, script: Script, parameter: Definition, call_stack: CallStack) -> None:
        """What a function was handed, by the call that control came from."""
        caller, call, function = call_stack[-1]
        given = caller.argument(call, function, parameter.name, script)
        if given is None:
            raise GraphNeeded(_UNFOLLOWED)
        self._fill(caller, given, call_stack[:-1])

    def _fill_before(self, script: Script, target: ast.Name, owner: ast.expr, call_stack: CallStack) -> None:
        """What an addition in place was made to is the object still; what was added is none of it."""
        key = target, tuple(each[1] for each in call_stack)
        if key not in self._filled:
            self._filled.add(key)
            for each in script.reaching_definitions.before_addition(target):
                self._fill_definition(script, each, owner, call_stack)

    def _fill_result(self, script: Script, call: ast.Call, call_stack: CallStack) -> None:
        """What a call returns: an object of its own, or a part of what it was called on or with."""
        callees, values = script.callees(call), script.values(call.func)
        if values.kinds == {Kind.CLASS}:
            return
        if values.kinds == {Kind.MODULE} and all(each.cls is None for each in values):  # a library's keeps nothing
            if not all(gives_new_memory(each.name or "") for each in values):
                for given in given_values(call):
                    self._fill(script, given, call_stack)
            return
        for other, function in callees:
            inner = push_call(call_stack, (script, call, function))
            for leave in other.in_scope(function, ast.Return):
                if leave.value is not None:
                    self._fill(other, leave.value, inner)
        name = None if script.is_project_name(call.func) else called_name(script, call.func)
        if callees or (name is not None and not name.startswith("builtins.")):
            return
        if name in ("builtins.getattr", "builtins.vars", "builtins.globals", "builtins.super", "builtins.locals"):
            raise GraphNeeded(_UNFOLLOWED)
        if name is None and isinstance(call.func, ast.Attribute):
            if call.func.attr not in COPYING_METHODS | {"detach"}:  # what is written to it brings no graph back
                self._fill(script, call.func.value, call_stack)
        elif name in ("builtins.next", "builtins.iter", "builtins.zip", "builtins.enumerate", "builtins.reversed"):
            for each in call.args:
                self._fill(script, each, call_stack)

    # -- what functions hand back

    def _leave(self, script: Script, leave: ast.AST, held: bool, call_stack: CallStack) -> None:
        function = script.function(leave)
        if function is None:
            return
        if call_stack and call_stack[-1][2] is function:
            self._add(*call_stack[-1][:2], held, call_stack[:-1])
            return
        read = property_name(function)
        if read is not None:
            self._attribute_reads(script, None, read, held)
            return
        for other, call in all_callers(script, function):
            self._add(other, call, held, ())


def _is_of_module(script: Script, expression: ast.expr) -> bool:
    """Whether an object belongs to a module, and may be read there and wherever that is imported."""
    return script.qualname(expression) is not None


def _is_tried(script: Script, call: ast.Call) -> bool:
    """Whether the failure of a call is handled where it stands."""
    statement = script.statement(call)
    around = script.parent(statement)
    return isinstance(around, ast.Try) and statement in around.body and bool(around.handlers)


def _is_distribution(script: Script, expression: ast.expr) -> bool:
    """Whether a value is made by `torch.distributions`, whose `sample` records nothing."""
    if isinstance(expression, ast.Name):
        definitions = script.definitions(expression)
        made = [each.value for each in definitions if each.how == "assign" and not each.path]
        return (
            bool(made)
            and len(made) == len(definitions)
            and all(each is not None and _is_distribution(script, each) for each in made)
        )
    return isinstance(expression, ast.Call) and (script.qualname(expression.func) or "").startswith(
        "torch.distributions."
    )
