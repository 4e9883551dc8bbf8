"""What an expression stands for, behind names, views, parameters and functions of the project, and what computed it."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Iterable, Iterator

from autoaccel.analysis.script import Script
from autoaccel.dataflow.abstract_values import Kind
from autoaccel.dataflow.call_arguments import given_as, given_values, unpacks
from autoaccel.dataflow.definitions import Definition
from autoaccel.dataflow.syntax_index import last_name
from autoaccel.library_models.tensor_operations import MATRIX_PRODUCTS
from autoaccel.library_models.tensor_views import VIEW_ATTRIBUTES, VIEWS
from autoaccel.pytorch.step_effects import may_run_model

Place = tuple[Script, ast.expr]

SAME_NUMBERS = VIEWS | frozenset(
    """contiguous clone float double to type cpu cuda repeat tile flatten roll flip gather index_select masked_select
    take take_along_dim repeat_interleave""".split()
)
_GIVEN = frozenset({Kind.NUMBER, Kind.BOOL, Kind.NONE, Kind.STRING, Kind.PARAMETER, Kind.BATCH, Kind.ARRAY})
_BASE, _EXPONENT = 1024.0, 64.0  # of powers that are computed
_PI = frozenset({"math.pi", "numpy.pi", "torch.pi"})


def spelled(script: Script, expression: ast.expr) -> Iterator[Place]:
    """The expressions that compute a value: behind its names, views and parts of it, arguments, results."""
    pending, seen = [(script, expression)], set[ast.AST]()
    while pending:
        file, node = pending.pop()
        if node in seen:
            continue
        seen.add(node)
        match node:
            case ast.Name():
                inner = [each for definition in file.definitions(node) for each in _bound(file, definition)]
            case ast.Subscript(value=value) | ast.NamedExpr(value=value) | ast.Starred(value=value):
                inner = [(file, value)]
            case ast.Attribute(value=value, attr=attr) if attr in VIEW_ATTRIBUTES:
                inner = [(file, value)]
            case ast.IfExp(body=body, orelse=orelse):
                inner = [(file, body), (file, orelse)]
            case ast.Call() if (viewed := _viewed(file, node)) is not None:
                inner = [(file, viewed)]
            case ast.Call():
                inner = _returned(file, node)
            case _:
                inner = []
        if not inner or isinstance(node, ast.Call):
            yield file, node
        pending += inner


def spelled_with(
    script: Script, expression: ast.expr, parts: Callable[[Script, ast.expr], Iterable[Place]]
) -> Iterator[Place]:
    """The same of an expression and, for each that is found, of its `parts`: operands, addends. Each is given once."""
    pending, seen = [(script, expression)], set[ast.AST]()
    while pending:
        for file, node in spelled(*pending.pop()):
            if node not in seen:
                seen.add(node)
                yield file, node
                pending += parts(file, node)


def _bound(script: Script, definition: Definition) -> Iterator[Place]:
    """What a name is given where that is in sight; of `d -= x` what it was, as well."""
    match definition.how, definition.node:
        case "assign" | "walrus", _ if (value := definition.whole or definition.value) is not None:
            yield script, value
        case "param", _ if isinstance(function := definition.scope.node, ast.FunctionDef):
            for other, call in script.callers(function):
                given = other.argument(call, function, definition.name, script)
                if given is not None:
                    yield other, given


def _viewed(script: Script, call: ast.Call) -> ast.expr | None:
    """The tensor that a call gives in another shape, or a part of."""
    if last_name(call.func) not in SAME_NUMBERS:
        return None
    return operand(script, call)


def _returned(script: Script, call: ast.Call) -> list[Place]:
    """What the functions of the project return that a call enters."""
    return [
        (other, each.value)
        for other, function in script.callees(call)
        if function.name != "__init__"
        for each in other.in_scope(function, ast.Return)
        if each.value is not None
    ]


def operand(script: Script, call: ast.Call) -> ast.expr | None:
    """What an operation of torch is done to: x of `torch.log(x)`, `x.log()` and `torch.log(input=x)`."""
    qualified = script.qualname(call.func)
    if qualified is None:
        return call.func.value if isinstance(call.func, ast.Attribute) and not script.callees(call) else None
    if not qualified.startswith("torch.") or script.is_project_name(call.func):
        return None
    return call.args[0] if call.args else given_as(call, "input")


def operands(script: Script, call: ast.Call) -> list[ast.expr]:
    """All that an operation of torch is given, the tensor whose method it is among it, and what a list holds."""
    given = given_values(call)
    if script.qualname(call.func) is None and isinstance(call.func, ast.Attribute):
        given.insert(0, call.func.value)
    return [part for each in given for part in (each.elts if isinstance(each, ast.List | ast.Tuple) else [each])]


def value_of(script: Script, expression: ast.expr, seen: tuple[Definition, ...] = ()) -> float | None:
    """The number that an expression stands for, as it is written: by its name, as a multiple of pi; `seen` are the
    names that led to it."""
    match expression:
        case ast.Constant(value=bool()):
            return None
        case ast.Constant(value=int() | float() as number):
            return number
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            positive = value_of(script, inner, seen)
            return None if positive is None else -positive
        case ast.BinOp(left=left, op=op, right=right):
            first, second = value_of(script, left, seen), value_of(script, right, seen)
            if first is None or second is None:
                return None
            match op:
                case ast.Mult():
                    return first * second
                case ast.Div() if second:
                    return first / second
                case ast.Add():
                    return first + second
                case ast.Sub():
                    return first - second
                case ast.Pow() if 1 <= first <= _BASE and abs(second) <= _EXPONENT:
                    return math.pow(first, second)
            return None
        case ast.Name() if len(definitions := script.definitions(expression)) == 1 and definitions[0] not in seen:
            whole = definitions[0].whole
            return None if whole is None else value_of(script, whole, (*seen, definitions[0]))
        case _:
            return math.pi if script.qualname(expression) in _PI else None


def is_number(script: Script, expression: ast.expr) -> bool:
    """Whether an expression is a number, known or not."""
    return value_of(script, expression) is not None or script.kind(expression) is Kind.NUMBER


def is_product(script: Script, node: ast.expr) -> bool:
    """Whether autocast computes an expression in low precision, whatever its operands are in."""
    match node:
        case ast.BinOp(op=ast.MatMult()):
            return True
        case ast.Call():
            return last_name(node.func) in MATRIX_PRODUCTS and operand(script, node) is not None
        case _:
            return False


def is_computed(script: Script, expression: ast.expr) -> bool:
    """Whether what a region computes in low precision may go into a value: what a model gives, products, parameters of
    functions whose callers are not all seen."""
    pending, seen = [(script, expression)], set[ast.AST]()
    while pending:
        file, node = pending.pop()
        if node in seen or isinstance(node, ast.Constant) or file.kind(node) in _GIVEN:
            continue
        seen.add(node)
        if is_product(file, node) or (isinstance(node, ast.Call) and may_run_model(file, node)):
            return True
        match node:
            case ast.Name():
                for definition in file.definitions(node):
                    if definition.how == "param" and _may_be_anything(file, definition):
                        return True
                    bound = list(_bound(file, definition))
                    if not bound and definition.value is not None:  # parts, elements, additions
                        bound = [(file, definition.value)]
                    pending += bound
            case ast.Call():
                pending += [(file, each) for each in operands(file, node)]
                pending += _returned(file, node)
            case ast.Attribute(value=ast.Name(id="self"), attr=attr):
                pending += _stored(file, attr)
            case _:
                pending += [(file, each) for each in ast.iter_child_nodes(node) if isinstance(each, ast.expr)]
    return False


def _may_be_anything(script: Script, definition: Definition) -> bool:
    """Whether a parameter may be given what is not seen: by callers out of sight, or among `*args`."""
    function = definition.scope.node
    if not isinstance(function, ast.FunctionDef):
        return True
    callers = script.callers(function)
    return callers.missing is not None or any(
        unpacks(call) and other.argument(call, function, definition.name, script) is None for other, call in callers
    )


def _stored(script: Script, attr: str) -> Iterator[Place]:
    """What a file stores under an attribute, but for constructors, which run before."""
    for mention in script.syntax_index.mentions(attr):
        statement = script.statement(mention)
        if isinstance(mention.ctx, ast.Store) and isinstance(statement, ast.Assign | ast.AugAssign | ast.AnnAssign):
            if getattr(script.function(mention), "name", "") != "__init__" and statement.value is not None:
                yield script, statement.value
