"""What tests of types say: `if issubclass(cls, BaseModel):`, `mean.to(x.device) if torch.is_tensor(x) else mean`.

Behind the first a name is that class, or one that derives from it. So classes are found that a program looks up among
all that a module has: `for name, cls in vars(module).items()`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from autoaccel.analysis.classes import derived_classes
from autoaccel.dataflow.abstract_values import ANY, NOTHING, Kind, Value, Values, union

if TYPE_CHECKING:
    from autoaccel.analysis.script import Script


_NO_TENSORS = frozenset(
    {Kind.ARRAY, Kind.NUMBER, Kind.STRING, Kind.BOOL, Kind.NONE, Kind.SEQUENCE, Kind.MAPPING, Kind.DEVICE, Kind.DTYPE}
)


def asked_for_tensor(script: Script, test: ast.expr) -> ast.expr | None:
    """What `torch.is_tensor(x)` and `isinstance(x, torch.Tensor)` ask; None of other tests."""
    match test:
        case ast.Call(func=function, args=[asked], keywords=[]) if script.qualname(function) == "torch.is_tensor":
            return asked
        case ast.Call(func=ast.Name(id="isinstance") as function, args=[asked, kind], keywords=[]):
            return asked if not script.definitions(function) and script.qualname(kind) == "torch.Tensor" else None
        case _:
            return None


def is_no_tensor(script: Script, test: ast.expr) -> bool:
    """Whether a test asks if something is a tensor that surely is none."""
    asked = asked_for_tensor(script, test)
    return asked is not None and script.inference.possible(asked).kinds <= _NO_TENSORS


def narrowed(script: Script, name: ast.Name, values: Values) -> Values:
    """The classes that a name may stand for where it is read, if a test of the project's classes is around it; else
    what was known of it before."""
    tests = script.syntax_index.calls_named("issubclass")
    if not tests or Kind.UNKNOWN not in values.kinds:
        return values
    for call in tests:
        match call:
            case ast.Call(args=[ast.Name(id=tested) as subject, base], keywords=[]) if tested == name.id:
                if _is_told(script, call, subject, name):
                    return _classes_below(script.inference.possible(base))
    return values


def holds_class(script: Script, name: ast.Name) -> bool:
    """Whether a name is read only where a test has said that it stands for a class."""
    for call in script.syntax_index.calls_named("issubclass", "isclass", "isinstance"):
        match call:
            case ast.Call(args=[ast.Name(id=tested) as subject, *rest], keywords=[]) if tested == name.id:
                if _asks_for_class(script, call.func, rest) and _is_told(script, call, subject, name):
                    return True
    return False


def _asks_for_class(script: Script, function: ast.expr, rest: list[ast.expr]) -> bool:
    """`issubclass(value, Model)`, `inspect.isclass(value)`, `isinstance(value, type)`"""
    if script.qualname(function) == "inspect.isclass":
        return True
    is_type = any(_is_builtin(script, each, "type") for each in rest)
    return _is_builtin(script, function, "issubclass") or (is_type and _is_builtin(script, function, "isinstance"))


def _is_builtin(script: Script, expression: ast.expr, name: str) -> bool:
    """Whether a name is Python's own, which no file of the project gives a meaning of its own."""
    if not isinstance(expression, ast.Name) or expression.id != name or script.definitions(expression):
        return False
    return all(value.name == f"builtins.{name}" for value in script.inference.possible(expression))


def _is_told(script: Script, test: ast.Call, subject: ast.Name, name: ast.Name) -> bool:
    """Whether a name is read only where a test has said yes of the very object, and before it is bound anew: a function
    that is made there reads it later."""
    bound = script.definitions(subject)
    if not bound or list(bound) != list(script.definitions(name)) or script.function(name) is not script.function(test):
        return False
    parts = (part for around in script.ancestors(test) for part in _only_if(script, test, around))
    return any(
        script.inside(name, part) and not any(script.inside(each.node, part) for each in bound) for part in parts
    )


def _only_if(script: Script, test: ast.Call, around: ast.AST) -> Iterator[ast.AST]:
    """What a statement or an expression evaluates only if the test in its condition holds."""
    match around:
        case ast.If(test=condition, body=body) if _needs(script, condition, test):
            yield from body
        case ast.IfExp(test=condition, body=value) if _needs(script, condition, test):
            yield value
        case (
            ast.ListComp(elt=value, generators=[only])
            | ast.GeneratorExp(elt=value, generators=[only])
            | ast.DictComp(value=value, generators=[only])
        ):
            if any(_needs(script, condition, test) for condition in only.ifs):
                yield value


def _needs(script: Script, condition: ast.expr, test: ast.Call) -> bool:
    """Whether a condition is a test, or several that all have to hold with it among them."""
    if isinstance(condition, ast.BoolOp) and isinstance(condition.op, ast.And):
        return any(_needs(script, each, test) for each in condition.values)
    return condition is test


def _classes_below(bases: Values) -> Values:
    """Some classes of the project and all that derive from them; `ANY` where that is not seen."""
    if not bases:
        return NOTHING  # as yet: it depends on itself
    return union(_below(base) for base in bases)


def _below(base: Value) -> Values:
    if base.kind is not Kind.CLASS or base.cls is None:
        return ANY
    below = derived_classes(base.cls)
    if below.missing is not None:
        return ANY
    return Values(Value(Kind.CLASS, each.node, each.script, cls=each) for each in (base.cls, *below))
