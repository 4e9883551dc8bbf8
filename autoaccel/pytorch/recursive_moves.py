"""Helpers that move what containers hold by calling themselves: `[to_device(x, device) for x in batch]`.

What such a helper does with a tensor, and with a container that is exactly a dict, list or tuple, its tests of the type
say. What they say of other types (subclasses, dataclasses) is left open.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from autoaccel.analysis.bound_receivers import is_bound
from autoaccel.analysis.script import Script
from autoaccel.dataflow.call_arguments import bind_argument
from autoaccel.dataflow.query import once
from autoaccel.pytorch.loader_loops import BatchTransfer

CONTAINERS = ("dict", "list", "tuple")
_TENSOR = "Tensor"
_TYPES = {
    **{f"builtins.{name}": frozenset({name}) for name in CONTAINERS},
    **dict.fromkeys(("torch.Tensor", "torch.tensor.Tensor"), frozenset({_TENSOR})),
    **{
        f"{module}.{name}": of
        for module in ("collections.abc", "collections", "typing")
        for name, of in {
            "Mapping": frozenset({"dict"}),
            "MutableMapping": frozenset({"dict"}),
            "Sequence": frozenset({"list", "tuple"}),
            "MutableSequence": frozenset({"list"}),
            "Iterable": frozenset({_TENSOR, *CONTAINERS}),
        }.items()
    },
    **{
        f"typing.{alias}": frozenset({name}) for alias, name in (("Dict", "dict"), ("List", "list"), ("Tuple", "tuple"))
    },
    # none of the four is one of these
    **dict.fromkeys(
        [f"builtins.{name}" for name in "str bytes bytearray int float bool complex set".split()], frozenset()
    ),
    **dict.fromkeys(
        ("numpy.ndarray", "torch.nn.Module", "torch.nn.utils.rnn.PackedSequence", "numbers.Number"), frozenset()
    ),
}
_HAVE = {
    "to": {_TENSOR},
    "cuda": {_TENSOR},
    "items": {"dict"},
    "keys": {"dict"},
    "values": {"dict", _TENSOR},
    "_fields": set(),
}


@once
def parameter(script: Script, transfer: BatchTransfer) -> str | None:
    """The parameter, moved by this call, for whose elements its function calls itself; None where it does not."""
    function, receiver = script.function(transfer.call), transfer.call.func
    if not isinstance(function, ast.FunctionDef) or not isinstance(receiver, ast.Attribute):
        return None
    name = receiver.value
    if not isinstance(name, ast.Name) or not any(True for _ in _own_calls(script, function)):
        return None
    return name.id if any(each.how == "param" for each in script.definitions(name)) else None


@once
def looked_into(script: Script, transfer: BatchTransfer) -> tuple[str, ...]:
    """The types, of `CONTAINERS`, all of whose elements the function of such a call moves as well, in containers of
    which it is exactly the type, however deep they lie. None where it is not certain that it moves each tensor."""
    function, name = script.function(transfer.call), parameter(script, transfer)
    if name is None or not isinstance(function, ast.FunctionDef) or function.decorator_list:
        return ()
    if any(True for kind in (ast.Yield, ast.YieldFrom) for _ in script.in_scope(function, kind)):
        return ()
    walk = _Walk(script, function, name, transfer.call)
    if not all(walk.hands_on(call) for call in _own_calls(script, function)) or not walk.covers(function.body, _TENSOR):
        return ()
    return tuple(each for each in CONTAINERS if walk.covers(function.body, each))


def is_other_type(script: Script, name: ast.Name, transfer: BatchTransfer) -> bool:
    """Whether a name is the parameter of such a function, where that is surely no tensor: it is given back, for it is
    neither moved nor looked into, or gets its elements anew (`batch[k] = to_device(batch[k], device)`)."""
    function = script.function(transfer.call)
    if parameter(script, transfer) != name.id or script.function(name) is not function:
        return False
    match script.parent(name):
        case ast.Return():
            fits = True
        case ast.IfExp(test=test):
            fits = test is not name
        case ast.Subscript(ctx=ast.Store()) as item if isinstance(function, ast.FunctionDef):
            fits = getattr(script.statement(item), "value", None) in (*_own_calls(script, function),)
        case _:
            fits = False
    return fits and bool(looked_into(script, transfer))


def _own_calls(script: Script, function: ast.FunctionDef) -> Iterator[ast.Call]:
    return (
        call for call in script.within(function, ast.Call) if function in {each for _, each in script.callees(call)}
    )


class _Walk:
    """What a function does with an object, by its type."""

    def __init__(self, script: Script, function: ast.FunctionDef, name: str, move: ast.Call) -> None:
        self.script = script
        self.function = function
        self.name = name
        self.move = move

    def hands_on(self, call: ast.Call) -> bool:
        """Whether a call of the function itself passes all but the object as it is: the same device above all."""
        arguments = self.function.args
        if arguments.vararg or arguments.kwarg or len(self.script.values(call.func)) != 1:
            return False  # another function may be called, which does otherwise
        bound = is_bound(self.script, self.function, self.script, call)
        named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs][1 if bound else 0 :]
        return all(
            isinstance(given := bind_argument(self.function, call, each.arg, bound=bound), ast.Name)
            and given.id == each.arg
            and all(definition.how == "param" for definition in self.script.definitions(given))
            for each in named
            if each.arg != self.name
        )

    def covers(self, statements: Sequence[ast.stmt], kind: str) -> bool:
        """Whether an object of a type is moved, or each of its elements handed on, whichever way it takes."""
        for index, statement in enumerate(statements):
            match statement:
                case ast.If(test=test, body=body, orelse=orelse):
                    holds, rest = self._holds(test, kind), statements[index + 1 :]
                    ways = [body] * (holds is not False) + [orelse] * (holds is not True)
                    return all(self.covers([*way, *rest], kind) for way in ways)
                case ast.Return(value=value) if value is not None:
                    return self._moves(value, kind)
                case ast.Assign(value=value) | ast.Expr(value=value):
                    if self._moves(value, kind):
                        return True
                    if any(isinstance(each, ast.Name) and each.id == self.name for each in self._stored(statement)):
                        return False
                case ast.For(target=target, iter=iterated, body=body, orelse=[]):
                    plain = all(isinstance(each, ast.Assign | ast.Expr) for each in body)
                    calls = [call for each in body for call in self._calls_in(each)]
                    if plain and any(self._is_element(call, target, iterated, kind) for call in calls):
                        return True
                case ast.AnnAssign(target=ast.Name(id=bound)) if bound != self.name:
                    continue
                case ast.Pass():
                    continue
                case _:
                    return False
        return False

    def _stored(self, statement: ast.stmt) -> Iterator[ast.expr]:
        return (each for each in self.script.within(statement, ast.Name) if isinstance(each.ctx, ast.Store))

    def _moves(self, value: ast.expr, kind: str) -> bool:
        match value:
            case ast.IfExp(test=test, body=body, orelse=orelse):
                holds = self._holds(test, kind)
                ways = [body] * (holds is not False) + [orelse] * (holds is not True)
                return all(self._moves(way, kind) for way in ways)
            case ast.Call() if kind == _TENSOR:
                return value is self.move and self._is_object(value.func.value)  # type: ignore[attr-defined]
            case ast.ListComp(elt=made, generators=[part]) | ast.DictComp(value=made, generators=[part]):
                return not part.ifs and self._is_element(made, part.target, part.iter, kind)
            case ast.Call(func=function, args=[ast.GeneratorExp(elt=made, generators=[part])], keywords=[]):
                calls = made.elts if isinstance(made, ast.Tuple) else [made]
                of_all = not part.ifs and self._makes_container(function)
                return of_all and any(self._is_element(each, part.target, part.iter, kind) for each in calls)
            case ast.Call(args=[ast.Starred(value=inner)] | [inner], keywords=[]):
                return not isinstance(inner, ast.GeneratorExp) and self._moves(inner, kind)
            case _:
                return False

    def _makes_container(self, function: ast.expr) -> bool:
        """`tuple(…)`, `type(batch)(…)`: what takes all that a generator gives, here and now."""
        match function:
            case ast.Name(id=name):
                return name in CONTAINERS and not self.script.definitions(function)
            case ast.Call(func=ast.Name(id="type"), args=[owner]) | ast.Attribute(value=owner, attr="__class__"):
                return self._is_object(owner)
            case _:
                return False

    def _calls_in(self, statement: ast.stmt) -> Iterator[ast.expr]:
        """The calls that a simple statement makes whatever its parts are: `out[k] = f(v)`, `out.append(f(v))`."""
        match statement:
            case ast.Assign(value=value):
                yield value
            case ast.Expr(value=ast.Call(func=ast.Attribute(attr="append"), args=[value])):
                yield value

    def _is_element(self, call: ast.expr, target: ast.expr, iterated: ast.expr, kind: str) -> bool:
        """Whether a call hands the element on that a loop over the object gives."""
        if not isinstance(call, ast.Call) or self.function not in {each for _, each in self.script.callees(call)}:
            return False
        bound = is_bound(self.script, self.function, self.script, call)
        given = bind_argument(self.function, call, self.name, bound=bound)
        match iterated, target:
            case ast.Call(func=ast.Name(id="list" | "tuple"), args=[inner], keywords=[]), _ if inner is not call:
                return self._is_element(call, target, inner, kind)
            case ast.Call(func=ast.Attribute(value=owner, attr="items")), ast.Tuple(elts=[_, ast.Name(id=element)]):
                fits = kind == "dict" and self._is_object(owner)
            case ast.Call(func=ast.Attribute(value=owner, attr="values")), ast.Name(id=element):
                fits = kind == "dict" and self._is_object(owner)
            case ast.Call(func=ast.Name(id="enumerate"), args=[owner]), ast.Tuple(elts=[_, ast.Name(id=element)]):
                fits = kind in ("list", "tuple") and self._is_object(owner)
            case ((ast.Call(func=ast.Attribute(value=owner, attr="keys")) | owner), ast.Name(id=element)) if (
                kind == "dict"
            ):
                return (
                    self._is_object(owner)
                    and isinstance(given, ast.Subscript)
                    and self._is_object(given.value)
                    and isinstance(given.slice, ast.Name)
                    and given.slice.id == element
                )
            case owner, ast.Name(id=element):
                fits = kind in ("list", "tuple") and self._is_object(owner)
            case _:
                return False
        return fits and isinstance(given, ast.Name) and given.id == element

    def _is_object(self, expression: ast.expr) -> bool:
        return (
            isinstance(expression, ast.Name)
            and expression.id == self.name
            and all(each.how == "param" for each in self.script.definitions(expression))
        )

    def _holds(self, test: ast.expr, kind: str) -> bool | None:
        """Whether a test holds for an object of exactly this type; None where that is not known."""
        match test:
            case ast.UnaryOp(op=ast.Not(), operand=inner):
                held = self._holds(inner, kind)
                return None if held is None else not held
            case ast.BoolOp(op=operator, values=parts):
                found, decides = [self._holds(each, kind) for each in parts], isinstance(operator, ast.Or)
                return decides if decides in found else None if None in found else not decides
            case ast.Call(func=ast.Name(id="isinstance"), args=[owner, types]) if self._is_object(owner):
                return self._is_one_of(types, kind)
            case ast.Call(func=ast.Name(id="hasattr"), args=[owner, ast.Constant(value=str(attribute))]):
                known = self._is_object(owner) and attribute in _HAVE
                return kind in _HAVE[attribute] if known else None
            case ast.Call(func=function, args=[owner]) if self._is_object(owner):
                return kind == _TENSOR if self.script.qualname(function) == "torch.is_tensor" else None
            case ast.Compare(left=owner, ops=[ast.Is()], comparators=[ast.Constant(value=None)]):
                return False if self._is_object(owner) else None
            case ast.Compare(
                left=ast.Call(func=ast.Name(id="type"), args=[owner]),
                ops=[ast.Is() | ast.Eq() | ast.In()],
                comparators=[types],
            ) if self._is_object(owner):
                same = self._is_one_of(types, kind)
                return None if kind == _TENSOR and same else same  # it may be a kind of tensor
            case _:
                return None

    def _is_one_of(self, types: ast.expr, kind: str) -> bool | None:
        found = [self._types(each) for each in (types.elts if isinstance(types, ast.Tuple | ast.List) else [types])]
        if any(each is not None and kind in each for each in found):
            return True
        return None if None in found else False

    def _types(self, name: ast.expr) -> frozenset[str] | None:
        qualified = self.script.qualname(name)
        if qualified is None and isinstance(name, ast.Name) and not self.script.definitions(name):
            qualified = f"builtins.{name.id}"
        return _TYPES.get(qualified or "")
