"""What a call surely leaves out of the function that it enters, by the constants that it passes: `run(train=False)`.

The tests that constants decide are told by the function's own names: parameters, and names that are bound once to what
is made of them, `train = optimizer is not None`. Whoever binds such a name again, leaves the test open.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from autoaccel.analysis.classes import derived_classes, lineage
from autoaccel.dataflow.abstract_values import ClassRef, Kind
from autoaccel.dataflow.call_arguments import unpacks
from autoaccel.dataflow.definitions import Definition
from autoaccel.library_models.python_names import METHOD_DECORATORS

if TYPE_CHECKING:
    from autoaccel.analysis.script import Script

_SUSPENDING = (ast.Yield, ast.YieldFrom, ast.Await)
_LEAVING = (ast.Return, ast.Raise, ast.Continue, ast.Break)
_HOLDING_FUNCTIONS = frozenset({Kind.UNKNOWN, Kind.CLASS, Kind.EXTERNAL})
_DEPTH = 8  # names behind which a constant is seen


def specialize(
    script: Script,
    call: ast.Call,
    within: SpecializedCall | None = None,
    assumed: Mapping[str, ast.Constant] | None = None,
) -> SpecializedCall | None:
    """What a call leaves out, which may stand in a function that another one enters (`within`). `assumed` are constants
    that names stand for where the call is.

    None if it may enter something else than one function in sight."""
    entered = _only_callee(script, call)
    if entered is None:
        return None
    file, function = entered
    if any(not isinstance(each, ast.Name) or each.id not in METHOD_DECORATORS for each in function.decorator_list):
        return None
    if any(isinstance(part, _SUSPENDING) for part in file.in_scope(function, ast.AST)):
        return None  # its body does not run by the call
    found = SpecializedCall(script, call, file, function, within, assumed or {})
    found.enter(function.body)
    return found


def is_left_out(calls: Iterable[SpecializedCall], script: Script, node: ast.AST) -> bool:
    """Whether one of these calls leaves a node out."""
    return any(each.leaves_out(script, node) for each in calls)


def _only_callee(script: Script, call: ast.Call) -> tuple[Script, ast.FunctionDef] | None:
    values = script.values(call.func)
    if values.kinds != {Kind.FUNCTION} or len({value.node for value in values}) != 1 or unpacks(call):
        return None
    callees = script.callees(call)
    return callees[0] if len(callees) == 1 and not _is_replaced(*callees[0]) else None


def _replaces(script: Script, name: str) -> bool:
    """Whether a file may store something under the name of a function, or give functions other defaults."""
    if script.syntax_index.stored(name) or script.syntax_index.mentions("__defaults__", "__kwdefaults__", "__code__"):
        return True
    for call in script.syntax_index.calls_named("setattr", "__setattr__"):
        match call.args:
            case [owner, ast.Constant(value=stored), *_]:
                if stored == name:
                    return True
            case [owner, *_] if not script.values(owner).kinds & _HOLDING_FUNCTIONS:
                pass
            case _:
                return True
    return False


def is_made_otherwise(cls: ClassRef) -> bool:
    """Whether a class may not be what its body says: a metaclass makes it, or a descriptor of the file changes it."""
    names = [(each.arg, cls.script.qualname(each.value)) for each in cls.node.keywords]
    plain = all(each == ("metaclass", "abc.ABCMeta") for each in names)
    return not plain or any(each.name == "__set_name__" for each in cls.script.find(ast.FunctionDef))


def _is_replaced(script: Script, function: ast.FunctionDef) -> bool:
    """Whether something else may be stored under the name of a function, or a derived class may define it anew."""
    cls = script.parent(function)
    files = script.project.files_naming(script, function.name, attribute=isinstance(cls, ast.ClassDef))
    if files.missing is not None or any(_replaces(other, function.name) for other in files):
        return True
    if not isinstance(cls, ast.ClassDef):
        return False
    deriving = derived_classes(script.class_ref(cls))
    if any(is_made_otherwise(each) for each in (*lineage(script.class_ref(cls)), *deriving)):
        return True
    return deriving.missing is not None or any(
        function.name in each.script.reaching_definitions.scopes[each.node].definitions for each in deriving
    )


@dataclass(slots=True, eq=False)
class SpecializedCall:
    """A call, the only function that it enters, and the code of that which it surely does not run (`dead`)."""

    script: Script
    call: ast.Call
    file: Script
    function: ast.FunctionDef
    within: SpecializedCall | None = None
    assumed: Mapping[str, ast.Constant] = field(default_factory=dict)
    dead: list[ast.AST] = field(default_factory=list)

    @property
    def leads(self) -> tuple[ast.Call, ...]:
        """The calls by which control came into the function, the outermost first."""
        return (*(self.within.leads if self.within is not None else ()), self.call)

    def leaves_out(self, script: Script, node: ast.AST) -> bool:
        """Whether a node is in the code that does not run."""
        return script is self.file and any(script.inside(node, each) for each in self.dead)

    def enter(self, statements: Sequence[ast.stmt]) -> bool:
        """Go through a block. Returns whether control surely leaves it for elsewhere than the next statement."""
        for index, each in enumerate(statements):
            if self._leaves(each):
                self.dead.extend(statements[index + 1 :])
                return True
        return False

    def _leaves(self, statement: ast.stmt) -> bool:
        match statement:
            case ast.If(test=test, body=body, orelse=orelse):
                self._enter_expressions(test)
                decided = self.truth(test)
                if decided is None:
                    left = [self.enter(body), self.enter(orelse)]
                    return all(left)
                taken, other = (body, orelse) if decided else (orelse, body)
                self.dead.extend(other)
                return self.enter(taken)
            case ast.For(body=body, orelse=orelse) | ast.AsyncFor(body=body, orelse=orelse):
                self.enter(body)
                self.enter(orelse)
            case ast.While(test=test, body=body, orelse=orelse):
                if self.truth(test) is False:
                    self.dead.extend(body)
                else:
                    self.enter(body)
                self.enter(orelse)
            case ast.With(body=body) | ast.AsyncWith(body=body):
                self.enter(body)  # what it raises, or the manager itself, may be swallowed
            case _:
                self._enter_expressions(statement)
                return isinstance(statement, _LEAVING)
        return False

    def _enter_expressions(self, node: ast.AST) -> None:
        """The parts of an expression that are not computed: `loss.backward() if train else None`."""
        for chosen in self.file.in_scope(node, ast.IfExp):
            decided = self.truth(chosen.test)
            if decided is not None:
                self.dead.append(chosen.orelse if decided else chosen.body)
        for joined in self.file.in_scope(node, ast.BoolOp):
            first = self.truth(joined.values[0])
            if first is isinstance(joined.op, ast.Or):
                self.dead.extend(joined.values[1:])

    def truth(self, test: ast.expr, depth: int = 0) -> bool | None:
        """Whether a test holds; None where the arguments of the call do not tell."""
        match test:
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                held = self.truth(operand, depth)
                return None if held is None else not held
            case ast.BoolOp(op=operator, values=values):
                held_by = [self.truth(each, depth) for each in values]
                deciding = isinstance(operator, ast.Or)
                if deciding in held_by:
                    return deciding
                return None if None in held_by else not deciding
            case ast.Compare(left=left, ops=[operator], comparators=[right]):
                return self._compared(left, operator, right, depth)
        match self.resolved(test, depth):
            case ast.Constant(value=value):
                return bool(value)
            case ast.expr() as whole if whole is not test:
                return self.truth(whole, depth + 1)
            case _:
                return None

    def _compared(self, left: ast.expr, operator: ast.cmpop, right: ast.expr, depth: int) -> bool | None:
        first = self.resolved(left, depth)
        among = right.elts if isinstance(right, ast.Tuple | ast.List | ast.Set) else [self.resolved(right, depth)]
        constants = [each.value for each in among if isinstance(each, ast.Constant)]
        if not isinstance(first, ast.Constant) or len(constants) != len(among):
            return None
        match operator:
            case ast.Eq() | ast.NotEq() if not isinstance(right, ast.Tuple | ast.List | ast.Set):
                return (first.value == constants[0]) is isinstance(operator, ast.Eq)
            case ast.Is() | ast.IsNot() if not isinstance(right, ast.Tuple | ast.List | ast.Set):
                if not {type(first.value), type(constants[0])} & {type(None), bool}:
                    return None  # whether two equal numbers are one object is up to Python
                return (first.value is constants[0]) is isinstance(operator, ast.Is)
            case ast.In() | ast.NotIn() if isinstance(right, ast.Tuple | ast.List | ast.Set):
                return (first.value in constants) is isinstance(operator, ast.In)
            case _:
                return None

    def resolved(self, expression: ast.expr, depth: int = 0) -> ast.expr | None:
        """What stands for a name of the function: what the call passes for it, or what it is bound to, only once."""
        for _ in range(_DEPTH - depth):
            if not isinstance(expression, ast.Name):
                return expression
            bound = self._only_binding(expression)
            if bound is None or bound.path:
                return None
            if bound.how == "param":
                given = self.script.argument(self.call, self.function, bound.name, self.file)
                if isinstance(given, ast.Name):
                    given = self.assumed.get(given.id) if self.within is None else self.within.resolved(given)
                elif given is None:
                    given = bound.value
                return given if isinstance(given, ast.Constant) else None
            if bound.how != "assign" or bound.value is None:
                return None
            expression = bound.value
        return None

    def _only_binding(self, name: ast.Name) -> Definition | None:
        """The one binding that a name of the function has anywhere."""
        definitions = self.file.definitions(name)
        scope = self.file.reaching_definitions.scopes[self.function]
        if len(definitions) != 1 or len(scope.definitions.get(name.id, ())) != 1 or self._is_shared(name):
            return None
        return definitions[0] if definitions[0].scope is scope else None

    def _is_shared(self, name: ast.Name) -> bool:
        """Whether a function within this one may bind a name of it, or text that is run."""
        return any(name.id in each.names for each in self.file.within(self.function, ast.Nonlocal)) or any(
            each.id in ("exec", "eval", "locals", "vars") for each in self.file.within(self.function, ast.Name)
        )
